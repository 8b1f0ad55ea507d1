import json

import pytest

from privet.errors import PrivacyError
from privet.privacy import Certificate, GaussianRelease, Ledger, Plan, PoissonSteps, certify


@pytest.fixture
def reservation(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=3, delta=1e-6, relation="replace-one")
    plan = Plan.of(
        GaussianRelease(noise_multiplier=40.0),
        PoissonSteps(sampling_rate=0.01, noise_multiplier=3.0, steps=300),
    )
    return ledger.reserve(plan=plan)


def test_certificate_survives_json(reservation):
    certificate = certify(reservation, public=("letters",))
    assert Certificate.from_json(json.loads(certificate.dumps())) == certificate


def test_a_certificate_keeps_the_versions_that_wrote_it(reservation):
    body = {**certify(reservation).to_json(), "privet_version": "0.0.1"}
    body["accountant_version"] = "dp_accounting 0.4"
    assert Certificate.from_json(body).to_json() == body


def test_certificate_says_everything(reservation):
    reservation.open_door("gradient norms")
    reservation.declare_size(58000.0)
    body = certify(reservation).to_json()
    assert body["schema"] == "privet.certificate/1"
    assert (body["relation"], body["unit"], body["delta"]) == ("replace-one", "example", 1e-6)
    assert body["epsilon"] == reservation.guarantee.epsilon
    assert body["accountant"] == "PLD"
    assert body["accountant_version"].startswith("dp_accounting ")
    assert body["composition_across_runs"].startswith("RDP filter at order")
    assert [event["kind"] for event in body["events"]] == ["gaussian-release", "poisson-steps"]
    assert body["declared"] == {"units": 58000.0}
    assert body["outside_guarantee"] == ["gradient norms"]
    assert "NOT covered" in body["statement"]
    assert "gradient norms" in body["statement"]
    assert "replace one example" in body["statement"]


def test_trap_a_seeded_run_is_certified_as_not_private(reservation):
    """Known bug: the noise or sampling seed stored in the run's config."""
    reservation.mark_seeded()
    certificate = certify(reservation)
    assert not certificate.private
    assert certificate.to_json()["epsilon"] is None
    assert "NOT private" in certificate.statement
    assert not Certificate.from_json(certificate.to_json()).private


def test_trap_nothing_in_it_is_a_function_of_the_data(tmp_path):
    """Known bug: the data set's size used as public. Two data sets, one certificate."""
    import numpy as np

    from privet.hedge import Count, GaussianSum, Hedge

    texts = []
    for rows in (10, 1000):
        ledger = Ledger.create(
            tmp_path / f"{rows}.db", epsilon=3, delta=1e-6, relation="add-remove"
        )
        plan = Plan.of(GaussianRelease(noise_multiplier=5.0))
        hedge = Hedge({"x": np.zeros((rows, 1), np.float32)}, ledger.reserve(plan=plan))
        hedge.release(Count(), GaussianSum(clip_norm=1.0, noise_multiplier=5.0))
        texts.append(certify(hedge.reservation).dumps())
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "damage",
    [{"schema": "privet.certificate/2"}, {"events": []}, {"relation": "sideways"}, {"delta": None}],
)
def test_damaged_or_foreign_certificates_are_refused(reservation, damage):
    body = {**certify(reservation).to_json(), **damage}
    with pytest.raises(PrivacyError, match=r"certificate"):
        Certificate.from_json(body)
