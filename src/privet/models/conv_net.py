"""The three-layer ConvNet of dataset distillation: small, and quick on a CPU.

References:
    Zhao et al., Dataset Condensation with Gradient Matching, 2021; here with GroupNorm.
"""

from __future__ import annotations

from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models.layers import Activation, check_sizes, group_norm

_DEPTH = 3


class ConvNet(nn.Module):
    """(3×3 convolution, GroupNorm, activation, 2×2 average pooling) × 3, then a linear classifier.

    Args:
        num_classes: the number of logits.
        channels: of an image.
        image_size: the side of an image, at least 8.
        width: channels of every layer.
        activation: an nn.Module class.
        groups: of a GroupNorm; a divisor of the width.
    """

    def __init__(
        self,
        num_classes: int,
        channels: int = 3,
        *,
        image_size: int = 32,
        width: int = 128,
        activation: Activation = nn.ReLU,
        groups: int = 4,
    ) -> None:
        super().__init__()
        check_sizes(num_classes=num_classes, channels=channels, width=width)
        side = image_size // 2**_DEPTH
        if side < 1:
            raise ConfigError(f"image_size is {image_size}; give 8 or more.")
        layers: list[nn.Module] = []
        for inputs in (channels, *[width] * (_DEPTH - 1)):
            conv = nn.Conv2d(inputs, width, 3, padding=1)
            layers += [conv, group_norm(groups, width), activation(), nn.AvgPool2d(2)]
        self.image_size = image_size
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.classifier = nn.Linear(width * side**2, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images (N, C, H, W)."""
        features = self.features(images)
        if features.shape[1] != self.classifier.in_features:
            given = "×".join(str(side) for side in images.shape[2:])
            raise ConfigError(
                f"images are {given}; make the ConvNet with their size,"
                f" as its image_size is {self.image_size}."
            )
        logits: Tensor = self.classifier(features)
        return logits
