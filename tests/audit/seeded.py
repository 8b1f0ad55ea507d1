"""Audits whose noise is seeded, so that a test finds the same whenever it runs.

An audit calls a guarantee broken that holds with a probability of 1e-6 at most; with these seeds
it does not.
"""

from privet.audit import (
    MechanismAudit,
    Neighbour,
    Planted,
    ShortTrainingAudit,
    SynthesisAudit,
    Terms,
    TrainingAudit,
    audit_mechanism,
    audit_short_training,
    audit_synthesis,
    audit_training,
)
from privet.hedge import Randomness
from privet.privacy import Budget, Relation


def terms(epsilon, *, delta=1e-5, relation="add-remove", plant=None, seed=0, **more):
    def noise_of(number):
        key = 10**6 * seed + number
        return Randomness(key) if plant is None else Planted(plant, key)

    return Terms(
        budget=Budget(epsilon=epsilon, delta=delta),
        relation=Relation(relation),
        **{"noise_of": noise_of, **more},
    )


def release(epsilon=2.0, row="added", runs=90, **more):
    audit = MechanismAudit(neighbour=Neighbour(row), runs=runs)
    return audit_mechanism(audit, terms(epsilon, **more))


def step(epsilon=8.0, rate=0.02, row="added", runs=160, **more):
    audit = MechanismAudit(sampling_rate=rate, neighbour=Neighbour(row), runs=runs)
    return audit_mechanism(audit, terms(epsilon, **more))


def short_training(epsilon=2.0, method="dp-sgd", runs=60, **more):
    audit = ShortTrainingAudit(method=method, steps=1, runs=runs)
    return audit_short_training(audit, terms(epsilon, **more))


def training(epsilon=2.0, method="dp-sgd", canaries=36, **more):
    audit = TrainingAudit(method=method, canaries=canaries, epochs=2.0)
    return audit_training(audit, terms(epsilon, **more))


def synthesis(epsilon=2.0, method="dp-mepf", canaries=32, **more):
    return audit_synthesis(SynthesisAudit(method=method, canaries=canaries), terms(epsilon, **more))
