"""From what `--public` and `--test` say to sets of rows: private, public, test and synthetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from privet.data import Column, ImageSet, load
from privet.data.guard import GIB, shown
from privet.data.image_users import image_users, known_image_users
from privet.data.options import Channels, parse_size
from privet.data.users import require_other_users
from privet.errors import ConfigError
from privet.runs.aside import digests, image_bytes
from privet.runs.data_choice import DataChoice
from privet.runs.origins import Doubt, doubts_of, has_part, refuse_private

_MOST_PAIRS = 12  # of classes in a note
UNLABELLED = ("images",)
"""The class names of images that have no labels."""


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
        doubts: what the guarantee takes for granted of rows that are called public.
        aside: a digest of the rows that were split off private ones; empty if none were.
        labelled: whether the private rows have labels; else all are of one class.
        users: whose each private row is, for the hedge alone; None where rows are units.
    """

    private: AnySet
    public: AnySet | None = None
    test: AnySet | None = None
    synthetic: AnySet | None = None
    public_classes: int | None = None
    notes: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    aside: str = ""
    labelled: bool = True
    users: NDArray[np.str_] | None = None

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the certificate says of rows that are called public and may not be."""
        return tuple(each.words for each in self.doubts)

    def with_doubts(self, *doubts: Doubt) -> Sets[AnySet]:
        """Return the same with more that is taken for granted, and said."""
        notes = (*self.notes, *(each.note for each in doubts))
        return replace(self, doubts=(*self.doubts, *doubts), notes=notes)

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
    for name, part in choice.parts.items():
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
    users = None
    if choice.user is not None:
        users = image_users(choice.source, choice.user, count=len(private))
    split = private.split(public=public, test=parts["test"], seed=choice.seed, users=users)
    notes += _notes_of_users(choice, split.users, parts)
    own = {"public": split.public, "test": split.test}
    aside = {name: image_bytes(own[name]) for name, part in parts.items() if part is not own[name]}
    sets = Sets(
        private=split.private,
        public=split.public,
        test=split.test,
        synthetic=synthetic,
        public_classes=others,
        notes=tuple(notes),
        aside=digests(aside, choice.aside),
        labelled=private.class_names != UNLABELLED,
        users=split.users,
    )
    return sets.with_doubts(*doubts_of(choice))


def _notes_of_users(
    choice: DataChoice,
    users: NDArray[np.str_] | None,
    parts: Mapping[str, float | int | ImageSet | None],
) -> list[str]:
    """Refuse other images of private users; say of which that is not known."""
    notes: list[str] = []
    for name, part in choice.parts.items():
        images = parts[name]
        if choice.user is None or users is None or not isinstance(part, str):
            continue
        assert isinstance(images, ImageSet)
        others = known_image_users(part, choice.user, count=len(images))
        notes += require_other_users(name, users, others)
    return notes


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
    part = "test" if name == "test" and has_part(source, "test") else None
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
