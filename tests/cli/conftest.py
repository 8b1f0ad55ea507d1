import shlex
from typing import NamedTuple

import pytest

from privet.cli import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def privet(capsys):
    """Run the command line in this process, as a script would see it."""

    def run(words):
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(words))
        captured = capsys.readouterr()
        return Outcome(stopped.value.code or 0, captured.out, captured.err)

    return run
