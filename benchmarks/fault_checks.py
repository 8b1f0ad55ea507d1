"""What a command of `fault_jobs.py` must have left, and what it must not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
from PIL import Image
from safetensors.torch import load_file

import privet
from privet.data import load
from privet.data.schema_file import read_schema
from privet.data.shards import row_counts
from privet.privacy import Ledger
from privet.privacy.records import Record
from privet.runs.run_certificate import certificate_of
from privet.runs.run_folder import RunFolder
from privet.runs.run_reports import story

COUNT, MORE = 30, 50
_FORMATS = ("parquet", "png", "npz", "safetensors")


@dataclass(frozen=True)
class Place:
    """Where one job happens.

    Args:
        path: all that it writes lies here.
        warm: data, and runs that are finished.
        number: of the job, for variants.
        book: the ledger that the command draws on.
    """

    path: Path
    warm: Path
    number: int
    book: str = "owner.db"

    @property
    def out(self) -> Path:
        """What the command makes."""
        return self.path / "out"

    @property
    def ledger(self) -> Path:
        """The owner's."""
        return self.path / self.book

    @property
    def told(self) -> Path:
        """What the command writes down, if that is a file of JSON."""
        return self.out.with_suffix(".json")

    @property
    def format(self) -> str:
        """Of an export."""
        return _FORMATS[self.number % len(_FORMATS)]

    @property
    def exported(self) -> Path:
        """Where an export goes."""
        return self.out.with_suffix(".npz") if self.format == "npz" else self.out


def paid_runs(place: Place) -> tuple[Record, ...]:
    """What the ledger at a place has of runs; looks outside of any guarantee are none."""
    if not place.ledger.exists():
        return ()
    ledger = Ledger.open(place.ledger)
    records = tuple(each for each in ledger.records() if not each.declares and each.plan)
    ledger.close()
    return records


def _certified(place: Place, command: str, name: str = "") -> Iterator[str]:
    """The certificate's events give its ε, and are those that the ledger counts."""
    folder = RunFolder(place.out / name, command)
    certificate = certificate_of(folder)
    if certificate is None:
        yield "the certificate says that nothing private was touched"
        return
    counted = {each.id: each for each in paid_runs(place)}[folder.read("run.json")["reservation"]]
    if counted.plan != certificate.plan:
        yield f"certified {certificate.plan}, counted {counted.plan}"
    _ = story(folder.path)


def model(place: Place) -> Iterator[str]:
    """A model that loads."""
    yield from _certified(place, "train")
    _ = privet.load(place.out)


def same_model(place: Place) -> Iterator[str]:
    """The very weights of a run that nobody killed."""
    yield from _certified(place, "train")
    whole = load_file(place.warm / "seeded" / "model.safetensors")
    found = load_file(place.out / "model.safetensors")
    if any(not found[name].equal(each) for name, each in whole.items()):
        yield "not the model of an undisturbed run"


def tuned_model(place: Place) -> Iterator[str]:
    """A model, one payment, and nothing that tells how many trials there were."""
    yield from model(place)
    if left := [name for name in ("trials", "tuning.json") if (place.out / name).exists()]:
        yield f"trials can be counted: {left}"


def table(place: Place) -> Iterator[str]:
    """All rows, in both formats, and a certificate."""
    yield from _certified(place, "synthesize")
    folder = place.out / "synthetic"
    for rows in (
        pyarrow.csv.read_csv(folder / "table.csv"),
        pyarrow.parquet.read_table(folder / "table.parquet"),
    ):
        if rows.num_rows != COUNT:
            yield f"{rows.num_rows} rows of {COUNT}"


def demo(place: Place) -> Iterator[str]:
    """Both runs and the page, out of one budget."""
    yield from page(place)
    yield from _certified(place, "train", "model")
    yield from _certified(place, "synthesize", "images")
    yield from _images(place.out / "images" / "synthetic", COUNT)


def image_set(place: Place) -> Iterator[str]:
    """All images, and a certificate."""
    yield from _certified(place, "synthesize")
    yield from _images(place.out / "synthetic", COUNT)


def _images(path: Path, count: int) -> Iterator[str]:
    if (found := len(load(path))) != count:
        yield f"{found} images of {count}"


def grown_set(place: Place) -> Iterator[str]:
    """More images, which cost nothing."""
    _ = story(place.out)
    yield from _images(place.out / "synthetic", MORE)
    ledger = Ledger.open(place.warm / "owner.db")
    spent = [sum(each.spent) for each in ledger.records()]
    ledger.close()
    if spent[1:] != [1, 1]:
        yield f"more images were paid for: {spent}"


def merged_set(place: Place) -> Iterator[str]:
    """The images of both sets."""
    _ = certificate_of(RunFolder(place.out, "merge"))
    yield from _images(place.out / "synthetic", 2 * COUNT)


def exported(place: Place) -> Iterator[str]:
    """What was exported opens."""
    if place.format == "safetensors":
        _ = privet.load(place.out)
    else:
        yield from _images(place.exported, COUNT)


def page(place: Place) -> Iterator[str]:
    """A whole page."""
    if not (place.out / "report.html").read_text().rstrip().endswith("</html>"):
        yield "the page has no end"


def evaluated(place: Place) -> Iterator[str]:
    """An evaluation."""
    if "accuracy" not in (place.out / "evaluation.json").read_text():
        yield "no accuracy"


def empty_ledger(place: Place) -> Iterator[str]:
    """A ledger that opens, and holds nothing."""
    if paid_runs(place):
        yield "runs in a ledger of none"


def portion(place: Place) -> Iterator[str]:
    """One portion."""
    ledger = Ledger.open(place.ledger)
    if ledger.portions() != ("march",):
        yield f"portions {ledger.portions()}"
    ledger.close()


def declared_schema(place: Place) -> Iterator[str]:
    """A schema that can be read."""
    if read_schema(place.told).target != "kind":
        yield "another target"


def finding(place: Place) -> Iterator[str]:
    """What an audit or an attack found."""
    if not json.loads(place.told.read_text()):
        yield "nothing was found"


def contact_sheet(place: Place) -> Iterator[str]:
    """A picture."""
    if not place.out.with_suffix(".png").exists():
        yield "no sheet"


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
