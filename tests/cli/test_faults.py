"""Full and read-only disks, no memory, clocks that jump, others at work, machines that shut down.

Each is one sentence and an exit code, what was paid for is counted, and the command goes on.
"""

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime as real_datetime
from pathlib import Path

import numpy as np
import pytest

import privet
from privet.cli.stopping import ctrl_c_comes_again
from privet.hedge import Hedge, Steps
from privet.learn import training
from privet.privacy import Ledger
from privet.privacy import ledger as ledgers
from privet.runs import train_run
from privet.runs.run_folder import RunFolder
from tests.cli.runs import ROOT, SYSTEMS, Killed, names, read

SOURCES = Path(privet.__file__).parent
TRAIN = (
    "train {data} --method dp-sgd --epsilon 2 --delta 1e-5 --model linear --views plain "
    "--sample-rate 0.25 --epochs 2 --test 12 --engine batched --declared-size 60"
)
SYNTHESIZE = (
    f"synthesize {{data}} --method {SYSTEMS['dp-merf']} --epsilon 2 --delta 1e-5 --count 30 "
    "--declared-size 60"
)
COMMANDS = pytest.mark.parametrize("command", [TRAIN, SYNTHESIZE], ids=["train", "synthesize"])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A few small images."""
    path, labels = tmp_path_factory.mktemp("data") / "data.npz", np.arange(60) % 3
    images = np.random.default_rng(0).integers(0, 255, (60, 8, 8, 1), np.uint8)
    np.savez(path, images=images, labels=labels, class_names=np.array(["a", "b", "c"]))
    return path


@pytest.fixture
def owner(tmp_path):
    """An owner's ledger with room for several runs."""
    Ledger.create(tmp_path / "owner.db", epsilon=20, delta=1e-5, relation="add-remove").close()
    return tmp_path / "owner.db"


