"""An audit: what a recipe truly costs, from below, on rows that the auditor makes."""

from privet.audit.attacks import AttackPlan, attack
from privet.audit.extraction import Extraction, SetMaking, extracted
from privet.audit.findings import FALSE_ALARM, Finding, require_whole
from privet.audit.gauge import Gauge, NoiseFound
from privet.audit.many_runs import Arms, ManyRunsBound, many_runs_bound
from privet.audit.mechanisms import MechanismAudit, Neighbour, audit_mechanism
from privet.audit.membership import Allowed, Attack, Estimate, likelihood_ratios
from privet.audit.one_run import Guesses, best_bound, guess, one_run_bound, p_value
from privet.audit.shadows import ShadowTraining
from privet.audit.short_training import ShortTrainingAudit, audit_short_training
from privet.audit.synthesis import SynthesisAudit, audit_synthesis
from privet.audit.tails import Errors, epsilon_bound, gaussian_bound, rate_bound
from privet.audit.training import TrainingAudit, audit_training
from privet.audit.trials import Planted, Terms, planted
from privet.audit.watched import Evidence, Roster, watched

__all__ = [
    "FALSE_ALARM",
    "Allowed",
    "Arms",
    "Attack",
    "AttackPlan",
    "Errors",
    "Estimate",
    "Evidence",
    "Extraction",
    "Finding",
    "Gauge",
    "Guesses",
    "ManyRunsBound",
    "MechanismAudit",
    "Neighbour",
    "NoiseFound",
    "Planted",
    "Roster",
    "SetMaking",
    "ShadowTraining",
    "ShortTrainingAudit",
    "SynthesisAudit",
    "Terms",
    "TrainingAudit",
    "attack",
    "audit_mechanism",
    "audit_short_training",
    "audit_synthesis",
    "audit_training",
    "best_bound",
    "epsilon_bound",
    "extracted",
    "gaussian_bound",
    "guess",
    "likelihood_ratios",
    "many_runs_bound",
    "one_run_bound",
    "p_value",
    "planted",
    "rate_bound",
    "require_whole",
    "watched",
]
