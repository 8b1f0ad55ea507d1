"""Private | public | test: stratified by class, seeded, exact, without overlap.

Every row draws a 64-bit key from the seed. Within a class the smallest keys go to the test part,
the next to the public part and the rest stays private. Raw PCG64 output and integer arithmetic
alone decide, so that a split is the same on every platform and under every version of numpy, and
asking for public rows does not change which rows are tested on.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privet.data.image_set import ImageSet
from privet.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Part: TypeAlias = "float | int | ImageSet | None"


@dataclass(frozen=True)
class Split:
    """What a set was divided into; `public` and `test` are None if nobody asked for them.

    Where rows belong to users, `users` says whose each private row is.
    """

    private: ImageSet
    public: ImageSet | None
    test: ImageSet | None
    users: NDArray[Any] | None = None


@dataclass(frozen=True)
class Places:
    """Which rows go where, by their numbers; None where nobody asked for any."""

    private: NDArray[np.int64]
    public: NDArray[np.int64] | None
    test: NDArray[np.int64] | None


def split(
    data: ImageSet,
    *,
    public: Part = None,
    test: Part = None,
    seed: int,
    users: NDArray[Any] | None = None,
) -> Split:
    """Divide `data`; a part is a share of it, a count of rows, or another set used as it is.

    With `users`, who each row belongs to, shares and counts are of users, and all rows of a user
    go to one part.
    """
    for name, part in (("public", public), ("test", test)):
        if isinstance(part, ImageSet):
            _check_shape(data, part, name)
    if isinstance(test, ImageSet):
        _check_classes(data, test)
    shares = {
        name: None if isinstance(part, ImageSet) else part
        for name, part in (("public", public), ("test", test))
    }
    if users is not None:
        if users.shape != (len(data),):
            raise ConfigError("users must hold one id for each image.")
        places = divided_by_user(users, **shares, seed=seed)
    else:
        labels = np.zeros(len(data), np.int64) if data.labels is None else data.labels
        places = divided(labels, **shares, seed=seed)
    return Split(
        private=data if len(places.private) == len(data) else data.take(places.private),
        public=public if isinstance(public, ImageSet) else _taken(data, places.public),
        test=test if isinstance(test, ImageSet) else _taken(data, places.test),
        users=None if users is None else users[places.private],
    )


def divided(
    labels: NDArray[np.int64],
    *,
    public: float | int | None = None,
    test: float | int | None = None,
    seed: int,
) -> Places:
    """Draw which rows of any set go to which part, class by class.

    Args:
        labels: the class of each row, from 0 upwards; all 0 where there are no classes.
        public: a share or a count of rows for the public part; `None` for no such part.
        test: a share or a count of rows for the test part; `None` for no such part.
        seed: the seed of the draw.
    """
    if not isinstance(seed, Integral) or seed < 0:
        raise ConfigError(f"seed is {seed!r}; give a whole number from 0 upwards.")
    _check_shares(public, test)
    count = len(labels)
    num_test, num_public = _rows_of(test, count, "test"), _rows_of(public, count, "public")
    if num_test + num_public >= count:
        raise ConfigError(
            "public and test rows together leave none that is private; ask for fewer."
        )
    places = _assign(labels, num_test, num_public, int(seed))
    return Places(
        private=np.flatnonzero(places == 0),
        public=np.flatnonzero(places == 1) if num_public else None,
        test=np.flatnonzero(places == 2) if num_test else None,
    )


def divided_by_user(
    users: NDArray[np.str_],
    *,
    public: float | int | None = None,
    test: float | int | None = None,
    seed: int,
) -> Places:
    """Draw which rows go to which part, with all rows of a user in one part.

    Args:
        users: the user of each row.
        public: a share or a count of users for the public part; `None` for no such part.
        test: a share or a count of users for the test part; `None` for no such part.
        seed: the seed of the draw.
    """
    known, owner = np.unique(users, return_inverse=True)
    places = divided(np.zeros(len(known), np.int64), public=public, test=test, seed=seed)

    def rows(some: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.flatnonzero(np.isin(owner, some))

    return Places(
        private=rows(places.private),
        public=None if places.public is None else rows(places.public),
        test=None if places.test is None else rows(places.test),
    )


def _check_shares(public: float | int | None, test: float | int | None) -> None:
    total = sum(float(part) for part in (public, test) if isinstance(part, float))
    if total >= 1:
        raise ConfigError(
            f"public and test shares add up to {total:g}; they must stay below 1 together"
            " (a count is written as a whole number)."
        )


def _check_shape(data: ImageSet, other: ImageSet, name: str) -> None:
    if other.image_shape != data.image_shape:
        sizes = ["×".join(map(str, one.image_shape)) for one in (other, data)]
        raise ConfigError(
            f"{name} images are {sizes[0]} and private ones {sizes[1]}; load the {name} set with"
            " resize and channels that match."
        )


def _check_classes(data: ImageSet, test: ImageSet) -> None:
    names, others = data.class_names or (), test.class_names or ()
    numbered = any(each == tuple(map(str, range(len(each)))) for each in (names, others))
    if len(others) > len(names) or not (numbered or names == others):
        raise ConfigError(
            f"the test set has other classes ({len(others)}) than the private one ({len(names)});"
            " give both the same class names."
        )


def _rows_of(part: float | int | None, count: int, name: str) -> int:
    """How many rows a share or a count takes."""
    if part is None:
        return 0
    if isinstance(part, bool) or not isinstance(part, Real):
        raise ConfigError(f"{name} is {part!r}; give a share, a count of rows or an ImageSet.")
    if isinstance(part, Integral):
        if not 0 < part <= count:  # how many there are is private, so it is not told
            raise ConfigError(f"{name} is {part} rows; give a count from 1 to what there are.")
        return int(part)
    if not 0 < part < 1:
        raise ConfigError(f"{name} is {part!r}; give a share between 0 and 1, or a count of rows.")
    rows = int(float(part) * count + 0.5)
    if rows == 0:
        raise ConfigError(f"{name} is {part:g} of the rows, which is none; ask for more.")
    return rows


def _assign(
    labels: NDArray[np.int64], num_test: int, num_public: int, seed: int
) -> NDArray[np.int8]:
    """The part of every row: 0 (private), 1 (public) or 2 (test)."""
    keys = np.random.PCG64(seed).random_raw(len(labels))
    by_class = np.lexsort((keys, labels))
    sizes = np.bincount(labels)
    tests = apportion(num_test, sizes)
    publics = apportion(num_public, sizes - tests)
    ends = np.cumsum(sizes)
    rank = np.arange(len(labels)) - np.repeat(ends - sizes, sizes)
    places = np.zeros(len(labels), np.int8)
    places[by_class[rank < np.repeat(tests + publics, sizes)]] = 1
    places[by_class[rank < np.repeat(tests, sizes)]] = 2
    return places


def apportion(total: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Share `total` among classes in proportion to `sizes` by the largest remainder.

    It sums to `total` exactly and never takes more than a class has; equal remainders go to the
    earlier class.
    """
    everything = max(int(sizes.sum()), 1)
    whole, remainder = np.divmod(total * sizes, everything)
    missing = total - int(whole.sum())
    whole[np.argsort(-remainder, kind="stable")[:missing]] += 1
    return whole


def _taken(data: ImageSet, rows: NDArray[np.int64] | None) -> ImageSet | None:
    return None if rows is None else data.take(rows)
