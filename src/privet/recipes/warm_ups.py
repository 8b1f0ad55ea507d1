"""Kinds of warm-up by name: how it steps, and what it sees of images (IDS, Tables 3 and 16)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from privet.augment import CropFlip
from privet.errors import ConfigError
from privet.optim import Sharpness
from privet.public import WarmUp
from privet.public.adversary import Adversary
from privet.recipes.forms import Forms, Kind
from privet.recipes.presets import named

_HIDDEN = 4  # times the furthest shift is half the side, as Cutout's square on CIFAR-10


@dataclass(frozen=True)
class _Plain:
    """Plain steps, along the gradient."""


_Steps = _Plain | Sharpness | Adversary
_FORMS = Forms(
    {
        _Steps: {
            "sgd": Kind(_Plain),
            "sam": Kind(Sharpness, {"kind": "sam"}),
            "asam": Kind(Sharpness, {"kind": "asam"}),
            "gsam": Kind(Sharpness, {"kind": "gsam"}),
            "pgd": Kind(Adversary),
        }
    }
)
_VIEWS: dict[str, dict[str, Any]] = {
    "none": {},
    "common": {},
    "cutout": {},
    "cutmix": {"cutmix": True},
    "auto": {"auto_augment": True},
}


def warm_up_steps(text: str) -> dict[str, Any]:
    """Read the settings of a warm-up that `--warm-up-steps` stands for."""
    found = _FORMS.read(_Steps, text, "--warm-up-steps")
    if isinstance(found, Sharpness):
        return {"sharpness": found}
    return {"adversary": found} if isinstance(found, Adversary) else {}


def warm_up_views(text: str | None, preset: WarmUp, common: CropFlip) -> dict[str, Any]:
    """Read the settings of a warm-up that `--warm-up-augment` stands for.

    Args:
        text: what was typed; None takes what is usual.
        preset: the preset's warm-up, whose augmentation is None where inputs are no images.
        common: shifts and mirrors that suit these images.
    """
    if preset.augment is None:
        if text not in (None, "none"):
            raise ConfigError(
                "Only images have views: leave out --warm-up-augment, or choose a --model that "
                "sees images."
            )
        return {"augment": None}
    name = named(_VIEWS, text or "common", "--warm-up-augment")
    hidden = replace(common, cutout=_HIDDEN * common.padding)
    views = {"none": None, "cutout": hidden}.get(name, common)
    return {"augment": views, **_VIEWS[name]}
