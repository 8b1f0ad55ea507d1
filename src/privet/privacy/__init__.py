"""Bookkeeping, without torch: budget, relation, events, accountants, ledger, certificate."""

from privet.privacy.accountants import PLD, RDP, Accountant
from privet.privacy.budget import Budget, Guarantee, Relation, Unit
from privet.privacy.calibration import noise_multiplier
from privet.privacy.certificate import Certificate, certify, certify_together
from privet.privacy.events import Event, GaussianRelease, Plan, PoissonSteps, Selection
from privet.privacy.ledger import Ledger
from privet.privacy.reservation import Reservation
from privet.privacy.trials import Law, Trials

__all__ = [
    "PLD",
    "RDP",
    "Accountant",
    "Budget",
    "Certificate",
    "Event",
    "GaussianRelease",
    "Guarantee",
    "Law",
    "Ledger",
    "Plan",
    "PoissonSteps",
    "Relation",
    "Reservation",
    "Selection",
    "Trials",
    "Unit",
    "certify",
    "certify_together",
    "noise_multiplier",
]
