"""Names that someone else chose, and links that lie where something is written."""

import html
import json
import re
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privet.data import load
from privet.data.disk import write_whole
from privet.data.png_folders import _file_name, write_png_folders
from privet.data.shards import write_shard
from privet.data.staging import check_free_folder, new_file, new_folder
from privet.errors import ConfigError
from privet.runs.run_export import export
from privet.runs.run_folder import RunFolder
from privet.runs.run_reports import report

PICTURES = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8, 1)
NAMES = ("../../x", "/etc/passwd", "a\x00b", "n" * 5000, "CON", "nul.txt", "<script>x</script>", "")


def test_class_names_stay_in_the_folder(tmp_path):
    images = np.concatenate([PICTURES, PICTURES])
    write_shard(tmp_path / "in/set", 0, images, np.arange(8), NAMES)
    write_png_folders(tmp_path / "in/set", tmp_path / "in/png")
    found = {each.name for each in (tmp_path / "in/png").iterdir() if each.is_dir()}
    assert len(found) == len(NAMES)
    assert {each.name for each in tmp_path.iterdir()} == {"in"}
    assert {each.name for each in (tmp_path / "in").iterdir()} == {"png", "set"}
    assert not {"CON", "nul.txt"} & found
    assert len(load(tmp_path / "in/png")) == 8


@given(st.text())
def test_a_class_name_is_one_safe_name_of_a_file(name):
    safe = _file_name(name, 3)
    assert 0 < len(safe.encode()) <= 255
    assert safe not in (".", "..")
    assert not re.search(r'[/\\\x00-\x1f<>:"|?*]', safe)


def test_names_in_an_archive_are_never_paths(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("../../escaped.npy", "/tmp/escaped.npy", "images.npy"):
            with archive.open(name, "w") as file:
                np.lib.format.write_array(file, PICTURES)
    assert len(load(tmp_path / "a.npz")) == 4
    assert {each.name for each in tmp_path.iterdir()} == {"a.npz"}


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"


def renamed(folder, *names):
    """Every class, method and place of a run under a name that would run in a browser."""
    for name in names:
        body = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(_hostile(body)))


def _hostile(body):
    if isinstance(body, dict):
        return {
            name: [HOSTILE] * len(each) if name == "class_names" else _hostile(each)
            for name, each in body.items()
        }
    return body


def test_names_of_classes_are_text_in_a_page(model, tmp_path):
    renamed(model, "config.json")
    body = json.loads((model / "result.json").read_text())
    (model / "result.json").write_text(json.dumps({**body, "method": HOSTILE}))
    text = report([model], tmp_path / "page.html").path.read_text()
    assert "<script" not in text
    assert "<img src=x" not in text
    assert html.escape("<script>alert(1)</script>") in text
    assert "{{7*7}}" in text


def test_names_of_classes_are_text_in_a_card(sets, tmp_path):
    renamed(sets / "one", "config.json")
    export(sets / "one", "parquet", tmp_path / "set")
    card = (tmp_path / "set/README.md").read_text()
    assert "\\<script\\>" in card
    assert "\n<script>" not in card


@pytest.fixture
def elsewhere(tmp_path):
    """A file and a folder that nothing here may touch."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept")
    yield folder
    assert [each.name for each in folder.iterdir()] == ["kept.txt"]
    assert (folder / "kept.txt").read_text() == "kept"


def test_a_file_takes_the_place_of_a_link(tmp_path, elsewhere):
    (tmp_path / "out.html").symlink_to(elsewhere / "kept.txt")
    (tmp_path / ".out.html.part").symlink_to(elsewhere / "kept.txt")
    write_whole(tmp_path / "out.html", b"new")
    assert (tmp_path / "out.html").read_text() == "new"
    assert not (tmp_path / "out.html").is_symlink()
    (tmp_path / "out.npz").symlink_to(elsewhere / "kept.txt")
    with new_file(tmp_path / "out.npz") as file:
        file.write(b"new")
    assert (tmp_path / "out.npz").read_text() == "new"


def test_a_folder_is_not_made_through_a_link(tmp_path, elsewhere):
    (tmp_path / "out").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="is a link"):
        check_free_folder(tmp_path / "out", source=tmp_path / "x", is_ours=bool, force=True)
    (tmp_path / ".new.part").symlink_to(elsewhere)
    with new_folder(tmp_path / "new") as staging:
        (staging / "a").touch()
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["a"]


def test_a_run_is_not_begun_through_a_link(tmp_path, elsewhere):
    (tmp_path / "run").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="is a link"):
        RunFolder(tmp_path / "run").check_free(force=True)


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluation.json", "steps", "config.json.part"])
def test_a_run_does_not_write_through_links_in_its_folder(tmp_path, elsewhere, name):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder / name).symlink_to(elsewhere if name == "steps" else elsewhere / "kept.txt")
    with pytest.raises(ConfigError, match="is a link"), folder.claimed():
        folder.write("config.json", {})


def test_an_export_does_not_go_through_a_link(model, tmp_path, elsewhere):
    (tmp_path / "out").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="is a link"):
        export(model, "safetensors", tmp_path / "out", force=True)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(min_size=1, max_size=20))
def test_a_source_of_any_name_is_refused_in_a_sentence(tmp_path, name):
    from privet.errors import PrivetError

    with pytest.raises(PrivetError):
        load(str(tmp_path / "none") + "/" + name)


def test_links_among_images_are_followed(tmp_path):
    """A folder of links is a data set too; what they lead to is read, never written."""
    from PIL import Image

    (tmp_path / "real").mkdir()
    Image.fromarray(PICTURES[0, ..., 0]).save(tmp_path / "real/1.png")
    (tmp_path / "set/a").mkdir(parents=True)
    (tmp_path / "set/a/1.png").symlink_to(tmp_path / "real/1.png")
    assert len(load(tmp_path / "set")) == 1
