"""Weights around which gradients are taken."""

import pytest
import torch

from privet.errors import ConfigError
from privet.learn.equation import Method
from privet.learn.gradients import PublicGradient
from privet.learn.perturbations import Ascent, RandomDirections, Unperturbed
from privet.learn.views import AsIs, Augmented

from .vectors import blocks, flat

WEIGHTS = blocks(0)
PUBLIC = [PublicGradient(blocks(seed, 3.0)) for seed in (1, 2, 3)]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def directions(perturbation, seed=0, public=PUBLIC):
    found = perturbation.perturbed(WEIGHTS, public, generator(seed))
    return [flat(each) - flat(WEIGHTS) for each in found]


def test_weights_are_left_alone_without_perturbation():
    [weights] = Unperturbed().perturbed(WEIGHTS, (), generator())
    assert weights is WEIGHTS
    assert Unperturbed().count == 1
    assert not Unperturbed().needs_public


def test_an_ascent_follows_each_public_gradient_to_the_radius():
    found = directions(Ascent(radius=0.3, count=3))
    assert len(found) == len(PUBLIC)
    for direction, gradient in zip(found, PUBLIC, strict=True):
        g = flat(gradient.blocks)
        torch.testing.assert_close(direction, 0.3 * g / g.norm())
        assert float(direction.norm()) == pytest.approx(0.3)


def test_an_adaptive_ascent_is_its_formula():
    """Kwon et al. 2021: ρ T² g / ‖T g‖ with T = |w| + η."""
    t = flat(WEIGHTS).abs() + 0.01
    for direction, gradient in zip(
        directions(Ascent(radius=0.3, count=3, adaptive=True)), PUBLIC, strict=True
    ):
        g = flat(gradient.blocks)
        torch.testing.assert_close(direction, 0.3 * t * t * g / (t * g).norm())
        assert float((direction / t).norm()) == pytest.approx(0.3)


def test_random_directions_lie_on_the_sphere_and_follow_the_generator():
    spheres = RandomDirections(radius=0.2, count=5)
    one, same, other = directions(spheres, 1), directions(spheres, 1), directions(spheres, 2)
    for direction in one:
        assert float(direction.norm()) == pytest.approx(0.2)
    assert torch.equal(torch.stack(one), torch.stack(same))
    assert len(torch.stack([*one, *other]).unique(dim=0)) == 10


def test_random_directions_do_not_look_at_public_gradients():
    spheres = RandomDirections(count=2)
    assert not spheres.needs_public
    assert torch.equal(
        torch.stack(directions(spheres)), torch.stack(directions(spheres, public=()))
    )


def test_a_public_gradient_of_zero_perturbs_nothing():
    nothing = PublicGradient({name: torch.zeros_like(value) for name, value in WEIGHTS.items()})
    for adaptive in (False, True):
        [direction] = directions(Ascent(count=1, adaptive=adaptive), public=[nothing])
        assert not direction.any()


@pytest.mark.parametrize("kind", [Ascent, RandomDirections])
def test_settings_are_checked(kind):
    for radius in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="radius"):
            kind(radius=radius)
    with pytest.raises(ConfigError, match="at least one perturbation"):
        kind(count=0)


@pytest.mark.parametrize("kind", [Ascent, RandomDirections])
def test_perturbations_must_divide_the_views(kind):
    assert Method(views=Augmented(num_views=6), perturb=kind(count=3))
    with pytest.raises(ConfigError, match="4 weight perturbations must divide the 6 views"):
        Method(views=Augmented(num_views=6), perturb=kind(count=4))
    with pytest.raises(ConfigError, match="must divide the 1 views"):
        Method(views=AsIs(), perturb=kind(count=2))
