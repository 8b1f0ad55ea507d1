"""Frozen public networks that turn images into features.

Features of private images are as private as the images: an encoder spends nothing and hides
nothing. What it must not do is learn from them or mix them, so it is frozen and in eval mode.
"""

from __future__ import annotations

import copy
from typing import Self

from torch import Tensor, nn

from privet.models.layers import check_sizes
from privet.models.resize import fitted


class Encoder(nn.Module):
    """Images (N, C, H, W) in [-1, 1] to features (N, num_features), by a frozen copy of a network.

    The copy stays in eval mode, so that an image's features do not depend on its batch. None of its
    parameters needs a gradient: no graph is kept, unless gradients are to reach the images.

    Args:
        network: maps images to one vector each, such as `WideResNet(...).features`.
        num_features: the length of that vector.
        channels: what the network expects; grey images are repeated to fit. None takes any.
        image_size: what images are resized to; None leaves them.
    """

    def __init__(
        self,
        network: nn.Module,
        num_features: int,
        *,
        channels: int | None = None,
        image_size: int | None = None,
    ) -> None:
        super().__init__()
        check_sizes(num_features=num_features)
        self.network = copy.deepcopy(network)
        self.num_features = num_features
        self.channels = channels
        self.image_size = image_size
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Stay in eval mode, also inside a model that is trained."""
        return super().train(False)

    def forward(self, images: Tensor) -> Tensor:
        """Features of images."""
        ready = fitted(images, channels=self.channels, image_size=self.image_size)
        features: Tensor = self.network(ready)
        return features
