"""Both accountants under one contract, and against published and exact values."""

import itertools
import math
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy import integrate, stats

from privet.errors import ConfigError, PrivacyError
from privet.privacy import (
    PLD,
    RDP,
    Budget,
    GaussianRelease,
    Plan,
    PoissonSteps,
    Relation,
    gaussian,
    noise_multiplier,
)
from privet.privacy.accountants import compose
from privet.privacy.loss_distribution import _grid_interval, _largest_loss, _mean_loss
from privet.privacy.renyi import replace_one_curve

ACCOUNTANTS = [PLD(), RDP()]
RELATIONS = list(Relation)
ADD_REMOVE, REPLACE_ONE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

# Table 11 of "High performance differentially private fine-tuning using dataset distillation":
# noise b₀ by (ε, number of stages), δ = 1e-5.
SPS_TABLE_11 = {
    1.0: (4.045, 5.720, 7.006, 8.090, 9.045),
    2.0: (2.149, 3.039, 3.722, 4.298, 4.805),
    4.0: (1.157, 1.637, 2.004, 2.315, 2.588),
    8.0: (0.637, 0.901, 1.104, 1.275, 1.425),
}
CELLS = [
    pytest.param(epsilon, stages, noise, id=f"eps{epsilon:g}-M{stages}")
    for epsilon, row in SPS_TABLE_11.items()
    for stages, noise in enumerate(row, start=1)
]


def release(sigma, releases=1):
    return GaussianRelease(noise_multiplier=sigma, releases=releases)


def steps(rate, sigma, count):
    return PoissonSteps(sampling_rate=rate, noise_multiplier=sigma, steps=count)


@pytest.mark.parametrize(
    ("relation", "count", "sigma", "delta"),
    [
        (ADD_REMOVE, 5_000, 1.0, 1e-11),
        (ADD_REMOVE, 10_000, 1.0, 1e-11),
        (ADD_REMOVE, 200_000, 1.0, 1e-10),
        (REPLACE_ONE, 10_000, 1.0, 1e-11),
    ],
)
def test_rounding_of_many_steps_is_paid_for(relation, count, sigma, delta):
    """Fourier transforms round; of 200,000 steps at δ = 1e-10 they made ε = 6.5464 for 6.5479."""
    whole = steps(1 - 1e-9, sigma * math.sqrt(count), count)
    exact = gaussian.epsilon(sigma / relation.sensitivity, delta)
    assert exact <= PLD().epsilon([whole], delta, relation) < 1.02 * exact


def test_a_delta_that_rounding_would_hide_is_refused():
    with pytest.raises(PrivacyError, match="is smaller than privacy loss distributions resolve"):
        PLD().epsilon([steps(0.5, 100.0, 10_000)], 1e-13, ADD_REMOVE)


def calibrated(accountant, epsilon, releases):
    budget = Budget(epsilon=epsilon, delta=1e-5)
    return noise_multiplier(
        lambda sigma: Plan.of(release(sigma, releases)), budget, ADD_REMOVE, accountant
    )


@pytest.mark.parametrize(("epsilon", "stages", "noise"), CELLS)
def test_rdp_reproduces_sps_table_11(epsilon, stages, noise):
    assert calibrated(RDP(), epsilon, stages) == pytest.approx(noise, abs=0.002)


@pytest.mark.parametrize(("epsilon", "stages", "noise"), CELLS)
def test_default_needs_less_noise_than_rdp_in_every_cell(epsilon, stages, noise):
    assert calibrated(PLD(), epsilon, stages) <= (1 - 0.055) * calibrated(RDP(), epsilon, stages)


def test_default_noise_for_one_release():
    assert calibrated(PLD(), 1.0, 1) == pytest.approx(3.731, abs=0.001)


@pytest.mark.filterwarnings("ignore:Optimal order is the")
@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("sigma", [0.7, 1.0, 3.0])
@pytest.mark.parametrize("count", [1, 100, 5000])
def test_subsampled_rdp_agrees_with_opacus(rate, sigma, count):
    from opacus.accountants.analysis.rdp import compute_rdp, get_privacy_spent  # takes seconds

    orders = list(range(2, 64))
    rdp = compute_rdp(q=rate, noise_multiplier=sigma, steps=count, orders=orders)
    expected, _ = get_privacy_spent(orders=orders, rdp=rdp, delta=1e-5)
    ours = RDP(orders=tuple(map(float, orders)))
    assert ours.epsilon([steps(rate, sigma, count)], 1e-5, ADD_REMOVE) == pytest.approx(
        max(expected, 0.0), abs=1e-3, rel=0
    )


