"""Which rows of a source are private: all runs of one ledger must mean the same ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from privet.errors import PrivacyError
from privet.paths import Overlaps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privet.privacy.records import Record


@dataclass(frozen=True, kw_only=True)
class Split:
    """Where rows lie, whose they are, and which are not private; it tells nothing of private ones.

    Args:
        source: the place of all rows.
        aside: what is taken of them for public use or for tests, in words; empty if nothing is.
        digest: a digest of those rows, which tells whether others are taken another time; empty
            where it is not known.
        user: what says whose each row is; empty where rows are units.
        others: places of other rows that the run treats as not private.
        shares: places of which it treats a part as not private, each with a digest of that part.
    """

    source: str
    aside: str = ""
    digest: str = ""
    user: str = ""
    others: tuple[str, ...] = ()
    shares: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "others", tuple(self.others))
        object.__setattr__(self, "shares", tuple((place, rows) for place, rows in self.shares))
        texts = (self.source, self.aside, self.digest, self.user, *self.others)
        if not all(isinstance(each, str) for each in (*texts, *chain(*self.shares))):
            raise TypeError("a split is no text")

    def with_others(self, *places: str, shares: Iterable[tuple[str, str]] = ()) -> Split:
        """Return the same with more places of rows that are not private, whole or in part."""
        return replace(
            self,
            others=tuple(dict.fromkeys((*self.others, *places))),
            shares=tuple(dict.fromkeys((*self.shares, *shares))),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; shares only if there are any, which an older Privet refuses."""
        body = {**asdict(self), "others": list(self.others)}
        del body["shares"]
        return body | ({"shares": [list(each) for each in self.shares]} if self.shares else {})


def digest_of(name: str, digest: str) -> str:
    """Find the digest of one part among those of all parts; empty if it has none."""
    words = digest.split()
    return dict(zip(words[::2], words[1::2], strict=False)).get(name, "")


def refuse_other_splits(
    record: Record, others: Iterable[Record], overlap: Overlaps | None = None
) -> None:
    """Refuse a run whose public rows another run protects, or that means other rows or users.

    Guarantees:
        A row of a source is private in every run that says where its rows lie, or in none; it is
        of one user and in one portion. Without that no ledger could promise anything: what is
        public in one run leaves it without noise. Sources are the same if files of them are: only
        their owner knows of copies.

    Args:
        record: the run.
        others: all runs that it is to go together with.
        overlap: what is known of places already, since files take long to look at.
    """
    overlap = Overlaps() if overlap is None else overlap
    for other in others:
        ours, theirs = record.split, other.split
        if ours is None or theirs is None:
            continue
        if overlap(ours.source, theirs.source):
            _refuse_other_rows(ours, theirs, other.label)
            _refuse_other_portion(record, other)
        for one, another in ((ours, theirs), (theirs, ours)):
            for place in one.others:
                if another.source == one.source or not overlap(place, another.source):
                    continue
                if place == one.source:
                    raise _named_otherwise(ours, theirs, other.label)
                raise _protected_in_one(place, other.label)
            for place, rows in one.shares:
                same = place == another.source and rows == digest_of("public", another.digest)
                if not same and overlap(place, another.source):
                    raise _protected_in_one(place, other.label)


def _protected_in_one(place: str, label: str) -> PrivacyError:
    return PrivacyError(
        f"Rows of {place} are protected in one of both, {label} or this run, and not private in "
        "the other: give this run other rows, or a ledger of its own if no row is in both."
    )


def _refuse_other_rows(ours: Split, theirs: Split, label: str) -> None:
    if ours.user != theirs.user:
        raise PrivacyError(
            f"{label} protected {_units(theirs)} of the same data, and this run {_units(ours)}: "
            "one guarantee is of one kind of unit, so give both the same --user."
        )
    if ours.source != theirs.source and (ours.aside or theirs.aside):
        raise _named_otherwise(ours, theirs, label)
    if ours.aside != theirs.aside:
        raise PrivacyError(
            f"{label} set {theirs.aside or 'nothing'} aside of the same data, and this run "
            f"{ours.aside or 'nothing'}: rows that one protects would be public in the other, so "
            "give both the same --public, --test and --seed."
        )
    if "" not in (ours.digest, theirs.digest) and ours.digest != theirs.digest:
        raise PrivacyError(
            f"{label} set other rows of the same data aside, so that rows which it protects would "
            "be public in this run: the data have changed, or are read in another form (--target, "
            "--resize, --channels). Keep public and test rows in sets of their own, and name those."
        )


def _named_otherwise(ours: Split, theirs: Split, label: str) -> PrivacyError:
    return PrivacyError(
        f"{label} read {theirs.source}, which has rows of {ours.source} in it, or the other way "
        "round, and rows are set aside: name the data as it did."
    )


def _units(split: Split) -> str:
    return f"the users of {split.user}" if split.user else "rows"


def _refuse_other_portion(record: Record, other: Record) -> None:
    if None not in (record.portion, other.portion) and record.portion != other.portion:
        raise PrivacyError(
            f"{other.label} read the same data in the portion {other.portion!r}, and no row "
            f"lies in two: give --portion {other.portion}, or none."
        )
