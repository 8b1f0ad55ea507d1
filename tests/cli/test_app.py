import importlib.metadata
import subprocess
import sys

import pytest

from privet import __version__
from privet.errors import BudgetExceeded, ConfigError, DataError, LedgerError, PrivetError


def test_help_lists_the_commands(privet):
    result = privet("--help")
    assert result.code == 0
    for command in ("demo", "train", "merge", "evaluate", "export", "ledger", "data"):
        assert f"\n  {command}" in result.out


@pytest.mark.parametrize(
    "command",
    [
        *("account", "ledger", "ledger create", "data inspect", "demo", "train", "evaluate"),
        *("synthesize", "tune", "merge", "report", "audit hedge", "federate server", "export"),
    ],
)
def test_every_command_explains_itself(privet, command):
    result = privet(f"{command} --help")
    assert result.code == 0
    assert "Usage: privet" in result.out
    assert "\\[" not in result.out  # as Typer escapes brackets for Rich


@pytest.mark.parametrize("group", ["", "audit", "data", "federate", "ledger"])
def test_what_a_command_is_for_fits_on_its_line(privet, group):
    assert "..." not in privet(f"{group} --help").out.partition("Commands:")[2]


def test_options_of_train_stand_under_headings(privet):
    shown = privet("train --help").out
    headings = ["What to do", "Data", "Method", "Training", "Privacy", "Running"]
    places = [shown.index(f"\n{heading}:") for heading in headings]
    assert places == sorted(places)
    assert "--noise-multiplier" not in shown


def test_a_name_that_is_spelt_alike_is_suggested_once(privet):
    assert privet("acount").err.count("Did you mean 'account'?") == 1


def test_version(privet):
    assert privet("--version").out == f"privet {__version__}\n"
    assert importlib.metadata.version("privet") == __version__


def test_exit_codes():
    codes = {PrivetError: 1, ConfigError: 2, BudgetExceeded: 3, LedgerError: 3, DataError: 4}
    assert {error: error.exit_code for error in codes} == codes


def test_unexpected_errors_are_one_sentence_unless_debugging(privet, monkeypatch):
    from privet.cli import ledger

    def broken(_):
        raise RuntimeError("kaput")

    monkeypatch.setattr(ledger.Ledger, "open", broken)
    result = privet("ledger show x.db")
    assert result.code == 1
    assert result.err == (
        "privet: Unexpected RuntimeError: kaput. Run again with --debug for the traceback.\n"
    )
    from privet.cli import main

    with pytest.raises(RuntimeError, match="kaput"):
        main(["ledger", "show", "x.db", "--debug"])


@pytest.mark.parametrize(
    "words", ["--help", "data inspect digits", "account --epsilon 1 --delta 1e-5 --releases 1"]
)
def test_a_closed_pipe_is_not_an_error(words):
    command = f"set -o pipefail; {sys.executable} -m privet {words} | true"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert result.stderr == ""


def test_memory_is_kept_for_the_next_step():
    words = (
        "import resource, sys, torch\n"
        "from privet.cli import keep_freed_memory\n"
        "if sys.argv[1] == 'kept': keep_freed_memory()\n"
        "for _ in range(5):\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    torch.ones(2**25)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
    )
    cleared = {
        way: int(subprocess.check_output([sys.executable, "-c", words, way]))
        for way in ("kept", "handed back")
    }
    if sys.platform != "linux" or cleared["handed back"] < 1000:
        pytest.skip("this system hands no memory back, or in large pages")
    assert cleared["kept"] < cleared["handed back"] / 10