@pytest.mark.parametrize("sigma", [0.8, 2.0, 7.5])
@pytest.mark.parametrize("relation", RELATIONS)
def test_trap_replace_one_is_doubled_exactly_once(sigma, relation):
    """Known bug: sensitivity doubled twice by one accountant, not at all by the other."""
    exact = gaussian.epsilon(sigma / relation.sensitivity, 1e-5)
    assert PLD().epsilon([release(sigma)], 1e-5, relation) == pytest.approx(exact, rel=1e-6)
    # A tiny rate-free event forces the general path of the PLD accountant.
    general = PLD().epsilon([release(sigma), steps(1e-12, 50.0, 1)], 1e-5, relation)
    assert general == pytest.approx(exact, rel=1e-3)
    orders = np.array(RDP().orders)
    curve = orders * (relation.sensitivity / sigma) ** 2 / 2
    expected, _ = dp_accounting.rdp.rdp_privacy_accountant.compute_epsilon(orders, curve, 1e-5)
    assert RDP().epsilon([release(sigma)], 1e-5, relation) == pytest.approx(expected, rel=1e-6)
    assert exact <= expected


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda a: a.name)
@pytest.mark.parametrize("relation", RELATIONS)
class TestContract:
    """What every accountant must do."""

    def test_more_noise_costs_less(self, accountant, relation):
        for make in (lambda s: release(s), lambda s: steps(0.05, s, 200)):
            costs = [accountant.epsilon([make(s)], 1e-5, relation) for s in (0.8, 1.5, 4.0, 12.0)]
            assert costs == sorted(costs, reverse=True)
            assert costs[-1] < costs[0]

    def test_more_events_cost_more(self, accountant, relation):
        few = accountant.epsilon([steps(0.02, 1.5, 100)], 1e-5, relation)
        many = accountant.epsilon([steps(0.02, 1.5, 1000)], 1e-5, relation)
        mixed = accountant.epsilon([steps(0.02, 1.5, 1000), release(5.0)], 1e-5, relation)
        assert 0 < few < many < mixed

    def test_order_and_grouping_do_not_matter(self, accountant, relation):
        one = [release(3.0, 2), steps(0.1, 2.0, 30), steps(0.01, 1.0, 5)]
        other = [steps(0.01, 1.0, 2), release(3.0), steps(0.1, 2.0, 30), release(3.0)]
        other += [steps(0.01, 1.0, 3)]
        assert accountant.epsilon(one, 1e-5, relation) == pytest.approx(
            accountant.epsilon(other, 1e-5, relation), rel=1e-9
        )

    def test_gaussian_releases_add_their_precisions(self, accountant, relation):
        several = accountant.epsilon([release(4.0, 3), release(6.0)], 1e-5, relation)
        one = accountant.epsilon([release((3 / 16 + 1 / 36) ** -0.5)], 1e-5, relation)
        assert several == pytest.approx(one, rel=1e-9)

    def test_rate_one_is_no_sampling(self, accountant, relation):
        sampled = accountant.epsilon([steps(1.0, 4.0, 7)], 1e-5, relation)
        assert sampled == pytest.approx(accountant.epsilon([release(4.0, 7)], 1e-5, relation))

    def test_sampling_helps_and_replace_one_costs_more(self, accountant, relation):
        cost = accountant.epsilon([steps(0.05, 1.2, 50)], 1e-5, relation)
        assert cost < accountant.epsilon([release(1.2, 50)], 1e-5, relation)
        assert cost >= accountant.epsilon([steps(0.05, 1.2, 50)], 1e-5, ADD_REMOVE)

    def test_delta_outside_its_range_is_refused(self, accountant, relation):
        for delta in (0.0, 1.0, -1e-5, math.nan):
            with pytest.raises(ConfigError, match="δ must lie"):
                accountant.epsilon([release(1.0)], delta, relation)

    def test_unknown_events_are_refused(self, accountant, relation):
        with pytest.raises(PrivacyError, match="No accountant knows"):
            accountant.epsilon([object()], 1e-5, relation)

    def test_tiny_noise_stays_finite_in_time_and_memory(self, accountant, relation):
        assert accountant.epsilon([steps(0.5, 0.05, 10_000)], 1e-5, relation) > 1e4
        assert accountant.epsilon([steps(0.5, 1e-4, 30)], 1e-5, relation) > 1e8
        assert accountant.epsilon([steps(1e-6, 1e-4, 1)], 1e-5, relation) >= 0
        narrow_and_wide = [steps(1e-4, 20.0, 100), steps(0.1, 1.0, 2000), steps(0.5, 0.3, 2)]
        assert accountant.epsilon(narrow_and_wide, 1e-5, relation) > 10


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("rate", "sigma", "count"),
    [(0.01, 1.5, 2000), (0.001, 10.0, 10_000), (0.2, 3.0, 60), (0.05, 0.8, 100)],
)
def test_pld_grid_is_fine_enough(relation, rate, sigma, count):
    """At most half a percent above a much finer discretisation, and never below it."""
    neighbours = {
        ADD_REMOVE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        REPLACE_ONE: dp_accounting.NeighboringRelation.REPLACE_ONE,
    }
    ours = PLD().epsilon([steps(rate, sigma, count)], 1e-5, relation)
    fine = PLDAccountant(
        neighbours[relation], _grid_interval(compose([steps(rate, sigma, count)]), relation) / 8
    )
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    limit = fine.compose(step, count).get_epsilon(1e-5)
    assert limit <= ours <= 1.005 * limit


