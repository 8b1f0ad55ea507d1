import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privet.data import LazyImages, load
from privet.data.disk import check_free_space
from privet.data.shards import largest_shard, read_shards, write_shard
from privet.errors import ConfigError, DataError
from tests.data.shard_sets import NAMES, ODD, failing, names_in


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    path.write_bytes(content)


@contextmanager
def largest_file(size):
    """What a full disk does, done by the system: no file grows beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("memory_limit", [0, 2**30])
def test_load_reads_it_back(tmp_path, write, channels, memory_limit):
    pictures, labels = write(tmp_path / "set", 3, channels=channels)
    assert names_in(tmp_path / "set") == [f"part-0000{number}.parquet" for number in range(3)]
    data = load(tmp_path / "set", memory_limit=memory_limit)
    assert isinstance(data.images, LazyImages) is (memory_limit == 0)
    assert np.array_equal(data.images[:], pictures)
    assert data.labels.tolist() == labels.tolist()
    assert data.class_names == NAMES
    assert np.array_equal(load(tmp_path / "set" / "part-00001.parquet").images[:], pictures[6:12])


def test_load_reads_many_equal_images(tmp_path):
    write_shard(tmp_path, 0, np.zeros((20_000, 8, 8, 1), np.uint8), np.zeros(20_000, int), NAMES)
    assert len(load(tmp_path)) == 20_000
    assert pq.read_metadata(tmp_path / "part-00000.parquet").num_row_groups == 1


def test_large_images_come_in_small_groups(tmp_path):
    write_shard(tmp_path, 0, np.zeros((5, 1024, 1024, 3), np.uint8), np.zeros(5, int), NAMES)
    assert pq.read_metadata(tmp_path / "part-00000.parquet").num_row_groups == 5
    assert read_shards(tmp_path) == (5,)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("whole_folder", [True, False])
def test_datasets_reads_it(tmp_path, write, channels, whole_folder):
    datasets = pytest.importorskip(
        "datasets", reason="needs the datasets package: pip install 'privet[datasets]'"
    )
    soft = np.tile([0.5, 0.25, 0.25], (6, 1))
    pictures, labels = write(tmp_path / "set", 2, channels=channels, probabilities=soft)
    if whole_folder:
        loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    else:
        files = sorted(str(path) for path in (tmp_path / "set").glob("*.parquet"))
        loaded = datasets.load_dataset(
            "parquet", data_files=files, cache_dir=str(tmp_path / "cache")
        )
    assert list(loaded) == ["train"]
    rows = loaded["train"]
    assert rows.features["image"] == datasets.Image()
    assert rows.features["label"] == datasets.ClassLabel(names=list(NAMES))
    assert rows[0]["probabilities"] == [0.5, 0.25, 0.25]
    assert rows["label"][:] == labels.tolist()
    images = np.stack([np.asarray(row["image"]) for row in rows])
    assert np.array_equal(images.reshape(pictures.shape), pictures)


def test_soft_labels(tmp_path, write):
    soft = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    write(tmp_path, probabilities=soft)
    column = pq.read_table(tmp_path / "part-00000.parquet").column("probabilities")
    assert column.type.value_type == pa.float32()
    assert np.array_equal(np.array(column.to_pylist(), np.float32), soft.astype(np.float32))
    assert len(load(tmp_path)) == 6


@pytest.mark.parametrize(
    ("soft", "complaint"),
    [
        (np.full((6, 2), 0.5), r"shape \(6, 2\); give \(6, 3\)"),
        (np.full((6, 3), 0.5), "normalise"),
        (np.full((6, 3), np.nan), "normalise"),
        (np.tile([2.0, -0.5, -0.5], (6, 1)), "normalise"),
    ],
)
def test_refuses_other_soft_labels(tmp_path, write, soft, complaint):
    with pytest.raises(DataError, match=complaint):
        write(tmp_path / "set", probabilities=soft)
    assert not (tmp_path / "set").exists()


def test_the_same_input_gives_the_same_bytes(tmp_path, write):
    soft = np.tile([0.5, 0.25, 0.25], (6, 1))
    contents = set()
    for name in ("one", "two"):
        write(tmp_path / name, channels=3, probabilities=soft)
        contents.add((tmp_path / name / "part-00000.parquet").read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("names", [ODD, ("Ωmega", "日本", "🌱")])
def test_class_names_are_kept(tmp_path, write, names):
    write(tmp_path, names=names)
    assert load(tmp_path).class_names == names


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"images": np.zeros((0, 4, 4, 1), np.uint8), "labels": np.zeros(0, int)}, "no rows"),
        ({"images": np.zeros((2, 4, 4, 2), np.uint8)}, "C = 1 or 3"),
        ({"images": np.zeros((2, 4, 4, 1))}, "uint8"),
        ({"labels": np.array([0, 3])}, "only 3 class names"),
        ({"labels": np.array([0, 1, 2])}, "3 labels for 2 images"),
        ({"class_names": ("cat", "dog", "cat")}, "two classes 'cat'"),
    ],
)
def test_refuses_what_is_no_set(tmp_path, change, complaint):
    right = {
        "images": np.zeros((2, 4, 4, 1), np.uint8),
        "labels": np.array([0, 1]),
        "class_names": NAMES,
    }
    with pytest.raises(DataError, match=complaint):
        write_shard(tmp_path / "set", 0, **(right | change))
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("number", [-1, 100_000])
def test_refuses_other_numbers(tmp_path, pixels, number):
    with pytest.raises(ConfigError, match="outside 0 to 99999"):
        write_shard(tmp_path, number, pixels(), np.zeros(6, int), NAMES)


def test_does_not_overwrite_a_shard(tmp_path, write):
    write(tmp_path)
    with pytest.raises(ConfigError, match=r"part-00000\.parquet exists"):
        write(tmp_path)


def test_refuses_a_shard_that_arrow_cannot_hold(tmp_path):
    black = np.broadcast_to(np.zeros((), np.uint8), (1000, 1024, 1024, 3))
    with pytest.raises(ConfigError, match="over 2 GiB; put fewer"):
        write_shard(tmp_path, 0, black, np.zeros(1000, int), NAMES)


def test_nothing_was_written_yet(tmp_path):
    assert read_shards(tmp_path) == ()
    assert read_shards(tmp_path / "nowhere") == ()


def test_a_run_goes_on_after_a_kill_before_the_rename(tmp_path, write):
    code = (
        "import os, signal, sys; from pathlib import Path; import numpy as np\n"
        "from privet.data.shards import write_shard\n"
        "folder, black = Path(sys.argv[1]), np.zeros((4, 5, 7, 1), np.uint8)\n"
        "write_shard(folder, 0, black, np.zeros(4, int), ['cat', 'dog', 'emu'])\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_shard(folder, 1, black, np.zeros(4, int), ['cat', 'dog', 'emu'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert names_in(tmp_path) == [".part-00001.parquet.part", "part-00000.parquet"]
    assert len(load(tmp_path)) == 4
    assert read_shards(tmp_path) == (4,)
    assert names_in(tmp_path) == ["part-00000.parquet"]
    write_shard(tmp_path, 1, np.ones((2, 5, 7, 1), np.uint8), np.zeros(2, int), NAMES)
    assert read_shards(tmp_path) == (4, 2)


def test_a_draft_is_written_over(tmp_path, write):
    (tmp_path / ".part-00000.parquet.part").write_bytes(bytes(10**5))
    write(tmp_path)
    assert read_shards(tmp_path) == (6,)


def test_damage_anywhere_in_the_images_is_found(tmp_path, write):
    write(tmp_path, 2)
    path = tmp_path / "part-00001.parquet"
    whole = path.read_bytes()
    first = whole.index(b"\x89PNG")
    last = whole.rindex(b"IEND")
    for position in range(first, last, 7):
        flip(path, position)
        with pytest.raises(DataError, match=r"part-00001\.parquet is damaged or no shard; remove"):
            read_shards(tmp_path)
        path.write_bytes(whole)
    assert read_shards(tmp_path) == (6, 6)


def test_damage_elsewhere_is_one_sentence_or_harmless(tmp_path, write):
    write(tmp_path)
    path = tmp_path / "part-00000.parquet"
    whole = path.read_bytes()
    for position in range(whole.rindex(b"IEND"), len(whole), 3):
        flip(path, position)
        with suppress(DataError):
            assert read_shards(tmp_path) == (6,)
        path.write_bytes(whole)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_refuses_what_is_no_shard(tmp_path, content):
    (tmp_path / "part-00000.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"part-00000\.parquet is damaged or no shard; remove"):
        read_shards(tmp_path)


def test_refuses_a_truncated_shard(tmp_path, write):
    write(tmp_path)
    path = tmp_path / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="damaged"):
        read_shards(tmp_path)


def test_refuses_a_shard_without_classes(tmp_path):
    pq.write_table(pa.table({"image": [b"x"], "label": [0]}), tmp_path / "part-00000.parquet")
    with pytest.raises(DataError, match="has labels and no class names"):
        read_shards(tmp_path)


def test_images_without_labels_have_no_column_of_them(tmp_path):
    images = np.zeros((5, 4, 4, 1), np.uint8)
    path = write_shard(tmp_path, 0, images, None, None)
    assert pq.read_table(path).column_names == ["image"]
    assert read_shards(tmp_path) == (5,)
    assert load(tmp_path).labels is None


def test_refuses_a_gap(tmp_path, write):
    write(tmp_path, 3)
    (tmp_path / "part-00001.parquet").unlink()
    with pytest.raises(DataError, match=r"part-00001\.parquet is missing between other shards"):
        read_shards(tmp_path)


def test_refuses_shards_of_two_sets(tmp_path, write, pixels):
    write(tmp_path)
    write_shard(tmp_path, 1, pixels(channels=1), np.zeros(6, int), ("cow", "pig", "hen"))
    with pytest.raises(DataError, match=r"part-00001\.parquet has other columns or classes"):
        read_shards(tmp_path)


def test_other_files_are_left_alone(tmp_path, write):
    write(tmp_path)
    for name in ("notes.txt", ".notes.part", "part-1.parquet"):
        (tmp_path / name).touch()
    assert read_shards(tmp_path) == (6,)
    assert len(names_in(tmp_path)) == 4


def test_no_shard_is_larger_than_foreseen(tmp_path):
    draw = np.random.default_rng(0)
    for shape in ((28, 28, 1), (1, 1, 1), (32, 32, 3), (300, 300, 3)):
        noise = draw.integers(0, 256, (50, *shape)).astype(np.uint8)
        soft = np.full((50, 100), 0.01)
        names = [str(each) for each in range(100)]
        path = write_shard(
            tmp_path / str(shape), 0, noise, np.arange(50), names, probabilities=soft
        )
        foreseen = largest_shard(50, shape, probabilities=100)
        assert path.stat().st_size < foreseen < 1.1 * noise.nbytes + 2**21


def test_refuses_a_disk_without_room(tmp_path, write, monkeypatch):
    check_free_space(tmp_path / "not" / "made", 1)
    with pytest.raises(ConfigError, match=r"made needs 1,0\d+,[\d,]+ bytes and its disk has"):
        check_free_space(tmp_path / "not" / "made", 10**24)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 0, 9))
    with pytest.raises(ConfigError, match=r"disk has 9 left"):
        write(tmp_path / "set")
    assert names_in(tmp_path / "set") == []


@pytest.mark.parametrize("broken", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        (errno.ENOSPC, r"part-00000\.parquet does not fit on its disk; free some"),
        (errno.EDQUOT, r"part-00000\.parquet does not fit on its disk; free some"),
        (errno.EACCES, r"part-00000\.parquet may not be written; change the perm"),
        (errno.EIO, r"part-00000\.parquet cannot be written \(Input/output error\)"),
    ],
)
def test_a_failure_leaves_nothing_behind(tmp_path, write, monkeypatch, broken, code, complaint):
    monkeypatch.setattr(os if broken == "fsync" else Path, broken, failing(code))
    with pytest.raises(ConfigError, match=complaint):
        write(tmp_path)
    assert names_in(tmp_path) == []


def test_a_write_cut_short_leaves_nothing_behind(tmp_path, write):
    with largest_file(500), pytest.raises(ConfigError, match="cannot be written"):
        write(tmp_path / "set")
    assert names_in(tmp_path / "set") == []


def test_a_file_in_the_way(tmp_path, write):
    (tmp_path / "set").write_text("precious")
    with pytest.raises(ConfigError, match=r"set/part-00000\.parquet cannot be written"):
        write(tmp_path / "set")
    assert (tmp_path / "set").read_text() == "precious"
