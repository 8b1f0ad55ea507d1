"""`privet synthesize --method edm`: public images from public images, without a ledger."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save

from privet.data import load
from privet.privacy.certificate import NOTHING_PRIVATE
from privet.public import diffusion
from privet.recipes import releases
from tests.cli.runs import Killed, names, read

TINY = "edm:iterations=4,batch_size=8,widths=8-8,steps=3,at_once=20"


@pytest.fixture
def edm(privet, tmp_path, one_thread):
    def run(words="", out="run"):
        place = tmp_path / out
        return privet(f"synthesize digits --method {TINY} --count 30 --out {place} {words}")

    return run


@pytest.fixture
def resumed(privet, tmp_path, one_thread):
    return lambda words="": privet(f"synthesize --out {tmp_path / 'run'} --resume {words}")


def images(out):
    return np.asarray(load(out / "synthetic").images[:])


def test_a_run_and_everything_it_leaves(edm, tmp_path):
    done = edm("--json --png")
    assert done.code == 0, done.err
    out = tmp_path / "run"
    files = {"config.json", "certificate.json", "metrics.jsonl", "result.json", "samples.png"}
    assert names(out) == {*files, "steps", "synthetic", "png"}
    found = json.loads(done.out)
    assert (found["images"], found["guarantee"]) == (30, NOTHING_PRIVATE)
    assert read(out / "certificate.json")["statement"] == NOTHING_PRIVATE
    assert images(out).shape == (30, 8, 8, 1)
    assert np.bincount(load(out / "synthetic").labels).tolist() == [3] * 10
    assert "may repeat them" in done.err


def test_more_images_later_and_nothing_trained_again(edm, resumed, tmp_path, monkeypatch):
    assert edm().code == 0
    before = images(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("privet.recipes.public_diffusion.train_at_noise_levels", None)
        assert resumed("--count 45").code == 0
    after = images(tmp_path / "run")
    assert len(after) == 45
    assert np.array_equal(after[:30], before)
    assert "done already" in resumed().err


def test_a_killed_training_goes_on_to_the_same_end(edm, resumed, tmp_path, monkeypatch):
    monkeypatch.setattr(releases, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    assert edm(out="whole").code == 0
    keyed = diffusion.keyed
    with monkeypatch.context() as patch:

        def dying(*numbers):
            if numbers == (0, 2):  # the third step of the training
                raise Killed
            return keyed(*numbers)

        patch.setattr(diffusion, "keyed", dying)
        with pytest.raises(Killed):
            edm()
    assert names(tmp_path / "run" / "steps") == {"unfinished-diffusion.safetensors"}
    assert resumed().code == 0
    assert np.array_equal(images(tmp_path / "run"), images(tmp_path / "whole"))


def test_other_settings_are_not_gone_on_with(edm, privet, tmp_path):
    assert edm().code == 0
    other = TINY.replace("steps=3", "steps=4")
    done = privet(f"synthesize --out {tmp_path / 'run'} --resume --method {other}")
    assert done.code == 2
    assert "steps" in done.err


@pytest.mark.parametrize("name", ["diffusion", "unfinished-diffusion"])
@pytest.mark.parametrize("content", ["cut short", "of another network"])
def test_what_was_kept_and_cannot_be_gone_on_with(edm, resumed, tmp_path, name, content):
    assert edm().code == 0
    run = tmp_path / "run"
    (run / "result.json").unlink()
    whole = (run / "steps" / "diffusion.safetensors").read_bytes()
    (run / "steps" / "diffusion.safetensors").unlink()
    other = save({"network/other": torch.zeros(3)})
    damaged = run / "steps" / f"{name}.safetensors"
    damaged.write_bytes(whole[:400] if content == "cut short" else other)
    refused = resumed()
    assert (refused.code, "remove " in refused.err) == (4, True), refused.err
    assert refused.err.count("\n") == 2  # what DATA are, and one sentence
    damaged.unlink()
    assert resumed().code == 0


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("--epsilon 1", "leave out --epsilon"),
        ("--public 0.5", "leave out --public"),
        ("--soft-labels", "leave out --soft-labels"),
        ("--target x --schema nowhere.json", "leave out --target"),
        ("--user who", "leave out --user"),
        ("--noise-seed 1", "leave out --noise-seed"),
        ("--method edm:guidance=-1", "0 or more"),
        ("--method edm:speed=9", "no setting 'speed'"),
        ("--preset best", "--preset"),
        ("--count 0", "--count"),
    ],
)
def test_refusals_write_nothing(edm, tmp_path, words, match):
    done = edm(words)
    assert done.code == 2
    assert match in done.err
    assert not (tmp_path / "run").exists()


def test_a_dry_run_says_what_would_be_done(edm, tmp_path):
    done = edm("--dry-run --json")
    found = json.loads(done.out)
    assert found["public_images"] == 1797
    assert found["training"]["iterations"] == 4
    assert found["parameters"] > 1000
    assert "3,000 steps" in edm("--dry-run --method edm").out
    assert not (tmp_path / "run").exists()


def test_a_ledger_of_an_earlier_run_is_kept(edm, synthesize, tmp_path):
    assert synthesize().code == 0
    done = edm("--force")
    assert done.code == 0, done.err
    assert "ledger is kept" in done.err
    assert (tmp_path / "run" / "ledger.1.db").is_file()


def test_there_must_be_a_run_to_go_on_with(edm, tmp_path):
    done = edm("--resume")
    assert done.code == 2
    assert "holds no run" in done.err
    assert not (tmp_path / "run").exists()


def test_ddpm_is_another_way_to_the_same(privet, tmp_path, one_thread):
    method = TINY.replace("edm:", "ddpm:")
    words = f"synthesize digits --method {method} --count 30 --out {tmp_path / 'run'}"
    assert "--preset is 'paper'" in privet(f"{words} --preset paper").err
    assert "has no setting 'guidance'" in privet(f"{words.replace('steps', 'guidance')}").err
    done = privet(f"{words} --json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["method"] == "ddpm"
    assert images(tmp_path / "run").shape == (30, 8, 8, 1)
