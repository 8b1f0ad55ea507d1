"""Claim: Privet reads hostile inputs, or refuses each in one sentence.

    python benchmarks/fuzz.py [--only TEXT] [--minutes M] [--share 0.1] [--stale] [--list]
    python benchmarks/fuzz.py --case TARGET NUMBER

Every reader of a file, of a message and of what somebody types is a target (`fuzz_targets.py`). A
case takes a valid file of the real writer and damages it, from a seed that follows from the case's
number (`fuzz_mutations.py`). It is read in a process that was forked from a warm one, with 1 GiB of
memory and 30 seconds. What counts is whether it was accepted, refused by an error of ours, or
crashed: any other exception, no end, more memory, a process that died, a file written outside the
case's folder or left half-written there, code or a process started. Counts of a chunk of cases are
kept when it is done, so that the study can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import kept_rows
import machine
from fuzz_readers import warm
from fuzz_samples import SAMPLES
from fuzz_targets import TARGETS, Target
from privet.errors import PrivetError
from privet.privacy.store import BESIDE

OUT = machine.RESULTS / "fuzz.json"
SECONDS, PATIENCE = 30.0, 60.0
MEMORY = 2**30
_STARTED = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class")
_CHANGED = ("os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink")
_LEFT = BESIDE  # a ledger that was looked into


class Hang(BaseException):
    """Nobody catches it."""


class Trespass(BaseException):
    """Something was started, or written outside the case's folder."""


@dataclass(frozen=True)
class Chunk:
    """Some cases of one target."""

    target: Target
    number: int
    cases: int

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells chunks apart."""
        return {"target": self.target.name, "chunk": self.number}

    @property
    def described(self) -> str:
        """Sources that were fuzzed, and how: a chunk of others is stale."""
        return f"{SOURCES}, {self.cases} cases"

    @property
    def first(self) -> int:
        """The number of its first case."""
        return self.number * self.target.chunk


def chunks(share: float) -> Iterator[Chunk]:
    """Of all targets, in turns."""
    for number in range(1000):
        for target in TARGETS:
            left = int(share * target.cases) - number * target.chunk
            if left > 0:
                yield Chunk(target, number, min(left, target.chunk))


def do(chunk: Chunk, samples: Path) -> dict[str, Any]:
    """Every case in a forked process; one that dies is followed by another."""
    start, counts, crashes = time.monotonic(), Counter[str](), []
    case, end = chunk.first, chunk.first + chunk.cases
    while case < end:
        with _Worker(chunk.target, samples, case, end) as worker:
            worker.wait()
            counts.update(worker.counts)
            crashes += worker.crashes
            case = worker.next_case
    return {
        "cases": chunk.cases,
        "accepted": counts["accepted"],
        "refused": counts["refused"],
        "crashes": crashes,
        "seconds": round(time.monotonic() - start, 1),
        "commit": machine.COMMIT,
    }


class _Worker:
    """One process, which tells through shared memory where it is."""

    def __init__(self, target: Target, samples: Path, case: int, end: int) -> None:
        self._target, self._samples, self._first, self._end = target, samples, case, end
        self._shared = mmap.mmap(-1, 24)  # the case, how many were accepted and refused
        self._shared.write(struct.pack("<3q", case, 0, 0))

    def __enter__(self) -> _Worker:
        self._folder = tempfile.TemporaryDirectory(prefix="privet-fuzz-", dir=fast())
        self._said = Path(self._folder.name) / "crashes.jsonl"
        self._said.touch()
        self.crashes: list[dict[str, Any]] = []
        self._process = os.fork()
        if not self._process:
            self._run()
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def wait(self) -> None:
        """Until it is done, or has been at one case for too long."""
        case, since = self._first, time.monotonic()
        while True:
            found, status = os.waitpid(self._process, os.WNOHANG)
            if found:
                break
            if self._state[0] != case:
                case, since = self._state[0], time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                os.kill(self._process, signal.SIGKILL)
            time.sleep(0.02)
        case, accepted, refused = self._state
        self.counts = {"accepted": accepted, "refused": refused}
        self.crashes = [json.loads(line) for line in self._said.read_text().splitlines()]
        self.next_case = case
        if case < self._end:
            code = os.waitstatus_to_exitcode(status)
            self.crashes.append({"case": case, "error": f"the process ended with {code}"})
            self.next_case = case + 1

    @property
    def _state(self) -> tuple[int, int, int]:
        case, accepted, refused = struct.unpack("<3q", self._shared[:24])
        return case, accepted, refused

    def _run(self) -> NoReturn:
        try:
            os.environ["PRIVET_FUZZ_SAMPLES"] = str(self._samples)
            place = Path(self._folder.name) / "case"
            shutil.copytree(self._samples / self._target.sample, place)
            _limit(place)
            accepted = refused = 0
            for case in range(self._first, self._end):
                error = outcome(self._target, place, self._samples, case)
                if error is None:
                    accepted += 1
                elif isinstance(error, PrivetError):
                    refused += 1
                else:
                    with self._said.open("a") as file:
                        file.write(json.dumps({"case": case, "error": _told(error)}) + "\n")
                self._shared[:24] = struct.pack("<3q", case + 1, accepted, refused)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)


def outcome(target: Target, place: Path, samples: Path, case: int) -> BaseException | None:
    """What came of one case: nothing if it was accepted."""
    original = samples / target.sample
    name, content = target.case(original, case)
    (place / name).unlink()
    (place / name).write_bytes(content)
    before = set(_listed(place))
    error: BaseException | None = None
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    _watched.place = place
    try:
        target.read(place)
    except BaseException as found:
        error = _memory(found) or found
    finally:
        _watched.place = None
        signal.setitimer(signal.ITIMER_REAL, 0)
    left = {each for each in set(_listed(place)) - before if not each.endswith(_LEFT)}
    if left and isinstance(error, PrivetError) and target.whole:
        error = Trespass(f"{min(left)} was left by what was refused ({error})")
    put_back(place, original)
    return error


def _memory(error: BaseException) -> BaseException | None:
    """Memory that was asked for and not there, though it ended as a sentence."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or "can't allocate memory" in str(seen):
            return MemoryError(f"{error!r:.200}, from {seen!r:.200}")
        seen = seen.__cause__ or seen.__context__
    return None


