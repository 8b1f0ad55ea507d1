"""Grouped pseudo-classes: random groups of classes, whose sums drown in noise less (SPS, A.5)."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import torch
from torch import Tensor

from privet.errors import ConfigError

_DRAWS = 64  # until the rank is full, which some numbers do not allow
_SWAPS = 4  # for each class of each group: enough to forget where the walk began

Group = frozenset[int]


def pseudo_classes(
    num_classes: int, count: int, per_group: int, generator: torch.Generator
) -> Tensor:
    """Draw which classes are in which pseudo-class: (classes, pseudo-classes) of zeros and ones.

    Every pseudo-class holds as many classes, every class is in as many pseudo-classes, and no two
    pseudo-classes are the same. The rank is as full as some draws could make it, so that what is
    known of pseudo-classes tells classes apart.

    Args:
        num_classes: C, the number of classes.
        count: P, the number of pseudo-classes.
        per_group: N_c/p, the number of classes in each.
        generator: the only source of randomness.
    """
    _check(num_classes, count, per_group)
    best, best_rank = torch.empty(0), -1
    for _ in range(_DRAWS):
        found = _matrix(num_classes, _groups(num_classes, count, per_group, generator))
        rank = int(torch.linalg.matrix_rank(found.double()))
        if rank > best_rank:
            best, best_rank = found, rank
        if rank == min(num_classes, count):
            break
    return best


def _check(num_classes: int, count: int, per_group: int) -> None:
    if not 1 <= per_group <= num_classes:
        raise ConfigError(f"A pseudo-class holds 1 to {num_classes} classes, not {per_group}.")
    if count < 1:
        raise ConfigError(f"There must be at least one pseudo-class, not {count}.")
    possible = math.comb(num_classes, per_group)
    if count > possible:
        raise ConfigError(
            f"{count} are more pseudo-classes than classes allow: {num_classes} classes make "
            f"{possible} different groups of {per_group}."
        )
    step = num_classes // math.gcd(num_classes, per_group)
    if count % step:
        below = count - count % step
        fitting = f"{below} or {below + step}" if below else f"{step}"
        raise ConfigError(
            f"{count} pseudo-classes of {per_group} cannot hold each of {num_classes} classes "
            f"equally often: give {fitting} pseudo-classes."
        )


def _groups(
    num_classes: int, count: int, per_group: int, generator: torch.Generator
) -> list[Group]:
    """Draw different groups that hold every class equally often."""
    if 2 * count > math.comb(num_classes, per_group):
        # All groups hold each class equally often, and so do those that an even choice leaves.
        everything = [frozenset(group) for group in combinations(range(num_classes), per_group)]
        without = len(everything) - count
        left_out = set(_groups(num_classes, without, per_group, generator)) if without else set()
        kept = [group for group in everything if group not in left_out]
        return [kept[place] for place in torch.randperm(count, generator=generator).tolist()]
    groups = _dealt(num_classes, count, per_group, generator)
    _mix(groups, generator)
    while len(set(groups)) < count:
        _mix(groups, generator)
    return groups


def _dealt(num_classes: int, count: int, per_group: int, generator: torch.Generator) -> list[Group]:
    """Deal classes to groups, the least often dealt first: evenly, but groups may be equal."""
    groups, dealt = [], torch.zeros(num_classes)
    for _ in range(count):
        order = (dealt + torch.rand(num_classes, generator=generator)).argsort()[:per_group]
        dealt[order] += 1
        groups.append(frozenset(order.tolist()))
    return groups


def _mix(groups: list[Group], generator: torch.Generator) -> None:
    """Let random pairs of groups swap a class, unless it would make more groups equal."""
    copies = Counter(groups)
    steps = _SWAPS * len(groups) * len(groups[0])
    for draw in torch.rand(steps, 4, generator=generator, dtype=torch.float64).tolist():
        a, b = (int(each * len(groups)) for each in draw[:2])
        old = groups[a], groups[b]
        here, there = sorted(old[0] - old[1]), sorted(old[1] - old[0])
        if not here:
            continue
        swapped = {here[int(draw[2] * len(here))], there[int(draw[3] * len(there))]}
        new = old[0] ^ swapped, old[1] ^ swapped
        if sum(copies[group] > 0 for group in new) <= sum(copies[group] > 1 for group in old):
            copies.subtract(old)
            copies.update(new)
            groups[a], groups[b] = new


def _matrix(num_classes: int, groups: list[Group]) -> Tensor:
    matrix = torch.zeros(num_classes, len(groups))
    for place, group in enumerate(groups):
        matrix[sorted(group), place] = 1
    return matrix
