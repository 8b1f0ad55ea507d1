"""`privet train --release`: a synthetic set and a model out of one reservation."""

import json

import numpy as np
import pytest

import privet as library
from privet.hedge import Hedge
from privet.learn import checkpoint
from privet.privacy import PLD, Certificate, Ledger, Relation
from privet.runs import paid_sets, synthesis_images, train_log, train_run
from privet.synthesis import generating
from tests.cli.runs import BESIDE, QUICK, SYSTEMS, Killed, names, read
from tests.processes import finished, start

COMMON = (
    "--method dope --public 200 --declared-size 1500 --warm-up-epochs 2 --release 0.4 "
    "--release-count 60"
)
RELEASE = f"{COMMON} --release-method {SYSTEMS['dp-merf']}"
SPS_G = f"{COMMON} --release-method {SYSTEMS['sps-g']} --encoder untrained"


def the_record(out):
    [record] = Ledger.open(out / "ledger.db").records()
    return record


@pytest.fixture
def resume(privet, tmp_path, one_thread):
    """Go on with the run, and nothing but what is said here."""

    def run(words=""):
        return privet(f"train --out {tmp_path / 'run'} --resume {words}")

    return run


def epsilon(events):
    return PLD().epsilon(events, 1e-5, Relation.ADD_REMOVE)


def test_users_are_the_unit_of_both(privet, one_thread, tmp_path):
    digits, data = library.data.load("digits").take(slice(0, 600)), tmp_path / "scans.npz"
    np.savez(data, images=digits.images[:], labels=digits.labels, patient=np.arange(600) % 150)
    words = " ".join(QUICK.split()[2:]) + f" {RELEASE} --public 0.2 --test 0.1 --declared-size 100"
    words = words.replace("--engine batched", "")
    done = privet(f"train {data} {words} --user patient --out {tmp_path / 'run'}")
    assert done.code == 0, done.err
    certificate = read(tmp_path / "run" / "certificate.json")
    assert (certificate["unit"], len(certificate["events"])) == ("user", 2)
    assert the_record(tmp_path / "run").spent == (1, 5)


def test_a_run_and_everything_it_leaves(train, resume, privet, tmp_path):
    done = train(f"{SPS_G} --json")
    assert done.code == 0, done.err
    assert "Release: 0.4 of ε for 60 synthetic images; as asked." in done.err
    assert "Warming up on 260 public and synthetic images" in done.err
    out = tmp_path / "run"
    certificate = Certificate.from_json(read(out / "certificate.json"))
    release, steps = certificate.plan.events
    assert 1.99 < certificate.guarantee.epsilon <= 2
    assert epsilon([release]) == pytest.approx(0.4 * 2, abs=1e-3)
    assert epsilon([release]) + epsilon([steps]) > 2.2  # together they cost less
    assert the_record(out).spent == (1, 5)
    assert "images for components" in certificate.public
    assert "public rows for warm-up, gradients" in certificate.public
    assert not any("synthetic" in each for each in certificate.public)

    body = json.loads(done.out)
    alone = body["release"].pop("epsilon_alone")
    assert body["release"] == {"share": 0.4, "reason": "as asked", "images": 60}
    assert alone == pytest.approx({"release": epsilon([release]), "steps": epsilon([steps])})
    made = library.load(out / "synthetic")
    assert (len(made.data), made.certificate) == (60, certificate)
    assert names(out / "synthetic") == {"part-00000.parquet", "part-00001.parquet", *BESIDE}
    assert library.load(out).certificate == certificate

    assert resume().code == 0
    assert the_record(out).spent == (1, 5)
    assert privet(f"evaluate {out}").code == 0
    assert privet(f"report {out}").code == 0
    page = (out / "report.html").read_text()
    assert "For 0.4 of ε the run first made 60 synthetic images" in page
    assert page.count("data:image/png") >= 10


def test_what_was_released_is_what_the_model_learns_from(train, tmp_path, monkeypatch):
    seen = {}

    def look(model, config, material, keys):
        seen["rows"] = material.synthetic
        return prepare(model, config, material, keys)

    prepare = train_run.prepare
    monkeypatch.setattr(train_run, "prepare", look)
    assert train(RELEASE).code == 0
    images = library.load(tmp_path / "run" / "synthetic").data
    np.testing.assert_array_equal(seen["rows"].inputs.numpy(), images.images[:])
    np.testing.assert_array_equal(seen["rows"].targets.numpy(), images.labels)
    assert images.images[:].any()


def test_a_dry_run_tells_the_split_and_reads_no_private_image(privet, tmp_path, monkeypatch):
    monkeypatch.setattr(Hedge, "__init__", lambda *words, **more: pytest.fail("a hedge"))
    words = f"{QUICK} {SPS_G} --release auto --dry-run"
    told = privet(words)
    assert told.code == 0, told.err
    for name in ("release alone", "steps alone", "signal over noise", "Gaussian release"):
        assert name in told.out
    assert "Release: 0.8 of ε" in told.err
    found = json.loads(privet(f"{words} --json").out)
    assert found["release"]["share"] == 0.8
    assert found["release"]["epsilon_alone"]["release"] == pytest.approx(1.6, abs=1e-3)
    assert found["release"]["epsilon_alone"]["steps"] < 2
    assert found["release"]["signal_to_noise"]
    assert found["epsilon"] <= 2
    assert not names(tmp_path)


