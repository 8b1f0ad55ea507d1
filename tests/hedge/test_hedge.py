"""No private row without a live reservation, and no way out but the marked ones."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from privet.errors import ConfigError, PrivacyError
from privet.hedge import (
    Count,
    GaussianSum,
    Hedge,
    NotPrivate,
    PerRow,
    PoissonSum,
    Randomness,
    released_size,
    size_mechanism,
)
from privet.hedge.hedge import require_columns
from privet.privacy import Budget, GaussianRelease, Ledger, Plan, PoissonSteps, Relation, certify

from .summands import ALL, flat, reference_vectors, rows

RELEASE = GaussianSum(clip_norm=1.0, noise_multiplier=2.0)
STEP = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.3)
PLAN = Plan.of(RELEASE.event.times(9), STEP.event.times(9))

OPERATIONS = {
    "map": lambda hedge: hedge.map(lambda units: {"y": units["x"]}),
    "release": lambda hedge: hedge.release(Count(), RELEASE),
    "step": lambda hedge: hedge.steps(STEP).step(Count()),
    "outside": lambda hedge: hedge.outside_guarantee("look", len),
}


def test_trap_a_sum_over_everyone_is_not_paid_as_a_sample(generous):
    """Its certificate said ε = 0.04 where the truth was 54."""
    column = Watched()
    hedge = Hedge({"x": column}, generous.reserve(plan=PLAN))
    with pytest.raises(PrivacyError, match="PoissonSum was given where a GaussianSum is due"):
        hedge.release(Count(), STEP)
    with pytest.raises(PrivacyError, match="GaussianSum was given where a PoissonSum is due"):
        hedge.steps(RELEASE)
    assert not column.reads
    assert not any(hedge.reservation.record.spent)


class Watched:
    """A column that remembers whether anyone read it."""

    def __init__(self, count=30):
        self.shape = (count, 2)
        self.reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return np.zeros(self.shape, np.float32)[index]


def quiet(ledger, count=1, **terms):
    """A plan with so little noise that sums can be compared."""
    event = GaussianRelease(noise_multiplier=1e-3, releases=count)
    return ledger.reserve(plan=Plan.of(event), **terms)


@pytest.fixture
def reservation_of_all(generous):
    return generous.reserve(plan=PLAN)


@pytest.fixture
def generous(tmp_path):
    return Ledger.create(tmp_path / "g.db", epsilon=1e9, delta=1e-5, relation="add-remove")


@pytest.mark.parametrize("operation", OPERATIONS)
class TestReservation:
    def test_a_live_reservation_lets_rows_be_read(self, ledger, operation):
        column = Watched()
        OPERATIONS[operation](Hedge({"x": column}, ledger.reserve(plan=PLAN)))
        assert column.reads > 0

    def test_no_row_is_read_before_a_plan_is_fixed(self, ledger, operation):
        column = Watched()
        hedge = Hedge({"x": column}, ledger.reserve(epsilon=5.0))
        with pytest.raises(PrivacyError, match=r"reservation"):
            OPERATIONS[operation](hedge)
        assert column.reads == 0

    def test_no_row_is_read_after_closing(self, ledger, operation):
        column = Watched()
        hedge = Hedge({"x": column}, ledger.reserve(plan=PLAN))
        hedge.reservation.close()
        with pytest.raises(PrivacyError, match=r"reservation"):
            OPERATIONS[operation](hedge)
        assert column.reads == 0

    def test_no_row_is_read_when_the_ledger_is_gone(self, ledger, operation):
        column = Watched()
        hedge = Hedge({"x": column}, ledger.reserve(plan=PLAN))
        ledger.path.unlink()
        with pytest.raises(PrivacyError):
            OPERATIONS[operation](hedge)
        assert column.reads == 0


def test_nothing_leaves_without_a_durable_spend(ledger):
    hedge = Hedge(rows(5), ledger.reserve(plan=Plan.of(RELEASE.event)))
    hedge.release(Count(), RELEASE)
    with pytest.raises(PrivacyError, match="are spent"):
        hedge.release(Count(), RELEASE)
    with pytest.raises(PrivacyError, match="does not contain"):
        hedge.release(Count(), replace(RELEASE, noise_multiplier=1.0))
    with pytest.raises(PrivacyError, match="does not contain"):
        hedge.steps(STEP)


def test_the_hedge_offers_three_operations_and_one_door(ledger):
    hedge = Hedge(rows(5), ledger.reserve(plan=PLAN))
    public = {name for name in dir(hedge) if not name.startswith("_")}
    assert public == {
        *("map", "release", "steps", "outside_guarantee", "shared_with"),
        *("reservation", "size", "device", "columns"),
    }
    for protocol in ("__len__", "__getitem__", "__iter__"):
        assert not hasattr(hedge, protocol)
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="private rows stay here"):
            copying(hedge)


def test_repr_shows_nothing_of_the_data(ledger):
    reservation = ledger.reserve(plan=PLAN)
    assert repr(Hedge(rows(5), reservation)) == repr(Hedge(rows(7), reservation))


@pytest.mark.parametrize("name", ALL)
def test_every_summand_runs_through_the_hedge(generous, name):
    columns = rows(50)
    hedge = Hedge(columns, quiet(generous), physical_batch=7)
    vectors = reference_vectors(name, columns)
    clipped = vectors * (0.5 / vectors.norm(dim=1, keepdim=True)).clamp(max=1)
    mechanism = GaussianSum(clip_norm=0.5, noise_multiplier=1e-3)
    noisy = flat(hedge.release(ALL[name](), mechanism).blocks)
    torch.testing.assert_close(noisy, clipped.sum(0), atol=6 * mechanism.noise_scale, rtol=0)


@pytest.mark.parametrize("name", ALL)
def test_every_summand_steps_through_the_hedge(generous, name):
    event = PoissonSteps(sampling_rate=1.0, noise_multiplier=1e-3, steps=2)
    columns = rows(50)
    hedge = Hedge(columns, generous.reserve(plan=Plan.of(event)), physical_batch=7)
    mechanism = PoissonSum(clip_norm=0.5, noise_multiplier=1e-3, sampling_rate=1.0)
    vectors = reference_vectors(name, columns)
    clipped = vectors * (0.5 / vectors.norm(dim=1, keepdim=True)).clamp(max=1)
    steps = hedge.steps(mechanism)
    for _ in range(2):
        noisy = flat(steps.step(ALL[name]()).blocks)
        torch.testing.assert_close(noisy, clipped.sum(0), atol=6 * mechanism.noise_scale, rtol=0)
    assert (steps.remaining, steps.number) == (0, 2)


SIZES = {"large": torch.Size([300, 400]), "none": torch.Size([0]), "small": torch.Size([3])}


class Silence:
    """Large blocks to which nobody contributes: what leaves the hedge is noise alone."""

    def zeros(self):
        return {name: torch.zeros(size) for name, size in SIZES.items()}

    def norms(self, units):
        return torch.zeros(len(units))

    def weighted_sum(self, units, weights):
        return self.zeros()


def test_every_coordinate_of_a_large_block_has_noise_of_its_own(ledger):
    mechanism = GaussianSum(clip_norm=1.0, noise_multiplier=3.0)
    hedge = Hedge(rows(5), ledger.reserve(plan=Plan.of(mechanism.event)))
    noisy = hedge.release(Silence(), mechanism).blocks
    assert {name: block.shape for name, block in noisy.items()} == SIZES
    noise = flat(noisy)
    assert len(noise.unique()) > 0.99 * len(noise)
    for part in noise.tensor_split(7):
        assert math.isclose(float(part.std()), 3.0, rel_tol=0.05)


@pytest.mark.parametrize("users", [None, np.arange(50) % 7])
def test_mapping_keeps_rows_with_their_units(tmp_path, users):
    unit = "example" if users is None else "user"
    ledger = Ledger.create(
        tmp_path / "u.db", epsilon=1e9, delta=1e-5, relation="add-remove", unit=unit
    )
    columns, reservation = rows(50), quiet(ledger, 2)
    mechanism = GaussianSum(clip_norm=9.0, noise_multiplier=1e-3)
    hedge = Hedge(columns, reservation, users=users, physical_batch=4)
    mapped = hedge.map(lambda units: {"y": units["x"] * 2, "labels": units["labels"]})
    direct = hedge.release(PerRow(lambda u: u["x"] * 2, 5, dtype=torch.float64), mechanism)
    through = mapped.release(PerRow(lambda u: u["y"], 5, dtype=torch.float64), mechanism)
    torch.testing.assert_close(direct["sum"], through["sum"], atol=0.1, rtol=0)
    assert isinstance(mapped, Hedge)
    assert mapped.reservation is reservation


def test_an_empty_data_set_maps_like_any_other(ledger):
    hedge = Hedge(rows(0), ledger.reserve(plan=PLAN))
    mapped = hedge.map(lambda units: {"y": units["x"] * 2})
    assert mapped.release(PerRow(lambda u: u["y"], 5), RELEASE)["sum"].shape == (5,)


def test_a_map_whose_columns_change_from_batch_to_batch_is_refused(ledger):
    hedge = Hedge(rows(6), ledger.reserve(plan=PLAN), physical_batch=2)
    names = iter("aab")
    with pytest.raises(ConfigError, match="the same columns"):
        hedge.map(lambda units: {next(names): units["x"]})


def test_a_map_that_loses_rows_is_refused(ledger):
    hedge = Hedge(rows(5), ledger.reserve(plan=PLAN))
    with pytest.raises(ConfigError, match="one value per row"):
        hedge.map(lambda units: {"y": units["x"].mean(0, keepdim=True)})


def test_user_ids_exactly_when_the_unit_is_a_user(ledger):
    with pytest.raises(ConfigError, match="protects each example"):
        Hedge(rows(4), ledger.reserve(plan=PLAN), users=[1, 1, 2, 2])


def test_trap_users_are_sampled_not_rows(tmp_path):
    """A user's rows join a step together or not at all."""
    ledger = Ledger.create(
        tmp_path / "u.db", epsilon=1e12, delta=1e-5, relation="add-remove", unit="user"
    )
    event = PoissonSteps(sampling_rate=0.5, noise_multiplier=1e-4, steps=30)
    users = np.repeat(np.arange(6), 10)
    columns = {"x": np.eye(6)[users]}
    hedge = Hedge(columns, ledger.reserve(plan=Plan.of(event)), users=users)
    steps = hedge.steps(PoissonSum(clip_norm=1.0, noise_multiplier=1e-4, sampling_rate=0.5))
    sums = [steps.step(PerRow(lambda u: u["x"], 6, dtype=torch.float64))["sum"] for _ in range(30)]
    whole = torch.stack(sums).round(decimals=2)
    assert set(whole.unique().tolist()) == {0.0, 1.0}


