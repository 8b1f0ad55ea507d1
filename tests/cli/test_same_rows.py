"""All runs of one ledger, and all sittings of one run, mean the same private rows."""

import shutil

import numpy as np
import pytest
from safetensors import safe_open

from privet.data import load
from privet.privacy import Ledger
from privet.runs import tuning
from tests.cli.runs import QUICK, QUICK_SYNTHESIS, SYSTEMS


@pytest.fixture
def scans(tmp_path):
    """Write some digits into one file, from a number on."""
    digits, path = load("digits"), tmp_path / "scans.npz"

    def write(first=1):
        who = np.arange(600 - first) // 3
        rows = slice(first, 600)
        np.savez(
            path, images=digits.images[rows], labels=digits.labels[rows], who=who, site=who // 9
        )
        return path

    write()
    return write


@pytest.fixture
def owner(tmp_path):
    path = tmp_path / "owner.db"

    def made(unit="example"):
        Ledger.create(path, epsilon=9, delta=1e-5, relation="add-remove", unit=unit).close()
        return f"--ledger {path}"

    return made


def synthesis(data):
    return QUICK_SYNTHESIS.replace("digits", str(data)) + " --public 0.2"


def test_trap_a_row_more_makes_other_rows_public(privet, scans, owner, tmp_path):
    ledger = owner()
    assert privet(f"{synthesis(scans())} {ledger} --out {tmp_path / 'a'}").code == 0
    done = privet(f"{synthesis(scans(0))} {ledger} --out {tmp_path / 'b'}")
    assert done.code == 3
    assert "set other rows of the same data aside" in done.err
    assert not (tmp_path / "b").exists()
    assert privet(f"{synthesis(scans())} {ledger} --out {tmp_path / 'b'}").code == 0


def test_trap_a_run_goes_on_with_the_rows_that_it_began_with(privet, scans, tmp_path):
    words = f"{QUICK.replace('digits', str(scans()))} --out {tmp_path / 'run'}"
    assert privet(words).code == 0
    (tmp_path / "run" / "result.json").unlink()
    (tmp_path / "run" / "certificate.json").unlink()
    scans(0)
    done = privet(f"train --out {tmp_path / 'run'} --resume")
    assert done.code == 3
    assert "The rows that are set aside are not those of the run" in done.err


def test_trap_a_finished_run_is_measured_on_the_rows_that_it_set_aside(privet, scans, tmp_path):
    words = f"{QUICK.replace('digits', str(scans()))} --out {tmp_path / 'run'}"
    assert privet(words).code == 0
    scans(0)
    done = privet(f"evaluate {tmp_path / 'run'}")
    assert done.code == 3
    assert "The rows that are set aside are not those of the run" in done.err
    scans()
    assert privet(f"evaluate {tmp_path / 'run'}").code == 0


