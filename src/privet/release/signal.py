"""How far a release will stand above its noise, predicted from public images beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from privet.errors import ConfigError
from privet.release.embedding import Embedding
from privet.release.parts import Moments, Part

_CHUNK = 256  # public images whose features are held at a time


@dataclass(frozen=True, kw_only=True)
class BlockSignal:
    """One block of a release: root mean squares over its coordinates, in units of its features.

    Args:
        name: part and kind, as in the release.
        coordinates: the number of coordinates in all groups.
        signal: of means or second moments around the part's centre (zero, if it has none).
        noise: the standard deviation of what noise adds to them.
    """

    name: str
    coordinates: int
    signal: float
    noise: float

    @property
    def ratio(self) -> float:
        """Signal over noise; far below 1, the block is all noise."""
        return self.signal / self.noise if self.noise else math.inf


def predicted_signals(
    embedding: Embedding,
    images: Tensor,
    labels: Tensor | None,
    clip_norm: float,
    noise_multiplier: float,
    class_totals: Tensor,
) -> list[BlockSignal]:
    """Predict signal and noise of every block, as if private images were like public ones.

    A class without public images is taken to look like all of them together; so is every class if
    labels are left out, or name other classes than the declared ones. Clipping is predicted too:
    sums are divided by the expected total weight of a group.

    Args:
        embedding: the embedding to be released.
        images: public images.
        labels: classes of the public images; `None` where they say nothing of the declared classes.
        clip_norm: the clip norm of the release.
        noise_multiplier: the noise multiplier of the release.
        class_totals: (classes,) the number of private images of each class, declared or assumed.
    """
    if class_totals.shape != (embedding.num_classes,) or not (class_totals > 0).all():
        raise ConfigError(f"Give {embedding.num_classes} class totals above 0: {class_totals}.")
    if not len(images):
        raise ConfigError("A prediction needs at least one public image.")
    if labels is not None and ((labels < 0) | (labels >= embedding.num_classes)).any():
        labels = None
    sums, per_class = _expected(embedding, images, labels, clip_norm, class_totals.double())
    found: list[BlockSignal] = []
    for part in embedding.all_parts:
        totals = per_class @ part.groups.to(per_class)
        found += _blocks(part, sums[part.name], totals, noise_multiplier * clip_norm)
    return found


def _blocks(part: Part, sums: Moments, totals: Tensor, noise_scale: float) -> Iterator[BlockSignal]:
    for kind, block in part.packed(sums, totals).items():
        weight = part.weights[kind] * totals[:, None]
        yield BlockSignal(
            name=f"{part.name}.{kind}",
            coordinates=block.numel(),
            signal=_root_mean_square(block / weight),
            noise=_root_mean_square(noise_scale / weight),
        )


def _expected(
    embedding: Embedding,
    images: Tensor,
    labels: Tensor | None,
    clip_norm: float,
    class_totals: Tensor,
) -> tuple[dict[str, Moments], Tensor]:
    """The expected clipped sums for so many images of each class, and total weights by class."""
    stand_ins = _stand_ins(labels, len(class_totals), len(images))
    shares = class_totals / stand_ins.sum(1)
    sums: dict[str, Moments] = {}
    per_class = torch.zeros_like(class_totals)
    for rows in torch.split(torch.arange(len(images)), _CHUNK):
        with torch.no_grad():
            seen = _seen(embedding, images[rows])
        here = stand_ins[:, rows]
        for label in here.any(1).nonzero().flatten().tolist():
            chosen = here[label].nonzero().flatten()
            batch = seen.batch(chosen, torch.full_like(chosen, label))
            weights = shares[label] * clip_norm / batch.norms().double().clamp(min=clip_norm)
            per_class[label] += weights.sum()
            for name, more in batch.sums(weights).items():
                sums[name] = _added(sums[name], more) if name in sums else more
    return sums, per_class


def _stand_ins(labels: Tensor | None, num_classes: int, count: int) -> Tensor:
    """A mask (classes, images) of what stands in for a class: its own images, or all if none."""
    if labels is None:
        return torch.ones(num_classes, count, dtype=torch.bool)
    own = labels == torch.arange(num_classes)[:, None]
    return own | ~own.any(1, keepdim=True)


def _seen(embedding: Embedding, images: Tensor) -> Embedding:
    """An embedding over places among these images, whose features are computed once."""
    found = embedding.features(images)
    return replace(
        embedding, features=lambda places: {name: each[places] for name, each in found.items()}
    )


def _added(first: Moments, second: Moments) -> Moments:
    if first.second is None or second.second is None:
        return Moments(first.mean + second.mean)
    return Moments(first.mean + second.mean, first.second + second.second)


def _root_mean_square(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())
