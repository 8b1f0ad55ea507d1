"""`--device`: one value, by which private rows, encoder, generator and targets meet."""

import pytest
import torch

from privet.hedge import Hedge
from privet.recipes import map_moments, mean_embeddings, position_moments
from tests.cli.runs import SYSTEMS

PLACES = (map_moments, mean_embeddings, position_moments)


@pytest.fixture
def asked(monkeypatch):
    """Every device that something was moved to."""
    found = []
    for module in PLACES:
        for name in ("placed", "moved"):
            function = getattr(module, name)

            def noted(value, device, function=function):
                found.append(device)
                return function(value, device)

            monkeypatch.setattr(module, name, noted)
    return found


@pytest.mark.parametrize("system", [*SYSTEMS])
def test_everything_goes_where_the_hedge_is(synthesize, encoder, asked, monkeypatch, system):
    given, begin = [], Hedge.__init__

    def noted(hedge, *words, device, **more):
        given.append(device)
        begin(hedge, *words, device=device, **more)

    monkeypatch.setattr(Hedge, "__init__", noted)
    words = f"--encoder {encoder} --public 0.05 --method {SYSTEMS[system]} --device cpu"
    done = synthesize(words)
    assert done.code == 0, done.err
    assert given == [torch.device("cpu")]
    assert len(asked) >= 2
    assert set(asked) == set(given)


@pytest.mark.parametrize(
    "device",
    [
        "nonsense",
        "meta",
        pytest.param(
            "cuda",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="it can be used here"),
        ),
    ],
)
def test_a_device_that_is_not_there_is_refused_in_one_sentence(synthesize, tmp_path, device):
    refused = synthesize(f"--device {device}")
    assert refused.code == 2
    assert refused.err.count(f"--device {device} cannot be used here") == 1
    assert "Traceback" not in refused.err
    assert not (tmp_path / "run").exists()
