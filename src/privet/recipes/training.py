"""From a hedge, a model and public rows to a private model: every method of equation 1.

The published systems are settings of it: see `methods`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privet.augment import to_float
from privet.errors import ConfigError
from privet.hedge import (
    Alone,
    Hedge,
    PoissonSum,
    Team,
    Units,
    released_size,
    require_columns,
    size_mechanism,
)
from privet.learn.checks import check_model
from privet.learn.engine import Engine, EngineName, EnginePlan, plan_engine, with_physical_batch
from privet.learn.equation import (
    INPUTS,
    TARGETS,
    Equation,
    OnGradient,
    random_rows,
    units_of,
)
from privet.learn.gradients import Blocks, combined, copied, trainable
from privet.learn.keys import Keys, Purpose
from privet.learn.objective import Examples, Loss
from privet.learn.origins import NoOrigin
from privet.learn.training import OnStep, Progress, train
from privet.learn.views import Views
from privet.privacy import (
    PLD,
    Budget,
    Certificate,
    Event,
    Plan,
    PoissonSteps,
    Relation,
    certify,
    noise_multiplier,
)
from privet.public import PublicRows, final_linear, warm_up, warm_up_body
from privet.recipes.training_config import Material, TrainingConfig


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A private model, and what it cost."""

    model: nn.Module
    progress: Progress
    certificate: Certificate
    engine: EnginePlan

    @property
    def average(self) -> Blocks:
        """The averaged weights, which the model carries."""
        return self.progress.average


def noise_for(
    config: TrainingConfig,
    budget: Budget,
    relation: Relation,
    *,
    declared: bool,
    before: Sequence[Event] = (),
) -> tuple[PoissonSum, Plan]:
    """Find the least noise for a budget, and the plan: steps, and a count if no size is declared.

    Args:
        config: settings, among them the sampling rate and the number of steps.
        budget: what everything together may cost.
        relation: which data sets are neighbours.
        declared: whether the number of private rows is declared.
        before: events that the budget pays for first.
    """
    count = () if declared else (size_mechanism(budget, relation).event,)

    def plan_at(sigma: float) -> Plan:
        steps = PoissonSteps(
            sampling_rate=config.sampling_rate, noise_multiplier=sigma, steps=config.steps
        )
        return Plan((*before, *count, steps))

    sigma = noise_multiplier(plan_at, budget, relation, PLD())
    mechanism = PoissonSum(
        clip_norm=config.clip_norm, noise_multiplier=sigma, sampling_rate=config.sampling_rate
    )
    return mechanism, plan_at(sigma)


@dataclass(frozen=True, kw_only=True)
class TrainingStart:
    """Where a run starts, or goes on from. Nothing in it is private.

    Args:
        mechanism: clip, noise and sampling.
        divisor: b, the expected number of rows in a step.
        engine: how gradients are taken, and why.
        progress: weights and what belongs to them.
    """

    mechanism: PoissonSum
    divisor: float
    engine: EnginePlan
    progress: Progress


def private_training(
    hedge: Hedge,
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    *,
    on_step: OnStep | None = None,
) -> TrainedModel:
    """Spend the whole reservation on training a model.

    Args:
        hedge: inputs and labels, with an ε reserved.
        model: trained in place; it ends with the averaged weights.
        config: every setting.
        material: shapes and public rows that the run works on.
        on_step: called with the progress after every step; None tells nobody.
    """
    keys = Keys(config.seed)
    start = begin_training(hedge, model, config, material, keys=keys)
    return take_steps(hedge, model, config, material, start, keys=keys, on_step=on_step)


def begin_training(
    hedge: Hedge, model: nn.Module, config: TrainingConfig, material: Material, *, keys: Keys
) -> TrainingStart:
    """Check, warm up, choose an engine; only then fix the plan and, if need be, release a count."""
    require_columns(hedge, INPUTS, TARGETS)
    engine = prepare(model, config, material, keys)
    reservation = hedge.reservation
    budget = Budget(epsilon=reservation.record.epsilon, delta=reservation.ledger.budget.delta)
    declared = reservation.record.declared_size is not None
    mechanism, plan = noise_for(config, budget, reservation.ledger.relation, declared=declared)
    reservation.fix(plan)
    counting = size_mechanism(budget, reservation.ledger.relation)
    return TrainingStart(
        mechanism=mechanism,
        divisor=expected_rows(
            config, material, hedge.size if declared else released_size(hedge, counting)
        ),
        engine=engine,
        progress=Progress.start(dict(trainable(model))),
    )


def prepare(model: nn.Module, config: TrainingConfig, material: Material, keys: Keys) -> EnginePlan:
    """Do all that needs no private row: checks, the warm-up, the choice of an engine."""
    check(model, config, material, keys)
    if config.warm_up is not None:
        _warm_up(model, config, material, keys)
    return _engine_for(model, config, material, keys)


def take_steps(
    hedge: Hedge,
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    start: TrainingStart,
    *,
    keys: Keys,
    on_step: OnStep | None = None,
    on_gradient: OnGradient | None = None,
    team: Team | None = None,
) -> TrainedModel:
    """Take all steps from where the run is; the model ends with the averaged weights."""
    equation = equation_for(model, config, material, keys, start.divisor, start.engine.engine)
    steps = hedge.shared_with(team or Alone()).steps(
        start.mechanism,
        first=start.progress.step,
        physical_batch=start.engine.engine.physical_batch,
    )
    progress = train(equation, steps, config.course, start.progress, on_step, on_gradient)
    with torch.no_grad():
        for name, parameter in trainable(model).items():
            parameter.copy_(progress.average[name])
    certificate = certify(hedge.reservation, public=treated_as_public(config, material))
    return TrainedModel(
        model=model, progress=progress, certificate=certificate, engine=start.engine
    )