@pytest.mark.parametrize(("rate", "sigma"), [(0.1, 1.0), (0.3, 2.0), (0.9, 0.7)])
@pytest.mark.parametrize("order", [1.5, 4.0, 9.0])
def test_replace_one_divergence_by_adaptive_quadrature(rate, sigma, order):
    def log_mixture(x, centre):
        zero = np.log1p(-rate) + stats.norm.logpdf(x, 0, sigma)
        return np.logaddexp(zero, np.log(rate) + stats.norm.logpdf(x, centre, sigma))

    shift = order * (order - 1) * 2 / sigma**2  # the unamplified divergence, against overflow

    def integrand(x):
        return np.exp(order * log_mixture(x, 1) + (1 - order) * log_mixture(x, -1) - shift)

    points = np.linspace(-1 - 10 * sigma, 2 * order + 10 * sigma, 60)
    parts = [integrate.quad(integrand, a, b)[0] for a, b in itertools.pairwise(points)]
    expected = (math.log(math.fsum(parts)) + shift) / (order - 1)
    assert replace_one_curve(rate, sigma, (order,))[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("rate", [0.05, 0.4])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_opposite_replacements_are_the_worst(rate, epsilon):
    """Both accountants assume that the worst replaced unit points the other way."""
    axis = np.linspace(-7, 7, 561)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2

    def mixture(angle, length):
        cx, cy = length * math.cos(angle), length * math.sin(angle)
        zero = np.exp(-(x**2 + y**2) / 2)
        return ((1 - rate) * zero + rate * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 2)) / math.tau

    def hockey_stick(angle, length, other_length):
        gap = mixture(0.0, length) - math.exp(epsilon) * mixture(angle, other_length)
        return float(np.maximum(gap, 0).sum() * cell)

    worst = hockey_stick(math.pi, 1.0, 1.0)
    lengths, angles = (0.3, 0.7, 1.0), np.linspace(0, math.pi, 7)
    for angle, length, other in itertools.product(angles, lengths, lengths):
        assert hockey_stick(angle, length, other) <= worst + 1e-12


def test_trap_every_epsilon_carries_its_terms():
    """Known bug: ε quoted without relation, unit, δ, sampler, accountant."""
    from privet.privacy import Guarantee, Unit

    guarantee = Guarantee(
        epsilon=1.00049, delta=1e-5, relation=REPLACE_ONE, unit=Unit.USER, accountant="PLD"
    )
    assert str(replace(guarantee, epsilon=1234.5641)).startswith("ε = 1234.565 at")
    assert str(guarantee) == "ε = 1.001 at δ = 1e-05 (replace one user, PLD)"


def test_a_delta_below_what_pld_resolves_is_refused():
    with pytest.raises(PrivacyError, match="smaller than privacy loss distributions resolve"):
        PLD().epsilon([steps(0.01, 1.0, 10)], 1e-25, ADD_REMOVE)
    assert RDP().epsilon([steps(0.01, 1.0, 10)], 1e-25, ADD_REMOVE) < 100


@pytest.mark.parametrize("relation", RELATIONS)
def test_grids_of_privacy_losses_fit_in_memory(relation):
    for event in (steps(0.5, 0.5, 10**6), steps(0.1, 1.0, 10**7), steps(1e-5, 0.3, 10**5)):
        composition = compose([event])
        interval = _grid_interval(composition, relation)
        mean = event.steps * _mean_loss(event, relation.sensitivity)
        assert mean / interval <= 1.01e6
        assert _largest_loss(event.noise_multiplier / relation.sensitivity) / interval <= 2.01e5
