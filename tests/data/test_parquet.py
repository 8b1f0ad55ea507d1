import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privet.data import LazyImages, load
from privet.errors import DataError


@pytest.fixture
def table(pixels, encode):
    def make(count=6, *, labels=None, names=None, plain=False, column="image", form="PNG"):
        encoded = [encode(picture, form) for picture in pixels(count)]
        rows = encoded if plain else [{"bytes": each, "path": None} for each in encoded]
        columns = {column: rows, "label": labels or [0, 1] * (count // 2)}
        made = pa.table({name: pa.array(values) for name, values in columns.items()})
        if names is None:
            return made
        features = {"label": {"names": names, "_type": "ClassLabel"}}
        metadata = json.dumps({"info": {"features": features}})
        return made.replace_schema_metadata({"huggingface": metadata})

    return make


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("column", ["image", "img"])
def test_both_layouts(tmp_path, table, pixels, plain, column):
    pq.write_table(table(plain=plain, column=column), tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet")
    assert np.array_equal(data.images, pixels())
    assert data.labels.tolist() == [0, 1] * 3


def test_class_names_come_from_the_metadata(tmp_path, table):
    pq.write_table(table(names=["cat", "dog", "emu"]), tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet")
    assert data.class_names == ("cat", "dog", "emu")


def test_what_datasets_writes(tmp_path, pixels):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        image=datasets.Image(), label=datasets.ClassLabel(names=["cat", "dog"])
    )
    rows = {"image": list(pixels()), "label": [0, 1] * 3}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet")
    assert np.array_equal(data.images, pixels())
    assert data.class_names == ("cat", "dog")


def test_without_labels(tmp_path, table):
    pq.write_table(table().drop_columns("label"), tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet").labels is None


@pytest.mark.parametrize("memory_limit", [0, 2**30])
def test_a_folder_is_joined_in_order(tmp_path, table, pixels, memory_limit):
    pq.write_table(table().slice(0, 4), tmp_path / "0.parquet", row_group_size=3)
    pq.write_table(table().slice(4, 2), tmp_path / "1.parquet")
    data = load(tmp_path, memory_limit=memory_limit)
    assert isinstance(data.images, LazyImages) is (memory_limit == 0)
    assert np.array_equal(data.images[:], pixels())
    assert np.array_equal(data.images[np.array([5, 3])], pixels()[[5, 3]])
    assert data.labels.tolist() == [0, 1] * 3


def test_a_folder_has_parts(tmp_path, table):
    pq.write_table(table(4), tmp_path / "train-00000-of-00001.parquet")
    pq.write_table(table(2), tmp_path / "test-00000-of-00001.parquet")
    assert len(load(tmp_path)) == 4
    assert len(load(tmp_path, part="test")) == 2
    with pytest.raises(DataError, match="has no part 'half'; choose test or train"):
        load(tmp_path, part="half")


def test_refuses_a_part_of_one_file(tmp_path, table):
    pq.write_table(table(), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet is one part"):
        load(tmp_path / "a.parquet", part="train")


def test_refuses_a_missing_column(tmp_path, table):
    pq.write_table(table(column="picture"), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet has no column 'image'"):
        load(tmp_path / "a.parquet")


def test_refuses_images_that_are_not_bytes(tmp_path):
    pq.write_table(pa.table({"image": [[1, 2]]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet has images of Arrow type list"):
        load(tmp_path / "a.parquet")


def test_refuses_rows_without_bytes_and_opens_no_path(tmp_path, class_folders):
    path = str(class_folders[0] / "cat" / "0.png")
    pq.write_table(pa.table({"image": [{"bytes": None, "path": path}]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet"):
        load(tmp_path / "a.parquet")


def test_refuses_missing_bytes_by_row(tmp_path, table, encode, pixels):
    rows = [{"bytes": encode(pixels()[0]), "path": None}, {"bytes": None, "path": "x"}]
    pq.write_table(pa.table({"image": rows}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet, row 1, has no image bytes"):
        load(tmp_path / "a.parquet")


def test_refuses_a_damaged_image_by_row(tmp_path, encode, pixels):
    rows = [encode(pixels()[0]), encode(pixels()[0])[:-30]]
    pq.write_table(pa.table({"image": rows}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet, row 1, is not a readable image"):
        load(tmp_path / "a.parquet")


def test_refuses_missing_labels(tmp_path, table):
    pq.write_table(table(labels=[0, None, 1, 0, 1, 0]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet has rows without a label"):
        load(tmp_path / "a.parquet")


def test_refuses_labels_that_are_texts(tmp_path, table):
    pq.write_table(table(labels=list("aabbcc")), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="labels of type object"):
        load(tmp_path / "a.parquet")


def test_refuses_too_few_names(tmp_path, table):
    pq.write_table(table(names=["cat"]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="label 1 but only 1 class names"):
        load(tmp_path / "a.parquet")


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"info": 3}', b"\xff"])
def test_refuses_damaged_metadata(tmp_path, table, raw):
    damaged = table().replace_schema_metadata({b"huggingface": raw})
    pq.write_table(damaged, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="metadata of datasets"):
        load(tmp_path / "a.parquet")


def test_refuses_no_rows(tmp_path, table):
    pq.write_table(table().slice(0, 0), tmp_path / "a.parquet")
    for memory_limit in (0, 2**30):
        with pytest.raises(DataError, match="has no rows"):
            load(tmp_path / "a.parquet", memory_limit=memory_limit)


def test_refuses_more_rows_than_bytes(tmp_path):
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**5, np.int8)), pa.array([b"x"]))
    pq.write_table(pa.table({"image": same}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet declares 100,000 rows in [\d,]+ bytes"):
        load(tmp_path / "a.parquet")


def test_refuses_a_bomb(tmp_path):
    rows = pa.array([bytes(2**20)] * 64)
    pq.write_table(
        pa.table({"image": rows}), tmp_path / "a.parquet", compression="zstd", use_dictionary=False
    )
    with pytest.raises(DataError, match=r"a\.parquet declares [\d,]+ bytes from"):
        load(tmp_path / "a.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_refuses_a_damaged_file(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet is not a readable Parquet file"):
        load(tmp_path / "a.parquet")
