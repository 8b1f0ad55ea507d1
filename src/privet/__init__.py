"""Learn from private data with the help of public data, under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privet import data, hedge, privacy, recipes, release
    from privet.hedge import Hedge
    from privet.privacy import Ledger
    from privet.recipes.loading import load

__version__ = "0.1.0"

__all__ = ["Hedge", "Ledger", "data", "hedge", "load", "privacy", "recipes", "release"]

_HOMES = {
    "Hedge": "privet.hedge",
    "Ledger": "privet.privacy",
    "load": "privet.recipes.loading",
}


def __getattr__(name: str) -> Any:
    """Import rooms when they are first used: bookkeeping must not wait for torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"privet.{name}")
    raise AttributeError(f"module 'privet' has no attribute {name!r}")
