"""How a ledger lies on disk: sealed JSON records in SQLite, durable before anyone relies on them.

Every change is one immediate transaction with a rollback journal and extra synchronisation: a
killed process leaves the last committed state, never half of one, and all of it in the one file
that an owner knows of and may move.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import threading
import uuid
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privet.errors import ConfigError, LedgerError, PrivacyError, PrivetError
from privet.paths import as_path
from privet.plain_json import WRONG_VALUES, parsed
from privet.privacy.records import Promise, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT_VERSION = 1
_APPLICATION_ID = 0x50525654  # "PRVT"
_PROMISE, _TALLY = "promise", "tally"
BESIDE = ("-journal", "-wal", "-shm")  # what SQLite may have beside a ledger, by its name
_TALLIED = {"ledger": str, "reservations": int, "changes": int}
_SECONDS_TO_WAIT = 60.0
_LOCK = threading.RLock()  # SQLite serialises processes; this serialises threads
_STORES: weakref.WeakSet[Store] = weakref.WeakSet()


class Store:
    """The file of a ledger, with a connection that opens when needed and never crosses a fork."""

    def __init__(self, path: Path) -> None:
        self.path = as_path(path).resolve()
        self._identity: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        self._seen: dict[str, Any] = {}
        if not path.is_file():
            raise LedgerError(
                f"There is no ledger at {path}: make one with 'privet ledger create'."
            )
        with _LOCK, self._refusals():
            _STORES.add(self)
            self._check()

    @classmethod
    def create(cls, path: Path, promise: Promise) -> None:
        """Write a new ledger beside its place, then link it there: all of it or nothing."""
        if path.exists():
            raise LedgerError(f"{path} exists already: a ledger is never overwritten.")
        for left in (path.with_name(path.name + suffix) for suffix in BESIDE):
            if left.exists():
                raise LedgerError(
                    f"{left} is left of another ledger at this place: put that ledger back, or "
                    "choose another name."
                )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _draft_folder(path.with_name(f".{path.name}.part")) as folder:
                draft = folder / "ledger.db"
                _write_draft(draft, promise)
                os.link(draft, path)  # unlike a rename, refuses a file that appeared meanwhile
            _sync_folder(path.parent)
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"The ledger {path} cannot be created: {error}.") from None

    def promise(self) -> Promise:
        """What the ledger was created for."""
        with self.transaction() as books:
            return books.promise()

    @contextlib.contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Books]:
        """Open one consistent view or, to write, one durable all-or-nothing change.

        A change excludes all other processes.
        """
        with _LOCK, self._refusals():
            connection = self._connect()
            if write:
                _into_one_file(connection)
            try:
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                if write:  # on a read-only disk SQLite would begin all the same
                    connection.execute("DELETE FROM records WHERE 0")
                books = Books(connection, self.path)
                self._require_no_older(books.tally())
                yield books
                tally = books.tally()
                connection.execute("COMMIT")
                self._seen = tally
            except BaseException:
                if connection.in_transaction:  # a full disk may have rolled back by itself
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with _LOCK:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connect(self) -> sqlite3.Connection:
        self._require_same_file()
        if self._connection is None:
            self._connection = _connect(self.path)
        return self._connection

    def _require_same_file(self) -> None:
        """Refuse to go on if the ledger's file was removed or replaced."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise LedgerError(f"The ledger {self.path} is gone ({error.strerror}).") from None
        identity = (status.st_dev, status.st_ino)
        self._identity = self._identity or identity
        if identity != self._identity:
            raise LedgerError(_replaced(self.path))

    def _require_no_older(self, tally: dict[str, Any]) -> None:
        """Refuse an older state or another ledger, copied over this one: it would forget spends."""
        seen = self._seen or tally
        if tally["ledger"] != seen["ledger"] or tally["changes"] < seen["changes"]:
            raise LedgerError(_replaced(self.path))

    def _check(self) -> None:
        connection = self._connect()
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise LedgerError(f"{self.path} is not a Privet ledger.")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found != FORMAT_VERSION:
            raise LedgerError(
                f"Ledger {self.path} has format version {found}, this Privet reads "
                f"{FORMAT_VERSION}: use the version of Privet that wrote it."
            )
        if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            raise LedgerError(_damaged(self.path))
        _into_one_file(connection)
        with self.transaction() as books:
            books.promise()
            books.records()

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn what SQLite or a damaged record raises into a `LedgerError` of one sentence."""
        try:
            yield
        except PrivetError:
            raise
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter in its messages
            raise LedgerError(
                f"Ledger {self.path} cannot be used ({error}): nothing left the hedge."
            ) from None


class Books:
    """The records of a ledger, inside one transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def body(self, key: str) -> dict[str, Any]:
        """The content of one record; refused if its seal does not hold."""
        row = self._connection.execute(
            "SELECT key, body, seal FROM records WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            raise PrivacyError(f"Ledger {self._path} has no reservation {key}.")
        if row[0] != key:
            raise LedgerError(_damaged(self._path))
        return self._opened(row)

    def read(self, reservation_id: str) -> Record:
        """The record of one reservation."""
        if reservation_id in (_PROMISE, _TALLY):
            raise PrivacyError(f"Ledger {self._path} has no reservation {reservation_id}.")
        return self._record(self.body(reservation_id))

    def records(self) -> tuple[Record, ...]:
        """All reservations, oldest first."""
        rows = self._connection.execute(
            "SELECT key, body, seal FROM records WHERE key NOT IN (?, ?) ORDER BY rowid",
            (_PROMISE, _TALLY),
        )
        records = tuple(self._record(self._opened(row)) for row in rows)
        if len(records) != self.tally()["reservations"]:
            raise LedgerError(_damaged(self._path))
        return records

    def tally(self) -> dict[str, Any]:
        """Which ledger this is, how many reservations it has and how often it was changed."""
        try:
            found = self.body(_TALLY)
        except LedgerError:
            raise
        except PrivacyError:
            raise LedgerError(_damaged(self._path)) from None
        if {name: type(each) for name, each in found.items()} != _TALLIED:
            raise LedgerError(_damaged(self._path))
        return found

    def add(self, record: Record) -> None:
        """Write a new reservation."""
        self._write(record, added=1)

    def update(self, record: Record) -> None:
        """Write a reservation that has changed."""
        self.read(record.id)
        self._write(record, added=0)

    def _write(self, record: Record, added: int) -> None:
        tally = self.tally()
        tally["reservations"] += added
        tally["changes"] += 1
        _write(self._connection, _TALLY, tally)
        _write(self._connection, record.id, record.to_json())

    def _opened(self, row: tuple[str, str, str]) -> dict[str, Any]:
        key, body, seal = row
        if not isinstance(body, str) or _seal(key, body) != seal:
            raise LedgerError(_damaged(self._path))
        with self._understood():
            content = parsed(body)
            if not isinstance(content, dict):
                raise TypeError(f"{key} is no object")
            return content

    def promise(self) -> Promise:
        """What the ledger was created for."""
        with self._understood():
            return Promise.from_json(self.body(_PROMISE))

    def _record(self, body: dict[str, Any]) -> Record:
        with self._understood():
            return Record.from_json(body)

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, *WRONG_VALUES) as error:
            raise LedgerError(
                f"Ledger {self._path} holds a record that this Privet cannot read ({error!r})."
            ) from None


