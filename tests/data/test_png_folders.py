import errno
import fcntl
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from privet.data import load
from privet.data.png_folders import remove_png_folders, write_png_folders
from privet.data.shards import write_shard
from privet.errors import ConfigError, DataError
from tests.data.shard_sets import NAMES, ODD, failing, names_in


@pytest.mark.parametrize("channels", [1, 3])
def test_png_folders(tmp_path, write, channels):
    pictures, labels = write(tmp_path / "set", 2, channels=channels)
    assert write_png_folders(tmp_path / "set", tmp_path / "out" / "png") == 12
    assert names_in(tmp_path / "out") == ["png"]
    assert (tmp_path / "out" / "png" / NAMES[labels[7]] / "000007.png").is_file()
    data = load(tmp_path / "out" / "png")
    order = np.argsort(labels, kind="stable")
    assert np.array_equal(data.images[:], pictures[order])
    assert data.labels.tolist() == labels[order].tolist()
    assert data.class_names == NAMES


def test_odd_class_names_become_safe_ones(tmp_path, pixels):
    labels = np.arange(len(ODD))
    write_shard(tmp_path / "set", 0, pixels(len(ODD)), labels, ODD)
    write_png_folders(tmp_path / "set", tmp_path / "png")
    safe = [next((tmp_path / "png").glob(f"*/{row:06d}.png")).parent.name for row in labels]
    assert safe == [
        "a%2Fb",
        "%2E%2E",
        "été \N{SNOWMAN}",
        "100%25",
        "%2Ehidden",
        "x%2E",
        "%class-6",
        "%class-7",
        "tab%09here",
        "%ED%A0%80",
    ]
    assert len(load(tmp_path / "png")) == len(ODD)
    assert names_in(tmp_path) == ["png", "set"]


def test_two_classes_of_one_name_are_refused(tmp_path, write):
    write(tmp_path / "set", 1)
    [shard] = tmp_path.glob("set/*.parquet")
    table = pq.read_table(shard)
    facts = table.schema.metadata[b"huggingface"].replace(*(each.encode() for each in NAMES[:2]))
    pq.write_table(table.replace_schema_metadata({b"huggingface": facts}), shard)
    with pytest.raises(DataError, match=f"has two classes '{NAMES[1]}'; rename one"):
        write_png_folders(tmp_path / "set", tmp_path / "png")


def test_a_class_without_images_has_no_folder(tmp_path, pixels):
    write_shard(tmp_path / "set", 0, pixels(), np.zeros(6, int), NAMES)
    write_png_folders(tmp_path / "set", tmp_path / "png")
    assert load(tmp_path / "png").class_names == ("cat",)


def test_png_folders_are_replaced_only_with_force(tmp_path, write):
    write(tmp_path / "set")
    (tmp_path / "png").mkdir()
    write_png_folders(tmp_path / "set", tmp_path / "png")
    write(tmp_path / "more", 2)
    with pytest.raises(ConfigError, match=r"png exists; .*--force"):
        write_png_folders(tmp_path / "more", tmp_path / "png")
    assert len(load(tmp_path / "png")) == 6
    assert write_png_folders(tmp_path / "more", tmp_path / "png", force=True) == 12
    assert len(load(tmp_path / "png")) == 12
    assert names_in(tmp_path) == ["more", "png", "set"]


@pytest.mark.parametrize("ours_before", [True, False])
def test_force_spares_what_is_not_ours(tmp_path, write, ours_before):
    write(tmp_path / "set")
    if ours_before:
        write_png_folders(tmp_path / "set", tmp_path / "png")
    mine = tmp_path / "png" / "cat" / ("mine.png" if ours_before else "000009.png")
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("precious")
    with pytest.raises(ConfigError, match="png holds something else; choose another"):
        write_png_folders(tmp_path / "set", tmp_path / "png", force=True)
    assert mine.read_text() == "precious"


def test_png_folders_stay_out_of_the_shards(tmp_path, write):
    write(tmp_path)
    for out in (tmp_path, tmp_path / "png"):
        with pytest.raises(ConfigError, match="lies in the folder of the shards"):
            write_png_folders(tmp_path, out, force=True)


def test_png_folders_of_nothing(tmp_path):
    with pytest.raises(DataError, match="holds no shards"):
        write_png_folders(tmp_path / "set", tmp_path / "png")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("broken", ["write_bytes", "rename"])
