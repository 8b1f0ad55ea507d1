import pytest

import privet
import privet.data
from privet.errors import ConfigError
from privet.paths import as_path
from privet.privacy import Ledger
from privet.recipes.saved_transformers import LocalLanguageModel

NAMELESS = {
    "a zero byte": "a\0b",
    "too long": "x" * 5000,
    "one name too long": "/" + "x" * 300,
    "the home of nobody": "~nobody-of-this-name/rows",
}


@pytest.mark.parametrize("path", NAMELESS.values(), ids=NAMELESS.keys())
def test_what_no_disk_could_have_is_refused(path):
    with pytest.raises(ConfigError, match=r"is no path of a file \(.*\); give another"):
        as_path(path)


@pytest.mark.parametrize("path", NAMELESS.values(), ids=NAMELESS.keys())
@pytest.mark.parametrize(
    "read",
    [privet.data.load, privet.load, Ledger.open, lambda path: LocalLanguageModel(folder=path)],
    ids=["data", "run", "ledger", "model"],
)
def test_every_reader_refuses_it(path, read):
    with pytest.raises(ConfigError, match="is no path of a file"):
        read(path)


def test_a_link_to_itself_leads_nowhere(tmp_path):
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(ConfigError, match="is no path of a file"):
        as_path(tmp_path / "a")


def test_what_is_not_there_yet_is_a_place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert as_path("~/new") == tmp_path / "new"
    assert as_path(tmp_path) == tmp_path
