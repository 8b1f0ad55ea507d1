"""Portions: counted beside each other by the owner's word, and only where that can be true."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.errors import BudgetExceeded, ConfigError, PrivacyError
from privet.privacy import (
    PLD,
    Certificate,
    GaussianRelease,
    Ledger,
    Plan,
    Relation,
    Unit,
    certify,
    certify_together,
    gaussian,
)
from privet.privacy.allowance import release_sigma
from privet.privacy.overview import overview
from privet.privacy.portions import lives
from privet.privacy.spends import Spend, cost_of, plan_of

DELTA = 1e-5
EVENTS = st.builds(
    GaussianRelease, noise_multiplier=st.floats(0.5, 50.0), releases=st.integers(1, 4)
)
SPENDS = st.lists(
    st.builds(
        Spend,
        run=st.just("run"),
        plan=EVENTS.map(Plan.of),
        portion=st.sampled_from([None, "march", "april", "may"]),
    ),
    min_size=1,
    max_size=6,
)


def create(tmp_path, *portions, epsilon=2.0, **terms):
    terms = {"delta": DELTA, "relation": "add-remove", **terms}
    ledger = Ledger.create(tmp_path / "l.db", epsilon=epsilon, **terms)
    for name in portions:
        ledger.declare_portion(name)
    return ledger


def release(sigma, count=1):
    return Plan.of(GaussianRelease(noise_multiplier=sigma, releases=count))


def filling(epsilon):
    return release(release_sigma(epsilon, DELTA))


def cost(spends):
    return cost_of(spends, PLD(), DELTA, Relation.ADD_REMOVE)


class TestCost:
    @given(SPENDS)
    def test_is_that_of_the_dearest_life_and_at_most_that_of_everything(self, spends):
        by_hand = []
        for portion in ("march", "april", "may"):
            met = [each for each in spends if each.portion in (None, portion)]
            precision = sum(
                each.plan.events[0].count / each.plan.events[0].noise_multiplier ** 2
                for each in met
            )
            by_hand.append(gaussian.epsilon(precision**-0.5, DELTA) if met else 0.0)
        assert cost(spends) == pytest.approx(max(by_hand), rel=1e-6, abs=1e-9)
        assert cost(spends) <= PLD().epsilon(plan_of(spends).events, DELTA, Relation.ADD_REMOVE)

    @given(SPENDS)
    def test_without_portions_everything_adds_up(self, spends):
        spends = [Spend(run=each.run, plan=each.plan) for each in spends]
        everything = PLD().epsilon(plan_of(spends).events, DELTA, Relation.ADD_REMOVE)
        assert cost(spends) == pytest.approx(everything, rel=1e-9)

    def test_what_names_no_portion_happens_in_each(self):
        assert lives([("a", [1]), (None, [2]), ("b", [3]), ("a", [4])]) == ((2, 1, 4), (2, 3))
        assert lives([(None, [1]), (None, [2])]) == ((1, 2),)
        assert lives([]) == ((),)


class TestLedger:
    def test_each_portion_may_fill_the_ledger(self, tmp_path):
        ledger = create(tmp_path, "march", "april")
        for portion in ("march", "april"):
            assert ledger.remaining(portion) == 2.0
            ledger.reserve(plan=filling(2.0), portion=portion)
            assert ledger.remaining(portion) == 0.0
        assert ledger.remaining() == 0.0

    def test_a_second_run_in_a_portion_adds_up_there(self, tmp_path):
        ledger = create(tmp_path, "march", "april")
        ledger.reserve(plan=filling(1.5), portion="march")
        before = ledger.records()
        with pytest.raises(BudgetExceeded, match="of the portion 'march'"):
            ledger.reserve(plan=filling(1.5), portion="march")
        with pytest.raises(BudgetExceeded, match="of the portion 'march'"):
            ledger.require_room(filling(1.5), "march")
        assert ledger.records() == before
        ledger.require_room(filling(1.5), "april")
        ledger.reserve(plan=filling(1.5), portion="april")

    def test_a_run_that_names_none_counts_in_every_portion(self, tmp_path):
        ledger = create(tmp_path, "march", "april")
        ledger.reserve(plan=filling(1.5), portion="march")
        with pytest.raises(BudgetExceeded):
            ledger.reserve(plan=filling(1.5))
        ledger.reserve(plan=filling(ledger.remaining() * 0.99))
        assert ledger.remaining("march") < 0.2 < ledger.remaining("april") < 2.0
        with pytest.raises(BudgetExceeded):
            ledger.reserve(plan=filling(2.0), portion="april")

    def test_the_default_adds_up(self, tmp_path):
        ledger = create(tmp_path, "march", "april")
        ledger.reserve(plan=filling(2.0))
        for portion in (None, "march", "april"):
            with pytest.raises(BudgetExceeded):
                ledger.reserve(epsilon=0.5, portion=portion)

    def test_an_epsilon_that_is_held_keeps_its_portion(self, tmp_path):
        ledger = create(tmp_path, "march", "april")
        held = ledger.reserve(epsilon=2.0, portion="march")
        ledger.reserve(epsilon=2.0, portion="april")
        held.fix(filling(2.0))
        assert Ledger.open(ledger.path).resume(held.id).record.portion == "march"
        with pytest.raises(BudgetExceeded):
            ledger.reserve(epsilon=0.1, portion="march")

    @settings(max_examples=25, deadline=None)
    @given(
        asked=st.lists(
            st.tuples(st.sampled_from([None, "a", "b"]), st.floats(1.0, 30.0)), max_size=12
        )
    )
    def test_no_life_ever_costs_more_than_the_budget(self, tmp_path_factory, asked):
        ledger = create(tmp_path_factory.mktemp("ledger"), "a", "b", epsilon=1.0)
        for portion, sigma in asked:
            try:
                ledger.reserve(plan=release(sigma), portion=portion)
            except BudgetExceeded:
                continue
        granted = [each for each in ledger.records() if each.plan is not None]
        for own in ("a", "b"):
            met = [e for r in granted if r.portion in (None, own) for e in r.plan.events]
            assert PLD().epsilon(met, DELTA, ledger.relation) <= 1.0 + 1e-9

    def test_racing_reservations_never_overspend_their_portion(self, tmp_path):
        path = create(tmp_path, "march", "april").path

        def reserve(number):
            try:
                ledger = Ledger.open(path)
                ledger.reserve(plan=filling(0.9), portion=("march", "april")[number % 2])
            except BudgetExceeded:
                return 0
            return 1

        with ThreadPoolExecutor(8) as pool:
            granted = sum(pool.map(reserve, range(16)))
        alone = Ledger.create(tmp_path / "alone.db", epsilon=2, delta=DELTA, relation="add-remove")
        most = 0
        while alone.remaining() >= 0.9:
            alone.reserve(plan=filling(0.9))
            most += 1
        assert granted == 2 * most > 2


class TestWord:
    @pytest.mark.parametrize(
        ("terms", "reason"),
        [
            ({"relation": "replace-one"}, "may move from one to another"),
            ({"unit": Unit.USER}, "may have rows in several"),
        ],
    )
    def test_refused_where_one_unit_may_lie_in_several(self, tmp_path, terms, reason):
        ledger = create(tmp_path, **terms)
        with pytest.raises(PrivacyError, match=reason):
            ledger.declare_portion("march")
        assert ledger.records() == ()

    def test_a_portion_must_be_declared_and_is_once(self, tmp_path):
        ledger = create(tmp_path, "march")
        for ask in (
            lambda: ledger.reserve(epsilon=1.0, portion="april"),
            lambda: ledger.require_room(filling(1.0), "april"),
            lambda: ledger.remaining("april"),
        ):
            with pytest.raises(PrivacyError, match="no portion 'april'"):
                ask()
        with pytest.raises(PrivacyError, match="declared already"):
            ledger.declare_portion("march")
        for name in ("", " ", "a\nb", "x" * 61):
            with pytest.raises(ConfigError, match="no name for a portion"):
                ledger.declare_portion(name)
        assert ledger.portions() == ("march",)
        assert ledger.remaining() == 2.0

    def test_an_owner_sees_it(self, tmp_path):
        ledger = create(tmp_path, "march", "april")
        ledger.reserve(plan=filling(2.0), portion="march", label="first")
        view = overview(ledger)
        assert view["portions"] == {"march": 0.0, "april": 2.0}
        assert "no example lies in two portions" in view["portions_rest_on"]
        [run] = view["reservations"]
        assert "portion   march" in run["lines"]

    def test_ledgers_of_before_and_records_without_portions_read_the_same(self, tmp_path):
        ledger = create(tmp_path)
        record = ledger.reserve(plan=filling(1.0)).record
        assert "portion" not in record.to_json()  # an older Privet reads it
        assert type(record).from_json(record.to_json()) == record


class TestCertificate:
    def test_of_a_run_in_a_portion_says_whose_word_it_is(self, tmp_path):
        ledger = create(tmp_path, "march")
        certificate = certify(ledger.reserve(plan=filling(1.0), portion="march"))
        assert certificate.guarantee.epsilon == pytest.approx(1.0)
        assert "'march'" in certificate.statement
        assert "the owner's word that no example lies in two portions" in certificate.statement
        assert "chosen by what another had shown" not in certificate.statement
        assert Certificate.from_json(json.loads(certificate.dumps())) == certificate
        certificate.check_events("here")

    def test_of_portions_together_is_the_dearest(self, tmp_path):
        ledger = create(tmp_path, "march", "april")
        plans = {"march": filling(1.0), "april": filling(1.5)}
        runs = {k: ledger.reserve(plan=plan, portion=k) for k, plan in plans.items()}
        together = certify_together(runs)
        assert together.guarantee.epsilon == pytest.approx(1.5)
        assert [each.run for each in together.spends] == ["march", "april"]
        assert "these 2 runs together" in together.statement
        assert "chosen by what another had shown" not in together.statement
        together.check_events("here")
        assert Certificate.from_json(json.loads(together.dumps())) == together

    def test_of_other_runs_adds_up(self, tmp_path):
        ledger = create(tmp_path, "march", epsilon=4.0)
        runs = {"a": ledger.reserve(plan=filling(1.0), portion="march")}
        runs["b"] = ledger.reserve(plan=filling(1.5))
        runs["a"].declare_size(600.0)
        runs["b"].open_door("norms")
        together = certify_together(runs)
        assert together.guarantee.epsilon == pytest.approx(
            PLD().epsilon(together.plan.events, DELTA, ledger.relation)
        )
        assert together.guarantee.epsilon > 1.5
        assert "chosen by what another had shown" in together.statement
        assert "ε ≤ 4 at δ = 1e-05 for all its runs but those whose noise" in together.statement
        assert together.declared == {"units of a": 600.0}
        assert together.outside == ("norms",)

    def test_of_several_ledgers_adds_up_whatever_their_portions(self, tmp_path):
        runs = {}
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            ledger = create(tmp_path / name, name)
            runs[name] = ledger.reserve(plan=filling(1.0), portion=name)
        together = certify_together(runs)
        assert together.guarantee.epsilon > 1.3
        assert "none, since they drew on 2 ledgers" in together.statement
        other = Ledger.create(tmp_path / "o.db", epsilon=2, delta=1e-6, relation="add-remove")
        with pytest.raises(PrivacyError, match="no common guarantee"):
            certify_together({**runs, "three": other.reserve(plan=filling(0.5))})

    def test_of_a_seeded_run_is_not_private(self, tmp_path):
        ledger = create(tmp_path, "march", "april")
        runs = {k: ledger.reserve(plan=filling(1.0), portion=k) for k in ("march", "april")}
        runs["april"].mark_seeded()
        assert not certify_together(runs).private

    @pytest.mark.parametrize(
        "edit",
        [
            lambda body: body["spends"].pop(),
            lambda body: body.update(relation="replace-one"),
            lambda body: body.update(unit="user"),
            lambda body: body["spends"][1].update(portion=3, events=[]),
        ],
    )
    def test_that_was_edited_is_refused(self, tmp_path, edit):
        ledger = create(tmp_path, "march", "april")
        runs = {k: ledger.reserve(plan=filling(1.0), portion=k) for k in ("march", "april")}
        body = json.loads(certify_together(runs).dumps())
        edit(body)
        with pytest.raises(PrivacyError, match="is damaged"):
            Certificate.from_json(body)

    def test_whose_portions_were_invented_is_refused(self, tmp_path):
        """Two runs that add up, edited into portions, still promise what they cost together."""
        ledger = create(tmp_path, epsilon=4.0)
        runs = {k: ledger.reserve(plan=filling(1.0)) for k in ("march", "april")}
        body = json.loads(certify_together(runs).dumps())
        for each in body["spends"]:
            each["portion"] = each["run"]
        with pytest.raises(PrivacyError, match="was edited"):
            Certificate.from_json(body).check_events("It")
