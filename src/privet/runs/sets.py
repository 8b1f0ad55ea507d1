"""From what `--public` and `--test` say to sets of rows: private, public, test and synthetic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from privet.data import Column, ImageSet, load
from privet.data.builtin import BUILTIN
from privet.data.guard import GIB, shown
from privet.data.image_users import image_users
from privet.data.npz import read_text
from privet.data.options import Channels, parse_size
from privet.errors import ConfigError, DataError
from privet.paths import absolute
from privet.plain_json import WRONG_VALUES
from privet.privacy import Unit
from privet.privacy.certificate import PUBLIC_SCHEMA
from privet.privacy.splits import Split
from privet.runs.run_folder import CERTIFICATE, CONFIG

_MOST_PAIRS = 12  # of classes in a note
UNLABELLED = ("images",)
"""The class names of images that have no labels."""
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

    def __post_init__(self) -> None:
        if self.resize is not None:
            parse_size(self.resize)
        if self.channels not in (None, *Channels):
            raise ConfigError(f"--channels is {self.channels!r}: give rgb or grey.")

    def placed(self) -> DataChoice:
        """Return the same with absolute paths, so that sources are found from any folder."""
        return replace(
            self,
            source=_placed(self.source),
            public=_placed(self.public) if isinstance(part_of(self.public), str) else self.public,
            test=_placed(self.test) if isinstance(part_of(self.test), str) else self.test,
            synthetic=None if self.synthetic is None else _placed(self.synthetic),
            schema=None if self.schema is None else _placed(self.schema),
        )

    @staticmethod
    def completed(body: Mapping[str, Any]) -> dict[str, Any]:
        """Add to a choice that an earlier version saved what has been added since."""
        return {"target": None, "schema": None, "task": None, "user": None, **body}

    @property
    def unit(self) -> Unit:
        """The unit that is protected: an example or a user."""
        return Unit.EXAMPLE if self.user is None else Unit.USER

    @property
    def split(self) -> Split:
        """Which rows of the source are private, as a ledger compares it between runs."""
        parts = {"public": part_of(self.public), "test": part_of(self.test)}
        shares = {name: part for name, part in parts.items() if part and not isinstance(part, str)}
        if not shares:
            return Split(source=self.source)
        drawn = {**shares, "seed": self.seed, **({} if self.user is None else {"user": self.user})}
        return Split(
            source=self.source, aside=" ".join(f"--{name} {word}" for name, word in drawn.items())
        )


class RowSet(Protocol):
    """A set of rows of one kind."""

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of all classes; of text, the words."""

    @property
    def num_classes(self) -> int:
        """How many classes there are."""

    def __len__(self) -> int: ...

    def columns(self) -> dict[str, Column]:
        """Inputs and labels, as the hedge takes them."""


AnySet = TypeVar("AnySet", bound=RowSet)


