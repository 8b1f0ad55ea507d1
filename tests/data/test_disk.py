"""Files and folders that are whole or not there, whatever was killed and whoever else writes."""

import fcntl
import os

import pytest

from privet.data.disk import drafted, write_whole
from privet.data.staging import new_folder
from privet.errors import ConfigError


def names_in(folder):
    return sorted(each.name for each in folder.iterdir())


def test_what_a_killed_process_left_is_written_over(tmp_path):
    (tmp_path / ".page.html.part").write_text("a long half of an earlier page")
    write_whole(tmp_path / "page.html", b"whole")
    assert names_in(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_bytes() == b"whole"


def test_a_failure_leaves_what_was_there(tmp_path):
    write_whole(tmp_path / "page.html", b"old")

    def fail():
        with drafted(tmp_path / "page.html") as file:
            file.write(b"half")
            raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        fail()
    assert names_in(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_bytes() == b"old"


def test_two_writers_do_not_meet(tmp_path):
    path = tmp_path / "page.html"
    with drafted(path) as file:
        file.write(b"first")
        with pytest.raises(ConfigError, match="is being written by another process"):
            write_whole(path, b"second")
    assert path.read_bytes() == b"first"
    write_whole(path, b"second")
    assert path.read_bytes() == b"second"


def test_a_draft_that_was_put_in_its_place_meanwhile_is_not_written_into(tmp_path, monkeypatch):
    path, real = tmp_path / "page.html", fcntl.flock

    def slow(descriptor, kind):
        (tmp_path / ".page.html.part").rename(path)
        real(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", slow)
    with pytest.raises(ConfigError, match="is being written by another process"):
        write_whole(path, b"second")
    assert path.read_bytes() == b""


@pytest.mark.parametrize("written", [True, False])
def test_a_kill_between_two_renames(tmp_path, written):
    """The earlier folder was put aside, and the new one was put in its place or not."""
    place, aside = tmp_path / "set", tmp_path / ".set.part.old"
    aside.mkdir()
    (aside / "old").touch()
    if written:
        place.mkdir()
        (place / "new").touch()
    with pytest.raises(ValueError, match="in the middle"), new_folder(place):
        raise ValueError("in the middle")
    assert names_in(tmp_path) == ["set"]
    assert names_in(place) == ["new" if written else "old"]


def test_a_folder_that_is_replaced_leaves_nothing_aside(tmp_path):
    for name in ("one", "two"):
        with new_folder(tmp_path / "set") as staging:
            (staging / name).touch()
    assert names_in(tmp_path) == ["set"]
    assert names_in(tmp_path / "set") == ["two"]


def test_a_file_has_the_rights_of_any_other(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "page.html", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o640
