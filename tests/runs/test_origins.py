"""Rows that are called public and are not."""

import os

import numpy as np
import pytest

from privet.errors import ConfigError
from privet.paths import overlap
from privet.runs.origins import is_release, refuse_private


def test_a_part_of_the_private_folder_is_not_public(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((30, 8, 8), np.uint8), y=np.arange(30) % 3)
    for source, public in ((tmp_path, tmp_path / "a.npz"), (tmp_path / "a.npz", tmp_path)):
        with pytest.raises(ConfigError, match="or a part of them"):
            refuse_private("public", str(public), str(source))
    refuse_private("public", str(tmp_path / "b.npz"), str(tmp_path / "a.npz"))
    refuse_private("public", "digits", str(tmp_path))


def test_another_name_of_the_private_file_is_not_public(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"")
    (tmp_path / "b.npz").hardlink_to(tmp_path / "a.npz")
    with pytest.raises(ConfigError, match="names the private data themselves"):
        refuse_private("public", str(tmp_path / "b.npz"), str(tmp_path / "a.npz"))


def test_a_certificate_of_strange_bytes_is_none(tmp_path):
    (tmp_path / "certificate.json").write_bytes(b"\xff\xfe")
    assert not is_release(str(tmp_path))


def classes(folder):
    """A folder of two classes with a file each."""
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        (folder / name / "0.png").write_bytes(b"")
    return folder


def linked_classes(folder, private):
    folder.mkdir()
    for each in private.iterdir():
        (folder / each.name).symlink_to(each)


def linked_files(folder, private, link=os.symlink):
    for each in private.rglob("*.png"):
        place = folder / each.relative_to(private)
        place.parent.mkdir(parents=True)
        link(each, place)


def same_names(folder, private):
    linked_files(folder, private, link=os.link)


@pytest.mark.parametrize("make", [linked_classes, linked_files, same_names])
def test_trap_links_into_the_private_folder_are_not_public(tmp_path, make):
    private = classes(tmp_path / "private")
    make(tmp_path / "public", private)
    for names in (("public", "private"), ("private", "public")):
        with pytest.raises(ConfigError, match="or a part of them"):
            refuse_private("public", *(str(tmp_path / name) for name in names))


def test_trap_two_folders_of_links_to_one_place_overlap(tmp_path):
    pool = classes(tmp_path / "pool")
    for name in ("private", "public"):
        linked_classes(tmp_path / name, pool)
    assert overlap(str(tmp_path / "public"), str(tmp_path / "private"))


def test_folders_with_nothing_in_common_are_two(tmp_path):
    folders = [classes(tmp_path / name) for name in ("private", "public")]
    (folders[0] / "round").symlink_to(folders[0])
    (folders[1] / "nowhere").symlink_to(tmp_path / "nothing")
    assert not overlap(*map(str, folders))


def test_a_built_in_set_is_no_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    classes(tmp_path / "digits")
    assert not overlap("digits", str(tmp_path / "digits"))
