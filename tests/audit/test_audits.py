"""Audits of what Privet offers: below the claim, and loud where there is no noise."""

import json
import math

import numpy as np
import pytest
import torch

from privet.audit import (
    Gauge,
    MechanismAudit,
    Neighbour,
    Terms,
    audit_mechanism,
    planted,
    require_whole,
)
from privet.audit.synthesis import SYSTEMS
from privet.errors import ConfigError, PrivacyError
from privet.hedge import GaussianSum
from privet.privacy import Budget, Relation
from privet.recipes.presets import METHODS
from privet.recipes.synthesis_methods import SYSTEMS as OFFERED
from tests.audit import seeded


def test_a_gaussian_release_is_audited_tightly():
    """At ε = 2, at least 70% of the claim."""
    found = seeded.release(runs=2200)
    assert 0.7 <= found.share <= 1
    assert found.verdict == "PASS"


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("row", [each.value for each in Neighbour])
def test_every_row_passes_under_every_relation(row, relation):
    found = seeded.release(row=row, relation=relation, epsilon=8.0, runs=60)
    assert not found.broken
    assert found.bound <= 8


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_training_passes(method):
    found = seeded.training(method=method, canaries=16, epsilon=8.0)
    assert found.verdict == "PASS"
    assert found.claim.epsilon == pytest.approx(8, rel=1e-3)


@pytest.mark.parametrize("method", SYSTEMS)
def test_every_method_of_synthesis_passes(method):
    found = seeded.synthesis(method=method, canaries=16, epsilon=8.0)
    assert found.verdict == "PASS"


def test_nothing_that_is_offered_is_left_out():
    assert set(SYSTEMS) == set(OFFERED)


def test_replace_one_is_audited_with_twins():
    assert seeded.synthesis(method="dp-merf", relation="replace-one").verdict == "PASS"
    assert seeded.training(relation="replace-one").verdict == "PASS"


def test_canaries_alone_tell_where_there_is_no_noise():
    """Guesses say so too, and not the gauge alone."""
    found = seeded.synthesis(method="dp-merf", canaries=128, epsilon=1.0, plant=0.0)
    assert found.bound > found.claim.epsilon
    assert found.broken


def test_a_broken_guarantee_is_an_error_that_says_what_is_broken():
    whole, broken = (seeded.synthesis(plant=plant) for plant in (None, 0.5))
    require_whole([whole])
    with pytest.raises(PrivacyError, match=r"broken.*the noise that was planned.*dp-mepf"):
        require_whole([whole, broken])
    assert broken.to_json()["broken"]
    assert json.dumps(broken.to_json(), allow_nan=False)


@pytest.mark.parametrize(("share", "missing"), [(1.0, False), (0.8, True), (1.5, False)])
def test_the_gauge_knows_too_little_noise(share, missing):
    mechanism, gauge = GaussianSum(clip_norm=0.5, noise_multiplier=2.0), Gauge()
    noise = torch.randn(500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gauge.add({"sum": share * noise}, mechanism, release=True)
    assert gauge.found.missing(1e-6) is missing
    assert gauge.found.share == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: MechanismAudit(runs=10), "needs 36 of either kind"),
        (lambda: planted(2.0), "from 0 to 1"),
        (lambda: seeded.terms(1.0, confidence=0.2), "The confidence of a bound"),
        (lambda: seeded.training(method="sgd"), "--method is 'sgd'"),
        (lambda: seeded.synthesis(canaries=3), "needs 16 canaries"),
        (lambda: seeded.short_training(method="dp-mix"), "has no views of"),
    ],
)
def test_refusals(make, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make()


def test_planted_noise_is_never_private():
    terms = Terms(
        budget=Budget(epsilon=1.0, delta=1e-5), relation=Relation.ADD_REMOVE, noise_of=planted(0.0)
    )
    noise = terms.noise_of(0)
    assert noise.seeded
    assert np.all(noise.noise(0, 0, 0, 9).numpy() == 0)
    assert math.isclose(terms.claim.epsilon, 1.0)


@pytest.mark.parametrize("rate", [None, 0.5])
def test_secure_noise_passes_too_and_is_named(rate):
    terms = Terms(
        budget=Budget(epsilon=4.0, delta=1e-5), relation=Relation.ADD_REMOVE, secure_noise=True
    )
    finding = audit_mechanism(MechanismAudit(runs=60, sampling_rate=rate), terms)
    assert not finding.broken
    assert finding.subject.endswith("secure noise")