def _listed(place: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder by its name, with what tells whether it was changed."""
    found = {}
    for folder, folders, files in os.walk(place):
        inside = Path(folder).relative_to(place)
        found |= {str(inside / name): (-1, -1) for name in folders}
        for name in files:
            status = os.lstat(f"{folder}/{name}")
            found[str(inside / name)] = (status.st_size, status.st_mtime_ns)
    return found


def put_back(place: Path, original: Path) -> None:
    """The folder as it was before."""
    valid, there = _valid(original), _listed(place)
    for name in sorted(there.keys() - valid.keys(), reverse=True):
        path = place / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name, status in valid.items():
        if there.get(name) == status:
            continue
        if status == (-1, -1):
            (place / name).mkdir()
        else:
            shutil.copy2(original / name, place / name)


@cache
def _valid(original: Path) -> dict[str, tuple[int, int]]:
    return _listed(original)


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "privet" in each.filename]
    where = f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__}{where}: {error}"[:400]


class _Watched:
    """Where a case may write, while one is read."""

    place: Path | None = None


_watched = _Watched()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched.place is None:
        return
    if event in _STARTED:
        raise Trespass(f"{event} {arguments!r:.100}")
    if event == "open" and not _writes(arguments):
        return
    in_folder = isinstance(arguments[-1], int) and arguments[-1] >= 0 and event != "open"
    if in_folder:  # a name in a folder that was opened before, as `shutil.rmtree` goes
        return
    if event in ("open", *_CHANGED) and isinstance(arguments[0], str | os.PathLike):
        path = Path(arguments[0]).resolve()
        if not path.is_relative_to(_watched.place) and str(path) != os.devnull:
            raise Trespass(f"{event} of {path} outside the folder")


def _writes(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _limit(place: Path) -> None:
    """Memory, time, silence; and drafts of libraries go where they are seen."""
    sizes = Path("/proc/self/statm").read_text().split()
    most = int(sizes[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    tempfile.tempdir = str(place.parent)
    os.environ |= {"TMPDIR": str(place.parent), "HOME": str(place.parent)}
    warnings.simplefilter("ignore")
    sys.addaudithook(_audit)


def _stop(*_: object) -> None:
    raise Hang(f"no end after {SECONDS:g} s")


def fast() -> str | None:
    """Memory in the place of a disk, where there is such a folder."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def made_samples(place: Path | None) -> Path:
    """Valid files of every kind, made once for one state of the sources."""
    place = place or Path(fast() or tempfile.gettempdir()) / f"privet-fuzz-samples-{SOURCES}"
    if not place.exists():
        draft = Path(tempfile.mkdtemp(prefix="privet-fuzz-draft-", dir=place.parent))
        for name in SAMPLES:
            _forked(name, draft)
        draft.rename(place)
    return place


def _forked(name: str, place: Path) -> None:
    """In a process of its own: what is forked later should have used no threads."""
    process = os.fork()
    if not process:
        try:
            (place / name).mkdir()
            SAMPLES[name](place / name)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(process, 0)[1]:
        raise SystemExit(f"The sample {name} cannot be made.")


def _sources() -> str:
    """One word for the package and for what does the damage."""
    digest = hashlib.blake2b(digest_size=6)
    own = [*(machine.ROOT / "src").rglob("*.py"), *(machine.ROOT / "benchmarks").glob("fuzz_*.py")]
    for path in sorted(own):
        digest.update(f"{path.relative_to(machine.ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def summary(runs: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Totals, and one line for each target."""
    lines: dict[str, Counter[str]] = {}
    for run in runs:
        line = lines.setdefault(run["target"], Counter())
        line.update({name: run[name] for name in ("cases", "accepted", "refused")})
        line["crashes"] += len(run["crashes"])
    total = sum(lines.values(), Counter[str]())
    names = ("cases", "accepted", "refused", "crashes")
    return {
        **{name: total[name] for name in names},
        "targets": {name: {each: line[each] for each in names} for name, line in lines.items()},
    }


def check_valid(samples: Path, only: str) -> None:
    """Every target takes its valid files: else nothing behind the first check is fuzzed."""
    for target in (each for each in TARGETS if only.strip() in each.name):
        with tempfile.TemporaryDirectory(dir=fast()) as folder:
            place = Path(folder) / "case"
            shutil.copytree(samples / target.sample, place)
            process = os.fork()
            if not process:
                os.environ["PRIVET_FUZZ_SAMPLES"] = str(samples)
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        target.read(place)
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            if os.waitpid(process, 0)[1]:
                raise SystemExit(f"{target.name}: what is valid is not accepted.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="Chunks whose key contains this text.")
    parser.add_argument("--minutes", type=float, default=1e9, help="Start no chunk after these.")
    parser.add_argument("--samples", type=Path, help="Where valid files are, or are to be made.")
    parser.add_argument("--share", type=float, default=1.0, help="Of all cases.")
    parser.add_argument("--stale", action="store_true", help="Chunks of other sources once more.")
    parser.add_argument("--list", action="store_true", help="Print what is missing, do nothing.")
    parser.add_argument("--case", nargs=2, metavar=("TARGET", "NUMBER"), help="One, with its end.")
    return parser.parse_args()


def main() -> None:
    """One case, or all chunks that are missing."""
    options = _options()
    if not options.list:
        warm()
    samples = made_samples(options.samples)
    if options.case:
        by_name = {each.name: each for each in TARGETS}
        _show(by_name[options.case[0]], samples, int(options.case[1]))
    else:
        if not options.list:
            check_valid(samples, options.only)
        kept_rows.do_missing(
            OUT, chunks(options.share), lambda chunk: do(chunk, samples), summary, options
        )


def _show(target: Target, samples: Path, number: int) -> None:
    name, content = target.case(samples / target.sample, number)
    print(f"{name}: {content[:3000]!r}", flush=True)
    with tempfile.TemporaryDirectory(dir=fast()) as folder:
        place = Path(folder) / "case"
        shutil.copytree(samples / target.sample, place)
        (place / name).write_bytes(content)
        os.environ["PRIVET_FUZZ_SAMPLES"] = str(samples)
        print(target.read(place))


SOURCES = _sources()

if __name__ == "__main__":
    main()
