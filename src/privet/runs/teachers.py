"""Which public rows taught an encoder: its file says so, for other runs may protect those rows."""

from __future__ import annotations

from privet.data.guard import shown
from privet.errors import PrivacyError
from privet.paths import overlap
from privet.recipes.encoders import EncoderChoice, Saved, choices_of
from privet.runs.aside import digest_of
from privet.runs.data_choice import DataChoice, placed
from privet.runs.encoder_cache import SCHEMA as CACHED

_PLACE, _ROWS = "privet.taught_by", "privet.taught_rows"


def origin_of(
    encoder: EncoderChoice, choice: DataChoice, encoder_data: str | None = None
) -> dict[str, str]:
    """Make what an encoder's file says of itself: where its rows lie, and which if not all.

    Args:
        encoder: what learns; nothing is said of one that takes no public rows.
        choice: where the rows of its run come from.
        encoder_data: another place of public rows that teach it; None for none.
    """
    public = choice.parts["public"] if encoder_data is None else encoder_data
    if not encoder.needs_public or not public:
        return {}
    if isinstance(public, str):
        return {_PLACE: placed(public)}
    return {_PLACE: placed(choice.source), _ROWS: digest_of("public", choice.aside)}


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
                "its run: give the same --public, --test and --seed as there, or another --encoder."
            )
