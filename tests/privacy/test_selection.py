"""What the best of a random number of trials costs: by the paper, the library and the truth."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from scipy.integrate import trapezoid

from privet.errors import ConfigError, PrivacyError
from privet.hedge import grid_noise
from privet.privacy import (
    PLD,
    RDP,
    Budget,
    Certificate,
    GaussianRelease,
    Law,
    Ledger,
    Plan,
    PoissonSteps,
    Relation,
    Selection,
    Trials,
    certify,
    certify_together,
)
from privet.privacy.accountants import DEFAULT_ORDERS, tightest
from privet.privacy.allowance import PER_SUM
from privet.privacy.calibration import selection
from privet.privacy.events import from_json, to_json
from privet.privacy.renyi import selection_curve
from privet.privacy.selection import best_of

ADD_REMOVE = Relation.ADD_REMOVE
LAWS = [pytest.param(law, id=law) for law in Law]
ORDERS = np.array(DEFAULT_ORDERS)
GAUSSIAN = PoissonSteps(sampling_rate=1.0, noise_multiplier=4.0, steps=1)
BUDGET = Budget(epsilon=2.0, delta=1e-5)
STEPS = PoissonSteps(sampling_rate=0.1, noise_multiplier=3.0, steps=40)


def best(*candidates, law=Law.GEOMETRIC, mean=10.0, selections=1):
    trials = Trials(law=law, mean=mean)
    return Selection(candidates=candidates, trials=trials, selections=selections)


def epsilon(*events, delta=1e-5, relation=ADD_REMOVE):
    return RDP().epsilon(events, delta, relation)


def theorem_2(orders, one, shape, gamma, mean):
    """Of Papernot and Steinke, line by line."""
    found = []
    for order, divergence in zip(orders, one, strict=True):
        found.append(
            min(
                divergence
                + (1 + shape) * (1 - 1 / other) * theirs
                + (1 + shape) * math.log(1 / gamma) / other
                + math.log(mean) / (order - 1)
                for other, theirs in zip(orders, one, strict=True)
            )
        )
    return found


def theorem_6(sigma, orders, mean):
    """With the exact δ̂ of a Gaussian mechanism, which is below what divergences know of it."""
    found = []
    for order in orders:
        level = math.log(1 + 1 / (order - 1))
        upper, lower = 1 / (2 * sigma) - level * sigma, -1 / (2 * sigma) - level * sigma
        delta = stats.norm.cdf(upper) - math.exp(level) * stats.norm.cdf(lower)
        found.append(order / (2 * sigma**2) + mean * delta + math.log(mean) / (order - 1))
    return found


@pytest.mark.parametrize(
    ("law", "shape", "gamma"), [(Law.GEOMETRIC, 1, 0.1), (Law.LOGARITHMIC, 0, None)]
)
def test_is_theorem_2(law, shape, gamma):
    trials = Trials(law=law, mean=10)
    gamma = gamma or trials.parameter
    assert trials.parameter == gamma
    one = ORDERS / (2 * 4.0**2)
    expected = theorem_2(ORDERS, one, shape, gamma, 10)
    lower = [min(expected[place:]) for place in range(len(expected))]  # divergences rise
    assert best_of(trials, ORDERS, one) == pytest.approx(lower, rel=1e-12)


def test_poisson_is_theorem_6_but_for_its_delta():
    one = ORDERS / (2 * 4.0**2)
    ours = best_of(Trials(law=Law.POISSON, mean=10), ORDERS, one)
    exact = theorem_6(4.0, ORDERS, 10)
    assert np.all(ours >= [min(exact[place:]) for place in range(len(exact))])


@pytest.mark.parametrize(
    ("law", "shape"), [(Law.GEOMETRIC, 1), (Law.LOGARITHMIC, 0), (Law.POISSON, math.inf)]
)
@pytest.mark.parametrize("mean", [2.0, 10.0])
def test_agrees_with_the_library(law, shape, mean):
    """Poisson's law has a zero there, and none here: E[K] is the same, μ a little smaller."""
    noise = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(3.0))
    one = dp_accounting.SelfComposedDpEvent(noise, 40)
    accountant = RdpAccountant(DEFAULT_ORDERS)
    accountant.compose(RepeatAndSelectDpEvent(one, mean, shape))
    theirs = accountant.get_epsilon(1e-5)
    slack = 1e-3 if law is not Law.POISSON else 1e-3 + 3 * math.exp(-mean)
    assert epsilon(best(STEPS, law=law, mean=mean)) == pytest.approx(theirs, rel=slack)


def generating(trials, x):
    """f′ of the probability generating function of the number of trials, term by term."""
    chances = itertools.islice(trials.probabilities(), 600)
    return sum(number * chance * x ** (number - 1) for number, chance in enumerate(chances, 1))


def divergence(order, log_p, log_q, y):
    return math.log(trapezoid(np.exp(order * log_p + (1 - order) * log_q), y)) / (order - 1)


