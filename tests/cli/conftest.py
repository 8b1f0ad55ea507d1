import shlex
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import save_file

from privet.cli import main
from privet.models import ConvEncoder
from tests.cli.runs import QUICK, QUICK_SYNTHESIS, Killed


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
def one_thread():
    """Models this small only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def train(privet, tmp_path, one_thread):
    """A short `privet train` into a folder of `tmp_path`; later options win."""

    def run(words="", out="run"):
        return privet(f"{QUICK} --out {tmp_path / out} {words}")

    return run


@pytest.fixture
def synthesize(privet, tmp_path, one_thread):
    """A short `privet synthesize` into a folder of `tmp_path`; later options win."""

    def run(words="", out="run"):
        return privet(f"{QUICK_SYNTHESIS} --out {tmp_path / out} {words}")

    return run


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A file with the weights of an encoder of grey images."""
    path = tmp_path_factory.mktemp("encoder") / "encoder.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(ConvEncoder(1).state_dict(), path)
    return path


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """The real package, with a cache of the test's own."""
    package = pytest.importorskip(
        "datasets", reason="needs the datasets package: pip install 'privet[datasets]'"
    )
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return package


@pytest.fixture
def killed_at(monkeypatch):
    """Die when a function of a module, or of a class, is called for the n-th time."""

    def arrange(owner, name, number=1):
        function, calls = getattr(owner, name), []

        def dying(*arguments, **settings):
            calls.append(name)
            if len(calls) == number:
                raise Killed
            return function(*arguments, **settings)

        monkeypatch.setattr(owner, name, dying)
        return monkeypatch

    return arrange
