"""What was made of rows, with privacy or without, is followed to them in later runs."""

import numpy as np
import pytest

from privet.data import load
from privet.privacy import Ledger
from privet.runs.made_of import made_of
from tests.cli.runs import SYSTEMS, read

EDM = "--method edm:iterations=2,batch_size=8,widths=8-8,steps=2,at_once=20 --count 60"
TERMS = "--epsilon 2 --delta 1e-5 --count 60"
MERF = f"--method {SYSTEMS['dp-merf']} {TERMS}"
SPS_G = f"--method {SYSTEMS['sps-g']} {TERMS}"
LEARNS = "--encoder conv:epochs=1"


@pytest.fixture
def made(privet, tmp_path, monkeypatch, one_thread):
    """Run `privet synthesize` on a third of the digits, in a folder with all three."""
    monkeypatch.chdir(tmp_path)
    digits = load("digits")
    for number, name in enumerate(["east", "west", "free"]):
        rows = slice(300 * number, 300 * number + 300)
        np.savez(f"{name}.npz", images=digits.images[rows], labels=digits.labels[rows])
    Ledger.create(tmp_path / "owner.db", epsilon=99, delta=1e-5, relation="add-remove").close()

    def run(source, out, words):
        return privet(f"synthesize {source} --out {out} {words}")

    return run


def encoder(run):
    return f"--encoder {run}/steps/encoder.safetensors"


def test_trap_an_encoder_that_a_release_taught_says_so(made):
    assert made("east.npz", "release", MERF).code == 0
    assert made("west.npz", "teacher", f"{SPS_G} {LEARNS} --public release/synthetic").code == 0
    done = made("east.npz", "student", f"{SPS_G} {encoder('teacher')} --public free.npz")
    assert done.code == 0, done.err
    assert "rows that taught the encoder are a private release themselves" in done.err
    public = read("student/certificate.json")["public"]
    assert any("taught the encoder that are a private release" in each for each in public)


def test_trap_a_share_that_taught_an_encoder_is_protected_in_no_other_way(made):
    ledger = "--ledger owner.db"
    assert made("east.npz", "teacher", f"{SPS_G} {LEARNS} --public 0.3").code == 0
    assert made("east.npz", "whole", f"{MERF} {ledger}").code == 0
    student = f"{SPS_G} {encoder('teacher')} --public free.npz {ledger}"
    done = made("west.npz", "student", student)
    assert (done.code, "are protected in one of both" in done.err) == (3, True), done.err


def test_a_share_that_taught_an_encoder_serves_the_ledger_of_its_own_run(made, tmp_path):
    ledger = "--ledger owner.db"
    assert made("east.npz", "teacher", f"{SPS_G} {LEARNS} --public 0.3 {ledger}").code == 0
    student = f"{SPS_G} {encoder('teacher')} --public free.npz {ledger}"
    done = made("west.npz", "student", student)
    assert done.code == 0, done.err
    *_, record = Ledger.open("owner.db").records()
    assert [place for place, _ in record.split.shares] == [str(tmp_path / "east.npz")]
    done = made("east.npz", "whole", f"{MERF} {ledger}")
    assert done.code == 3


@pytest.fixture
def copies(made):
    """Images that a diffusion model made of the east, without privacy."""
    assert made("east.npz", "copies", EDM).code == 0
    return "copies/synthetic"


def test_trap_what_diffusion_made_of_rows_is_public_in_no_run_that_protects_them(made, copies):
    ledger = "--ledger owner.db"
    assert made("west.npz", "user", f"{SPS_G} {LEARNS} --public {copies} {ledger}").code == 0
    done = made("east.npz", "owner", f"{MERF} {ledger}")
    assert (done.code, "are protected in one of both" in done.err) == (3, True), done.err


def test_trap_an_encoder_that_copies_of_rows_taught_is_refused_for_them(made, copies):
    assert made("west.npz", "teacher", f"{SPS_G} {LEARNS} --public {copies}").code == 0
    done = made("east.npz", "student", f"{SPS_G} {encoder('teacher')} --public free.npz")
    assert (done.code, "learned from rows of the private" in done.err) == (3, True), done.err


@pytest.mark.parametrize(("form", "out"), [("npz", "shared.npz"), ("parquet", "shared")])
def test_trap_an_exported_set_of_copies_is_taken_on_somebodys_word(privet, made, copies, form, out):
    assert privet(f"export copies --to {form} --out {out}").code == 0
    assert not made_of(out).known
    done = made("west.npz", "run", f"{SPS_G} {LEARNS} --public {out}")
    assert done.code == 0, done.err
    assert "The public rows were made of others without privacy" in done.err
    assert any("not known here" in each for each in read("run/certificate.json")["public"])
    done = made("west.npz", "student", f"{SPS_G} {encoder('run')} --public free.npz")
    assert "The rows that taught the encoder were made of others" in done.err


def test_copies_of_copies_are_followed_to_the_first(made, copies, tmp_path):
    assert made(copies, "again", EDM).code == 0
    found = made_of("again/synthetic")
    assert found.known
    assert found.places == (str(tmp_path / copies), str(tmp_path / "east.npz"))
    assert made_of("east.npz") == ((), True)
