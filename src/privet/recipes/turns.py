"""Which label comes when, so that every prefix of a synthetic set has the shares of the whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Turns:
    """Some places of an endless sequence of labels.

    Args:
        labels: the class at each place.
        ranks: how many earlier places have the same class.
    """

    labels: Tensor
    ranks: Tensor


def even(num_classes: int) -> Tensor:
    """Return the shares of classes that are equally large."""
    return torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)


def in_turn(shares: Tensor, start: int, count: int) -> Turns:
    """Labels from place `start` on, in Webster's order: the k-th of a class is at (k + ½) / share.

    Every prefix is the apportionment of as many seats by the Sainte-Laguë method; equal shares take
    turns. A place depends on the shares and its number alone.
    """
    classes = shares.nonzero().flatten()
    own = shares.double()[classes]
    # Rounding moves the number of places before a time by half a place for each class at most.
    slack = len(classes)
    first = ((start - slack) * own + 0.5).floor().clamp(min=0)
    last = ((start + count + slack) * own + 0.5).ceil()
    sizes = (last - first).long()
    which = torch.repeat_interleave(torch.arange(len(classes)), sizes)
    within = torch.arange(len(which)) - (sizes.cumsum(0) - sizes)[which]
    ranks = first.long()[which] + within
    order = ((ranks + 0.5) / own[which]).argsort(stable=True)
    begin = start - int(first.sum())
    chosen = order[begin : begin + count]
    return Turns(classes[which[chosen]], ranks[chosen])
