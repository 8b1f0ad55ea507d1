"""The law of a number of trials: it adds up, has its mean, and is what is drawn."""

import itertools
import math
from collections import Counter
from random import Random

import pytest
from scipy import stats

from privet.errors import ConfigError
from privet.privacy import Law, Trials

LAWS = [pytest.param(law, id=law) for law in Law]


def chances(trials, most=20_000):
    return list(itertools.islice(trials.probabilities(), most))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [1.01, 3.0, 10.0, 100.0])
def test_probabilities_add_up_and_have_their_mean(law, mean):
    trials = Trials(law=law, mean=mean)
    found = chances(trials)
    assert sum(found) == pytest.approx(1, abs=1e-12)
    average = sum(number * chance for number, chance in enumerate(found, 1))
    assert average == pytest.approx(mean, rel=1e-10)
    assert trials.expected == pytest.approx(mean, rel=1e-12)


def test_laws_are_those_of_the_textbooks():
    number = range(1, 30)
    geometric = Trials(law="geometric", mean=10)
    assert chances(geometric, 29) == pytest.approx(stats.geom.pmf(number, 0.1))
    logarithmic = Trials(law="logarithmic", mean=10)
    assert chances(logarithmic, 29) == pytest.approx(
        stats.logser.pmf(number, 1 - logarithmic.parameter)
    )
    poisson = Trials(law="poisson", mean=10)
    whole = stats.poisson.pmf(number, poisson.parameter)
    assert chances(poisson, 29) == pytest.approx(whole / (1 - math.exp(-poisson.parameter)))


@pytest.mark.parametrize("law", LAWS)
def test_draws_follow_their_law(law):
    trials, random = Trials(law=law, mean=4), Random(0)
    drawn = Counter(trials.draw(random) for _ in range(4000))
    assert min(drawn) == 1
    expected = [4000 * chance for chance in chances(trials, 12)]
    found = [drawn[number] for number in range(1, 13)]
    rest, others = 4000 - sum(expected), 4000 - sum(found)
    assert stats.chisquare([*found, others], [*expected, rest]).pvalue > 1e-4


@pytest.mark.parametrize("law", LAWS)
def test_a_draw_ends_however_unlikely(law):
    class Extreme:
        def random(self):
            return 1 - 2**-53

    assert 1 < Trials(law=law, mean=10).draw(Extreme()) < 10_000


@pytest.mark.parametrize("mean", [-1, 0, 1, 1001, math.nan, math.inf])
def test_one_trial_or_none_or_endless_ones_are_refused(mean):
    with pytest.raises(ConfigError, match="must be above 1 and at most 1000"):
        Trials(law="geometric", mean=mean)


def test_a_large_mean_can_be_drawn():
    trials = Trials(law=Law.POISSON, mean=1000.0)
    found = [trials.draw(Random(seed)) for seed in range(40)]
    assert sum(found) / len(found) == pytest.approx(1000, rel=0.02)


def test_other_laws_are_refused():
    with pytest.raises(ConfigError, match="no law of trials"):
        Trials(law="constant", mean=3)
