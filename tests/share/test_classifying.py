"""A classifier of synthetic images, by hard labels and by soft ones."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.share import ClassifierTraining, train_classifier

CONFIG = ClassifierTraining(epochs=6, batch_size=20, learning_rate=0.02, shift=0, pixel_noise=0.0)


@pytest.fixture
def greys():
    """Dark and bright images."""
    labels = torch.arange(80) % 2
    noise = torch.randint(0, 90, (80, 4, 4, 1), generator=torch.Generator().manual_seed(0))
    return (noise + 150 * labels[:, None, None, None]).byte(), labels


def trained(images, labels):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    train_classifier(network, images, labels, CONFIG)
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
