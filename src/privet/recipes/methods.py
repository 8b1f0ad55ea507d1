"""The published methods as settings of equation 1, and one function for each.

References:
    Abadi et al. 2016 (DP-SGD); De et al. 2022 (augmentation multiplicity); Bao et al. 2023
    (DP-Mix); Nasr et al. 2023 (DOPE-SGD); Amid et al. 2022 (mirror descent); Li et al. 2022
    (AdaDPS); "Improving private training via in-distribution public data synthesis and
    generalization" (weight multiplicity).
"""

from __future__ import annotations

from typing import Any

from torch import nn

from privet.augment import CropFlip
from privet.hedge import Hedge
from privet.learn import (
    Ascent,
    AsIs,
    Augmented,
    Method,
    Mirror,
    Mixed,
    PublicMoments,
    PublicOrigin,
)
from privet.learn.views import Views
from privet.recipes.private_training import TrainedModel, private_training
from privet.recipes.training_config import Material, TrainingConfig


def views_of(num_views: int, augment: CropFlip | None = None) -> Views:
    """The example itself, or K augmentations of it."""
    if num_views == 1 and augment is None:
        return AsIs()
    return Augmented(num_views=num_views, augment=augment or CropFlip())


def dp_sgd_method(views: Views | None = None) -> Method:
    """Nothing public in a step."""
    return Method(views=views or AsIs())


def dp_mix_method(views: Mixed | None = None) -> Method:
    """Mixtures of an example's views."""
    return Method(views=views or Mixed())


def dope_method(views: Views | None = None, limit: float | None = None) -> Method:
    """Clip around the public gradient."""
    return Method(views=views or AsIs(), origin=PublicOrigin(limit=limit))


def mirror_method(views: Views | None = None, alpha: float = 0.7) -> Method:
    """Mix the public gradient into every update."""
    return Method(views=views or AsIs(), update=Mirror(alpha=alpha))


def adadps_method(views: Views | None = None) -> Method:
    """Scale coordinates by public gradients."""
    return Method(views=views or AsIs(), scale=PublicMoments())


def weight_multiplicity_method(views: Views | None = None, radius: float = 0.05) -> Method:
    """Take gradients at weights perturbed along public gradients."""
    return Method(views=views or Augmented(), perturb=Ascent(radius=radius))


def dp_sgd(
    hedge: Hedge,
    model: nn.Module,
    material: Material,
    *,
    views: Views | None = None,
    **settings: Any,
) -> TrainedModel:
    """DP-SGD; `settings` are those of `TrainingConfig`."""
    return _run(hedge, model, material, dp_sgd_method(views), settings)


def dp_mix(
    hedge: Hedge,
    model: nn.Module,
    material: Material,
    *,
    views: Mixed | None = None,
    **settings: Any,
) -> TrainedModel:
    """DP-Mix self, or diff with `Mixed(num_diff=2)` and public rows."""
    return _run(hedge, model, material, dp_mix_method(views), settings)


def dope(
    hedge: Hedge,
    model: nn.Module,
    material: Material,
    *,
    views: Views | None = None,
    limit: float | None = None,
    **settings: Any,
) -> TrainedModel:
    """DOPE-SGD; `limit` is λ, for imperfect public data."""
    return _run(hedge, model, material, dope_method(views, limit), settings)


def weight_multiplicity(
    hedge: Hedge,
    model: nn.Module,
    material: Material,
    *,
    views: Views | None = None,
    radius: float = 0.05,
    **settings: Any,
) -> TrainedModel:
    """Weight multiplicity of radius ρ."""
    return _run(hedge, model, material, weight_multiplicity_method(views, radius), settings)


def _run(
    hedge: Hedge, model: nn.Module, material: Material, method: Method, settings: dict[str, Any]
) -> TrainedModel:
    on_step = settings.pop("on_step", None)
    config = TrainingConfig(method=method, **settings)
    return private_training(hedge, model, config, material, on_step=on_step)
