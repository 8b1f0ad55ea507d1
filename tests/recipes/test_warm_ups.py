"""Kinds of warm-up by name."""

import pytest

from privet.augment import CropFlip
from privet.errors import ConfigError
from privet.optim import Sharpness
from privet.public import WarmUp
from privet.public.adversary import Adversary
from privet.recipes.warm_ups import warm_up_steps, warm_up_views

COMMON = CropFlip(padding=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sgd", {}),
        ("sam", {"sharpness": Sharpness()}),
        ("asam:radius=0.5", {"sharpness": Sharpness(kind="asam", radius=0.5)}),
        ("gsam:alpha=0.1", {"sharpness": Sharpness(kind="gsam", alpha=0.1)}),
        ("pgd:radius=0.03,steps=3", {"adversary": Adversary(radius=0.03, steps=3)}),
    ],
)
def test_steps(text, expected):
    assert warm_up_steps(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {"augment": COMMON}),
        ("none", {"augment": None}),
        ("common", {"augment": COMMON}),
        ("cutout", {"augment": CropFlip(padding=4, cutout=16)}),
        ("cutmix", {"augment": COMMON, "cutmix": True}),
        ("auto", {"augment": COMMON, "auto_augment": True}),
    ],
)
def test_views(text, expected):
    assert warm_up_views(text, WarmUp(), COMMON) == expected


@pytest.mark.parametrize("text", ["adam", "sam:speed=3", "sam:radius=-1", "pgd:steps=0"])
def test_steps_that_are_none_are_refused(text):
    with pytest.raises(ConfigError):
        warm_up_steps(text)


def test_views_that_are_none_are_refused():
    with pytest.raises(ConfigError, match="choose none, common"):
        warm_up_views("blur", WarmUp(), COMMON)
    with pytest.raises(ConfigError, match="Only images have views"):
        warm_up_views("cutout", WarmUp(augment=None), COMMON)
    assert warm_up_views("none", WarmUp(augment=None), COMMON) == {"augment": None}
