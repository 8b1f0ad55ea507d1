"""Views of a batch are drawn once, however often the batch or a part of it is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import final
from weakref import WeakKeyDictionary

from privet.hedge import Units
from privet.learn.objective import Examples


@final
class DrawnOnce:
    """A function from units to K views of each row, adjacent, that remembers what it drew.

    Guarantees:
        Units that stay when others are left out of a batch keep their views. With fresh ones, how
        often a unit counts would depend on whether another, whose vector is not finite, is there.

    Args:
        draw: from units to K views of each row.
        num_views: K.
    """

    def __init__(self, draw: Callable[[Units], Examples], num_views: int) -> None:
        self._draw, self._num_views = draw, num_views
        self._drawn: WeakKeyDictionary[Units, Examples] = WeakKeyDictionary()

    def __call__(self, units: Units) -> Examples:
        """The views of units: what was drawn for them or for what they were selected from."""
        found = self._known(units)
        if found is None:
            found = self._draw(units)
        self._drawn[units] = found
        return found

    def _known(self, units: Units) -> Examples | None:
        if units in self._drawn or units.parent is None:
            return self._drawn.get(units)
        views = self._known(units.parent.units)
        if views is None:
            return None
        kept = units.parent.rows.repeat_interleave(self._num_views)
        return Examples(views.inputs[kept], views.targets[kept])
