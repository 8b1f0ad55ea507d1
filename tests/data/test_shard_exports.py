import errno
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

from privet.data import load
from privet.data.npz import read_text
from privet.data.shard_exports import copy_shards, write_npz
from privet.data.shards import class_counts, num_rows, soft_labels, write_shard
from privet.data.staging import check_free_file, new_file
from privet.errors import ConfigError, DataError
from tests.data.shard_sets import NAMES, ODD, failing, names_in

TEXTS = {"README.md": "# A card\n", "certificate.json": '{"epsilon": 1}\n'}


def dirichlet(count, classes=3):
    return np.random.default_rng(0).dirichlet(np.ones(classes), count).astype(np.float32)


class TestCopies:
    def test_everything_is_there(self, tmp_path, write):
        pictures, labels = write(tmp_path / "set", 2)
        assert copy_shards(tmp_path / "set", tmp_path / "a" / "b", beside=TEXTS) == 12
        there = ["README.md", "certificate.json", "part-00000.parquet", "part-00001.parquet"]
        assert names_in(tmp_path / "a" / "b") == there
        data = load(tmp_path / "a" / "b")
        assert np.array_equal(data.images[:], pictures)
        assert data.labels.tolist() == labels.tolist()

    def test_only_an_earlier_copy_is_replaced_and_only_with_force(self, tmp_path, write):
        write(tmp_path / "set")
        write(tmp_path / "more", 2)
        copy_shards(tmp_path / "set", tmp_path / "copy", beside=TEXTS)
        with pytest.raises(ConfigError, match=r"copy exists; .*--force"):
            copy_shards(tmp_path / "more", tmp_path / "copy", beside=TEXTS)
        assert copy_shards(tmp_path / "more", tmp_path / "copy", beside=TEXTS, force=True) == 12
        (tmp_path / "copy" / "thesis.tex").write_text("precious")
        for place in (tmp_path / "copy", tmp_path / "set"):
            with pytest.raises(ConfigError, match="holds something else; choose another folder"):
                copy_shards(tmp_path / "more", place, beside=TEXTS, force=True)
        assert (tmp_path / "copy" / "thesis.tex").read_text() == "precious"

    def test_whole_or_not_there(self, tmp_path, write, monkeypatch):
        write(tmp_path / "set")
        monkeypatch.setattr("shutil.copyfile", failing(errno.ENOSPC))
        with pytest.raises(ConfigError, match="copy does not fit on its disk"):
            copy_shards(tmp_path / "set", tmp_path / "copy", beside=TEXTS)
        assert names_in(tmp_path) == ["set"]

    def test_refusals(self, tmp_path, write):
        write(tmp_path / "set")
        with pytest.raises(ConfigError, match="lies in the folder of the shards"):
            copy_shards(tmp_path / "set", tmp_path / "set" / "copy", beside=TEXTS)
        (tmp_path / "none").mkdir()
        with pytest.raises(DataError, match="none holds no shards"):
            copy_shards(tmp_path / "none", tmp_path / "copy", beside=TEXTS)
        (tmp_path / "set" / "part-00000.parquet").write_bytes(b"PAR1")
        with pytest.raises(DataError, match="damaged or no shard"):
            copy_shards(tmp_path / "set", tmp_path / "copy", beside=TEXTS)
        assert names_in(tmp_path) == ["none", "set"]


