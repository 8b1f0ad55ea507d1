"""Rows of the list of privacy bugs found in published code, where no other test names them.

The others stand with what they test: grep for `test_trap_`.
"""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch

import privet
from privet.hedge import GaussianSum, Hedge, NoisySum, PerRow, PoissonSum
from privet.hedge.clipping import clipped_sum
from privet.privacy import Plan, PoissonSteps, Relation
from privet.release import ClassBlocks, class_means

SOURCE = Path(privet.__file__).parent


def test_trap_early_stopping_embedding_without_noise(ledger):
    """A second, noisier release is a release like any other: planned, noised and spent."""
    main = GaussianSum(clip_norm=1.0, noise_multiplier=2.0)
    stopping = GaussianSum(clip_norm=1.0, noise_multiplier=20.0)
    reservation = ledger.reserve(plan=Plan.of(main.event, stopping.event))
    hedge = Hedge({"x": np.zeros((8, 3), np.float32)}, reservation)
    summand = PerRow(lambda units: units["x"], 3)
    first, second = hedge.release(summand, main), hedge.release(summand, stopping)
    assert (first.noise_scale, second.noise_scale) == (2.0, 20.0)
    assert second["sum"].abs().min() > 0
    assert reservation.record.spent == (1, 1)


def test_trap_two_non_negative_unit_vectors_lie_sqrt_2_apart():
    """Sensitivity is the mechanism's business, not an argument about signs."""
    one, other = torch.eye(2, dtype=torch.float64)
    mechanism = GaussianSum(clip_norm=1.0, noise_multiplier=1.0)
    gap = float((one - other).norm())
    assert gap > mechanism.sensitivity(Relation.ADD_REMOVE)
    assert gap <= mechanism.sensitivity(Relation.REPLACE_ONE) == 2.0


def test_trap_class_counts_are_released_with_noise(ledger):
    """Counts are coordinates of the sum, so even a missing class has a noisy count."""
    mechanism = GaussianSum(clip_norm=1.0, noise_multiplier=2.0)
    reservation = ledger.reserve(plan=Plan.of(mechanism.event))
    columns = {"x": np.ones((90, 2), np.float32), "labels": np.zeros(90, np.int64)}
    blocks = ClassBlocks(features=lambda units: units["x"], size=2, num_classes=4, count_scale=0.5)
    released = Hedge(columns, reservation).release(blocks, mechanism)
    assert (released["counts"] / 0.5).frac().abs().min() > 0
    means, counts = class_means(released, 0.5)
    assert means.isfinite().all()
    assert (counts >= 2.0 / 0.5).all()


def test_trap_the_drawn_batch_size_is_nowhere_to_be_read(ledger):
    """Neither a result nor a sequence of steps says how many units were drawn."""
    assert {field.name for field in fields(NoisySum)} == {"blocks", "noise_scale"}
    event = PoissonSteps(sampling_rate=0.5, noise_multiplier=2.0, steps=3)
    hedge = Hedge({"x": np.zeros((9, 1))}, ledger.reserve(plan=Plan.of(event)))
    steps = hedge.steps(PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.5))
    public = {name for name in dir(steps) if not name.startswith("_")}
    assert public == {"mechanism", "number", "remaining", "step"}


def test_trap_the_expected_batch_size_is_a_float(ledger):
    """49 units at a rate of 1/49 is a divisor of 1.0, and half a unit is one of 0.5."""
    event = PoissonSteps(sampling_rate=0.01, noise_multiplier=2.0, steps=3)
    reservation = ledger.reserve(plan=Plan.of(event))
    hedge = Hedge({"x": np.zeros((9, 1))}, reservation, declared_size=50)
    assert hedge.size * event.sampling_rate == 0.5


def test_trap_noise_is_added_before_dividing():
    """What leaves the hedge is a sum: dividing it is left to whoever knows a public constant."""
    from tests.hedge.summands import rows, units

    summand = PerRow(lambda batch: batch["x"], 5, dtype=torch.float64)
    once = clipped_sum([units(rows(4))], summand, 1.0)["sum"]
    twice = clipped_sum([units(rows(4)), units(rows(4))], summand, 1.0)["sum"]
    torch.testing.assert_close(twice, 2 * once)


def test_trap_one_object_owns_sampler_and_event():
    """The rate that is sampled is the rate that is accounted."""
    mechanism = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=0.125)
    assert mechanism.event == PoissonSteps(sampling_rate=0.125, noise_multiplier=2.0, steps=1)


def test_trap_nothing_is_ever_unpickled():
    """Neither checkpoints nor data files may run code."""
    forbidden = re.compile(
        r"\bpickle\.load|torch\.load\(|allow_pickle=True|weights_only=False|\beval\(|\bexec\("
    )
    offenders = [p for p in SOURCE.rglob("*.py") if forbidden.search(p.read_text())]
    assert offenders == []
