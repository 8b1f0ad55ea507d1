"""A run that stops, however it stops, goes on where it was; what was paid for stays paid for."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from privet.learn import checkpoint
from privet.privacy import Ledger
from privet.runs import train_log, train_run
from tests.cli.runs import QUICK, Killed, lines, names, read

DRIVER = Path(__file__).with_name("kill_and_resume.py")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def killed_at(killed_at, monkeypatch):
    """With a checkpoint after every step."""

    def arrange(*point, **number):
        monkeypatch.setattr(train_log, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        return killed_at(*point, **number)

    return arrange


def die(train, words):
    with pytest.raises(Killed):
        train(words)


def kill(folder, kills, words):
    command = [sys.executable, str(DRIVER), str(folder), str(kills), *words.split()]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env=ENVIRONMENT, cwd=folder
    )
    return json.loads(result.stderr.splitlines()[-1])


def test_a_seeded_run_that_is_killed_again_and_again_ends_bit_for_bit_the_same(tmp_path):
    words = QUICK.replace("--views plain", "--views 2").replace("--epochs 0.5", "--epochs 4")
    options = "--method dope --public 0.1 --warm-up-epochs 2 --update sgd:momentum=0.9"
    report = kill(tmp_path, 12, f"{words} {options} --keep-last 3 --noise-seed 5")
    assert report["code"] == 0
    assert len(set(report["steps"])) > 2, "kills came at the same moment"
    for name in ("model.safetensors", "ensemble.safetensors", "metrics.jsonl"):
        whole, killed = (tmp_path / run / name for run in ("whole", "killed"))
        assert whole.read_bytes() == killed.read_bytes()
    assert read(tmp_path / "killed" / "result.json")["steps"]["paid_and_lost"] == 0


def test_a_private_run_that_is_killed_counts_what_it_lost(tmp_path):
    words = QUICK.replace("--epochs 0.5", "--epochs 4")
    report = kill(tmp_path, 8, f"{words} --declared-size 1700")
    assert report["code"] == 0
    out = tmp_path / "killed"
    steps = read(out / "result.json")["steps"]
    assert steps["planned"] == 40 == steps["done"] + steps["paid_and_lost"]
    [record] = Ledger.open(out / "ledger.db").records()
    assert record.spent == (40,)
    assert [each["step"] for each in lines(out / "metrics.jsonl")] == list(
        range(1, steps["done"] + 1)
    )


def test_lost_steps_are_said_in_a_sentence(train, tmp_path, killed_at):
    # Two steps are paid for; the checkpoint of the second is lost.
    patch = killed_at(checkpoint, "save", number=3)
    die(train, "--declared-size 1700")
    patch.undo()
    done = train("--resume --declared-size 1700")
    assert done.code == 0
    assert "4 of 5; 1 step was paid for and lost when the run was killed" in done.out
    body = read(tmp_path / "run" / "result.json")
    assert body["steps"] == {"planned": 5, "done": 4, "paid_and_lost": 1}
    assert len(lines(tmp_path / "run" / "metrics.jsonl")) == 4


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (train_run, "open_ledger"),
        (train_run, "find_or_reserve"),
        (train_run, "_divisor"),
        (checkpoint, "save"),
        (train_run, "write_results"),
        (train_run, "finished"),
    ],
)
def test_a_run_goes_on_from_every_stage(train, tmp_path, killed_at, module, name):
    die_before = killed_at(module, name)
    die(train, "--declared-size 1700")
    die_before.undo()
    refused = train("--declared-size 1700")
    assert (refused.code, "go on with --resume" in refused.err) == (2, True)
    done = train("--resume")
    assert done.code == 0, done.err
    assert read(tmp_path / "run" / "result.json")["steps"]["done"] == 5
    [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
    assert (record.spent, record.state.value) == ((5,), "closed")
    assert "checkpoint.safetensors" not in names(tmp_path / "run")


def test_checkpoints_come_often_enough_for_short_runs(train, tmp_path, killed_at):
    """With the usual times between them: what was paid for is not lost at the very end."""
    usual = train_log.SECONDS_BETWEEN_CHECKPOINTS
    patch = killed_at(train_run, "write_results")
    patch.setattr(train_log, "SECONDS_BETWEEN_CHECKPOINTS", usual)
    die(train, "--declared-size 1700")
    patch.undo()
    assert train("--resume").code == 0
    assert read(tmp_path / "run" / "result.json")["steps"]["done"] == 5


def test_diagnostics_of_lost_steps_are_forgotten(train, tmp_path, killed_at):
    patch = killed_at(checkpoint, "save", number=3)
    die(train, "--declared-size 1700 --diagnostics")
    patch.undo()
    seen = read(tmp_path / "run" / "diagnostics.json")
    assert "1" in seen
    assert train("--resume").code == 0
    again = read(tmp_path / "run" / "diagnostics.json")
    assert again["0"] == seen["0"]
    name = "alignment with the mean gradient"
    assert again["1"][name]["cosine"] != seen["1"][name]["cosine"]


def test_a_reservation_whose_id_was_lost_is_found_by_its_label(train, tmp_path, killed_at):
    patch = killed_at(train_run, "replace")  # just before the id is written
    die(train, "")
    patch.undo()
    assert read(tmp_path / "run" / "run.json")["reservation"] is None
    assert train("--resume").code == 0
    [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
    assert record.spent == (1, 5)


def test_a_count_that_was_paid_for_and_lost_ends_the_run(train, tmp_path, killed_at):
    patch = killed_at(train_run, "expected_rows")
    released = train_run.released_size
    patch.setattr(train_run, "released_size", lambda *words: released(*words))
    die(train, "")
    patch.undo()
    refused = train("--resume")
    assert refused.code == 3
    assert "paid for a count of the private images" in refused.err
    [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
    assert (record.spent, record.state.value) == ((1, 0), "closed")
    assert train("--force").code == 0


def test_a_run_that_never_began_is_not_resumed(train, tmp_path, killed_at):
    patch = killed_at(train_run, "prepare")
    die(train, "--public 0.1")
    patch.undo()
    assert not (tmp_path / "run").exists()
    refused = train("--resume")
    assert (refused.code, "start one without --resume" in refused.err) == (2, True)
    (tmp_path / "run").mkdir()  # what SIGKILL leaves
    assert train("--public 0.1 --warm-up-epochs 1").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--learning-rate 2", "training.learning_rate is 1.0 in the run and 2.0 now"),
        ("--views 2", "training.method.views.kind is 'plain' in the run and 'augmented' now"),
        ("--epsilon 3", "budget.epsilon is 2.0 in the run and 3.0 now"),
        ("--test 50", "data.test is '100' in the run and '50' now"),
        ("--model mlp", "model.kind is 'linear' in the run and 'mlp' now"),
        ("--noise-seed 1", "no other run may have one"),
        ("--ledger {other}", "ledger is None in the run and '{other}' now"),
    ],
)
def test_another_configuration_is_not_resumed(train, tmp_path, killed_at, words, sentence):
    other = tmp_path / "other.db"
    Ledger.create(other, epsilon=2, delta=1e-5, relation="add-remove").close()
    patch = killed_at(checkpoint, "save", number=3)
    die(train, "")
    patch.undo()
    before = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    result = train(f"--resume {words.format(other=other)}")
    assert result.code == 2
    assert sentence.format(other=other) in result.err
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == before
    assert Ledger.open(other).records() == ()


def test_another_ledger_in_the_same_place_is_not_resumed(train, tmp_path, killed_at):
    patch = killed_at(checkpoint, "save", number=3)
    die(train, "")
    patch.undo()
    for left in (tmp_path / "run").glob("ledger.db*"):
        left.unlink()
    missing = train("--resume")
    assert (missing.code, "There is no ledger at" in missing.err) == (3, True)
    path = tmp_path / "run" / "ledger.db"
    Ledger.create(path, epsilon=2, delta=1e-5, relation="add-remove").close()
    other = train("--resume")
    assert (other.code, "has no reservation" in other.err) == (3, True)


def test_a_finished_run_stays_as_it_is(train, privet, tmp_path):
    assert train().code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    again = privet(f"train --out {tmp_path / 'run'} --resume --json")
    assert again.code == 0
    assert "The run is done already." in again.err
    assert json.loads(again.out)["steps"]["done"] == 5
    results = ("model.safetensors", "result.json", "certificate.json", "metrics.jsonl")
    assert all((tmp_path / "run" / name).read_bytes() == before[name] for name in results)


def test_a_run_is_resumed_from_another_folder(train, privet, tmp_path, killed_at, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    import numpy as np

    from privet.data import load

    digits = load("digits")
    np.savez("data.npz", x=np.asarray(digits.images[:]), y=digits.labels)
    patch = killed_at(checkpoint, "save", number=3)
    with pytest.raises(Killed):
        privet(f"{QUICK} --out {tmp_path / 'run'}".replace("digits", "data.npz"))
    patch.undo()
    monkeypatch.chdir(tmp_path / "there")
    assert privet(f"train --out {tmp_path / 'run'} --resume").code == 0


def test_ctrl_c_saves_everything_and_says_how_to_go_on(train, privet, tmp_path):
    out = tmp_path / "run"
    words = QUICK.replace("--epochs 0.5", "--epochs 15") + f" --out {out} --declared-size 1700"
    process = subprocess.Popen(
        [sys.executable, "-m", "privet", *words.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    wait_for(lambda: (out / "metrics.jsonl").exists() and lines_so_far(out) > 2)
    process.send_signal(signal.SIGSTOP)
    busy = privet(f"{words} --force")
    assert (busy.code, "is in use by a running process" in busy.err) == (2, True)
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=60)
    assert (process.returncode, shown) == (130, "")
    assert "Stopping after this step" in said
    assert f"go on with privet train --out {out} --resume" in said
    assert "Traceback" not in said

    done = json.loads(privet(f"train --out {out} --resume --json").out)
    assert done["steps"] == {"planned": 150, "done": 150, "paid_and_lost": 0}


def test_ctrl_c_before_the_first_step(train, tmp_path, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_run, "prepare", pressed)
        early = train()
        assert early.code == 130
        assert "Stopped before anything was spent" in early.err
        assert not (tmp_path / "run").exists()
    with monkeypatch.context() as patch:
        patch.setattr(train_run, "_divisor", pressed)
        between = train()
        assert between.code == 130
        assert "Stopped between steps: go on with privet train" in between.err
    with monkeypatch.context() as patch:
        patch.setattr(train_run, "take_steps", pressed)
        late = train("--resume")
        assert late.code == 130
        assert "Stopped after step 0 of 5" in late.err
    assert train("--resume").code == 0


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines_so_far(out):
    return (out / "metrics.jsonl").read_text().count("\n")
