import gzip
import io
import struct

import numpy as np
import pytest
from PIL import Image

from privet.data.shards import write_shard
from tests.data.shard_sets import NAMES


@pytest.fixture
def pixels():
    """Pictures with structure, so that a shuffled row or a swapped axis shows."""

    def make(count=6, height=5, width=7, channels=3):
        shape = (count, height, width, channels)
        return (np.arange(np.prod(shape)) * 37 % 251).astype(np.uint8).reshape(shape)

    return make


@pytest.fixture
def encode():
    def to_bytes(picture, form="PNG", **options):
        array = picture[..., 0] if picture.ndim == 3 and picture.shape[2] == 1 else picture
        file = io.BytesIO()
        Image.fromarray(array).save(file, form, **options)
        return file.getvalue()

    return to_bytes


@pytest.fixture
def idx():
    """The bytes of an IDX file, plain or gzipped."""

    def to_bytes(array, *, zipped=False):
        header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
        content = header + array.astype(np.uint8).tobytes()
        return gzip.compress(content) if zipped else content

    return to_bytes


@pytest.fixture
def class_folders(tmp_path, pixels, encode):
    """Two classes of three PNG each, and the pixels that went in."""
    pictures = pixels()
    for number, picture in enumerate(pictures):
        path = tmp_path / "set" / ("cat" if number < 3 else "dog") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(picture))
    return tmp_path / "set", pictures


@pytest.fixture
def write(pixels):
    """Shards of six images; what went into all of them comes back."""

    def make(folder, shards=1, *, channels=1, names=NAMES, **more):
        pictures = pixels(6 * shards, channels=channels)
        labels = np.arange(6 * shards) * 5 % len(names)
        for number in range(shards):
            rows = slice(6 * number, 6 * number + 6)
            write_shard(folder, number, pictures[rows], labels[rows], names, **more)
        return pictures, labels

    return make
