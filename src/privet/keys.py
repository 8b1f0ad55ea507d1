"""Generators that depend on a few numbers alone, so that any batch can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def keyed(*numbers: int) -> torch.Generator:
    """Make a generator that is seeded by some numbers; other numbers give independent draws."""
    bits = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(bits[0] >> 1))


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Draw a global random state from the generator, and put the old one back afterwards."""
    seed = torch.randint(2**62, (), generator=generator, device=generator.device)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(int(seed))
        yield
