"""Sharpness-aware gradients: by hand where the gradient is known, and what they leave alone."""

import math

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.optim import Sharpness
from privet.optim.sharpness import gradient_of


class Bowl(nn.Module):
    """(1/2) Σ h w², with gradient h w."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
        self.unused = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.h = torch.tensor([1.0, 3.0, 10.0], dtype=torch.float64)

    def slope(self):
        loss = (self.h * self.w.square()).sum() / 2
        return gradient_of(loss, dict(self.named_parameters()))


def found(kind, **settings):
    bowl = Bowl()
    before = bowl.w.detach().clone()
    gradient = Sharpness(kind=kind, **settings).gradient(bowl, bowl.slope(), bowl.slope)
    assert torch.equal(bowl.w.detach(), before)
    assert not gradient["unused"].any()
    return gradient["w"], before, bowl.h


def test_sam():
    g, w, h = found("sam", radius=0.3)
    here = h * w
    torch.testing.assert_close(g, h * (w + 0.3 * here / here.norm()))


def test_asam():
    g, w, h = found("asam", radius=0.3)
    here, t = h * w, w.abs() + 0.01
    torch.testing.assert_close(g, h * (w + 0.3 * t**2 * here / (t * here).norm()))


def test_gsam():
    g, w, h = found("gsam", radius=0.3, alpha=0.5)
    here = h * w
    there = h * (w + 0.3 * here / here.norm())
    across = here - (here @ there) / (there @ there) * there
    assert float(across @ there) == pytest.approx(0, abs=1e-9)
    torch.testing.assert_close(g, there - 0.5 * across)


def test_a_radius_of_zero_is_the_plain_gradient():
    g, w, h = found("sam", radius=0.0)
    torch.testing.assert_close(g, h * w)


def test_running_statistics_are_those_of_the_weights_that_are_kept():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    parameters = dict(model.named_parameters())

    def slope():
        return gradient_of(model(torch.randn(8, 3)).square().mean(), parameters)

    here = slope()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    Sharpness(radius=5.0).gradient(model, here, slope)
    for name, each in model.state_dict().items():
        assert torch.equal(each, before[name])
    assert model[1].momentum == 0.1
    slope()
    assert int(model[1].num_batches_tracked) == 2


@pytest.mark.parametrize(
    "wrong", [{"kind": "flat"}, {"radius": -1}, {"radius": math.nan}, {"alpha": -0.1}]
)
def test_settings_are_checked(wrong):
    with pytest.raises(ConfigError):
        Sharpness(**wrong)
