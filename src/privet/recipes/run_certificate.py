"""The certificate of a run or of an export of one, which is not taken at its word."""

from __future__ import annotations

from privet.data.guard import shown
from privet.errors import DataError, PrivacyError
from privet.privacy import Certificate
from privet.privacy.certificate import read_certificate
from privet.recipes.run_folder import CERTIFICATE, CONFIG, RunFolder


def certificate_of(folder: RunFolder) -> Certificate | None:
    """None where nothing private was touched; refused where its events cost something else.

    Args:
        folder: of a run, or of what was exported from one.
    """
    where = shown(folder / CERTIFICATE)
    if not folder.has(CERTIFICATE):
        raise DataError(f"{where} is missing: without it nothing can be said of the run.")
    found = read_certificate(folder.read(CERTIFICATE, remedy="put back a copy"))
    if found is not None:
        found.check_events(where)
    elif _has_budget(folder):
        raise PrivacyError(
            f"{where} says that no private row was touched, but the run had a budget for them: it "
            "was edited, so believe nothing in it."
        )
    return found


def spending_certificate_of(folder: RunFolder) -> Certificate:
    """Of what cannot be without private rows: a model."""
    found = certificate_of(folder)
    if found is None:
        raise PrivacyError(
            f"{shown(folder / CERTIFICATE)} says that no private row was touched, but models learn "
            "from them: it was edited, so believe nothing in it."
        )
    return found


def _has_budget(folder: RunFolder) -> bool:
    config = (folder.read(CONFIG).get("config") or {}) if folder.has(CONFIG) else {}
    return "budget" in config or "runs" in config  # of a run, or of those that were merged
