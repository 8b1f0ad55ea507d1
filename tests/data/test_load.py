import os
import subprocess
import sys

import numpy as np
import pytest

from privet.data import load
from privet.errors import ConfigError, DataError


def test_digits():
    data = load("digits")
    assert data.images.shape == (1797, 8, 8, 1)
    assert (data.images.min(), data.images.max()) == (0, 255)
    assert data.num_classes == 10


def test_mnist5k():
    data = load("mnist5k")
    assert data.images.shape == (5000, 28, 28, 1)
    assert data.class_counts().tolist() == [500] * 10


def test_mnist5k_says_what_to_install(monkeypatch):
    monkeypatch.setattr("privet.data.builtin.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'privet\[demo\]'"):
        load("mnist5k")


def test_built_in_sets_have_no_parts():
    with pytest.raises(DataError, match="digits is not divided into parts"):
        load("digits", part="test")


def test_arrays_are_resized_and_coloured():
    data = load("digits", resize=(16, 12), channels="rgb")
    assert data.image_shape == (16, 12, 3)
    assert np.array_equal(data.images[..., 0], data.images[..., 2])


def test_grey_becomes_colour_by_a_view():
    data = load("digits", channels="rgb")
    assert data.image_shape == (8, 8, 3)
    assert data.images.strides[3] == 0


def test_colour_becomes_grey(tmp_path, pixels):
    np.savez(tmp_path / "a.npz", x=np.repeat(pixels(channels=1), 3, axis=3))
    assert np.array_equal(load(tmp_path / "a.npz", channels="grey").images, pixels(channels=1))


def test_a_folder_named_like_a_built_in_set(class_folders, monkeypatch):
    folder, _ = class_folders
    folder.rename(folder.with_name("digits"))
    monkeypatch.chdir(folder.parent)
    assert len(load("digits")) == 1797
    assert len(load("./digits")) == 6


def test_refuses_a_missing_path(tmp_path):
    with pytest.raises(DataError, match=r"nowhere does not exist; give a path or .*digits, mnist"):
        load(tmp_path / "nowhere")


def test_refuses_an_unsupported_extension(tmp_path):
    (tmp_path / "a.mat").touch()
    with pytest.raises(DataError, match=r"a\.mat has no extension of images"):
        load(tmp_path / "a.mat")


def test_a_folder_named_like_a_file(tmp_path):
    (tmp_path / "a.npz").mkdir()
    with pytest.raises(DataError, match=r"a\.npz is an empty folder"):
        load(tmp_path / "a.npz")


def test_refuses_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(DataError, match="neither a file nor a folder"):
        load(tmp_path / "a.npz")


def test_refuses_a_path_that_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError):
        load("")


def test_labels_where_needed(tmp_path, pixels):
    np.savez(tmp_path / "a.npz", x=pixels())
    with pytest.raises(DataError, match=r"a\.npz has no labels"):
        load(tmp_path / "a.npz", require_labels=True)


def test_two_classes_where_labels_are_needed(tmp_path, pixels):
    np.savez(tmp_path / "a.npz", x=pixels(), y=np.zeros(6, int), class_names=np.array(["a", "b"]))
    assert len(load(tmp_path / "a.npz")) == 6
    with pytest.raises(DataError, match=r"a\.npz has one class only"):
        load(tmp_path / "a.npz", require_labels=True)


@pytest.mark.parametrize(
    "options", [{"resize": 0}, {"resize": (4, -1)}, {"channels": "cmyk"}, {"max_bytes": -1}]
)
def test_refuses_impossible_options(options):
    with pytest.raises(ConfigError):
        load("digits", **options)


def test_importing_the_room_is_light():
    heavy = ("torch", "PIL", "pyarrow", "sklearn", "datasets", "mlxtend", "rich", "matplotlib")
    code = f"import sys, privet.data; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]"
