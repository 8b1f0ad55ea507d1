"""Theorem 5.1 of "in-distribution public data synthesis": multiplicity regularises gradient norms.

    (1/K) Σ_k ℓ(w + v_k; aug_k(x)) = ℓ(w; x) + Φ + Ψ + O(ρ²) + O(h²)

with Φ = (1/K) Σ_k ∇_w ℓ(w; aug_k(x))ᵀ v_k, Ψ = (1/K) ∇_x ℓ(w; x)ᵀ Σ_k (aug_k(x) − x), and
c₁ Σ_k ‖∇_w ℓ(w; aug_k(x))‖ ≤ Φ ≤ c₂ Σ_k ‖∇_w ℓ(w; aug_k(x))‖ for c₁ = (ρ/K) min_k cos θ_k and
c₂ = ρ/K, where θ_k lies between v_k and that gradient.
"""

import math

import pytest
import torch
from torch.func import functional_call

from privet.learn.gradients import PublicGradient, combined
from privet.learn.perturbations import Ascent

from .naive import CLASSES, SIDE, make_model
from .vectors import flat

K = 4
MODEL = make_model()  # tanh: smooth
W = {name: value.detach() for name, value in MODEL.named_parameters()}
X = torch.randn(1, 1, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
LABEL = torch.tensor([CLASSES - 1])
TOWARDS = torch.randn(
    K, 1, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
)


def loss(weights, x):
    return torch.nn.functional.cross_entropy(functional_call(MODEL, weights, (x,)), LABEL)


def gradient(x):
    leaves = {name: value.clone().requires_grad_() for name, value in W.items()}
    found = torch.autograd.grad(loss(leaves, x), list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


def views(h):
    """Augmentations at a distance of about h."""
    return X + h * TOWARDS


def ascents(rho, x, exact=False):
    """v_k from gradients of data like x, or of each view of x itself."""
    like = x if exact else x + 0.3 * torch.ones_like(x)
    public = [PublicGradient(gradient(view[None])) for view in like]
    perturbed = Ascent(radius=rho, count=K).perturbed(W, public, torch.Generator())
    return [combined(torch.sub, each, W) for each in perturbed]


def multiplicity(vs, x):
    """L_m: the mean loss over views, each at its own weights."""
    pairs = zip(vs, x, strict=True)
    return sum(float(loss(combined(torch.add, W, v), view[None])) for v, view in pairs) / K


def phi(vs, x):
    pairs = zip(vs, x, strict=True)
    return sum(float(flat(gradient(view[None])) @ flat(v)) for v, view in pairs) / K


def psi(x):
    leaf = X.clone().requires_grad_()
    [slope] = torch.autograd.grad(loss(W, leaf), leaf)
    return float((slope * (x - X)).sum()) / K


def order(error, sizes):
    """The slope of log error over log size."""
    errors = [math.log(abs(error(size))) for size in sizes]
    logs = [math.log(size) for size in sizes]
    return (errors[-1] - errors[0]) / (logs[-1] - logs[0])


def test_the_perturbations_have_the_radius():
    for v in ascents(0.05, views(0.1)):
        assert float(flat(v).norm()) == pytest.approx(0.05)


def test_the_error_of_the_expansion_in_the_weights_is_of_second_order():
    x = views(0.1)
    plain = multiplicity([combined(torch.zeros_like, W)] * K, x)

    def error(rho):
        vs = ascents(rho, x)
        return multiplicity(vs, x) - plain - phi(vs, x)

    def without(rho):
        return multiplicity(ascents(rho, x), x) - plain

    sizes = [1e-2, 1e-3, 1e-4]
    assert order(error, sizes) == pytest.approx(2, abs=0.05)
    assert order(without, sizes) == pytest.approx(1, abs=0.05)  # so Φ is what it takes


def test_the_error_of_the_whole_expansion_is_of_second_order():
    """Weights and views together, ρ = h."""

    def error(size):
        x = views(size)
        vs = ascents(size, x)
        return multiplicity(vs, x) - float(loss(W, X)) - phi(vs, x) - psi(x)

    assert order(error, [1e-2, 1e-3, 1e-4]) == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("rho", [1e-3, 0.05, 1.0])
@pytest.mark.parametrize("h", [0.0, 0.1])
def test_phi_lies_between_multiples_of_the_gradient_norms(rho, h):
    x = views(h)
    vs = ascents(rho, x)
    gradients = [flat(gradient(view[None])) for view in x]
    norms = sum(float(g.norm()) for g in gradients)
    cosines = [
        float(g @ flat(v) / g.norm() / flat(v).norm()) for g, v in zip(gradients, vs, strict=True)
    ]
    assert min(cosines) > 0  # directions of ascent, as the theorem asks
    lower, upper = rho / K * min(cosines) * norms, rho / K * norms
    assert lower * (1 - 1e-9) <= phi(vs, x) <= upper * (1 + 1e-9)
    assert phi(vs, x) < upper * 0.9999  # public gradients are not the example's own
    # Cosines differ, so the lower bound is not the value itself.
    assert h == 0 or phi(vs, x) > lower * (1 + 1e-6)


def test_the_upper_bound_is_reached_by_the_example_s_own_gradients():
    """The higher the cosine, the more weight the gradient norm has."""
    x = views(0.1)
    norms = sum(float(flat(gradient(view[None])).norm()) for view in x)
    assert phi(ascents(0.05, x, exact=True), x) == pytest.approx(0.05 / K * norms)


def test_against_the_gradient_phi_is_no_regulariser():
    """The assumption matters: a direction of descent makes Φ negative, below c₁ ≥ 0."""
    x = views(0.1)
    downhill = [combined(torch.neg, v) for v in ascents(0.05, x)]
    assert phi(downhill, x) < 0
