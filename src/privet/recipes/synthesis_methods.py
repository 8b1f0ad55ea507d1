"""The systems of equation 2 by name, each ready to run on whatever a command has prepared."""

from __future__ import annotations

from dataclasses import dataclass
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
