import json

import numpy as np
import pytest

from privet.data import load
from tests.cli.runs import read


@pytest.fixture
def trained(train, tmp_path):
    assert train("--keep-last 3 --epochs 1").code == 0
    return tmp_path / "run"


def test_the_model_comes_back_from_its_folder(privet, trained):
    result = privet(f"evaluate {trained} --json")
    assert (result.code, result.err) == (0, "")
    body = json.loads(result.out)
    told = read(trained / "result.json")["test"]
    assert {name: body[name] for name in told} == told
    assert body["ensembles"].keys() == {"mean weights", "vote", "mean logits"}
    assert body["certificate"] == read(trained / "certificate.json")
    assert len(body["by_class"]) == len(body["class_names"]) == 10


def test_it_is_shown_in_words(privet, trained):
    shown = privet(f"evaluate {trained}").out
    for part in (
        "on 100 images (100, as in the run)",
        "worst class",
        "  9 ",
        "ensemble, vote",
        "ε = 2 at δ = 1e-05 (add or remove one example, PLD)",
    ):
        assert part in shown


def test_another_test_set(privet, trained, tmp_path):
    digits = load("digits")
    large = np.asarray(digits.images[:30]).repeat(2, 1).repeat(2, 2).repeat(3, 3)
    np.savez(tmp_path / "large.npz", x=large, y=np.arange(30) % 10)
    result = privet(f"evaluate {trained} --test {tmp_path / 'large.npz'} --json")
    assert result.code == 0
    assert "The test images are 16×16×3; they are brought to 8×8×1." in result.err
    assert json.loads(result.out)["count"] == 30
    np.savez(tmp_path / "other.npz", x=large, y=np.arange(30) % 15)
    refused = privet(f"evaluate {trained} --test {tmp_path / 'other.npz'}")
    assert (refused.code, "has other classes (15)" in refused.err) == (2, True)
    assert privet(f"evaluate {trained} --test {tmp_path / 'none.npz'}").code == 4


def test_what_cannot_be_evaluated(privet, train, trained, tmp_path):
    nothing = privet(f"evaluate {tmp_path / 'nowhere'}")
    assert (nothing.code, "holds no run of 'privet train'" in nothing.err) == (2, True)
    (trained / "result.json").rename(tmp_path / "result.json")
    unfinished = privet(f"evaluate {trained}")
    assert (unfinished.code, "is not done" in unfinished.err) == (2, True)
    (tmp_path / "result.json").rename(trained / "result.json")
    (trained / "model.safetensors").write_bytes(b"garbage")
    damaged = privet(f"evaluate {trained}")
    assert (damaged.code, "model.safetensors cannot be read" in damaged.err) == (4, True)


def test_a_run_without_a_test_set_needs_one(privet, tmp_path):
    words = (
        "train digits --method dp-sgd --epsilon 2 --delta 1e-5 --model linear --epochs 0.1 "
        f"--out {tmp_path / 'run'}"
    )
    done = privet(words)
    assert done.code == 0
    assert "test accuracy" not in done.out
    refused = privet(f"evaluate {tmp_path / 'run'}")
    assert (refused.code, "give one with --test" in refused.err) == (2, True)
    private = privet(f"evaluate {tmp_path / 'run'} --test digits")
    assert (private.code, "names the private data themselves" in private.err) == (2, True)
    digits = load("digits")
    np.savez(tmp_path / "other.npz", x=np.asarray(digits.images[:30]), y=digits.labels[:30])
    assert privet(f"evaluate {tmp_path / 'run'} --test {tmp_path / 'other.npz'}").code == 0
