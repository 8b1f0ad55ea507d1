"""What runs start from: every method at every preset, and the study's own settings."""

import pytest

from privet.augment import CropFlip
from privet.learn import Augmented, Method, Mirror, Mixed
from privet.learn.views import AsIs
from privet.recipes.presets import METHODS, PRESETS


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_made(preset, name):
    made = PRESETS[preset](1.0, 10)
    for each in (made, made.on_features()):
        assert isinstance(each.method(name, CropFlip()), Method)


def test_many_images_start_from_the_settings_of_the_study():
    preset = PRESETS["cpu-large"](1.0, 10)
    augment = CropFlip()
    dope, mirror = (preset.method(name, augment) for name in ("dope", "mirror"))
    assert isinstance(dope.views, AsIs)
    assert dope.update.momentum == mirror.update.base.momentum == 0.9
    assert isinstance(mirror.update, Mirror)
    mixed = preset.method("dp-mix", augment).views
    assert isinstance(mixed, Mixed)
    assert (mixed.num_base, mixed.num_self) == (2, 2)


def test_views_follow_the_preset():
    made = {name: make(1.0, 10) for name, make in PRESETS.items()}
    views = {name: each.method("dp-sgd", CropFlip()).views for name, each in made.items()}
    assert {name: each.num_views for name, each in views.items()} == {
        "cpu": 4,
        "cpu-large": 1,
        "paper": 16,
    }
    assert isinstance(views["paper"], Augmented)


def test_a_head_on_features_has_one_view_and_no_augmentation():
    for make in PRESETS.values():
        preset = make(1.0, 10).on_features()
        assert preset.num_views == preset.num_perturbations == 1
        assert preset.warm_up.augment is None


def test_a_hundred_classes_have_tables_of_their_own():
    """IDS, Tables 11 and 12."""
    found = {epsilon: PRESETS["paper"](epsilon, 100) for epsilon in (1, 2, 6, 10)}
    assert [each.epochs for each in found.values()] == [25, 50, 75, 75]
    assert [each.learning_rate for each in found.values()] == [0.5, 0.5, 1, 1]
    assert [each.radius for each in found.values()] == [0.1, 0.1, 0.05, 0.05]
    warm_up = found[1].warm_up
    assert (warm_up.batch_size, warm_up.epochs, warm_up.learning_rate) == (64, 200, 0.1)
    assert PRESETS["paper"](10, 10).fitted_to == 6
    assert PRESETS["paper"](10, 100).fitted_to is None
