"""The systems of equation 2 by name, each ready to run on whatever a command has prepared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from privet.errors import ConfigError
from privet.hedge import Hedge
from privet.recipes.choices import decided
from privet.recipes.forms import Kind
from privet.recipes.generators import check_generator
from privet.recipes.map_moments import SpsG, sps_g, sps_g_embedding, sps_g_matched
from privet.recipes.mean_embeddings import (
    RELEASE_NAMES,
    dp_mepf,
    dp_mepf_releases,
    dp_merf,
    dp_merf_releases,
    mean_matched,
)
from privet.recipes.mean_settings import DpMepf, DpMerf
from privet.recipes.model import ImageShape
from privet.recipes.position_moments import by_stage, sps, sps_embedding, sps_matched
from privet.recipes.releases import Matched, Memory, OnStep, Release, SumOf, Synthetic
from privet.recipes.sps_settings import Sps, SpsPlus
from privet.release import Moments
from privet.release.placing import placed
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
    """What a method works on besides private rows.

    Args:
        image_shape: height, width, channels.
        num_classes: declared.
        encoder: the frozen encoder; None where nothing is encoded.
        public: public images (N, H, W, C), for principal components; None if there are none.
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


def takes_light_for_dark(system: System) -> bool:
    """Whether an encoder to which light and dark are alike will do for the method.

    Moments over positions, those of SPS and SPS+, need one that tells them apart.
    """
    return not isinstance(system, Sps)


def stages_of(system: System) -> int:
    """How many stages optimise every image, and keep it as it then is; 0 for other methods."""
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
    """List the releases by way of a few public images: quick, and refused for the same reasons."""
    public = None if prepared.public is None else prepared.public[:_ENOUGH]
    return releases_of(system, replace(prepared, public=public))


def releases_of(system: System, prepared: Prepared) -> list[Release]:
    """List what will leave the hedge.

    Stages are centred on images to come: theirs are an outline.
    """
    shape, classes = prepared.image_shape, prepared.num_classes
    if isinstance(system, DpMerf):
        return dp_merf_releases(system, shape, classes)
    assert prepared.encoder is not None
    if isinstance(system, DpMepf):
        return dp_mepf_releases(system, prepared.encoder, shape, classes)
    return [stage_release(system, prepared, stage) for stage in range(stages_of(system) or 1)]


def stage_release(
    system: Sps | SpsG,
    prepared: Prepared,
    stage: int,
    centre: dict[str, Moments] | None = None,
    memory: Memory | None = None,
) -> Release:
    """What leaves the hedge at one stage.

    Args:
        system: the method's settings, with nothing left open.
        prepared: what needs no private row.
        stage: the stage's number, from 0; SPS-G has one only.
        centre: moments of the last stage's images, by part; None for the first stage.
        memory: where components are kept; None keeps nothing.
    """
    assert prepared.encoder is not None
    if isinstance(system, SpsG):
        images, classes = _components(prepared), prepared.num_classes
        embedding = sps_g_embedding(system, prepared.encoder, images, classes, memory)
        return Release(embedding, system.clip_norm)
    encoder, own = by_stage(system, prepared.encoder)[stage]
    norm, shape = own.clip_norms[stage], prepared.image_shape
    embedding = sps_embedding(encoder, own, shape, prepared.num_classes, stage, norm, centre)
    return Release(embedding, norm)


def matched(
    system: System,
    prepared: Prepared,
    sum_of: SumOf,
    memory: Memory,
    on_step: OnStep | None,
    device: torch.device | str = "cpu",
) -> Matched:
    """Run one method's synthesis on noised sums from anywhere."""
    common: dict[str, Any] = {
        "image_shape": prepared.image_shape,
        "proportional": prepared.proportional,
        "memory": memory,
        "on_step": on_step,
        "device": device,
    }
    classes = prepared.num_classes
    if isinstance(system, DpMerf | DpMepf):
        releases = releases_of(system, prepared)
        return mean_matched(sum_of, system, releases, num_classes=classes, **common)
    if isinstance(system, SpsG):
        made = stage_release(system, prepared, 0, memory=memory).embedding
        embedding = placed(made, torch.device(device))
        return sps_g_matched(sum_of(embedding, 0), embedding, system, **common)
    assert prepared.encoder is not None
    return sps_matched(
        sum_of,
        system,
        encoder=prepared.encoder,
        num_classes=classes,
        count=prepared.count,
        **common,
    )


def release_name(system: System, number: int) -> str:
    """The name under which a method remembers the release of this number."""
    return f"release-{number}" if isinstance(system, Sps) else RELEASE_NAMES[number]


def _components(prepared: Prepared) -> Tensor:
    if prepared.public is None:
        raise ConfigError("SPS-G takes principal components of public images: give --public.")
    return prepared.public


def run(
    system: System, hedge: Hedge, prepared: Prepared, memory: Memory, on_step: OnStep
) -> Synthetic:
    """Run one method's release and synthesis."""
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
            encoder=prepared.encoder,
            count=prepared.count,
            **common,
            **shape,
        )
    public = _components(prepared)
    return sps_g(hedge, settings=system, encoder=prepared.encoder, public=public, **common)
