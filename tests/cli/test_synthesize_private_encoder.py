"""`privet synthesize` where nothing is public: private images teach the encoder, at a cost."""

import json

import numpy as np
import pytest
from safetensors.torch import load_file

from privet.hedge import Hedge
from privet.privacy import PLD, Certificate, GaussianRelease, Ledger, PoissonSteps, Relation
from privet.privacy.certificate import ALWAYS_PUBLIC
from privet.recipes import private_encoders
from privet.runs.folder_memory import FolderMemory
from tests.cli.runs import QUICK_SYNTHESIS, Killed, killed_everywhere, names, read
from tests.cli.runs import SYSTEMS as QUICK

LESSONS = "private:share=0.3,epochs=0.4,width=4,groups=2"
STEPS = 4
# Narrow maps have few components.
NARROW = "" if "shared=" in QUICK["sps-g"] else ",shared=6"
SYSTEMS = {**QUICK, "sps-g": QUICK["sps-g"] + NARROW}
WORDS = f"--encoder {LESSONS} --method {SYSTEMS['sps-g']}"
LEARNED = "learned-encoder.safetensors"


def the_record(out):
    [record] = Ledger.open(out / "ledger.db").records()
    return record


@pytest.mark.parametrize(
    ("system", "releases"),
    [("sps-g", 1), ("dp-mepf", 1), ("dp-mepf with stopping", 2), ("sps", 1), ("sps-plus", 2)],
)
def test_both_costs_stand_in_one_plan(synthesize, tmp_path, system, releases):
    method = SYSTEMS[system.partition(" ")[0]] + (",stopping=true" * ("stopping" in system))
    words = f"--encoder {LESSONS} --method {method}"
    dry = synthesize(f"{words} --dry-run --json")
    done = synthesize(words)
    assert (dry.code, done.code) == (0, 0), dry.err + done.err
    out = tmp_path / "run"
    certificate = Certificate.from_json(read(out / "certificate.json"))
    record = the_record(out)
    events = record.plan.events
    assert certificate.plan.events == events
    assert json.loads(dry.out)["events"] == read(out / "certificate.json")["events"]
    assert isinstance(events[0], PoissonSteps)
    assert all(isinstance(each, GaussianRelease) for each in events[1:])
    assert record.spent == tuple(each.count for each in events)
    assert (record.spent[0], sum(record.spent[1:])) == (STEPS, releases)
    for some, cost in ((events, 2.0), (events[:1], 0.6)):
        assert PLD().epsilon(some, 1e-5, Relation.ADD_REMOVE) == pytest.approx(cost, rel=1e-3)
    assert certificate.guarantee.epsilon <= 2
    assert len(names(out / "releases")) == 1 + releases
    assert LEARNED in names(out / "releases")
    noise = "noise in the place of public images, drawn from a seed"
    assert certificate.public == (*ALWAYS_PUBLIC, *[noise] * (system == "sps-g"))


def test_the_cost_of_each_is_foretold(synthesize):
    foretold = synthesize(f"{WORDS} --dry-run")
    assert "encoder alone   ε = 0.6\n" in foretold.out
    assert "releases alone  ε = 1." in foretold.out
    assert "4 × Poisson-subsampled Gaussian step" in foretold.out
    alone = json.loads(synthesize(f"{WORDS} --dry-run --json").out)["epsilon_alone"]
    assert alone["encoder"] == pytest.approx(0.6, rel=1e-3)
    assert 0.6 + alone["releases"] > 2 > alone["releases"]  # composition is less than a sum


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_either_relation(synthesize, tmp_path, relation):
    assert synthesize(f"{WORDS} --relation {relation}").code == 0
    record = the_record(tmp_path / "run")
    cost = PLD().epsilon(record.plan.events, 1e-5, Relation(relation))
    assert cost == pytest.approx(2, rel=1e-3)
    assert cost <= 2


