"""What runs start from: every method at every preset, and the study's own settings."""

import pytest

from privet.augment import CropFlip
from privet.learn import Augmented, Method, Mirror, Mixed
from privet.learn.views import AsIs
from privet.recipes.presets import METHODS, PRESETS


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_made(preset, name):
    made = PRESETS[preset](1.0)
    for each in (made, made.on_features()):
        assert isinstance(each.method(name, CropFlip()), Method)


def test_many_images_start_from_the_settings_of_the_study():
    preset = PRESETS["cpu-large"](1.0)
    augment = CropFlip()
    dope, mirror = (preset.method(name, augment) for name in ("dope", "mirror"))
    assert isinstance(dope.views, AsIs)
    assert dope.update.momentum == mirror.update.base.momentum == 0.9
    assert isinstance(mirror.update, Mirror)
    mixed = preset.method("dp-mix", augment).views
    assert isinstance(mixed, Mixed)
    assert (mixed.num_base, mixed.num_self) == (2, 2)


def test_views_follow_the_preset():
    views = {name: make(1.0).method("dp-sgd", CropFlip()).views for name, make in PRESETS.items()}
    assert {name: each.num_views for name, each in views.items()} == {
        "cpu": 4,
        "cpu-large": 1,
        "paper": 16,
    }
    assert isinstance(views["paper"], Augmented)


def test_a_head_on_features_has_one_view_and_no_augmentation():
    for make in PRESETS.values():
        preset = make(1.0).on_features()
        assert preset.num_views == preset.num_perturbations == 1
        assert preset.warm_up.augment is None
