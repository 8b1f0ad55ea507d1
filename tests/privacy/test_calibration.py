"""From a target to noise: tight, and never past the target."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.errors import ConfigError, PrivacyError
from privet.privacy import (
    PLD,
    RDP,
    Budget,
    GaussianRelease,
    Plan,
    PoissonSteps,
    Relation,
    noise_multiplier,
)
from privet.privacy.calibration import affordable


def steps_at(rate, count):
    return lambda sigma: Plan.of(
        PoissonSteps(sampling_rate=rate, noise_multiplier=sigma, steps=count)
    )


def mixed_at(sigma):
    """A count with fixed noise, a release and training steps at another level each."""
    return Plan.of(
        GaussianRelease(noise_multiplier=40.0),
        GaussianRelease(noise_multiplier=3 * sigma, releases=2),
        PoissonSteps(sampling_rate=0.02, noise_multiplier=sigma, steps=500),
    )


@settings(deadline=None, max_examples=12)
@given(
    st.floats(0.2, 8),
    st.sampled_from([1e-6, 1e-5]),
    st.sampled_from(list(Relation)),
    st.sampled_from([PLD(), RDP()]),
    st.sampled_from([steps_at(0.01, 1000), steps_at(0.2, 60), mixed_at]),
)
def test_noise_meets_the_target_closely_and_never_overshoots(
    epsilon, delta, relation, accountant, plan_at
):
    budget = Budget(epsilon=epsilon, delta=delta)
    sigma = noise_multiplier(plan_at, budget, relation, accountant)
    assert accountant.epsilon(plan_at(sigma).events, delta, relation) <= epsilon
    less = accountant.epsilon(plan_at(sigma * 0.999).events, delta, relation)
    assert less > epsilon * 0.9995


def test_ten_thousand_steps():
    budget = Budget(epsilon=2.0, delta=1e-5)
    plan_at = steps_at(0.01, 10_000)
    sigma = noise_multiplier(plan_at, budget, Relation.ADD_REMOVE, PLD())
    assert sigma == pytest.approx(2.129, abs=0.005)


def test_fixed_noise_may_be_one_that_the_search_passes():
    budget = Budget(epsilon=3.0, delta=1e-5)

    def plan_at(sigma):
        return Plan.of(
            GaussianRelease(noise_multiplier=2.0), GaussianRelease(noise_multiplier=sigma)
        )

    sigma = noise_multiplier(plan_at, budget, Relation.ADD_REMOVE, PLD())
    cost = PLD().epsilon(plan_at(sigma).events, 1e-5, Relation.ADD_REMOVE)
    assert 2.99 < cost <= 3.0


def test_nearly_scaling_plans_end_too():
    def plan_at(sigma):
        return Plan.of(
            GaussianRelease(noise_multiplier=6e4), GaussianRelease(noise_multiplier=sigma)
        )

    budget = Budget(epsilon=0.01, delta=1e-5)
    sigma = noise_multiplier(plan_at, budget, Relation.ADD_REMOVE, PLD())
    assert PLD().epsilon(plan_at(sigma).events, 1e-5, Relation.ADD_REMOVE) <= 0.01


def test_fixed_part_over_budget_is_refused():
    def plan_at(sigma):
        return Plan.of(
            GaussianRelease(noise_multiplier=0.5),
            PoissonSteps(sampling_rate=0.1, noise_multiplier=sigma, steps=10),
        )

    with pytest.raises(PrivacyError, match="No amount of noise"):
        noise_multiplier(plan_at, Budget(epsilon=1, delta=1e-5), Relation.ADD_REMOVE, PLD())


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_impossible_targets_are_refused(epsilon):
    with pytest.raises(ConfigError, match="ε must be a positive number"):
        Budget(epsilon=epsilon, delta=1e-5)


@given(st.integers(0, 40), st.integers(1, 40))
def test_affordable_is_the_largest_that_fits(limit, most):
    assert affordable(lambda count: count <= limit, most) == min(limit, most)
