"""Where to perturb weights: towards a higher loss, or anywhere.

Directions are dicts of named blocks; their length is over all blocks together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from privet.errors import ConfigError

_GAMMA = 1e-12  # a gradient of zero gives a direction of zero


def sam_direction(
    weights: Mapping[str, Tensor], gradient: Mapping[str, Tensor], radius: float
) -> dict[str, Tensor]:
    """Sharpness-aware minimisation: ρ · g / ‖g‖ (Foret et al., 2021, equation 2)."""
    _check(weights, gradient, radius)
    g = {name: block.detach() for name, block in gradient.items()}
    return _scaled(g, radius, _norm(g))


def asam_direction(
    weights: Mapping[str, Tensor], gradient: Mapping[str, Tensor], radius: float, eta: float = 0.01
) -> dict[str, Tensor]:
    """Adaptive SAM: ρ · T² g / ‖T g‖ with T = |w| + η, elementwise (Kwon et al., 2021)."""
    _check(weights, gradient, radius)
    if not (eta >= 0 and math.isfinite(eta)):
        raise ConfigError(f"eta is {eta:g}; give a number from 0 upwards, such as 0.01.")
    t = {name: weights[name].detach().abs() + eta for name in gradient}
    tg = {name: t[name] * block.detach() for name, block in gradient.items()}
    return _scaled({name: t[name] * block for name, block in tg.items()}, radius, _norm(tg))


def random_direction(
    weights: Mapping[str, Tensor], radius: float, generator: torch.Generator
) -> dict[str, Tensor]:
    """A direction drawn uniformly from the sphere of that radius."""
    _check(weights, weights, radius)
    normal = {name: _normal_like(block, generator) for name, block in weights.items()}
    return _scaled(normal, radius, _norm(normal))


def _normal_like(block: Tensor, generator: torch.Generator) -> Tensor:
    device = generator.device
    draws = torch.randn(block.shape, generator=generator, device=device, dtype=block.dtype)
    return draws.to(block.device)


def _norm(blocks: Mapping[str, Tensor]) -> Tensor:
    norms = [torch.linalg.vector_norm(block) for block in blocks.values()]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def _scaled(blocks: Mapping[str, Tensor], radius: float, norm: Tensor) -> dict[str, Tensor]:
    factor = radius / (norm + _GAMMA)
    return {name: factor.to(block.dtype) * block for name, block in blocks.items()}


def _check(weights: Mapping[str, Tensor], blocks: Mapping[str, Tensor], radius: float) -> None:
    if not (radius >= 0 and math.isfinite(radius)):
        raise ConfigError(f"radius is {radius:g}; give a number from 0 upwards, such as 0.05.")
    if not blocks or weights.keys() != blocks.keys():
        odd = sorted(weights.keys() ^ blocks.keys())
        raise ConfigError(f"weights and gradient differ in {odd}; give the same names, at least 1.")
