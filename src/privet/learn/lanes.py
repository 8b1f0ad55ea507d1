"""Units side by side, each on a core of its own.

An operation on the few views of one unit keeps all cores waiting for each other; whole units on one
core each wait only at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import TypeVar

import torch
from torch import nn

Item = TypeVar("Item")
Result = TypeVar("Result")

_STATELESS = ("torch.nn.modules.", "privet.models.")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def num_lanes(model: nn.Module) -> int:
    """How many units a model may take at the same time: as many as there are cores, or one.

    Guarantees:
        More than one only where every layer is known to keep nothing between calls. A layer that
        notes something of one unit and reads it for another would break the hedge's sensitivity.
    """
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    shared = on_cpu and all(map(_keeps_nothing, model.modules()))
    return torch.get_num_threads() if shared else 1


def side_by_side(
    function: Callable[[Item], Result], items: Sequence[Item], lanes: int
) -> list[Result]:
    """Apply a function to each item, on several threads; results are in the order of items."""
    if min(lanes, len(items)) < 2:
        return [function(item) for item in items]
    return list(_pool(lanes).map(function, items))


def _keeps_nothing(layer: nn.Module) -> bool:
    known = type(layer).__module__.startswith(_STATELESS) and "forward" not in vars(layer)
    return known and not any(getattr(layer, hooks) for hooks in _HOOKS)


@cache
def _pool(lanes: int) -> ThreadPoolExecutor:
    """A pool of threads that use one core each, whatever number the caller uses."""
    before, started = torch.get_num_threads(), Barrier(lanes + 1)

    def start() -> None:
        torch.get_num_threads()  # a thread that has not asked yet would take the caller's number
        torch.set_num_threads(1)  # for this thread, and for those that come after it
        started.wait()

    pool = ThreadPoolExecutor(lanes, thread_name_prefix="lane", initializer=start)
    for _ in range(lanes):
        pool.submit(int)
    started.wait()
    torch.set_num_threads(before)
    return pool


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