@dataclass(frozen=True, kw_only=True)
class Sets(Generic[AnySet]):
    """Rows of one kind, and what was done to make them so.

    Args:
        private: rows that only the hedge may read.
        public: rows that may be used for anything; None if there are none.
        test: rows that are declared not to be private; None if there are none.
        synthetic: rows of the private classes that were made of public ones; None if there are
            none.
        public_classes: how many classes the public rows have; None if they are the private ones.
        notes: sentences for whoever started the run.
        released: which of public and synthetic rows are a private release themselves.
        labelled: whether the private rows have labels; else all are of one class.
        users: whose each private row is, for the hedge alone; None where rows are units.
    """

    private: AnySet
    public: AnySet | None = None
    test: AnySet | None = None
    synthetic: AnySet | None = None
    public_classes: int | None = None
    notes: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    labelled: bool = True
    users: NDArray[np.str_] | None = None

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the certificate says of rows that are called public and came out of a hedge."""
        return tuple(released_rows(name) for name in self.released)

    @property
    def num_shared(self) -> int:
        """How many public rows of the private classes there are, synthetic ones included."""
        real = self.public if self.public_classes is None else None
        return sum(len(each) for each in (real, self.synthetic) if each is not None)


def read_sets(
    choice: DataChoice, *, unread: bool = False, require_labels: bool = True
) -> Sets[ImageSet]:
    """Read all sets of images.

    Args:
        choice: where they come from.
        unread: leave images undecoded where their format allows it.
        require_labels: refuse images without labels; else they are all of one class.
    """
    read = partial(_load, require_labels=require_labels)
    private = read(choice.source, choice, unread=unread)
    notes: list[str] = []
    parts: dict[str, float | int | ImageSet | None] = {}
    for name, text in (("public", choice.public), ("test", choice.test)):
        part = part_of(text)
        if isinstance(part, str):
            refuse_private(name, part, choice.source)
            parts[name] = _fitting(name, part, choice, private, notes, read)
        else:
            parts[name] = part
    public = parts["public"]
    others = None
    if isinstance(public, ImageSet):
        if not same_classes(private, public):
            others = public.num_classes
        else:
            notes += _matching(private, public)
    synthetic = _synthetic(choice, private, notes, read)
    released = released_sources(choice)
    notes += [released_note(name) for name in released]
    users = None
    if choice.user is not None:
        users = image_users(choice.source, choice.user, count=len(private))
    split = private.split(public=public, test=parts["test"], seed=choice.seed, users=users)
    return Sets(
        private=split.private,
        public=split.public,
        test=split.test,
        synthetic=synthetic,
        public_classes=others,
        notes=tuple(notes),
        released=released,
        labelled=private.class_names != UNLABELLED,
        users=split.users,
    )


def _synthetic(
    choice: DataChoice, private: ImageSet, notes: list[str], read: Callable[..., ImageSet]
) -> ImageSet | None:
    """Read images of a run of ours, or of any other origin, that are declared public."""
    if choice.synthetic is None:
        return None
    refuse_private("synthetic", choice.synthetic, choice.source)
    found = _fitting("synthetic", choice.synthetic, choice, private, notes, read)
    if not same_classes(private, found):
        raise ConfigError(
            f"{shown(choice.synthetic)} has other classes ({found.num_classes}) than the private "
            f"images ({private.num_classes}): give both the same class names."
        )
    return found


def released_sources(choice: DataChoice) -> tuple[str, ...]:
    """Name those of public and synthetic rows that are a private release themselves."""
    public = choice.public if isinstance(part_of(choice.public), str) else None
    sources = {"public": public, "synthetic": choice.synthetic}
    return tuple(
        name for name, source in sources.items() if source is not None and is_release(source)
    )


def released_rows(name: str) -> str:
    """Put into words for a certificate that such rows are a private release."""
    return f"{name} rows that are a private release: its ε adds to this one if it was of these rows"


def released_note(name: str) -> str:
    """Say the same to whoever started the run."""
    return (
        f"The {name} rows are a private release themselves: if it was of these private rows, its "
        "ε adds to this run's."
    )


def is_release(source: str) -> bool:
    """Whether a certificate lies in a set's file, in its folder, or in that of its run."""
    place = Path(source)
    files = [each / CERTIFICATE for each in (place, place.parent)]
    found = [each.read_text("utf-8", "replace") for each in files if each.is_file()]
    if place.suffix.lower() == ".npz" and place.is_file():
        found.append(read_text(place, "certificate") or "")
    return any('"epsilon"' in each for each in found)


def read_test(source: str, choice: DataChoice, like: ImageSet) -> tuple[ImageSet, list[str]]:
    """Read another test set, in the shape and with the classes of images that a model knows."""
    notes: list[str] = []
    test = _fitting("test", source, choice, like, notes, _load)
    if not same_classes(like, test):
        raise ConfigError(
            f"{shown(source)} has other classes ({test.num_classes}) than the model "
            f"({like.num_classes}): give both the same class names."
        )
    return test, notes


def same_classes(data: ImageSet, other: ImageSet) -> bool:
    """Whether labels mean the same: equal names, or numbers instead of names."""
    names, others = data.class_names or (), other.class_names or ()
    if UNLABELLED in (names, others):
        return names == others
    numbered = _numbered(data) or _numbered(other)
    return len(others) <= len(names) and (numbered or names == others)


