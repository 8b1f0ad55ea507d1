"""Balanced random groups of classes."""

import math

import pytest
import torch

from privet.errors import ConfigError
from privet.release.pseudo_classes import pseudo_classes


def drawn(*numbers, seed=0):
    return pseudo_classes(*numbers, torch.Generator().manual_seed(seed))


def possible():
    """All numbers that fit up to six classes, and the settings of SPS+ (SPS, D.2)."""
    for num_classes in range(1, 7):
        for per_group in range(1, num_classes + 1):
            step = num_classes // math.gcd(num_classes, per_group)
            for count in range(step, math.comb(num_classes, per_group) + 1, step):
                yield num_classes, count, per_group
    yield from [(10, 20, 2), (10, 40, 2), (10, 45, 2), (100, 200, 10), (7, 21, 3), (10, 246, 5)]


@pytest.mark.parametrize("numbers", list(possible()), ids=str)
def test_balanced_different_and_of_full_rank(numbers):
    num_classes, count, per_group = numbers
    matrix = drawn(*numbers)
    assert matrix.shape == (num_classes, count)
    assert matrix.dtype == torch.float32
    assert ((matrix == 0) | (matrix == 1)).all()
    assert (matrix.sum(0) == per_group).all()
    assert (matrix.sum(1) == count * per_group / num_classes).all()
    assert len(set(map(tuple, matrix.T.tolist()))) == count
    # Four pairs of four classes make a square, which cannot tell two pairs of classes apart.
    full = 3 if numbers == (4, 4, 2) else min(num_classes, count)
    assert int(torch.linalg.matrix_rank(matrix.double())) == full


def test_the_generator_decides():
    first, again, other = (drawn(10, 20, 2, seed=seed) for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_every_group_is_about_equally_likely():
    """Ten pairs of five classes, five at a time: each in half of all draws."""
    pairs = torch.zeros(5, 5)
    for seed in range(400):
        matrix = drawn(5, 5, 2, seed=seed)
        pairs += matrix @ matrix.T
    shares = pairs[torch.triu(torch.ones(5, 5), 1) > 0] / 400
    assert (shares - 0.5).abs().max() < 0.1  # four deviations


def test_one_class_each_is_the_classes_themselves():
    assert drawn(6, 6, 1).sort(0).values.equal(torch.eye(6).sort(0).values)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((10, 46, 2), "more pseudo-classes than classes allow: 10 classes make 45 different"),
        ((10, 12, 2), "give 10 or 15 pseudo-classes"),
        ((10, 3, 3), "give 10 pseudo-classes"),
        ((10, 5, 11), "holds 1 to 10 classes, not 11"),
        ((10, 5, 0), "holds 1 to 10 classes, not 0"),
        ((10, 0, 2), "at least one pseudo-class"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(numbers, message):
    with pytest.raises(ConfigError, match=message):
        drawn(*numbers)
