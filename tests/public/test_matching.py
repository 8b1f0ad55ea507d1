"""Theorem 4.1 of IDS in the form that holds, and the printed one, which does not."""

import math

import numpy as np
import pytest

from privet.errors import ConfigError
from privet.public.matching import matching_bounds, matching_gap

RNG = np.random.default_rng(0)


def models(count=300):
    for _ in range(count):
        rows = int(RNG.integers(2, 30))
        public = int(RNG.integers(1, rows))
        mass = RNG.dirichlet(np.full(rows + 1, RNG.choice([0.3, 1.0, 20.0])))
        yield np.maximum(mass[:rows], 1e-12) / (1 + 1e-9), public


def divergence(data, model):
    """Over a whole finite space."""
    seen = data > 0
    return float((data[seen] * np.log(data[seen] / model[seen])).sum())


def test_the_gap_is_that_of_divergences_over_the_whole_space():
    for model, public in models(20):
        rows = len(model)
        data, own = np.full(rows, 1 / rows), np.zeros(rows)
        own[:public] = 1 / public
        expected = divergence(data, model) - public / rows * divergence(own, model)
        assert matching_gap(model, public) == pytest.approx(expected, abs=1e-9)


def test_the_corrected_form_holds():
    for model, public in models():
        least, most = matching_bounds(model, public)
        assert least - 1e-9 <= matching_gap(model, public) <= most + 1e-9


def test_the_printed_form_is_violated():
    outside = 0
    for model, public in models():
        least, most = matching_bounds(model, public)
        share = public / len(model)
        printed = (
            matching_gap(model, public) + (share - 1) * -np.log(public * model[:public]).mean()
        )
        outside += not least - 1e-9 <= printed <= most + 1e-9
    assert outside > 30


def test_both_bounds_are_reached():
    """By a model that knows private rows alone, each alike."""
    rows, public = 10, 4
    model = np.array([1e-12] * public + [(1 - public * 1e-12) / (rows - public)] * (rows - public))
    least, most = matching_bounds(model, public)
    assert matching_gap(model, public) == pytest.approx(least, abs=1e-6)
    assert most == pytest.approx(least, abs=1e-6)
    assert least == pytest.approx(0.4 * math.log(0.4) + 0.6 * math.log(0.6))


@pytest.mark.parametrize(
    ("model", "public"), [([0.5, 0.5], 2), ([0.5, 0.5], 0), ([0.7, 0.7], 1), ([0.5, 0.0], 1)]
)
def test_what_is_no_model_is_refused(model, public):
    with pytest.raises(ConfigError):
        matching_bounds(np.array(model), public)
