"""FedDM and FedLAP-DP, which distil images over rounds, for the federated release study.

In every round each party changes its own synthetic images until they look like its private ones to
a network near the server's: by mean features of each class (FedDM, Xiong et al. 2022), or by
gradients of each class along a short training (FedLAP-DP, Wang et al. 2024). The server trains its
network on the images of all parties, and the next round begins. Images start as noise, as SPS has
it (Appendix E). Unlike there both are private here: what is matched is a noised sum over a Poisson
sample, clipped example by example, and all sums of all rounds are one plan of one reservation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from privet.augment import to_float
from privet.hedge import Hedge, PoissonSum, Steps, Units
from privet.hedge.summand import Blocks, double_sum, long_norms
from privet.models import ConvNet
from privet.privacy import (
    PLD,
    Budget,
    Certificate,
    Plan,
    PoissonSteps,
    Relation,
    certify,
    noise_multiplier,
)

FEDDM, FEDLAP = "feddm", "fedlap-dp"
SUMS, COUNTS = "sums", "counts"
Weights = Mapping[str, Tensor]
Vectors = Callable[[Tensor, Tensor], Tensor]
"""From images and labels to one vector each."""


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """What both are given.

    Args:
        method: which of them.
        rounds: of communication.
        local_steps: noised sums of each party in a round.
        sampling_rate: with which probability an image joins a sum.
        clip_norm: of an image's vector and its count together.
        count_share: of the clip norm that a count takes.
        per_class: synthetic images of each class and party.
        image_steps: changes of the images for each sum.
        image_rate: by how much, at first.
        radius: within which networks around the server's are taken, against its own length.
        server_steps: of the server's training in a round.
        width: of the network.
        seed: of all that is public.
    """

    method: str = FEDDM
    rounds: int = 5
    local_steps: int = 10
    sampling_rate: float = 0.05
    clip_norm: float = 1.0
    count_share: float = 0.25
    per_class: int = 10
    image_steps: int = 10
    image_rate: float = 0.1
    radius: float = 0.05
    server_steps: int = 100
    width: int = 16
    seed: int = 0

    @property
    def steps(self) -> int:
        """Sums of one party in all rounds."""
        return self.rounds * self.local_steps

    def plan_at(self, sigma: float) -> Plan:
        """All sums of all rounds: what a party's accountant composes."""
        steps = PoissonSteps(
            sampling_rate=self.sampling_rate, noise_multiplier=sigma, steps=self.steps
        )
        return Plan((steps,))

    def mechanism(self, budget: Budget, relation: Relation) -> PoissonSum:
        """With the least noise for all rounds together."""
        return PoissonSum(
            clip_norm=self.clip_norm,
            noise_multiplier=noise_multiplier(self.plan_at, budget, relation, PLD()),
            sampling_rate=self.sampling_rate,
        )


@dataclass(eq=False)
class ByClass:
    """A vector of each example in the block of its class, and a count beside it.

    Guarantees:
        An example's whole vector, its count included, is what norms are of; a label that is none of
        the classes has no finite norm, and counts for nothing.

    Args:
        function: vectors of images.
        size: of a vector.
        num_classes: declared.
        count: what an example adds to the count of its class.
    """

    function: Vectors
    size: int
    num_classes: int
    count: float
    _kept: dict[int, Tensor] = field(default_factory=dict)

    def zeros(self) -> Blocks:
        """The sum over nobody."""
        return {
            SUMS: torch.zeros(self.num_classes, self.size),
            COUNTS: torch.zeros(self.num_classes),
        }

    def norms(self, units: Units) -> Tensor:
        """Of vector and count together."""
        labels = units["labels"]
        known = (labels >= 0) & (labels < self.num_classes)
        vectors = self.function(units["images"], labels.clamp(0, self.num_classes - 1)).detach()
        self._kept = {id(units): vectors}
        norms = (long_norms(vectors).double().square() + self.count**2).sqrt()
        return torch.where(known, norms, math.nan)

    def weighted_sum(self, units: Units, weights: Tensor) -> Blocks:
        """Class by class."""
        vectors, labels = self._kept.pop(id(units)), units["labels"]
        own = [torch.where(labels == label, weights, 0.0) for label in range(self.num_classes)]
        return {
            SUMS: torch.stack([double_sum(each, vectors) for each in own]),
            COUNTS: self.count * torch.stack([each.sum() for each in own]),
        }


