"""Which rows of a source are private: all runs of one ledger must mean the same ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from privet.errors import PrivacyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privet.privacy.records import Record


@dataclass(frozen=True, kw_only=True)
class Split:
    """Where rows lie, and what of them is not private: settings of a run, not its rows.

    Args:
        source: the place of all rows.
        aside: what is taken of them for public use or for tests, in words; empty if nothing is.
    """

    source: str
    aside: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.source, str) and isinstance(self.aside, str)):
            raise TypeError("a split is no text")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def refuse_other_splits(record: Record, others: Iterable[Record]) -> None:
    """Refuse a run whose public rows another run protects, or whose rows lie in two portions.

    Guarantees:
        A row of a source is private in every run that says where its rows lie, or in none. Without
        that no ledger could promise anything: what is public in one run leaves it without noise.
    """
    for other in others:
        if record.split is None or other.split is None or other.split.source != record.split.source:
            continue
        if record.split.aside != other.split.aside:
            raise PrivacyError(
                f"{other.label} set {other.split.aside or 'nothing'} aside of the same data, and "
                f"this run {record.split.aside or 'nothing'}: rows that one protects would be "
                "public in the other, so give both the same --public, --test and --seed."
            )
        if None not in (record.portion, other.portion) and record.portion != other.portion:
            raise PrivacyError(
                f"{other.label} read the same data in the portion {other.portion!r}, and no row "
                f"lies in two: give --portion {other.portion}, or none."
            )
