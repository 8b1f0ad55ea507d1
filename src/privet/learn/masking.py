"""Slot 1 of equation 1 for masked language models: views of a sequence with words blanked out."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from privet.errors import ConfigError
from privet.learn.objective import IGNORED, Examples
from privet.learn.views import Surroundings


@dataclass(frozen=True, kw_only=True)
class MaskedWords:
    """Sequences with some words blanked out, which alone are predicted (Devlin et al. 2019).

    Args:
        num_views: K, the number of views, each with other blanks.
        share: the average share of words that are blanked out.
        blank: the number of the word that stands in their place.
    """

    num_views: int = 1
    share: float = 0.15
    blank: int = 1
    needs_public: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.num_views < 1:
            raise ConfigError(
                f"num_views is {self.num_views}; every example needs at least one view."
            )
        if not 0 < self.share < 1:
            raise ConfigError(f"share is {self.share:g}; blank out more than 0 and less than 1.")

    def __call__(self, rows: Examples, around: Surroundings) -> Examples:
        """Make K views of every sequence, each with its own blanks."""
        return self._blanked(rows, self.num_views, around.generator)

    def single(self, rows: Examples, generator: torch.Generator) -> Examples:
        """Make one view of every sequence."""
        return self._blanked(rows, 1, generator)

    def _blanked(self, rows: Examples, count: int, generator: torch.Generator) -> Examples:
        inputs, targets = (each.repeat_interleave(count, 0) for each in (rows.inputs, rows.targets))
        hidden = (torch.rand(inputs.shape, generator=generator) < self.share).to(inputs.device)
        return Examples(
            torch.where(hidden, self.blank, inputs), torch.where(hidden, targets, IGNORED)
        )
