"""What all systems of equation 2 share: a plan for their releases, a memory, a result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privet.errors import PrivacyError
from privet.hedge import GaussianSum, Hedge, NoisySum, require_columns
from privet.privacy import (
    PLD,
    Budget,
    Certificate,
    Event,
    GaussianRelease,
    Plan,
    Relation,
    noise_multiplier,
)
from privet.recipes.interrupts import Stoppable, undisturbed
from privet.release import Embedding, MomentDiscriminant

USUAL_SIZE = 10_000.0
SECONDS_BETWEEN_CHECKPOINTS = 20.0
_BATCH = 500  # images that a judge looks at together
_ROUNDING = 1e-9  # of noise multipliers, which are found to fewer digits
PAID_FOR = {"privet": "made of private rows"}
"""What a file of tensors says of itself, in its metadata, when a ledger counts it."""
Tensors = dict[str, Tensor]
Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
Probabilities = NDArray[np.float32]
Soft = Callable[[Images], Probabilities]
"""From images to probabilities of classes."""
OnStep = Callable[[int, int], None]
"""Told how many steps of how many are done."""
SumOf = Callable[[Embedding, int], NoisySum]
"""From an embedding and the number of its stage or release to the noised sum."""
EventsFor = Callable[[Budget, Relation], tuple[Event, ...]]
"""From a budget and a relation to the events that the budget pays for before releases."""


@runtime_checkable
class HearsLosses(Protocol):
    """An `OnStep` that wants to know losses too, which are free: of what left the hedge."""

    def loss(self, step: int, total: int, value: float) -> None:
        """Hear the loss of a step, with the number of steps that there will be."""


class Memory(Protocol):
    """Keeps what is done: a release that was paid for, a generator, a batch of images."""

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Return what was made under this name before, or make it now and remember it."""

    def every(self, names: Sequence[str], make: Callable[[int], Tensors]) -> list[Tensors]:
        """Do as `once` for independent things; `make` is given the place of each name."""

    def paid(self, name: str, embedding: Embedding, make: Callable[[], Tensors]) -> Tensors:
        """Do as `once` for what left the hedge through an embedding and cannot be had again."""

    def learned(self, name: str, like: Tensors, make: Callable[[], Tensors]) -> Tensors:
        """Do as `once` for weights that private images were paid for; `like` has their shapes."""

    def unfinished(self, name: str, *, paid: bool = False) -> Tensors | None:
        """Return what was kept of something that is not made yet, or None.

        With `paid`, it cannot be had again.
        """

    def keep(self, name: str, state: Tensors) -> None:
        """Keep how far something has got; that is forgotten once it is made."""


class NoMemory:
    """Remembers nothing and makes everything anew: for a run in one process."""

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Make it now."""
        return make()

    def every(self, names: Sequence[str], make: Callable[[int], Tensors]) -> list[Tensors]:
        """Make all of them now, one after the other."""
        return [self.once(name, partial(make, place)) for place, name in enumerate(names)]

    def paid(self, name: str, embedding: Embedding, make: Callable[[], Tensors]) -> Tensors:
        """Make it now."""
        return make()

    def learned(self, name: str, like: Tensors, make: Callable[[], Tensors]) -> Tensors:
        """Make it now."""
        return make()

    def unfinished(self, name: str, *, paid: bool = False) -> Tensors | None:
        """Return None, since nothing is kept."""
        return None

    def keep(self, name: str, state: Tensors) -> None:
        """Keep nothing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """Images, as many as one likes, by the batch.

    Args:
        batch: images and labels by the number of a batch, the same whenever they are asked for.
        batch_size: images in a batch.
        soft: from images to class probabilities (N, classes); None where nothing tells classes
            apart.
    """

    batch: Callable[[int], tuple[Images, Labels]]
    batch_size: int
    soft: Soft | None = None

    def batches(self, count: int) -> Iterator[tuple[Images, Labels]]:
        """Yield the first `count` images with their labels, in batches."""
        for number in range(math.ceil(count / self.batch_size)):
            images, labels = self.batch(number)
            left = count - number * self.batch_size
            yield images[:left], labels[:left]

    def take(self, count: int) -> tuple[Images, Labels]:
        """Return the first `count` images with their labels, at once."""
        found = list(self.batches(count))
        images, labels = zip(*found, strict=True)
        return np.concatenate(images), np.concatenate(labels)


