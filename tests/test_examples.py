"""The examples run, and their figures tell what they should."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from privet.keys import keyed

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def example(monkeypatch):
    """An example by its name; PyTorch's threads are as many afterwards as before."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before, threads = set(sys.modules), torch.get_num_threads()
    yield importlib.import_module
    torch.set_num_threads(threads)
    for name in set(sys.modules) - before:
        if str(EXAMPLES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def run(example, monkeypatch, capsys, tmp_path):
    """What an example prints after few iterations, and its picture."""

    def ran(name, draws):
        path = tmp_path / f"{name}.png"
        words = [name, str(path), "--iterations", "10", "--draws", str(draws)]
        monkeypatch.setattr(sys, "argv", words)
        # An SVM with a hard margin takes long over many points that no model has sorted yet.
        monkeypatch.setattr(example("spiral"), "DRAWN", 100)
        example(name).main()
        return capsys.readouterr().out, path.read_bytes()

    return ran


@pytest.mark.parametrize(("name", "lines"), [("spiral", 9), ("ring", 10)])
def test_figures_are_those_of_the_seed(run, name, lines):
    text, picture = run(name, 1)
    assert len(text.splitlines()) == lines
    assert picture.startswith(b"\x89PNG")
    assert run(name, 1) == (text, picture)


def test_places_along_the_arms_are_found_again(example):
    spiral = example("spiral")
    along, labels = torch.linspace(0, 1, 50), torch.arange(50) % 2
    points = spiral.Points(spiral.arm(along) * (1 - 2 * labels)[:, None], labels)
    place, beside = spiral.along_arm(points)
    assert place == pytest.approx(along, abs=1e-3)
    assert float(beside.max()) < 5e-3


def test_spirals_thin_out(example):
    spiral = example("spiral")
    place, _ = spiral.along_arm(spiral.spirals(20_000, keyed(0)))
    density = torch.histc(place, 4, 0, 1) / len(place)
    assert density == pytest.approx(torch.tensor([7, 5, 3, 1]) / 16, abs=0.02)


def test_figures_tell_truth_from_repetition(example):
    spiral = example("spiral")
    public = spiral.spirals(100, keyed(1))
    true = spiral.figures(spiral.spirals(1000, keyed(2)), public, 0)
    again = spiral.Points(public.at.repeat(10, 1), public.labels.repeat(10))
    repeated = spiral.figures(again, public, 0)
    column = {name: place for place, name in enumerate(spiral.COLUMNS)}
    assert (true[:, column["on an arm"]] > 0.98).all()
    assert true[:, column["repeats"]] == pytest.approx(torch.full((2,), 0.5), abs=0.15)
    assert (repeated[:, column["repeats"]] == 1).all()
    assert (repeated[:, column["found"]] < true[:, column["found"]] - 0.1).all()
    assert repeated[1, column["SVM error"]] > true[1, column["SVM error"]]


def test_clusters_are_counted(example):
    ring = example("ring")
    points = ring.ring(800, keyed(0), even=True)
    assert ring.clusters(points) == (8, pytest.approx(1, abs=0.01))
    assert ring.clusters(points[::2])[0] == 4
    assert ring.clusters(torch.zeros(100, 2)) == (0, 0.0)


def test_gans_that_learn_together_do_not_meet(example):
    ring = example("ring")
    first, second, third = (ring.ring(50, keyed(seed)) for seed in range(3))
    one = ring.gans(torch.stack([first, second]), 5)
    other = ring.gans(torch.stack([first, third]), 5)
    torch.testing.assert_close(one[0], other[0])
    assert not torch.equal(one[1], other[1])


@pytest.mark.parametrize("name", ["spiral", "ring"])
def test_pictures_in_the_docs_are_small(name):
    path = ROOT / "docs" / "images" / f"toy-{name}.png"
    assert path.stat().st_size < 200_000
    with Image.open(path) as picture:
        assert picture.width <= 1000
