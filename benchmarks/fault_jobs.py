"""Commands that `faults.py` kills: how each begins, how it goes on, and what it must have left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors.torch import load_file

import privet
from privet.data import load
from privet.data.shards import row_counts
from privet.privacy import Ledger
from privet.privacy.records import Record
from privet.recipes.run_certificate import certificate_of
from privet.recipes.run_folder import RunFolder
from privet.recipes.run_reports import story

TERMS: dict[str, Any] = {"epsilon": 60.0, "delta": 1e-5, "relation": "add-remove"}
COUNT, MORE = 30, 50
_PRICE = "--epsilon 2 --delta 1e-5"
_TRAINING = (
    f"--method dp-sgd {_PRICE} --model linear --views plain --sample-rate 0.25 --epochs 2 "
    "--test 12 --engine batched"
)
_MERF = "dp-merf:size=20,iterations=2,per_class=2,widths=4-4-4-4,batch_size=30"
_STAGES = "sps-plus:iterations=2,later_iterations=2,global_size=4,class_size=4,per_class=2"
_FORMATS = ("parquet", "png", "npz", "safetensors")
_LOST = "start again with --force"
_NEVER_BEGAN = "start it again with --force"
_DONE = "is declared already"


@dataclass(frozen=True)
class Place:
    """Where one job happens.

    Args:
        path: all that it writes lies here.
        warm: data, and runs that are finished.
        number: of the job, for variants.
    """

    path: Path
    warm: Path
    number: int

    @property
    def out(self) -> Path:
        """What the command makes."""
        return self.path / "out"

    @property
    def ledger(self) -> Path:
        """The owner's."""
        return self.path / "owner.db"

    @property
    def format(self) -> str:
        """Of an export."""
        return _FORMATS[self.number % len(_FORMATS)]

    @property
    def exported(self) -> Path:
        """Where an export goes."""
        return self.out.with_suffix(".npz") if self.format == "npz" else self.out


@dataclass(frozen=True)
class Job:
    """One command, and how to look at what it left.

    Args:
        name: of the command.
        ready: what is there before.
        words: of the command.
        faults: of what it left at its end.
        spends: whether it draws on the ledger at its place.
    """

    name: str
    ready: Callable[[Place], object]
    words: Callable[[Place], str]
    faults: Callable[[Place], Iterator[str]]
    spends: bool = False

    @property
    def seeded(self) -> bool:
        """Whether its noise can be drawn again, so that nothing it makes is private."""
        return self.faults is _same_model

    def place(self, folder: Path, number: int, name: str = "") -> Place:
        """Where one of them happens."""
        own = "".join(each if each.isalnum() else "-" for each in f"{self.name} {name}{number}")
        return Place(folder / own, folder / "warm", number)

    def next_words(self, place: Place, said: str) -> list[str]:
        """To begin, or to go on after what was said last."""
        words = self.words(place).split()
        if self.spends:
            begun = (place.out / "config.json").exists()
            if _LOST in said or _NEVER_BEGAN in said:
                return [*words, "--force"]
            again = [words[0], "--out", str(place.out), "--resume", *_seed(words)]
            return again if begun else words
        if words[0] in ("merge", "export") and place.exported.exists():
            return [*words, "--force"]
        return words

    def is_done(self, place: Place, code: int, said: str) -> bool:
        """Whether nothing is left to be done."""
        again = self.name == "ledger create" and place.ledger.exists()
        return code == 0 or again or _DONE in said


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
    Ledger.create(warm / "owner.db", **TERMS).close()
    drawn = f"--ledger {warm / 'owner.db'} --declared-size 60"
    run(f"train {warm / 'data.npz'} {_TRAINING} {drawn} --out {warm / 'model'}")
    for name in ("one", "two"):
        run(
            f"synthesize {warm / 'data.npz'} --method {_MERF} {_PRICE} --count {COUNT} {drawn} "
            f"--out {warm / name}"
        )


def _with_ledger(place: Place) -> None:
    Ledger.create(place.ledger, **TERMS).close()


def _nothing(place: Place) -> None:
    """There is nothing to make ready."""


def _copied(place: Place) -> None:
    shutil.copytree(place.warm / "one", place.out)


def _copied_model(place: Place) -> None:
    shutil.copytree(place.warm / "model", place.out)


def _train(more: str) -> Callable[[Place], str]:
    return lambda place: (
        f"train {place.warm / 'data.npz'} {_TRAINING} --ledger {place.ledger} --out {place.out} "
        f"{more}"
    )


def _synthesize(method: str, more: str = "") -> Callable[[Place], str]:
    return lambda place: (
        f"synthesize {place.warm / 'data.npz'} --method {method} {_PRICE} --count {COUNT} "
        f"--declared-size 60 --ledger {place.ledger} --out {place.out} {more}"
    )


def _export(place: Place) -> str:
    run = place.warm / ("model" if place.format == "safetensors" else "one")
    return f"export {run} --to {place.format} --out {place.exported}"


def paid_runs(place: Place) -> tuple[Record, ...]:
    """What the ledger at a place has of runs."""
    ledger = Ledger.open(place.ledger)
    records = tuple(each for each in ledger.records() if not each.declares)
    ledger.close()
    return records


def _certified(place: Place, command: str) -> Iterator[str]:
    """The certificate's events give its ε, and are those that the ledger counts."""
    folder = RunFolder(place.out, command)
    certificate = certificate_of(folder)
    if certificate is None:
        yield "the certificate says that nothing private was touched"
        return
    counted = {each.id: each for each in paid_runs(place)}[folder.read("run.json")["reservation"]]
    if counted.plan != certificate.plan:
        yield f"certified {certificate.plan}, counted {counted.plan}"
    _ = story(place.out)


