"""AutoAugment: policies that were learned on CIFAR-10 (Cubuk et al., 2019), by kornia."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from privet.keys import seeded

_TOGETHER = 4  # images under one policy, which kornia draws for a whole batch


def auto_augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Make one view of each image (N, C, H, W) in [-1, 1] by AutoAugment's policies."""
    coloured = images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images
    with torch.no_grad(), seeded(generator):  # kornia draws from the global one
        found = [_policies()((part + 1) / 2) for part in torch.split(coloured, _TOGETHER)]
    views = 2 * torch.cat(found) - 1
    return views.mean(1, keepdim=True) if images.shape[1] == 1 else views


@cache
def _policies() -> Any:
    from kornia.augmentation.auto import AutoAugment  # which takes a second to import

    return AutoAugment("cifar10")
