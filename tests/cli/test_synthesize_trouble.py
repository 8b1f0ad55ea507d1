"""Releases of another run, damaged files, full disks: nothing is lost that was paid for."""

import errno
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from privet.data import load, shards
from privet.errors import ConfigError
from privet.models import ConvEncoder
from privet.privacy import Ledger
from privet.runs.run_folder import RunFolder
from tests.cli.runs import SYSTEMS, names


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
        whole = shards.write_whole

        def full(path, content):
            if path.name == "part-00001.parquet":
                monkeypatch.setattr(os, "fsync", refusing(errno.ENOSPC))
            whole(path, content)

        monkeypatch.setattr(shards, "write_whole", full)
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
