"""Gradients through weight standardisation, and their norms without writing them out.

A standardised row is gain · n with n = (w − mean) / τ, and n is a unit vector unless τ is at its
floor. So ∂(gain · n)/∂w = (gain / τ) · (I − 11ᵀ/d − n nᵀ): a projection, times a number.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from privet.learn.calls import Call
from privet.models import StandardisedConv2d

_SMALLEST_GAIN = 1e-3


@dataclass(frozen=True)
class Standardisation:
    """One layer at its present weights: rows n (o, d), gain / τ, gain, and where n has length 1.

    Args:
        has_bias: whether its outputs are more than gain · n·a_t.
    """

    rows: Tensor
    stretch: Tensor
    gain: Tensor
    unit: Tensor
    has_bias: bool

    @classmethod
    def of(cls, layer: StandardisedConv2d, weight: Tensor) -> Standardisation:
        """The standardisation of a layer whose weights are given as rows (o, d), in any order."""
        with torch.no_grad():
            centred = weight - weight.mean(1, keepdim=True)
            squares = centred.square().sum(1)
            floor = squares.clamp(min=layer.floor)
            gain = layer.gain.flatten()
            return cls(
                rows=centred * floor.rsqrt()[:, None],
                stretch=gain * floor.rsqrt(),
                gain=gain.clone(),
                unit=(squares > layer.floor).to(weight.dtype),
                has_bias=layer.bias is not None,
            )

    def pull_back_(self, matrices: Tensor) -> Tensor:
        """Turn gradients (…, o, d) of standardised weights into those of weights, in place.

        Returns the gradients (…, o) of the gain.
        """
        gains: Tensor = torch.linalg.vecdot(matrices, self.rows)
        means = matrices.mean(-1)
        matrices *= self.stretch[:, None]
        lost = (gains * self.unit * self.stretch)[..., None]
        matrices.addcmul_(lost, self.rows, value=-1).sub_((means * self.stretch)[..., None])
        return gains

    def adjoint(self, weights: Tensor, gains: Tensor | None) -> Tensor:
        """The matrix M with ⟨M, g⟩ = ⟨(weights, gains), what `pull_back_` makes of g⟩ for all g.

        Here g is a gradient of standardised weights, and a projection is its own adjoint.
        """
        found = weights.clone()
        _ = self.pull_back_(found)
        return found if gains is None else found + gains[:, None] * self.rows

    def knows_norms(self, calls: Sequence[Call]) -> bool:
        """Whether n·a_t can be read off the layer's outputs.

        It cannot under a bias: what rounds away beneath a large one is lost.
        """
        return (
            not self.has_bias
            and bool(self.gain.abs().min() >= _SMALLEST_GAIN)
            and all(call.outputs_unchanged for call in calls)
        )

    def correction(
        self, inputs: Tensor, errors: Tensor, outputs: Tensor, names: Container[str]
    ) -> Tensor:
        """What the projection takes from the squared norm of each unit, plus what the gain adds."""
        width = self.rows.shape[1]
        ones = torch.bmm(errors, inputs.sum(2, keepdim=True)).squeeze(2)
        rows = (errors * outputs).sum(2) / self.gain
        lost = (ones.square() / width + self.unit * rows.square()) * self.stretch.square()
        found = -lost.sum(1, dtype=torch.float64)
        return found + rows.square().sum(1, dtype=torch.float64) if "gain" in names else found
