"""Names for what fills the slots of equation 1, as configurations save them and people type them.

`--views augmented:num_views=16,flip=false` and {"kind": "augmented", "num_views": 16, ...} are the
same value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privet.augment import CropFlip
from privet.learn import (
    SGD,
    Adam,
    Ascent,
    AsIs,
    Augmented,
    LastPrivate,
    MaskedWords,
    Mirror,
    Mixed,
    NoOrigin,
    PublicMoments,
    PublicOrigin,
    RandomDirections,
    Unperturbed,
    Unscaled,
)
from privet.learn.origins import Origin
from privet.learn.perturbations import Perturbation
from privet.learn.scales import Scale
from privet.learn.updates import Update
from privet.learn.views import Views
from privet.recipes.forms import Forms, Kind
from privet.recipes.model import Model
from privet.recipes.models import MODELS
from privet.recipes.row_kinds import SLOTS as ROW_SLOTS

_BASES = {"sgd": Kind(SGD), "adam": Kind(Adam)}

FORMS = Forms(
    {
        Views: {
            "plain": Kind(AsIs),
            "augmented": Kind(Augmented),
            "mixed": Kind(Mixed),
            "masked": Kind(MaskedWords),
        },
        Perturbation: {
            "none": Kind(Unperturbed),
            "sam": Kind(Ascent, {"adaptive": False}),
            "asam": Kind(Ascent, {"adaptive": True}),
            "random": Kind(RandomDirections),
        },
        Scale: {"none": Kind(Unscaled), "public-moments": Kind(PublicMoments)},
        Origin: {
            "none": Kind(NoOrigin),
            "public": Kind(PublicOrigin),
            "last": Kind(LastPrivate),
        },
        Update: {**_BASES, "mirror": Kind(Mirror)},
        SGD | Adam: _BASES,
        Model: MODELS,
        **ROW_SLOTS,
    }
)

_SLOTS: Mapping[str, Any] = {
    "views": Views,
    "perturb": Perturbation,
    "scale": Scale,
    "origin": Origin,
    "update": Update,
}
SLOT_NAMES = tuple(_SLOTS)


def read_slot(name: str, text: str, augment: CropFlip) -> Any:
    """Read what an option such as `--views` puts into its slot.

    Args:
        name: the slot's name.
        text: what was typed; a whole number of views means as many augmentations.
        augment: the augmentation that views start from; keys change it.
    """
    if name == "views" and text.removeprefix("-").isdecimal():
        text = f"augmented:num_views={text}"
    return FORMS.read(_SLOTS[name], text, f"--{name}", {CropFlip: augment})


def slot_text(name: str, value: Any) -> str:
    """Write a slot as one would type it."""
    return _text(FORMS.plain(_SLOTS[name], value))


def model_text(model: Model) -> str:
    """Write a model as one would type it."""
    body = FORMS.plain(Model, model)
    return str(body["folder"]) if "folder" in body else _text(body)


def _text(body: Mapping[str, Any]) -> str:
    kind, *settings = _flat(body)
    return f"{kind}:{','.join(settings)}" if settings else kind


def _flat(body: Mapping[str, Any]) -> list[str]:
    words = []
    for key, value in body.items():
        if isinstance(value, Mapping):
            kind, *rest = _flat(value) if "kind" in value else [None, *_flat(value)]
            words += [*([f"{key}={kind}"] if kind else []), *rest]
        elif value not in (None, []):
            words.append(value if key == "kind" else f"{key}={_word(value)}")
    return words


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "-".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