def check(model: nn.Module, config: TrainingConfig, material: Material, keys: Keys) -> None:
    """Refuse what cannot work, before anything is spent."""
    if config.method.needs_public and material.same_classes is None:
        raise ConfigError(
            "This method uses public rows of the private classes in every step: give such public "
            "data, or choose other slots."
        )
    if config.extended and material.same_classes is None:
        raise ConfigError("Only public rows of the private classes can join them: give some.")
    if config.warm_up is not None and material.public is None and material.warming(config) is None:
        raise ConfigError("A warm-up needs public data: give some, or choose no warm-up.")
    trial = _trial_rows(model, material, 2)
    views = config.method.views.single(
        Examples(trial.inputs, trial.targets), keys.generator(Purpose.PROBE)
    )
    check_model(model, material.loss, views, material.num_classes)


def expected_rows(config: TrainingConfig, material: Material, size: float) -> float:
    """The expected number of rows in a step, b: private rows and joined public ones.

    Private rows count by their declared or released number.
    """
    joined = _joined(config, material)
    return config.sampling_rate * (size + (0 if joined is None else len(joined)))


def equation_for(
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    keys: Keys,
    divisor: float,
    engine: Engine,
) -> Equation:
    """Make equation 1 with all that stays the same in a run."""
    return Equation(
        model=model,
        method=config.method,
        divisor=divisor,
        num_classes=material.num_classes,
        keys=keys,
        engine=engine,
        public=material.same_classes,
        public_batch=config.public_batch,
        joined=_joined(config, material),
        loss=material.loss,
    )


def _joined(config: TrainingConfig, material: Material) -> PublicRows | None:
    """The public rows that are part of the training set, the same ones in every step."""
    rows = material.same_classes
    if not config.extended or rows is None:
        return None
    generator = Keys(config.seed).generator(Purpose.JOINING)
    return rows.sample(num_joined(config.extended, len(rows)), generator)


def num_joined(share: float, num_public: int) -> int:
    """How many public rows a share of them is; at least one, unless the share is 0."""
    return max(1, round(share * num_public)) if share else 0


def _trial_rows(model: nn.Module, material: Material, count: int) -> PublicRows:
    rows = random_rows(
        material.input_shape,
        material.num_classes,
        count,
        pixels=material.pixels,
        words=material.words,
    )
    return rows.to(next(model.parameters()).device)


def _engine_for(
    model: nn.Module, config: TrainingConfig, material: Material, keys: Keys
) -> EnginePlan:
    equation = equation_for(model, config, material, keys, 1.0, Engine(name=EngineName.LOOP))
    weights = copied(trainable(model))
    method = config.method
    objective = equation.objective(
        (weights,) * method.perturb.count,
        scale=combined(torch.ones_like, weights) if method.scale.needs_public else None,
        origin=None if isinstance(method.origin, NoOrigin) else combined(torch.zeros_like, weights),
    )

    def random_units(count: int) -> Units:
        return units_of(_trial_rows(model, material, count))

    if config.engine is None:
        return plan_engine(objective, random_units)
    engine = with_physical_batch(config.engine, objective, random_units)
    return EnginePlan(engine=engine, seconds_per_unit={}, reason="as configured")


def _warm_up(model: nn.Module, config: TrainingConfig, material: Material, keys: Keys) -> None:
    """Warm up all but the head on rows of other classes, then all on rows of the private ones."""
    assert config.warm_up is not None
    generator = keys.generator(Purpose.WARM_UP)
    preprocess = to_float if material.pixels else nn.Identity()
    if material.public_classes is not None and material.public is not None:
        name, _ = final_linear(model)
        warm_up_body(
            model,
            name,
            material.public_classes,
            material.public,
            config.warm_up,
            generator=generator,
            preprocess=preprocess,
        )
    rows = material.warming(config)
    if rows is not None:
        warm_up(
            model,
            rows,
            config.warm_up,
            generator=generator,
            preprocess=preprocess,
            lesson=_Words(config.method.views, material.loss) if material.words else None,
        )


@dataclass(frozen=True)
class _Words:
    """The lesson of a private step, for public sequences."""

    views: Views
    private_loss: Loss

    def view(self, rows: PublicRows, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Take one view of each sequence."""
        found = self.views.single(Examples(rows.inputs, rows.targets), generator)
        return found.inputs, found.targets

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of private steps."""
        return self.private_loss(outputs, targets)


def treated_as_public(config: TrainingConfig, material: Material) -> tuple[str, ...]:
    """What the certificate lists as public: what public and synthetic rows were used for."""
    rows = {"public": material.public, "synthetic": material.synthetic}
    steps = {
        "gradients": config.method.needs_public_gradient,
        "mixing": config.method.views.needs_public,
        "joining private batches": config.extended > 0,
    }
    found = []
    for kind in (kind for kind, some in rows.items() if some is not None):
        warmed = config.warm_up is not None and (kind == "public" or config.synthetic_warm_up)
        used = [name for name, active in {"warm-up": warmed, **steps}.items() if active]
        if used:
            found.append(f"{kind} rows for {', '.join(used)}")
    return tuple(found)
