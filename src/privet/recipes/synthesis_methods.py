"""The systems of equation 2 by name, each ready to run on whatever a command has prepared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from privet.errors import ConfigError
from privet.hedge import Hedge
from privet.models import branches
from privet.recipes.choices import decided
from privet.recipes.forms import Kind
from privet.recipes.generators import check_generator
from privet.recipes.map_moments import SpsG, sps_g, sps_g_embedding
from privet.recipes.mean_embeddings import (
    DpMepf,
    DpMerf,
    dp_mepf,
    dp_mepf_releases,
    dp_merf,
    dp_merf_releases,
)
from privet.recipes.models import ImageShape
from privet.recipes.position_moments import by_stage, sps, sps_embedding
from privet.recipes.releases import Memory, OnStep, Release, Synthetic
from privet.recipes.sps_settings import Sps, SpsPlus
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
        proportional: whether classes are as large as released counts say.
    """

    image_shape: ImageShape
    num_classes: int
    encoder: nn.Module | None
    public: Tensor | None
    count: int
    proportional: bool = False


def needs_encoder(system: System) -> bool:
    """Whether it looks at images through a network."""
    return not isinstance(system, DpMerf)


def stages_of(system: System) -> int:
    """How often every image is optimised, and remembered as it was then."""
    return len(decided(system.clip_ratios)) if isinstance(system, Sps) else 0


def check(system: System, image_shape: ImageShape) -> None:
    """Refuse what would else be found out after a release was paid for."""
    if not system.count_share > 0:
        raise ConfigError(f"--method count_share is {system.count_share:g}: give more than 0.")
    if isinstance(system, Sps):
        for stage in range(stages_of(system)):
            _ = system.optimisation(stage)
    else:
        check_generator(system, image_shape)
        _check_batches(system)
    if isinstance(system, Sps | SpsG):
        _ = RunningMoments(system.decay)
    elif not system.average_rate > 0:
        raise ConfigError(f"--method average_rate is {system.average_rate:g}: give more than 0.")


def check_soft_labels(system: System, num_classes: int) -> None:
    """Refuse to look for class probabilities in a release that does not hold them."""
    if num_classes == 1:
        raise ConfigError(
            "The images are of one class, so --soft-labels would all be 1: leave it out."
        )
    if isinstance(system, DpMerf | DpMepf):
        raise ConfigError(
            "--soft-labels come from second moments of classes, which mean embeddings lack: choose "
            "--method sps-g or sps."
        )
    if isinstance(system, Sps) and system.pseudo_count:
        raise ConfigError(
            "--soft-labels need moments of classes, not of pseudo-classes: give --method "
            "sps-plus:pseudo_count=0."
        )


def _check_batches(system: DpMerf | DpMepf | SpsG) -> None:
    checks = system.checks if isinstance(system, DpMepf) else 1
    if min(system.batch_size, checks) < 1:
        raise ConfigError("--method batch_size and checks must be 1 or more.")


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
        stages = by_stage(system, list(branches(prepared.encoder).values()))
        return [
            Release(sps_embedding(encoder, own, shape, classes, stage, norm), norm)
            for stage, (encoder, own) in enumerate(stages)
            for norm in [own.clip_norms[stage]]
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
        "proportional": prepared.proportional,
        "treated_as_public": (),  # the command knows better
        "memory": memory,
        "on_step": on_step,
    }
    shape: dict[str, Any] = {"image_shape": prepared.image_shape}
    if isinstance(system, DpMerf):
        return dp_merf(hedge, settings=system, public=prepared.public, **common, **shape)
    assert prepared.encoder is not None
    if isinstance(system, DpMepf):
        return dp_mepf(hedge, settings=system, encoder=prepared.encoder, **common, **shape)
    if isinstance(system, Sps):
        return sps(
            hedge,
            settings=system,
            encoders=list(branches(prepared.encoder).values()),
            count=prepared.count,
            **common,
            **shape,
        )
    public = _components(prepared)
    return sps_g(hedge, settings=system, encoder=prepared.encoder, public=public, **common)
