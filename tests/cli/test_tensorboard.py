"""Events say what metrics.jsonl says, once, and nothing about when."""

import io

import pytest
from PIL import Image

from privet.learn import checkpoint
from privet.recipes import releases
from privet.runs import event_file, train_log
from privet.runs.run_folder import RunFolder
from privet.runs.run_metrics import Metrics, begin_events
from privet.synthesis import generating
from tests.cli.runs import SYSTEMS, Killed, lines

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="needs TensorBoard: pip install 'privet[tensorboard]'",
)
EDM = "synthesize digits --method edm:iterations=4,widths=8-8,batch_size=4,steps=2 --count 10"


def events(out):
    found = accumulator.EventAccumulator(str(out / "tensorboard"))
    return found.Reload()


def scalars(out):
    found = events(out)
    return {
        tag: [(each.step, pytest.approx(each.value)) for each in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def told(out):
    """What metrics.jsonl has, by tag."""
    found = {}
    for line in lines(out / "metrics.jsonl"):
        part = f"{line['part']}/" if "part" in line else ""
        for name in set(line) - {"step", "part", "done", "of"}:
            found.setdefault(part + name, []).append((line["step"], line[name]))
    return found


def test_training(train, tmp_path):
    assert train("--tensorboard").code == 0
    out = tmp_path / "run"
    assert set(scalars(out)) == {"epoch", "epsilon", "learning_rate", "test_accuracy"}
    assert scalars(out) == told(out)


def test_no_event_tells_when_a_step_ended_or_where(train, tmp_path, monkeypatch):
    clock = iter(range(10**9, 2 * 10**9, 1000))
    monkeypatch.setattr(event_file.time, "time", lambda: next(clock))
    train("--tensorboard")
    found = events(tmp_path / "run")
    times = {each.wall_time for tag in found.Tags()["scalars"] for each in found.Scalars(tag)}
    assert len(times) == 1
    files = sorted(path.name for path in (tmp_path / "run" / "tensorboard").iterdir())
    assert files == [f"events.out.tfevents.00000{each}.privet" for each in (1, 2)]


def test_without_the_option_there_are_none(train, synthesize, tmp_path):
    train(out="model")
    synthesize(out="images")
    assert not (tmp_path / "model" / "tensorboard").exists()
    assert not (tmp_path / "images" / "tensorboard").exists()


def test_a_finished_run_gets_them_later(train, synthesize, tmp_path):
    for start, out in ((train, "model"), (synthesize, "images")):
        start(out=out)
        assert start("--resume --tensorboard", out=out).code == 0
        assert scalars(tmp_path / out) == told(tmp_path / out)


def test_a_resumed_run_goes_on_with_its_events(train, tmp_path, monkeypatch, killed_at):
    monkeypatch.setattr(train_log, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    patch = killed_at(checkpoint, "save", 9)
    with pytest.raises(Killed):
        train("--tensorboard --epochs 2 --noise-seed 3")
    patch.undo()
    out = tmp_path / "run"
    before = scalars(out)["epsilon"]
    assert len(before) > 3
    assert train("--resume --epochs 2 --noise-seed 3").code == 0
    after = scalars(out)
    assert [step for step, _ in after["epsilon"]] == list(range(1, 21))
    assert after == told(out)


def test_who_looked_at_a_killed_run_forgets_what_was_lost(tmp_path):
    folder = RunFolder(tmp_path)
    begin_events(folder)
    metrics = Metrics(folder)
    for step in range(1, 6):
        metrics.write({"step": step, "epsilon": float(step)})
    watching = events(tmp_path)
    again = Metrics(folder)
    again.keep(lambda line: line["step"] <= 2)
    again.write({"step": 3, "epsilon": 30.0})
    watching.Reload()
    assert [(each.step, each.value) for each in watching.Scalars("epsilon")] == [
        *((1, 1.0), (2, 2.0), (3, 30.0))
    ]


def test_force_removes_them(train, synthesize, tmp_path):
    for start, out in ((train, "model"), (synthesize, "images")):
        start("--tensorboard", out=out)
        (tmp_path / out / "tensorboard" / "notes.txt").write_text("mine")
        assert start("--force", out=out).code == 0
        assert [path.name for path in (tmp_path / out / "tensorboard").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("method", list(SYSTEMS))
def test_synthesis(synthesize, tmp_path, encoder, method):
    words = "" if method == "dp-merf" else f"--encoder {encoder} --public 0.05"
    assert synthesize(f"--tensorboard --method {SYSTEMS[method]} {words}").code == 0
    out = tmp_path / "run"
    found = scalars(out)
    assert set(found) == {"matching/loss"}
    assert found == told(out)
    steps = [step for step, _ in found["matching/loss"]]
    assert steps == list(range(1, len(steps) + 1))
    [picture] = events(out).Images("samples")
    assert picture.step == 60
    sheet = Image.open(io.BytesIO(picture.encoded_image_string))
    assert sheet.size == (picture.width, picture.height)


def test_public_images(privet, tmp_path, one_thread):
    out = tmp_path / "run"
    assert privet(f"{EDM} --out {out} --tensorboard").code == 0
    [losses] = scalars(out).values()
    assert [step for step, _ in losses] == [1, 2, 3, 4]
    assert [each.step for each in events(out).Images("samples")] == [10]
    assert privet(f"synthesize --out {out} --resume --count 20").code == 0
    assert [each.step for each in events(out).Images("samples")] == [20]


def test_a_killed_synthesis_has_each_step_once(synthesize, tmp_path, monkeypatch):
    monkeypatch.setattr(releases, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    words = f"--noise-seed 3 --method {SYSTEMS['dp-merf'].replace('iterations=2', 'iterations=6')}"
    assert synthesize(words, out="whole").code == 0
    latents = generating._latents

    def dying(count, size, seed, number):
        if number == 4:
            raise Killed
        return latents(count, size, seed, number)

    with monkeypatch.context() as patch:
        patch.setattr(generating, "_latents", dying)
        patch.setattr(releases.Kept, "passed", lambda *_: None)
        with pytest.raises(Killed):
            synthesize(f"{words} --tensorboard")
    assert len(lines(tmp_path / "run" / "metrics.jsonl")) == 4
    assert synthesize(f"{words} --resume").code == 0
    whole, killed = (tmp_path / each / "metrics.jsonl" for each in ("whole", "run"))
    assert whole.read_bytes() == killed.read_bytes()
    assert scalars(tmp_path / "run") == told(tmp_path / "run")


def test_a_private_encoder_tells_no_loss(synthesize, tmp_path):
    words = f"--method {SYSTEMS['dp-mepf']} --encoder private:share=0.5,epochs=0.1"
    assert synthesize(f"{words} --tensorboard").code == 0
    assert set(told(tmp_path / "run")) == {"matching/loss"}


@pytest.mark.parametrize("command", ["train", "synthesize"])
def test_missing_package(command, request, tmp_path, monkeypatch):
    monkeypatch.setattr(event_file, "find_spec", lambda name: None)
    refused = request.getfixturevalue(command)("--tensorboard")
    assert refused.code == 2
    assert "pip install 'privet[tensorboard]'" in refused.err
    assert refused.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
