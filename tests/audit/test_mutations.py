"""Bugs that published code had, planted in ours: the audit finds every one of them.

A mutation is a small patch of the hedge, or of what stands right behind it. Each is audited as the
honest code is, with the same seeds; an audit that finds nothing in the honest code and calls the
mutant broken can tell them apart.
"""

import secrets

import numpy as np
import pytest
import torch

from privet.hedge import Hedge, Randomness
from privet.hedge import hedge as hedge_module
from privet.hedge.clipping import clipped_sum
from privet.hedge.mechanism import Mechanism
from privet.learn import equation as equation_module
from privet.learn.gradients import combined
from tests.audit import seeded

_NOISED, _SUM = "_Hedge__noised", "_Hedge__sum"


def noise_halved(patch):
    whole = Mechanism.noise_scale
    patch.setattr(Mechanism, "noise_scale", property(lambda self: whole.fget(self) / 2))


def noise_left_out(patch):
    patch.setattr(Randomness, "noise", _silence)


def no_clip(patch):
    patch.setattr(hedge_module, "clipped_sum", _unclipped)


def clip_after_noise(patch):
    """The sum is clipped, and not what each row adds to it."""
    noised = getattr(Hedge, _NOISED)

    def clipped(self, total, summand, mechanism, stream, number):
        blocks = noised(self, total, summand, mechanism, stream, number)
        norm = torch.cat([block.flatten() for block in blocks.values()]).norm()
        return {name: block / norm.clamp(min=1.0) for name, block in blocks.items()}

    no_clip(patch)
    patch.setattr(Hedge, _NOISED, clipped)


def noise_per_micro_batch(patch):
    """As often as there are batches, so not at all if there is none."""
    whole, draw = getattr(Hedge, _SUM), Randomness.noise

    def noisy(self, batches, summand, mechanism):
        total = whole(self, batches, summand, mechanism)
        for number in range(len(batches)):
            for name, block in total.items():
                noise = draw(Randomness(), 0, number, 0, block.numel())
                total[name] = block + mechanism.noise_scale * noise.reshape(block.shape)
        return total

    patch.setattr(Hedge, _SUM, noisy)
    patch.setattr(Randomness, "noise", _silence)


def origin_readded_with_the_drawn_batch_size(patch):
    drawn, sample = [], Randomness.sample

    def counted(self, *words):
        found = sample(self, *words)
        drawn.append(len(found))
        return found

    def around(origin, mean):
        share = drawn[-1] / 2.0  # the expected batch of a short training
        return combined(lambda o, g: share * o + g, origin, mean)

    patch.setattr(Randomness, "sample", counted)
    patch.setattr(equation_module, "_around", around)


def exact_counts(patch):
    noised = getattr(Hedge, _NOISED)

    def counted(self, total, *more):
        counts = total["counts"].clone()
        return {**noised(self, total, *more), "counts": counts}

    patch.setattr(Hedge, _NOISED, counted)


def empty_batch_replaced(patch):
    sample = Randomness.sample

    def never_empty(self, stream, step, count, rate):
        found = sample(self, stream, step, count, rate)
        return found if len(found) or not count else np.zeros(1, np.int64)

    patch.setattr(Randomness, "sample", never_empty)


def stopping_release_without_noise(patch):
    draw = Randomness.noise

    def second_silent(self, stream, step, number, size):
        return (draw if stream == 0 else _silence)(self, stream, step, number, size)

    patch.setattr(Randomness, "noise", second_silent)


def reused_noise_seed(patch):
    patch.setattr(secrets, "randbits", lambda bits: 7)


def one_bad_row_poisons_the_sum(patch):
    patch.setattr(hedge_module, "clipped_sum", _naive)


def sampling_left_out(patch):
    """Every row joins every step, which costs more than the plan says."""
    patch.setattr(Randomness, "sample", lambda self, stream, step, count, rate: np.arange(count))


def _silence(self, stream, step, draw, size):
    return torch.zeros(size, dtype=torch.float64)


def _unclipped(batches, summand, clip_norm):
    return clipped_sum(batches, summand, 1e12)


def _naive(batches, summand, clip_norm):
    """Clips, and believes in every number."""
    total = {name: zero.double() for name, zero in summand.zeros().items()}
    for units in batches:
        weights = clip_norm / summand.norms(units).double().clamp(min=clip_norm)
        for name, block in summand.weighted_sum(units, weights).items():
            total[name] = total[name] + block
    return total


def release():
    return seeded.release()


def tight_release():
    return seeded.release(epsilon=4.0, runs=300)


def spare_release():
    """With noise from the operating system, as it is outside tests."""
    return seeded.release(runs=110, noise_of=lambda _: Randomness())


def release_of_a_bad_row():
    return seeded.release(row="nan")


def step():
    return seeded.step()


def dope():
    return seeded.short_training(method="dope")


def dp_sgd():
    return seeded.training()


def dp_mepf():
    return seeded.synthesis()


CAUGHT_BY = [
    (noise_halved, tight_release),
    (noise_halved, dp_sgd),
    (noise_halved, dp_mepf),
    (noise_left_out, release),
    (noise_left_out, dp_sgd),
    (noise_left_out, dp_mepf),
    (no_clip, release),
    (clip_after_noise, release),
    (noise_per_micro_batch, release),
    (origin_readded_with_the_drawn_batch_size, dope),
    (exact_counts, release),
    (empty_batch_replaced, step),
    (sampling_left_out, step),
    (stopping_release_without_noise, dp_mepf),
    (reused_noise_seed, spare_release),
    (one_bad_row_poisons_the_sum, release_of_a_bad_row),
]
AUDITS = dict.fromkeys(audit for _, audit in CAUGHT_BY)


@pytest.mark.parametrize("audit", AUDITS, ids=lambda each: each.__name__)
def test_the_honest_code_passes(audit):
    found = audit()
    assert found.verdict == "PASS"
    assert found.bound <= found.claim.epsilon


@pytest.mark.parametrize(("mutation", "audit"), CAUGHT_BY, ids=lambda each: each.__name__)
def test_the_audit_finds_it(monkeypatch, mutation, audit):
    mutation(monkeypatch)
    found = audit()
    assert found.broken
    assert "the guarantee is broken" in found.verdict
