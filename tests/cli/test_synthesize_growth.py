"""More images of a finished run, and PNG files: both for nothing."""

import json

import numpy as np
import pytest

from privet.data import load
from privet.privacy import Ledger
from tests.cli.runs import SYSTEMS, names, read


def records(out):
    return Ledger.open(out / "ledger.db").records()


def images(out):
    data = load(out / "synthetic")
    return np.asarray(data.images[:]), data.labels


class TestMoreImages:
    @pytest.mark.parametrize("method", ["dp-merf", "sps-plus"])
    def test_they_cost_nothing_and_are_those_of_a_larger_run(
        self, synthesize, privet, tmp_path, encoder, method
    ):
        words = f"--method {SYSTEMS[method]} --encoder {encoder} --noise-seed 3"
        out = tmp_path / "run"
        assert synthesize(f"{words} --count 30").code == 0
        before, release = records(out), (out / "releases").iterdir()
        contents = {path.name: path.read_bytes() for path in release}
        first, _ = images(out)
        more = privet(f"synthesize --out {out} --resume --count 90 --noise-seed 3 --json")
        assert more.code == 0, more.err
        assert json.loads(more.out)["images"] == read(out / "result.json")["images"] == 90
        assert records(out) == before
        assert all((out / "releases" / name).read_bytes() == b for name, b in contents.items())
        found, labels = images(out)
        assert len(found) == 90
        assert np.array_equal(found[:30], first)
        assert np.bincount(labels).tolist() == [9] * 10
        if method == "dp-merf":  # stages of SPS are centred on as many images as were asked for
            assert synthesize(f"{words} --count 90", out="whole").code == 0
            assert np.array_equal(images(tmp_path / "whole")[0], found)

    def test_no_private_image_is_read_for_them(self, synthesize, tmp_path, monkeypatch):
        from privet.hedge.units import Rows

        assert synthesize().code == 0

        def read_again(*_):
            raise AssertionError("private rows were read")

        monkeypatch.setattr(Rows, "batch", read_again)
        assert synthesize("--resume --count 100").code == 0
        assert len(images(tmp_path / "run")[0]) == 100

    def test_a_finished_run_stays_as_it_is(self, synthesize, privet, tmp_path):
        assert synthesize().code == 0
        out = tmp_path / "run"
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        again = privet(f"synthesize --out {out} --resume --json")
        assert again.code == 0
        assert "The run is done already." in again.err
        assert json.loads(again.out)["images"] == 60
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before

    def test_there_cannot_be_fewer(self, synthesize, tmp_path):
        assert synthesize().code == 0
        refused = synthesize("--resume --count 59")
        assert (refused.code, "ask for as many or more" in refused.err) == (2, True)
        assert len(images(tmp_path / "run")[0]) == 60


class TestPng:
    def test_folders_of_classes_that_grow_with_the_run(self, synthesize, privet, tmp_path):
        done = synthesize("--png")
        assert done.code == 0
        assert f"60 in {tmp_path / 'run' / 'synthetic'} and {tmp_path / 'run' / 'png'}" in done.out
        unpacked = load(tmp_path / "run" / "png")
        assert len(unpacked) == 60
        assert unpacked.class_names == tuple("0123456789")
        assert privet(f"synthesize --out {tmp_path / 'run'} --resume --count 90").code == 0
        assert len(load(tmp_path / "run" / "png")) == 90

    def test_they_may_be_asked_for_later(self, synthesize, privet, tmp_path):
        assert synthesize().code == 0
        before = records(tmp_path / "run")
        assert privet(f"synthesize --out {tmp_path / 'run'} --resume --png").code == 0
        assert len(load(tmp_path / "run" / "png")) == 60
        assert records(tmp_path / "run") == before

    def test_they_go_with_a_run_that_is_replaced(self, synthesize, tmp_path):
        assert synthesize("--png").code == 0
        assert synthesize("--force").code == 0
        assert "png" not in names(tmp_path / "run")
