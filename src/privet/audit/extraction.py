"""Extraction: do synthetic images repeat those they were made of?

The attacker holds candidates, some of which are members, and looks for the nearest neighbours of
synthetic images among them; distances are of pixels. Non-members show what chance does.

References:
    Chen et al., GAN-Leaks, 2020 (the distance to the nearest synthetic image as a score).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privet.audit.coins import tossed
from privet.audit.membership import Attack
from privet.audit.one_run import Coins
from privet.audit.trials import OnTrial, Terms
from privet.errors import ConfigError, DataError
from privet.hedge import Hedge
from privet.measure import nearest
from privet.models import glyph_encoder
from privet.public import PublicRows
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import DpMerf
from privet.recipes.releases import NoMemory
from privet.recipes.synthesis_methods import Prepared, System, run
from privet.recipes.synthesis_methods import check as check_system
from privet.synthesis import GeneratorTraining

_COPY = 1 / 3  # of the distance to the second neighbour, as `privet evaluate` has it
_SHOWN, _TOSSES = 8, 1000
_WIDTHS = (48, 32, 16, 8)
_NOISE = 8.0  # of 255: what a careless memoriser would leave


@dataclass(frozen=True, eq=False)
class Extraction:
    """What nearest neighbours say of one synthetic set.

    Args:
        images: the number of synthetic images.
        nearer: the share that is nearer to a member than to any non-member.
        chance: where that share lies in 95% of cases for coins that nothing was made of. It is
            about a half, and may be far from it where images are all alike.
        copies: the share that is three times nearer to a member than to anything else.
        chance_copies: the same of non-members, which nothing was made of.
        distances: an attack on membership, by the distance to the nearest synthetic image.
        pairs: synthetic images with their nearest member and non-member, (N, 3, H, W, C): those
            whose member is nearest for its non-member.
    """

    images: int
    nearer: float
    chance: tuple[float, float]
    copies: float
    chance_copies: float
    distances: Attack
    pairs: Tensor


def extracted(synthetic: Tensor, candidates: Tensor, members: Coins) -> Extraction:
    """Look for members in a synthetic set.

    Args:
        synthetic: images (N, H, W, C), bytes.
        candidates: images that may have been seen, likewise, in random order.
        members: which of them were.
    """
    made, known = _pixels(synthetic), _pixels(candidates)
    is_member = torch.from_numpy(members)
    inside, outside = torch.nonzero(is_member)[:, 0], torch.nonzero(~is_member)[:, 0]
    if min(len(inside), len(outside)) < 2:
        raise DataError("Extraction needs two members and two others or more: give more images.")
    distances, which = nearest(made, known, 2)
    alike = distances[:, 0] <= _COPY * distances[:, 1]
    of_member = is_member[which[:, 0]]
    to_made, _ = nearest(known, made)
    return Extraction(
        images=len(made),
        nearer=float(of_member.double().mean()),
        chance=_by_chance(which[:, 0].numpy(), len(known)),
        copies=float((alike & of_member).double().mean()),
        chance_copies=float((alike & ~of_member).double().mean()),
        distances=Attack(-to_made.double().numpy().T, members[None]),
        pairs=_closest(synthetic, candidates, (made, known), (inside, outside)),
    )


def _by_chance(which: NDArray[np.int64], candidates: int) -> tuple[float, float]:
    """An interval of 95% for the share of images nearest to a member, if coins play no role."""
    rng = np.random.default_rng(0)
    shares = [tossed(candidates, rng)[which].mean() for _ in range(_TOSSES)]
    low, high = np.quantile(shares, (0.025, 0.975))
    return float(low), float(high)


def _pixels(images: Tensor) -> Tensor:
    return images.flatten(1).float() / 255


def _closest(
    synthetic: Tensor,
    candidates: Tensor,
    pixels: tuple[Tensor, Tensor],
    parts: tuple[Tensor, Tensor],
) -> Tensor:
    made, known = pixels
    (near, first), (far, second) = (nearest(made, known[each]) for each in parts)
    order = (near[:, 0] / far[:, 0].clamp(min=1e-9)).argsort()[:_SHOWN]
    neighbours = [
        candidates[part[which[order, 0]]]
        for part, which in zip(parts, (first, second), strict=True)
    ]
    return torch.stack([synthetic[order], *neighbours], 1)


@dataclass(frozen=True, kw_only=True)
class SetMaking:
    """How synthetic sets are made: by SPS-G of grey images, and by DP-MERF of others.

    Args:
        images: the number of images in each set.
        iterations: the number of training steps of the generator.
    """

    images: int = 500
    iterations: int = 100

    def __post_init__(self) -> None:
        if self.images < 2 or self.iterations < 1:
            raise ConfigError(
                f"Extraction from {self.images} images of a generator of {self.iterations} steps "
                "cannot be: give 2 images or more, and 1 step or more."
            )

    def system(self, channels: int) -> System:
        """The method for images of so many channels, with a generator that is quick, not good."""
        training = GeneratorTraining(iterations=self.iterations, per_class=10)
        if channels == 1:
            return SpsG(training=training, widths=_WIDTHS)
        return DpMerf(training=training, widths=_WIDTHS)


def check_images(rows: PublicRows, making: SetMaking) -> None:
    """Refuse images of a shape that the generators cannot make."""
    height, width, channels = rows.inputs.shape[1:]
    check_system(making.system(channels), (height, width, channels))


def synthetic_set(
    rows: PublicRows,
    coins: Coins,
    aside: PublicRows,
    making: SetMaking,
    terms: Terms,
    on_trial: OnTrial,
) -> Tensor:
    """Make a synthetic set from the examples that the coins chose, as from private rows.

    Args:
        rows: the examples.
        coins: which of them are members.
        aside: images that serve as public ones.
        making: how the set is made.
        terms: what is promised, and where noise comes from.
        on_trial: called with the progress of the generator's training.
    """
    own = rows.select(torch.from_numpy(np.flatnonzero(coins)))
    height, width, channels = own.inputs.shape[1:]
    prepared = Prepared(
        image_shape=(height, width, channels),
        num_classes=int(rows.targets.max()) + 1,
        encoder=glyph_encoder().folded() if channels == 1 else None,
        public=aside.inputs,
        count=making.images,
    )
    with terms.ledger() as ledger:
        hedge = Hedge(
            {"images": own.inputs, "labels": own.targets},
            ledger.reserve(epsilon=terms.budget.epsilon),
            declared_size=len(rows) / 2,
            randomness=terms.noise_of(0),
        )
        made = run(making.system(channels), hedge, prepared, NoMemory(), on_trial)
        images, _ = made.take(making.images)
    return torch.from_numpy(images)


def memorised_set(rows: PublicRows, coins: Coins, images: int, rng: np.random.Generator) -> Tensor:
    """Copy members with a little noise: an attack that finds anything must find these."""
    chosen = rng.choice(np.flatnonzero(coins), images)
    pixels = rows.inputs[torch.from_numpy(chosen)].numpy()
    noisy = pixels + rng.normal(0, _NOISE, pixels.shape)
    return torch.from_numpy(noisy.round().clip(0, 255).astype(np.uint8))
