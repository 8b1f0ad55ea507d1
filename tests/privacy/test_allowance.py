"""What every ε leaves for noise on a grid."""

import math

import pytest

from privet.hedge import grid_noise
from privet.privacy import PLD, RDP, GaussianRelease, PoissonSteps, Relation, gaussian
from privet.privacy.allowance import PER_SUM, SHARE_OF_DELTA

ONCE = GaussianRelease(noise_multiplier=3.0)
OFTEN = PoissonSteps(sampling_rate=0.01, noise_multiplier=1.0, steps=1000)


def test_is_what_the_proof_of_the_grid_needs():
    """Factors of both neighbours, of every number of a sum."""
    assert PER_SUM >= 2 * grid_noise.MOST_NUMBERS * grid_noise.PER_NUMBER


def test_a_release_costs_its_exact_epsilon_at_a_smaller_delta_and_the_allowance():
    exact = gaussian.epsilon(3.0, 1e-5 * (1 - SHARE_OF_DELTA))
    assert PLD().epsilon([ONCE], 1e-5, Relation.ADD_REMOVE) == exact + PER_SUM
    assert exact > gaussian.epsilon(3.0, 1e-5)


@pytest.mark.parametrize("accountant", [PLD(), RDP()], ids=lambda each: each.name)
def test_adds_up_over_all_sums_and_is_seen_by_nobody(accountant):
    def cost(*events):
        return accountant.epsilon(events, 1e-5, Relation.ADD_REMOVE)

    nothing = GaussianRelease(noise_multiplier=1e12, releases=2**20)  # but the allowance
    assert cost(ONCE, nothing) - cost(ONCE) == pytest.approx(2**20 * PER_SUM, rel=1e-3)
    assert 1000 * PER_SUM < 1e-7 < cost(OFTEN)
    assert math.isclose(cost(), 0.0)
