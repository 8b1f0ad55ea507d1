"""From a network's maps to bounded features: pooled or by position, projected, squashed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from privet.augment import to_float
from privet.errors import ConfigError
from privet.models import FeatureMaps
from privet.release.embedding import Features
from privet.release.image_moments import LazyFeatures, Squashed

IMAGE = "image"
_SMALLEST_SPREAD = 1e-3  # of the largest: directions with less hold nothing but rounding


@dataclass(frozen=True, eq=False)
class Projection:
    """z = 2σ(M (f − mean)) − 1, which lies in (−1, 1)^D.

    Args:
        matrix: M, (D, features).
        mean: a vector that is subtracted first.
    """

    matrix: Tensor
    mean: Tensor

    @classmethod
    def random(cls, num_features: int, size: int, generator: torch.Generator) -> Projection:
        """A random projection; entries of variance 1 / features keep magnitudes (SPS, A.4)."""
        matrix = torch.randn(size, num_features, generator=generator) / num_features**0.5
        return cls(matrix, torch.zeros(num_features))

    @classmethod
    def principal(cls, features: Tensor, size: int, *, stretch: float = 1.0) -> Projection:
        """A projection onto principal components of public features.

        Each component has standard deviation `stretch` there, before it is squashed.
        """
        if min(features.shape) <= size:
            raise ConfigError(
                f"{size} principal components need more than as many public images and features, "
                f"not {len(features)} and {features.shape[1]}."
            )
        if not features.isfinite().all():
            raise ConfigError("Features of public images are not finite: give another encoder.")
        if bool((features == features[0]).all()):
            raise ConfigError(
                "Public images all look alike, so they have no components: give others."
            )
        mean = features.mean(0)
        centred = features - mean
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # of the range finder; components do not depend on it
            _, values, vectors = torch.svd_lowrank(
                centred, q=min(size + 16, *centred.shape), niter=4
            )
        largest = vectors.abs().argmax(0, keepdim=True)
        vectors = vectors * vectors.gather(0, largest).sign()  # a component and its mirror image
        spread = values[:size] / len(features) ** 0.5
        spread = spread.clamp(min=float(_SMALLEST_SPREAD * spread[0]))
        # Laid out as it would be read from a file, so that products round alike.
        matrix = (stretch * vectors[:, :size].T / spread[:, None]).contiguous()
        if not matrix.isfinite().all():
            raise ConfigError(
                "Public images hardly differ, so they have no components: give others."
            )
        return cls(matrix, mean)

    @property
    def size(self) -> int:
        """D, the number of features after projection."""
        return len(self.matrix)

    def __call__(self, features: Tensor) -> Tensor:
        """Project and squash features (…, features) to (…, D)."""
        return self.unformed(features).formed()

    def unformed(self, features: Tensor) -> Squashed:
        """The projected features before they are formed, for moments that can do without."""
        return Squashed(features - self.mean if self._is_affine else features, self._half)

    @cached_property
    def _half(self) -> Tensor:
        """M / 2, since 2σ(x) − 1 = tanh(x / 2)."""
        return self.matrix / 2

    @cached_property
    def _is_affine(self) -> bool:
        return bool(self.mean.any())


@dataclass(frozen=True, eq=False, kw_only=True)
class Lens:
    """How one of a network's maps becomes features.

    Args:
        layer: a layer of the network, or `image` for the pixels.
        grid: the map is averaged down to grid × grid and taken whole; 0 takes each position alone.
        projection: applied to what is taken; `None` while it is still to be found.
    """

    layer: str
    grid: int
    projection: Projection | None = None

    def taken(self, found: Tensor) -> Tensor:
        """Pool a map (N, C, H, W) to (N, C · grid²), or lay it out as (N, positions, C)."""
        if found.dim() < 4:  # vectors, and tokens (N, positions, C)
            return found if found.dim() == 2 or not self.grid else found.flatten(1)
        if not self.grid:
            return found.flatten(2).transpose(1, 2)
        if max(found.shape[2:]) > self.grid:
            found = F.adaptive_avg_pool2d(found, self.grid)
        return found.flatten(1)

    def __call__(self, found: Tensor) -> Tensor:
        """The features of a map."""
        return self.unformed(found).formed()

    def unformed(self, found: Tensor) -> Squashed:
        """The features of a map before they are formed, for moments that can do without."""
        assert self.projection is not None
        return self.projection.unformed(self.taken(found))


@dataclass(frozen=True, eq=False)
class Seen:
    """A function from images to named features, through lenses on one network."""

    maps: FeatureMaps
    lenses: Mapping[str, Lens]

    def __call__(self, images: Tensor) -> Features:
        """The features of images, as a data set holds them or as a generator makes them."""
        found = seen_maps(self.maps, images)
        return LazyFeatures(
            {name: lens.unformed(found[lens.layer]) for name, lens in self.lenses.items()}
        )


def seen_maps(maps: FeatureMaps, images: Tensor) -> dict[str, Tensor]:
    """The maps of every layer, and the image itself, by name."""
    pixels = images if images.is_floating_point() else to_float(images)
    return {IMAGE: pixels, **maps(pixels)}


def taken(maps: FeatureMaps, lens: Lens, batches: Iterable[Tensor]) -> Tensor:
    """What a lens takes of public images, before projection."""
    with torch.no_grad():
        return torch.cat([lens.taken(seen_maps(maps, batch)[lens.layer]) for batch in batches])
