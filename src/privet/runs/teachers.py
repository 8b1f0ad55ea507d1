"""Which public rows taught an encoder: its file says so, for other runs may protect those rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from privet.data.guard import shown
from privet.errors import DataError, PrivacyError
from privet.paths import overlap
from privet.plain_json import WRONG_VALUES
from privet.privacy.splits import Split, digest_of
from privet.recipes.encoders import EncoderChoice, Saved, choices_of, encoder_files
from privet.runs.data_choice import DataChoice, placed
from privet.runs.encoder_cache import SCHEMA as CACHED
from privet.runs.made_of import is_release, made_of
from privet.runs.origins import Doubt, of_a_release, of_unknown_rows

_TAUGHT_BY = "privet.taught_by"  # one key: the order of several changes from file to file
_ROWS = "rows that taught the encoder"


class _Teachers(NamedTuple):
    """The rows that taught an encoder.

    Args:
        places: where they lie, and what those were made of, each with a digest of the rows; that is
            empty if it was all of them.
        released: whether they are a private release.
        known: whether it is known what they were made of.
    """

    places: tuple[tuple[str, str], ...]
    released: bool
    known: bool


Origins = Mapping[str, Mapping[str, str]]
"""What the files of encoders say of themselves, by the name of each."""


def origins_of(
    encoder: EncoderChoice, choice: DataChoice, encoder_data: str | None = None
) -> Origins:
    """Make what encoders' files say: where the rows lie that taught each, and which if not all.

    Args:
        encoder: what learns, or several; nothing is said of one that takes no public rows.
        choice: where the rows of its run come from.
        encoder_data: another place of public rows that teach it; None for none.
    """
    public = choice.parts["public"] if encoder_data is None else encoder_data
    if not public:
        return {}
    whole = isinstance(public, str)
    place = placed(public if isinstance(public, str) else choice.source)
    rows = "" if whole else digest_of("public", choice.aside)
    before = made_of(place)
    teachers = _Teachers(
        places=((place, rows), *((each, "") for each in before.places)),
        released=is_release(place),
        known=before.known,
    )
    origin = {_TAUGHT_BY: json.dumps(teachers._asdict())}
    choices = choices_of(encoder)
    names = encoder_files(len(choices))
    return {name: origin for name, each in zip(names, choices, strict=True) if each.needs_public}


def with_teachers(split: Split, encoder: EncoderChoice) -> Split:
    """Add rows that taught encoders of earlier runs to those that are not private in a run.

    A share of the run's own source is left out: `refuse_taught` compares it with what the run sets
    aside.
    """
    places = [
        (place, rows)
        for each in _saved(encoder)
        for place, rows in each[1].places
        if place != split.source
    ]
    return split.with_others(
        *(place for place, rows in places if not rows),
        shares=[(place, rows) for place, rows in places if rows],
    )


def doubts_of_teachers(encoder: EncoderChoice) -> tuple[Doubt, ...]:
    """What is taken for granted of rows that taught encoders of earlier runs."""
    found: list[Doubt] = []
    for _, teachers in _saved(encoder):
        found += [of_a_release(_ROWS)] * teachers.released
        found += [of_unknown_rows(_ROWS)] * (not teachers.known)
    return tuple(dict.fromkeys(found))


def refuse_taught(encoder: EncoderChoice, choice: DataChoice) -> None:
    """Refuse the file of an encoder that rows taught which this run protects.

    Args:
        encoder: an encoder, or several.
        choice: where the rows of this run come from.
    """
    private = placed(choice.source)
    own = (private, digest_of("public", choice.aside))
    for each, teachers in _saved(encoder):
        for place, rows in teachers.places:
            if overlap(place, private) and not (rows and (place, rows) == own):
                raise PrivacyError(
                    f"{shown(each.file)} learned from rows of the private data that were public in "
                    "its run: give the same --public, --test, --seed, --resize and --channels as "
                    "there, or another --encoder."
                )


def _saved(encoder: EncoderChoice) -> Iterator[tuple[Saved, _Teachers]]:
    """Encoders of earlier runs, and what taught each as far as its file says so."""
    for each in choices_of(encoder):
        if isinstance(each, Saved):
            yield each, _teachers(each)


def _teachers(encoder: Saved) -> _Teachers:
    origin = encoder.origin
    if origin.get("schema") == CACHED:
        raise PrivacyError(
            f"{shown(encoder.file)} is of the cache, and nobody knows whether private rows taught "
            "it: give the encoder.safetensors of a run, or leave out --encoder."
        )
    said = origin.get(_TAUGHT_BY)
    if said is None:  # nothing did, or nobody wrote it down: that it is public is declared
        return _Teachers((), released=False, known=True)
    try:
        body = json.loads(said)
        places = tuple((str(place), str(rows)) for place, rows in body["places"])
        return _Teachers(places, bool(body["released"]), bool(body["known"]))
    except WRONG_VALUES:
        raise DataError(
            f"{shown(encoder.file)} does not say what taught it: give another."
        ) from None