def test_a_larger_share_leaves_noisier_steps(privet):
    def noise(share):
        words = f"{QUICK} {RELEASE} --release {share} --dry-run --json"
        return json.loads(privet(words).out)["noise_multiplier"]

    assert noise(0.2) < noise(0.8)


@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [
        (train_run, "open_ledger", 1),
        (train_run, "find_or_reserve", 1),
        (Hedge, "release", 1),
        (generating, "_latents", 2),
        (synthesis_images, "write_shard", 2),
        (paid_sets, "load", 1),  # between the phases
        (train_run, "prepare", 1),
        (train_run, "_divisor", 1),
        (checkpoint, "save", 2),
        (train_run, "write_results", 1),
        (paid_sets, "write_card", 1),
    ],
)
def test_a_run_goes_on_from_every_stage_with_one_spend(
    train, resume, tmp_path, killed_at, monkeypatch, owner, name, number
):
    whole, killed = tmp_path / "whole", tmp_path / "run"
    assert train(f"{RELEASE} --noise-seed 3", out="whole").code == 0
    monkeypatch.setattr(train_log, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    patch = killed_at(owner, name, number)
    with pytest.raises(Killed):
        train(f"{RELEASE} --noise-seed 3")
    patch.undo()
    done = resume("--noise-seed 3")
    assert done.code == 0, done.err
    assert the_record(killed).spent == (1, 5)
    assert the_record(killed).state.value == "closed"
    for file in ("model.safetensors", "synthetic/part-00001.parquet", "synthetic/README.md"):
        assert (whole / file).read_bytes() == (killed / file).read_bytes(), file


def test_a_release_that_was_paid_for_and_lost_is_not_had_again(train, resume, tmp_path, killed_at):
    from privet.runs.folder_memory import FolderMemory

    patch = killed_at(FolderMemory, "_write", 1)
    with pytest.raises(Killed):
        train(RELEASE)
    patch.undo()
    assert the_record(tmp_path / "run").spent == (1, 0)
    refused = resume()
    assert refused.code == 3
    assert "paid for a release and before it wrote that down" in refused.err
    assert the_record(tmp_path / "run").spent == (1, 0)
    assert train(f"{RELEASE} --force").code == 0


def test_ctrl_c_between_the_phases_says_how_to_go_on(train, resume, tmp_path, monkeypatch):
    def stop(*words):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_run, "prepare", stop)
        done = train(RELEASE)
    assert done.code != 0
    assert "--resume" in done.err
    assert the_record(tmp_path / "run").spent == (1, 0)
    assert resume().code == 0
    assert the_record(tmp_path / "run").spent == (1, 5)


def test_both_come_out_of_the_owners_ledger_or_nothing_does(train, tmp_path):
    path = tmp_path / "owner.db"
    Ledger.create(path, epsilon=2, delta=1e-5, relation="add-remove").close()
    Ledger.open(path).declare_portion("spring")
    done = train(f"{RELEASE} --ledger {path} --portion spring --epsilon 1")
    assert done.code == 0, done.err
    refused = train(f"{RELEASE} --ledger {path} --epsilon 1.9", out="other")
    assert refused.code == 3
    assert not (tmp_path / "other").exists()
    _, record = Ledger.open(path).records()
    assert record.spent == (1, 5)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("--release 0.5", "declare it with --declared-size"),
        ("--release 1 --declared-size 1500", "between 0 and 1, or auto"),
        ("--release 0.5 --declared-size 1500 --release-count 0", "--release-count is 0"),
        ("--release 0.5 --declared-size 1500 --synthetic digits", "leave out --synthetic"),
        ("--release 0.5 --declared-size 1500 --release-method edm", "--release-method is 'edm'"),
        (
            "--release 0.5 --declared-size 1500 --release-method sps-g:steps=3",
            "--release-method",
        ),
        ("--release auto --declared-size 1500 --release-method dp-merf", "give a share of ε"),
        ("--release 0.5 --declared-size 1500 --encoder private", "--encoder that is public"),
        ("--release-method dp-merf", "goes with --release"),
        ("--release-count 5", "goes with --release"),
        ("--encoder conv", "goes with --release"),
    ],
)
def test_refusals_write_nothing(train, tmp_path, words, match):
    done = train(f"--public 200 {words}")
    assert done.code == 2
    assert match in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", ["--release 0.5", "--release-count 70"])
def test_another_release_is_not_resumed(train, resume, tmp_path, killed_at, words):
    patch = killed_at(train_run, "prepare", 1)
    with pytest.raises(Killed):
        train(RELEASE)
    patch.undo()
    assert resume(words).code == 2
    assert the_record(tmp_path / "run").spent == (1, 0)


def test_several_processes_are_refused(tmp_path):
    words = f"-m privet {QUICK} {RELEASE} --out {tmp_path / 'run'}".split()
    done = finished(start(2, words))
    assert any("start it without torchrun" in err for _, _, err in done), done
    assert any(code == 2 for code, _, _ in done)
    assert not (tmp_path / "run").exists()