@pytest.fixture
def disk(tmp_path):
    """A file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("needs the right to mount a small file system: run as root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk, left):
    """All but so many bytes."""
    with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    os.truncate(disk / "filler", max(0, (disk / "filler").stat().st_size - left))


def make_read_only(disk):
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def sentence(result):
    """The last line, if it is one that a person can do something with."""
    assert result.code not in (0, None)
    assert "Traceback" not in result.err
    assert "Unexpected" not in result.err
    assert result.err.count("privet: ") == 1
    return result.err.splitlines()[-1]


def spent(path):
    ledger = Ledger.open(path)
    found = [sum(each.spent) for each in ledger.records()]
    ledger.close()
    return found


def go_on(privet, command, out):
    """As the folder of the run would have it."""
    began = RunFolder(out, command.split()[0]).holds_run and (out / "run.json").exists()
    words = f"{command.split()[0]} --out {out} --resume" if began else f"{command} --out {out}"
    forced = " --force" if not began and (out / "config.json").exists() else ""
    return privet(words + forced)


class TestFullDisk:
    @COMMANDS
    @pytest.mark.parametrize("left", [0, 4096, 16384])
    def test_a_run_goes_on_when_there_is_room(
        self, privet, disk, data, owner, command, left, one_thread, monkeypatch
    ):
        """Others fill it while the run goes on, whatever it was told before."""
        free = shutil._ntuple_diskusage(10**9, 0, 10**9)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
        command, out = f"{command.format(data=data)} --ledger {owner}", disk / "run"
        fill(disk, left)
        refused = privet(f"{command} --out {out}")
        assert "disk" in sentence(refused)
        before = spent(owner)
        assert len(before) <= 1
        (disk / "filler").unlink()
        assert go_on(privet, command, out).code == 0
        assert not list(out.rglob("*.part"))
        [after] = spent(owner)
        assert after >= sum(before)

    def test_a_ledger_is_made_or_not(self, privet, disk):
        fill(disk, 8192)
        words = f"ledger create {disk / 'l.db'} --epsilon 1 --delta 1e-5"
        refused = privet(words)
        assert (refused.code, "cannot be created" in sentence(refused)) == (3, True)
        assert names(disk) == {"filler"}
        (disk / "filler").unlink()
        assert privet(words).code == 0

    def test_a_ledger_without_room_pays_for_nothing(self, privet, disk, tmp_path, data, one_thread):
        owner, out = disk / "owner.db", tmp_path / "run"
        Ledger.create(owner, epsilon=20, delta=1e-5, relation="add-remove").close()
        fill(disk, 0)
        command = f"{TRAIN.format(data=data)} --ledger {owner}"
        refused = privet(f"{command} --out {out}")
        assert (refused.code, "owner.db cannot be used" in sentence(refused)) == (3, True)
        (disk / "filler").unlink()
        assert spent(owner) == []
        assert go_on(privet, command, out).code == 0
        assert spent(owner) == [8]

    @pytest.mark.parametrize("words", ["export {run} --to png --out", "report {run} --out"])
    def test_what_is_made_of_a_run(self, privet, disk, tmp_path, data, words, one_thread):
        run = tmp_path / "run"
        assert privet(f"{SYNTHESIZE.format(data=data)} --out {run}").code == 0
        fill(disk, 4096)
        words = f"{words.format(run=run)} {disk / 'made.html'}"
        assert "disk" in sentence(privet(words))
        assert names(disk) == {"filler"}
        (disk / "filler").unlink()
        assert privet(words).code == 0


class TestReadOnlyDisk:
    def test_nothing_begins_there(self, privet, disk, data, owner, one_thread):
        make_read_only(disk)
        refused = privet(f"{TRAIN.format(data=data)} --ledger {owner} --out {disk / 'run'}")
        assert "cannot be made (Read-only file system)" in sentence(refused)
        assert "may not be written" in sentence(
            privet(f"data inspect {data} --contact-sheet {disk / 'sheet.png'}")
        )
        refused = privet(f"ledger create {disk / 'l.db'} --epsilon 1 --delta 1e-5")
        assert "cannot be created" in sentence(refused)
        assert spent(owner) == []

    def test_a_ledger_pays_for_nothing(self, privet, disk, data, tmp_path, one_thread):
        Ledger.create(disk / "owner.db", epsilon=9, delta=1e-5, relation="add-remove").close()
        make_read_only(disk)
        words = f"{TRAIN.format(data=data)} --ledger {disk / 'owner.db'}"
        refused = privet(f"{words} --out {tmp_path / 'run'}")
        assert (refused.code, "owner.db cannot be used" in sentence(refused)) == (3, True)
        assert not (tmp_path / "run").exists()

    def test_a_run_that_is_done_can_be_looked_at(self, privet, disk, data, tmp_path, one_thread):
        run = disk / "run"
        assert privet(f"{TRAIN.format(data=data)} --out {run}").code == 0
        make_read_only(disk)
        found = privet(f"evaluate {run}")
        assert (found.code, "shown and not kept" in found.err) == (0, True)
        assert privet(f"export {run} --to safetensors --out {tmp_path / 'model'}").code == 0
        assert "may not be written" in sentence(privet(f"report {run}"))
        assert privet(f"report {run} --out {tmp_path / 'page.html'}").code == 0


NO_MEMORY = [
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"),
]


class TestNoMemory:
    @pytest.fixture
    def fails(self, monkeypatch):
        """A function that lacks memory the n-th time, before or after its work."""

        def arrange(owner, name, number, error, *, after):
            function, calls = getattr(owner, name), []

            def failing(*words, **settings):
                calls.append(name)
                found = function(*words, **settings) if after or len(calls) != number else None
                if len(calls) == number:
                    raise error
                return found

            monkeypatch.setattr(owner, name, failing)
            return monkeypatch

        return arrange

    @pytest.mark.parametrize("error", NO_MEMORY, ids=["Python", "CPU", "GPU"])
    def test_a_step_that_was_paid_for_is_counted(
        self, privet, tmp_path, data, owner, fails, error, one_thread
    ):
        out = tmp_path / "run"
        patch = fails(Steps, "step", 4, error, after=True)
        failed = privet(f"{TRAIN.format(data=data)} --ledger {owner} --out {out}")
        assert "Out of memory, and what was paid for is counted" in sentence(failed)
        assert (failed.code, spent(owner)) == (1, [4])
        patch.undo()
        done = json.loads(privet(f"train --out {out} --resume --json").out)
        assert done["steps"] == {"planned": 8, "done": 7, "paid_and_lost": 1}
        assert spent(owner) == [8]

    def test_a_step_that_was_not_paid_for_is_not(
        self, privet, tmp_path, data, owner, fails, one_thread
    ):
        out = tmp_path / "run"
        patch = fails(training, "_one_step", 4, MemoryError(), after=False)
        failed = privet(f"{TRAIN.format(data=data)} --ledger {owner} --out {out}")
        assert "Out of memory" in sentence(failed)
        patch.undo()
        done = json.loads(privet(f"train --out {out} --resume --json").out)
        assert done["steps"] == {"planned": 8, "done": 8, "paid_and_lost": 0}

    @pytest.mark.parametrize("after", [True, False])
    def test_a_release(self, privet, tmp_path, data, owner, fails, after, one_thread):
        """What was paid for and is lost is not paid for twice in silence."""
        out = tmp_path / "run"
        patch = fails(Hedge, "release", 1, MemoryError(), after=after)
        failed = privet(f"{SYNTHESIZE.format(data=data)} --ledger {owner} --out {out}")
        assert "Out of memory" in sentence(failed)
        assert spent(owner) == [int(after)]
        patch.undo()
        again = privet(f"synthesize --out {out} --resume")
        assert again.code == (3 if after else 0)
        assert "start again with --force" in again.err or not after
        assert spent(owner) == [1]


class Clock(real_datetime):
    """One that somebody set."""

    year_now = 1980

    @classmethod
    def now(cls, tz=None):
        return real_datetime(cls.year_now, 1, 1, tzinfo=tz)


class TestClock:
    @pytest.fixture
    def jump(self, monkeypatch):
        def to(year):
            monkeypatch.setattr(Clock, "year_now", year)
            monkeypatch.setattr(ledgers, "datetime", Clock)
            seconds = (real_datetime(year, 1, 1) - real_datetime(1970, 1, 1)).total_seconds()
            monkeypatch.setattr(time, "time", lambda: seconds)

        return to

    @pytest.mark.parametrize("years", [(2030, 1970), (1980, 9999)])
    def test_a_run_goes_on_in_another_time(
        self, privet, tmp_path, data, owner, killed_at, jump, years, one_thread
    ):
        jump(years[0])
        patch = killed_at(train_run, "_recorder")
        words = f"{TRAIN.format(data=data)} --ledger {owner} --out {tmp_path / 'run'}"
        with pytest.raises(Killed):
            privet(words)
        patch.undo()
        jump(years[1])
        other = privet(f"{words}-2")
        assert other.code == 0
        assert privet(f"train --out {tmp_path / 'run'} --resume").code == 0
        assert spent(owner) == [8, 8]
        first, second = (each.label.split()[1] for each in Ledger.open(owner).records())
        assert (first, second) == ("run", "run-2")

    def test_no_other_code_asks_for_the_time_of_day(self):
        """Locks are those of the system, and waiting is measured by a clock that nobody sets."""
        asked = {
            str(path.relative_to(SOURCES)): found
            for path in SOURCES.rglob("*.py")
            if (found := set(_times_of_day(ast.parse(path.read_text()))))
        }
        assert asked == {"privacy/ledger.py": {"now"}, "runs/event_file.py": {"time"}}


def _times_of_day(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            named = (node.value.id, node.attr)
            if named in {("time", "time"), ("time", "time_ns"), ("time", "localtime")}:
                yield node.attr
            if named[0] in ("datetime", "date") and node.attr in ("now", "today", "utcnow"):
                yield node.attr


def test_runs_at_once_and_machines_that_shut_down(tmp_path, data):
    """One folder: one begins. One ledger: both count, or one is refused. SIGTERM: a sentence."""
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.cli.at_once",
            str(tmp_path),
            *TRAIN.format(data=data).split(),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
    )
    found = json.loads(result.stderr.splitlines()[-1])
    assert sorted(found["one folder"]["codes"]) == [0, 2], result.stderr
    assert found["one folder"]["spent"] == [8]
    assert found["room for both"] == {"codes": [0, 0], "spent": [8, 8]}
    assert sorted(found["room for one"]["codes"]) == [0, 3]
    assert found["room for one"]["spent"] == [8]
    stopped = found["SIGTERM"]
    assert stopped["code"] == 130
    assert f"go on with privet train --out {tmp_path / 'stopped'} --resume" in stopped["said"]
    assert "Traceback" not in stopped["said"]
    assert stopped["then"] == 0
    assert read(tmp_path / "stopped" / "result.json")["steps"]["paid_and_lost"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_every_command_that_is_stopped_says_so(privet, monkeypatch, number):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ledgers.Ledger, "open", lambda _: signal.raise_signal(number))
    stopped = privet("ledger show x.db")
    assert stopped.code == 130
    assert stopped.err == "privet: Stopped: nothing is half done, run it again when you like.\n"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("setting", ["ignored", "among others"])
def test_sigterm_that_is_not_ours(privet, monkeypatch, setting):
    """A process that nobody may end, and one that torchrun ends, stay as they are."""
    before = signal.getsignal(signal.SIGTERM)
    if setting == "ignored":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        monkeypatch.setenv("RANK", "0")
    heard = []
    monkeypatch.setattr(
        ledgers.Ledger, "open", lambda _: heard.append(signal.getsignal(signal.SIGTERM))
    )
    try:
        privet("ledger show x.db")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIG_IGN if setting == "ignored" else signal.SIG_DFL]


class TestWhatKillsLeave:
    def test_a_folder_with_half_a_configuration_is_free(self, privet, tmp_path, data, one_thread):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "config.json.part").write_text("{")
        assert privet(f"{TRAIN.format(data=data)} --out {tmp_path / 'run'}").code == 0
        assert not list((tmp_path / "run").rglob("*.part"))

    def test_drafts_go_and_other_files_stay(self, tmp_path):
        folder = RunFolder(tmp_path)
        ours = ["run.json.part", "steps/unfinished-generator.safetensors.part"]
        theirs = ["film.part", "steps/notes.part"]
        (tmp_path / "steps").mkdir()
        for name in (*ours, *theirs):
            (tmp_path / name).touch()
        with folder.claimed():
            assert not any((tmp_path / name).exists() for name in ours)
        assert all((tmp_path / name).exists() for name in theirs)

    def test_a_ledger_that_was_half_made(self, tmp_path):
        (tmp_path / ".l.db.part").mkdir()
        (tmp_path / ".l.db.part" / "ledger.db").write_bytes(b"half")
        Ledger.create(tmp_path / "l.db", epsilon=1, delta=1e-5, relation="add-remove").close()
        assert names(tmp_path) == {"l.db"}


class Cleared:
    """Something whose end someone interrupts, where Python prints an exception and goes on."""

    def __init__(self, error):
        self.error = error

    def __del__(self):
        raise self.error


def test_a_ctrl_c_that_would_be_lost_comes_again(capfd):
    @ctrl_c_comes_again()
    def interrupted():
        for _ in range(2):
            Cleared(KeyboardInterrupt())
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capfd.readouterr().err == ""


def test_it_does_not_come_after_the_end():
    with ctrl_c_comes_again():
        Cleared(KeyboardInterrupt())
    time.sleep(0.1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_exceptions_are_printed_as_ever(monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    with ctrl_c_comes_again():
        Cleared(ValueError())
    assert [each.exc_type for each in heard] == [ValueError]
