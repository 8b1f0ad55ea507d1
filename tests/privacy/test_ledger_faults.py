"""A ledger that cannot be trusted or written is refused: nothing read, nothing lost."""

import os
import random
import resource
import shutil
import signal
import sqlite3
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from privet.errors import LedgerError, PrivetError
from privet.privacy import GaussianRelease, Ledger, Plan
from privet.privacy.store import _write

PLAN = Plan.of(GaussianRelease(noise_multiplier=5.0, releases=20))


def create(path):
    return Ledger.create(path, epsilon=50, delta=1e-5, relation="add-remove")


def in_child(work):
    """Run in a forked child and return whether it succeeded; failures print their traceback."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def reserve_until_refused(ledger, granted=None):
    granted = [] if granted is None else granted
    for _ in range(1000):
        granted.append(ledger.reserve(epsilon=0.1))


def test_missing_ledger():
    with pytest.raises(LedgerError, match="There is no ledger at"):
        Ledger.open("nowhere.db")


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_other_files_are_not_ledgers(tmp_path, content):
    path = tmp_path / "l.db"
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        Ledger.open(path)
    assert path.read_bytes() == content


def test_other_databases_are_not_ledgers(tmp_path):
    connection = sqlite3.connect(tmp_path / "l.db")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    with pytest.raises(LedgerError, match="is not a Privet ledger"):
        Ledger.open(tmp_path / "l.db")


def test_another_format_version(tmp_path):
    create(tmp_path / "l.db").close()
    connection = sqlite3.connect(tmp_path / "l.db")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(LedgerError, match="format version 2, this Privet reads 1"):
        Ledger.open(tmp_path / "l.db")


def test_a_record_of_the_future_is_refused(tmp_path):
    ledger = create(tmp_path / "l.db")
    reservation = ledger.reserve(plan=PLAN)
    body = {**reservation.record.to_json(), "plan": [{"kind": "quantum-release"}]}
    with ledger.books(write=True) as books:
        _write(books._connection, reservation.id, body)
    with pytest.raises(LedgerError, match="cannot read"):
        Ledger.open(ledger.path)


def test_an_edited_record_breaks_its_seal(tmp_path):
    ledger = create(tmp_path / "l.db")
    ledger.reserve(plan=PLAN)
    ledger.close()
    connection = sqlite3.connect(tmp_path / "l.db")
    connection.execute("UPDATE records SET body = replace(body, '50', '51')")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="is damaged"):
        Ledger.open(tmp_path / "l.db")


def test_a_schema_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger.create(path, epsilon=8, delta=1e-5, relation="add-remove").close()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE T\xffBLE"))
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger.open(path)


def test_flipped_bytes_are_noticed_or_harmless(tmp_path):
    ledger = create(tmp_path / "l.db")
    reservation = ledger.reserve(plan=PLAN)
    for _ in range(7):
        reservation.spend(PLAN.events[0])
    expected = ledger.records()
    ledger.close()
    good = ledger.path.read_bytes()
    rng, noticed = random.Random(0), 0
    for trial in range(300):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        path = tmp_path / f"bad{trial}.db"
        path.write_bytes(bad)
        try:
            opened = Ledger.open(path)
        except LedgerError:
            noticed += 1
            continue
        assert opened.records() == expected
        assert opened.budget.epsilon == 50
        opened.close()
    assert noticed > 10


@pytest.mark.parametrize("keep", [0.25, 0.5, 0.9])
def test_truncated_ledger(tmp_path, keep):
    ledger = create(tmp_path / "l.db")
    ledger.reserve(plan=PLAN)
    ledger.close()
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(LedgerError):
        Ledger.open(ledger.path)


@pytest.mark.filterwarnings("ignore:This process.*fork")
def test_read_only_ledger(tmp_path):
    ledger = create(tmp_path / "l.db")
    ledger.close()
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o005)
    ledger.path.chmod(0o444)

    def refused():
        if os.geteuid() == 0:  # root may write anywhere, so become somebody without rights
            os.setgid(65534)
            os.setuid(65534)
        with pytest.raises(LedgerError, match="cannot be used"):
            Ledger.open(ledger.path).reserve(plan=PLAN)

    assert in_child(refused)
    assert Ledger.open(ledger.path).records() == ()


@pytest.mark.filterwarnings("ignore:This process.*fork")
def test_full_disk_refuses_and_loses_nothing(tmp_path):
    ledger = create(tmp_path / "l.db")
    reservation = ledger.reserve(plan=PLAN)
    ledger.close()
    limit = ledger.path.stat().st_size + 30_000

    def refused():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        opened = Ledger.open(ledger.path)
        with pytest.raises(LedgerError, match="cannot be used"):
            reserve_until_refused(opened)

    assert in_child(refused)
    records = Ledger.open(ledger.path).records()
    assert records[0].id == reservation.id
    assert records[0].plan == PLAN


def test_sqlite_full_rolls_back(tmp_path):
    ledger = create(tmp_path / "l.db")
    ledger.reserve(plan=PLAN)
    pages = ledger._store._connect().execute("PRAGMA page_count").fetchone()[0]
    ledger._store._connect().execute(f"PRAGMA max_page_count = {pages}")
    granted = [1]
    with pytest.raises(LedgerError, match="disk is full"):
        reserve_until_refused(ledger, granted)
    assert len(Ledger.open(ledger.path).records()) == len(granted)


def test_a_copied_ledger_is_just_as_good(tmp_path):
    ledger = create(tmp_path / "l.db")
    ledger.reserve(plan=PLAN)
    ledger.close()
    shutil.copy(ledger.path, tmp_path / "copy.db")
    assert Ledger.open(tmp_path / "copy.db").records() == ledger.records()


def test_uncreatable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PrivetError, match="cannot be created"):
        create(tmp_path / "file" / "l.db")


def test_every_commit_reaches_the_disk(tmp_path):
    """SIGKILL cannot show it, so the settings themselves are checked."""
    connection = create(tmp_path / "l.db")._store._connect()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (3,)


def test_trap_a_ledger_that_is_moved_after_a_kill_knows_every_spend(tmp_path):
    """With a write-ahead log the moved file knew nothing, and granted everything once more."""

    def spend_and_die():
        create(tmp_path / "l.db").reserve(plan=PLAN).spend(PLAN.events[0])
        os.kill(os.getpid(), signal.SIGKILL)

    assert not in_child(spend_and_die)
    shutil.move(tmp_path / "l.db", tmp_path / "moved.db")
    assert not list(tmp_path.glob("l.db*"))
    [record] = Ledger.open(tmp_path / "moved.db").records()
    assert sum(record.spent) == 1


def test_what_an_earlier_version_logged_beside_the_file_is_brought_in(tmp_path):
    ledger = create(tmp_path / "l.db")
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "l.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        other = Ledger.open(tmp_path / "l.db")  # in use: it stays as it is for now
        other.reserve(plan=PLAN)
        other.close()
    assert len(Ledger.open(tmp_path / "l.db").records()) == 1
    shutil.move(tmp_path / "l.db", tmp_path / "moved.db")
    assert not list(tmp_path.glob("l.db*"))
    assert len(Ledger.open(tmp_path / "moved.db").records()) == 1


def test_trap_a_log_that_was_in_use_is_brought_in_by_the_next_change(tmp_path):
    create(tmp_path / "l.db").close()
    with closing(sqlite3.connect(tmp_path / "l.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        ledger = Ledger.open(tmp_path / "l.db")
    ledger.reserve(plan=PLAN)
    shutil.copy(tmp_path / "l.db", tmp_path / "copy.db")
    assert len(Ledger.open(tmp_path / "copy.db").records()) == 1


@pytest.mark.parametrize("replacement", ["nothing", "another ledger", "an older copy"])
def test_a_file_that_took_the_ledgers_place_is_refused(tmp_path, replacement):
    ledger = create(tmp_path / "l.db")
    reservation = ledger.reserve(plan=PLAN)
    shutil.copy(ledger.path, tmp_path / "copy.db")
    ledger.path.unlink()
    if replacement == "another ledger":
        create(ledger.path)
    elif replacement == "an older copy":
        shutil.move(tmp_path / "copy.db", ledger.path)
    with pytest.raises(LedgerError, match=r"is gone|took the place"):
        reservation.spend(PLAN.events[0])


def test_what_an_unlinked_ledger_left_behind_cannot_come_back(tmp_path):
    """SQLite would roll a new ledger back by an old journal."""
    (tmp_path / "l.db-journal").write_bytes(b"")
    with pytest.raises(LedgerError, match="is left of another ledger"):
        create(tmp_path / "l.db")


def test_a_relative_path_stays_where_it_was_opened(tmp_path, monkeypatch):
    for name in ("a", "b"):
        create(tmp_path / name / "l.db").close()
    monkeypatch.chdir(tmp_path / "a")
    ledger = Ledger.open("l.db")
    ledger.close()
    monkeypatch.chdir(tmp_path / "b")
    ledger.reserve(plan=PLAN)
    assert Ledger.open("l.db").records() == ()


def test_a_deleted_reservation_is_noticed(tmp_path):
    ledger = create(tmp_path / "l.db")
    ledger.reserve(plan=PLAN)
    ledger.reserve(plan=PLAN)
    last = ledger.records()[-1].id
    ledger.close()
    connection = sqlite3.connect(tmp_path / "l.db")
    connection.execute("DELETE FROM records WHERE key = ?", (last,))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="is damaged"):
        Ledger.open(ledger.path)


@pytest.mark.parametrize("spent", [[0, 0], [-1], [21]])
def test_impossible_spends_are_refused(tmp_path, spent):
    ledger = create(tmp_path / "l.db")
    reservation = ledger.reserve(plan=PLAN)
    body = {**reservation.record.to_json(), "spent": spent}
    with ledger.books(write=True) as books:
        _write(books._connection, reservation.id, body)
    with pytest.raises(LedgerError, match="cannot read"):
        Ledger.open(ledger.path)


@pytest.mark.parametrize("name", ["promise", "tally", "nobody"])
def test_only_reservations_can_be_resumed(tmp_path, name):
    with pytest.raises(PrivetError, match="has no reservation"):
        create(tmp_path / "l.db").resume(name)


def test_a_backup_copied_over_a_ledger_in_use_is_refused(tmp_path):
    ledger = create(tmp_path / "l.db")
    reservation = ledger.reserve(plan=PLAN)
    ledger.close()
    old = ledger.path.read_bytes()
    reservation.spend(PLAN.events[0])
    ledger.close()
    ledger.path.write_bytes(old)  # the same file, with an older content
    with pytest.raises(LedgerError, match="took the place"):
        reservation.spend(PLAN.events[0])


@pytest.mark.filterwarnings("ignore:This process.*fork")
def test_opening_and_forking_threads_do_not_meet(tmp_path):
    """A fork must not carry, or close in mid-statement, a connection of another thread."""
    create(tmp_path / "l.db").close()
    stop = threading.Event()

    def keep_opening():
        while not stop.is_set():
            Ledger.open(tmp_path / "l.db").close()

    with ThreadPoolExecutor(2) as pool:
        openings = [pool.submit(keep_opening) for _ in range(2)]
        for _ in range(40):
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        stop.set()
        for opening in openings:
            opening.result()
