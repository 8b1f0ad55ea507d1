"""A run before anything is spent: its configuration, its public rows and its network, checked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from privet.augment import to_float
from privet.data import ImageSet
from privet.errors import ConfigError
from privet.hedge import (
    Hedge,
    Helper,
    PoissonSum,
    Processes,
    Randomness,
    Units,
    size_mechanism,
)
from privet.keys import seeded
from privet.learn import Keys
from privet.learn.equation import INPUTS, TARGETS
from privet.learn.gradients import trainable
from privet.learn.keys import Purpose
from privet.measure import Accuracy, Perplexity, accuracy, perplexity, predictions
from privet.privacy import Event, Guarantee, Plan, PoissonSteps, Reservation, Unit
from privet.privacy.accountants import PLD
from privet.privacy.splits import Split
from privet.public import PublicRows, final_linear
from privet.recipes.feature_models import CentredHead, features
from privet.recipes.row_kinds import RowKind
from privet.recipes.saved_transformers import LocalLanguageModel
from privet.recipes.training import check, expected_rows, noise_for, treated_as_public
from privet.recipes.training_config import Material
from privet.runs.paid_sets import PaidSet, check_words, paid_set
from privet.runs.reading import public_rows, read_rows, tested_words
from privet.runs.run_terms import delta_warnings
from privet.runs.session import usable_device
from privet.runs.sets import RowSet, Sets
from privet.runs.train_config import Asked, RunConfig
from privet.runs.train_settings import preset_of, resolved
from privet.runs.trial import Trial
from privet.runs.weights import require_room

_ROWS_PER_ENCODING = 64


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Everything that a run works with, and that needs no private row.

    Args:
        asked: what was asked for.
        config: the complete configuration that follows from it.
        sets: rows; the private ones are for the hedge alone.
        network: what learns.
        encoder: what computes features; None where the network sees rows itself.
        material: public rows as the network sees them, once they are encoded.
        test: rows to measure accuracy on; None if there are none.
        keys: randomness outside the hedge.
        noise_seed: a seed for noise, for tests; never saved; None draws real noise.
        device: where the network lies.
        release: a synthetic set that the run pays for, in whose place black images stand until it
            is made; None for none.
        trial: what a tuning decided; None if the run is not one of its trials.
    """

    asked: Asked
    config: RunConfig
    sets: Sets[Any]
    network: nn.Module
    material: Material
    test: PublicRows | None
    keys: Keys
    noise_seed: int | None
    device: torch.device
    encoder: nn.Module | None = None
    release: PaidSet | None = None
    trial: Trial | None = None

    def with_synthetic(self, images: ImageSet) -> Stage:
        """Put the set that the run made in the place of what stood in for it."""
        material = replace(self.material, synthetic=_rows(images, self.device))
        return replace(self, material=material)

    def encoded(self) -> Stage:
        """Put features in the place of inputs, if the network wants them."""
        encoder = self.config.model.encoder()
        if encoder is None:
            return self
        encoder = encoder.to(self.device)
        public = _encoded(encoder, self.material.public)
        synthetic = _encoded(encoder, self.material.synthetic)
        seen = synthetic if public is None else public
        if seen is not None and isinstance(self.network, CentredHead):
            self.network.centre_on(seen.inputs)
        return replace(
            self,
            encoder=encoder,
            material=replace(self.material, public=public, synthetic=synthetic),
            test=_encoded(encoder, self.test),
        )

    def hedge(self, reservation: Reservation) -> Hedge:
        """Put the private rows, or their features, behind a hedge."""
        hedge = Hedge(
            self.sets.private,
            reservation,
            users=self.sets.users,
            declared_size=self.config.declared_size,
            physical_batch=_ROWS_PER_ENCODING,
            randomness=Randomness(self.noise_seed),
            device=self.device,
        )
        return hedge if self.encoder is None else hedge.map(self._encode)

    def helper(self, team: Processes) -> Helper:
        """Put the private rows, or their features, behind the hedge of a helping process."""
        helper = Helper(
            self.sets.private,
            team,
            users=self.sets.users,
            physical_batch=_ROWS_PER_ENCODING,
            device=self.device,
        )
        return helper if self.encoder is None else helper.map(self._encode)

    def _encode(self, units: Units) -> dict[str, Tensor]:
        assert self.encoder is not None
        return {INPUTS: features(self.encoder, units[INPUTS]), TARGETS: units[TARGETS]}

    def plan(self, mechanism: PoissonSum) -> Plan:
        """List all that will happen to private rows."""
        training = self.config.training
        steps = PoissonSteps(
            sampling_rate=mechanism.sampling_rate,
            noise_multiplier=mechanism.noise_multiplier,
            steps=training.steps,
        )
        if self.config.declared_size is not None:
            return Plan((*self.before, steps))
        count = size_mechanism(self.config.budget, self.config.relation).event
        return Plan((*self.before, count, steps))

    @property
    def split(self) -> Split:
        """Which rows are private, and which that taught an encoder of the release are not."""
        own = self.config.split
        if self.release is None:
            return own
        other = self.release.stage.config.split
        return own.with_others(*other.others, shares=other.shares)

    @property
    def before(self) -> tuple[Event, ...]:
        """The events of what is released before the first step, besides a count."""
        return () if self.release is None else self.release.events

    def noise(self) -> PoissonSum:
        """Find the least noise for the budget; refuse if the owner's ledger has no room for it."""
        config = self.config
        if self.trial is not None:
            return self.trial.mechanism(config.training)
        mechanism, plan = noise_for(
            config.training,
            config.budget,
            config.relation,
            declared=config.declared_size is not None,
            before=self.before,
        )
        config.require_room(plan, self.split)
        return mechanism

    def guarantee(self, plan: Plan) -> Guarantee:
        """The guarantee of a plan by itself."""
        budget, relation = self.config.budget, self.config.relation
        return Guarantee(
            epsilon=PLD().epsilon(plan.events, budget.delta, relation),
            delta=budget.delta,
            relation=relation,
            unit=self.config.unit,
            accountant=PLD().name,
        )

    def alone(self, plan: Plan) -> dict[str, float]:
        """ε of a release, and of the steps after it, each without the other; empty without one."""
        if self.release is None:
            return {}
        parts = {"release": plan.events[: len(self.before)], "steps": plan.events[-1:]}
        delta, relation = self.config.budget.delta, self.config.relation
        return {name: PLD().epsilon(some, delta, relation) for name, some in parts.items()}

    def expected_batch(self) -> float | None:
        """Expected units in a step; None if their number is not declared."""
        size = self.config.declared_size
        return None if size is None else expected_rows(self.config.training, self.material, size)

    def measured(self) -> Accuracy | Perplexity | None:
        """Measure how good the network is as it is, on the test rows; None without such."""
        if self.test is None:
            return None
        if self.material.words:
            rows = tested_words(self.test, self.config.training.method.views)
            return perplexity(self.logits, rows.inputs, rows.targets)
        return accuracy(
            predictions(self.logits, self.test.inputs), self.test.targets, len(self.class_names)
        )

    def logits(self, inputs: Tensor) -> Tensor:
        """Compute the network's logits of inputs as they are stored."""
        inputs = inputs.to(self.device)
        found: Tensor = self.network(to_float(inputs) if self.material.pixels else inputs)
        return found

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of the private rows."""
        return self.config.class_names

    @property
    def _one(self) -> str:
        return self.config.rows.one if self.config.unit is Unit.EXAMPLE else "user"

    @property
    def num_parameters(self) -> int:
        """How many numbers are learned."""
        return sum(each.numel() for each in trainable(self.network).values())

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What the certificate lists as public."""
        training, material = self.config.training, self.material
        used: list[str] = []
        if self.release is not None:
            material = replace(material, synthetic=None)  # it is paid for
            used.extend(self.release.stage.treated_as_public)
        used.extend(treated_as_public(training, material))
        if training.warm_up is not None and material.public_classes is not None:
            used.append("public rows have other classes: a warm-up head of their own was dropped")
        used.extend(self.config.rows.treated_as_public)
        used.extend(self.config.model.treated_as_public)
        if not self.config.model.sees_inputs:
            kind = "synthetic" if material.public is None else "public"
            if material.public is not None or material.synthetic is not None:
                used.append(f"{kind} rows for the mean and the deviations of features")
        if self.test is not None:
            what = "perplexity" if self.material.words else "accuracy"
            used.append(f"test rows, declared non-private, for {what} during and after training")
        return tuple(dict.fromkeys((*used, *self.sets.caveats)))

    def warnings(self) -> list[str]:
        """Sentences about what is allowed and yet worth one."""
        notes = list(self.sets.notes)
        if self.release is not None:
            notes.extend(self.release.sentences)
        nearest = preset_of(self.asked, len(self.class_names)).fitted_to
        if nearest is not None:
            notes.append(f"The preset has no settings for this ε: those for {nearest:g} are used.")
        delta, size = self.config.budget.delta, self.config.declared_size
        notes += delta_warnings(delta, size, self._one)
        if self.material.public_classes is not None:
            notes.append(
                f"The public images have {self.material.public_classes} classes of their own: "
                "they warm up all but the head, and nothing else."
            )
        if self.noise_seed is not None:
            notes.append("The noise is seeded, so this run is NOT private.")
        return notes


