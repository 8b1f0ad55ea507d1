"""Noise of the right scale and no other; samples at the right rate; nothing drawn twice."""

import os
import pickle

import numpy as np
import pytest
import torch
from scipy import stats

from privet.errors import LedgerError, PrivacyError
from privet.hedge import Count, GaussianSum, Hedge, PerRow, PoissonSum, Randomness
from privet.hedge.randomness import _standard_normal
from privet.privacy import Ledger, Plan, Reservation

SIZE = 20_000
SIGNIFICANCE = 1e-6


def has_scale(sample, scale):
    """Two-sided χ² test of the variance at a known mean of zero."""
    statistic = np.square(np.asarray(sample) / scale).sum()
    tail = stats.chi2.cdf(statistic, len(sample))
    return min(tail, 1 - tail) > SIGNIFICANCE


def assert_noise(sample, scale):
    """The right scale is accepted; two thirds and three halves of it are rejected."""
    assert has_scale(sample, scale)
    assert not has_scale(sample, scale * 2 / 3)
    assert not has_scale(sample, scale * 3 / 2)
    assert stats.kstest(np.asarray(sample) / scale, "norm").pvalue > SIGNIFICANCE


def zeros(count):
    return {"x": np.zeros((count, 1), np.float32)}


def silent():
    return PerRow(lambda batch: batch["x"].expand(-1, SIZE), SIZE)


def test_release_noise_has_the_scale_of_clip_times_multiplier(reserve, release_event):
    hedge = Hedge(zeros(9), reserve(release_event))
    mechanism = GaussianSum(clip_norm=0.25, noise_multiplier=2.0)
    noisy = hedge.release(silent(), mechanism)
    assert noisy.noise_scale == 0.5
    assert_noise(noisy["sum"], 0.5)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_trap_noise_is_added_once_per_logical_batch(reserve, step_event, batch):
    """Known bug: noise added per micro-batch."""
    hedge = Hedge(zeros(20), reserve(step_event), physical_batch=batch)
    mechanism = PoissonSum(clip_norm=3.0, noise_multiplier=2.0, sampling_rate=0.3)
    assert_noise(hedge.steps(mechanism).step(silent())["sum"], 6.0)


def test_trap_an_empty_batch_is_noise_and_counts(reserve, step_event):
    """Known bug: a random example substituted for an empty Poisson batch."""
    reservation = reserve(step_event)
    hedge = Hedge(zeros(0), reservation)
    mechanism = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.3)
    steps = hedge.steps(mechanism)
    assert_noise(steps.step(silent())["sum"], 2.0)
    assert reservation.record.spent == (1,)
    assert steps.remaining == 49


def test_steps_draws_and_streams_are_independent():
    source = Randomness()
    draws = [
        source.noise(stream, step, draw, SIZE).numpy()
        for stream, step, draw in [(0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1), (1, 1, 1)]
    ]
    correlations = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlations).max() < 6 / np.sqrt(SIZE)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_a_draw_has_any_size(size):
    assert len(Randomness().noise(0, 0, 0, size)) == size


def test_the_two_halves_of_a_draw_are_independent():
    """They come of the same bits: neither they nor their lengths may tell of each other."""
    one, other = Randomness().noise(0, 0, 0, 2 * SIZE).numpy().reshape(2, SIZE)
    for function in (np.asarray, np.square, np.abs, np.sign):
        correlation = np.corrcoef(function(one), function(other))[0, 1]
        assert abs(correlation) < 6 / np.sqrt(SIZE)


def test_tails_are_as_heavy_as_they_should_be():
    sample = np.abs(Randomness().noise(0, 0, 0, 4_000_000).numpy())
    for bound in (3.0, 4.0, 4.5):
        beyond = int((sample > bound).sum())
        share = 2 * stats.norm.sf(bound)
        assert stats.binomtest(beyond, len(sample), share).pvalue > SIGNIFICANCE


def test_no_bits_are_too_extreme():
    extremes = torch.tensor([0, 1, -1, (1 << 63) - 1, -(1 << 63)])
    pairs = torch.cartesian_prod(extremes, extremes)
    found = _standard_normal(pairs[:, 0], pairs[:, 1])
    assert found.isfinite().all()
    assert 9.3 < float(found.abs().max()) < 9.4


def test_samples_have_their_rate_and_are_independent_across_steps():
    source, rate = Randomness(), 0.3
    first, second = (source.sample(0, step, SIZE, rate) for step in (0, 1))
    for sample in (first, second):
        assert stats.binomtest(len(sample), SIZE, rate).pvalue > SIGNIFICANCE
        assert stats.binomtest(len(sample), SIZE, rate * 1.1).pvalue < SIGNIFICANCE
    both = len(np.intersect1d(first, second))
    assert stats.binomtest(both, SIZE, rate**2).pvalue > SIGNIFICANCE


