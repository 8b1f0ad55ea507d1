"""ResNet-9 as it is trained under differential privacy: GroupNorm, and one after each shortcut.

References:
    Klause et al., Differentially Private Training of Residual Networks with Scale Normalisation,
    2022. Knolle et al., Bias-Aware Minimisation, 2023. Widths are those of the 9-layer network of
    the DAWNBench competition (Page, How to Train Your ResNet, 2018), the 6.62M of later papers with
    100 classes.
"""

from __future__ import annotations

from torch import Tensor, nn

from privet.models.layers import Activation, check_sizes, group_norm


class ResNet9(nn.Module):
    """Eight 3×3 convolutions, four of them in two residual blocks, and a linear classifier.

    Args:
        num_classes: the number of logits.
        channels: of an image, whose side is at least 8.
        width: channels of the first layer; the last has 8 times as many.
        activation: an nn.Module class.
        groups: of a GroupNorm; in layers with fewer channels, each is a group.
    """

    def __init__(
        self,
        num_classes: int,
        channels: int = 3,
        *,
        width: int = 64,
        activation: Activation = nn.Mish,
        groups: int = 32,
    ) -> None:
        super().__init__()
        check_sizes(num_classes=num_classes, channels=channels, width=width)

        def conv(inputs: int, outputs: int) -> nn.Sequential:
            norm = group_norm(min(groups, outputs), outputs)
            layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
            return nn.Sequential(layer, norm, activation())

        def residual(size: int) -> _Residual:
            norm = group_norm(min(groups, size), size)
            return _Residual(nn.Sequential(conv(size, size), conv(size, size)), norm)

        self.features = nn.Sequential(
            conv(channels, width),
            *(conv(width, 2 * width), nn.MaxPool2d(2), residual(2 * width)),
            *(conv(2 * width, 4 * width), nn.MaxPool2d(2)),
            *(conv(4 * width, 8 * width), nn.MaxPool2d(2), residual(8 * width)),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
        )
        self.classifier = nn.Linear(8 * width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images (N, C, H, W)."""
        logits: Tensor = self.classifier(self.features(images))
        return logits


class _Residual(nn.Module):
    """The sum of both branches, brought back to one scale (ScaleNorm of Klause et al.)."""

    def __init__(self, branch: nn.Module, scale_norm: nn.Module) -> None:
        super().__init__()
        self.branch = branch
        self.scale_norm = scale_norm

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.scale_norm(x + self.branch(x))
        return y
