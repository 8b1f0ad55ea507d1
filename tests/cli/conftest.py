import shlex
from typing import NamedTuple

import pytest
import torch

from privet.cli import main
from tests.cli.runs import QUICK


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


@pytest.fixture
def train(privet, tmp_path):
    """A short `privet train` into a folder of `tmp_path`; later options win."""

    def run(words="", out="run"):
        return privet(f"{QUICK} --out {tmp_path / out} {words}")

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # models this small only wait for each other
    yield run
    torch.set_num_threads(threads)
