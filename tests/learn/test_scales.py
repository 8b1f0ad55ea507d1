"""The diagonal scale of AdaDPS, against its formula on one long vector."""

import math

import numpy as np
import pytest
import torch

from privet.errors import ConfigError
from privet.learn.gradients import PublicGradient
from privet.learn.scales import PublicMoments, Unscaled

from .vectors import blocks, flat

GRADIENTS = [blocks(seed, scale) for seed, scale in ((1, 2.0), (2, 0.1), (3, 5.0))]


def run(scale, gradients=GRADIENTS):
    """All of s, step by step."""
    memory, found = {}, []
    for gradient in gradients:
        public = PublicGradient(gradient)
        memory = scale.learn(memory, public)
        found.append(scale.scale(memory, public))
    return found


def naive(gradients, decay, damping):
    """S = (1 / (√v + damping · rms)), stretched to keep the public gradient's norm."""
    v = None
    for gradient in gradients:
        g = flat(gradient).numpy()
        v = g**2 if v is None else decay * v + (1 - decay) * g**2
        s = 1 / (np.sqrt(v) + damping * np.sqrt(v.mean()))
        yield s * np.linalg.norm(g) / np.linalg.norm(s * g)


@pytest.mark.parametrize("decay", [0.0, 0.9])
@pytest.mark.parametrize("damping", [0.01, 1.0])
def test_public_moments_are_their_formula(decay, damping):
    found = run(PublicMoments(decay=decay, damping=damping))
    for ours, expected in zip(found, naive(GRADIENTS, decay, damping), strict=True):
        np.testing.assert_allclose(flat(ours), expected)


def test_the_public_gradient_keeps_its_norm():
    for gradient, scale in zip(GRADIENTS, run(PublicMoments()), strict=True):
        g, s = flat(gradient), flat(scale)
        assert float((s * g).norm()) == pytest.approx(float(g.norm()))
        assert float(s.max() / s.min()) > 1.5


def test_coordinates_with_small_public_gradients_are_stretched():
    gradient, scale = GRADIENTS[0], run(PublicMoments())[0]
    order = flat(gradient).abs().argsort()
    assert (flat(scale)[order].diff() <= 0).all()


def test_much_damping_tends_to_a_scale_of_one():
    for scale in run(PublicMoments(damping=1e6)):
        torch.testing.assert_close(flat(scale), torch.ones(24).double(), rtol=1e-4, atol=0)


def test_a_public_gradient_of_zero_leaves_the_scale_finite():
    nothing = {name: torch.zeros_like(value) for name, value in GRADIENTS[0].items()}
    assert run(PublicMoments(), [nothing]) == [None]
    later = flat(run(PublicMoments(), [GRADIENTS[0], nothing])[1])
    assert later.isfinite().all()
    assert 0 < float(later.min()) < float(later.max()) <= 1


def test_without_a_scale_nothing_is_learned():
    scale = Unscaled()
    assert not scale.needs_public
    assert run(scale) == [None] * 3
    assert scale.learn({}, PublicGradient(GRADIENTS[0])) == {}


def test_settings_are_checked():
    for decay in (-0.1, 1.0, math.nan):
        with pytest.raises(ConfigError, match="decay of the scale"):
            PublicMoments(decay=decay)
    for damping in (0.0, -1.0, math.nan):
        with pytest.raises(ConfigError, match="damping"):
            PublicMoments(damping=damping)
