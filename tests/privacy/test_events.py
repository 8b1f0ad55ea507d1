import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet.errors import ConfigError
from privet.privacy import GaussianRelease, Plan, PoissonSteps
from privet.privacy.events import from_json, to_json

noise = st.floats(1e-3, 1e3)
counts = st.integers(1, 10**6)
an_event = st.one_of(
    st.builds(GaussianRelease, noise_multiplier=noise, releases=counts),
    st.builds(PoissonSteps, sampling_rate=st.floats(1e-6, 1), noise_multiplier=noise, steps=counts),
)


@given(st.lists(an_event, max_size=4))
def test_events_survive_json(events):
    assert from_json(to_json(events)) == tuple(events)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianRelease(noise_multiplier=0),
        lambda: GaussianRelease(noise_multiplier=math.nan),
        lambda: GaussianRelease(noise_multiplier=1e-170),
        lambda: GaussianRelease(noise_multiplier=1e200),
        lambda: GaussianRelease(noise_multiplier=1, releases=0),
        lambda: GaussianRelease(noise_multiplier=1, releases=True),
        lambda: PoissonSteps(sampling_rate=0, noise_multiplier=1, steps=1),
        lambda: PoissonSteps(sampling_rate=1.5, noise_multiplier=1, steps=1),
        lambda: PoissonSteps(sampling_rate=0.5, noise_multiplier=1, steps=1.5),
        lambda: Plan(()),
        lambda: Plan((GaussianRelease(noise_multiplier=1), GaussianRelease(noise_multiplier=1))),
        lambda: from_json([{"kind": "laplace"}]),
        lambda: from_json([{"kind": "gaussian-release", "sigma": 1}]),
    ],
)
def test_impossible_events_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_events_of_one_kind_are_counted_together():
    event = GaussianRelease(noise_multiplier=2)
    assert Plan.of(event, event.times(3)) == Plan.of(event.times(4))


def test_a_plan_knows_its_events_whatever_their_count():
    plan = Plan.of(
        GaussianRelease(noise_multiplier=2, releases=5),
        PoissonSteps(sampling_rate=0.1, noise_multiplier=2, steps=9),
    )
    assert plan.index(PoissonSteps(sampling_rate=0.1, noise_multiplier=2, steps=1)) == 1
    assert plan.index(GaussianRelease(noise_multiplier=2)) == 0
    assert plan.index(GaussianRelease(noise_multiplier=2.1)) is None


def test_numpy_numbers_become_plain_ones():
    event = PoissonSteps(
        sampling_rate=np.float32(0.5), noise_multiplier=np.float32(2), steps=np.int64(3)
    )
    assert event == PoissonSteps(sampling_rate=0.5, noise_multiplier=2.0, steps=3)
    assert json.loads(json.dumps(to_json([event])))[0]["steps"] == 3
