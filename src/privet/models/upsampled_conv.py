"""Enlarging and convolving in one step."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class UpsampledConv(nn.Module):
    """A 3×3 convolution of an image enlarged twice, each pixel to a square of four.

    Neighbours are equal in the enlarged image, so that four of nine products suffice: a transposed
    convolution, whose kernel is the sum of the given one at the four places in a square.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Enlarge and convolve maps; both sides are doubled."""
        kernel = F.pad(self.conv.weight.flip(2, 3).transpose(0, 1), (1, 1, 1, 1))
        kernel = kernel[:, :, 1:] + kernel[:, :, :-1]
        kernel = kernel[..., 1:] + kernel[..., :-1]
        return F.conv_transpose2d(x, kernel, self.conv.bias, stride=2, padding=1)