def staged(
    asked: Asked,
    *,
    noise_seed: int | None = None,
    device: str = "cpu",
    unread: bool = False,
    trial: Trial | None = None,
) -> Stage:
    """Read, decide and check everything; refuse what cannot work before anything is written."""
    _ = asked.budget  # the cheapest refusals come first
    check_words(asked)
    rows, sets = read_rows(asked.data_choice, unread=unread)
    stage = staged_with(asked, rows, sets, noise_seed=noise_seed, device=device)
    return replace(stage, trial=trial)


def staged_with(
    asked: Asked,
    rows: RowKind,
    sets: Sets[Any],
    *,
    noise_seed: int | None = None,
    device: str = "cpu",
) -> Stage:
    """Do as `staged`, with rows that were read before."""
    release = paid_set(asked, sets, seeded=noise_seed is not None)
    if release is not None:
        sets = replace(sets, synthetic=release.stand_in())
    share = None if release is None else release.share
    config = resolved(asked, rows, sets, seeded=noise_seed is not None, release=share)
    keys = Keys(config.training.seed, _view_seed(noise_seed))
    shape = config.rows.shape
    place = usable_device(device)
    require_room(config.model, shape, len(config.class_names))
    with seeded(keys.generator(Purpose.WEIGHTS)):
        network = config.model.network(shape, len(config.class_names)).eval()
        if isinstance(config.model, LocalLanguageModel):
            config.model.learn_words(network, config.class_names)
    network = network.to(place)
    material = Material(
        input_shape=config.model.input_shape(shape),
        num_classes=len(config.class_names),
        public=_rows(sets.public, place),
        synthetic=_rows(sets.synthetic, place),
        public_classes=sets.public_classes,
        pixels=rows.pixels and config.model.sees_inputs,
        words=rows.words,
        loss=rows.loss,
    )
    _check_warm_up(network, config, material)
    check(network, config.training, material, keys)
    return Stage(
        asked=asked,
        config=config,
        sets=sets,
        network=network,
        material=material,
        test=_rows(sets.test, place),
        keys=keys,
        noise_seed=noise_seed,
        device=place,
        release=release,
    )


