"""What `privet synthesize` refuses: one sentence, the right exit code, nothing written or spent."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from privet.data import load, shards
from privet.errors import ConfigError
from privet.models import ConvEncoder
from privet.privacy import Ledger
from privet.recipes import encoders
from privet.recipes.run_folder import RunFolder
from tests.cli.runs import QUICK_SYNTHESIS, SYSTEMS, names

SPS_PLUS = f"--encoder {{encoder}} --method {SYSTEMS['sps-plus']}"
SPS_G = f"--encoder {{encoder}} --method {SYSTEMS['sps-g']}"
REFUSALS = [
    ("--epsilon 0", 2, "ε must be a positive number, not 0."),
    ("--delta 1", 2, "δ must lie strictly between 0 and 1"),
    ("--relation replace-one", 2, "--relation is replace-one and the ledger's is add-remove"),
    ("--epsilon 2.5", 3, "Asked for ε = 2.5"),
    ("--count 0", 2, "--count is 0: give 1 or more."),
    ("--count -3", 2, "--count is -3: give 1 or more."),
    ("--method magic", 2, "--method is 'magic': choose sps-g, dp-mepf, dp-merf, sps, sps-plus."),
    ("--method dp-merf:deep=3", 2, "--method dp-merf has no setting 'deep': it takes"),
    ("--method dp-merf:size=many", 2, "--method size is 'many': give a whole number."),
    ("--method dp-merf:size=3", 2, "Fourier features come in pairs"),
    ("--method dp-merf:widths=8-8", 2, "--method widths are 2 numbers: give 4."),
    ("--method dp-merf:latent=0", 2, "--method widths, latent, batch_size and checks must be 1"),
    ("--method dp-merf:count_share=0", 2, "--method count_share is 0: give more than 0."),
    ("--method dp-merf:average_rate=-1", 2, "--method average_rate is -1: give more than 0."),
    ("--method sps:later_iterations=0,clip_ratios=0.1-0.1", 2, "Pixels need iterations"),
    ("--method sps-g:decay=1", 2, "decay is 1; give 0 to below 1."),
    ("--method dp-merf:iterations=0", 2, "A generator needs at least one iteration"),
    ("--method sps:clip_ratios=0", 2, "SPS needs a positive clip ratio for each stage."),
    ("--method dp-merf:size", 2, "--method has 'size': write name:key=value,key=value."),
    ("--method sps-g", 2, "An encoder learns from public images of two classes or more"),
    ("--method sps-g --public 1", 2, "An encoder learns from public images of two classes"),
    ("--method sps-g --encoder vgg", 2, "--encoder is 'vgg': choose conv, saved"),
    ("--public 0.1 --method sps-g --encoder conv:epochs=0", 2, "epochs is 0"),
    ("--public 0.1 --method sps-g --encoder conv:depth=3", 2, "conv has no setting 'depth'"),
    (SPS_G, 2, "SPS-G takes principal components of public images: give --public."),
    (f"{SPS_G} --public 5", 2, "6 principal components need more than as many"),
    (f"{SPS_G.replace('deep=6', 'deep=300')} --public 0.5", 2, "300 principal components need"),
    (f"{SPS_G},clip_norm=0 --public 0.1", 2, "The clip norm must lie between"),
    (f"{SPS_PLUS},pseudo_count=50", 2, "50 are more pseudo-classes than classes allow"),
    (f"{SPS_PLUS},per_pseudo=11", 2, "A pseudo-class holds 1 to 10 classes, not 11."),
    (f"{SPS_PLUS},per_pseudo=4,pseudo_count=7", 2, "10 classes equally often: give 5 or 10"),
    (f"{SPS_PLUS},pseudo_count=7", 2, "7 pseudo-classes of 2 cannot hold each of 10 classes"),
    (f"{SPS_PLUS},class_layers=9", 2, "class_layers is 9 and the encoder has 5 layers"),
    (f"{SPS_PLUS},layers=conv1,class_layers=1", 2, "The encoder has no layer 'conv1': choose"),
    ("--resize 10", 2, "The images are 10×10 and a generator makes squares"),
    ("--resize 8x12", 2, "multiple of 4: give --resize 12, or --method sps."),
    (f"{SPS_PLUS} --channels rgb", 2, "is an encoder of 1 channels and the images have 3"),
    ("--method sps --encoder nowhere.safetensors", 4, "nowhere.safetensors cannot be read"),
    ("--method sps --encoder {text}", 4, "text.safetensors cannot be read"),
    ("--method sps --encoder {wide}", 4, "wide.safetensors has other layers or sizes"),
    ("--method sps --encoder {broken}", 4, "broken.safetensors has weights that are not finite"),
    ("--public digits", 2, "--public names the private data themselves"),
    ("--encoder-data digits --method sps", 2, "--encoder-data names the private data themselves"),
    ("--encoder-data nowhere.npz --method sps", 4, "nowhere.npz does not exist"),
    ("--declared-size 0", 2, "--declared-size is 0: give the number of images"),
    ("--seed -1", 2, "seed is -1"),
    ("--noise-seed -1", 2, "--noise-seed is -1: give a whole number from 0 upwards."),
    ("--resume", 2, "holds no run to go on with: start one without --resume."),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory, encoder):
    """Encoders that are none, or none of ours."""
    place = tmp_path_factory.mktemp("files")
    (place / "text.safetensors").write_text("no tensors")
    save_file(ConvEncoder(1, widths=(8, 8)).state_dict(), place / "wide.safetensors")
    weights = load_file(encoder)
    weights["layers.1.0.weight"][0] = torch.nan
    save_file(weights, place / "broken.safetensors")
    return {path.stem: path for path in place.iterdir()} | {"encoder": encoder}


@pytest.mark.parametrize(("words", "code", "sentence"), REFUSALS)
def test_refusals_are_one_sentence_and_cost_nothing(
    synthesize, tmp_path, files, words, code, sentence
):
    owner = tmp_path / "owner.db"
    Ledger.create(owner, epsilon=2, delta=1e-5, relation="add-remove").close()
    result = synthesize(f"--ledger {owner} {words.format(**files)}", out="deep/run")
    assert (result.code, result.out) == (code, ""), result.err
    assert sentence in result.err
    assert result.err.startswith("privet: ")
    assert result.err.count("\n") == 1
    assert names(tmp_path) <= {"owner.db", "owner.db-wal", "owner.db-shm"}
    assert Ledger.open(owner).records() == ()


def test_other_refusals(privet, tmp_path):
    def refused(words, code, sentence):
        result = privet(words)
        assert (result.code, result.out) == (code, "")
        assert sentence in result.err
        assert not (tmp_path / "run").exists()

    out = f"--out {tmp_path / 'run'}"
    refused(f"synthesize {out}", 2, "Give --count: how many images to make.")
    refused(f"synthesize --count 9 {out}", 2, "Give --epsilon and --delta")
    refused(f"synthesize --count 9 --epsilon 1 --delta 1e-5 {out}", 2, "Give DATA")
    words = f"synthesize digits --count 9 --epsilon 1 --delta 1e-5 {out}"
    refused(words, 2, "Give --method: sps-g, dp-mepf, dp-merf, sps, sps-plus.")
    refused(QUICK_SYNTHESIS, 2, "Give --out")
    refused(f"{QUICK_SYNTHESIS} {out} --ledger {tmp_path / 'no.db'}", 3, "There is no ledger at")
    np.savez(tmp_path / "plain.npz", x=np.zeros((9, 8, 8), np.uint8))
    refused(words.replace("digits", str(tmp_path / "plain.npz")), 4, "has no labels")
    refused(words.replace("digits", "nowhere.npz"), 4, "nowhere.npz does not exist")


def test_a_folder_is_never_overwritten(synthesize, tmp_path):
    assert synthesize("--noise-seed 1").code == 0
    out = tmp_path / "run"
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = synthesize()
    assert again.code == 2
    assert "go on with --resume, replace it with --force" in again.err
    Ledger.create(tmp_path / "o.db", epsilon=1, delta=1e-5, relation="add-remove").close()
    for words, code in (
        ("--epsilon 0", 2),
        ("--method sps-g", 2),
        ("--resize 9", 2),
        (f"--ledger {tmp_path / 'o.db'}", 3),
    ):
        assert synthesize(f"--force {words}").code == code
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before

    (out / "notes.txt").write_text("precious")
    forced = synthesize("--force --count 20")
    assert forced.code == 0
    assert "stays spent" in forced.err
    assert (out / "notes.txt").read_text() == "precious"
    [record] = Ledger.open(out / "ledger.1.db").records()
    assert record.spent == (1,)
    assert names(out / "synthetic") == {"part-00000.parquet"}
    for step in (out / "steps" / "generator.safetensors", out / "releases" / "release.safetensors"):
        assert step.read_bytes() != before[step]


def test_other_commands_runs_and_files_are_left_alone(synthesize, train, tmp_path):
    assert train(out="model").code == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"theirs": 1}')
    (tmp_path / "file").write_text("precious")
    for out in ("model", "mine", "file"):
        assert synthesize("--force", out=out).code == 2
        assert synthesize("--resume", out=out).code == 2
    assert names(tmp_path / "mine") == {"config.json"}


def test_a_folder_in_use_is_refused(synthesize, tmp_path):
    assert synthesize().code == 0
    with RunFolder(tmp_path / "run").claimed():
        for words in ("--force", "--resume", "--resume --count 100"):
            result = synthesize(words)
            assert result.code == 2
            assert "is in use by a running process" in result.err


def test_an_encoder_that_diverges_costs_nothing(synthesize, tmp_path, monkeypatch):
    def diverged(*_, **__):
        raise ConfigError("the warm-up loss is nan; lower the learning rate from 9.")

    owner = tmp_path / "owner.db"
    Ledger.create(owner, epsilon=2, delta=1e-5, relation="add-remove").close()
    with monkeypatch.context() as patch:
        patch.setattr(encoders, "warm_up", diverged)
        words = f"--ledger {owner} --public 0.1 --method {SYSTEMS['sps-g']}"
        result = synthesize(f"{words} --encoder conv:epochs=1")
    assert (result.code, "the warm-up loss is nan" in result.err) == (2, True)
    assert Ledger.open(owner).records() == ()
    assert synthesize(f"{words} --encoder conv:epochs=1 --force").code == 0


class TestReleasesOfAnotherRun:
    """A release is read in the coordinates that it was made in, or not at all."""

    @pytest.fixture
    def method(self, encoder, tmp_path):
        shutil.copy(encoder, tmp_path / "encoder.safetensors")
        return f"--encoder {tmp_path / 'encoder.safetensors'} --method"

    def grown(self, synthesize, words):
        result = synthesize(f"--resume --count 90 {words}")
        assert "another encoder or projection" in result.err
        return result.code

    def test_another_encoder_in_the_same_place(self, synthesize, tmp_path, method):
        words = f"{method} {SYSTEMS['dp-mepf']}"
        assert synthesize(words).code == 0
        torch.manual_seed(1)
        save_file(ConvEncoder(1).state_dict(), tmp_path / "encoder.safetensors")
        assert self.grown(synthesize, words) == 4
        assert len(load(tmp_path / "run" / "synthetic")) == 60

    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            (SYSTEMS["sps"], f"{SYSTEMS['sps']},seed=1"),
            (SYSTEMS["sps"], f"{SYSTEMS['sps']},class_layers=2"),
            (SYSTEMS["dp-merf"], f"{SYSTEMS['dp-merf']},length_scale=1"),
        ],
    )
    def test_another_projection(self, synthesize, tmp_path, method, ours, theirs):
        assert synthesize(f"{method} {ours}").code == 0
        assert synthesize(f"{method} {theirs}", out="other").code == 0
        for file in (tmp_path / "other" / "releases").iterdir():
            shutil.copy(file, tmp_path / "run" / "releases" / file.name)
        assert self.grown(synthesize, f"{method} {ours}") == 4

    def test_another_centre(self, synthesize, tmp_path, method):
        """A later stage is centred on an earlier one's images, which must be the same ones."""
        words = f"{method} {SYSTEMS['sps-plus']}"
        assert synthesize(words).code == 0
        for step in (tmp_path / "run" / "steps").glob("stage-0-*"):
            save_file({"images": load_file(step)["images"].flip(1, 2, 3)}, step)
        assert self.grown(synthesize, words) == 4

    def test_one_release_too_many(self, synthesize, tmp_path, method):
        """What this run's ledger did not pay for, its certificate would not cover."""
        words = f"{method} {SYSTEMS['dp-mepf']}"
        assert synthesize(words).code == 0
        release = tmp_path / "run" / "releases" / "release.safetensors"
        shutil.copy(release, release.with_stem("more"))
        refused = synthesize(f"--resume --count 90 {words}")
        assert (refused.code, "holds 2 releases and the run paid for 1" in refused.err) == (3, True)

    @pytest.mark.parametrize(
        ("file", "remedy"),
        [("releases/release", "put back a copy"), ("steps/generator", "it is made again")],
    )
    def test_damage(self, synthesize, tmp_path, file, remedy):
        assert synthesize().code == 0
        path = tmp_path / "run" / f"{file}.safetensors"
        path.write_bytes(path.read_bytes()[:50])
        refused = synthesize("--resume --count 90")
        assert (refused.code, remedy in refused.err) == (4, True)