def test_trap_the_marked_door_is_written_down_first(ledger):
    """Known bug: raw training loss or gradient norms logged from private rows."""
    hedge = Hedge(rows(5), ledger.reserve(plan=PLAN))
    seen = hedge.outside_guarantee("count", len)
    assert seen == NotPrivate("count", 5)
    assert str(seen) == "NOT PRIVATE (count): 5"
    assert certify(hedge.reservation).outside == ("count",)

    def fails(_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        hedge.outside_guarantee("failing", fails)
    assert hedge.reservation.record.outside == ("count", "failing")
    with pytest.raises(ConfigError, match="by name"):
        hedge.outside_guarantee(" ", len)


def test_trap_the_number_of_rows_is_declared_or_released_never_read(ledger):
    """Known bug: the data set's size used as public."""
    reservation = ledger.reserve(plan=PLAN)
    with pytest.raises(PrivacyError, match="declare it, or release a count"):
        _ = Hedge(rows(5), reservation).size
    assert Hedge(rows(5), reservation, declared_size=57_613).size == 58_000.0
    assert certify(reservation).declared == {"units": 58_000.0}
    for size in (0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="at least 1"):
            Hedge(rows(5), reservation, declared_size=size)


def test_a_released_size_takes_a_small_share_of_the_budget(tmp_path):
    budget = Budget(epsilon=1.0, delta=1e-5)
    ledger = Ledger.create(tmp_path / "s.db", epsilon=1.0, delta=1e-5, relation="add-remove")
    mechanism = size_mechanism(budget, Relation.ADD_REMOVE)
    assert mechanism.noise_multiplier == pytest.approx(37.3, abs=0.1)
    reservation = ledger.reserve(plan=Plan.of(mechanism.event))
    assert reservation.guarantee.epsilon < 0.1
    size = released_size(Hedge({"x": Watched(50_000)}, reservation), mechanism)
    assert size == pytest.approx(50_000, abs=6 * mechanism.noise_scale)


def test_a_released_size_is_at_least_one(tmp_path):
    ledger = Ledger.create(tmp_path / "s.db", epsilon=1.0, delta=1e-5, relation="add-remove")
    mechanism = size_mechanism(Budget(epsilon=1.0, delta=1e-5), Relation.ADD_REMOVE)
    reservation = ledger.reserve(plan=Plan.of(mechanism.event.times(20)))
    hedge = Hedge(rows(0), reservation)
    assert min(released_size(hedge, mechanism) for _ in range(20)) == 1.0


def test_a_failed_step_may_be_retried_and_costs_nothing(ledger):
    class Failing(Count):
        def norms(self, units):
            raise RuntimeError("out of memory")

    hedge = Hedge(rows(50), ledger.reserve(plan=PLAN))
    steps = hedge.steps(STEP)
    with pytest.raises(RuntimeError):
        steps.step(Failing())
    assert hedge.reservation.record.spent == (0, 0)
    steps.step(Count())
    assert hedge.reservation.record.spent == (0, 1)


def test_settings_are_checked(ledger):
    reservation = ledger.reserve(plan=PLAN)
    with pytest.raises(ConfigError, match="physical batch"):
        Hedge(rows(5), reservation, physical_batch=0)
    with pytest.raises(ConfigError, match="numbered from 0"):
        Hedge(rows(5), reservation).steps(STEP, first=-1)
    with pytest.raises(ConfigError, match="numbered from 0"):
        Hedge(rows(5), reservation).steps(STEP, first=0.5)
    scales = np.float16(0.3299), np.float32(1.0)
    mechanism = GaussianSum(noise_multiplier=scales[0], clip_norm=scales[1])
    assert mechanism.noise_scale == mechanism.event.noise_multiplier == float(scales[0])
    for clip in (0.0, -1.0, 1e-20, 1e20, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="clip norm"):
            GaussianSum(clip_norm=clip, noise_multiplier=1.0)
    with pytest.raises(ConfigError, match="sampling rate"):
        PoissonSum(clip_norm=1.0, noise_multiplier=1.0, sampling_rate=0.0)
    with pytest.raises(ConfigError, match="noise multiplier"):
        GaussianSum(clip_norm=1.0, noise_multiplier=0.0)


def test_image_sets_go_behind_the_hedge_as_they_are(generous):
    from privet.data import load

    digits = load("digits")
    hedge = Hedge(digits, quiet(generous))
    mechanism = GaussianSum(clip_norm=1e4, noise_multiplier=1e-3)
    total = hedge.release(PerRow(lambda u: u["images"].flatten(1).double(), 64), mechanism)
    expected = np.asarray(digits.images[:]).reshape(len(digits), 64).astype(float).sum(0)
    np.testing.assert_allclose(total["sum"], expected, atol=60)


def test_what_is_public_of_a_hedge(reservation_of_all):
    hedge = Hedge(rows(9), reservation_of_all, device="cpu")
    assert hedge.device == torch.device("cpu")
    assert hedge.columns == frozenset(rows(9))
    require_columns(hedge, *rows(9))
    with pytest.raises(ConfigError, match="have no weights, only"):
        require_columns(hedge, "weights")


def test_a_physical_batch_has_a_unit(reservation_of_all):
    with pytest.raises(ConfigError, match="physical batch must be at least 1, not 0"):
        Hedge(rows(9), reservation_of_all).steps(STEP, physical_batch=0)


def test_a_seeded_step_again_is_the_same_and_paid_once(reservation_of_all):
    """A seeded run, which is not private, may be repeated from any of its steps."""
    hedge = Hedge(rows(9), reservation_of_all, randomness=Randomness(1))
    steps = hedge.steps(STEP)
    first = [steps.step(Count()).blocks["count"].item() for _ in range(2)]
    again = Hedge(rows(9), reservation_of_all, randomness=Randomness(1)).steps(STEP)
    assert again.remaining == 9
    assert [again.step(Count()).blocks["count"].item() for _ in range(2)] == first
    assert reservation_of_all.spent(STEP.event) == 2


def test_small_and_large_blocks_get_noise_in_groups(generous):
    """Blocks that fill a draw exactly leave no group behind, and a name stays with its numbers."""
    sizes = {"a": 3, "b": (1 << 17) - 3, "c": 1 << 17}

    class Blocks:
        def zeros(self):
            return {name: torch.zeros(size) for name, size in sizes.items()}

        def norms(self, units):
            return torch.zeros(len(units))

        def weighted_sum(self, units, weights):
            return self.zeros()

    mechanism = GaussianSum(clip_norm=1.0, noise_multiplier=1.0)
    reservation = generous.reserve(plan=Plan.of(mechanism.event))
    found = Hedge(rows(3), reservation).release(Blocks(), mechanism).blocks
    assert {name: len(block) for name, block in found.items()} == sizes
    together = torch.cat(list(found.values()))
    assert len(torch.unique(together)) > 0.97 * len(together)
    assert together.std().item() == pytest.approx(1, abs=0.02)
