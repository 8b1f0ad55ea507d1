"""Classifiers that people use, taught by images of two shades."""

from dataclasses import replace

import pytest
import torch

from privet.errors import ConfigError, DataError
from privet.models import ConvEncoder
from privet.share import ClassifierTraining
from privet.share.panel import PANEL, Lesson, ensemble, taught, taught_network, with_head

QUICK = ClassifierTraining(epochs=4, batch_size=20, shift=0, pixel_noise=0.0)


def greys(count, seed):
    labels = torch.arange(count) % 2
    noise = torch.randint(0, 60, (count, 8, 8, 1), generator=torch.Generator().manual_seed(seed))
    return (noise + 180 * labels[:, None, None, None]).byte(), labels


@pytest.fixture
def lesson():
    return Lesson(*greys(80, 0), 3)  # a class of which there are no images


@pytest.mark.parametrize("name", PANEL)
def test_every_classifier_learns(name, lesson):
    images, labels = greys(20, 1)
    found = taught(name, lesson, QUICK)(images)
    assert found.shape == (20, 3)
    assert torch.allclose(found.sum(1), torch.ones(20), atol=1e-5)
    assert (found.argmax(1) == labels).float().mean() > 0.9


def test_a_pretrained_encoder_is_fine_tuned(lesson):
    body = ConvEncoder(1, widths=(4, 8))
    before = body.layers[0][0].weight.detach().clone()
    longer = replace(QUICK, epochs=20, learning_rate=0.02)
    judge = taught_network(lambda shape, classes: with_head(body, classes), lesson, longer)
    assert (judge(lesson.images).argmax(1) == lesson.labels).float().mean() > 0.9
    assert not torch.equal(body.layers[0][0].weight, before)


def test_an_ensemble_is_the_mean_of_its_members(lesson):
    images, _ = greys(6, 2)
    seen = []

    def teach(training):
        judge = taught("cnn", lesson, training)
        seen.append(judge(images))
        return judge

    together = ensemble(3, teach, QUICK)(images)
    assert len(seen) == 3
    assert not torch.equal(seen[0], seen[1])
    assert torch.allclose(together, torch.stack(seen).mean(0))


def test_seeds_decide_and_global_randomness_does_not(lesson):
    torch.manual_seed(3)
    first = taught("conv-net", lesson, QUICK)(lesson.images)
    torch.manual_seed(4)
    assert torch.equal(first, taught("conv-net", lesson, QUICK)(lesson.images))


def test_what_cannot_be_taught():
    images, _ = greys(20, 0)
    alone = Lesson(images, torch.zeros(20, dtype=torch.long), 2)
    with pytest.raises(DataError, match="two classes"):
        taught("logistic", alone)
    with pytest.raises(ConfigError, match="choose logistic, mlp, cnn"):
        taught("forest", alone)
    with pytest.raises(ConfigError, match="1 or more"):
        ensemble(0, lambda training: None, QUICK)
