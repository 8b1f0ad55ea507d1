"""Which public rows taught an encoder: its file says so, for other runs may protect those rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from privet.data.guard import shown
from privet.errors import DataError, PrivacyError
from privet.paths import overlap
from privet.recipes.encoders import EncoderChoice, Saved, choices_of, encoder_files
from privet.runs.aside import digest_of
from privet.runs.data_choice import DataChoice, placed
from privet.runs.encoder_cache import SCHEMA as CACHED

_TAUGHT_BY = "privet.taught_by"  # one key: the order of several changes from file to file


class _Teachers(NamedTuple):
    """Where rows lie that taught an encoder, and a digest of them; empty if it was all of them."""

    place: str
    rows: str = ""


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
    if isinstance(public, str):
        teachers = _Teachers(placed(public))
    else:
        teachers = _Teachers(placed(choice.source), digest_of("public", choice.aside))
    origin = {_TAUGHT_BY: json.dumps(teachers)}
    choices = choices_of(encoder)
    names = encoder_files(len(choices))
    return {name: origin for name, each in zip(names, choices, strict=True) if each.needs_public}


def places_of(encoder: EncoderChoice, source: str) -> tuple[str, ...]:
    """Where rows lie that taught encoders of earlier runs, all of them; but for this run's source.

    A share of a source is left out: its run set the share aside, and no run of the same split
    protects it.
    """
    saved = (_teachers(each) for each in choices_of(encoder) if isinstance(each, Saved))
    places = dict.fromkeys(each.place for each in saved if each is not None and not each.rows)
    return tuple(place for place in places if place != source)


def refuse_taught(encoder: EncoderChoice, choice: DataChoice) -> None:
    """Refuse the file of an encoder that rows taught which this run protects.

    Args:
        encoder: an encoder, or several.
        choice: where the rows of this run come from.
    """
    private = placed(choice.source)
    for each in choices_of(encoder):
        if not isinstance(each, Saved):
            continue
        if each.origin.get("schema") == CACHED:
            raise PrivacyError(
                f"{shown(each.file)} is of the cache, and nobody knows whether private rows taught "
                "it: give the encoder.safetensors of a run, or leave out --encoder."
            )
        teachers = _teachers(each)
        if teachers is None or not overlap(teachers.place, private):
            continue
        own = _Teachers(private, digest_of("public", choice.aside))
        if not teachers.rows or teachers != own:
            raise PrivacyError(
                f"{shown(each.file)} learned from rows of the private data that were public in "
                "its run: give the same --public, --test, --seed, --resize and --channels as "
                "there, or another --encoder."
            )


def _teachers(encoder: Saved) -> _Teachers | None:
    said = encoder.origin.get(_TAUGHT_BY)
    try:
        return None if said is None else _Teachers(*map(str, json.loads(said)))
    except (ValueError, TypeError):
        raise DataError(
            f"{shown(encoder.file)} does not say what taught it: give another."
        ) from None
