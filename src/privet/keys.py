"""Generators that depend on a few numbers alone, so that any batch can be made again."""

from __future__ import annotations

import numpy as np
import torch


def keyed(*numbers: int) -> torch.Generator:
    """Make a generator that is seeded by some numbers; other numbers give independent draws."""
    bits = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(bits[0] >> 1))
