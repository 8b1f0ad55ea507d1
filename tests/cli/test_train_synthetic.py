"""Synthetic images wherever public ones serve: warm-up, gradients, mixing, joined batches."""

import json

import numpy as np
import pytest

from privet.privacy import Certificate
from privet.privacy.certificate import nothing_private
from tests.cli.runs import names, read


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Images like the digits, as `privet synthesize` leaves them, and others with more classes."""
    from privet.data import load
    from privet.data.shards import write_shard

    folder = tmp_path_factory.mktemp("made")
    digits = load("digits")
    rows = digits.take(slice(0, 120))
    place = folder / "digits"
    place.mkdir()
    write_shard(place, 0, np.asarray(rows.images[:]), rows.labels, digits.class_names)
    other = folder / "other"
    other.mkdir()
    write_shard(other, 0, np.asarray(rows.images[:]), rows.labels, tuple("abcdefghijk"))
    return folder


def config(out):
    return read(out / "config.json")["config"]


def test_a_warm_up_on_both(train, tmp_path, made):
    done = train(f"--public 100 --synthetic {made / 'digits'} --warm-up-epochs 2")
    assert done.code == 0, done.err
    assert "Warming up on 220 public and synthetic images" in done.err
    out = tmp_path / "run"
    assert config(out)["training"]["synthetic_warm_up"]
    assert config(out)["data"]["synthetic"] == str(made / "digits")
    public = Certificate.from_json(read(out / "certificate.json")).public
    assert {"public rows for warm-up", "synthetic rows for warm-up"} <= set(public)
    assert train("--resume").code == 0


@pytest.mark.parametrize(
    ("words", "seen", "rows"),
    [
        (
            "--public 100 --scenario warm",
            "100 public images",
            "public rows for warm-up",
        ),
        ("--public 100 --scenario warm-syn", "220 public and", "synthetic rows for warm-up"),
        ("--scenario warm-syn", "120 public and", "synthetic rows for warm-up"),
        (
            "--public 100 --scenario extended --declared-size 1500",
            "220 public and",
            "synthetic rows for warm-up, joining private batches",
        ),
        ("--public 100 --warm-up none --method dope", None, "synthetic rows for gradients"),
        ("--warm-up none --method dope", None, "synthetic rows for gradients"),
    ],
)
def test_every_rung_of_the_ladder(train, tmp_path, made, words, seen, rows):
    done = train(f"--synthetic {made / 'digits'} {words}")
    assert done.code == 0, done.err
    assert (f"Warming up on {seen}" in done.err) if seen else ("Warming" not in done.err)
    public = Certificate.from_json(read(tmp_path / "run" / "certificate.json")).public
    assert rows in public
    used = words != "--public 100 --scenario warm"
    assert any(each.startswith("synthetic rows") for each in public) == used


def test_synthetic_rows_count_in_a_batch_that_they_join(train, made):
    words = f"--synthetic {made / 'digits'} --public 100 --scenario extended --declared-size 1500"
    done = train(f"{words} --dry-run --json")
    assert done.code == 0, done.err
    assert train(f"{words} --sample-rate 0.1 --batch-size 100").code == 2


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("--synthetic {made}/other", "other classes"),
        ("--synthetic {made}/nothing", "nothing"),
        ("--public 100 --warm-up synthetic", "--warm-up synthetic needs --synthetic"),
        ("--public 100 --scenario warm-syn", "needs --synthetic"),
        ("--synthetic digits", "names the private data"),
    ],
)
def test_refusals_write_nothing(train, tmp_path, made, words, match):
    done = train(words.format(made=made))
    assert done.code in (2, 4)
    assert match in done.err
    assert not (tmp_path / "run").exists() or not names(tmp_path / "run")


def test_steps_and_views_of_the_warm_up(train, tmp_path):
    words = "--public 200 --warm-up-epochs 1 --model mlp --views plain"
    done = train(f"{words} --warm-up-steps sam:radius=0.2 --warm-up-augment cutout")
    assert done.code == 0, done.err
    warm_up = config(tmp_path / "run")["training"]["warm_up"]
    assert warm_up["sharpness"].items() >= {"kind": "sam", "radius": 0.2, "alpha": 0.4}.items()
    assert warm_up["augment"]["cutout"] == 4
    assert train(f"{words} --resume").code == 0
    assert train("--warm-up-steps sam", out="other").code == 2  # nothing is public


def test_a_private_release_of_the_same_images_adds_up(train, synthesize, tmp_path, made):
    assert synthesize(out="shared").code == 0
    words = "--warm-up-epochs 1 --synthetic"
    done = train(f"{words} {tmp_path / 'shared' / 'synthetic'}")
    assert done.code == 0, done.err
    assert "its ε adds to this run's" in done.err
    assert "adds to" not in train(f"{words} {made / 'digits'}", out="other").err


def test_trap_a_private_release_that_is_called_public_adds_up_too(train, synthesize, tmp_path):
    assert synthesize(out="shared").code == 0
    done = train(f"--warm-up-epochs 1 --public {tmp_path / 'shared' / 'synthetic'}")
    assert done.code == 0, done.err
    assert "The public rows are a private release themselves" in done.err
    listed = Certificate.from_json(read(tmp_path / "run" / "certificate.json")).public
    assert any("public rows that are a private release: its ε adds" in each for each in listed)


def test_trap_images_that_a_diffusion_model_made_of_the_private_data_are_refused(train, tmp_path):
    made = tmp_path / "edm"
    (made / "synthetic").mkdir(parents=True)
    (made / "certificate.json").write_text(json.dumps(nothing_private()))
    (made / "config.json").write_text(json.dumps({"config": {"data": {"source": "digits"}}}))
    again = tmp_path / "again"  # of which another diffusion model learned
    again.mkdir()
    (again / "certificate.json").write_text(json.dumps(nothing_private()))
    source = {"source": str(made / "synthetic" / "part-0.parquet")}
    (again / "config.json").write_text(json.dumps({"config": {"data": source}}))
    for option in (
        f"--synthetic {made / 'synthetic'}",
        f"--public {made / 'synthetic'}",
        f"--public {made / 'synthetic' / 'part-0.parquet'}",
        f"--public {again / 'synthetic'}",
    ):
        done = train(option)
        assert done.code == 2
        assert "was made of the private data themselves, and without privacy" in done.err
