"""Commands that `faults.py` kills: how each begins, how it goes on, and how it pays."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fault_checks as left
import privet.runs.demo
import privet.share.panel
from fault_checks import COUNT, MORE, Place
from privet.data import load
from privet.privacy import Ledger
from privet.runs.data_choice import DataChoice

TERMS: dict[str, Any] = {"epsilon": 60.0, "delta": 1e-5, "relation": "add-remove"}
SEEDED = "--declared-size 60 --noise-seed 1"
DIGITS = 300  # for a demo of seconds
_PRICE = "--epsilon 2 --delta 1e-5"
_LEARNING = f"--method dp-sgd {_PRICE} --sample-rate 0.25 --epochs 2 --engine batched"
_TRAINING = f"{_LEARNING} --model linear --views plain --test 12"
_WORDS = "--task lm --model lm:width=8,depth=1,heads=2 --public 0.2 --test 0.2 --warm-up-epochs 1"
_COLUMNS = "--target kind --model mlp:hidden=8 --public 0.2 --test 0.2 --warm-up-epochs 1"
_SEARCH = "--trials 2 --try learning_rate=0.1,0.3 --declared-size 60"
_MERF = "dp-merf:size=20,iterations=2,per_class=2,widths=4-4-4-4,batch_size=30"
_ROWS = "dp-merf:size=20,iterations=2,batch_size=30"
_STAGES = "sps-plus:iterations=2,later_iterations=2,global_size=4,class_size=4,per_class=2"
_DEMO = "sps-g:iterations=2,per_class=2,agreement=false"
_SURE = "--confidence 0.9999"
_AGAIN = ("start again with --force", "start it again with --force")
_DONE = "is declared already"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command, and how to look at what it left.

    Args:
        name: of the command.
        ready: what is there before.
        words: of the command.
        faults: of what it left at its end.
        paid: how many spends a list of results takes; none for a command that never draws on a
            ledger.
        runs: how many reservations.
        book: the ledger that they lie in.
        once: what is there when it is done, so that nobody need type it again.
    """

    name: str
    ready: Callable[[Place], object]
    words: Callable[[Place], str]
    faults: Callable[[Place], Iterator[str]]
    paid: Callable[[Sequence[str]], int] | None = None
    runs: int = 1
    book: str = "owner.db"
    once: str | None = None

    def place(self, folder: Path, number: int, name: str = "") -> Place:
        """Where one of them happens."""
        own = "".join(each if each.isalnum() else "-" for each in f"{self.name} {name}{number}")
        return Place(folder / own, folder / "warm", number, self.book)

    def next_words(self, place: Place, said: str) -> list[str]:
        """To begin, or to go on after what was said last."""
        words = self.words(place).split()
        if self.paid is not None:
            begun = any((place.out / name).exists() for name in ("config.json", "demo.json"))
            if any(each in said for each in _AGAIN):
                return [*words, "--force"]
            again = [words[0], "--out", str(place.out), "--resume", *_seed(words)]
            return again if begun else words
        if words[0] in ("merge", "export") and place.exported.exists():
            return [*words, "--force"]
        return words

    def is_done(self, place: Place, code: int, said: str) -> bool:
        """Whether nothing is left to be done."""
        there = self.once is not None and (place.path / self.once).exists()
        return code == 0 or there or _DONE in said


def each_result(lines: Sequence[str]) -> int:
    """Every one that left the hedge is paid for."""
    return len(lines)


def each_step(lines: Sequence[str]) -> int:
    """A step that a seeded run draws again is the same one, and paid once."""
    return len(set(lines))


def all_at_once(lines: Sequence[str]) -> int:
    """One spend pays for all trials, however many."""
    return int(bool(lines))


def _seed(words: Sequence[str]) -> list[str]:
    at = words.index("--noise-seed") if "--noise-seed" in words else len(words)
    return list(words[at : at + 2])


def make_warm(warm: Path, run: Callable[[str], None]) -> None:
    """Data, a ledger, and finished runs that other commands work on."""
    warm.mkdir()
    rng, labels = np.random.default_rng(0), np.arange(60) % 3
    images = rng.integers(0, 80, (60, 8, 8, 1)) + 60 * labels[:, None, None, None]
    names = np.array(["a", "b", "c"])
    np.savez(warm / "data.npz", images=images.astype(np.uint8), labels=labels, class_names=names)
    sizes = rng.normal(labels, 1.0)
    rows = "".join(
        f"{size:.2f},{names[label]}\n" for size, label in zip(sizes, labels, strict=True)
    )
    (warm / "table.csv").write_text(f"size,kind\n{rows}")
    words = rng.choice(["a", "cook", "had", "no", "rest", "today"], (400, 7))
    (warm / "text.txt").write_text("".join(f"{' '.join(line)}\n" for line in words))
    _shorten_the_demo(warm / "digits.npz")
    Ledger.create(warm / "owner.db", **TERMS).close()
    drawn = f"--ledger {warm / 'owner.db'} --declared-size 60"
    run(f"train {warm / 'data.npz'} {_TRAINING} {drawn} --out {warm / 'model'}")
    for name in ("one", "two"):
        run(
            f"synthesize {warm / 'data.npz'} --method {_MERF} {_PRICE} --count {COUNT} {drawn} "
            f"--out {warm / name}"
        )


