"""Perturbations of weights, against the formulas written out on one long vector."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from privet.errors import ConfigError
from privet.optim import asam_direction, random_direction, sam_direction

RADIUS = 0.3


def blocks(number, dtype=torch.float64):
    generator = torch.Generator().manual_seed(number)
    shapes = {"layer.weight": (4, 3), "layer.bias": (4,), "scale": ()}
    return {
        name: torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()
        for name, shape in shapes.items()
    }


def flat(named):
    return np.concatenate([block.detach().numpy().ravel() for block in named.values()])


def length(named):
    return float(np.linalg.norm(flat(named)))


def test_sam_is_the_gradient_at_the_radius():
    w, g = blocks(0), blocks(1)
    direction = sam_direction(w, g, RADIUS)
    assert length(direction) == pytest.approx(RADIUS)
    np.testing.assert_allclose(flat(direction), RADIUS * flat(g) / np.linalg.norm(flat(g)))
    assert {name: block.shape for name, block in direction.items()} == {
        name: block.shape for name, block in w.items()
    }


@pytest.mark.parametrize("eta", [0.01, 0.0, 2.0])
def test_asam_is_its_formula(eta):
    w, g = flat(blocks(0)), flat(blocks(1))
    t = np.diag(np.abs(w) + eta)
    expected = RADIUS * t @ t @ g / np.linalg.norm(t @ g)
    direction = asam_direction(blocks(0), blocks(1), RADIUS, eta)
    np.testing.assert_allclose(flat(direction), expected)
    if eta == 0.01:
        np.testing.assert_allclose(flat(asam_direction(blocks(0), blocks(1), RADIUS)), expected)


def test_asam_does_not_change_when_layers_trade_scale():
    """With η = 0, the perturbation of a rescaled weight is rescaled alike."""
    w, g = blocks(0), blocks(1)
    scaled_w = {"layer.weight": 5 * w["layer.weight"], **{n: w[n] for n in list(w)[1:]}}
    scaled_g = {"layer.weight": g["layer.weight"] / 5, **{n: g[n] for n in list(g)[1:]}}
    one = asam_direction(w, g, RADIUS, 0.0)
    other = asam_direction(scaled_w, scaled_g, RADIUS, 0.0)
    torch.testing.assert_close(other["layer.weight"], 5 * one["layer.weight"])
    torch.testing.assert_close(other["scale"], one["scale"])


def test_random_directions_are_uniform_on_the_sphere():
    generator = torch.Generator().manual_seed(0)
    weights = {"a": torch.zeros(900), "b": torch.zeros(10, 10)}
    draws = np.stack([flat(random_direction(weights, RADIUS, generator)) for _ in range(50)])
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), RADIUS, rtol=1e-5)
    coordinates = draws.ravel() * np.sqrt(1000) / RADIUS
    assert kstest(coordinates, norm.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(draws)[0, 1]) < 0.15


def test_random_directions_come_from_the_generator():
    state = torch.random.get_rng_state()
    one, same, other = (
        random_direction(blocks(0), RADIUS, torch.Generator().manual_seed(n)) for n in (1, 1, 2)
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(flat(one), flat(same))
    assert not np.array_equal(flat(one), flat(other))


def all_directions(radius, dtype=torch.float32):
    w, g = blocks(0, dtype), blocks(1, dtype)
    return [
        sam_direction(w, g, radius),
        asam_direction(w, g, radius),
        random_direction(w, radius, torch.Generator().manual_seed(0)),
    ]


def test_no_radius_no_perturbation():
    assert all(not flat(direction).any() for direction in all_directions(0.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directions_keep_the_type_and_no_graph(dtype):
    for direction in all_directions(RADIUS, dtype):
        assert {block.dtype for block in direction.values()} == {dtype}
        assert not any(block.requires_grad for block in direction.values())


@pytest.mark.parametrize("direction", [sam_direction, asam_direction])
def test_no_gradient_no_perturbation(direction):
    zero = {name: torch.zeros_like(block) for name, block in blocks(0).items()}
    assert not flat(direction(blocks(0), zero, RADIUS)).any()


@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")])
def test_a_radius_out_of_range_is_refused(radius):
    with pytest.raises(ConfigError, match="radius is"):
        all_directions(radius)


def test_other_arguments_out_of_range_are_refused():
    with pytest.raises(ConfigError, match=r"differ in \['scale'\]"):
        sam_direction(blocks(0), {n: b for n, b in blocks(1).items() if n != "scale"}, RADIUS)
    with pytest.raises(ConfigError, match="eta is -1"):
        asam_direction(blocks(0), blocks(1), RADIUS, -1.0)
