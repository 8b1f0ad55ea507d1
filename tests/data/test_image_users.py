"""Whose images are whose, in every layout that can say so."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from privet.data import load
from privet.data.image_users import image_users
from privet.errors import ConfigError, DataError

IDS = ["a", "b", "a", "c"]


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (4, 8, 8), np.uint8)


def png(image):
    import io

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png")
    return buffer.getvalue()


def table(images, **columns):
    encoded = [{"bytes": png(image), "path": None} for image in images]
    return pa.table({"image": encoded, "label": [0, 1] * (len(images) // 2), **columns})


@pytest.fixture
def folder(tmp_path, images):
    """Class folders, so that images load in another order than the table has them."""
    lines = ["file_name,who"]
    for number, image in enumerate(images):
        name = f"{'pn'[number % 2]}/{number}.png"
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(png(image))
        lines.append(f"{name},{IDS[number]}")
    (tmp_path / "set" / "metadata.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "set"


@pytest.mark.parametrize("ids", [IDS, [1, 2, 1, 7], [b"x", b"y", b"x", b"z"]])
def test_an_array_of_an_archive(tmp_path, images, ids):
    np.savez(tmp_path / "set.npz", images=images, labels=[0, 1, 0, 1], who=np.array(ids))
    found = image_users(str(tmp_path / "set.npz"), "who", count=4)
    assert found[0] == found[2]
    assert len(set(found)) == 3


def test_a_column_of_parquet_in_the_order_of_its_files(tmp_path, images):
    for number, rows in enumerate((slice(0, 2), slice(2, 4))):
        path = tmp_path / f"train-{number:05}-of-00002.parquet"
        pq.write_table(table(images[rows], who=IDS[rows]), path)
    pq.write_table(table(images, who=["z"] * 4), tmp_path / "test-00000-of-00001.parquet")
    assert image_users(str(tmp_path), "who", count=4).tolist() == IDS
    assert len(load(tmp_path)) == 4
    one = str(tmp_path / "train-00000-of-00002.parquet")
    assert image_users(one, "who", count=2).tolist() == IDS[:2]


def test_a_table_beside_a_folder_in_the_order_in_which_images_load(folder, images):
    loaded = load(folder)
    users = image_users(str(folder), "who", count=4)
    of_image = {image.tobytes(): user for image, user in zip(images, IDS, strict=True)}
    assert loaded.class_names == ("n", "p")
    assert [of_image[each.tobytes()] for each in loaded.images[:]] == users.tolist()


def test_a_table_beside_images_without_classes(tmp_path, images):
    for number, image in enumerate(images):
        (tmp_path / f"{number}.png").write_bytes(png(image))
    rows = "".join(f"{number}.png,{IDS[number]}\n" for number in (3, 2, 1, 0))
    (tmp_path / "metadata.csv").write_text("file_name,who\n" + rows)
    assert len(load(tmp_path)) == 4
    assert image_users(str(tmp_path), "who", count=4).tolist() == IDS


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name,who\np/0.png,a\n", "has no column file_name"),
        ("file_name,whom\np/0.png,a\n", "has no column 'who' of users"),
        ("file_name,who\np/0.png,a\n", "does not name every image"),
        ("file_name,who\np/0.png,a\np/0.png,b\n", "names an image twice"),
        ("file_name,who\np/0.png,\n", "has rows without a value"),
    ],
)
def test_a_table_that_does_not_fit(folder, text, sentence):
    (folder / "metadata.csv").write_text(text)
    with pytest.raises(DataError, match=sentence):
        image_users(str(folder), "who", count=4)


@pytest.mark.parametrize("ids", [[0.5] * 4, [[1]] * 4, [1, 2, 3]])
def test_an_array_that_does_not_fit(tmp_path, images, ids):
    np.savez(tmp_path / "set.npz", images=images, who=np.array(ids))
    with pytest.raises(DataError, match=r"no list of whole numbers or texts|4 images and 3 users"):
        image_users(str(tmp_path / "set.npz"), "who", count=4)


def test_what_is_not_there(tmp_path, images, folder):
    np.savez(tmp_path / "set.npz", images=images)
    pq.write_table(table(images), tmp_path / "set.parquet")
    for name in ("set.npz", "set.parquet"):
        with pytest.raises(DataError, match="who"):
            image_users(str(tmp_path / name), "who", count=4)
    (folder / "metadata.csv").unlink()
    for source in ("digits", str(folder)):
        with pytest.raises(ConfigError, match="does not say whose its images are"):
            image_users(source, "who", count=4)


def test_parquet_beside_idx_files_is_of_other_images(tmp_path, images):
    """`load` takes the IDX files: ids of the Parquet file would be those of other images."""
    header = bytes([0, 0, 8, 3]) + np.array([4, 8, 8], ">u4").tobytes()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(header + images.tobytes())
    pq.write_table(table(images, who=IDS), tmp_path / "other.parquet")
    assert len(load(tmp_path)) == 4
    with pytest.raises(ConfigError, match="does not say whose"):
        image_users(str(tmp_path), "who", count=4)