def _shorten_the_demo(path: Path) -> None:
    """Some of its digits, for two iterations, and CNNs that learn for a few steps."""
    privet.share.panel._LEAST_STEPS = 2
    digits = load("mnist5k")
    some = digits.take(np.linspace(0, len(digits) - 1, DIGITS).astype(int))
    np.savez(path, images=some.images[:], labels=some.labels, class_names=list(map(str, range(10))))
    demo = privet.runs.demo
    demo.DATA = DataChoice(source=str(path), public="0.1", test="0.1")
    demo.SIZE, demo.SYSTEM = DIGITS * 8 // 10, _DEMO


def _with_ledger(place: Place) -> None:
    Ledger.create(place.ledger, **TERMS).close()


def _nothing(place: Place) -> None:
    """There is nothing to make ready."""


def _copied(name: str) -> Callable[[Place], object]:
    return lambda place: shutil.copytree(place.warm / name, place.out)


def _runs(
    name: str,
    command: str,
    data: str,
    words: str,
    faults: Callable[[Place], Iterator[str]],
    paid: Callable[[Sequence[str]], int] = each_result,
) -> Job:
    """A run that draws on the owner's ledger."""
    return Job(
        name=name,
        ready=_with_ledger,
        words=lambda place: (
            f"{command} {place.warm / data} {words} --ledger {place.ledger} --out {place.out}"
        ),
        faults=faults,
        paid=paid,
    )


def _makes(
    name: str, data: str, words: str, faults: Callable[[Place], Iterator[str]] = left.image_set
) -> Job:
    """A synthetic set."""
    given = f"{_PRICE} --count {COUNT} --declared-size 60 --method {words}"
    return _runs(name, "synthesize", data, given, faults)


def _tells(
    name: str,
    words: str,
    data: str = "",
    faults: Callable[[Place], Iterator[str]] = left.finding,
) -> Job:
    """A command that writes down what it found."""
    return Job(
        name=name,
        ready=_nothing,
        words=lambda place: (
            f"{name} {place.warm / data if data else ''} {words} --out {place.told}"
        ),
        faults=faults,
        once="out.json",
    )


def _export(place: Place) -> str:
    run = place.warm / ("model" if place.format == "safetensors" else "one")
    return f"export {run} --to {place.format} --out {place.exported}"


JOBS = (
    _runs("train", "train", "data.npz", f"{_TRAINING} --declared-size 60", left.model),
    _runs("train, counted", "train", "data.npz", _TRAINING, left.model),
    _runs(
        "train, seeded", "train", "data.npz", f"{_TRAINING} {SEEDED}", left.same_model, each_step
    ),
    _runs("train on a table", "train", "table.csv", f"{_LEARNING} {_COLUMNS}", left.model),
    _runs("train on text", "train", "text.txt", f"{_LEARNING} {_WORDS}", left.model),
    _runs("tune", "tune", "data.npz", f"{_TRAINING} {_SEARCH}", left.tuned_model, all_at_once),
    _makes("synthesize dp-merf", "data.npz", _MERF),
    _makes("synthesize sps-plus", "data.npz", f"{_STAGES} --encoder untrained:width=8,groups=4"),
    _makes("synthesize a table", "table.csv", f"{_ROWS} --target kind --public 0.2", left.table),
    Job(
        name="synthesize, more images",
        ready=_copied("one"),
        words=lambda place: f"synthesize --out {place.out} --resume --count {MORE}",
        faults=left.grown_set,
    ),
    Job(
        name="demo",
        ready=_nothing,
        words=lambda place: f"demo --count {COUNT} --out {place.out}",
        faults=left.demo,
        paid=each_result,
        runs=2,
        book="out/ledger.db",
    ),
    Job(
        name="merge",
        ready=_nothing,
        words=lambda place: f"merge {place.warm / 'one'} {place.warm / 'two'} --out {place.out}",
        faults=left.merged_set,
    ),
    Job(name="export", ready=_nothing, words=_export, faults=left.exported),
    Job(
        name="report",
        ready=_copied("one"),
        words=lambda place: f"report {place.out}",
        faults=left.page,
    ),
    Job(
        name="evaluate",
        ready=_copied("model"),
        words=lambda place: f"evaluate {place.out}",
        faults=left.evaluated,
    ),
    _tells("audit hedge", f"{_PRICE} --runs 200 {_SURE}"),
    _tells("audit train", f"--method dp-sgd {_PRICE} --canaries 16 --epochs 2 {_SURE}"),
    _tells("audit synthesize", f"--method dp-merf {_PRICE} --canaries 16 {_SURE}"),
    _tells(
        "audit attack",
        f"{_PRICE} --declare-public --models 4 --examples 40 --images 20 --iterations 2",
        "data.npz",
    ),
    _tells("data schema", "--target kind", "table.csv", left.declared_schema),
    Job(
        name="data inspect",
        ready=_nothing,
        words=lambda place: (
            f"data inspect {place.warm / 'data.npz'} --contact-sheet {place.out}.png --force"
        ),
        faults=left.contact_sheet,
    ),
    Job(
        name="ledger create",
        ready=_nothing,
        words=lambda place: f"ledger create {place.ledger} --epsilon 3 --delta 1e-5",
        faults=left.empty_ledger,
        once="owner.db",
    ),
    Job(
        name="ledger portion",
        ready=_with_ledger,
        words=lambda place: f"ledger portion {place.ledger} march",
        faults=left.portion,
    ),
    Job(
        name="ledger show",
        ready=_with_ledger,
        words=lambda place: f"ledger show {place.ledger}",
        faults=left.empty_ledger,
    ),
    Job(
        name="account",
        ready=_with_ledger,
        words=lambda place: f"account {_PRICE} --sample-rate 0.01 --steps 1000",
        faults=left.empty_ledger,
    ),
)
