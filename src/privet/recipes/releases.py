"""What all systems of equation 2 share: a plan for their releases, a memory, a result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privet.errors import PrivacyError
from privet.hedge import GaussianSum, Hedge, NoisySum
from privet.models import UpsamplingGenerator
from privet.privacy import (
    PLD,
    Budget,
    Certificate,
    GaussianRelease,
    Plan,
    Relation,
    noise_multiplier,
)
from privet.recipes.interrupts import Stoppable, undisturbed
from privet.recipes.models import ImageShape
from privet.release import Embedding

USUAL_SIZE = 10_000.0
Tensors = dict[str, Tensor]
Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
OnStep = Callable[[int, int], None]
"""Told how many steps of how many are done."""


class Memory(Protocol):
    """What is done stays done: a release that was paid for, a generator, a batch of images."""

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """What was made under this name before, or what is made now."""

    def paid(self, name: str, embedding: Embedding, make: Callable[[], Tensors]) -> Tensors:
        """Likewise, of what left the hedge through an embedding and cannot be had again."""


class NoMemory:
    """Makes everything anew: for a run in one process."""

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Now."""
        return make()

    def paid(self, name: str, embedding: Embedding, make: Callable[[], Tensors]) -> Tensors:
        """Now."""
        return make()


@dataclass(frozen=True, eq=False, kw_only=True)
class Synthetic:
    """Images that may be shared, as many as one likes, and what they cost.

    Args:
        batch: images and labels by number, the same whenever they are asked for.
        batch_size: images in a batch.
        certificate: of the run.
    """

    batch: Callable[[int], tuple[Images, Labels]]
    batch_size: int
    certificate: Certificate

    def batches(self, count: int) -> Iterator[tuple[Images, Labels]]:
        """The first `count` images."""
        for number in range(math.ceil(count / self.batch_size)):
            images, labels = self.batch(number)
            left = count - number * self.batch_size
            yield images[:left], labels[:left]

    def take(self, count: int) -> tuple[Images, Labels]:
        """The first `count` images, at once."""
        found = list(self.batches(count))
        images, labels = zip(*found, strict=True)
        return np.concatenate(images), np.concatenate(labels)


@dataclass(frozen=True, eq=False)
class Release:
    """What will leave the hedge.

    Args:
        embedding: of every image.
        clip_norm: the longest vector.
        noise_ratio: its noise multiplier against that of other releases.
    """

    embedding: Embedding
    clip_norm: float
    noise_ratio: float = 1.0


def relative_noise(
    budget: Budget, relation: Relation, declared_size: float | None, num_classes: int
) -> float:
    """Of one release: its noise multiplier over the number of images in a class.

    Args:
        budget: what is spent on it.
        relation: which data sets are neighbours.
        declared_size: the number of private images; a usual one if nobody declares it.
        num_classes: among which they are taken to be divided evenly.
    """
    [mechanism] = affordable_sums(budget, relation, [1.0])
    return mechanism.noise_multiplier * num_classes / (declared_size or USUAL_SIZE)


def hedge_noise(hedge: Hedge, num_classes: int) -> float:
    """`relative_noise` of a hedge's reservation."""
    record, ledger = hedge.reservation.record, hedge.reservation.ledger
    budget = Budget(epsilon=record.epsilon, delta=ledger.budget.delta)
    return relative_noise(budget, ledger.relation, record.declared_size, num_classes)


def planned(hedge: Hedge, releases: Sequence[Release]) -> list[GaussianSum]:
    """One mechanism for each, together at the cost of the reservation; the plan is fixed."""
    return planned_sums(
        hedge, [each.clip_norm for each in releases], [each.noise_ratio for each in releases]
    )


def planned_sums(
    hedge: Hedge, clip_norms: Sequence[float], noise_ratios: Sequence[float] | None = None
) -> list[GaussianSum]:
    """Likewise, for releases whose embeddings are not known yet."""
    reservation = hedge.reservation
    ledger = reservation.ledger
    budget = Budget(epsilon=reservation.record.epsilon, delta=ledger.budget.delta)
    found = affordable_sums(budget, ledger.relation, clip_norms, noise_ratios)
    plan = Plan.of(*(each.event for each in found))
    if reservation.record.plan is None:
        reservation.fix(plan)
    elif reservation.plan != plan:
        raise PrivacyError("The reservation was made for another plan: start another run.")
    return found


def affordable_sums(
    budget: Budget,
    relation: Relation,
    clip_norms: Sequence[float],
    noise_ratios: Sequence[float] | None = None,
) -> list[GaussianSum]:
    """A mechanism for each clip norm, with the least noise for the budget."""
    ratios = tuple(noise_ratios or (1.0,) * len(clip_norms))
    multiplier = release_noise(budget, relation, ratios)
    return [
        GaussianSum(clip_norm=clip_norm, noise_multiplier=multiplier * ratio)
        for clip_norm, ratio in zip(clip_norms, ratios, strict=True)
    ]


def release_noise(budget: Budget, relation: Relation, ratios: Sequence[float]) -> float:
    """The noise multiplier that a budget allows, before ratios."""
    return noise_multiplier(
        lambda sigma: Plan.of(*(GaussianRelease(noise_multiplier=sigma * each) for each in ratios)),
        budget,
        relation,
        PLD(),
    )


def released(
    hedge: Hedge, embedding: Embedding, mechanism: GaussianSum, memory: Memory, name: str
) -> NoisySum:
    """A release, paid for once. From its spend until it is remembered, Ctrl-C waits."""
    with undisturbed() as let_through:

        def make() -> Tensors:
            if not hedge.reservation.remaining(mechanism.event):
                raise PrivacyError(f"{name} was paid for already, and lost: start another run.")
            return dict(hedge.release(Stoppable(embedding, let_through), mechanism).blocks)

        return NoisySum(memory.paid(name, embedding, make), mechanism.noise_scale)


class GeneratorSettings(Protocol):
    """What a system says of its generator."""

    @property
    def latent(self) -> int:
        """Length of its latent vectors."""

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """Of its layers."""

    @property
    def seed(self) -> int:
        """Of its first weights."""


def generator_for(
    settings: GeneratorSettings, num_classes: int, image_shape: ImageShape
) -> UpsamplingGenerator:
    """A generator with its first weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        made = UpsamplingGenerator(
            num_classes,
            image_shape[2],
            image_size=image_shape[0],
            latent=settings.latent,
            widths=settings.widths,
        )
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def balanced(batch_size: int, num_classes: int, number: int = 0) -> Tensor:
    """Labels in turn; from batch to batch, so that every prefix is as even as can be."""
    return (torch.arange(batch_size) + number * batch_size) % num_classes


def told(on_step: OnStep | None, total: int) -> Callable[[int, float], None]:
    """What a synthesis tells of its steps and losses, without the losses."""

    def tell(step: int, _: float) -> None:
        if on_step is not None:
            on_step(step, total)

    return tell