def embedded(network: ConvNet, weights: Weights) -> Vectors:
    """Features of images by given weights, about as long as 1 whatever their number."""
    own = {name.removeprefix("features."): each for name, each in weights.items()}
    inner = {name: each for name, each in own.items() if not name.startswith("classifier.")}

    def function(images: Tensor, labels: Tensor) -> Tensor:
        found: Tensor = functional_call(network.features, inner, (seen(images),))
        return found / math.sqrt(found.shape[1])

    return function


def gradients(network: ConvNet, weights: Weights) -> Vectors:
    """Of the loss of each image by given weights."""

    def loss(weights: Weights, image: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(network, dict(weights), (image[None],))
        return F.cross_entropy(logits, label[None])

    def function(images: Tensor, labels: Tensor) -> Tensor:
        found = vmap(grad(loss), in_dims=(None, 0, 0))(dict(weights), seen(images), labels)
        return torch.cat([each.flatten(1) for each in found.values()], 1)

    return function


def seen(images: Tensor) -> Tensor:
    """What the network reads; synthetic images are that already."""
    return images if images.is_floating_point() else to_float(images)


class DistillingParty:
    """A party's hedge, its plan for all rounds, and its own synthetic images.

    Args:
        hedge: its private images, with an ε reserved.
        network: of the server's kind.
        image_shape: height, width, channels.
        num_classes: declared.
        settings: of the method.
        generator: of what is public.
    """

    def __init__(
        self,
        hedge: Hedge,
        network: ConvNet,
        image_shape: tuple[int, int, int],
        num_classes: int,
        settings: Distillation,
        generator: torch.Generator,
    ) -> None:
        reservation = hedge.reservation
        ledger = reservation.ledger
        budget = Budget(epsilon=reservation.record.epsilon, delta=ledger.budget.delta)
        self.mechanism = settings.mechanism(budget, ledger.relation)
        reservation.fix(settings.plan_at(self.mechanism.noise_multiplier))
        self._hedge, self._network, self._settings = hedge, network, settings
        self._steps: Steps = hedge.steps(self.mechanism)
        self._counts, self._done = torch.zeros(num_classes), 0
        self._generator = generator
        height, width, channels = image_shape
        shape = (num_classes, settings.per_class, channels, height, width)
        self.images = 0.5 * torch.randn(shape, generator=generator)

    @property
    def certificate(self) -> Certificate:
        """Of all rounds together."""
        return certify(self._hedge.reservation)

    @property
    def expected(self) -> Tensor:
        """Images of each class in a sample, by all noised counts so far; at least one."""
        return (self._counts / max(1, self._done)).clamp(min=1.0)

    @property
    def present(self) -> Tensor:
        """Classes whose noised counts stand out from their noise."""
        noise = self.mechanism.noise_scale / self._count / math.sqrt(max(1, self._done))
        return self._counts / max(1, self._done) > 2 * noise

    @property
    def _count(self) -> float:
        return self._settings.count_share * self._settings.clip_norm

    def round(self, weights: Weights) -> None:
        """Change the images, around the server's weights."""
        local = dict(weights)
        for _ in range(self._settings.local_steps):
            if self._settings.method == FEDDM:
                local = self._near(weights)
                self._match(embedded(self._network, local), self._mean_features(local))
            else:
                self._match(gradients(self._network, local), self._mean_gradients(local))
                local = self._onwards(local, weights)

    def shared(self) -> tuple[Tensor, Tensor]:
        """Images and labels of the classes that the party has."""
        kept = self.present.nonzero().flatten()
        images = self.images[kept].flatten(0, 1)
        return images, kept.repeat_interleave(self._settings.per_class)

    def _noised_means(self, vectors: Vectors) -> Tensor:
        """One paid-for sum, divided by the expected counts."""
        image, label = self.images[:1, 0], torch.zeros(1, dtype=torch.int64)
        size = vectors(image, label).shape[1]
        summand = ByClass(vectors, size, len(self.images), self._count)
        noisy = self._steps.step(summand)
        self._counts += noisy[COUNTS] / self._count
        self._done += 1
        return noisy[SUMS] / self.expected[:, None]

    def _match(self, vectors: Vectors, own: Callable[[Tensor], Tensor]) -> None:
        """Bring what images give near to what private ones gave, for the classes there are."""
        wanted, present = self._noised_means(vectors), self.present
        images = self.images.clone().requires_grad_()
        optimiser = torch.optim.Adam([images], lr=self._settings.image_rate)
        for _ in range(self._settings.image_steps):
            distance = (own(images) - wanted).square().sum(1)
            [found] = torch.autograd.grad(distance[present].sum(), [images], allow_unused=True)
            images.grad = torch.zeros_like(images) if found is None else found
            optimiser.step()
            with torch.no_grad():
                images.clamp_(-1, 1)
        self.images = images.detach()

    def _mean_features(self, weights: Weights) -> Callable[[Tensor], Tensor]:
        look = embedded(self._network, weights)

        def of(images: Tensor) -> Tensor:
            found = look(images.flatten(0, 1), torch.empty(0))
            return found.unflatten(0, images.shape[:2]).mean(1)

        return of

    def _mean_gradients(self, weights: Weights) -> Callable[[Tensor], Tensor]:
        def of(images: Tensor) -> Tensor:
            return torch.stack([self._gradient(weights, *each) for each in enumerate(images)])

        return of

    def _gradient(self, weights: Weights, label: int, images: Tensor) -> Tensor:
        leaves = {name: each.detach().requires_grad_() for name, each in weights.items()}
        logits = functional_call(self._network, leaves, (images,))
        loss = F.cross_entropy(logits, torch.full((len(images),), label))
        found = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
        return torch.cat([each.flatten() for each in found])

    def _near(self, weights: Weights) -> Weights:
        """Somewhere at a distance of the radius."""
        drawn = {
            k: torch.randn(each.shape, generator=self._generator) for k, each in weights.items()
        }
        scale = self._settings.radius * _length(weights) / _length(drawn)
        return {name: weights[name] + scale * each for name, each in drawn.items()}

    def _onwards(self, local: Weights, weights: Weights) -> Weights:
        """A step of training on the images; back to the server's weights beyond the radius."""
        images, labels = self.shared()
        if len(images):
            local = trained(
                self._network, local, images, labels, steps=1, generator=self._generator
            )
        away = _length({name: local[name] - each for name, each in weights.items()})
        return dict(weights) if away > self._settings.radius * _length(weights) else local


def trained(
    network: ConvNet,
    weights: Weights,
    images: Tensor,
    labels: Tensor,
    *,
    steps: int,
    generator: torch.Generator,
    learning_rate: float = 0.05,
    batch: int = 64,
) -> Weights:
    """Weights after some steps of SGD from given ones."""
    leaves = {name: each.detach().clone().requires_grad_() for name, each in weights.items()}
    optimiser = torch.optim.SGD(list(leaves.values()), lr=learning_rate, momentum=0.9)
    for _ in range(steps):
        rows = torch.randint(len(images), (min(batch, len(images)),), generator=generator)
        loss = F.cross_entropy(functional_call(network, leaves, (images[rows],)), labels[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: each.detach() for name, each in leaves.items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class Distilled:
    """What a federation of distilling parties ends with.

    Args:
        network: the server's, trained on images of all rounds.
        images: of all parties, uint8 (N, H, W, C).
        labels: of the images.
        certificates: of each party, over all rounds.
    """

    network: nn.Module
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    certificates: tuple[Certificate, ...]


def distilled(
    hedges: Sequence[Hedge],
    settings: Distillation,
    image_shape: tuple[int, int, int],
    num_classes: int,
) -> Distilled:
    """All rounds, each party behind its own hedge.

    Args:
        hedges: one for each party.
        settings: of the method.
        image_shape: height, width, channels.
        num_classes: declared.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    network = _network(settings, image_shape, num_classes)
    parties = [
        DistillingParty(each, network, image_shape, num_classes, settings, generator)
        for each in hedges
    ]
    weights: Weights = {name: each.detach().clone() for name, each in network.named_parameters()}
    for _ in range(settings.rounds):
        for party in parties:
            party.round(weights)
        images, labels = _together(parties)
        if len(images):
            weights = trained(
                network,
                weights,
                images,
                labels,
                steps=settings.server_steps,
                generator=generator,
            )
    network.load_state_dict(dict(weights))
    images, labels = _together(parties)
    pixels = ((images + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)
    return Distilled(
        network=network,
        images=pixels.contiguous().numpy(),
        labels=labels.numpy(),
        certificates=tuple(each.certificate for each in parties),
    )


def _network(
    settings: Distillation, image_shape: tuple[int, int, int], num_classes: int
) -> ConvNet:
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        return ConvNet(
            num_classes,
            image_shape[2],
            image_size=image_shape[0],
            width=settings.width,
            strided=True,
        )


def _together(parties: Sequence[DistillingParty]) -> tuple[Tensor, Tensor]:
    sets = [each.shared() for each in parties]
    return torch.cat([images for images, _ in sets]), torch.cat([labels for _, labels in sets])


def _length(blocks: Weights) -> float:
    return math.sqrt(sum(float(each.double().square().sum()) for each in blocks.values()))