@pytest.fixture(scope="module", params=LAWS)
def law(request):
    return request.param


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_the_true_divergence_is_within_the_bound(law, better):
    """Numbers with Gaussian noise of which the highest, or the lowest, is kept."""
    sigma, trials = 2.0, Trials(law=law, mean=6)
    y = np.linspace(-30, 30, 1001)
    tail = stats.norm.cdf if better == "higher" else stats.norm.sf

    def log_density(centre):
        kept = generating(trials, tail(y, centre, sigma))
        return stats.norm.logpdf(y, centre, sigma) + np.log(np.maximum(kept, 1e-300))

    orders = [order for order in ORDERS if order <= 12]
    one = ORDERS / (2 * sigma**2)
    bound, alone = (each[: len(orders)] for each in (best_of(trials, ORDERS, one), one))
    p = log_density(0.0)
    assert trapezoid(np.exp(p), y) == pytest.approx(1, abs=1e-6)
    ratios = []
    for neighbour in (1.0, -1.0):
        true = [divergence(order, p, log_density(neighbour), y) for order in orders]
        assert np.all(np.array(true) <= bound)
        ratios.append(np.max(true / alone))
    assert max(ratios) > 1.3, "choosing costs nothing here"


def test_two_candidates_are_bounded_by_the_worse_one_at_every_order(law):
    """A trial draws one of two noises and tells which; the highest score of all is kept."""
    trials, sigmas, y = Trials(law=law, mean=6), (1.5, 3.0), np.linspace(-40, 40, 1601)

    def log_densities(centre):
        below = sum(stats.norm.cdf(y, centre, sigma) for sigma in sigmas) / 2
        kept = np.log(np.maximum(generating(trials, below), 1e-300))
        return [stats.norm.logpdf(y, centre, sigma) - math.log(2) + kept for sigma in sigmas]

    p, q = np.concatenate(log_densities(0.0)), np.concatenate(log_densities(1.0))
    places = np.concatenate([y, y + 100])
    orders = [order for order in ORDERS if order <= 8]
    true = [divergence(order, p, q, places) for order in orders]
    candidates = [
        PoissonSteps(sampling_rate=1.0, noise_multiplier=sigma, steps=1) for sigma in sigmas
    ]
    bound = selection_curve(best(*candidates, law=law, mean=6), ADD_REMOVE, tuple(orders))
    assert np.all(np.array(true) <= bound)
    assert epsilon(best(*candidates, law=law)) >= max(
        epsilon(best(each, law=law)) for each in candidates
    )


def test_costs_more_than_one_trial_and_less_than_ten(law):
    one, ten = epsilon(GAUSSIAN), epsilon(GAUSSIAN.times(10))
    assert one < epsilon(best(GAUSSIAN, law=law, mean=2)) < epsilon(best(GAUSSIAN, law=law))
    if law is not Law.POISSON:
        assert epsilon(best(GAUSSIAN, law=law, mean=100)) < 3 * one + 1
    assert epsilon(best(GAUSSIAN, law=law, mean=2)) < ten


def test_replace_one_is_doubled_once(law):
    twice = PoissonSteps(sampling_rate=1.0, noise_multiplier=8.0, steps=1)
    assert epsilon(best(twice, law=law), relation=Relation.REPLACE_ONE) == pytest.approx(
        epsilon(best(GAUSSIAN, law=law))
    )


def test_composes_with_everything_else():
    count = GaussianRelease(noise_multiplier=20.0)
    both = epsilon(best(STEPS), count)
    assert max(epsilon(best(STEPS)), epsilon(count)) < both < epsilon(best(STEPS)) + epsilon(count)
    assert epsilon(best(STEPS), best(STEPS)) == epsilon(best(STEPS, selections=2)) > both
    orders = (3.0, 17.0)
    curve = selection_curve(best(STEPS), ADD_REMOVE, orders)
    assert curve == pytest.approx(
        [
            selection_curve(best(STEPS), ADD_REMOVE, DEFAULT_ORDERS)[DEFAULT_ORDERS.index(order)]
            for order in orders
        ]
    )


def test_every_sum_of_every_trial_leaves_something_for_the_grid():
    """Factors of e^±a on both sides change a divergence by a (2λ − 1) / (λ − 1)."""
    assert PER_SUM >= 2 * grid_noise.MOST_NUMBERS * grid_noise.PER_NUMBER
    nothing = PoissonSteps(sampling_rate=1.0, noise_multiplier=1e12, steps=2**30)
    a = 2**30 * PER_SUM / 2
    curve = selection_curve(best(nothing), ADD_REMOVE, (3.0,))
    trials, place = Trials(law=Law.GEOMETRIC, mean=10), DEFAULT_ORDERS.index(3.0)
    left = best_of(trials, ORDERS, a * (2 * ORDERS - 1) / (ORDERS - 1))
    assert curve[0] == pytest.approx(left[place])
    assert left[place] > best_of(trials, ORDERS, 0 * ORDERS)[place] + 5 * a
    assert best(STEPS).sums == pytest.approx(400)


