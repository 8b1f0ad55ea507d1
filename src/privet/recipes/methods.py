"""The published methods as settings of equation 1, and one function for each.

References:
    Abadi et al. 2016 (DP-SGD); De et al. 2022 (augmentation multiplicity); Bao et al. 2023
    (DP-Mix); Nasr et al. 2023 (DOPE-SGD); Amid et al. 2022 (mirror descent); Li et al. 2022
    (AdaDPS); "Improving private training via in-distribution public data synthesis and
    generalization" (weight multiplicity).
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

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
from privet.learn.training import OnStep
from privet.learn.views import Views
from privet.recipes.training import TrainedModel, private_training
from privet.recipes.training_config import Material, TrainingConfig


def dp_sgd_method(views: Views | None = None) -> Method:
    """Settings of DP-SGD: nothing public takes part in a step."""
    return Method(views=views or AsIs())


def dp_mix_method(views: Mixed | None = None) -> Method:
    """Settings of DP-Mix: an example's gradient is of mixtures of its views."""
    return Method(views=views or Mixed())


def dope_method(views: Views | None = None, limit: float | None = None) -> Method:
    """Settings of DOPE-SGD: clip around the public gradient."""
    return Method(views=views or AsIs(), origin=PublicOrigin(limit=limit))


def mirror_method(views: Views | None = None, alpha: float = 0.7) -> Method:
    """Settings of mirror descent: mix the public gradient into every update."""
    return Method(views=views or AsIs(), update=Mirror(alpha=alpha))


def adadps_method(views: Views | None = None) -> Method:
    """Settings of AdaDPS: scale coordinates by public gradients."""
    return Method(views=views or AsIs(), scale=PublicMoments())


def weight_multiplicity_method(views: Views | None = None, radius: float = 0.05) -> Method:
    """Settings of weight multiplicity: perturb weights along public gradients."""
    return Method(views=views or Augmented(), perturb=Ascent(radius=radius))


def dp_sgd(
    hedge: Hedge,
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    *,
    views: Views | None = None,
    on_step: OnStep | None = None,
) -> TrainedModel:
    """Train with DP-SGD: nothing public takes part in a step.

    Everything else is as in `private_training`; the method of `config` gives way to this one.
    """
    config = replace(config, method=dp_sgd_method(views))
    return private_training(hedge, model, config, material, on_step=on_step)


def dp_mix(
    hedge: Hedge,
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    *,
    views: Mixed | None = None,
    on_step: OnStep | None = None,
) -> TrainedModel:
    """Train with DP-Mix self, or diff with `Mixed(num_diff=2)` and public rows.

    Everything else is as in `private_training`; the method of `config` gives way to this one.
    """
    config = replace(config, method=dp_mix_method(views))
    return private_training(hedge, model, config, material, on_step=on_step)


def dope(
    hedge: Hedge,
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    *,
    views: Views | None = None,
    limit: float | None = None,
    on_step: OnStep | None = None,
) -> TrainedModel:
    """Train with DOPE-SGD; `limit` is λ, for imperfect public data.

    Everything else is as in `private_training`; the method of `config` gives way to this one.
    """
    config = replace(config, method=dope_method(views, limit))
    return private_training(hedge, model, config, material, on_step=on_step)


def mirror(
    hedge: Hedge,
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    *,
    views: Views | None = None,
    alpha: float = 0.7,
    on_step: OnStep | None = None,
) -> TrainedModel:
    """Train with mirror descent; `alpha` is the private share of every update.

    Everything else is as in `private_training`; the method of `config` gives way to this one.
    """
    config = replace(config, method=mirror_method(views, alpha))
    return private_training(hedge, model, config, material, on_step=on_step)


def adadps(
    hedge: Hedge,
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    *,
    views: Views | None = None,
    on_step: OnStep | None = None,
) -> TrainedModel:
    """Train with AdaDPS: coordinates are scaled by public gradients before they are clipped.

    Everything else is as in `private_training`; the method of `config` gives way to this one.
    """
    config = replace(config, method=adadps_method(views))
    return private_training(hedge, model, config, material, on_step=on_step)


def weight_multiplicity(
    hedge: Hedge,
    model: nn.Module,
    config: TrainingConfig,
    material: Material,
    *,
    views: Views | None = None,
    radius: float = 0.05,
    on_step: OnStep | None = None,
) -> TrainedModel:
    """Train with weight multiplicity; `radius` is ρ, the length of a perturbation.

    Everything else is as in `private_training`; the method of `config` gives way to this one.
    """
    config = replace(config, method=weight_multiplicity_method(views, radius))
    return private_training(hedge, model, config, material, on_step=on_step)
