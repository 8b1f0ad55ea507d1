import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from privet.audit.attacks import AttackPlan, Candidates, attacked_models
from privet.audit.extraction import SetMaking, extracted, memorised_set, synthetic_set
from privet.audit.membership import (
    Allowed,
    Attack,
    allowed_figures,
    likelihood_ratios,
)
from privet.audit.shadows import ShadowTraining, looked_at
from privet.audit.trials import unheard
from privet.augment import to_float
from privet.data import ImageSet, load
from privet.errors import ConfigError, DataError
from privet.public import PublicRows


def gaussian_scores(models, examples, gap, rng):
    """Every example has a mean of its own, and another one where it is a member."""
    coins = rng.random((models, examples)) < 0.5
    own = rng.normal(0, 5, examples)
    return own + gap * coins + rng.normal(size=coins.shape), coins


@pytest.fixture(scope="module")
def candidates():
    training = ShadowTraining(hidden=100, epochs=10.0)
    plan = AttackPlan(epsilons=(1.0,), delta=1e-5, models=6, examples=200, training=training)
    return plan, Candidates.of(load("digits"), plan)


@pytest.mark.parametrize("gap", [0.5, 1.5])
def test_lira_is_the_best_attack_on_gaussians(gap):
    confidences, coins = gaussian_scores(64, 400, gap, np.random.default_rng(0))
    ratios = Attack(likelihood_ratios(confidences, coins), coins)
    assert ratios.curve.area == pytest.approx(norm.cdf(gap / math.sqrt(2)), abs=0.015)
    best = norm.cdf(gap / 2)
    assert ratios.curve.balanced_accuracy == pytest.approx(best, abs=0.015)
    found = norm.sf(norm.isf(0.01) - gap)
    assert ratios.curve.hits_at(0.01) == pytest.approx(found, abs=0.03)
    # One threshold for all does not know that examples differ.
    assert Attack(confidences, coins).curve.area < ratios.curve.area - 0.03


@pytest.mark.parametrize("models", [4, 16])
def test_models_that_tell_nothing_give_nothing(models):
    rng = np.random.default_rng(1)
    areas = []
    for _ in range(20):
        confidences, _ = gaussian_scores(models, 400, 2.0, rng)
        coins = rng.random(confidences.shape) < 0.5  # others than those that the models had
        areas.append(Attack(likelihood_ratios(confidences, coins), coins).curve.area)
    assert np.mean(areas) == pytest.approx(0.5, abs=0.01)


def test_no_shadow_on_one_side_borrows_the_usual_gap():
    confidences, coins = gaussian_scores(8, 300, 3.0, np.random.default_rng(2))
    coins[1:, :100] = False  # no shadow of the first target saw these
    ratios = likelihood_ratios(confidences, coins)
    assert np.isfinite(ratios).all()
    constant = likelihood_ratios(np.ones((4, 10)), np.eye(4, 10, dtype=bool))
    assert np.isfinite(constant).all()


def test_equal_scores_share_a_threshold():
    coins = np.array([[True, False, True, False]])
    assert Attack(np.zeros((1, 4)), coins).curve.area == 0.5
    assert Attack(coins.astype(float), coins).curve.area == 1.0
    assert Attack(coins.astype(float), coins).curve.hits_at(0.001) == 1.0
    assert Attack(np.zeros((1, 4)), coins).curve.hits_at(0.5) == 0.0


def test_intervals_hold_what_they_should():
    rng = np.random.default_rng(3)
    truth, held = norm.cdf(1 / math.sqrt(2)), 0
    for _ in range(10):
        coins = rng.random((8, 100)) < 0.5
        found = Attack(coins + rng.normal(size=coins.shape), coins).estimates(rng)["auc"]
        assert found.low <= found.value <= found.high
        held += found.low <= truth <= found.high
    assert held >= 8


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 1e-5), (8.0, 0.01)])
def test_nothing_allowed_is_more_than_the_definition(epsilon, delta):
    allowed = Allowed(epsilon, delta)
    rates = np.linspace(0, 1, 20_001)
    hits = np.array([allowed.hits(each) for each in rates])
    assert (hits <= np.exp(epsilon) * rates + delta + 1e-12).all()
    assert (1 - rates <= np.exp(epsilon) * (1 - hits) + delta + 1e-9).all()
    figures = allowed_figures(allowed)
    assert figures["auc"] == pytest.approx(np.trapezoid(hits, rates), abs=1e-4)
    assert figures["balanced_accuracy"] == pytest.approx((1 + (hits - rates).max()) / 2, abs=1e-4)