def test_trap_a_tuning_goes_on_with_the_rows_that_it_began_with(
    privet, scans, tmp_path, monkeypatch
):
    words = f"{QUICK.replace('train digits', f'tune {scans()}')} --declared-size 500 --trials 2 "
    words += f"--try learning_rate=0.3,1 --out {tmp_path / 'run'}"
    with monkeypatch.context() as patch:

        def stopped(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(tuning, "_score", stopped)
        assert privet(words).code != 0
    scans(0)
    done = privet(f"tune --out {tmp_path / 'run'} --resume")
    assert done.code == 3
    assert "The rows that are set aside are not those of the run" in done.err


def test_trap_users_of_another_column_are_other_units(privet, scans, owner, tmp_path):
    words = f"{QUICK_SYNTHESIS.replace('digits', str(scans()))} {owner('user')}"
    assert privet(f"{words} --user who --out {tmp_path / 'a'}").code == 0
    done = privet(f"{words} --user site --out {tmp_path / 'b'}")
    assert done.code == 3
    assert "protected the users of who of the same data, and this run the users of site" in done.err


def test_trap_another_target_sets_other_rows_aside(privet, owner, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "guests.csv"
    rows = [f"{each},{rng.choice(['yes', 'no'])},{rng.integers(5)}" for each in range(400)]
    path.write_text("\n".join(["age,smokes,stays", *rows]))
    words = f"synthesize {path} --method dp-merf:size=20,iterations=2 --epsilon 1 --delta 1e-5 "
    words += f"--public 0.2 --count 9 {owner()}"
    assert privet(f"{words} --target smokes --out {tmp_path / 'a'}").code == 0
    done = privet(f"{words} --target stays --out {tmp_path / 'b'}")
    assert done.code == 3
    assert "set other rows of the same data aside" in done.err


def test_trap_rows_do_not_change_roles(privet, scans, owner, tmp_path):
    ledger, other = owner(), tmp_path / "others.npz"
    other.write_bytes(scans(300).read_bytes())
    scans()
    words = [
        QUICK_SYNTHESIS.replace("digits", str(private)) + f" --public {public} {ledger}"
        for private, public in ((tmp_path / "scans.npz", other), (other, tmp_path / "scans.npz"))
    ]
    assert privet(f"{words[0]} --out {tmp_path / 'a'}").code == 0
    done = privet(f"{words[1]} --dry-run")
    assert done.code == 3
    assert "are protected in one of both" in done.err


THROUGH_ENCODER = f"synthesize {{}} --method {SYSTEMS['sps-g']} --epsilon 2 --delta 1e-5 --count 60"
TAUGHT = "learned from rows of the private data"


@pytest.fixture
def taught(privet, scans, tmp_path):
    """Teach an encoder by a fifth of the scans, and name its file."""

    def run(out, words):
        return privet(f"{THROUGH_ENCODER.format(scans())} --out {tmp_path / out} {words}")

    done = run("teacher", "--public 0.2 --encoder conv:epochs=1")
    assert done.code == 0, done.err
    return tmp_path / "teacher" / "steps" / "encoder.safetensors", run


@pytest.mark.parametrize("public", ["0.1", "0.2 --seed 1", "0.2 --test 0.1", "digits"])
def test_trap_rows_that_taught_a_saved_encoder_are_protected_elsewhere(taught, tmp_path, public):
    file, run = taught
    place = shutil.copy(file, tmp_path / "copy.safetensors")
    done = run("student", f"--public {public} --encoder {place}")
    assert (done.code, TAUGHT in done.err) == (3, True), done.err
    assert not (tmp_path / "student").exists()


def test_a_saved_encoder_serves_runs_that_protect_the_same_rows(taught):
    file, run = taught
    assert run("student", f"--public 0.2 --encoder {file}").code == 0


def test_a_saved_encoder_serves_other_data(privet, taught, tmp_path):
    file, _ = taught
    words = f"--public 0.2 --encoder {file} --out {tmp_path / 'other'}"
    done = privet(f"{THROUGH_ENCODER.format('digits')} {words}")
    assert done.code == 0, done.err


def test_an_encoder_that_no_public_rows_taught_serves_everyone(taught, tmp_path):
    _, run = taught
    assert run("fractals", "--public 0.2 --encoder procedural:images=9,epochs=1").code == 0
    file = tmp_path / "fractals" / "steps" / "encoder.safetensors"
    done = run("student", f"--public 0.1 --encoder {file}")
    assert done.code == 0, done.err


def test_trap_a_cached_encoder_does_not_say_what_taught_it(taught, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVET_CACHE", str(tmp_path / "cache"))
    _, run = taught
    assert run("fills", "--public 0.3 --encoder conv:epochs=1").code == 0
    [file] = (tmp_path / "cache").iterdir()
    done = run("student", f"--public 0.1 --encoder {file}")
    assert (done.code, "is of the cache" in done.err) == (3, True), done.err


def test_trap_a_ledger_hears_of_rows_that_taught_a_saved_encoder(privet, hospitals, tmp_path):
    """A teacher's public rows are in what a student leaves, so no other run may protect them."""
    east, west, free, ledger = hospitals
    words = f"{THROUGH_ENCODER} --public {{}} --out {tmp_path}/{{}}"
    teacher = words.format(free, west, "teacher")
    assert privet(f"{teacher} --encoder conv:epochs=1").code == 0
    file = tmp_path / "teacher" / "steps" / "encoder.safetensors"
    student = words.format(east, free, "student")
    assert privet(f"{student} --encoder {file} {ledger}").code == 0
    [record] = Ledger.open(ledger.split()[1]).records()
    assert record.split.others == (str(free), str(west))
    refused = privet(
        f"{THROUGH_ENCODER.format(west)} --encoder untrained {ledger} --out {tmp_path}/x"
    )
    assert (refused.code, "not private in the other" in refused.err) == (3, True), refused.err


def test_only_what_public_rows_taught_says_so(taught, tmp_path):
    _, run = taught
    encoders = "conv:epochs=1+procedural:images=9,epochs=1"
    assert run("both", f"--public 0.2 --encoder {encoders}").code == 0
    steps = tmp_path / "both" / "steps"
    said = {}
    for path in steps.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            said[path.stem] = bool(file.metadata())
    assert said.pop("encoder-0")
    assert not any(said.values())


@pytest.fixture
def hospitals(tmp_path, owner):
    """Two sets of scans, and the ledger of both."""
    digits, places = load("digits"), []
    for number, name in enumerate(["east", "west", "free"]):
        rows = slice(500 * number, 500 * number + 500)
        np.savez(tmp_path / f"{name}.npz", images=digits.images[rows], labels=digits.labels[rows])
        places.append(tmp_path / f"{name}.npz")
    return *places, owner()


@pytest.mark.parametrize("start", [f"{QUICK} --test 0.1", f"{QUICK_SYNTHESIS} --public 0.2"])
def test_trap_rows_that_the_ledger_protects_are_not_measured_without_noise(
    privet, hospitals, tmp_path, start
):
    east, west, free, ledger = hospitals
    for place in (east, west):
        words = start.replace("digits", str(place)).replace("--epsilon 2", "--epsilon 1")
        done = privet(f"{words} {ledger} --out {tmp_path / place.stem}")
        assert done.code == 0, done.err
    refused = privet(f"evaluate {tmp_path / 'east'} --test {west}")
    assert (refused.code, "west" in refused.err, "protects" in refused.err) == (3, True, True)
    assert not (tmp_path / "east" / "evaluation.json").exists()
    assert privet(f"evaluate {tmp_path / 'east'} --test {free}").code == 0
    (tmp_path / "owner.db").rename(tmp_path / "moved.db")
    noted = privet(f"evaluate {tmp_path / 'east'} --test {free}")
    assert (noted.code, "owner.db is not here" in noted.err) == (0, True)


def test_trap_a_test_part_is_not_protected_by_another_run_of_the_same_ledger(
    privet, owner, tmp_path
):
    digits, folder, ledger = load("digits"), tmp_path / "scans", owner()
    folder.mkdir()
    for name, rows in {"train": slice(0, 400), "t10k": slice(400, 700)}.items():
        images, labels = digits.images[rows], digits.labels[rows]
        write_idx(folder / f"{name}-images-idx3-ubyte", np.asarray(images)[..., 0])
        write_idx(folder / f"{name}-labels-idx1-ubyte", labels.astype(np.uint8))
    words = QUICK.replace("--test 100", "").replace("--epsilon 2", "--epsilon 1")
    whole = words.replace("digits", str(folder))
    assert privet(f"{whole} --test {folder} {ledger} --out {tmp_path / 'a'}").code == 0
    assert privet(f"{whole} {ledger} --out {tmp_path / 'b'}").code == 0
    part = words.replace("digits", str(folder / "t10k-images-idx3-ubyte"))
    refused = privet(f"{part} {ledger} --out {tmp_path / 'c'}")
    assert (refused.code, "name the data as it did" in refused.err) == (3, True), refused.err


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(header + np.ascontiguousarray(array).tobytes())
