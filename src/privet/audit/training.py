"""A method of private training, audited in one run with many canaries.

The rows are the auditor's own. Canaries are grey images with one bright pixel each, so that their
gradients in a linear model are nearly at right angles, and longer than the clip norm throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privet.audit.coins import one_run_finding, tossed
from privet.audit.findings import Finding
from privet.audit.trials import Terms
from privet.audit.watched import Columns, Roster, watched
from privet.errors import ConfigError
from privet.learn import EngineName
from privet.learn.equation import INPUTS, TARGETS
from privet.models import MLP
from privet.privacy import Relation
from privet.public import PublicRows
from privet.recipes.presets import METHODS
from privet.recipes.training import private_training
from privet.recipes.training_config import Material, TrainingConfig

_CLASSES, _BASE, _PUBLIC = 2, 32, 64
_GREY, _BRIGHT, _DARK = 128, 255, 1
_CLIP = 0.25
_LEAST_SIDE = 8  # pixels, that crops leave something of


@dataclass(frozen=True, kw_only=True)
class TrainingAudit:
    """An audit of a method of `privet train`, in one run on a linear model.

    Args:
        method: the name of the method.
        canaries: the number of canaries.
        sampling_rate: the rate at which each row joins a step.
        epochs: passes over all rows.
    """

    method: str
    canaries: int = 256
    sampling_rate: float = 0.5
    epochs: float = 10.0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigError(f"--method is {self.method!r}: choose {', '.join(METHODS)}.")
        if self.canaries < 16:
            raise ConfigError(
                f"An audit in one run needs 16 canaries or more, not {self.canaries}."
            )
        _ = self.config(0)

    def config(self, seed: int) -> TrainingConfig:
        """The settings of the training: small steps, so that gradients hardly turn."""
        return TrainingConfig(
            method=METHODS[self.method](),
            sampling_rate=self.sampling_rate,
            epochs=self.epochs,
            clip_norm=_CLIP,
            learning_rate=0.05,
            engine=EngineName.LOOP,
            seed=seed,
        )


def audit_training(audit: TrainingAudit, terms: Terms) -> Finding:
    """Audit one run with a coin for every canary; the auditor sees every private gradient."""
    side = max(_LEAST_SIDE, math.ceil(math.sqrt(audit.canaries)))
    rng = np.random.default_rng((terms.seed, 1))
    roster = _roster(audit.canaries, side, terms.relation, rng)
    public = _noise(_PUBLIC, side, rng)
    material = Material(
        input_shape=(side, side, 1),
        num_classes=_CLASSES,
        public=PublicRows(public[INPUTS], public[TARGETS]),
    )
    coins, config = tossed(audit.canaries, rng), audit.config(terms.seed)
    with terms.ledger() as ledger:
        reservation = ledger.reserve(epsilon=terms.budget.epsilon)
        size = _BASE + audit.canaries / 2  # declared: a constant, whatever the coins say
        hedge, evidence = watched(roster, coins, reservation, terms.noise_of(0), size)
        private_training(
            hedge,
            _zero(MLP(side**2, (), _CLASSES)),
            config,
            material,
            on_step=lambda progress: terms.on_trial(progress.step, config.steps),
        )
        subject = f"{audit.method}, {config.steps} steps at rate {audit.sampling_rate:g}"
        return one_run_finding(subject, reservation, evidence, coins, terms)


def _roster(count: int, side: int, relation: Relation, rng: np.random.Generator) -> Roster:
    base, canaries = _noise(_BASE, side, rng), _dots(count, side, _BRIGHT)
    twins = None if relation is Relation.ADD_REMOVE else _dots(count, side, _DARK)
    return Roster(base, canaries, twins)


def _dots(count: int, side: int, value: int) -> Columns:
    """Grey images, each with one other pixel of the given value."""
    pixels = torch.full((count, side * side), _GREY, dtype=torch.uint8)
    numbers = torch.arange(count)
    pixels[numbers, numbers] = value
    return {INPUTS: pixels.reshape(count, side, side, 1), TARGETS: numbers % _CLASSES}


def _noise(count: int, side: int, rng: np.random.Generator) -> dict[str, Tensor]:
    """Images of random pixels."""
    images = rng.integers(0, 256, (count, side, side, 1), np.uint8)
    return {INPUTS: torch.from_numpy(images), TARGETS: torch.arange(count) % _CLASSES}


def _zero(model: MLP) -> MLP:
    """Set all weights of a model to zero, so that no seed is needed."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model