def _close_before_fork() -> None:
    """Close all connections before a fork.

    A fork inherits them without their locks, so that one side could lose the other's work.
    """
    _LOCK.acquire()
    for store in tuple(_STORES):
        store.close()


os.register_at_fork(
    before=_close_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw",
        uri=True,
        timeout=_SECONDS_TO_WAIT,
        isolation_level=None,
        check_same_thread=False,  # any thread may fork
    )
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection


def _into_one_file(connection: sqlite3.Connection) -> None:
    """Bring in what an earlier version kept in a write-ahead log, unless that is in use just now.

    A killed process leaves the log behind, and a ledger that is moved without it forgets spends. So
    it is tried again before every change.
    """
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        connection.execute("PRAGMA busy_timeout = 0")
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * _SECONDS_TO_WAIT)}")


@contextlib.contextmanager
def _draft_folder(folder: Path) -> Iterator[Path]:
    """An empty folder held by one process at a time; what a killed one left there is removed."""
    descriptor = _locked(folder)
    try:
        for left in folder.iterdir():
            left.unlink()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _locked(folder: Path) -> int:
    """Make and lock a folder; return its descriptor once no other process holds or removed it."""
    while True:
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), folder.stat()):
                return descriptor
        os.close(descriptor)


def _write_draft(path: Path, promise: Promise) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "CREATE TABLE records (key TEXT PRIMARY KEY, body TEXT NOT NULL, seal TEXT NOT NULL)"
        )
        _write(connection, _PROMISE, promise.to_json())
        _write(connection, _TALLY, {"ledger": uuid.uuid4().hex, "reservations": 0, "changes": 0})
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.execute("COMMIT")
    finally:
        connection.close()


def _write(connection: sqlite3.Connection, key: str, content: dict[str, Any]) -> None:
    body = json.dumps(content, sort_keys=True)
    connection.execute(
        "INSERT INTO records VALUES (?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET body = excluded.body, seal = excluded.seal",
        (key, body, _seal(key, body)),
    )


def _replaced(path: Path) -> str:
    return (
        f"Another file took the place of the ledger {path}: open it again, and make sure that it "
        "knows what was spent before."
    )


def _damaged(path: Path) -> str:
    return (
        f"Ledger {path} is damaged: restore a backup, and reserve again whatever was spent since "
        "it was made."
    )


def _seal(key: str, body: str) -> str:
    return hashlib.blake2b(f"{key}\n{body}".encode(), digest_size=16).hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
