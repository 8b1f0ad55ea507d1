"""One short file per system, composed from the rooms."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privet.recipes.class_means import private_class_means
    from privet.recipes.methods import dope, dp_mix, dp_sgd, weight_multiplicity

__all__ = [
    "dope",
    "dp_mix",
    "dp_sgd",
    "private_class_means",
    "weight_multiplicity",
]

_METHODS = "privet.recipes.methods"
_HOMES = {
    "dope": _METHODS,
    "dp_mix": _METHODS,
    "dp_sgd": _METHODS,
    "private_class_means": "privet.recipes.class_means",
    "weight_multiplicity": _METHODS,
}


def __getattr__(name: str) -> Any:
    """Import a recipe when it is first used: one must not wait for what another one needs."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'privet.recipes' has no attribute {name!r}")
