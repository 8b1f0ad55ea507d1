import json
import re

import numpy as np
import pytest

from privet.data import load
from privet.runs.run_folder import RunFolder
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
    worst = body["class_names"].index(body["worst_class_name"])
    assert body["by_class"][worst] == body["worst_class"] == min(body["by_class"])


def test_it_tells_how_sure_the_model_is(privet, trained):
    found = json.loads(privet(f"evaluate {trained} --json").out)
    sure = found["calibration"]
    assert sure["count"] == sum(each["count"] for each in sure["bins"]) == 100
    filled = [each for each in sure["bins"] if each["count"]]
    right = sum(each["count"] * each["accuracy"] for each in filled)
    assert right == pytest.approx(100 * found["accuracy"])
    gaps = [each["count"] * abs(each["confidence"] - each["accuracy"]) for each in filled]
    assert sure["error"] == pytest.approx(sum(gaps) / 100)


def test_what_was_found_is_kept_in_the_folder(privet, trained, tmp_path):
    found = json.loads(privet(f"evaluate {trained} --json").out)
    kept = read(trained / "evaluation.json")
    assert kept == {"schema": "privet.evaluation/1", "kind": "model", **found}
    digits = load("digits")
    np.savez(tmp_path / "other.npz", x=np.asarray(digits.images[:30]), y=digits.labels[:30])
    assert privet(f"evaluate {trained} --test {tmp_path / 'other.npz'}").code == 0
    assert read(trained / "evaluation.json")["count"] == 30


def test_a_new_run_leaves_nothing_of_it(privet, train, trained):
    assert privet(f"evaluate {trained}").code == 0
    assert train("--keep-last 3 --epochs 1 --resume").code == 0
    assert (trained / "evaluation.json").is_file()  # the model is the same
    assert train("--force").code == 0
    assert not (trained / "evaluation.json").exists()


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(privet, trained):
    (trained / "evaluation.json.part").mkdir()
    done = privet(f"evaluate {trained}")
    assert (done.code, "shown and not kept" in done.err) == (0, True)
    assert "calibration" in done.out
    assert not (trained / "evaluation.json").exists()


def test_a_folder_in_use_is_left_alone(privet, trained):
    with RunFolder(trained).claimed():
        refused = privet(f"evaluate {trained}")
    assert (refused.code, "in use by a running process" in refused.err) == (2, True)


def test_it_is_shown_in_words(privet, trained):
    shown = privet(f"evaluate {trained}").out
    for part in (
        "on 100 images (set aside by the run)",
        "worst class",
        "  9 ",
        "% sure on average, on the same 100 images in 15 bins",
        "ensemble, vote",
        "ε = 2 at δ = 1e-05 (add or remove one example, PLD)",
    ):
        assert part in shown
    assert re.search(r"worst class +\d+\.\d%: \d\n", shown)


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
