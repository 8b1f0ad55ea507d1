"""Whatever bytes a file has, `load` gives an `ImageSet` or a `DataError`, and warns of nothing."""

import gzip
import io
import json
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from privet.data import ImageSet, load
from privet.errors import DataError

PICTURES = (np.arange(4 * 6 * 6 * 3) % 251).astype(np.uint8).reshape(4, 6, 6, 3)


def encoded(form, **options):
    file = io.BytesIO()
    Image.fromarray(PICTURES[0]).save(file, form, **options)
    return file.getvalue()


def npz(save):
    file = io.BytesIO()
    save(file, x=PICTURES, y=np.arange(4), class_names=np.array(list("abcd")))
    return file.getvalue()


def idx():
    header = bytes((0, 0, 8, 3)) + struct.pack(">3I", 4, 6, 6)
    return header + PICTURES[..., 0].tobytes()


def parquet():
    names = {"info": {"features": {"label": {"names": list("abcd")}}}}
    rows = [{"bytes": encoded("PNG"), "path": "a"}] * 4
    table = pa.table({"image": rows, "label": np.arange(4)})
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(names)}), file)
    return file.getvalue()


FILES = {
    "a.png": encoded("PNG"),
    "a.jpg": encoded("JPEG"),
    "a.webp": encoded("WEBP"),
    "stored.npz": npz(np.savez),
    "packed.npz": npz(np.savez_compressed),
    "a-images-idx3-ubyte": idx(),
    "a-images-idx3-ubyte.gz": gzip.compress(idx(), mtime=0),
    "a.parquet": parquet(),
}


@st.composite
def damage(draw, content):
    """Overwrite a few bytes, cut, double or drop a piece."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    start = draw(st.integers(0, len(changed)))
    stop = draw(st.integers(start, len(changed)))
    how = draw(st.sampled_from(["leave", "leave", "cut", "drop", "double"]))
    if how == "cut":
        return bytes(changed[:start])
    if how == "drop":
        return bytes(changed[:start] + changed[stop:])
    return bytes(changed[:stop] + changed[start:stop] * (how == "double") + changed[stop:])


def attempt(source, **options):
    """Everything that a hostile file could do, including on access."""
    sentence = "none."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            data = load(source, max_bytes=2**26, **options)
            assert isinstance(data, ImageSet)
            assert np.asarray(data.images[:]).shape == data.images.shape
        except DataError as error:
            sentence = str(error)
    assert sentence.isprintable()
    assert sentence.endswith(".")


@pytest.mark.parametrize("name", FILES)
def test_files_are_valid_to_begin_with(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    path = tmp_path if Path(name).suffix in (".png", ".jpg", ".webp") else tmp_path / name
    assert load(path).image_shape[:2] == (6, 6)


@pytest.mark.parametrize("name", FILES)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), memory_limit=st.sampled_from([0, 2**26]))
def test_damage_ends_in_a_set_or_a_sentence(tmp_path, name, data, memory_limit):
    (tmp_path / name).write_bytes(data.draw(damage(FILES[name])))
    path = tmp_path if Path(name).suffix in (".png", ".jpg", ".webp") else tmp_path / name
    attempt(path, memory_limit=memory_limit)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=200), name=st.sampled_from(sorted(FILES)))
def test_noise_ends_in_a_sentence(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    attempt(tmp_path / name)


def test_an_invalid_animation_chunk_does_not_warn(tmp_path):
    png = FILES["a.png"]
    chunk = b"acTL" + bytes(8)
    extra = struct.pack(">I", 8) + chunk + struct.pack(">I", zlib.crc32(chunk))
    (tmp_path / "a.png").write_bytes(png[:33] + extra + png[33:])
    attempt(tmp_path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    folder = tmp_path_factory.mktemp("saved")
    features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=["a"]))
    rows = {"image": list(PICTURES), "label": [0] * 4}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(folder)
    return {path: path.read_bytes() for path in sorted(folder.iterdir())}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_to_a_saved_folder_ends_in_a_set_or_a_sentence(saved, data):
    path = data.draw(st.sampled_from(list(saved)))
    damaged = data.draw(damage(saved[path]))
    # A new file each time: the old one may still be mapped, and a mapped file must not shrink.
    path.unlink()
    path.write_bytes(damaged)
    attempt(path.parent)
    path.unlink()
    path.write_bytes(saved[path])
