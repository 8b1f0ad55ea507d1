"""Which public rows taught an encoder: its file says so, for other runs may protect those rows."""

from __future__ import annotations

from collections.abc import Mapping

from privet.data.guard import shown
from privet.errors import PrivacyError
from privet.paths import overlap
from privet.recipes.encoders import EncoderChoice, Saved, choices_of, encoder_files
from privet.runs.aside import digest_of
from privet.runs.data_choice import DataChoice, placed
from privet.runs.encoder_cache import SCHEMA as CACHED

_PLACE, _ROWS = "privet.taught_by", "privet.taught_rows"


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
        origin = {_PLACE: placed(public)}
    else:
        origin = {_PLACE: placed(choice.source), _ROWS: digest_of("public", choice.aside)}
    choices = choices_of(encoder)
    names = encoder_files(len(choices))
    return {name: origin for name, each in zip(names, choices, strict=True) if each.needs_public}


def places_of(encoder: EncoderChoice, source: str) -> tuple[str, ...]:
    """Where rows lie that taught encoders of earlier runs, but for the source of this one."""
    saved = (each for each in choices_of(encoder) if isinstance(each, Saved))
    places = dict.fromkeys(each.origin.get(_PLACE, source) for each in saved)
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
        origin = each.origin
        place, rows = origin.get(_PLACE), origin.get(_ROWS)
        if origin.get("schema") == CACHED:
            raise PrivacyError(
                f"{shown(each.file)} is of the cache, and nobody knows whether private rows taught "
                "it: give the encoder.safetensors of a run, or leave out --encoder."
            )
        if place is None or not overlap(place, private):
            continue
        if not rows or place != private or rows != digest_of("public", choice.aside):
            raise PrivacyError(
                f"{shown(each.file)} learned from rows of the private data that were public in "
                "its run: give the same --public, --test, --seed, --resize and --channels as "
                "there, or another --encoder."
            )
