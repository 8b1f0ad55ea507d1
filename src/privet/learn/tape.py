"""The batched engines: one pass over many units, then gradients layer by layer from what it noted.

`batched` writes every unit's gradient out. `ghost` does so only where that is cheaper than knowing
norms and weighted sums without it; scales and several weights need it everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from privet.hedge import Units, double_sum, long_norms
from privet.learn.calls import Call, Unsupported, recorded
from privet.learn.gradients import Blocks, at_weights, trainable
from privet.learn.layers import EmbeddingRule, NormRule, Rule
from privet.learn.loop import LoopSum
from privet.learn.matrices import MatrixRule
from privet.learn.objective import Examples, Objective
from privet.models import StandardisedConv2d

AnyRule = Rule[Any]

_PARAMETERS: dict[type[AnyRule], set[str]] = {
    MatrixRule: {"weight", "bias", "gain"},
    NormRule: {"weight", "bias"},
    EmbeddingRule: {"weight"},
}


@dataclass(frozen=True)
class _Noted:
    """What is kept of a batch between its norms and its sum."""

    squares: Tensor
    written: dict[str, tuple[AnyRule, Tensor]]
    ghosts: list[tuple[AnyRule, list[Call]]]


class TapeSum:
    """A summand that takes the gradients of many units in one pass.

    Args:
        objective: what is differentiated for each unit.
        ghost: compute norms without writing gradients out where that is cheaper.

    Raises:
        Unsupported: for a model with parameters in layers that no rule knows.
    """

    def __init__(self, objective: Objective, *, ghost: bool) -> None:
        self._objective = objective
        views_per_pass = objective.num_views // len(objective.weights)
        self._rules = rules_for(objective.model, views_per_pass)
        self._may_ghost = ghost and may_ghost(objective, self._rules)
        self._kept: WeakKeyDictionary[Units, _Noted] = WeakKeyDictionary()
        self._loop = LoopSum(objective)

    def zeros(self) -> Blocks:
        """A block of zeros for each parameter."""
        return self._objective.zeros()

    def norms(self, units: Units) -> Tensor:
        """The norm of each unit's vector over all layers; what the sum will need is kept."""
        if units.grouped:  # a user's rows are averaged first, which the loop does
            return self._loop.norms(units)
        noted = self._note(units)
        self._kept[units] = noted
        for _, rows in noted.written.values():
            noted.squares.add_(long_norms(rows).double().square())
        precision = next(iter(self._objective.weights[0].values())).dtype
        return noted.squares.sqrt().to(precision)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Σ weight · vector over the units.

        It is a matrix-vector product for what was written out, and book-keeping for the rest.
        """
        if units.grouped:
            return self._loop.weighted_sum(units, weights)
        noted, objective = self._kept.pop(units), self._objective
        total = {
            name: rule.natural(name, double_sum(weights, rows))
            for name, (rule, rows) in noted.written.items()
        }
        with at_weights(objective.model, objective.weights[0]):
            for rule, calls in noted.ghosts:
                total |= self._around_origin(rule.weighted_sum(calls, weights), weights)
        return {name: total[name] for name in objective.weights[0]}

    def _around_origin(self, blocks: Blocks, weights: Tensor) -> Blocks:
        """Σ weight · (gradient − origin), from Σ weight · gradient."""
        origin = self._objective.origin
        if origin is None:
            return blocks
        times = float(weights.double().sum())
        return {name: block - times * origin[name] for name, block in blocks.items()}

    def _note(self, units: Units) -> _Noted:
        objective = self._objective
        squares = torch.zeros(len(units), dtype=torch.float64, device=units.offsets.device)
        noted = _Noted(squares, {}, [])
        groups = objective.dealt_out(objective.views(units))
        for weights, views in zip(objective.weights, groups, strict=True):
            with at_weights(objective.model, weights):
                for rule, calls in self._passed(views):
                    self._add(noted, rule, calls, len(units))
        for name, (rule, rows) in noted.written.items():
            if objective.scale is not None:
                rows.mul_(rule.arranged(name, objective.scale[name]))
            if objective.origin is not None:
                rows.sub_(rule.arranged(name, objective.origin[name]))
        return noted

    def _passed(self, views: Examples) -> Iterator[tuple[AnyRule, list[Call]]]:
        objective = self._objective
        calls = recorded(
            objective.model,
            [rule.layer for rule in self._rules],
            views.inputs,
            lambda outputs: objective.loss(outputs, views.targets).sum() / objective.num_views,
        )
        for rule in self._rules:
            yield rule, calls.pop(rule.layer)

    def _add(self, noted: _Noted, rule: AnyRule, calls: list[Call], num_units: int) -> None:
        squares = rule.squared_norms(calls, self._objective.origin) if self._may_ghost else None
        if squares is not None:
            noted.squares.add_(squares)
            noted.ghosts.append((rule, calls))
            return
        for name, rows in rule.per_unit(calls, num_units).blocks.items():
            if name in noted.written:
                noted.written[name][1].add_(rows)
            else:
                noted.written[name] = rule, rows


def rules_for(model: nn.Module, num_views: int) -> list[AnyRule]:
    """A rule for every layer that has trainable parameters; `Unsupported` where none is known."""
    full = {id(parameter): name for name, parameter in trainable(model).items()}
    rules = []
    for path, layer in model.named_modules():
        own = {
            name: full[id(parameter)]
            for name, parameter in layer.named_parameters(recurse=False)
            if id(parameter) in full
        }
        if own:
            rules.append(_rule(path, layer, own, num_views))
    return rules


def may_ghost(objective: Objective, rules: Sequence[AnyRule]) -> bool:
    """Whether the squared norms of layers add up to that of a unit's vector.

    They do not where two layers share a parameter, whose gradients are added first.
    """
    names = [name for rule in rules for name in rule.names.values()]
    return objective.linear and len(names) == len(set(names))


def _rule(path: str, layer: nn.Module, names: dict[str, str], num_views: int) -> AnyRule:
    rule = _rule_kind(layer)
    if rule is None or not set(names) <= _PARAMETERS[rule]:
        raise Unsupported(f"no rule for {type(layer).__name__} {path or 'at the top'!r}")
    return rule(layer, names, num_views)


def _rule_kind(layer: nn.Module) -> type[AnyRule] | None:
    # Exact types: a subclass may compute anything.
    kind = type(layer)
    if kind is nn.Linear or (kind in (nn.Conv2d, StandardisedConv2d) and _plain(layer)):
        return MatrixRule
    if kind in (nn.LayerNorm, nn.GroupNorm):
        return NormRule
    if kind in (nn.BatchNorm1d, nn.BatchNorm2d) and _frozen(layer):
        return NormRule
    if isinstance(layer, nn.Embedding) and layer.max_norm is None:
        return None if layer.scale_grad_by_freq or kind is not nn.Embedding else EmbeddingRule
    return None


def _plain(layer: nn.Module) -> bool:
    assert isinstance(layer, nn.Conv2d)
    return (
        layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    )


def _frozen(layer: nn.Module) -> bool:
    """Whether a BatchNorm normalises by stored statistics instead of those of the batch."""
    return not layer.training and layer.running_mean is not None
