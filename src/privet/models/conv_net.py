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
        strided: convolutions halve the image themselves, the second and third with twice the
            channels: several times as fast as pooling.
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
        strided: bool = False,
        activation: Activation = nn.ReLU,
        groups: int = 4,
    ) -> None:
        super().__init__()
        check_sizes(num_classes=num_classes, channels=channels, width=width)
        if image_size < 2**_DEPTH:
            raise ConfigError(f"image_size is {image_size}; give 8 or more.")
        stride = 2 if strided else 1
        # Padding lets a strided convolution keep an odd row, which pooling drops.
        side = (image_size + 2**_DEPTH - 1 if strided else image_size) // 2**_DEPTH
        layers: list[nn.Module] = []
        inputs = channels
        for outputs in (width, *[stride * width] * (_DEPTH - 1)):
            conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1)
            layers += [conv, group_norm(groups, outputs), activation()]
            if not strided:
                layers.append(nn.AvgPool2d(2))
            inputs = outputs
        self.image_size = image_size
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.classifier = nn.Linear(inputs * side**2, num_classes)

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
