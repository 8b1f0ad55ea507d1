"""Released moments as a classifier, and as a teacher."""

import pytest
import torch

from privet.errors import ConfigError
from privet.release import (
    Embedding,
    GaussianTarget,
    MomentDiscriminant,
    Part,
    each_class,
    everyone,
)

CLASSES = 3


def embedding(groups, positions=0):
    """Features are pixels, or pixels at several positions."""

    def features(images):
        z = images.flatten(1).float()
        return {"z": z[:, None].expand(-1, positions, -1) if positions else z}

    part = Part(name="z", source="z", size=2, groups=groups, second_weight=1.0)
    return Embedding(features=features, parts=(part,), num_classes=CLASSES, count_weight=0.1)


def targets():
    mean = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    return {"z": GaussianTarget(mean, torch.eye(2).repeat(3, 1, 1), torch.zeros(3))}


IMAGES = torch.tensor([[1, 0], [8, 1], [0, 8]])[:, :, None, None]


def test_scores_are_log_likelihoods():
    found = MomentDiscriminant.quadratic(embedding(each_class(3)), targets()).scores(IMAGES)
    expected = [
        torch.distributions.MultivariateNormal(mean, torch.eye(2)).log_prob(
            IMAGES.flatten(1).float()
        )
        for mean in targets()["z"].mean
    ]
    gaps = found - torch.stack(expected, 1)
    torch.testing.assert_close(gaps, gaps[:, :1].expand_as(gaps))


def test_positions_of_an_image_count_as_one():
    one, many = (
        MomentDiscriminant.quadratic(embedding(each_class(3), positions), targets()).scores(IMAGES)
        for positions in (0, 5)
    )
    torch.testing.assert_close(one, many)


def test_probabilities_soften_with_the_temperature():
    judge = MomentDiscriminant.quadratic(embedding(each_class(3)), targets())
    sharp, soft = judge.probabilities(IMAGES), judge.probabilities(IMAGES, temperature=30.0)
    assert sharp.argmax(1).tolist() == soft.argmax(1).tolist() == [0, 1, 2]
    assert (soft.max(1).values < sharp.max(1).values).all()
    assert judge.temperature == 1.0


def test_classes_need_moments_of_their_own():
    with pytest.raises(ConfigError, match="moments of each class"):
        MomentDiscriminant.quadratic(embedding(everyone(3)), targets())
