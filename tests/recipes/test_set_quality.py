"""Quality of a synthetic set: what is better scores better."""

import pytest
import torch

from privet.errors import DataError
from privet.public import PublicRows
from privet.recipes.set_quality import set_quality
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


def test_noise_is_worse_by_every_measure(real):
    some = digits().select(torch.arange(500))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(256, some.inputs.shape, generator=generator, dtype=torch.uint8)
    found = measured(PublicRows(noise, some.targets))
    assert found.frechet > 3 * real.frechet
    assert found.precision < 0.1
    assert found.cas < 0.5
    assert found.memorisation is None


def test_wrong_labels_show_in_the_score_alone(real):
    some = digits().select(torch.arange(500))
    found = measured(PublicRows(some.inputs, some.targets.roll(1)))
    assert found.frechet == pytest.approx(real.frechet)
    assert found.cas < 0.5


def test_what_is_too_small_is_refused():
    with pytest.raises(DataError, match="fewer than four"):
        measured(digits().select(torch.arange(3)))