def refusing(code):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    return refuse


class TestTroubleWithTheDisk:
    @pytest.fixture
    def unwritable(self, monkeypatch):
        """A disk that says no to one file of a run."""
        real = RunFolder.write_with

        def arrange(file, code):
            def write_with(folder, name, write):
                real(folder, name, refusing(code) if name.startswith(file) else write)

            monkeypatch.setattr(RunFolder, "write_with", write_with)
            return monkeypatch

        return arrange

    @pytest.mark.parametrize(
        ("file", "code", "sentence"),
        [
            ("run.json", errno.ENOSPC, "run.json does not fit on its disk; free some space"),
            ("steps/", errno.EACCES, "generator.safetensors may not be written; change the"),
            ("certificate", errno.ENOSPC, "certificate.json does not fit on its disk"),
            ("samples", errno.EIO, "samples.png cannot be written (Input/output error)"),
        ],
    )
    def test_a_run_goes_on_when_there_is_room(
        self, synthesize, tmp_path, unwritable, file, code, sentence
    ):
        patch = unwritable(file, code)
        result = synthesize()
        assert (result.code, sentence in result.err) == (2, True)
        assert not list((tmp_path / "run").rglob("*.part"))
        patch.undo()
        assert synthesize("--force" if file == "run.json" else "--resume").code == 0
        [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
        assert record.spent == (1,)

    def test_a_release_that_could_not_be_written_is_not_paid_for(
        self, synthesize, tmp_path, monkeypatch
    ):
        def full(*_):
            raise ConfigError("The release does not fit on its disk.")

        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "rehearse", full)
            assert synthesize().code == 2
        [record] = Ledger.open(tmp_path / "run" / "ledger.db").records()
        assert record.spent == (0,)
        assert synthesize("--resume").code == 0

    def test_a_rehearsal_is_like_the_real_thing(self, tmp_path, monkeypatch):
        folder = RunFolder(tmp_path)
        folder.rehearse("releases/a", b"content")
        assert names(tmp_path / "releases") == set()
        monkeypatch.setattr(os, "fsync", refusing(errno.ENOSPC))
        with pytest.raises(ConfigError, match="a does not fit on its disk"):
            folder.rehearse("releases/a", b"content")
        assert names(tmp_path / "releases") == set()

    def test_a_full_disk_between_shards(self, synthesize, tmp_path, monkeypatch):
        whole = shards._write_whole

        def full(path, content):
            if path.name == "part-00001.parquet":
                monkeypatch.setattr(os, "fsync", refusing(errno.ENOSPC))
            whole(path, content)

        monkeypatch.setattr(shards, "_write_whole", full)
        result = synthesize()
        assert result.code == 2
        assert "part-00001.parquet does not fit on its disk; free some space" in result.err
        assert names(tmp_path / "run" / "synthetic") == {"part-00000.parquet"}
        monkeypatch.undo()
        assert synthesize("--resume").code == 0
        assert len(load(tmp_path / "run" / "synthetic")) == 60

    def test_no_room_for_the_images(self, synthesize, tmp_path, monkeypatch):
        free = shutil._ntuple_diskusage(9, 0, 9)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
        result = synthesize()
        assert (result.code, "its disk has 9 left" in result.err) == (2, True)
        assert names(tmp_path) == set()

    def test_a_place_that_may_not_be_written(self, synthesize, tmp_path, monkeypatch):
        monkeypatch.setattr(Path, "mkdir", refusing(errno.EACCES))
        result = synthesize()
        assert (result.code, "cannot be made (Permission denied)" in result.err) == (2, True)
