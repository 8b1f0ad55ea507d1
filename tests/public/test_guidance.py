"""Discriminator guidance: it finds what is missing, and pulls towards it."""

import pytest
import torch
from torch import nn

from privet.errors import ConfigError, DataError
from privet.models.noisy_classifier import NoisyClassifier, NoisyDiscriminator
from privet.public import DiffusionTraining, Edm, Heun, PublicRows, train_at_noise_levels
from privet.public.guidance import (
    ClassifierTask,
    DiscriminatorGuidance,
    DiscriminatorTask,
    Levels,
    real_and_synthetic,
)

SHAPE = (8, 8, 1)
QUICK = DiffusionTraining(iterations=60, batch_size=32, learning_rate=3e-3, augment=None)


def rows(shade, count=40):
    """Images that are grey, more or less, the second class darker than the first."""
    generator = torch.Generator().manual_seed(shade)
    labels = torch.arange(count) % 2
    noise = torch.randint(-20, 21, (count, *SHAPE), generator=generator)
    pixels = shade - 50 * labels[:, None, None, None] + noise
    return PublicRows(pixels.clamp(0, 255).to(torch.uint8), labels)


def classifier():
    torch.manual_seed(0)
    return NoisyClassifier(2, 1, widths=(8, 16))


@pytest.fixture(scope="module")
def trained():
    """A classifier, and a discriminator of light images from dark ones."""
    task = ClassifierTask(classifier())
    train_at_noise_levels(task, rows(180), QUICK)
    torch.manual_seed(0)
    network = NoisyDiscriminator(task.network, width=16)
    both = real_and_synthetic(rows(180), rows(120, 80), 2)
    train_at_noise_levels(DiscriminatorTask(network), both, QUICK)
    return task.network, network


def noised(images, sigma):
    return Levels().seen(images, torch.full((len(images),), sigma))


def test_the_classifier_knows_classes_where_noise_leaves_them(trained):
    network, _ = trained
    images = rows(180).inputs.permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        right = network(*noised(images, 0.02)).argmax(1) == rows(180).targets
    assert right.float().mean() > 0.9


def test_the_discriminator_knows_real_images_and_leaves_the_classifier_alone(trained):
    frozen, network = trained
    with torch.no_grad():
        real, made = (
            network(*noised(each.inputs.permute(0, 3, 1, 2) / 127.5 - 1, 0.05), each.targets)
            for each in (rows(180), rows(120))
        )
    assert real.mean() > made.mean() + 1
    assert not any(each.requires_grad for each in frozen.parameters())


def test_guidance_pulls_towards_real_images(trained):
    class Dark(nn.Module):
        """In EDM's frame, images around a dark grey."""

        def __init__(self):
            super().__init__()
            self.dummy = nn.Parameter(torch.zeros(()))

        def forward(self, images, noise, labels, augmentation=None):
            return torch.full_like(images, -0.3)

    model, labels = Edm(Dark()), torch.arange(6) % 2
    plain = Heun()(model, labels, SHAPE, range(6))
    unmoved = Heun()(
        model, labels, SHAPE, range(6), guidance=DiscriminatorGuidance(trained[1], weight=0)
    )
    guided = Heun()(
        model, labels, SHAPE, range(6), guidance=DiscriminatorGuidance(trained[1], weight=2)
    )
    torch.testing.assert_close(plain, unmoved)
    assert (guided.mean((1, 2, 3)) > plain.mean((1, 2, 3)) + 0.01).all()


def test_rows_are_of_both_kinds_in_equal_numbers():
    both = real_and_synthetic(rows(180, 3), rows(120, 8), 2)
    assert len(both) == 16
    assert ((both.targets < 2).sum(), (both.targets >= 2).sum()) == (8, 8)


@pytest.mark.parametrize(
    ("public", "synthetic", "match"),
    [
        (rows(180, 0), rows(120), "some of both"),
        (
            rows(180),
            PublicRows(torch.zeros(4, 7, 8, 1, dtype=torch.uint8), rows(1, 4).targets),
            "shapes",
        ),
        (rows(180), PublicRows(rows(120, 2).inputs, torch.tensor([0, 2])), "classes"),
    ],
)
def test_rows_must_fit_together(public, synthetic, match):
    with pytest.raises(DataError, match=match):
        real_and_synthetic(public, synthetic, 2)


def test_a_negative_weight_is_refused(trained):
    with pytest.raises(ConfigError, match="0 or more"):
        DiscriminatorGuidance(trained[1], weight=-1)
