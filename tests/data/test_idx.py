import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from privet.data import load
from privet.errors import DataError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.fixture
def grey(pixels):
    return pixels(channels=1)[..., 0]


@pytest.mark.parametrize("images_zipped", [True, False])
@pytest.mark.parametrize("labels_zipped", [True, False])
def test_labels_are_found_beside(tmp_path, grey, idx, images_zipped, labels_zipped):
    images = tmp_path / (IMAGES + ".gz" * images_zipped)
    images.write_bytes(idx(grey, zipped=images_zipped))
    labels = tmp_path / (LABELS + ".gz" * labels_zipped)
    labels.write_bytes(idx(np.arange(6), zipped=labels_zipped))
    data = load(images)
    assert np.array_equal(data.images[..., 0], grey)
    assert data.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert isinstance(data.images, np.memmap) is not images_zipped


def test_the_name_with_a_dot(tmp_path, grey, idx):
    (tmp_path / "t10k-images.idx3-ubyte").write_bytes(idx(grey))
    (tmp_path / "t10k-labels.idx1-ubyte").write_bytes(idx(np.arange(6)))
    assert load(tmp_path / "t10k-images.idx3-ubyte").num_classes == 6


def test_without_labels(tmp_path, grey, idx):
    (tmp_path / IMAGES).write_bytes(idx(grey))
    assert load(tmp_path / IMAGES).labels is None


def test_a_folder_has_parts(tmp_path, grey, idx):
    (tmp_path / IMAGES).write_bytes(idx(grey))
    (tmp_path / f"{IMAGES}.gz").write_bytes(idx(grey, zipped=True))
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(idx(grey[:2], zipped=True))
    assert len(load(tmp_path)) == 6
    assert isinstance(load(tmp_path).images, np.memmap)
    assert len(load(tmp_path, part="test")) == 2
    with pytest.raises(DataError, match="no IDX images for part 'half'"):
        load(tmp_path, part="half")


def test_refuses_a_folder_with_two_sets(tmp_path, grey, idx):
    for prefix in ("letters-", "digits-"):
        (tmp_path / (prefix + IMAGES)).write_bytes(idx(grey))
    with pytest.raises(DataError, match="has 2 IDX sets; name one"):
        load(tmp_path)


def test_refuses_a_part_of_one_file(tmp_path, grey, idx):
    (tmp_path / IMAGES).write_bytes(idx(grey))
    with pytest.raises(DataError, match="is one part"):
        load(tmp_path / IMAGES, part="train")


def test_refuses_the_labels_file(tmp_path, idx):
    (tmp_path / LABELS).write_bytes(idx(np.arange(3)))
    with pytest.raises(DataError, match=f"{LABELS} holds labels; give the images"):
        load(tmp_path / LABELS)


@pytest.mark.parametrize("zipped", [True, False])
def test_refuses_a_wrong_magic_number(tmp_path, grey, idx, zipped):
    path = tmp_path / (IMAGES + ".gz" * zipped)
    path.write_bytes(idx(grey.ravel(), zipped=zipped))
    with pytest.raises(DataError, match=r"begins with 00000801, not with 00000803"):
        load(path)


@pytest.mark.parametrize("change", [-3, 3])
@pytest.mark.parametrize("zipped", [True, False])
def test_refuses_a_size_that_is_not_declared(tmp_path, grey, idx, change, zipped):
    content = idx(grey)
    content = content[:change] if change < 0 else content + bytes(change)
    path = tmp_path / (IMAGES + ".gz" * zipped)
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(DataError, match=f"{path.name} declares 210 bytes and has"):
        load(path)


@pytest.mark.parametrize("zipped", [True, False])
def test_refuses_an_absurd_header_before_allocating(tmp_path, zipped):
    content = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**31, 2**31, 2**31) + bytes(1000)
    path = tmp_path / (IMAGES + ".gz" * zipped)
    path.write_bytes(gzip.compress(content) if zipped else content)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="declares 9,903,520,314,283,042,199,192,993,792"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_refuses_a_gzip_bomb(tmp_path):
    shape = (2**14, 64, 64)
    content = bytes((0, 0, 8, 3)) + struct.pack(">3I", *shape) + bytes(2**26)
    (tmp_path / f"{IMAGES}.gz").write_bytes(gzip.compress(content, 1))
    with pytest.raises(DataError, match=r"declares 67,108,864 bytes from [\d,]+ stored"):
        load(tmp_path / f"{IMAGES}.gz")


def test_unzips_no_more_than_is_declared(tmp_path):
    content = bytes((0, 0, 8, 3)) + struct.pack(">3I", 1, 8, 8) + bytes(2**26)
    (tmp_path / f"{IMAGES}.gz").write_bytes(gzip.compress(content, 1))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="declares 64 bytes and has over 64"):
            load(tmp_path / f"{IMAGES}.gz")
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_refuses_damaged_gzip(tmp_path, grey, idx):
    (tmp_path / f"{IMAGES}.gz").write_bytes(idx(grey, zipped=True)[:-20])
    with pytest.raises(DataError, match=f"{IMAGES}.gz is not a readable IDX file"):
        load(tmp_path / f"{IMAGES}.gz")


def test_refuses_another_count_of_labels(tmp_path, grey, idx):
    (tmp_path / IMAGES).write_bytes(idx(grey))
    (tmp_path / LABELS).write_bytes(idx(np.arange(5)))
    with pytest.raises(DataError, match="5 labels for 6 images"):
        load(tmp_path / IMAGES)
