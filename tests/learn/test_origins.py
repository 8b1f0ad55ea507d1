"""The point around which gradients are clipped."""

import math

import pytest
import torch

from privet.errors import ConfigError
from privet.learn.gradients import PrivateGradient, PublicGradient
from privet.learn.origins import LastPrivate, NoOrigin, PublicOrigin

from .vectors import blocks, flat

PUBLIC = PublicGradient(blocks(1))
LENGTH = float(flat(PUBLIC.blocks).norm())


def test_no_origin_is_no_origin():
    assert NoOrigin().origin({}, PUBLIC) is None
    assert NoOrigin().remember({}, PrivateGradient(blocks(2))) == {}


def test_the_public_gradient_is_the_origin():
    assert torch.equal(flat(PublicOrigin().origin({}, PUBLIC)), flat(PUBLIC.blocks))
    assert PublicOrigin().remember({}, PrivateGradient(blocks(2))) == {}


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_a_long_origin_is_clipped_to_its_limit(share):
    limit = share * LENGTH
    origin = flat(PublicOrigin(limit=limit).origin({}, PUBLIC))
    assert float(origin.norm()) == pytest.approx(limit)
    torch.testing.assert_close(origin, flat(PUBLIC.blocks) * share)


def test_an_origin_within_its_limit_is_left_alone():
    origin = PublicOrigin(limit=1.001 * LENGTH).origin({}, PUBLIC)
    assert torch.equal(flat(origin), flat(PUBLIC.blocks))


def remembered(origin, gradients):
    memory = {}
    for gradient in gradients:
        memory = origin.remember(memory, PrivateGradient(gradient))
    return memory


def test_the_last_private_gradient_is_the_origin_of_the_next_step():
    origin = LastPrivate()
    assert origin.origin({}, None) is None
    memory = remembered(origin, [blocks(1), blocks(2), blocks(3)])
    torch.testing.assert_close(flat(origin.origin(memory, None)), flat(blocks(3)))
    # Whatever is public has no say.
    torch.testing.assert_close(flat(origin.origin(memory, PUBLIC)), flat(blocks(3)))


def test_earlier_private_gradients_fade():
    memory = remembered(LastPrivate(decay=0.25), [blocks(1), blocks(2), blocks(3)])
    one, two, three = (flat(blocks(seed)) for seed in (1, 2, 3))
    expected = 0.25 * (0.25 * one + 0.75 * two) + 0.75 * three
    torch.testing.assert_close(flat(LastPrivate(decay=0.25).origin(memory, None)), expected)


def test_a_noisy_origin_is_clipped_but_not_what_is_remembered():
    origin = LastPrivate(limit=0.5)
    memory = remembered(origin, [blocks(1)])
    assert float(flat(origin.origin(memory, None)).norm()) == pytest.approx(0.5)
    torch.testing.assert_close(flat(memory), flat(blocks(1)))


@pytest.mark.parametrize("kind", [PublicOrigin, LastPrivate])
@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_is_not_above_zero_is_refused(kind, limit):
    with pytest.raises(ConfigError, match="limit λ"):
        kind(limit=limit)


@pytest.mark.parametrize("decay", [-0.1, 1.0, math.nan])
def test_a_decay_that_never_forgets_is_refused(decay):
    with pytest.raises(ConfigError, match="decay of the origin"):
        LastPrivate(decay=decay)
