"""An encoder when nothing is public: it learns from the private images, for a share of the budget.

    plan = T sums of clipped gradients over Poisson samples, and then the releases
    ε(sums) = share · ε          ε(sums and releases) = ε

Both stand in one plan of one reservation, composed by the PLD accountant; the releases may depend
on the encoder, since composition is adaptive.

References:
    Harder et al. 2023 (DP-MEPF), appendix F.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from privet.errors import ConfigError, PrivacyError
from privet.hedge import Hedge, PoissonSum
from privet.keys import seeded
from privet.learn import Adam, EngineName, Keys, Method, Progress
from privet.learn import checkpoint as checkpoints
from privet.learn.gradients import trainable
from privet.models import ConvEncoder
from privet.models.layers import group_norm
from privet.optim import cosine
from privet.privacy import Budget, Event, PoissonSteps, Relation
from privet.public import PublicRows
from privet.recipes.interrupts import undisturbed
from privet.recipes.model import ImageShape
from privet.recipes.releases import (
    USUAL_SIZE,
    Memory,
    NoMemory,
    OnStep,
    Tensors,
    plan_releases,
    require_labels,
)
from privet.recipes.training import TrainingStart, noise_for, prepare, take_steps
from privet.recipes.training_config import Material, TrainingConfig
from privet.release.placing import moved

NAME = "encoder"
_SECONDS_BETWEEN_CHECKPOINTS = 1.0
_STEP = "step"


@dataclass(frozen=True, kw_only=True)
class PrivatelyTrained:
    """A small convolutional network, trained by DP-SGD to classify the private images.

    Its steps are Adam's, which do not depend on the size of gradients, and so need no count of the
    private images.

    Args:
        share: the share of ε that training would cost alone; the releases get what then is left.
        epochs: passes over the private images on average.
        sampling_rate: the probability with which each image joins a step.
        clip_norm: the longest that an image's gradient may be.
        learning_rate: the learning rate at its highest.
        ema_decay: decay of the moving average of weights, which is what is kept.
        width: channels of the first layer; the last has eight times as many.
        groups: how many groups each GroupNorm has.
        seed: the seed of its first weights.
    """

    share: float = 0.5
    epochs: float = 5.0
    sampling_rate: float = 0.1
    clip_norm: float = 1.0
    learning_rate: float = 3e-3
    ema_decay: float = 0.9
    width: int = 24
    groups: int = 4
    seed: int = 0
    needs_public: bool = field(default=False, init=False)
    treated_as_public: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"--encoder share is {self.share:g}: give a share between 0 and 1.")
        _ = self.training, group_norm(self.groups, self.width)

    @property
    def training(self) -> TrainingConfig:
        """The settings of its training, by equation 1."""
        return TrainingConfig(
            method=Method(update=Adam()),
            sampling_rate=self.sampling_rate,
            epochs=self.epochs,
            clip_norm=self.clip_norm,
            learning_rate=self.learning_rate,
            schedule=cosine(),
            ema_decay=self.ema_decay,
            engine=EngineName.GHOST,
            seed=self.seed,
        )

    def events(self, budget: Budget, relation: Relation) -> tuple[Event, ...]:
        """Its training steps, with the least noise at which they alone cost their share."""
        part = Budget(epsilon=self.share * budget.epsilon, delta=budget.delta)
        _, plan = noise_for(self.training, part, relation, declared=True)
        return plan.events

    def outline(self, shape: ImageShape, public: PublicRows | None) -> ConvEncoder:
        """Make the encoder with its first weights."""
        return untrained(shape[2], self.width, self.groups, self.seed)

    def made(
        self, shape: ImageShape, public: PublicRows | None, memory: object, told: OnStep
    ) -> ConvEncoder:
        """Make the encoder with its first weights.

        Private images teach it behind the hedge alone, by `private_encoder`.
        """
        return self.outline(shape, public)


def untrained(channels: int, width: int, groups: int, seed: int) -> ConvEncoder:
    """Make an encoder with its first weights, which come from the seed alone."""
    w = width
    with seeded(torch.Generator().manual_seed(seed)):
        made = ConvEncoder(
            channels,
            widths=(w, 2 * w, 4 * w, 4 * w, 8 * w),
            norm=lambda outputs: group_norm(groups, outputs),
        )
    return made.folded()


def private_encoder(
    hedge: Hedge,
    lessons: PrivatelyTrained,
    *,
    image_shape: ImageShape,
    num_classes: int,
    noise_ratios: Sequence[float] = (1.0,),
    memory: Memory | None = None,
    on_step: OnStep | None = None,
) -> ConvEncoder:
    """Spend a share of the reservation on an encoder; the releases that are to come get the rest.

    Guarantees:
        The plan, encoder and releases together, is fixed before a private row is read. A step that
        was paid for and lost is not taken back: a run that was killed has so many fewer of them.

    Args:
        hedge: images and labels, with an ε reserved.
        lessons: how the encoder learns.
        image_shape: height, width and channels.
        num_classes: declared.
        noise_ratios: noise ratios of the releases that will follow, as they plan them.
        memory: where the encoder, and how far it has got, are kept, so that a killed run goes on;
            None keeps nothing.
        on_step: called with the steps done and their total.
    """
    check_classes(num_classes)
    require_labels(hedge, num_classes)
    memory = memory or NoMemory()
    steps = _planned_steps(hedge, lessons, noise_ratios)
    network = _Classifier(lessons.outline(image_shape, None), image_shape, num_classes, lessons)
    network = network.to(hedge.device)
    names = list(network.encoder.state_dict())

    def train() -> Tensors:
        material = Material(input_shape=image_shape, num_classes=num_classes)
        _train(hedge, network, lessons, material, steps, memory, on_step)
        return {name: each.clone() for name, each in network.encoder.state_dict().items()}

    weights = memory.learned(NAME, dict(network.encoder.state_dict()), train)
    network.encoder.load_state_dict({name: weights[name] for name in names})
    return network.encoder.requires_grad_(False).cpu()


def check_classes(num_classes: int) -> None:
    """Refuse images that have no labels, or one: nothing can be learned from these."""
    if num_classes < 2:
        raise ConfigError(
            "A private encoder learns to tell classes apart: give labelled images, or another "
            "--encoder."
        )


def _planned_steps(
    hedge: Hedge, lessons: PrivatelyTrained, noise_ratios: Sequence[float]
) -> PoissonSum:
    """The training steps of the plan, which is fixed here unless another process did it."""
    reservation = hedge.reservation
    if reservation.record.plan is None:
        plan_releases(hedge, noise_ratios, lessons.events)
    wanted = (lessons.sampling_rate, lessons.training.steps)
    for event in reservation.plan.events:
        if isinstance(event, PoissonSteps) and (event.sampling_rate, event.steps) == wanted:
            return PoissonSum(
                clip_norm=lessons.clip_norm,
                noise_multiplier=event.noise_multiplier,
                sampling_rate=event.sampling_rate,
            )
    raise PrivacyError("The reservation was made for another plan: start another run.")


def _train(
    hedge: Hedge,
    network: _Classifier,
    lessons: PrivatelyTrained,
    material: Material,
    steps: PoissonSum,
    memory: Memory,
    on_step: OnStep | None,
) -> None:
    """Train the network in place, from where an earlier process had got to."""
    config, keys = lessons.training, Keys(lessons.seed)
    engine = prepare(network, config, material, keys)
    kept = memory.unfinished(NAME, paid=True)
    names = list(trainable(network))
    progress = Progress.start(dict(trainable(network)))
    if kept is not None:
        progress = _restored(moved(kept, hedge.device), names)
    if progress.step > hedge.reservation.spent(steps.event):
        raise PrivacyError(f"unfinished-{NAME} belongs to another run: remove it.")
    if not progress.step and not hedge.reservation.remaining(steps.event):
        raise PrivacyError("The encoder was paid for already, and lost: start another run.")
    # Adam's steps are the same for any divisor.
    divisor = config.sampling_rate * (hedge.reservation.record.declared_size or USUAL_SIZE)
    start = TrainingStart(mechanism=steps, divisor=divisor, engine=engine, progress=progress)
    with undisturbed() as let_through:
        saved = time.monotonic()

        def after(progress: Progress) -> None:
            nonlocal saved
            if on_step is not None:
                on_step(progress.step, config.steps)
            now = time.monotonic()
            if progress.step == 1 or now - saved >= _SECONDS_BETWEEN_CHECKPOINTS:
                memory.keep(NAME, _flat(progress))
                saved = now
            try:
                let_through()
            except KeyboardInterrupt:
                memory.keep(NAME, _flat(progress))
                raise

        done = take_steps(
            hedge, network, config, material, start, keys=keys, on_step=after
        ).progress
        memory.keep(NAME, _flat(done))


def _flat(progress: Progress) -> Tensors:
    return {**dict(checkpoints.flat(progress)), _STEP: torch.tensor(progress.step)}


def _restored(kept: Tensors, names: list[str]) -> Progress:
    tensors = dict(kept)
    step = int(tensors.pop(_STEP))
    return checkpoints.restored(tensors, step, names)


class _Classifier(nn.Module):
    """An encoder, and a head that is forgotten; it sees positions, which teaches faster."""

    def __init__(
        self,
        encoder: ConvEncoder,
        image_shape: ImageShape,
        num_classes: int,
        lessons: PrivatelyTrained,
    ) -> None:
        super().__init__()
        height, width, channels = image_shape
        self.encoder = encoder
        with torch.no_grad():
            size = encoder.last_map(torch.zeros(1, channels, height, width)).numel()
        with seeded(torch.Generator().manual_seed(lessons.seed + 1)):
            self.head = nn.Linear(size, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits of images."""
        logits: Tensor = self.head(self.encoder.last_map(images).flatten(1))
        return logits
