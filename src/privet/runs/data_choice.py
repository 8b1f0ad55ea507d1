"""Where rows come from: what `--public`, `--test` and their neighbours say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from privet.data.builtin import BUILTIN
from privet.data.guard import shown
from privet.data.options import Channels, parse_size
from privet.errors import ConfigError
from privet.paths import absolute
from privet.privacy import Unit
from privet.privacy.splits import Split
from privet.runs.made_of import made_of

Part = float | int | str | None
"""A share, a count, or the place of another set; None for nothing."""


@dataclass(frozen=True, kw_only=True)
class DataChoice:
    """Where rows come from, as a run remembers it.

    Args:
        source: where the private rows lie, and what is split off them.
        public: a share or a count of them, another source, or None.
        test: a share or a count of them, another source, or None; declared not to be private.
        resize: one size for all images, such as 32 or 32x48; None keeps theirs.
        channels: rgb or grey for all images; None keeps theirs.
        synthetic: where rows lie that were made of public ones, or None.
        target: the column of a table that is predicted, or that holds texts; None if there is none.
        schema: the file that declares a table's columns; None if there is none.
        task: what is learned of text: lm or mlm; None for other rows.
        user: the column, or the array of an archive, that says whose each row is; None where rows,
            not users, are units.
        seed: the seed of the split.
        aside: digests of the rows that are split off, once they were read; else empty.
    """

    source: str
    public: str | None = None
    test: str | None = None
    synthetic: str | None = None
    resize: str | None = None
    channels: str | None = None
    target: str | None = None
    schema: str | None = None
    task: str | None = None
    user: str | None = None
    seed: int = 0
    aside: str = ""

    def __post_init__(self) -> None:
        if self.resize is not None:
            parse_size(self.resize)
        if self.channels not in (None, *Channels):
            raise ConfigError(f"--channels is {self.channels!r}: give rgb or grey.")

    def placed(self) -> DataChoice:
        """Return the same with absolute paths, so that sources are found from any folder."""
        return replace(
            self,
            source=placed(self.source),
            public=placed(self.public) if isinstance(part_of(self.public), str) else self.public,
            test=placed(self.test) if isinstance(part_of(self.test), str) else self.test,
            synthetic=None if self.synthetic is None else placed(self.synthetic),
            schema=None if self.schema is None else placed(self.schema),
        )

    @staticmethod
    def completed(body: Mapping[str, Any]) -> dict[str, Any]:
        """Add to a choice that an earlier version saved what has been added since."""
        added = {"target": None, "schema": None, "task": None, "user": None, "aside": ""}
        return {**added, **body}

    @property
    def unit(self) -> Unit:
        """The unit that is protected: an example or a user."""
        return Unit.EXAMPLE if self.user is None else Unit.USER

    @property
    def parts(self) -> dict[str, Part]:
        """What is public and what is for tests: shares and counts of the source, or places."""
        return {"public": part_of(self.public), "test": part_of(self.test)}

    @property
    def split(self) -> Split:
        """Which rows of the source are private, as a ledger compares it between runs."""
        parts = self.parts
        shares = {name: part for name, part in parts.items() if part and not isinstance(part, str)}
        words = " ".join(f"--{name} {part}" for name, part in shares.items())
        places = [part for part in (*parts.values(), self.synthetic) if isinstance(part, str)]
        before = [each for place in places for each in made_of(place).places]
        return Split(
            source=self.source,
            aside=f"{words} --seed {self.seed}" if shares else "",
            digest=self.aside,
            user=self.user or "",
            others=tuple(dict.fromkeys((*places, *before))),  # also the source, for its test part
        )


def part_of(text: str | None) -> Part:
    """Read a share such as 0.1, a count such as 100, or else a source."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def placed(source: str | None) -> str:
    """Make the path of a source absolute; a built-in set has none."""
    assert source is not None
    return source if source in BUILTIN else absolute(source)


def from_the_run(source: str) -> str:
    """The words for where images come from that a run was given."""
    taken = isinstance(part_of(source), float | int)
    return "set aside by the run" if taken else f"{shown(source)}, as in the run"
