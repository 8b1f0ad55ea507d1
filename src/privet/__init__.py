"""Learn from private data with the help of public data, under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privet import (
        audit,
        augment,
        data,
        errors,
        federate,
        hedge,
        learn,
        measure,
        models,
        optim,
        privacy,
        public,
        recipes,
        release,
        report,
        runs,
        share,
        synthesis,
    )
    from privet.hedge import Hedge
    from privet.privacy import Ledger
    from privet.runs import load

__version__ = "0.1.0"

__all__ = [
    "Hedge",
    "Ledger",
    "audit",
    "augment",
    "data",
    "errors",
    "federate",
    "hedge",
    "learn",
    "load",
    "measure",
    "models",
    "optim",
    "privacy",
    "public",
    "recipes",
    "release",
    "report",
    "runs",
    "share",
    "synthesis",
]

_HOMES = {
    "Hedge": "privet.hedge",
    "Ledger": "privet.privacy",
    "load": "privet.runs",
}


def __getattr__(name: str) -> Any:
    """Import subpackages when first used, so that bookkeeping does not wait for torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"privet.{name}")
    raise AttributeError(f"module 'privet' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what can be used, imported or not."""
    return __all__
