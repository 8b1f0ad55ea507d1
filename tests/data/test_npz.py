import tracemalloc
import zipfile

import numpy as np
import pytest

from privet.data import LazyImages, load
from privet.errors import DataError


@pytest.fixture
def save(tmp_path):
    def to_file(*, compressed=True, **arrays):
        path = tmp_path / "set.npz"
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
        return path

    return to_file


@pytest.fixture
def member(tmp_path):
    """An archive whose member `x` is these bytes."""

    def to_file(content, compression=zipfile.ZIP_DEFLATED):
        path = tmp_path / "set.npz"
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("x.npy", content)
        return path

    return to_file


def header(shape, descr="|u1"):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (64 - (10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(("x", "y"), [("images", "labels"), ("x", "y"), ("data", "labels")])
@pytest.mark.parametrize("compressed", [True, False])
def test_usual_keys(save, pixels, x, y, compressed):
    labels = np.array([0, 1] * 3)
    data = load(save(compressed=compressed, **{x: pixels(), y: labels}))
    assert np.array_equal(data.images, pixels())
    assert np.array_equal(data.labels, labels)
    assert isinstance(data.images, np.memmap) is not compressed


def test_labels_are_optional(save, pixels):
    assert load(save(x=pixels())).labels is None


def test_class_names(save, pixels):
    data = load(save(x=pixels(), y=np.array([0, 2] * 3), class_names=np.array(["a", "b", "c"])))
    assert data.class_names == ("a", "b", "c")


def test_parts(save, pixels):
    path = save(
        x_train=pixels(4), y_train=np.arange(4), x_test=pixels(2)[::-1], y_test=np.arange(2)
    )
    assert len(load(path)) == len(load(path, part="train")) == 4
    assert np.array_equal(load(path, part="test").images, pixels(2)[::-1])
    with pytest.raises(DataError, match=r"set\.npz has no part 'half'; choose train or test"):
        load(path, part="half")


def test_refuses_a_part_of_what_has_none(save, pixels):
    with pytest.raises(DataError, match="not divided into parts"):
        load(save(x=pixels()), part="train")


@pytest.mark.parametrize("compressed", [True, False])
def test_fortran_order(save, pixels, compressed):
    data = load(save(x=np.asfortranarray(pixels()), compressed=compressed))
    assert np.array_equal(data.images, pixels())


def test_grey_images_gain_a_channel(save, pixels):
    assert load(save(x=pixels(channels=1)[..., 0])).image_shape == (5, 7, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_channels_first_become_last_without_a_copy(save, pixels, channels):
    images = pixels(channels=channels)
    data = load(save(x=np.ascontiguousarray(images.transpose(0, 3, 1, 2)), compressed=False))
    assert np.array_equal(data.images, images)
    assert isinstance(data.images, np.memmap)


@pytest.mark.parametrize("shape", [(4, 3, 8, 3), (4, 1, 5, 1)])
def test_refuses_channels_that_may_be_first_or_last(save, shape):
    with pytest.raises(DataError, match=r"set\.npz .* first or last"):
        load(save(x=np.zeros(shape, np.uint8)))


@pytest.mark.parametrize("shape", [(4,), (4, 8), (4, 8, 8, 2), (4, 8, 8, 3, 1)])
def test_refuses_arrays_that_are_not_images(save, shape):
    with pytest.raises(DataError, match="images of shape"):
        load(save(x=np.zeros(shape, np.uint8)))


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", ">f4"])
def test_floats_from_zero_to_one_are_scaled(save, pixels, kind):
    data = load(save(x=(pixels() / 255).astype(kind)))
    assert data.images.dtype == np.uint8
    assert np.array_equal(data.images, pixels())


def test_whole_numbers_up_to_255_are_taken(save, pixels):
    assert np.array_equal(load(save(x=pixels().astype(np.int64))).images, pixels())


def test_floats_beyond_the_memory_limit_are_scaled_on_access(save, pixels):
    data = load(save(x=pixels() / 255, compressed=False), memory_limit=10)
    assert isinstance(data.images, LazyImages)
    assert np.array_equal(data.images[2:4], pixels()[2:4])


def test_refuses_nan(save):
    with pytest.raises(DataError, match=r"set\.npz has pixels that are NaN"):
        load(save(x=np.full((2, 4, 4), np.nan)))


@pytest.mark.parametrize("value", [-0.1, 1.1, 200.0, np.inf])
def test_refuses_floats_out_of_range(save, value):
    with pytest.raises(DataError, match=r"set\.npz has float64 pixels .* scale them to 0…1"):
        load(save(x=np.full((2, 4, 4), value)))


@pytest.mark.parametrize("value", [-1, 256])
def test_refuses_whole_numbers_out_of_range(save, value):
    with pytest.raises(DataError, match="scale them to 0…255"):
        load(save(x=np.full((2, 4, 4), value)))


def test_refuses_other_types(save):
    with pytest.raises(DataError, match="images of type complex128"):
        load(save(x=np.zeros((2, 4, 4), complex)))


def test_refuses_no_images(save):
    with pytest.raises(DataError, match="holds no pixels"):
        load(save(x=np.zeros((0, 4, 4), np.uint8)))


def test_refuses_unknown_keys(save):
    with pytest.raises(DataError, match=r"set\.npz has no images .* it has pictures"):
        load(save(pictures=np.zeros(3)))


def test_refuses_another_count_of_labels(save, pixels):
    with pytest.raises(DataError, match=r"set\.npz has 5 labels for 6 images"):
        load(save(x=pixels(), y=np.zeros(5, int)))


def test_refuses_labels_that_are_not_whole(save, pixels):
    with pytest.raises(DataError, match=r"set\.npz has labels of type float64"):
        load(save(x=pixels(), y=np.linspace(0, 1, 6)))


def test_refuses_labels_with_gaps(save, pixels):
    with pytest.raises(DataError, match=r"set\.npz has labels up to 5 but none that is 1"):
        load(save(x=pixels(), y=np.array([0, 5] * 3)))


def test_refuses_negative_labels(save, pixels):
    with pytest.raises(DataError, match=r"set\.npz has the negative label -1"):
        load(save(x=pixels(), y=np.array([0, -1] * 3)))


def test_column_of_labels_is_flattened(save, pixels):
    assert load(save(x=pixels(), y=np.array([[0], [1]] * 3))).labels.tolist() == [0, 1] * 3


@pytest.mark.parametrize("names", [np.array([[b"a"]]), np.array([1, 2])])
def test_refuses_class_names_that_are_not_texts(save, pixels, names):
    with pytest.raises(DataError, match="class_names"):
        load(save(x=pixels(), y=np.array([0, 1] * 3), class_names=names))


def test_never_unpickles(save):
    with pytest.raises(DataError, match=r"set\.npz\[x\] wants unpickling"):
        load(save(x=np.array([{}], object)))


def test_refuses_a_header_that_promises_more_than_the_archive_has(member):
    path = member(header((10**6, 1000, 1000)) + bytes(100))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"set\.npz\[x\] promises 1,000,000,000,000 bytes"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_refuses_a_zip_bomb(member):
    path = member(header((20_000, 32, 32)) + bytes(20_000 * 32 * 32))
    with pytest.raises(DataError, match=r"from [\d,]+ stored ones"):
        load(path)


def test_refuses_what_is_over_the_limit(save, pixels):
    with pytest.raises(DataError, match="over the limit of 100; raise max_bytes"):
        load(save(x=pixels()), max_bytes=100)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not an archive" * 50])
def test_refuses_what_is_no_archive(tmp_path, content):
    (tmp_path / "set.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"set\.npz is not a readable \.npz archive"):
        load(tmp_path / "set.npz")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00\xff\xff{", header((-1, 4, 4))])
def test_refuses_a_damaged_member(member, content):
    with pytest.raises(DataError):
        load(member(content))


def test_refuses_a_truncated_archive(save, pixels):
    path = save(x=pixels())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="not a readable"):
        load(path)