def _model(place: Place) -> Iterator[str]:
    yield from _certified(place, "train")
    _ = privet.load(place.out)


def _same_model(place: Place) -> Iterator[str]:
    yield from _certified(place, "train")
    whole = load_file(place.warm / "seeded" / "model.safetensors")
    found = load_file(place.out / "model.safetensors")
    if any(not found[name].equal(each) for name, each in whole.items()):
        yield "not the model of an undisturbed run"


def _set(place: Place) -> Iterator[str]:
    yield from _certified(place, "synthesize")
    yield from _images(place.out / "synthetic", COUNT)


def _images(path: Path, count: int) -> Iterator[str]:
    if (found := len(load(path))) != count:
        yield f"{found} images of {count}"


def _grown(place: Place) -> Iterator[str]:
    _ = story(place.out)
    yield from _images(place.out / "synthetic", MORE)
    ledger = Ledger.open(place.warm / "owner.db")
    spent = [sum(each.spent) for each in ledger.records()]
    ledger.close()
    if spent[1:] != [1, 1]:
        yield f"more images were paid for: {spent}"


def _merged(place: Place) -> Iterator[str]:
    _ = certificate_of(RunFolder(place.out, "merge"))
    yield from _images(place.out / "synthetic", 2 * COUNT)


def _exported(place: Place) -> Iterator[str]:
    if place.format == "safetensors":
        _ = privet.load(place.out)
    else:
        yield from _images(place.exported, COUNT)


def _page(place: Place) -> Iterator[str]:
    if not (place.out / "report.html").read_text().rstrip().endswith("</html>"):
        yield "the page has no end"


def _evaluated(place: Place) -> Iterator[str]:
    if "accuracy" not in (place.out / "evaluation.json").read_text():
        yield "no accuracy"


def _ledger(place: Place) -> Iterator[str]:
    if paid_runs(place):
        yield "runs in a ledger of none"


def _portion(place: Place) -> Iterator[str]:
    ledger = Ledger.open(place.ledger)
    if ledger.portions() != ("march",):
        yield f"portions {ledger.portions()}"
    ledger.close()


def _sheet(place: Place) -> Iterator[str]:
    if not place.out.with_suffix(".png").exists():
        yield "no sheet"


SEEDED = "--declared-size 60 --noise-seed 1"
JOBS = (
    Job("train", _with_ledger, _train("--declared-size 60"), _model, spends=True),
    Job("train, counted", _with_ledger, _train(""), _model, spends=True),
    Job("train, seeded", _with_ledger, _train(SEEDED), _same_model, spends=True),
    Job("synthesize dp-merf", _with_ledger, _synthesize(_MERF), _set, spends=True),
    Job(
        "synthesize sps-plus",
        _with_ledger,
        _synthesize(_STAGES, "--encoder untrained:width=8,groups=4"),
        _set,
        spends=True,
    ),
    Job(
        "synthesize, more images",
        _copied,
        lambda place: f"synthesize --out {place.out} --resume --count {MORE}",
        _grown,
    ),
    Job(
        "merge",
        _nothing,
        lambda place: f"merge {place.warm / 'one'} {place.warm / 'two'} --out {place.out}",
        _merged,
    ),
    Job("export", _nothing, _export, _exported),
    Job("report", _copied, lambda place: f"report {place.out}", _page),
    Job("evaluate", _copied_model, lambda place: f"evaluate {place.out}", _evaluated),
    Job(
        "data inspect",
        _nothing,
        lambda place: (
            f"data inspect {place.warm / 'data.npz'} --contact-sheet {place.out}.png --force"
        ),
        _sheet,
    ),
    Job(
        "ledger create",
        _nothing,
        lambda place: f"ledger create {place.ledger} --epsilon 3 --delta 1e-5",
        _ledger,
    ),
    Job(
        "ledger portion",
        _with_ledger,
        lambda place: f"ledger portion {place.ledger} march",
        _portion,
    ),
)


def half_written(path: Path) -> Iterator[str]:
    """Files under their final names that cannot be read to their end."""
    for file in sorted(each for each in path.rglob("*") if each.is_file()):
        if file.name.startswith(".") or file.name.endswith(".part") or ".part/" in str(file):
            continue
        try:
            _READERS.get(file.suffix, _any)(file)
        except Exception as error:
            yield f"{file.relative_to(path)} is half written: {error!r}"


def _any(file: Path) -> None:
    """Other files are looked at by what reads them."""


def _picture(file: Path) -> None:
    with Image.open(file) as picture:
        picture.load()


def _page_end(file: Path) -> None:
    if not file.read_text().rstrip().endswith("</html>"):
        raise ValueError("no end")


def _archive(file: Path) -> None:
    with np.load(file) as archive:
        _ = [archive[name] for name in archive.files]


_READERS: dict[str, Callable[[Path], object]] = {
    ".json": lambda file: json.loads(file.read_text()),
    ".safetensors": load_file,
    ".parquet": lambda file: row_counts(file.parent),
    ".npz": _archive,
    ".png": _picture,
    ".html": _page_end,
}


def strays(path: Path) -> list[str]:
    """Drafts that nobody will need."""
    names = [each.name for each in path.rglob("*") if each.name != ".privet-png"]
    return [each for each in names if each.startswith(".") or each.endswith(".part")]
