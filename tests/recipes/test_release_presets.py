"""Presets of releases against the tables that they come from."""

import pytest

from privet.errors import ConfigError
from privet.recipes.choices import Situation
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import DpMepf, DpMerf
from privet.recipes.release_presets import auto, paper
from privet.recipes.sps_settings import Sps, SpsPlus


def situation(classes=10, shape=(32, 32, 3)):
    return Situation(relative_noise=1e-3, size=5e4, num_classes=classes, image_shape=shape)


def sizes(settings):
    return settings.global_size, settings.class_size


def test_auto_leaves_everything_open():
    assert auto(Sps(), situation(), 1.0).settings == Sps()


@pytest.mark.parametrize(
    ("system", "classes", "epsilon", "expected"),
    [
        (Sps(), 10, 1.0, (192, 192)),
        (Sps(), 10, 3.1, (512, 512)),
        (Sps(), 100, 8.0, (512, 64)),
        (SpsPlus(), 10, 4.0, (384, 384)),
        (SpsPlus(), 100, 0.1, (96, 96)),
    ],
)
def test_table_10(system, classes, epsilon, expected):
    assert sizes(paper(system, situation(classes), epsilon).settings) == expected


def test_table_9_and_d_2():
    found = paper(Sps(), situation(), 1.0)
    s = found.settings
    assert (s.clip_ratios, s.class_layers, s.class_weight) == ((1 / 8,), 3, 30)
    assert (s.cleaning.jitter, s.iterations, s.learning_rate, s.per_class) == (2, 1000, 0.25, 20)
    assert found.reasons == ("Settings are those of the SPS paper for CIFAR-10 at ε = 1.",)
    assert paper(Sps(), situation(100), 1.0).settings.clip_ratios == (1 / 16,)
    plus = paper(SpsPlus(), situation(), 1.0).settings
    assert (plus.pseudo_count, plus.per_pseudo) == (40, 2)
    assert (plus.clip_ratios, plus.later_iterations) == ((1 / 16, 1 / 16), 500)
    many = paper(SpsPlus(), situation(100), 8.0).settings
    assert (many.pseudo_count, many.per_pseudo, many.class_layers) == (200, 10, 5)
    assert many.clip_ratios == (1 / 16, 1 / 16, 1 / 32, 1 / 32)
    assert many.per_class == 2
    assert paper(SpsPlus(), situation(2), 1.0).settings.pseudo_count == 0


@pytest.mark.parametrize(
    ("system", "classes", "shape", "epsilon", "rates", "source"),
    [
        (DpMepf(), 10, (28, 28, 1), 1.0, (1e-5, 1e-4), "MNIST"),
        (DpMepf(), 10, (32, 32, 3), 10.0, (1e-3, 3e-4), "labelled CIFAR-10 at ε = 10"),
        (DpMepf(second=False), 10, (32, 32, 3), 9, (1e-3, 1e-4), "labelled CIFAR-10 at ε = 10"),
        (DpMepf(), 10, (32, 32, 3), 1.0, (1e-3, 1e-2), "labelled CIFAR-10 at ε = 1"),
        (DpMepf(), 1, (32, 32, 3), 1.0, (1e-3, 1e-3), "unlabelled CIFAR-10"),
        (DpMepf(), 1, (64, 64, 3), 0.3, (1e-3, 1e-3), "CelebA at ε = 0.2"),
        (DpMepf(second=False), 1, (64, 64, 3), 2, (3e-4, 3e-4), "CelebA at ε = 2"),
    ],
)
def test_table_7(system, classes, shape, epsilon, rates, source):
    found = paper(system, situation(classes, shape), epsilon)
    assert (found.settings.training.learning_rate, found.settings.average_rate) == rates
    assert found.reasons == (f"Settings are those of the DP-MEPF paper for {source}.",)


def test_table_8_and_b_1():
    grey = paper(DpMerf(), situation(shape=(28, 28, 1)), 1.0).settings
    assert (grey.training.iterations, grey.training.per_class, grey.size) == (100_000, 10, 10_000)
    colour = paper(DpMerf(), situation(), 1.0).settings
    assert (colour.training.iterations, colour.training.per_class) == (200_000, 13)
    assert (colour.size, colour.length_scale**2) == (50_000, pytest.approx(1000))
    assert (grey.generator, grey.latent) == ("code", 5)
    assert (colour.generator, colour.latent, colour.width) == ("residual", 100, 64)
    assert colour.training.rate(199_999) == colour.training.learning_rate


def test_no_paper_has_our_own():
    with pytest.raises(ConfigError, match="No paper has SPS-G"):
        paper(SpsG(), situation(), 1.0)
