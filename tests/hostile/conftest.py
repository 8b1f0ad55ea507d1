import importlib
import shutil
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="session")
def fuzz():
    """What `benchmarks/fuzz.py` damages, and how."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("fuzz")


@pytest.fixture(scope="session")
def samples(fuzz, tmp_path_factory):
    """Valid files, made when a target needs them."""
    root = tmp_path_factory.mktemp("samples")

    def made(name):
        if not (root / name).exists():
            (root / name).mkdir()
            fuzz.SAMPLES[name](root / name)
        return root / name

    made.root = root
    return made


@pytest.fixture
def model(samples, tmp_path):
    """The folder of a finished run of `privet train`."""
    return _copied(samples("model"), tmp_path / "model") / "run"


@pytest.fixture
def sets(samples, tmp_path):
    """Folders of two finished runs of `privet synthesize` and of their merge."""
    return _copied(samples("sets"), tmp_path / "sets")


def _copied(folder, place):
    return Path(shutil.copytree(folder, place))