def test_confidence_is_the_logit_of_the_probability():
    torch.manual_seed(0)
    rows = PublicRows(torch.randint(256, (20, 4, 4, 1), dtype=torch.uint8), torch.arange(20) % 3)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    found, right = looked_at(model, rows)
    with torch.no_grad():
        share = model(to_float(rows.inputs)).double().softmax(1)
    own = share[torch.arange(20), rows.targets]
    assert found == pytest.approx((own / (1 - own)).log().numpy())
    assert (right == (share.argmax(1) == rows.targets).numpy()).all()


def test_models_that_remember_are_found_and_private_ones_are_not(candidates):
    plan, given = candidates
    plain = attacked_models(given, plan, None, unheard)
    private = attacked_models(given, plan, 1.0, unheard)
    rng = np.random.default_rng(0)
    assert plain.attacks["LiRA"].estimates(rng)["auc"].low > 0.6
    assert plain.facts["accuracy_on_members"] > 0.95
    found = private.to_json(rng)["attacks"]["LiRA"]["figures"]
    assert 0.4 < found["auc"]["value"] < 0.62
    assert found["auc"]["allowed"] == pytest.approx(0.731, abs=1e-3)
    assert not any(each["above"] for each in found.values())
    shuffled = np.random.default_rng(5).permuted(given.coins, axis=1)
    other = Attack(plain.attacks["LiRA"].scores, shuffled).curve.area
    assert other == pytest.approx(0.5, abs=0.05)


def test_copies_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (200, 8, 8, 1), np.uint8)
    rows = PublicRows(torch.from_numpy(pixels), torch.arange(200) % 2)
    coins = rng.random(200) < 0.5
    copied = extracted(memorised_set(rows, coins, 300, rng), rows.inputs, coins)
    assert copied.copies == copied.nearer == 1.0
    assert copied.chance_copies == 0.0
    assert copied.chance[1] < 0.7
    assert copied.distances.curve.area > 0.9
    for synthetic, member, other in copied.pairs.float():
        assert (synthetic - member).abs().mean() < (synthetic - other).abs().mean() / 3
    strange = torch.from_numpy(rng.integers(0, 256, (300, 8, 8, 1), np.uint8))
    nothing = extracted(strange, rows.inputs, coins)
    assert nothing.copies == nothing.chance_copies == 0.0
    assert nothing.chance[0] <= nothing.nearer <= nothing.chance[1]
    assert nothing.distances.curve.area == pytest.approx(0.5, abs=0.15)
    outsiders = extracted(memorised_set(rows, ~coins, 300, rng), rows.inputs, coins)
    assert (outsiders.copies, outsiders.chance_copies) == (0.0, 1.0)


@pytest.mark.parametrize("channels", [1, 3])
def test_synthetic_sets_take_the_private_path(candidates, channels):
    plan, given = candidates
    rows = PublicRows(given.rows.inputs.repeat(1, 1, 1, channels), given.rows.targets)
    aside = PublicRows(given.aside.inputs.repeat(1, 1, 1, channels), given.aside.targets)
    making = SetMaking(images=20, iterations=1)
    made = synthetic_set(rows, given.coins[0], aside, making, plan.terms(1.0), unheard)
    assert made.shape == (20, 8, 8, channels)
    assert made.dtype == torch.uint8


def test_examples_and_what_is_set_aside_never_meet():
    images = np.arange(200, dtype=np.uint8).repeat(64).reshape(200, 8, 8, 1)
    plan = AttackPlan(epsilons=(1.0,), delta=1e-5, examples=1000)
    given = Candidates.of(ImageSet(images, np.arange(200) % 2), plan)
    kept, aside = (set(each.inputs[:, 0, 0, 0].tolist()) for each in (given.rows, given.aside))
    assert (len(kept), len(aside)) == (160, 40)
    assert not kept & aside


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"models": 3}, "needs 4 or more"),
        ({"examples": 10}, "give 40 or more"),
        ({"epsilons": (1.0, 1.0)}, "twice"),
        ({"epsilons": (-1.0,)}, "ε|epsilon"),
        ({"delta": 2.0}, "δ|delta"),
    ],
)
def test_bad_plans_are_refused(changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        AttackPlan(**{"epsilons": (1.0,), "delta": 1e-5, **changes})


def test_bad_examples_are_refused():
    plan = AttackPlan(epsilons=(1.0,), delta=1e-5)
    few = load("digits").take(slice(0, 30))
    with pytest.raises(DataError, match="50 images or more"):
        Candidates.of(few, plan)
    whole = load("digits")
    alone = whole.take(np.flatnonzero(whole.labels == 3))
    with pytest.raises(DataError, match="two classes"):
        Candidates.of(alone, plan)
