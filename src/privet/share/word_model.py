"""A private language model as anyone may use it: text in, probable words and perplexity out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from privet.data.text import BLANK, BLANK_NUMBER, numbered
from privet.errors import ConfigError
from privet.share.classifier import Prediction, best_of, check_top_k

if TYPE_CHECKING:
    from privet.privacy import Certificate


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WordModel:
    """A trained language model with its vocabulary and its certificate.

    Args:
        module: from word numbers (N, T) to logits (N, T, words).
        vocabulary: the words, in the order of their numbers.
        length: the length of the longest sequence.
        causal: whether it predicts the next word; otherwise words that are blanked out.
        certificate: the certificate of the run that trained it.
    """

    module: nn.Module
    vocabulary: tuple[str, ...]
    length: int
    causal: bool
    certificate: Certificate

    def __repr__(self) -> str:
        promise = self.certificate.guarantee if self.certificate.private else "NOT private"
        task = "the next word" if self.causal else "blanked-out words"
        return f"WordModel({task}, {len(self.vocabulary):,} words, {promise})"

    def predict(self, text: str, *, top_k: int = 5) -> list[Prediction]:
        """The most probable words: the one that comes next, or the first `<blank>` of a text.

        Args:
            text: words with spaces between them; the last ones count if there are too many.
            top_k: how many words.
        """
        check_top_k(top_k)
        words = text.split()
        place = len(words)
        if not self.causal:
            if BLANK not in words or words.index(BLANK) >= self.length:
                raise ConfigError(f"the text has no {BLANK} among its first {self.length} words.")
            place = words.index(BLANK)
        numbers = self._numbers(words)
        with torch.no_grad():
            logits: Tensor = self.module(numbers)[0, min(place, numbers.shape[1] - 1)]
        return best_of(logits.softmax(0).cpu().numpy(), self.vocabulary, top_k)

    def _numbers(self, words: list[str]) -> Tensor:
        if self.causal:
            words = [BLANK, *words[max(0, len(words) - self.length + 1) :]]
        found = numbered(np.array([words[: self.length]], dtype=object), self.vocabulary)
        blanks = [[word == BLANK for word in words[: self.length]]]
        device = next(self.module.parameters()).device
        return torch.from_numpy(np.where(blanks, BLANK_NUMBER, found)).to(device)