class TestNpz:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_load_and_numpy_read_it(self, tmp_path, write, channels):
        soft = dirichlet(6)
        pictures, labels = write(tmp_path / "set", 2, channels=channels, probabilities=soft)
        text = '{"statement": "ε = 1"}'
        assert write_npz(tmp_path / "set", tmp_path / "a" / "set.npz", certificate=text) == 12
        data = load(tmp_path / "a" / "set.npz")
        assert isinstance(data.images, np.memmap)
        assert np.array_equal(data.images, pictures)
        assert (data.labels.tolist(), data.class_names) == (labels.tolist(), NAMES)
        with np.load(tmp_path / "a" / "set.npz") as arrays:
            assert np.array_equal(arrays["probabilities"], np.concatenate([soft, soft]))
            assert json.loads(str(arrays["certificate"])) == {"statement": "ε = 1"}
        assert read_text(tmp_path / "a" / "set.npz", "certificate") == text
        assert read_text(tmp_path / "a" / "set.npz", "licence") is None
        assert names_in(tmp_path / "a") == ["set.npz"]

    def test_sets_without_labels(self, tmp_path, pixels):
        write_shard(tmp_path / "set", 0, pixels(), None, None)
        write_npz(tmp_path / "set", tmp_path / "set.npz", certificate="{}")
        with np.load(tmp_path / "set.npz") as arrays:
            assert sorted(arrays.files) == ["certificate", "images"]
        assert load(tmp_path / "set.npz").labels is None

    def test_odd_class_names(self, tmp_path, pixels):
        write_shard(tmp_path / "set", 0, pixels(len(ODD)), np.arange(len(ODD)), ODD)
        write_npz(tmp_path / "set", tmp_path / "set.npz", certificate="{}")
        assert load(tmp_path / "set.npz").class_names == ODD

    def test_the_same_set_gives_the_same_bytes(self, tmp_path, write):
        write(tmp_path / "set")
        for name in ("a.npz", "b.npz"):
            write_npz(tmp_path / "set", tmp_path / name, certificate="{}")
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()

    def test_a_few_images_are_in_memory_at_a_time(self, tmp_path, monkeypatch):
        monkeypatch.setattr("privet.data.shard_exports._AT_ONCE", 2**20)
        pictures = np.zeros((32, 512, 512, 3), np.uint8)
        for number in range(4):
            rows = slice(8 * number, 8 * number + 8)
            write_shard(tmp_path / "set", number, pictures[rows], np.zeros(8, int), NAMES)
        del pictures
        tracemalloc.start()
        write_npz(tmp_path / "set", tmp_path / "set.npz", certificate="{}")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * 2**20 < (tmp_path / "set.npz").stat().st_size

    def test_whole_or_not_there(self, tmp_path, write, monkeypatch):
        write(tmp_path / "set")
        write_npz(tmp_path / "set", tmp_path / "set.npz", certificate="{}")
        before = (tmp_path / "set.npz").read_bytes()
        monkeypatch.setattr(zipfile.ZipFile, "open", failing(errno.ENOSPC))
        with pytest.raises(ConfigError, match=r"set\.npz does not fit on its disk"):
            write_npz(tmp_path / "set", tmp_path / "set.npz", certificate="other")
        assert (tmp_path / "set.npz").read_bytes() == before
        assert names_in(tmp_path) == ["set", "set.npz"]

    def test_damaged_shards_are_refused(self, tmp_path, write):
        write(tmp_path / "set", 3)
        (tmp_path / "set" / "part-00001.parquet").unlink()
        with pytest.raises(DataError, match=r"part-00001\.parquet is missing"):
            write_npz(tmp_path / "set", tmp_path / "set.npz", certificate="{}")
        assert not (tmp_path / "set.npz").exists()


class TestFiles:
    def test_refusals(self, tmp_path):
        (tmp_path / "a.npz").mkdir()
        (tmp_path / "b.npz").touch()
        check_free_file(tmp_path / "c.NPZ", ".npz", force=False)
        check_free_file(tmp_path / "b.npz", ".npz", force=True)
        for name, complaint in {
            "a.npz": "is a folder; give the path of a file",
            "b.npz": "exists; give another path, or --force",
            "c.zip": r"does not end in \.npz",
        }.items():
            with pytest.raises(ConfigError, match=complaint):
                check_free_file(tmp_path / name, ".npz", force=False)

    def test_what_failed_leaves_nothing(self, tmp_path):
        def write_half():
            with new_file(tmp_path / "out") as file:
                file.write(b"half")
                raise ValueError("broken")

        (tmp_path / "out").write_text("before")
        with pytest.raises(ValueError, match="broken"):
            write_half()
        assert (tmp_path / "out").read_text() == "before"
        assert names_in(tmp_path) == ["out"]

    def test_a_place_that_may_not_be_written(self, tmp_path):
        (tmp_path / "file").touch()
        refused = pytest.raises(ConfigError, match="out cannot be written")
        with refused, new_file(tmp_path / "file" / "out"):
            pass


def test_counting_reads_no_image(tmp_path, write):
    soft = dirichlet(6)
    _, labels = write(tmp_path / "set", 2, probabilities=soft)
    assert num_rows(tmp_path / "set") == 12
    assert class_counts(tmp_path / "set", 4).tolist() == [*np.bincount(labels), 0]
    assert np.array_equal(np.concatenate(list(soft_labels(tmp_path / "set"))), [*soft, *soft])
    write(tmp_path / "hard")
    assert list(soft_labels(tmp_path / "hard")) == []
