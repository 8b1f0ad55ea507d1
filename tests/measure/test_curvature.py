"""Curvature against Hessians that are known."""

import importlib
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from privet.errors import ConfigError
from privet.measure import Curvature, curvature


def regression(rows=40, size=6):
    """The Hessian of a linear regression is that of its inputs, wherever one stands."""
    generator = torch.Generator().manual_seed(0)
    scale = torch.arange(1.0, size + 1)
    inputs = torch.randn(rows, size, generator=generator) * scale
    return nn.Linear(size, 1, bias=False), inputs, torch.zeros(rows, 1)


def halves(inputs, targets):
    return lambda: [(inputs[:15], targets[:15]), (inputs[15:], targets[15:])]


def test_a_linear_regression():
    model, inputs, targets = regression()
    found = curvature(model, F.mse_loss, halves(inputs, targets), count=3, probes=400)
    hessian = 2 * inputs.T.double() @ inputs.double() / len(inputs)
    values = torch.linalg.eigvalsh(hessian).flip(0)
    assert found.eigenvalues == pytest.approx(values[:3].tolist(), rel=1e-2)
    assert abs(found.trace - float(hessian.trace())) < 4 * found.trace_error
    assert found.trace_error < 0.1 * found.trace
    assert found.largest == found.eigenvalues[0]
    assert found.ratio == pytest.approx(found.eigenvalues[0] / found.eigenvalues[2])


def test_a_network_against_its_whole_hessian():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    inputs, targets = torch.randn(20, 3).double(), torch.arange(20) % 2
    names = [name for name, _ in model.named_parameters()]

    def loss(*weights):
        logits = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), inputs)
        return F.cross_entropy(logits, targets)

    weights = tuple(each.detach() for each in model.parameters())
    blocks = torch.autograd.functional.hessian(loss, weights)
    sizes = [each.numel() for each in weights]
    rows = [
        torch.cat([b.reshape(size, -1) for b in row], 1)
        for row, size in zip(blocks, sizes, strict=True)
    ]
    hessian = torch.cat(rows)
    found = curvature(model, F.cross_entropy, lambda: [(inputs, targets)], count=2, probes=300)
    assert found.eigenvalues == pytest.approx(
        torch.linalg.eigvalsh(hessian).flip(0)[:2].tolist(), rel=1e-2
    )
    assert abs(found.trace - float(hessian.trace())) < 4 * found.trace_error


def test_weights_are_left_alone():
    model, inputs, targets = regression()
    before = model.weight.detach().clone()
    curvature(model, F.mse_loss, halves(inputs, targets), count=1, probes=2)
    assert torch.equal(model.weight.detach(), before)
    assert model.weight.grad is None


def test_the_ratio_is_to_the_fifth():
    six = Curvature(eigenvalues=(12.0, 6.0, 5.0, 4.0, 3.0, 1.0), trace=31.0, trace_error=0.0)
    assert six.ratio == 4


def test_a_fifth_of_zero_has_no_ratio():
    assert math.isnan(Curvature(eigenvalues=(2.0, 0.0), trace=2.0, trace_error=0.0).ratio)


def test_a_flat_place_and_one_that_is_lost_are_no_reason_to_fail(capfd):
    model, inputs, targets = regression()
    flat = curvature(model, F.mse_loss, halves(0 * inputs, targets), count=2)
    assert (flat.trace, flat.trace_error) == (0, 0)
    assert all(map(math.isnan, flat.eigenvalues))
    model.weight.data[0, 0] = torch.inf
    lost = curvature(model, F.cross_entropy, halves(inputs, targets), count=2)
    assert all(map(math.isnan, (*lost.eigenvalues, lost.trace, lost.trace_error, lost.ratio)))
    assert capfd.readouterr() == ("", "")


def test_lanczos_gives_up_in_the_end(monkeypatch):
    size, products = 200, []
    model = nn.Linear(size, 1, bias=False)
    inputs = torch.diag(torch.linspace(1, 2, size))

    def rows():
        products.append(1)
        return [(inputs, torch.zeros(size, 1))]

    def found():
        products.clear()
        return curvature(model, F.mse_loss, rows, count=5, probes=2).largest

    assert found() == pytest.approx(8 / size, rel=1e-2)
    patient = len(products)
    monkeypatch.setattr(importlib.import_module("privet.measure.curvature"), "_MOST_RESTARTS", 1)
    assert math.isnan(found())
    assert len(products) < patient < 400


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 6}, {"probes": 1}])
def test_settings_are_checked(wrong):
    model, inputs, targets = regression()
    with pytest.raises(ConfigError):
        curvature(model, F.mse_loss, halves(inputs, targets), **wrong)
