"""How surprised a language model is by text that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privet.errors import DataError

_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """The exponential of the mean loss of a word: as if it chose among that many words.

    Args:
        perplexity: 1 at best; the size of the vocabulary for a model that knows nothing.
        count: the number of sequences.
        words: the number of words that were predicted.
    """

    perplexity: float
    count: int
    words: int

    @property
    def overall(self) -> float:
        """The perplexity over all words."""
        return self.perplexity

    def to_json(self) -> dict[str, Any]:
        """The perplexity as plain JSON values."""
        return asdict(self)


def perplexity(
    logits_of: Callable[[Tensor], Tensor], inputs: Tensor, targets: Tensor
) -> Perplexity:
    """Measure perplexity over all words of all sequences.

    Args:
        logits_of: from inputs (N, T) to (N, T, words).
        inputs: word numbers.
        targets: word numbers (N, T); negative ones are not predicted.
    """
    losses, words = 0.0, 0
    with torch.no_grad():
        for seen, wanted in zip(
            torch.split(inputs, _BATCH), torch.split(targets, _BATCH), strict=True
        ):
            logits = logits_of(seen).flatten(0, 1).cpu()
            told = wanted.flatten().cpu()
            chosen = told >= 0
            losses += float(F.cross_entropy(logits[chosen], told[chosen], reduction="sum"))
            words += int(chosen.sum())
    if not words:
        raise DataError("There are no words to measure perplexity on: give some.")
    mean = losses / words
    value = math.exp(mean) if mean < 700 else math.inf
    return Perplexity(perplexity=value, count=len(targets), words=words)
