"""Several weights of one run as one classifier: post-processing, so it costs nothing.

References:
    Section 3.2 and Appendix F of Nasr et al. 2023: averages of the last n weights, majority votes
    and mean logits of the models that they make.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.learn.gradients import Blocks, at_weights, combined


def mean_weights(ring: Sequence[Blocks]) -> Blocks:
    """The average of several weights of one model."""
    _require_some(ring)
    first, *others = ring
    return combined(lambda *blocks: torch.stack(blocks).mean(0), first, *others)


def mean_logits(model: nn.Module, ring: Sequence[Blocks], inputs: Tensor) -> Tensor:
    """The average of the logits that a model gives at each of several weights."""
    return torch.stack(_logits(model, ring, inputs)).mean(0)


def vote_shares(model: nn.Module, ring: Sequence[Blocks], inputs: Tensor) -> Tensor:
    """The share of models that choose each class; ties go to the lower class number."""
    logits = _logits(model, ring, inputs)
    votes = [F.one_hot(each.argmax(1), each.shape[1]) for each in logits]
    return torch.stack(votes).float().mean(0)


def _logits(model: nn.Module, ring: Sequence[Blocks], inputs: Tensor) -> list[Tensor]:
    _require_some(ring)
    found = []
    for weights in ring:
        with at_weights(model, weights), torch.no_grad():
            found.append(model(inputs))
    return found


def _require_some(ring: Sequence[Blocks]) -> None:
    if not ring:
        raise ConfigError("An ensemble needs kept weights: train with keep_last of at least 1.")
