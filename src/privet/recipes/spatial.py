"""SPS-G's embedding: moments of whole pooled maps on public principal components.

SPS averages over positions, so a statistic does not know where in an image something is. A coarse
map taken whole does; principal components of public images keep it small enough to be noised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models import ConvEncoder, FeatureMaps, branches, convolutions
from privet.recipes.releases import Memory, NoMemory, Tensors
from privet.release import (
    Embedding,
    Lens,
    Part,
    Projection,
    Seen,
    each_class,
    everyone,
    mean_squares,
    taken,
    with_one_spread,
)
from privet.release.lenses import IMAGE

_PUBLIC_IMAGES = 10_000  # enough for principal components
_POSITIONS = 50_000
_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class SpatialPart:
    """One part of the embedding: a layer, and which of its moments are taken.

    Args:
        layer: the name of a layer of the encoder, or `image`.
        size: D, the number of components of means and of second moments; if `shared`, at most so
            many.
        grid: maps are pooled to grid × grid; 0 takes positions one by one.
        per_class: whether moments are of each class; else of all images together.
        shared: whether there are means of each class, and one covariance for all of them.
        share: its part of an image's squared norm, relative to the other parts.
        mean_share: the share of the part's squared norm that goes to means; None weighs all numbers
            alike.
        stretch: the standard deviation of public features before they are squashed.
    """

    layer: str
    size: int
    grid: int = 4
    per_class: bool = True
    shared: bool = False
    share: float = 1.0
    mean_share: float | None = None
    stretch: float = 1.0

    @property
    def name(self) -> str:
        """The name of the part, and of its blocks in a release."""
        kind = "shared" if self.shared else "class" if self.per_class else "all"
        return f"{self.layer}@{self.grid}-{self.size}-{kind}".replace(".", "_")


def landmarks(encoder: nn.Module) -> tuple[str, str, str]:
    """Name an early, a middle and the last layer of an encoder."""
    if isinstance(encoder, ConvEncoder):
        names = [f"layers.{number}" for number in range(len(encoder.layers))]
    else:
        names = convolutions(encoder)
    if not names:
        raise ConfigError("The encoder has no convolution larger than 1×1: give another.")
    last = len(names) - 1
    return names[(last + 1) // 4], names[last // 2], names[last]


def all_landmarks(encoder: nn.Module) -> list[tuple[str, str, str]]:
    """Name the landmarks of every encoder that stands beside others."""
    return [
        (prefix + early, prefix + middle, prefix + last)
        for prefix, each in branches(encoder).items()
        for early, middle, last in [landmarks(each)]
    ]


def spatial_embedding(
    encoder: nn.Module,
    public: Tensor,
    parts: Sequence[SpatialPart],
    num_classes: int,
    count_weight: float,
    memory: Memory | None = None,
) -> Embedding:
    """Fit an embedding to public images, whose vectors get a mean squared norm of Σ share.

    Args:
        encoder: the encoder whose layers are looked at.
        public: images, uint8 (N, H, W, C).
        parts: the parts of the embedding.
        num_classes: how many classes the private images have.
        count_weight: the weight of class counts.
        memory: where components are kept, since they may come out mirrored when they are fitted
            again; None keeps nothing.
    """
    if len({part.name for part in parts}) < len(parts):
        raise ConfigError("Two parts look at the same layer in the same way: leave one out.")
    layers = dict.fromkeys(part.layer for part in parts if part.layer != IMAGE)
    maps = FeatureMaps(encoder, list(layers))
    kept = (memory or NoMemory()).once("components", lambda: _components(maps, public, parts))
    lenses, found = {}, []
    for part in parts:
        projection = Projection(kept[f"{part.name}.matrix"], kept[f"{part.name}.mean"])
        lenses[part.name] = Lens(layer=part.layer, grid=part.grid, projection=projection)
        mean_weight, second_weight = kept[f"{part.name}.weights"].tolist()
        own = Part(
            name=part.name,
            source=part.name,
            size=len(projection.matrix),
            groups=each_class(num_classes) if part.per_class else everyone(num_classes),
            mean_weight=mean_weight,
            second_weight=second_weight,
        )
        found.extend(with_one_spread(own) if part.shared else [own])
    return Embedding(
        features=Seen(maps, lenses),
        parts=tuple(found),
        num_classes=num_classes,
        count_weight=count_weight,
    )


def _components(maps: FeatureMaps, public: Tensor, parts: Sequence[SpatialPart]) -> Tensors:
    """Fit each part: what projects its features, and what its moments are multiplied with."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(public), generator=generator)[:_PUBLIC_IMAGES]
    batches = torch.split(public[chosen], _BATCH)
    found: Tensors = {}
    for part in parts:
        features = taken(maps, Lens(layer=part.layer, grid=part.grid), batches)
        flat = features.flatten(0, -2)
        rows = torch.randperm(len(flat), generator=generator)[:_POSITIONS]
        size = min(part.size, *_enough_for(flat)) if part.shared else part.size
        projection = Projection.principal(flat[rows], size, stretch=part.stretch)
        found[f"{part.name}.matrix"] = projection.matrix
        found[f"{part.name}.mean"] = projection.mean
        found[f"{part.name}.weights"] = _weights(part, projection(features))
    return found


def _enough_for(flat: Tensor) -> tuple[int, int]:
    """How many components public rows can tell from chance, and how many features can spare."""
    return max(1, len(flat) // 4), max(1, flat.shape[1] // 2)


def _weights(part: SpatialPart, z: Tensor) -> Tensor:
    """The weights of a part's means and of its second moments."""
    mean, second = mean_squares(z)
    if part.mean_share is None:
        weights = [math.sqrt(part.share / (mean + second))] * 2
    else:
        shares = part.share * part.mean_share, part.share * (1 - part.mean_share)
        weights = [math.sqrt(shares[0] / mean), math.sqrt(shares[1] / second)]
    return torch.tensor(weights, dtype=torch.float64)
