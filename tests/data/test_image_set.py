import numpy as np
import pytest

from privet.data import ImageSet, LazyImages
from privet.data.column import ChosenRows
from privet.errors import DataError


def lazy(pixels):
    return LazyImages(lambda row: pixels[row], pixels.shape)


@pytest.mark.parametrize("channels", [1, 3])
def test_knows_its_sizes_and_classes(pixels, channels):
    data = ImageSet(pixels(6, 5, 7, channels), np.array([0, 1, 1, 2, 2, 2]))
    assert len(data) == 6
    assert data.image_shape == (5, 7, channels)
    assert data.num_classes == 3
    assert data.class_counts().tolist() == [1, 2, 3]
    assert data.class_names == ("0", "1", "2")


def test_without_labels_there_are_no_classes(pixels):
    data = ImageSet(pixels())
    assert data.num_classes == 0
    assert data.class_counts().tolist() == []
    assert list(data.columns()) == ["images"]


def test_repr_shows_no_pixel(pixels):
    assert repr(ImageSet(pixels())) == "ImageSet(6 images of 5×7×3, no labels)"


def test_columns_are_the_arrays_themselves(pixels):
    images, labels = pixels(), np.array([0, 1] * 3)
    columns = ImageSet(images, labels).columns()
    assert columns["images"] is images
    assert np.shares_memory(columns["labels"], labels)


def test_a_slice_is_a_view_and_keeps_the_classes(pixels):
    images = pixels()
    part = ImageSet(images, np.array([0, 1, 2, 0, 1, 2])).take(slice(0, 2))
    assert np.shares_memory(part.images, images)
    assert part.num_classes == 3
    assert part.class_counts().tolist() == [1, 1, 0]


@pytest.mark.parametrize("rows", [[4, 0, -1], [True, False, True, False, False, True], []])
def test_take_by_numbers_agrees_with_numpy(pixels, rows):
    images, labels = pixels(), np.array([0, 1, 2, 0, 1, 2])
    index = np.array(rows, dtype=None if rows else np.int64)
    for held in (images, lazy(images)):
        part = ImageSet(held, labels).take(rows)
        assert np.array_equal(part.images[:], images[index])
        assert np.array_equal(part.labels, labels[index])


@pytest.mark.parametrize("rows", [[6], [-7], [0.5], [[0, 1]], 3])
def test_take_refuses_rows_that_are_not_there(pixels, rows):
    with pytest.raises(IndexError):
        ImageSet(pixels()).take(rows)


def test_taking_from_lazy_images_composes_an_index(pixels):
    images, fetched = pixels(), []

    def fetch(row):
        fetched.append(row)
        return images[row]

    data = ImageSet(LazyImages(fetch, images.shape)).take([5, 3, 1]).take(slice(1, None))
    assert isinstance(data.images, ChosenRows)
    assert fetched == []
    assert np.array_equal(data.images[np.array([1])], images[[1]])
    assert fetched == [1]


def test_taking_from_a_memory_map_reads_nothing(tmp_path, pixels):
    path = tmp_path / "pixels"
    path.write_bytes(pixels().tobytes())
    mapped = np.memmap(path, np.uint8, "r", shape=pixels().shape)
    assert isinstance(ImageSet(mapped).take([2, 0]).images, ChosenRows)
    assert isinstance(ImageSet(mapped).take(slice(2)).images, np.memmap)


@pytest.mark.parametrize("threads", [True, False])
def test_lazy_images_decode_in_order(pixels, threads):
    images = pixels(50)
    column = LazyImages(lambda row: images[row], images.shape, threads=threads)
    assert np.array_equal(column[5:45:3], images[5:45:3])
    assert np.array_equal(column[np.array([-1, 0])], images[[-1, 0]])
    assert np.array_equal(column.decoded(), images)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 4, 4, 1), np.float32), "images are float32"),
        (np.zeros((2, 4, 4), np.uint8), "images have shape"),
        (np.zeros((2, 4, 4, 2), np.uint8), "C = 1 or 3"),
        (np.zeros((2, 0, 4, 1), np.uint8), "images have shape"),
    ],
)
def test_refuses_what_are_not_images(images, message):
    with pytest.raises(DataError, match=message):
        ImageSet(images)


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 1, 1], None, "3 labels for 6 images"),
        ([0.0, 1, 0, 1, 0, 1], None, "type float64"),
        ([0, 1, -1, 0, 1, 0], None, "negative label -1"),
        ([0, 1, 3, 0, 1, 0], None, "none that is 2"),
        ([0, 1, 2, 0, 1, 0], ("a", "b"), "only 2 class names"),
        ([2**40] * 6, None, "label 1099511627776"),
        (np.eye(6, dtype=int), None, "one-hot"),
        (None, ("a",), "without labels has class_names"),
    ],
)
def test_refuses_labels_that_do_not_number_classes(pixels, labels, names, message):
    with pytest.raises(DataError, match=message):
        ImageSet(pixels(), None if labels is None else np.array(labels), names)
