"""Noise on a grid: its distribution, its arithmetic, and what its proof says of it."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from privet.errors import ConfigError, PrivacyError
from privet.hedge import (
    GaussianSum,
    Hedge,
    PerRow,
    PoissonSum,
    Randomness,
    SecureRandomness,
    grid_noise,
)
from privet.privacy import Ledger, Plan, certify


def test_thresholds_are_those_of_a_discrete_gaussian_of_scale_32():
    thresholds = grid_noise._cumulative()
    assert len(thresholds) == 992
    assert list(thresholds) == sorted(thresholds)
    with localcontext(prec=80):
        weights = [(-(Decimal(n) ** 2) / 2048).exp() for n in range(-496, 497)]
        total = sum(weights)
        for index in (0, 1, 350, 496, 497, 991):
            exact = sum(weights[: index + 1]) / total * 2**128
            assert abs(exact - thresholds[index]) <= 1


def test_two_bytes_decide_only_where_no_threshold_lies():
    table = grid_noise._table()
    for first in (0, 1, 300, 20_000, 32_768, 40_000, 65_534, 65_535):
        within = [each for each in table.thresholds if each >> 112 == first]
        below = sum(each >> 112 < first for each in table.thresholds)
        expected = grid_noise._UNDECIDED if within else below - 496
        assert table.by_first[first] == expected


def test_more_bits_decide_the_rest(monkeypatch):
    """All bytes are given: each comparison is that of one 128-bit number with the thresholds."""
    thresholds = grid_noise._table().thresholds
    for index in (100, 495, 496, 890):
        for off, value in ((-1, index), (0, index + 1), (1, index + 1)):
            whole = (thresholds[index] + off).to_bytes(16)
            given = [whole[:2][::-1], bytes(2) + b"", whole[8:]]
            given[1] = (int.from_bytes(whole[2:8]) << 16).to_bytes(8, "little")
            stream = iter(given)
            monkeypatch.setattr(grid_noise.os, "urandom", lambda count, s=stream: next(s))
            assert grid_noise._small(1)[0] == value - 496


def test_small_numbers_have_their_probabilities():
    drawn = grid_noise._small(1_000_000)
    edges = np.arange(-128, 129, 8)
    observed = np.histogram(drawn, np.concatenate([[-497], edges, [497]]))[0]
    weights = np.exp(-(np.arange(-496, 497) ** 2) / 2048)
    numbers = np.arange(-496, 497)
    expected = np.histogram(numbers, np.concatenate([[-497], edges, [497]]), weights=weights)[0]
    expected *= observed.sum() / expected.sum()
    assert stats.chisquare(observed, expected).pvalue > 1e-9


def test_sums_are_gaussian_and_fine():
    drawn = grid_noise.numbers(200_000)
    assert stats.kstest(drawn / grid_noise.STEPS, "norm").pvalue > 1e-9
    for digits in (2, 16, 1000):  # low digits are uniform
        counts = np.bincount(drawn % digits, minlength=digits)
        assert stats.chisquare(counts).pvalue > 1e-9


def test_the_sum_of_two_scales_is_one_gaussian_as_the_proof_says():
    """X + 20 Y by exact arithmetic, against the discrete Gaussian of its scale."""
    scale, factor = 32, 20
    with localcontext(prec=50):
        weights = {n: (-(Decimal(n) ** 2) / (2 * scale**2)).exp() for n in range(-400, 401)}
        variance = Decimal(scale**2 * (1 + factor**2))
        ratios = []
        for n in (0, 1, 7, 10, 333, 640, 1999):
            lattice = (weights.get(n - factor * y, Decimal(0)) * weights[y] for y in weights)
            ratios.append(sum(lattice) / (-(Decimal(n) ** 2) / (2 * variance)).exp())
        spread = float(max(ratios) / min(ratios) - 1)
    bound = 2 * 2 * math.exp(-2 * math.pi**2 * scale**2 / (1 + factor**2))
    assert 0 < spread < 1.01 * bound


def test_every_factor_of_the_proof():
    scale, off = 32.0, 0.0
    for factor in (20, 20**2, 20**4):
        tau = 1 / math.sqrt((factor / scale) ** 2 + 1 / scale**2)
        assert tau > 1.59
        off = 2 * off + 2 * 1.01 * 2 * math.exp(-2 * math.pi**2 * tau**2)
        scale *= math.sqrt(1 + factor**2)
    assert math.isclose(scale, grid_noise.STEPS)
    rounding = (15**2 + 1) / (24 * grid_noise.STEPS**2)
    ends = 8 * 2 * stats.norm.sf(9.9)  # of tables, for a number within 15
    assert off + 1.01 * rounding + ends < grid_noise.PER_NUMBER
    tails = 4 * stats.norm.sf(15) + 8 * 993 * 2.0**-128
    assert tails < grid_noise.MISSED


def test_values_stay_on_the_grid_and_keep_their_place():
    values = torch.tensor([0.0, 1.0, -3.5, 1e6], dtype=torch.float64)
    scale = 0.25
    noisy = grid_noise.on_grid(values.repeat(2000, 1), scale)
    step = Fraction(scale / grid_noise.STEPS)
    for value in noisy[0, :3].tolist():  # the last has more digits than a double
        assert abs(Fraction(value) / step - round(Fraction(value) / step)) < Fraction(1, 1000)
    assert ((noisy.mean(0) - values).abs() < 6 * scale / math.sqrt(2000)).all()
    assert (noisy.std(0) / scale - 1).abs().max() < 0.1


def test_huge_values_are_held_back_and_not_wrapped_around():
    noisy = grid_noise.on_grid(torch.tensor([1e300, -1e300], dtype=torch.float64), 1.0)
    assert noisy[0] > 1e6
    assert noisy[1] < -1e6


def test_noise_pays_for_rounding():
    scale = grid_noise.widened(2.0, 3.0, 10_000)
    step = scale / grid_noise.STEPS
    assert scale / (3.0 + step * 100) >= 2.0 * (1 - 1e-15)
    assert scale < 6.0 * (1 + 1e-7)


@pytest.mark.parametrize(("multiplier", "numbers"), [(1.0, 2**30 + 1), (1e9, 1), (1e4, 2**28)])
def test_what_is_not_proven_is_refused(multiplier, numbers):
    with pytest.raises(PrivacyError, match="Secure noise"):
        grid_noise.widened(multiplier, 1.0, numbers)


def reserved(tmp_path, event, epsilon=2.0, **more):
    ledger = Ledger.create(
        tmp_path / "ledger.db", epsilon=epsilon, delta=1e-5, relation="add-remove", **more
    )
    return ledger.reserve(plan=Plan.of(event))


class TestSecureHedge:
    SUMMAND = PerRow(lambda units: units["x"], size=3)

    def test_a_release_lies_on_the_grid_around_the_clipped_sum(self, tmp_path):
        once = GaussianSum(clip_norm=1.0, noise_multiplier=5.0)
        rows = {"x": np.tile(np.array([[0.6, 0.0, -0.8]], np.float32), (500, 1))}
        hedge = Hedge(rows, reserved(tmp_path, once.event), randomness=SecureRandomness())
        released = hedge.release(self.SUMMAND, once)
        assert 5.0 < released.noise_scale < 5.0 * (1 + 1e-6)
        away = released["sum"].double() - torch.tensor([300.0, 0.0, -400.0])
        assert away.abs().max() < 7 * 5.0
        assert (away != 0).all()

    def test_steps_sample_and_noise_each_their_own(self, tmp_path):
        often = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.25)
        rows = {"x": np.tile(np.array([[1.0, 0.0, 0.0]], np.float32), (4000, 1))}
        reservation = reserved(tmp_path, often.event.times(20), epsilon=12.0)
        steps = Hedge(rows, reservation, randomness=SecureRandomness()).steps(often)
        sums = torch.stack([steps.step(self.SUMMAND)["sum"] for _ in range(20)]).double()
        assert abs(sums[:, 0].mean() - 1000) < 6 * math.sqrt((750 + 4) / 20)
        assert len(set(sums[:, 1].tolist())) == 20

    def test_a_rate_is_never_exceeded(self, monkeypatch):
        edge = math.floor(0.3 * 2.0**64)
        words = np.array([edge - 1, edge, edge + 1], np.uint64).tobytes()
        monkeypatch.setattr("privet.hedge.randomness.os.urandom", lambda count: words[:count])
        assert SecureRandomness().sample(0, 0, 3, 0.3).tolist() == [0]
        assert SecureRandomness().sample(0, 0, 3, 1.0).tolist() == [0, 1, 2]

    def test_an_epsilon_that_is_not_proven_is_refused_before_it_is_spent(self, tmp_path):
        once = GaussianSum(clip_norm=1.0, noise_multiplier=0.2)
        reservation = reserved(tmp_path, once.event, epsilon=40.0)
        hedge = Hedge({"x": np.ones((5, 3))}, reservation, randomness=SecureRandomness())
        with pytest.raises(PrivacyError, match="not proven at ε = 40"):
            hedge.release(self.SUMMAND, once)
        assert reservation.spent(once.event) == 0

    def test_too_coarse_a_grid_is_refused_before_it_is_spent(self, tmp_path):
        once = GaussianSum(clip_norm=1.0, noise_multiplier=1e9)
        reservation = reserved(tmp_path, once.event)
        hedge = Hedge({"x": np.ones((5, 3))}, reservation, randomness=SecureRandomness())
        with pytest.raises(PrivacyError, match="too coarse a grid"):
            hedge.release(self.SUMMAND, once)
        assert reservation.spent(once.event) == 0

    def test_a_ledger_that_asks_for_it_gets_it_from_every_hedge(self, tmp_path, monkeypatch):
        once = GaussianSum(clip_norm=1.0, noise_multiplier=5.0)
        reservation = reserved(tmp_path, once.event, secure_noise=True)
        drawn = []
        real = grid_noise.numbers
        monkeypatch.setattr(grid_noise, "numbers", lambda count: drawn.append(count) or real(count))
        rows = {"x": np.ones((5, 3), np.float32)}
        Hedge(rows, reservation, randomness=Randomness()).release(self.SUMMAND, once)
        assert drawn == [3]
        assert certify(reservation).to_json()["secure_noise"]
        assert Ledger.open(tmp_path / "ledger.db").secure_noise

    def test_a_seed_is_refused_by_such_a_ledger(self, tmp_path):
        once = GaussianSum(clip_norm=1.0, noise_multiplier=5.0)
        reservation = reserved(tmp_path, once.event, secure_noise=True)
        with pytest.raises(ConfigError, match="secure noise, which has no seed"):
            Hedge({"x": np.ones((5, 3))}, reservation, randomness=Randomness(seed=1))
        assert not reservation.record.seeded
