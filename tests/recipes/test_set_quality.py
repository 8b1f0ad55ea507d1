"""Quality of a synthetic set: what is better scores better."""

import pytest
import torch

from privet.errors import DataError
from privet.measure import (
    density_and_coverage,
    kernel_distance,
    mean_discrepancy,
    median_distance,
)
from privet.public import PublicRows
from privet.recipes.set_quality import classification_accuracy_score, set_quality
from privet.share import ClassifierTraining
from tests.public.digits import digits

QUICK = ClassifierTraining(epochs=12, batch_size=32)


def pixels(images):
    return images.flatten(1)


def measured(synthetic, **settings):
    test = digits().select(torch.arange(1200, 1700))
    return set_quality(synthetic, test, extractor=pixels, name="pixels", training=QUICK, **settings)


@pytest.fixture(scope="module")
def real():
    return measured(digits().select(torch.arange(500)), seen=digits().select(torch.arange(500)))


def test_real_images(real):
    assert real.cas > 0.8
    assert real.precision > 0.6
    assert real.recall > 0.6
    assert real.memorisation == 1.0  # they are what was seen
    assert (real.extractor, real.images) == ("pixels", 500)
    assert real.to_json()["frechet"] == real.frechet
    assert real.kid < 0.1  # of other writers, so that it is above 0
    assert (real.kid_subsets, real.kid_subset_size) == (100, 250)
    assert real.density > 0.5
    assert real.coverage > 0.6
    assert abs(real.mmd) < 0.01


def test_figures_are_those_of_the_measures(real):
    """In the order real, synthetic; the order of rows does not matter to these."""
    made, test = (
        digits().select(torch.arange(*rows)).inputs.flatten(1).double() / 127.5 - 1
        for rows in ((500,), (1200, 1700))
    )
    assert (real.density, real.coverage) == pytest.approx(density_and_coverage(test, made))
    assert real.mmd_length_scale == pytest.approx(median_distance(test), rel=1e-5)
    assert real.mmd == pytest.approx(mean_discrepancy(test, made), rel=1e-3)
    assert real.kid == pytest.approx(kernel_distance(test, made).mean, abs=real.kid_std)


def test_the_worst_class_has_a_number(real):
    assert real.cas_by_class[real.cas_worst] == real.cas_worst_class == min(real.cas_by_class)


def test_noise_is_worse_by_every_measure(real):
    some = digits().select(torch.arange(500))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(256, some.inputs.shape, generator=generator, dtype=torch.uint8)
    found = measured(PublicRows(noise, some.targets))
    assert found.frechet > 3 * real.frechet
    assert found.kid > 10 * real.kid
    assert found.mmd > 0.1
    assert found.precision < 0.1
    assert found.density < 0.1
    assert found.coverage < 0.1
    assert found.cas < 0.5
    assert found.memorisation is None


def test_wrong_labels_show_in_the_score_alone(real):
    some = digits().select(torch.arange(500))
    found = measured(PublicRows(some.inputs, some.targets.roll(1)))
    assert found.frechet == pytest.approx(real.frechet)
    assert found.cas < 0.5


def test_the_training_of_the_cnn_is_told():
    told = []
    some = digits().select(torch.arange(64))
    quick = ClassifierTraining(epochs=2, batch_size=32)
    score = classification_accuracy_score(some, some, quick, 10, lambda *step: told.append(step))
    assert score is not None
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_what_is_too_small_is_refused():
    with pytest.raises(DataError, match="fewer than 6"):
        measured(digits().select(torch.arange(5)))
