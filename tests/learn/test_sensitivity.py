"""One private row more or less moves the sum by no more than the clip norm, in every method."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.learn.objective import Examples
from privet.learn.updates import Pace
from privet.learn.views import Surroundings

from .naive import (
    CLASSES,
    CLIP,
    ENGINES,
    METHODS,
    RATE,
    columns,
    make_equation,
    make_steps,
    public_rows,
    start,
)
from .vectors import flat


class Overheard:
    """Steps that keep what left the hedge."""

    def __init__(self, steps):
        self.steps, self.mechanism, self.sums = steps, steps.mechanism, []

    def step(self, summand):
        self.sums.append(self.steps.step(summand))
        return self.sums[-1]


@dataclass(frozen=True)
class Coupled:
    """Views whose draws come with the row, so that they stay when another row leaves.

    The views of a run are drawn independently for every row, so neighbouring data sets may be
    coupled like this.
    """

    views: object
    needs_public: bool = False

    @property
    def num_views(self):
        return self.views.num_views

    def __call__(self, rows, around):
        found = []
        for x, y in zip(rows.inputs, rows.targets, strict=True):
            seed = int.from_bytes(hashlib.sha256(x.numpy().tobytes()).digest()[:4])
            own = Surroundings(CLASSES, torch.Generator().manual_seed(seed), around.public)
            found.append(self.views(Examples(x[None], y[None]), own))
        return Examples(
            torch.cat([each.inputs for each in found]), torch.cat([each.targets for each in found])
        )

    def single(self, rows, generator):
        return self.views.single(rows, generator)


@settings(deadline=None, max_examples=50)
@given(
    name=st.sampled_from(sorted(METHODS)),
    engine=st.sampled_from(sorted(ENGINES)),
    leaver=st.integers(0, 5),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
    joined=st.booleans(),
)
def test_a_row_moves_the_sum_by_no_more_than_the_clip_norm(
    roomy, name, engine, leaver, seed, scale, joined
):
    """Add or remove one row: the noise is the same, so the sums differ by what the row added."""
    method = replace(METHODS[name], views=Coupled(METHODS[name].views))
    rows = columns(6, seed, scale)
    fewer = {key: np.delete(column, leaver, 0) for key, column in rows.items()}
    own = {key: column[leaver : leaver + 1] for key, column in rows.items()}
    size = ENGINES[engine].physical_batch
    sums = []
    for each in (rows, fewer, own, {key: column[:0] for key, column in rows.items()}):
        extended = public_rows(3) if joined else None
        equation = make_equation(method, ENGINES[engine], joined=extended)
        steps = Overheard(make_steps(roomy, each, physical_batch=size))
        equation.step(start(equation), steps, Pace(RATE, 0, 1))
        sums.append(flat(steps.sums[0].blocks))
    gap = float((sums[0] - sums[1]).norm())
    assert gap <= CLIP * (1 + 1e-12)
    # And by just what it adds when it is alone.
    assert gap == pytest.approx(float((sums[2] - sums[3]).norm()), abs=1e-9)
