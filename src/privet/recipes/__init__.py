"""One short file per system, composed from the rooms."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privet.recipes.class_means import private_class_means
    from privet.recipes.map_moments import sps_g
    from privet.recipes.mean_embeddings import dp_mepf, dp_merf
    from privet.recipes.methods import dope, dp_mix, dp_sgd, weight_multiplicity
    from privet.recipes.position_moments import sps, sps_plus

__all__ = [
    "dope",
    "dp_mepf",
    "dp_merf",
    "dp_mix",
    "dp_sgd",
    "private_class_means",
    "sps",
    "sps_g",
    "sps_plus",
    "weight_multiplicity",
]

_METHODS = "privet.recipes.methods"
_MEAN_EMBEDDINGS = "privet.recipes.mean_embeddings"
_POSITION_MOMENTS = "privet.recipes.position_moments"
_HOMES = {
    "dope": _METHODS,
    "dp_mepf": _MEAN_EMBEDDINGS,
    "dp_merf": _MEAN_EMBEDDINGS,
    "dp_mix": _METHODS,
    "dp_sgd": _METHODS,
    "private_class_means": "privet.recipes.class_means",
    "sps": _POSITION_MOMENTS,
    "sps_g": "privet.recipes.map_moments",
    "sps_plus": _POSITION_MOMENTS,
    "weight_multiplicity": _METHODS,
}


def __getattr__(name: str) -> Any:
    """Import a recipe when it is first used: one must not wait for what another one needs."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'privet.recipes' has no attribute {name!r}")
