"""`privet.load` of runs that are not there, not done, or damaged; others are in tests/cli."""

import json

import pytest

import privet
from privet.errors import ConfigError


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "file").touch()
    for place in (tmp_path, str(tmp_path / "nowhere"), tmp_path / "file"):
        with pytest.raises(ConfigError, match="holds no run and no export of one"):
            privet.load(place)


@pytest.mark.parametrize("command", ["train", "synthesize"])
def test_a_run_that_is_not_done(tmp_path, command):
    body = {"schema": f"privet.{command}/1", "config": {}, "count": 10, "png": False, "asked": {}}
    (tmp_path / "config.json").write_text(json.dumps(body))
    with pytest.raises(ConfigError, match=f"is not done: go on with privet {command} --out"):
        privet.load(tmp_path)