def _check_warm_up(network: nn.Module, config: RunConfig, material: Material) -> None:
    """Public rows of other classes teach all but the head: refuse a model that is all head."""
    if material.public_classes is None:
        return
    others = f"The public images have {material.public_classes} classes of their own"
    if config.training.warm_up is None:
        raise ConfigError(f"{others}: they are good for a warm-up only, so give --warm-up public.")
    head, _ = final_linear(network)
    if all(name.startswith(head + ".") for name in trainable(network)):
        raise ConfigError(
            f"{others}, and this model is nothing but a head: give public images of the private "
            "classes, or another --model."
        )


def _rows(some: RowSet | None, device: torch.device) -> PublicRows | None:
    return None if some is None else public_rows(some).to(device)


def _encoded(encoder: nn.Module, rows: PublicRows | None) -> PublicRows | None:
    return None if rows is None else PublicRows(features(encoder, rows.inputs), rows.targets)


def _view_seed(noise_seed: int | None) -> int | None:
    """The seed of views in a run with seeded noise; None where their key is fresh."""
    if noise_seed is None:
        return None
    if noise_seed < 0:
        raise ConfigError(f"--noise-seed is {noise_seed}: give a whole number from 0 upwards.")
    digest = hashlib.blake2b(f"views {noise_seed}".encode(), digest_size=16).digest()
    return int.from_bytes(digest)
