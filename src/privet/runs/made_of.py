"""What the files around a set say of how it was made: by a release, or by diffusion of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from privet.data.npz import read_text
from privet.errors import DataError
from privet.plain_json import WRONG_VALUES
from privet.privacy.certificate import PUBLIC_SCHEMA
from privet.runs.run_folder import CERTIFICATE, CONFIG


class MadeOf(NamedTuple):
    """What images of a diffusion model were made of, without privacy.

    Args:
        places: where those rows lie, and the rows that those were made of, and so on.
        known: whether that is all: an exported set does not say where its owner's rows lie.
    """

    places: tuple[str, ...] = ()
    known: bool = True


def made_of(source: str) -> MadeOf:
    """Follow a set to what it was made of, as far as files around it say so.

    Args:
        source: a run, its set, or a file of that; a set that no diffusion model made is made of
            nothing.
    """
    places: list[str] = []
    place: str | None = source
    while place is not None:
        known, place = _made_of(place)
        if not known or place in places:
            return MadeOf(tuple(places), known)
        if place is not None:
            places.append(place)
    return MadeOf(tuple(places))


def is_release(source: str) -> bool:
    """Whether a certificate lies in a set's file, in its folder, or in that of its run."""
    return any('"epsilon"' in certificate for _, certificate in _certificates(Path(source)))


def _made_of(source: str) -> tuple[bool, str | None]:
    """Whether it is known what a set was made of, and of what; of None if of nothing."""
    found = [folder for folder, text in _certificates(Path(source)) if PUBLIC_SCHEMA in text]
    for folder in found:
        try:
            config = json.loads((folder / CONFIG).read_text("utf-8", "replace"))
            return True, str(config["config"]["data"]["source"])
        except (OSError, *WRONG_VALUES):
            continue
    return not found, None


def _certificates(place: Path) -> Iterator[tuple[Path, str]]:
    """Certificates, each with the folder that it lies in."""
    for folder in (place, place.parent, place.parent.parent):
        if (folder / CERTIFICATE).is_file():
            yield folder, (folder / CERTIFICATE).read_text("utf-8", "replace")
    if place.suffix.lower() == ".npz" and place.is_file():
        with suppress(DataError):  # who loads it will say what is wrong with it
            yield place, read_text(place, "certificate") or ""
