"""A configuration as a run's folder keeps it: read again, completed, and compared with today's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from privet.errors import ConfigError
from privet.runs.aside import require_same_rows
from privet.runs.data_choice import DataChoice


def completed(body: Mapping[str, Any], **added: object) -> Mapping[str, Any]:
    """Add to a configuration that an earlier version saved what has been added since."""
    if not isinstance(body, Mapping) or not isinstance(body.get("data"), Mapping):
        return body
    return {**added, **body, "data": DataChoice.completed(body["data"])}


class Saved(Protocol):
    """A configuration as a run remembers it."""

    @property
    def data(self) -> DataChoice:
        """Where rows come from."""

    @property
    def seeded(self) -> bool:
        """Whether noise comes from a seed."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""


def require_same(run: Saved, now: Saved) -> None:
    """Refuse to go on with a run under other settings."""
    if run.seeded != now.seeded:
        raise ConfigError(
            "A run with seeded noise needs the same --noise-seed again, and no other run may have "
            "one."
        )
    difference = first_difference(_but_rows(run), _but_rows(now))
    if difference is not None:
        raise ConfigError(
            f"The setting {difference}: resume with the same settings, or start another run."
        )
    require_same_rows(run.data.aside, now.data.aside)


def _but_rows(config: Saved) -> dict[str, Any]:
    body = config.to_json()
    return {**body, "data": {**body["data"], "aside": None}}


def first_difference(run: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first setting that differs between two configurations, in words."""
    for name, one, other in _differences(run, now, ""):
        return f"{name} is {one!r} in the run and {other!r} now"
    return None


def _differences(one: Any, other: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            inner = f"{name}.{key}" if name else key
            yield from _differences(one.get(key), other.get(key), inner)
    elif one != other:
        yield name, one, other
