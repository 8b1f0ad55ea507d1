"""Convolutions whose filters have mean zero and norm one, whatever noise is added to them.

References:
    Qiao et al., Micro-Batch Training with Batch-Channel Normalization and Weight Standardization,
    2019. Brock et al., Characterizing Signal Propagation to Close the Performance Gap in
    Unnormalized ResNets, 2021 (the scale 1/√fan_in). De et al., Unlocking High-Accuracy
    Differentially Private Image Classification through Scale, 2022, as in jax_privacy's WSConv2D.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class StandardisedConv2d(nn.Conv2d):
    """A convolution with scaled weight standardisation.

    With mean and var (the biased one) over the fan_in weights w of an output channel,

        ŵ = gain · (w − mean) / √max(var · fan_in, floor).

    At the floor the denominator is constant: no gradient flows through var there.

    Args:
        gain: learn one per output channel, from 1; without it `self.gain` is a buffer of ones.
        bias: learn one per output channel, from 0.
    """

    floor = 1e-4
    gain: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        *,
        gain: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, bias=bias)
        if gain:
            self.gain = nn.Parameter(torch.ones(out_channels))
        else:
            self.register_buffer("gain", torch.ones(out_channels), persistent=False)

    def reset_parameters(self) -> None:
        """Filters of unit norm: their scale sets that of the gradient, though not of the output."""
        fan_in = self.weight[0].numel()
        nn.init.normal_(self.weight, std=fan_in**-0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def standardised_weight(self) -> Tensor:
        """The ŵ of the formula above, of the shape of `self.weight`."""
        rows = self.weight.flatten(1)
        centred = rows - rows.mean(1, keepdim=True)
        squares = centred.square().sum(1)  # var · fan_in, much faster than torch.var
        scale = squares.clamp(min=self.floor).rsqrt() * self.gain
        return (centred * scale[:, None]).view_as(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Convolve with the standardised weight."""
        output: Tensor = self._conv_forward(input, self.standardised_weight(), self.bias)
        return output
