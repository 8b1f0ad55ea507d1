"""The exact Gaussian mechanism against dp_accounting's."""

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.privacy import gaussian

DELTAS = (1e-10, 1e-6, 1e-5, 1e-3, 0.1)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.0, 4.0, 10.0, 50.0])
def test_sigma_agrees_with_dp_accounting(epsilon, delta):
    expected = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert gaussian.sigma(epsilon, delta) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 3.731, 20.0, 300.0])
def test_epsilon_agrees_with_dp_accounting(sigma, delta):
    expected = dp_accounting.get_epsilon_gaussian(sigma, delta)
    assert gaussian.epsilon(sigma, delta) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@settings(deadline=None)
@given(st.floats(0.01, 30), st.sampled_from(DELTAS))
def test_calibration_never_overshoots(epsilon, delta):
    assert gaussian.delta(gaussian.sigma(epsilon, delta), epsilon) <= delta


def test_deep_tail_is_smooth_across_the_switch_to_the_series():
    below, above = gaussian._log_normal_cdf(-30 - 1e-9), gaussian._log_normal_cdf(-30 + 1e-9)
    assert below == pytest.approx(above, rel=1e-9)
