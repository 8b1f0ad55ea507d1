"""The systems of equation 2 by name, each ready to run on whatever a command has prepared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from privet.errors import ConfigError
from privet.hedge import Hedge
from privet.recipes.forms import Kind
from privet.recipes.mean_embeddings import (
    DpMepf,
    DpMerf,
    dp_mepf,
    dp_mepf_releases,
    dp_merf,
    dp_merf_releases,
)
from privet.recipes.models import ImageShape
from privet.recipes.releases import Memory, OnStep, Release, Synthetic
from privet.recipes.sps import Sps, SpsPlus, sps, sps_embedding
from privet.recipes.sps_g import SpsG, sps_g, sps_g_embedding
from privet.synthesis.averages import RunningMoments

_ENOUGH = 2000  # public images: nobody releases moments of as many components

System = DpMerf | DpMepf | Sps | SpsPlus | SpsG

SYSTEMS = {
    "sps-g": Kind(SpsG),
    "dp-mepf": Kind(DpMepf),
    "dp-merf": Kind(DpMerf),
    "sps": Kind(Sps),
    "sps-plus": Kind(SpsPlus),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """What needs no private row.

    Args:
        image_shape: height, width, channels.
        num_classes: declared.
        encoder: frozen; none where nothing is encoded.
        public: images (N, H, W, C), for principal components.
        count: how many images are wanted.
    """

    image_shape: ImageShape
    num_classes: int
    encoder: nn.Module | None
    public: Tensor | None
    count: int


def needs_encoder(system: System) -> bool:
    """Whether it looks at images through a network."""
    return not isinstance(system, DpMerf)


def stages_of(system: System) -> int:
    """How often every image is optimised, and remembered as it was then."""
    return len(system.clip_ratios) if isinstance(system, Sps) else 0


def check(system: System, image_shape: ImageShape) -> None:
    """Refuse what would else be found out after a release was paid for."""
    if not system.count_share > 0:
        raise ConfigError(f"--method count_share is {system.count_share:g}: give more than 0.")
    if isinstance(system, Sps):
        for stage in range(stages_of(system)):
            _ = system.optimisation(stage)
    else:
        _check_generator(system, image_shape)
    if isinstance(system, Sps | SpsG):
        _ = RunningMoments(system.decay)
    elif not system.average_rate > 0:
        raise ConfigError(f"--method average_rate is {system.average_rate:g}: give more than 0.")


def _check_generator(system: DpMerf | DpMepf | SpsG, image_shape: ImageShape) -> None:
    height, width, _ = image_shape
    if height != width or height % 4:
        fitting = max(4, 4 * round(max(height, width) / 4))
        raise ConfigError(
            f"The images are {height}×{width} and a generator makes squares whose side is a "
            f"multiple of 4: give --resize {fitting}, or --method sps."
        )
    if len(system.widths) != 4:
        raise ConfigError(f"--method widths are {len(system.widths)} numbers: give 4.")
    checks = system.checks if isinstance(system, DpMepf) else 1
    if min(*system.widths, system.latent, system.batch_size, checks) < 1:
        raise ConfigError("--method widths, latent, batch_size and checks must be 1 or more.")


def outline_of(system: System, prepared: Prepared) -> list[Release]:
    """The releases by way of a few public images: quick, and refused for the same reasons."""
    public = None if prepared.public is None else prepared.public[:_ENOUGH]
    return releases_of(system, replace(prepared, public=public))


def releases_of(system: System, prepared: Prepared) -> list[Release]:
    """What will leave the hedge; of stages, which are centred on images to come, the outline."""
    shape, classes = prepared.image_shape, prepared.num_classes
    if isinstance(system, DpMerf):
        return dp_merf_releases(system, shape, classes)
    assert prepared.encoder is not None
    if isinstance(system, DpMepf):
        return dp_mepf_releases(system, prepared.encoder, shape, classes)
    if isinstance(system, Sps):
        system = system.of(prepared.encoder)
        return [
            Release(
                sps_embedding(prepared.encoder, system, shape, classes, stage, clip_norm), clip_norm
            )
            for stage, clip_norm in enumerate(system.clip_norms)
        ]
    embedding = sps_g_embedding(system, prepared.encoder, _components(prepared), classes)
    return [Release(embedding, system.clip_norm)]


def _components(prepared: Prepared) -> Tensor:
    if prepared.public is None:
        raise ConfigError("SPS-G takes principal components of public images: give --public.")
    return prepared.public


def run(
    system: System, hedge: Hedge, prepared: Prepared, memory: Memory, on_step: OnStep
) -> Synthetic:
    """One system's release and synthesis."""
    common: dict[str, Any] = {
        "num_classes": prepared.num_classes,
        "memory": memory,
        "on_step": on_step,
    }
    shape: dict[str, Any] = {"image_shape": prepared.image_shape}
    if isinstance(system, DpMerf):
        return dp_merf(hedge, settings=system, **common, **shape)
    assert prepared.encoder is not None
    if isinstance(system, DpMepf):
        return dp_mepf(hedge, settings=system, encoder=prepared.encoder, **common, **shape)
    if isinstance(system, Sps):
        return sps(
            hedge,
            settings=system,
            encoders=[prepared.encoder],
            count=prepared.count,
            **common,
            **shape,
        )
    public = _components(prepared)
    return sps_g(hedge, settings=system, encoder=prepared.encoder, public=public, **common)
