"""The certificate of a run or of an export of one, which is not taken at its word."""

from __future__ import annotations

from privet.data.guard import shown
from privet.errors import DataError, PrivacyError
from privet.privacy import Certificate
from privet.privacy.certificate import read_certificate
from privet.privacy.federated import FEDERATED_SCHEMA, FederatedCertificate
from privet.runs.run_folder import CERTIFICATE, CONFIG, RunFolder


def certificate_of(folder: RunFolder) -> Certificate | FederatedCertificate | None:
    """Read the certificate in a folder; None where nothing private was touched.

    One whose events cost something else than it says is refused. That of a federation has the
    certificates of all its parties.

    Args:
        folder: the folder of a run, or of what was exported from one.
    """
    where = shown(folder / CERTIFICATE)
    if not folder.has(CERTIFICATE):
        raise DataError(f"{where} is missing: without it nothing can be said of the run.")
    body = folder.read(CERTIFICATE, remedy="put back a copy")
    if isinstance(body, dict) and body.get("schema") == FEDERATED_SCHEMA:
        return FederatedCertificate.from_json(body)
    found = read_certificate(body)
    if found is not None:
        found.check_events(where)
    elif _has_budget(folder):
        raise PrivacyError(
            f"{where} says that no private row was touched, but the run had a budget for them: it "
            "was edited, so believe nothing in it."
        )
    return found


def spending_certificate_of(folder: RunFolder) -> Certificate:
    """Read the certificate of what cannot be without private rows, such as a model."""
    found = certificate_of(folder)
    if not isinstance(found, Certificate):
        raise PrivacyError(
            f"{shown(folder / CERTIFICATE)} says that no private row was touched, or is not of one "
            "run, but models learn from one: it was edited, so believe nothing in it."
        )
    return found


def _has_budget(folder: RunFolder) -> bool:
    config = (folder.read(CONFIG).get("config") or {}) if folder.has(CONFIG) else {}
    return "budget" in config or "runs" in config  # of a run, or of those that were merged
