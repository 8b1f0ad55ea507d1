"""A run that stops, however it stops, goes on where it was; a release is paid for once."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from privet.data import load
from privet.hedge import Hedge
from privet.privacy import Ledger, Reservation
from privet.release import Embedding
from privet.runs import synthesis_course, synthesis_images, synthesis_run
from privet.runs.folder_memory import FolderMemory
from privet.synthesis import generating
from tests.cli.runs import QUICK_SYNTHESIS, SYSTEMS, Killed, killed_everywhere, names, read


def die(synthesize, words=""):
    with pytest.raises(Killed):
        synthesize(words)


def the_record(out):
    [record] = Ledger.open(out / "ledger.db").records()
    return record


def test_a_seeded_run_that_is_killed_everywhere_ends_bit_for_bit_the_same(tmp_path):
    words = (
        f"{QUICK_SYNTHESIS} --method {SYSTEMS['sps-g']} --encoder conv:epochs=2 --public 0.05 "
        "--count 50 --png --noise-seed 5"
    )
    whole, killed = killed_everywhere(words, tmp_path)
    files = {path.relative_to(whole) for path in whole.rglob("*") if path.is_file()}
    assert files == {path.relative_to(killed) for path in killed.rglob("*") if path.is_file()}
    own = {"config.json", "run.json", "ledger.db"}
    assert len(files) > 50
    for file in files - {Path(name) for name in own}:
        assert (whole / file).read_bytes() == (killed / file).read_bytes(), file
    assert (the_record(killed).spent, the_record(killed).state.value) == ((1,), "closed")


@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [
        (synthesis_course, "replace", 1),  # reserved, and its id is not written down
        (Hedge, "release", 1),
        (generating, "_latents", 2),
        (synthesis_images, "write_shard", 2),
    ],
)
def test_a_private_run_goes_on_with_what_is_missing(
    synthesize, privet, tmp_path, killed_at, owner, name, number
):
    patch = killed_at(owner, name, number)
    die(synthesize)
    patch.undo()
    out = tmp_path / "run"
    kept = {path: path.read_bytes() for path in (out / "releases").glob("*")}
    refused = synthesize()
    assert (refused.code, "go on with --resume" in refused.err) == (2, True)
    done = privet(f"synthesize --out {out} --resume --json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["images"] == len(load(out / "synthetic")) == 60
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert (the_record(out).spent, the_record(out).state.value) == ((1,), "closed")


@pytest.mark.parametrize(
    ("method", "spent"),
    [
        (SYSTEMS["dp-merf"], (1,)),
        (SYSTEMS["dp-mepf"] + ",stopping=true", (1, 0)),
        (SYSTEMS["sps-plus"], (1,)),
    ],
)
def test_a_release_that_was_paid_for_and_lost_ends_the_run(
    synthesize, tmp_path, encoder, monkeypatch, method, spent
):
    """Also where the plan would pay for another one: that is for another stage."""
    words, out = f"--encoder {encoder} --method {method}", tmp_path / "run"
    write = FolderMemory._write

    def lost(memory, file, made, *metadata):
        if file.startswith("releases"):
            raise Killed
        write(memory, file, made, *metadata)

    with monkeypatch.context() as patch:
        patch.setattr(FolderMemory, "_write", lost)
        die(synthesize, words)
    assert the_record(out).spent == spent
    before = {path: path.read_bytes() for path in out.rglob("*.safetensors")}
    refused = synthesize(f"--resume {words}")
    assert refused.code == 3
    assert "paid for a release and before it wrote that down" in refused.err
    assert synthesize(f"--resume {words}").code == 3
    assert (the_record(out).spent, the_record(out).state.value) == (spent, "closed")
    assert {path: path.read_bytes() for path in out.rglob("*.safetensors")} == before
    assert synthesize("--force").code == 0


def test_stages_go_on_between_releases(synthesize, tmp_path, encoder, killed_at):
    """The first stage's release is read, the second one's is made."""
    words, out = f"--encoder {encoder} --method {SYSTEMS['sps-plus']}", tmp_path / "run"
    patch = killed_at(Hedge, "release", 2)
    die(synthesize, words)
    patch.undo()
    assert the_record(out).spent == (1,)
    first = (out / "releases" / "release-0.safetensors").read_bytes()
    assert synthesize(f"--resume {words}").code == 0
    assert (out / "releases" / "release-0.safetensors").read_bytes() == first
    assert the_record(out).spent == (2,)


def test_a_run_that_never_began_is_not_resumed(synthesize, tmp_path, killed_at):
    patch = killed_at(synthesis_course, "asdict", 2)  # of the state
    die(synthesize)
    patch.undo()
    refused = synthesize("--resume")
    assert (refused.code, "never began: start it again with --force" in refused.err) == (2, True)
    assert synthesize("--force").code == 0


def test_a_cut_short_growth_goes_on(synthesize, privet, tmp_path, killed_at):
    """Killed while a short shard is made again, a run has fewer images for a while."""
    assert synthesize("--noise-seed 2 --count 130", out="whole").code == 0
    assert synthesize("--noise-seed 2").code == 0
    out = tmp_path / "run"
    patch = killed_at(synthesis_images, "write_shard", 2)
    die(synthesize, "--noise-seed 2 --resume --count 130")
    patch.undo()
    assert privet(f"synthesize --out {out} --resume --noise-seed 2").code == 0
    grown, whole = (load(place / "synthetic") for place in (out, tmp_path / "whole"))
    assert np.array_equal(grown.images[:], whole.images[:])
    assert np.array_equal(grown.labels, whole.labels)
    assert read(out / "result.json")["images"] == 130


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (f"--method {SYSTEMS['dp-merf']},latent=9", "system.latent is 32 in the run and 9 now"),
        ("--method sps", "system.kind is 'dp-merf' in the run and 'sps' now"),
        ("--epsilon 3", "budget.epsilon is 2.0 in the run and 3.0 now"),
        ("--relation replace-one", "relation is 'add-remove' in the run and 'replace-one' now"),
        ("--public 0.1", "data.public is None in the run and '0.1' now"),
        ("--declared-size 100", "declared_size is None in the run and 100.0 now"),
        ("--noise-seed 1", "no other run may have one"),
        ("--ledger {other}", "ledger is None in the run and '{other}' now"),
    ],
)
def test_another_configuration_is_not_resumed(
    synthesize, tmp_path, encoder, killed_at, words, sentence
):
    other = tmp_path / "other.db"
    Ledger.create(other, epsilon=2, delta=1e-5, relation="add-remove").close()
    patch = killed_at(generating, "_latents")
    die(synthesize, f"--encoder {encoder}")
    patch.undo()
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*.*")}
    result = synthesize(f"--encoder {encoder} --resume {words.format(other=other)}")
    assert result.code == 2
    assert sentence.format(other=other) in result.err
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*.*")} == before
    assert Ledger.open(other).records() == ()


def test_another_ledger_in_the_same_place_is_not_resumed(synthesize, tmp_path, killed_at):
    patch = killed_at(generating, "_latents")
    die(synthesize)
    patch.undo()
    for left in (tmp_path / "run").glob("ledger.db*"):
        left.unlink()
    missing = synthesize("--resume")
    assert (missing.code, "There is no ledger at" in missing.err) == (3, True)
    path = tmp_path / "run" / "ledger.db"
    Ledger.create(path, epsilon=2, delta=1e-5, relation="add-remove").close()
    other = synthesize("--resume")
    assert (other.code, "has no reservation" in other.err) == (3, True)


class TestCtrlC:
    def pressed_after(self, monkeypatch, owner, name, number=1):
        """Ctrl-C comes when the n-th call is over."""
        function, calls = getattr(owner, name), []

        def pressing(*arguments, **settings):
            result = function(*arguments, **settings)
            calls.append(name)
            if len(calls) == number:
                signal.raise_signal(signal.SIGINT)
            return result

        monkeypatch.setattr(owner, name, pressing)

    def stopped(self, synthesize, privet, out):
        result = synthesize()
        assert result.code == 130
        assert f"Stopped: go on with privet synthesize --out {out} --resume" in result.err
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    @pytest.fixture
    def patch(self, monkeypatch):
        with monkeypatch.context() as patch:
            yield patch

    def test_while_private_images_are_read_nothing_is_spent(
        self, synthesize, privet, tmp_path, patch
    ):
        read_so_far = []
        norms = Embedding.norms
        patch.setattr(Embedding, "norms", lambda *words: read_so_far.append(1) or norms(*words))
        self.pressed_after(patch, Embedding, "weighted_sum")
        self.stopped(synthesize, privet, tmp_path / "run")
        assert len(read_so_far) == 1  # of four batches
        assert the_record(tmp_path / "run").spent == (0,)
        patch.undo()
        assert synthesize("--resume").code == 0

    @pytest.mark.parametrize("name", ["spend", "remaining"])
    def test_between_a_spend_and_its_result_it_waits(
        self, synthesize, privet, tmp_path, patch, name
    ):
        """Pressed before the first batch too: that is not yet a spend."""
        out = tmp_path / "run"
        self.pressed_after(patch, Reservation, name)
        self.stopped(synthesize, privet, out)
        patch.undo()
        spent = 1 if name == "spend" else 0
        assert the_record(out).spent == (spent,)
        kept = [path.read_bytes() for path in (out / "releases").glob("*")]
        assert len(kept) == spent
        assert synthesize("--resume").code == 0
        assert the_record(out).spent == (1,)
        assert kept in ([], [(out / "releases" / "release.safetensors").read_bytes()])

    def test_afterwards_the_run_goes_on_with_what_is_missing(
        self, synthesize, privet, tmp_path, patch
    ):
        self.pressed_after(patch, generating, "_latents", 2)
        self.stopped(synthesize, privet, tmp_path / "run")
        assert names(tmp_path / "run" / "releases") == {"release.safetensors"}
        patch.undo()
        self.pressed_after(patch, synthesis_images, "write_shard")
        between = synthesize("--resume")
        assert (between.code, "Stopped: go on with" in between.err) == (130, True)
        assert names(tmp_path / "run" / "synthetic") == {"part-00000.parquet"}
        patch.undo()
        assert synthesize("--resume").code == 0
        assert the_record(tmp_path / "run").spent == (1,)

    def test_before_anything(self, synthesize, tmp_path, patch):
        self.pressed_after(patch, synthesis_run, "staged")
        early = synthesize()
        assert early.code == 130
        assert "Stopped before anything was spent" in early.err
        assert not (tmp_path / "run").exists()
