"""Privacy bugs that published code has had; each test is one that no other test names.

The others stand with what they test: grep for `test_trap_`.
"""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

import privet
from privet.hedge import GaussianSum, Hedge, NoisySum, PerRow, PoissonSum
from privet.hedge.clipping import clipped_sum
from privet.privacy import Ledger, Plan, PoissonSteps, Relation
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
    """Second moments noised for half of that: sensitivity is the mechanism's, not the signs'."""
    from tests.hedge.summands import units

    summand = PerRow(lambda batch: batch["x"].square(), 2, dtype=torch.float64)
    mechanism = GaussianSum(clip_norm=1.0, noise_multiplier=1.0)
    one, other = (
        clipped_sum([units({"x": row[None]})], summand, mechanism.clip_norm)["sum"]
        for row in np.eye(2)
    )
    gap = float((one - other).norm())
    assert mechanism.sensitivity(Relation.ADD_REMOVE) < gap
    assert gap <= mechanism.sensitivity(Relation.REPLACE_ONE)


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


def test_trap_the_size_that_divides_is_a_float_and_not_the_true_one(ledger):
    """`int()` of an expected batch below 1, or the drawn size, as divisor."""
    event = PoissonSteps(sampling_rate=0.01, noise_multiplier=2.0, steps=3)
    reservation = ledger.reserve(plan=Plan.of(event))
    sizes = [
        Hedge({"x": np.ones((rows, 1))}, reservation, declared_size=49).size for rows in (1, 49)
    ]
    assert sizes == [49.0, 49.0]
    assert all(type(size) is float for size in sizes)


@pytest.mark.parametrize("drawn", [1, 1000])
def test_trap_noise_does_not_depend_on_how_many_were_drawn(tmp_path, drawn):
    """Noise added after dividing by the drawn batch would shrink with it."""
    ledger = Ledger.create(tmp_path / "l.db", epsilon=100, delta=1e-5, relation="add-remove")
    mechanism = PoissonSum(clip_norm=1.0, noise_multiplier=2.0, sampling_rate=1.0)
    reservation = ledger.reserve(plan=Plan.of(mechanism.event))
    hedge = Hedge({"x": np.zeros((drawn, 1), np.float32)}, reservation)
    summand = PerRow(lambda units: units["x"].expand(-1, 20_000), 20_000)
    scale = float(hedge.steps(mechanism).step(summand)["sum"].std())
    assert scale == pytest.approx(2.0, rel=0.05)


def test_trap_nothing_is_ever_unpickled():
    """Neither checkpoints nor data files may run code."""
    forbidden = re.compile(
        r"\bpickle\.load|torch\.load\((?!.*weights_only=True)|allow_pickle=True"
        r"|weights_only=False|(?<![.\w])eval\(|\bexec\("  # a module's .eval() runs nothing
    )
    offenders = [p for p in SOURCE.rglob("*.py") if forbidden.search(p.read_text())]
    assert offenders == []