def test_privacy_loss_distributions_refuse_it():
    with pytest.raises(PrivacyError, match="take the RDP accountant"):
        PLD().epsilon([best(STEPS)], 1e-5, ADD_REMOVE)
    assert tightest([STEPS, best(STEPS)]) == RDP()
    assert tightest([STEPS]) == PLD()


def test_calibration_meets_the_budget_and_wastes_little():
    shapes = [(1.0, 1), (1.0, 4), (0.2, 20)]
    found = selection(shapes, Trials(law=Law.GEOMETRIC, mean=5), BUDGET, ADD_REMOVE)
    assert {(each.sampling_rate, each.steps) for each in found.candidates} == {*shapes}
    assert 0.999 * BUDGET.epsilon < epsilon(found) <= BUDGET.epsilon
    for each in found.candidates:  # none has much more noise than it needs
        assert epsilon(best(each, mean=5)) > 0.97 * BUDGET.epsilon


@pytest.mark.parametrize(
    ("law", "noise"), [(Law.LOGARITHMIC, 2.849), (Law.GEOMETRIC, 3.322), (Law.POISSON, 3.488)]
)
def test_noise_is_what_the_docs_say(law, noise):
    """The table of docs/tuning.md: 50 steps at a rate of 0.1, ε = 2, 10 trials on average."""
    found = selection([(0.1, 50)], Trials(law=law, mean=10), BUDGET, ADD_REMOVE)
    assert found.candidates[0].noise_multiplier == pytest.approx(noise, abs=1e-3)


def test_survives_json():
    event = best(STEPS, GAUSSIAN, law=Law.POISSON, mean=3.5)
    assert from_json(to_json([event])) == (event,)
    assert best(GAUSSIAN, STEPS) == best(STEPS, GAUSSIAN, STEPS)


@pytest.mark.parametrize(
    "change",
    [
        {"candidates": []},
        {"candidates": 3},
        {"candidates": [{"steps": 3}]},
        {"candidates": [to_json([STEPS.times(n)])[0] for n in range(1, 3)]},  # with a kind
        {"trials": {"law": "constant", "mean": 3}},
        {"trials": {"law": "geometric", "mean": 0.5}},
        {"trials": {"law": "geometric", "mean": "many"}},
        {"trials": "geometric"},
        {"selections": 0},
        {"number": 3},
    ],
    ids=str,
)
def test_damaged_ones_are_refused(change):
    [body] = to_json([best(STEPS)])
    with pytest.raises(ConfigError):
        from_json([{**body, **change}])


def test_too_many_candidates_are_refused():
    with pytest.raises(ConfigError, match="1 to 64 different rates"):
        best(*(STEPS.times(count) for count in range(1, 66)))


def test_a_ledger_accounts_it_alone_and_beside_others(tmp_path):
    event = selection([(1.0, 1)], Trials(law="geometric", mean=10), BUDGET, ADD_REMOVE)
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, epsilon=2.0, delta=1e-5, relation="add-remove")
    run = ledger.reserve(plan=Plan.of(event))  # it fills the ledger by itself
    assert run.guarantee.accountant == "RDP"
    assert 1.99 < run.guarantee.epsilon <= 2
    run.spend(event)
    with pytest.raises(PrivacyError, match="are spent"):
        run.spend(event)
    with pytest.raises(PrivacyError, match=r"would fit\."):
        ledger.reserve(plan=Plan.of(event))
    assert Ledger.open(path).resume(run.id).plan == Plan.of(event)

    roomy = Ledger.create(tmp_path / "roomy.db", epsilon=8.0, delta=1e-5, relation="add-remove")
    first = roomy.reserve(plan=Plan.of(event), label="tuning")
    left = roomy.remaining()
    assert 0 < left < 8
    second = roomy.reserve(plan=Plan.of(STEPS))
    assert roomy.remaining() < left
    together = certify_together({"tuning": first, "training": second})
    assert together.guarantee.accountant == "RDP"
    assert together.guarantee.epsilon > first.guarantee.epsilon
    together.check_events("here")
    with pytest.raises(PrivacyError, match=r"Asked for ε = .*RDP\)"):
        roomy.reserve(plan=Plan.of(event.times(9)))


def test_a_certificate_names_the_choice_and_is_checked_by_its_events(ledger):
    certificate = certify(ledger.reserve(plan=Plan.of(best(STEPS))))
    statement = certificate.statement
    assert "(add or remove one example, RDP)" in statement
    assert "best of a random number of trials (geometric, 10 on average)" in statement
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    again.check_events("here")
    body = certificate.to_json()
    body["events"][0]["trials"]["mean"] = 40
    with pytest.raises(PrivacyError, match="it was edited"):
        Certificate.from_json(body).check_events("here")
    plain = certify(ledger.reserve(plan=Plan.of(STEPS)))
    assert "trials" not in plain.statement
