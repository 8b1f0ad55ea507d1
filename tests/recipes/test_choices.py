"""What is chosen where nothing is said: near the papers' tables, and what was given stays."""

from dataclasses import replace

import pytest

from privet.augment import CropCurriculum
from privet.errors import ConfigError
from privet.privacy import Budget, Relation
from privet.recipes.choices import Situation, decided
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import DpMepf, DpMerf
from privet.recipes.releases import relative_noise
from privet.recipes.sps_settings import Sps, SpsPlus
from privet.release.pseudo_classes import pseudo_classes
from privet.synthesis import GeneratorTraining
from tests.recipes.small import hedge

CIFAR = (32, 32, 3)
LARGE = (224, 224, 3)  # where images themselves set no bound


def situation(epsilon=1.0, size=50_000.0, classes=10, shape=CIFAR):
    budget = Budget(epsilon=epsilon, delta=1e-5)
    return Situation(
        relative_noise=relative_noise(budget, Relation.ADD_REMOVE, size, classes),
        size=size,
        num_classes=classes,
        image_shape=shape,
    )


# Table 10 of SPS: [D_G, D_C] at ε = 1, 2, 4, 8.
TABLE_10 = {
    (Sps, 10): [(192, 192), (256, 256), (512, 512), (512, 512)],
    (Sps, 100): [(128, 32), (128, 32), (256, 48), (512, 64)],
    (SpsPlus, 10): [(192, 192), (256, 256), (384, 384), (512, 512)],
    (SpsPlus, 100): [(96, 96), (128, 128), (192, 192), (256, 256)],
}


@pytest.mark.parametrize("column", TABLE_10, ids=lambda column: f"{column[0].__name__}-{column[1]}")
def test_sizes_are_near_those_of_table_10(column):
    system, classes = column
    for epsilon, (d_g, d_c) in zip((1, 2, 4, 8), TABLE_10[column], strict=True):
        found = system().chosen(situation(epsilon, classes=classes, shape=LARGE)).settings
        assert 1 / 1.75 < found.global_size / d_g < 1.75
        assert 1 / 1.75 < found.class_size / d_c < 1.75


def test_other_choices_are_those_of_table_9_and_d_2():
    ten, hundred = situation(shape=LARGE), situation(classes=100, shape=LARGE)
    assert Sps().chosen(ten).settings.clip_ratios == (1 / 8,)
    assert Sps().chosen(hundred).settings.clip_ratios == (1 / 16,)
    assert [Sps().chosen(each).settings.per_class for each in (ten, hundred)] == [20, 2]
    assert Sps().chosen(ten).settings.iterations == 1000
    plus, many = (SpsPlus().chosen(each).settings for each in (ten, hundred))
    assert (plus.clip_ratios, plus.later_iterations) == ((1 / 16, 1 / 16), 500)
    assert many.clip_ratios == (1 / 16, 1 / 16, 1 / 32, 1 / 32)
    assert (plus.pseudo_count, plus.per_pseudo) == (20, 2)
    assert (many.pseudo_count, many.per_pseudo) == (200, 10)


@pytest.mark.parametrize("classes", range(1, 41))
@pytest.mark.parametrize("size", [100.0, 1e4, 1e6])
def test_pseudo_classes_can_be_made_of_any_number_of_classes(classes, size):
    import torch

    found = SpsPlus().chosen(situation(size=size, classes=classes)).settings
    if found.pseudo_count:
        generator = torch.Generator().manual_seed(0)
        pseudo_classes(classes, found.pseudo_count, found.per_pseudo, generator)
        assert classes < found.pseudo_count <= 2 * classes
    else:
        assert classes < 4


def test_small_images_have_few_numbers_and_steps():
    found = Sps().chosen(situation(10, shape=(8, 8, 1))).settings
    assert (found.global_size, found.class_size, found.iterations) == (8, 8, 200)


def test_what_was_given_stays_and_is_not_explained():
    given = SpsPlus(
        class_size=33, clip_ratios=(0.5,), iterations=7, per_class=1, view=CropCurriculum()
    )
    found = given.chosen(situation())
    assert replace(found.settings, global_size=None, pseudo_count=None, per_pseudo=None) == given
    pseudo, sizes = found.reasons
    assert pseudo.startswith("pseudo_count = 20 and per_pseudo = 2: a pseudo-class holds about")
    assert sizes.startswith("global_size = 128: noise of 0.00037 for each image of a pseudo-class")
    again = found.settings.chosen(situation())
    assert (again.settings, again.reasons) == (found.settings, ())


def test_reasons_are_one_sentence_in_words_that_override_them():
    [clip, sizes, steps] = Sps().chosen(situation()).reasons
    assert clip == "clip_ratios = 1/8: noise of 0.00075 for each image of a class."
    assert sizes == (
        "global_size = 128 and class_size = 128: noise of 0.00075 for each image of a class allows "
        "142, and 32×32 pixels 128."
    )
    assert (
        steps == "per_class = 20 and iterations = 320: batches of 200 images of 32 pixels a side."
    )
    [sizes, generator] = SpsG().chosen(situation()).reasons
    assert generator == "generator = residual: images are 32×32."
    assert sizes.startswith(
        "early = 56, middle = 56, deep = 56, pixels = 56 and shared = 241: noise of 0.00075"
    )


@pytest.mark.parametrize("system", [DpMerf, DpMepf])
def test_generators_train_longer_on_photographs(system):
    grey = system().chosen(situation(shape=(28, 28, 1)))
    assert grey.settings.generator is None
    assert grey.settings.training == GeneratorTraining(
        iterations=2000, per_class=10, learning_rate=1e-3
    )
    reason, *_ = grey.reasons
    assert reason == (
        "iterations = 2,000, per_class = 10 and learning_rate = 0.001: batches of 100 grey images "
        "of 28×28."
    )
    assert system().chosen(situation()).settings.training.iterations == 4000
    assert system().chosen(situation(classes=1)).settings.training.per_class == 100


def test_a_length_scale_is_the_median_of_public_distances():
    grey = situation(shape=(28, 28, 1))
    assert DpMerf().chosen(grey).settings.length_scale == 10
    found = DpMerf().chosen(replace(grey, median_distance=7.345))
    assert found.settings.length_scale == 7.3
    assert found.reasons[-1] == "length_scale = 7.3: the median distance between public images."


def test_a_hedge_knows_its_situation(tmp_path):
    behind = hedge(tmp_path, declared_size=60)
    found = Situation.behind(behind, 3, (8, 8, 1))
    assert found.size == 60
    assert found.relative_noise == pytest.approx(situation(2, 60, 3).relative_noise)


def test_an_open_setting_is_no_number():
    with pytest.raises(ConfigError, match="A setting is left open"):
        decided(None)


@pytest.mark.parametrize(("channels", "mirrored"), [(1, False), (3, True)])
def test_grey_images_are_not_mirrored(channels, mirrored):
    found = Sps().chosen(situation(shape=(28, 28, channels)))
    assert found.settings.optimisation(0).view.flip is mirrored
    assert any(each.startswith("flip = False") for each in found.reasons) is not mirrored