def test_trap_one_object_owns_sampler_and_event(tmp_path):
    """Known bug: sampling rate inferred from the loader; shuffling accounted as Poisson.

    Through the hedge, at a noise that hides nothing: sizes are binomial at the accounted rate.
    """
    ledger = Ledger.create(tmp_path / "g.db", epsilon=1e12, delta=1e-5, relation="add-remove")
    mechanism = PoissonSum(clip_norm=1.0, noise_multiplier=1e-4, sampling_rate=0.1)
    reservation = ledger.reserve(plan=Plan.of(mechanism.event.times(300)))
    steps = Hedge(zeros(1000), reservation).steps(mechanism)
    sizes = np.array([float(steps.step(Count())["count"]) for _ in range(300)]).round()
    assert stats.binomtest(int(sizes.sum()), 300_000, 0.1).pvalue > SIGNIFICANCE
    assert stats.binomtest(int(sizes.sum()), 300_000, 0.105).pvalue < SIGNIFICANCE
    assert has_scale(sizes - 100, np.sqrt(90))
    assert reservation.plan.events[0].sampling_rate == 0.1


def test_trap_noise_is_never_reused(reserve, step_event):
    """Known bug: resume repeats the same noise. Two sequences that start at 0 share none either."""
    hedge = Hedge(zeros(5), reserve(step_event))
    mechanism = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.3)
    one, other = hedge.steps(mechanism), hedge.steps(mechanism)
    draws = [steps.step(silent())["sum"].numpy() for steps in (one, other, one, other)]
    assert (one.number, other.number) == (3, 4)
    assert np.abs(np.corrcoef(draws) - np.eye(4)).max() < 6 / np.sqrt(SIZE)
    source = Randomness()
    source.claim(0, 0)
    with pytest.raises(PrivacyError, match="used already"):
        source.claim(0, 0)


@pytest.mark.filterwarnings("ignore:This process.*fork")
def test_trap_a_fork_cannot_repeat_noise(reserve, step_event, release_event):
    """Both sides of a fork hold the same key: only the one that made it may draw."""
    reservation = reserve(step_event, release_event)
    hedge = Hedge(zeros(5), reservation)
    step = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.3)
    steps = hedge.steps(step)
    child = os.fork()
    if child == 0:
        refused = 0
        for draw in (
            lambda: steps.step(Count()),
            lambda: hedge.release(Count(), GaussianSum(clip_norm=1.0, noise_multiplier=2.0)),
        ):
            try:
                draw()
            except PrivacyError:
                refused += 1
        os._exit(0 if refused == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reservation.record.spent == (0, 0)
    steps.step(Count())


def test_noise_is_refused_in_another_process_than_its_own(monkeypatch):
    source = Randomness()
    source.require_own_process()
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(PrivacyError, match="must not cross a fork"):
        source.claim(0, 0)


def test_a_step_whose_spend_failed_may_be_retried(reserve, step_event, monkeypatch):
    hedge = Hedge(zeros(5), reserve(step_event))
    steps = hedge.steps(PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.3))
    with monkeypatch.context() as patch:

        def locked(*_):
            raise LedgerError("database is locked")

        patch.setattr(Reservation, "spend", locked)
        with pytest.raises(LedgerError):
            steps.step(Count())
    steps.step(Count())
    assert (steps.number, hedge.reservation.record.spent) == (1, (1,))


def test_steps_go_on_after_an_interrupt_that_came_too_late(reserve, step_event, monkeypatch):
    hedge = Hedge(zeros(5), reserve(step_event))
    steps = hedge.steps(PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.3))
    with monkeypatch.context() as patch:

        def interrupted(*_):
            raise KeyboardInterrupt

        patch.setattr(Randomness, "noise", interrupted)
        with pytest.raises(KeyboardInterrupt):
            steps.step(Count())
    steps.step(Count())
    assert (steps.number, hedge.reservation.record.spent) == (2, (2,))


def test_two_hedges_never_share_noise(reserve, release_event):
    reservation = reserve(release_event)
    mechanism = GaussianSum(clip_norm=1.0, noise_multiplier=2.0)
    one, other = (Hedge(zeros(3), reservation).release(silent(), mechanism) for _ in range(2))
    correlation = np.corrcoef(one["sum"], other["sum"])[0, 1]
    assert abs(correlation) < 6 / np.sqrt(SIZE)


def test_one_source_for_two_reservations_is_never_drawn_from_twice(reserve, release_event):
    source = Randomness()
    mechanism = GaussianSum(clip_norm=1.0, noise_multiplier=2.0)
    one, other = (
        Hedge(zeros(3), reserve(release_event), randomness=source).release(silent(), mechanism)
        for _ in range(2)
    )
    assert abs(np.corrcoef(one["sum"], other["sum"])[0, 1]) < 6 / np.sqrt(SIZE)


def test_a_seeded_run_is_reproducible_and_marked(ledger, step_event):
    mechanism = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.3)
    results = []
    for batch in (2, 50):
        reservation = ledger.reserve(plan=Plan.of(step_event))
        columns = {"x": np.arange(40.0)[:, None]}
        source = Randomness(seed=7)
        hedge = Hedge(columns, reservation, physical_batch=batch, randomness=source)
        steps = hedge.steps(mechanism)
        summand = PerRow(lambda b: b["x"], 1, dtype=torch.float64)
        results.append([float(steps.step(summand)["sum"]) for _ in range(4)])
        assert reservation.record.seeded
    np.testing.assert_allclose(results[0], results[1], rtol=1e-12)


def test_trap_the_key_is_never_saved_or_shown():
    """Known bug: the noise or sampling seed stored in the run's config."""
    source = Randomness()
    assert str(source._key) not in repr(source)
    with pytest.raises(PrivacyError, match="never saved"):
        pickle.dumps(source)
