"""Bounds against what is known of them, and how often they are wrong."""

import math

import numpy as np
import pytest
from scipy import stats

from privet.audit import (
    Arms,
    Errors,
    Guesses,
    best_bound,
    epsilon_bound,
    gaussian_bound,
    guess,
    many_runs_bound,
    one_run_bound,
    p_value,
    rate_bound,
)
from privet.audit.tails import curve_bound
from privet.errors import ConfigError
from privet.privacy import PLD, GaussianRelease, Plan, PoissonSteps, Relation, gaussian

ADD_REMOVE = Relation.ADD_REMOVE


def numbers(*values):
    return np.array(values, dtype=float)


def release_at(sigma):
    return Plan.of(GaussianRelease(noise_multiplier=sigma))


def step_at(sigma):
    return Plan.of(PoissonSteps(sampling_rate=0.3, noise_multiplier=sigma, steps=1))


@pytest.mark.parametrize(("count", "trials"), [(0, 40), (3, 40), (39, 40), (40, 40)])
def test_rates_are_bounded_as_by_clopper_and_pearson(count, trials):
    exact = stats.binomtest(count, trials, alternative="less").proportion_ci(0.99, method="exact")
    assert float(rate_bound(numbers(count), trials, 0.01)[0]) == pytest.approx(exact.high)


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="between 0 and 5"):
        rate_bound(numbers(6), 5, 0.05)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_randomised_response_is_found_out_exactly(epsilon):
    """It lies with probability 1 / (1 + e^ε), so errors of that size allow ε and no less."""
    lie = np.array(1 / (1 + math.exp(epsilon)))
    assert float(epsilon_bound(Errors(lie, lie), 0.0)) == pytest.approx(epsilon)
    assert float(epsilon_bound(Errors(lie, lie), 1e-3)) < epsilon


def test_someone_who_guesses_rules_nothing_out():
    assert float(epsilon_bound(Errors(numbers(0.5), numbers(0.5)), 1e-5)[0]) == 0.0
    assert gaussian_bound(0.5, 1e-5) == 0.0


@pytest.mark.parametrize("sigma", [0.6, 2.0])
def test_the_pairs_of_a_gaussian_tell_its_noise(sigma):
    """Of two outputs, a Gaussian mechanism lets Φ(1 / (σ √2)) be ordered right."""
    wrong = float(stats.norm.cdf(-1 / (sigma * math.sqrt(2))))
    assert gaussian_bound(wrong, 1e-5) == pytest.approx(gaussian.epsilon(sigma, 1e-5))


def test_the_curve_of_a_subsampled_step_never_rules_out_its_own_noise():
    """The best rule errs as the curve says; a tighter curve than that would be wrong."""
    sigma = 0.7
    lines = np.linspace(-2, 3, 60)
    false_alarm = stats.norm.sf(lines / sigma)
    miss = 1 - (0.7 * false_alarm + 0.3 * stats.norm.sf((lines - 1) / sigma))
    claimed = PLD().epsilon(step_at(sigma).events, 1e-5, ADD_REMOVE)
    found = [
        curve_bound(Errors(np.array(one), np.array(other)), 1e-5, step_at, ADD_REMOVE)
        for one, other in zip(false_alarm[::12], miss[::12], strict=True)
    ]
    assert max(found) <= claimed
    assert max(found) > 0.8 * claimed


class TestOneRun:
    def test_without_delta_it_is_a_binomial_tail(self):
        """The example of Steinke, Nasr and Jagielski: 75 of 100 at ε = log 3 is nothing unusual."""
        assert p_value(Guesses(75, 100, 100), math.log(3), 0.0) == pytest.approx(0.553, abs=5e-4)

    def test_delta_adds_what_corollary_5_4_adds(self):
        guesses, q = Guesses(75, 100, 1000), 0.6
        epsilon = math.log(q / (1 - q))
        tail = [stats.binom.sf(v, 100, q) for v in range(-1, 75)]  # P[W ≥ v] at place v
        worst = max((tail[75 - i] - tail[75]) / i for i in range(1, 76))
        expected = tail[75] + 2 * 1000 * 1e-6 * worst
        assert p_value(guesses, epsilon, 1e-6) == pytest.approx(expected, rel=1e-9)

    def test_what_is_ruled_out_is_unlikely_and_a_little_more_is_not(self):
        guesses = Guesses(90, 100, 400)
        bound = one_run_bound(guesses, 1e-5, 0.05)
        assert p_value(guesses, bound, 1e-5) <= 0.05 < p_value(guesses, bound + 0.002, 1e-5)
        assert one_run_bound(Guesses(50, 100, 400), 1e-5, 0.05) == 0.0

    def test_guesses_are_about_the_highest_and_the_lowest_scores(self):
        coins = np.array([True, False, True, False, True])
        scores = numbers(3, -3, -1, 0.5, 2)
        assert guess(scores, coins, 4) == Guesses(3, 4, 5)
        assert guess(scores, coins, 2) == Guesses(2, 2, 5)

    def test_counts_that_cannot_be_are_refused(self):
        with pytest.raises(ConfigError, match="count again"):
            Guesses(5, 4, 10)

    def test_bounds_are_seldom_wrong(self):
        """Randomised response at ε = 1, 150 times: wrong at most about 5% of the time."""
        rng, wrong = np.random.default_rng(0), 0
        for _ in range(150):
            coins = rng.random(200) < 0.5
            honest = rng.random(200) < 1 / (1 + math.exp(-1))
            answers = np.where(honest, coins, ~coins) + 1e-3 * rng.random(200)
            bound, _ = best_bound([answers], coins, 0.0, 0.05)
            wrong += bound > 1
        assert wrong <= 16  # 7.5 expected at most; more has a probability below 2e-3


class TestManyRuns:
    def test_bounds_are_seldom_wrong_and_close(self):
        rng, found = np.random.default_rng(0), []
        for _ in range(100):
            without, with_row = rng.normal(0, 2, (2, 400, 3))
            with_row[:, 0] += 1
            bound = many_runs_bound(Arms(without, with_row), 1e-5, 0.05, release_at, ADD_REMOVE)
            found.append(bound.best)
        true = gaussian.epsilon(2.0, 1e-5)
        assert np.mean(np.array(found) > true) <= 0.13  # 0.05 expected at most
        assert np.mean(found) > 0.3 * true

    @pytest.mark.parametrize("leak", ["atom", "not finite", "spread"])
    def test_leaks_that_no_mean_shows_are_found(self, leak):
        rng = np.random.default_rng(1)
        without, with_row = rng.normal(0, 1, (2, 200, 3))
        if leak == "atom":
            without[:] = 0
        elif leak == "not finite":
            with_row[:, 2] = math.nan
        else:
            with_row *= 30
        bound = many_runs_bound(Arms(without, with_row), 1e-5, 0.05, release_at, ADD_REMOVE)
        assert bound.epsilon > 2

    def test_a_few_runs_are_refused(self):
        few = np.zeros((11, 1))
        with pytest.raises(ConfigError, match="needs 12"):
            many_runs_bound(Arms(few, few), 1e-5, 0.05, release_at, ADD_REMOVE)