def _matching(private: ImageSet, public: ImageSet) -> list[str]:
    """What is taken for granted where one of both has numbers for names."""
    if _numbered(private) and _numbered(public):
        return ["Classes have numbers for names: public and private ones are taken to be the same."]
    if not (_numbered(private) or _numbered(public)):
        return []
    ours, theirs = private.class_names or (), public.class_names or ()
    pairs = [f"{shown(b)} for {shown(a)}" for a, b in zip(ours, theirs, strict=False)]
    listed = ", ".join(pairs[:_MOST_PAIRS]) + (" …" if len(pairs) > _MOST_PAIRS else "")
    return [f"Only one of both names its classes: public ones are taken in their order, {listed}."]


def _numbered(data: ImageSet) -> bool:
    names = data.class_names or ()
    return names == tuple(map(str, range(len(names))))


def from_the_run(source: str) -> str:
    """The words for where images come from that a run was given."""
    taken = isinstance(part_of(source), float | int)
    return "set aside by the run" if taken else f"{shown(source)}, as in the run"


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


def _load(
    source: str,
    choice: DataChoice,
    *,
    part: str | None = None,
    unread: bool = False,
    require_labels: bool = True,
) -> ImageSet:
    found = load(
        source,
        part=part,
        resize=None if choice.resize is None else parse_size(choice.resize),
        channels=None if choice.channels is None else Channels(choice.channels),
        require_labels=require_labels,
        memory_limit=0 if unread else 2 * GIB,
    )
    if found.labels is not None:
        return found
    return ImageSet(found.images, np.zeros(len(found), np.int64), UNLABELLED)


def _fitting(
    name: str,
    source: str,
    choice: DataChoice,
    private: ImageSet,
    notes: list[str],
    read: Callable[..., ImageSet],
) -> ImageSet:
    """Read another set, brought to the shape of the private images if it has another."""
    part = "test" if name == "test" and _has_part(source, "test") else None
    found = read(source, choice, part=part)
    if found.image_shape == private.image_shape:
        return found
    height, width, channels = private.image_shape
    sizes = ["×".join(map(str, each.image_shape)) for each in (found, private)]
    notes.append(f"The {name} images are {sizes[0]}; they are brought to {sizes[1]}.")
    fitted = replace(
        choice, resize=f"{height}x{width}", channels=str(Channels.RGB if channels == 3 else "grey")
    )
    return read(source, fitted, part=part)


def _has_part(source: str, part: str) -> bool:
    try:
        load(source, part=part, memory_limit=0)
    except DataError:
        return False
    return True


def refuse_private(name: str, source: str, private: str) -> None:
    """Refuse a source that overlaps the private data: naming it public does not make it so."""
    origin = _unprotected_origin(source)
    if origin is not None and overlap(origin, private):
        raise ConfigError(
            f"--{name} was made of the private data themselves, and without privacy: make it of "
            "public ones."
        )
    if not overlap(source, private):
        return
    itself = name == "test" and _placed(source) == _placed(private)
    if itself and _has_part(source, "train") and _has_part(source, "test"):
        return
    raise ConfigError(
        f"--{name} names the private data themselves, or a part of them: give a share of them, "
        "such as 0.1, or another source."
    )


def overlap(source: str, other: str) -> bool:
    """Whether two sources are the same, by whatever name, or one lies within the other."""
    ours, theirs = Path(_placed(source)), Path(_placed(other))
    if ours.exists() and theirs.exists() and ours.samefile(theirs):
        return True
    return ours == theirs or theirs in ours.parents or ours in theirs.parents


def _unprotected_origin(source: str) -> str | None:
    """The data that images of a diffusion model were made of, if its run's folder still says so."""
    for folder in (Path(source), Path(source).parent):
        files = [folder / each for each in (CERTIFICATE, CONFIG)]
        if not all(each.is_file() for each in files):
            continue
        certificate, config = (each.read_text("utf-8", "replace") for each in files)
        if PUBLIC_SCHEMA in certificate:
            try:
                return str(json.loads(config)["config"]["data"]["source"])
            except WRONG_VALUES:
                return None
    return None


def _placed(source: str | None) -> str:
    assert source is not None
    return source if source in BUILTIN else absolute(source)
