"""A classifier of synthetic images, by hard labels and by soft ones."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.optim import Sharpness
from privet.share import ClassifierTraining, train_classifier

CONFIG = ClassifierTraining(epochs=6, batch_size=20, learning_rate=0.02, shift=0, pixel_noise=0.0)


@pytest.fixture
def greys():
    """Dark and bright images."""
    labels = torch.arange(80) % 2
    noise = torch.randint(0, 90, (80, 4, 4, 1), generator=torch.Generator().manual_seed(0))
    return (noise + 150 * labels[:, None, None, None]).byte(), labels


def trained(images, labels, config=CONFIG):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    train_classifier(network, images, labels, config)
    with torch.no_grad():
        return network(images.movedim(3, 1).float() / 127.5 - 1).softmax(1)


def test_hard_labels_are_learned(greys):
    images, labels = greys
    assert (trained(images, labels).argmax(1) == labels).all()


def test_soft_labels_are_learned_with_their_doubt(greys):
    """Probabilities of 0.7 are not taken for certain."""
    images, labels = greys
    soft = torch.where(nn.functional.one_hot(labels, 2) > 0, 0.7, 0.3)
    found = trained(images, soft)
    assert (found.argmax(1) == labels).all()
    assert 0.6 < float(found.max(1).values.mean()) < 0.8


def test_probabilities_may_be_in_double(greys):
    images, labels = greys
    soft = nn.functional.one_hot(labels, 2).double()
    assert (trained(images, soft).argmax(1) == labels).all()


def test_what_is_no_target_is_refused(greys):
    images, labels = greys
    for bad in (labels[:-1], torch.ones(80, 2, 2), torch.full((80, 2), torch.nan)):
        with pytest.raises(ConfigError, match="Labels are"):
            trained(images, bad)


def test_steps_are_told(greys):
    told = []
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    train_classifier(network, *greys, CONFIG, lambda done, total: told.append((done, total)))
    assert told == [(step, 24) for step in range(1, 25)]


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "sgd", "weight_decay": 0.0},
        {"sharpness": Sharpness(kind="sam", radius=0.05)},
        {"sharpness": Sharpness(kind="gsam", radius=0.05, least_radius=0.02, alpha=0.04)},
    ],
)
def test_other_ways_learn_too(greys, changes):
    images, labels = greys
    assert (trained(images, labels, replace(CONFIG, **changes)).argmax(1) == labels).all()


def test_sharpness_changes_the_way(greys):
    plain, flat = (
        trained(*greys, replace(CONFIG, sharpness=sharpness))
        for sharpness in (None, Sharpness(kind="sam", radius=0.5))
    )
    assert not torch.allclose(plain, flat)


def test_a_radius_falls_with_the_learning_rate():
    sharpness = Sharpness(radius=0.05, least_radius=0.02)
    assert [sharpness.at(share).radius for share in (0.0, 0.5, 1.0)] == [0.02, 0.035, 0.05]
    assert Sharpness(radius=0.05).at(0.0).radius == 0.05
    with pytest.raises(ConfigError, match="least_radius"):
        Sharpness(radius=0.05, least_radius=0.1)


def test_frozen_norms_stay_as_they_were(greys):
    network = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(16, 2))
    before = {name: each.clone() for name, each in network[0].state_dict().items()}
    train_classifier(network, *greys, replace(CONFIG, freeze_norms=True))
    assert all(torch.equal(each, before[name]) for name, each in network[0].state_dict().items())
    train_classifier(network, *greys, CONFIG)
    assert not torch.equal(network[0].running_mean, before["running_mean"])


@pytest.mark.parametrize(
    ("images", "epochs"), [(10, 100), (1000, 100), (10_000, 30), (12_500, 27), (90_000, 10)]
)
def test_published_epochs_follow_the_size_of_the_set(images, epochs):
    """SPS, Table 12."""
    published = ClassifierTraining.as_published(images)
    assert (published.epochs, published.batch_size, published.learning_rate) == (epochs, 256, 1e-5)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ConfigError, match="'adamw' or 'sgd'"):
        ClassifierTraining(optimizer="lion")
