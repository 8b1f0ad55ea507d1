"""What a source is made of: rows that are called public may be private ones, or a release."""

from __future__ import annotations

import json
from pathlib import Path

from privet.data import load
from privet.data.npz import read_text
from privet.errors import ConfigError, DataError
from privet.paths import overlap
from privet.plain_json import WRONG_VALUES
from privet.privacy.certificate import PUBLIC_SCHEMA
from privet.runs.data_choice import DataChoice, placed
from privet.runs.run_folder import CERTIFICATE, CONFIG


def refuse_private(name: str, source: str, private: str) -> None:
    """Refuse a source that overlaps the private data: naming it public does not make it so."""
    if is_made_of(source, private):
        raise ConfigError(
            f"--{name} was made of the private data themselves, and without privacy: make it of "
            "public ones."
        )
    if reads_private(name, source, private):
        raise ConfigError(
            f"--{name} names the private data themselves, or a part of them: give a share of them, "
            "such as 0.1, or another source."
        )


def reads_private(name: str, source: str, private: str) -> bool:
    """Whether `--name source` would read private rows; a test part of theirs has none."""
    if not overlap(placed(source), placed(private)):
        return False
    itself = name == "test" and placed(source) == placed(private)
    return not (itself and has_part(source, "train") and has_part(source, "test"))


def is_made_of(source: str, private: str) -> bool:
    """Whether a diffusion model made images of private ones, without privacy."""
    return any(overlap(placed(each), placed(private)) for each in _unprotected_origins(source))


def has_part(source: str, part: str) -> bool:
    """Whether a source has a part of that name."""
    try:
        load(source, part=part, memory_limit=0)
    except DataError:
        return False
    return True


def _unprotected_origins(source: str) -> list[str]:
    """What images of diffusion models were made of, one of the other, as far as folders say so."""
    found: list[str] = []
    origin = _unprotected_origin(source)
    while origin is not None and origin not in found:
        found.append(origin)
        origin = _unprotected_origin(origin)
    return found


def _unprotected_origin(source: str) -> str | None:
    """The data that images of a diffusion model were made of, if its run's folder still says so.

    Args:
        source: a run, its set, or a file of that.
    """
    place = Path(source)
    for folder in (place, place.parent, place.parent.parent):
        files = [folder / each for each in (CERTIFICATE, CONFIG)]
        if not all(each.is_file() for each in files):
            continue
        certificate, config = (each.read_text("utf-8", "replace") for each in files)
        if PUBLIC_SCHEMA in certificate:
            try:
                return str(json.loads(config)["config"]["data"]["source"])
            except WRONG_VALUES:
                return None
    return None


def released_sources(choice: DataChoice) -> tuple[str, ...]:
    """Name those of public, test and synthetic rows that are a private release themselves."""
    sources = {**choice.parts, "synthetic": choice.synthetic}
    return tuple(
        name for name, source in sources.items() if isinstance(source, str) and is_release(source)
    )


def released_rows(name: str) -> str:
    """Put into words for a certificate that such rows are a private release."""
    return f"{name} rows that are a private release: its ε adds to this one if it was of these rows"


def released_note(name: str) -> str:
    """Say the same to whoever started the run."""
    return (
        f"The {name} rows are a private release themselves: if it was of these private rows, its "
        "ε adds to this run's."
    )


def is_release(source: str) -> bool:
    """Whether a certificate lies in a set's file, in its folder, or in that of its run."""
    place = Path(source)
    files = [each / CERTIFICATE for each in (place, place.parent, place.parent.parent)]
    found = [each.read_text("utf-8", "replace") for each in files if each.is_file()]
    if place.suffix.lower() == ".npz" and place.is_file():
        found.append(read_text(place, "certificate") or "")
    return any('"epsilon"' in each for each in found)