def test_without_an_encoder_nothing_is_paid_for_one(synthesize, tmp_path):
    assert synthesize(f"--encoder {LESSONS} --method {SYSTEMS['dp-merf']}").code == 0
    assert the_record(tmp_path / "run").spent == (1,)


@pytest.mark.parametrize("system", ["sps-g", "dp-mepf", "sps"])
def test_an_untrained_one_costs_nothing(synthesize, tmp_path, system):
    assert synthesize(f"--encoder untrained:width=8 --method {SYSTEMS[system]}").code == 0
    out = tmp_path / "run"
    assert the_record(out).spent == (1,)
    assert LEARNED not in names(out / "releases")
    public = read(out / "certificate.json")["public"]
    noise = "noise in the place of public images, drawn from a seed"
    weights = "an encoder's weights, drawn from a seed"
    assert public == [*ALWAYS_PUBLIC, *[noise] * (system == "sps-g"), weights]


def test_images_without_labels_teach_nothing(privet, tmp_path, one_thread):
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "data.npz", x=images)
    refused = privet(
        f"synthesize {tmp_path / 'data.npz'} --epsilon 1 --delta 1e-5 --count 9 {WORDS} "
        f"--out {tmp_path / 'run'}"
    )
    assert (refused.code, "give labelled images" in refused.err) == (2, True), refused.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("private:share=0", "share is 0: give a share between 0 and 1"),
        ("private:share=1", "share is 1: give a share between 0 and 1"),
        ("private:sampling_rate=0", "sampling rate must lie in (0, 1]"),
        ("private:groups=5", "groups is 5; give a divisor"),
        ("private:steps=5", "has no setting 'steps'"),
    ],
)
def test_settings_are_checked(synthesize, tmp_path, words, sentence):
    refused = synthesize(f"--method {SYSTEMS['sps-g']} --encoder {words}")
    assert (refused.code, sentence in refused.err) == (2, True), refused.err
    assert not (tmp_path / "run").exists()


def test_more_images_cost_nothing(synthesize, privet, tmp_path):
    assert synthesize(WORDS).code == 0
    out = tmp_path / "run"
    before = {path: path.read_bytes() for path in (out / "releases").iterdir()}
    spent = the_record(out).spent
    assert privet(f"synthesize --out {out} --resume --count 90").code == 0
    assert {path: path.read_bytes() for path in (out / "releases").iterdir()} == before
    assert the_record(out).spent == spent


