"""Models to attack: many of one kind, each of the examples that its coins chose.

The examples are public: their owner says so, since some of the models learn without privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from privet.audit.one_run import Coins, Scores
from privet.audit.trials import OnTrial, Terms
from privet.augment import to_float
from privet.errors import ConfigError
from privet.hedge import Hedge
from privet.keys import keyed
from privet.learn import EngineName
from privet.learn.equation import INPUTS, TARGETS
from privet.models import MLP
from privet.public import PublicRows, WarmUp, warm_up
from privet.recipes.methods import dp_sgd_method
from privet.recipes.training import private_training
from privet.recipes.training_config import Material, TrainingConfig


def _plain() -> WarmUp:
    """Training without privacy until nothing is left to learn, so that much is remembered."""
    return WarmUp(epochs=30, batch_size=50, weight_decay=0.0, augment=None)


@dataclass(frozen=True, kw_only=True)
class ShadowTraining:
    """How models learn: an MLP with one hidden layer, by SGD or by DP-SGD.

    Args:
        hidden: the size of the hidden layer.
        plain: how to train without privacy.
        sampling_rate: the sampling rate of private steps.
        epochs: of private training.
        learning_rate: of private training.
        clip_norm: of private training.
    """

    hidden: int = 200
    plain: WarmUp = field(default_factory=_plain)
    sampling_rate: float = 0.5
    epochs: float = 30.0
    learning_rate: float = 2.0
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        if self.hidden < 1:
            raise ConfigError(f"The hidden layer has 1 number or more, not {self.hidden}.")
        _ = self.private(0)

    def private(self, seed: int) -> TrainingConfig:
        """The settings of private training, by DP-SGD."""
        return TrainingConfig(
            method=dp_sgd_method(),
            sampling_rate=self.sampling_rate,
            epochs=self.epochs,
            clip_norm=self.clip_norm,
            learning_rate=self.learning_rate,
            engine=EngineName.GHOST,
            seed=seed,
        )


@dataclass(frozen=True, eq=False)
class Looked:
    """What models say of all examples, those that they learned from and others.

    Args:
        confidences: log(p / (1 - p)) for the true class, (models, examples).
        right: whether a model gives the true class, (models, examples).
    """

    confidences: Scores
    right: Coins

    def accuracies(self, members: Coins) -> tuple[float, float]:
        """The accuracy on members and that on others."""
        return float(self.right[members].mean()), float(self.right[~members].mean())


def shadow_models(
    rows: PublicRows,
    members: Coins,
    training: ShadowTraining,
    terms: Terms | None,
    *,
    seed: int,
    on_trial: OnTrial,
) -> Looked:
    """Train one model for each line of coins, and look at all examples with it.

    Args:
        rows: examples, which are public.
        members: which of them each model learns from, (models, examples).
        training: how models are trained.
        terms: what private models promise; `None` trains without privacy.
        seed: the seed of weights and, without privacy, of batches.
        on_trial: called with the number of models done and that of all.
    """
    confidences, right = [], []
    for number, model in enumerate(_trained(rows, members, training, terms, seed)):
        found, ok = looked_at(model, rows)
        confidences.append(found)
        right.append(ok)
        on_trial(number + 1, len(members))
    return Looked(np.stack(confidences), np.stack(right))


def _trained(
    rows: PublicRows, members: Coins, training: ShadowTraining, terms: Terms | None, seed: int
) -> Iterator[nn.Module]:
    num_classes = int(rows.targets.max()) + 1
    for number, coins in enumerate(members):
        own = rows.select(torch.from_numpy(np.flatnonzero(coins)))
        generator = keyed(seed, number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator.initial_seed())
            model = MLP(math.prod(rows.inputs.shape[1:]), (training.hidden,), num_classes)
        if terms is None:
            warm_up(model, own, training.plain, generator=generator)
        else:
            _learn_privately(model, own, len(rows) / 2, num_classes, training, terms, number)
        yield model


def _learn_privately(
    model: nn.Module,
    own: PublicRows,
    size: float,
    num_classes: int,
    training: ShadowTraining,
    terms: Terms,
    number: int,
) -> None:
    """Train by the same path as private rows; the declared size does not depend on coins."""
    material = Material(input_shape=tuple(own.inputs.shape[1:]), num_classes=num_classes)
    with terms.ledger() as ledger:
        hedge = Hedge(
            {INPUTS: own.inputs, TARGETS: own.targets},
            ledger.reserve(epsilon=terms.budget.epsilon),
            declared_size=size,
            randomness=terms.noise_of(number),
        )
        private_training(hedge, model, training.private(number), material)


def looked_at(model: nn.Module, rows: PublicRows) -> tuple[Scores, Coins]:
    """The logit of each example's own class over all others together, and whether it is largest.

    It is log(p / (1 - p)), which softmax itself would round to infinity where a model is sure.
    """
    with torch.no_grad():
        logits = model(to_float(rows.inputs)).double()
    labels = rows.targets[:, None]
    others: Tensor = logits.scatter(1, labels, -torch.inf).logsumexp(1)
    confidences = logits.gather(1, labels)[:, 0] - others
    return confidences.numpy(), (logits.argmax(1) == rows.targets).numpy()
