import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from privet.cli.data import app
from privet.data import load
from privet.data.options import parse_size
from privet.data.summary import NOT_PRIVATE, summarise
from privet.errors import ConfigError, DataError


@pytest.fixture
def run():
    root = typer.Typer()
    root.add_typer(app, name="data")

    def invoke(*words):
        result = CliRunner().invoke(root, ["data", "inspect", *map(str, words)])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def test_summary_counts_without_decoding(class_folders):
    folder, pictures = class_folders
    summary = summarise(load(folder, memory_limit=0), folder)
    assert (summary.images, summary.height, summary.width, summary.channels) == (6, 5, 7, 3)
    assert summary.bytes == pictures.nbytes
    assert summary.storage == "decoded on access"
    assert [(each.name, each.count) for each in summary.classes] == [("cat", 3), ("dog", 3)]


def test_table(run):
    result = run("mnist5k")
    assert result.exit_code == 0
    assert "5,000 images of 28×28×1 uint8" in result.stdout
    assert result.stdout.count("500 │") == 10
    assert NOT_PRIVATE not in result.output


def test_json_is_alone_on_stdout(run):
    result = run("digits", "--json", "--private", "--resize", "16x12", "--channels", "rgb")
    value = json.loads(result.stdout)
    assert (value["images"], value["height"], value["width"], value["channels"]) == (
        1797,
        16,
        12,
        3,
    )
    assert len(value["classes"]) == 10
    assert value["guarantee"] == NOT_PRIVATE
    assert NOT_PRIVATE in result.stderr


def test_private_data_are_said_to_be_shown(run):
    assert run("digits", "--private").stdout.startswith(NOT_PRIVATE)


def test_part(run, tmp_path, pixels):
    np.savez(tmp_path / "a.npz", x_train=pixels(4), x_test=pixels(2))
    result = run(tmp_path / "a.npz", "--part", "test")
    assert "2 images of 5×7×3" in result.stdout
    assert "no labels" in result.stdout


def test_many_classes_are_cut_short(run, tmp_path, pixels):
    np.savez(tmp_path / "a.npz", x=pixels(50), y=np.arange(50))
    assert "and 10 more classes; --json lists all 50" in run(tmp_path / "a.npz").stdout


def test_class_names_are_neither_markup_nor_escape_codes(run, class_folders):
    folder, _ = class_folders
    (folder / "cat").rename(folder / "[red]cat\x1b[31m")
    stdout = run(folder).stdout
    assert "[red]cat" in stdout
    assert "\x1b" not in stdout


def test_contact_sheet(run, tmp_path):
    path = tmp_path / "sheet.png"
    assert "Wrote" in run("digits", "--contact-sheet", path).stderr
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match="exists"):
        run("digits", "--contact-sheet", path)
    run("digits", "--contact-sheet", path, "--force")


def test_errors_reach_the_command_line(run, tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        run(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "x", "32x", "-4", "4x5x6", "٣"])
def test_refuses_sizes_that_are_none(text):
    with pytest.raises(ConfigError, match="is not a size"):
        parse_size(text)


def test_sizes():
    assert parse_size("32") == (32, 32)
    assert parse_size("32x48") == (32, 48)