def test_png_folders_are_whole_or_not_there(tmp_path, write, monkeypatch, before, broken):
    write(tmp_path / "set", 2)
    if before:
        write(tmp_path / "less")
        write_png_folders(tmp_path / "less", tmp_path / "png")
    there = names_in(tmp_path)
    real = getattr(Path, broken)

    def full(path, *rest):
        if path.name in ("000008.png", ".png.part"):
            failing(errno.ENOSPC)()
        return real(path, *rest)

    monkeypatch.setattr(Path, broken, full)
    with pytest.raises(ConfigError, match="png does not fit on its disk"):
        write_png_folders(tmp_path / "set", tmp_path / "png", force=True)
    assert names_in(tmp_path) == there
    assert not before or len(load(tmp_path / "png")) == 6


def test_png_folders_after_a_kill(tmp_path, write):
    write(tmp_path / "set")
    (tmp_path / ".png.part" / "cat").mkdir(parents=True)
    (tmp_path / ".png.part" / "cat" / "000099.png").write_text("half")
    (tmp_path / ".png.part" / "loose").touch()
    write_png_folders(tmp_path / "set", tmp_path / "png")
    assert len(load(tmp_path / "png")) == 6
    assert names_in(tmp_path) == ["png", "set"]


def test_png_folders_by_two_processes(tmp_path, write):
    write(tmp_path / "set")
    (tmp_path / ".png.part").mkdir()
    descriptor = os.open(tmp_path / ".png.part", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(ConfigError, match="png is being written by another process"):
        write_png_folders(tmp_path / "set", tmp_path / "png")
    os.close(descriptor)
    assert names_in(tmp_path) == [".png.part", "set"]


def test_png_folders_are_taken_away_again(tmp_path, write):
    write(tmp_path / "set")
    write_png_folders(tmp_path / "set", tmp_path / "png")
    remove_png_folders(tmp_path / "png")
    remove_png_folders(tmp_path / "png")
    assert names_in(tmp_path) == ["set"]


def test_nothing_else_is_taken_away(tmp_path, write):
    write(tmp_path / "set")
    write_png_folders(tmp_path / "set", tmp_path / "png")
    (tmp_path / "png" / "cat" / "mine.png").write_text("precious")
    (tmp_path / "other").mkdir()
    for name in ("png", "other", "set"):
        remove_png_folders(tmp_path / name)
    assert len(list((tmp_path / "png").rglob("*.png"))) == 7
    assert names_in(tmp_path) == ["other", "png", "set"]


TEXTS = {"README.md": "# A card\n", "certificate.json": "{}\n"}


def test_texts_beside_the_folders_are_no_images(tmp_path, write):
    write(tmp_path / "set")
    write_png_folders(tmp_path / "set", tmp_path / "png", beside=TEXTS)
    assert {name: (tmp_path / "png" / name).read_text() for name in TEXTS} == TEXTS
    assert load(tmp_path / "png").class_names == NAMES
    (tmp_path / "png" / "README.md").write_text("# Edited\n")
    write_png_folders(tmp_path / "set", tmp_path / "png", beside=TEXTS, force=True)
    assert (tmp_path / "png" / "README.md").read_text() == "# A card\n"
    (tmp_path / "png" / "cat" / "README.md").write_text("mine")
    with pytest.raises(ConfigError, match="png holds something else"):
        write_png_folders(tmp_path / "set", tmp_path / "png", beside=TEXTS, force=True)
    with pytest.raises(DataError, match=r"README\.md is not a PNG"):
        load(tmp_path / "png")
    (tmp_path / "png" / "cat" / "README.md").unlink()
    remove_png_folders(tmp_path / "png")
    assert names_in(tmp_path) == ["set"]


def test_a_class_may_be_called_like_a_text(tmp_path, pixels):
    names = ("README.md", "readme.MD", "certificate.json")
    write_shard(tmp_path / "set", 0, pixels(3), np.arange(3), names)
    write_png_folders(tmp_path / "set", tmp_path / "png", beside=TEXTS)
    folders = sorted(each.name for each in (tmp_path / "png").iterdir() if each.is_dir())
    assert folders == ["%52EADME.md", "%63ertificate.json", "%72eadme.MD"]
    assert len(load(tmp_path / "png")) == 3
