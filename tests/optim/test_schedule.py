"""Factors of the learning rate."""

import json
from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privet.errors import ConfigError
from privet.optim import Schedule, constant, cosine


def test_constant_stays():
    assert [constant()(step, 5) for step in range(6)] == [1.0] * 6


@pytest.mark.parametrize("final", [0.0, 0.1])
def test_cosine_is_that_of_torch(final):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=final)
    for step in range(21):
        assert cosine(final=final)(step, 20) == pytest.approx(theirs.get_last_lr()[0], abs=1e-9)
        optimizer.step()
        theirs.step()


def test_warm_up_rises_in_even_steps():
    schedule = constant(warm_up=0.4)
    assert [schedule(step, 10) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    after = cosine(final=0.2, warm_up=0.4)
    assert [after(step, 10) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert [after(4 + step, 10) for step in range(7)] == [
        cosine(final=0.2)(step, 6) for step in range(7)
    ]


@given(
    final=st.floats(0, 1),
    warm_up=st.floats(0, 1, exclude_max=True),
    total=st.integers(1, 50),
    data=st.data(),
)
def test_factors_stay_within_bounds(final, warm_up, total, data):
    step = data.draw(st.integers(0, total))
    assert 0 <= Schedule(final=final, warm_up=warm_up)(step, total) <= 1


def test_a_schedule_survives_json():
    schedule = cosine(final=0.1, warm_up=0.05)
    assert Schedule(**json.loads(json.dumps(asdict(schedule)))) == schedule


@pytest.mark.parametrize("settings", [{"final": 1.1}, {"final": -0.1}, {"warm_up": 1.0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError, match=f"{next(iter(settings))} is"):
        Schedule(**settings)


@pytest.mark.parametrize(("step", "total"), [(-1, 5), (6, 5), (0, 0)])
def test_steps_outside_the_run_are_refused(step, total):
    with pytest.raises(ConfigError, match=f"step is {step} of {total}"):
        constant()(step, total)