class TestKilled:
    def die(self, synthesize, words=WORDS):
        with pytest.raises(Killed):
            synthesize(words)

    def test_between_steps_the_rest_is_made(self, synthesize, privet, tmp_path, killed_at):
        patch = killed_at(Hedge, "_Hedge__step", 3)
        self.die(synthesize)
        patch.undo()
        out = tmp_path / "run"
        assert the_record(out).spent == (2, 0)
        assert "unfinished-encoder.safetensors" in names(out / "steps")
        assert synthesize(f"--resume {WORDS}").code == 0
        assert the_record(out).spent == (STEPS, 1)
        assert names(out / "releases") == {LEARNED, "release.safetensors"}
        assert "unfinished-encoder.safetensors" not in names(out / "steps")

    def test_after_the_last_step_it_is_written_down(self, synthesize, tmp_path, monkeypatch):
        write = FolderMemory._write

        def lost(memory, file, made, *metadata):
            if LEARNED in file:
                raise Killed
            write(memory, file, made, *metadata)

        with monkeypatch.context() as patch:
            patch.setattr(FolderMemory, "_write", lost)
            self.die(synthesize)
        out = tmp_path / "run"
        assert the_record(out).spent == (STEPS, 0)
        assert synthesize(f"--resume {WORDS}").code == 0
        assert the_record(out).spent == (STEPS, 1)

    def test_before_the_release_the_encoder_is_kept(self, synthesize, tmp_path, killed_at):
        patch = killed_at(Hedge, "release")
        self.die(synthesize)
        patch.undo()
        out = tmp_path / "run"
        assert the_record(out).spent == (STEPS, 0)
        kept = (out / "releases" / LEARNED).read_bytes()
        assert synthesize(f"--resume {WORDS}").code == 0
        assert (out / "releases" / LEARNED).read_bytes() == kept
        assert the_record(out).spent == (STEPS, 1)

    def test_an_encoder_that_was_paid_for_and_lost_ends_the_run(
        self, synthesize, tmp_path, killed_at
    ):
        patch = killed_at(Hedge, "release")
        self.die(synthesize)
        patch.undo()
        out = tmp_path / "run"
        (out / "releases" / LEARNED).unlink()
        refused = synthesize(f"--resume {WORDS}")
        assert (refused.code, "paid for already, and lost" in refused.err) == (3, True)
        assert the_record(out).spent == (STEPS, 0)

    def test_a_release_without_its_encoder_ends_the_run(self, synthesize, tmp_path):
        assert synthesize(f"{WORDS} --count 60").code == 0
        out = tmp_path / "run"
        (out / "releases" / LEARNED).unlink()
        refused = synthesize(f"--resume {WORDS} --count 90")
        assert (refused.code, "cannot go on: start again" in refused.err) == (3, True)

    def test_an_encoder_of_another_run_is_refused(self, synthesize, tmp_path, killed_at):
        assert synthesize(WORDS, out="other").code == 0
        patch = killed_at(private_encoders, "prepare")
        self.die(synthesize)
        patch.undo()
        out = tmp_path / "run"
        (out / "releases").mkdir(exist_ok=True)
        content = (tmp_path / "other" / "releases" / LEARNED).read_bytes()
        (out / "releases" / LEARNED).write_bytes(content)
        refused = synthesize(f"--resume {WORDS}")
        assert (refused.code, "belongs to another run" in refused.err) == (3, True)
        assert "holds an encoder and the run paid for no step" in " ".join(refused.err.split())

    def test_an_unfinished_encoder_of_another_run_is_refused(self, synthesize, tmp_path, killed_at):
        name = "steps/unfinished-encoder.safetensors"
        for out, calls in (("other", 4), ("run", 1)):
            patch = killed_at(Hedge, "_Hedge__step", calls)
            with pytest.raises(Killed):
                synthesize(WORDS, out=out)
            patch.undo()
        out = tmp_path / "run"
        (out / "steps").mkdir(exist_ok=True)
        (out / name).write_bytes((tmp_path / "other" / name).read_bytes())
        refused = synthesize(f"--resume {WORDS}")
        assert (refused.code, "unfinished-encoder belongs to another run" in refused.err) == (
            3,
            True,
        )
        assert the_record(out).spent == (0, 0)

    def test_a_seeded_run_that_is_killed_everywhere_ends_bit_for_bit_the_same(self, tmp_path):
        words = f"{QUICK_SYNTHESIS} {WORDS} --count 50 --noise-seed 5"
        whole, killed = killed_everywhere(words, tmp_path)
        for place in ("releases", "steps", "synthetic"):
            assert names(whole / place) == names(killed / place)
            for path in (whole / place).iterdir():
                assert path.read_bytes() == (killed / place / path.name).read_bytes(), path
        assert the_record(killed).spent == the_record(whole).spent == (STEPS, 1)


def test_the_encoder_is_what_left_the_hedge(synthesize, tmp_path):
    assert synthesize(f"{WORDS} --noise-seed 1", out="a").code == 0
    assert synthesize(f"{WORDS} --noise-seed 2", out="b").code == 0
    one, other = (load_file(tmp_path / out / "releases" / LEARNED) for out in "ab")
    assert one.keys() == other.keys()
    assert not any(name.startswith("head") for name in one)
    assert any((one[name] != other[name]).any() for name in one)