@dataclass(frozen=True, eq=False, kw_only=True)
class Matched(Drawn):
    """Images that match noised sums, wherever these come from.

    Args:
        shares: shares of the classes, as released.
    """

    shares: Tensor

    def certified(self, certificate: Certificate) -> Synthetic:
        """Return the same images with the certificate of what they cost."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return Synthetic(certificate=certificate, **own)


@dataclass(frozen=True, eq=False, kw_only=True)
class Synthetic(Matched):
    """Images that may be shared, and what they cost.

    Args:
        certificate: what the images cost.
    """

    certificate: Certificate


@dataclass(frozen=True, eq=False)
class Release:
    """What will leave the hedge: a clipped and noised sum of vectors.

    Args:
        embedding: turns an image into a vector.
        clip_norm: the longest that a vector may be.
        noise_ratio: its noise multiplier, as a multiple of that of other releases.
    """

    embedding: Embedding
    clip_norm: float
    noise_ratio: float = 1.0


def relative_noise(
    budget: Budget,
    relation: Relation,
    declared_size: float | None,
    num_classes: int,
    before: Sequence[Event] = (),
) -> float:
    """Return the noise multiplier of one release over the number of images in a class.

    Args:
        budget: what is spent on it.
        relation: which data sets are neighbours.
        declared_size: the number of private images; None takes a usual one.
        num_classes: how many classes there are, taken to be equally large.
        before: events that the budget pays for as well.
    """
    [mechanism] = affordable_sums(budget, relation, [1.0], before=before)
    return mechanism.noise_multiplier * num_classes / (declared_size or USUAL_SIZE)


def hedge_noise(hedge: Hedge, num_classes: int) -> float:
    """`relative_noise` of a hedge's reservation, with all that its plan pays for besides."""
    record, ledger = hedge.reservation.record, hedge.reservation.ledger
    budget = Budget(epsilon=record.epsilon, delta=ledger.budget.delta)
    before = () if record.plan is None else other_events(record.plan)
    return relative_noise(budget, ledger.relation, record.declared_size, num_classes, before)


def planned(hedge: Hedge, releases: Sequence[Release]) -> list[GaussianSum]:
    """Fix a plan whose releases together cost the reservation; return their mechanisms."""
    return planned_sums(
        hedge, [each.clip_norm for each in releases], [each.noise_ratio for each in releases]
    )


def planned_sums(
    hedge: Hedge, clip_norms: Sequence[float], noise_ratios: Sequence[float] | None = None
) -> list[GaussianSum]:
    """Do as `planned` for releases whose embeddings are not known yet.

    A plan that was fixed before decides, be it by a killed process or by an encoder's training.
    """
    ratios = tuple(noise_ratios or (1.0,) * len(clip_norms))
    if hedge.reservation.record.plan is None:
        plan_releases(hedge, ratios)
    plan = hedge.reservation.plan
    releases = tuple(each for each in plan.events if isinstance(each, GaussianRelease))
    multipliers = _planned_multipliers(releases, ratios)
    if multipliers is not None:
        return _sums(clip_norms, multipliers)
    raise PrivacyError("The reservation was made for another plan: start another run.")


def _planned_multipliers(
    releases: Sequence[GaussianRelease], ratios: Sequence[float]
) -> list[float] | None:
    """Noise multipliers of the plan itself, in the order of ratios; None if it is another plan."""
    found = []
    for ratio in ratios if releases else ():
        wanted = releases[0].noise_multiplier / ratios[0] * ratio  # which may round otherwise
        found += [
            each.noise_multiplier
            for each in releases
            if math.isclose(each.noise_multiplier, wanted, rel_tol=_ROUNDING)
        ][:1]
    events = [GaussianRelease(noise_multiplier=each) for each in found]
    if len(found) < len(ratios) or Plan.of(*events).events != tuple(releases):
        return None
    return found


def plan_releases(
    hedge: Hedge, noise_ratios: Sequence[float], before: EventsFor | None = None
) -> Plan:
    """Fix a reservation's plan: what comes first, then releases with the least noise for the rest.

    Guarantees:
        All events together cost no more than the reservation, by the PLD accountant.
    """
    reservation = hedge.reservation
    ledger = reservation.ledger
    budget = Budget(epsilon=reservation.record.epsilon, delta=ledger.budget.delta)
    first = () if before is None else before(budget, ledger.relation)
    multiplier = release_noise(budget, ledger.relation, noise_ratios, first)
    plan = plan_of(first, multiplier, noise_ratios)
    reservation.fix(plan)
    return plan


