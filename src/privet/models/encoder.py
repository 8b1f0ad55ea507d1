"""Frozen public networks that turn images into features.

Features of private images are as private as the images: an encoder spends nothing and hides
nothing. What it must not do is learn from them or mix them: it is frozen, in eval mode, and tried.
"""

from __future__ import annotations

import copy
from typing import Self

from torch import Tensor, nn

from privet.models.independence import refuse_mixing_layers, tried_once
from privet.models.layers import check_sizes
from privet.models.resize import fitted


class Encoder(nn.Module):
    """Images (N, C, H, W) in [-1, 1] to features (N, num_features), by a frozen copy of a network.

    The copy stays in eval mode. None of its parameters needs a gradient: no graph is kept, unless
    gradients are to reach the images.

    Guarantees:
        An image's features depend on that image alone. A network that mixes images, remembers them
        or draws random numbers is refused when it is first used, if random images show it to.

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
        refuse_mixing_layers(self.network)

    def train(self, mode: bool = True) -> Self:
        """Stay in eval mode, also inside a model that is trained."""
        return super().train(False)

    def forward(self, images: Tensor) -> Tensor:
        """Features of images."""
        ready = fitted(images, channels=self.channels, image_size=self.image_size)
        tried_once(self, lambda trial: lambda each: [trial.network(each)], ready)
        features: Tensor = self.network(ready)
        return features