def plan_of(before: Sequence[Event], multiplier: float, noise_ratios: Sequence[float]) -> Plan:
    """Make a plan of what comes first, and of releases at multiples of a noise multiplier."""
    releases = (GaussianRelease(noise_multiplier=multiplier * each) for each in noise_ratios)
    return Plan.of(*before, *releases)


def other_events(plan: Plan) -> tuple[Event, ...]:
    """List the events of a plan that are no releases: the steps of an encoder's training."""
    return tuple(each for each in plan.events if not isinstance(each, GaussianRelease))


def public_encoders(hedge: Hedge, name: str, count: int) -> tuple[str, ...]:
    """What a certificate lists as public of encoders, but for one that was paid for.

    Args:
        hedge: whose plan may have paid for the training of one.
        name: what the certificate calls all of them.
        count: how many there are.
    """
    if not other_events(hedge.reservation.plan):
        return (name,)
    return ("encoders besides the one that private images taught",) if count > 1 else ()


def require_labels(hedge: Hedge, num_classes: int) -> None:
    """Refuse images without labels where there are classes, before a plan is fixed."""
    require_columns(hedge, "images", *["labels"] * (num_classes > 1))


def affordable_sums(
    budget: Budget,
    relation: Relation,
    clip_norms: Sequence[float],
    noise_ratios: Sequence[float] | None = None,
    before: Sequence[Event] = (),
) -> list[GaussianSum]:
    """A mechanism for each clip norm, with the least noise for what `before` leaves of a budget."""
    ratios = tuple(noise_ratios or (1.0,) * len(clip_norms))
    multiplier = release_noise(budget, relation, ratios, before)
    return _sums(clip_norms, [multiplier * ratio for ratio in ratios])


def _sums(clip_norms: Sequence[float], multipliers: Sequence[float]) -> list[GaussianSum]:
    return [
        GaussianSum(clip_norm=clip_norm, noise_multiplier=multiplier)
        for clip_norm, multiplier in zip(clip_norms, multipliers, strict=True)
    ]


def release_noise(
    budget: Budget, relation: Relation, ratios: Sequence[float], before: Sequence[Event] = ()
) -> float:
    """The least noise multiplier, before ratios, for what `before` leaves of a budget."""
    return noise_multiplier(lambda sigma: plan_of(before, sigma, ratios), budget, relation, PLD())


def released(
    hedge: Hedge, embedding: Embedding, mechanism: GaussianSum, memory: Memory, name: str
) -> NoisySum:
    """Make a release, paid for once. From its spend until it is remembered, Ctrl-C waits."""
    with undisturbed() as let_through:

        def make() -> Tensors:
            if not hedge.reservation.remaining(mechanism.event):
                raise PrivacyError(f"{name} was paid for already, and lost: start another run.")
            noisy = hedge.release(Stoppable(embedding, let_through), mechanism)
            return {name: block.cpu() for name, block in noisy.blocks.items()}

        return NoisySum(memory.paid(name, embedding, make), mechanism.noise_scale)


def balanced(batch_size: int, num_classes: int, number: int = 0) -> Tensor:
    """Labels of a batch, in turn through all batches, so that prefixes are as even as can be."""
    return (torch.arange(batch_size) + number * batch_size) % num_classes


def soft_labels(judge: MomentDiscriminant) -> Soft:
    """Make what gives class probabilities of images, judged by released moments."""

    def soft(images: Images) -> Probabilities:
        batches = torch.split(torch.from_numpy(images), _BATCH)
        found = [judge.probabilities(each, judge.temperature) for each in batches]
        return torch.cat(found).float().cpu().numpy()

    return soft


def told(on_step: OnStep | None, total: int) -> Callable[[int, float], None]:
    """Make what a synthesis calls after each step; it passes losses on to a `HearsLosses`."""

    def tell(step: int, loss: float) -> None:
        if on_step is not None:
            on_step(step, total)
        if isinstance(on_step, HearsLosses):
            on_step.loss(step, total, loss)

    return tell


class Kept:
    """Keeps the state of a training in a memory, every now and then.

    Args:
        memory: the memory of the run.
        name: the name under which what is trained will be remembered.
    """

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory, self._name = memory, name
        self._last = time.monotonic()

    def kept(self) -> Tensors | None:
        """Return the state that was kept last, or None."""
        return self._memory.unfinished(self._name)

    def passed(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        """Keep the state, if enough time has passed."""
        if time.monotonic() - self._last >= SECONDS_BETWEEN_CHECKPOINTS:
            self._memory.keep(self._name, dict(state()))
            self._last = time.monotonic()
