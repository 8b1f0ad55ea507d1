"""What a command does from beginning to end: settings, folder, ledger, resuming, results, pages."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privet.runs.loading import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """Import it when it is first used: a page must not wait for torch."""
    if name in __all__:
        return getattr(import_module("privet.runs.loading"), name)
    raise AttributeError(f"module 'privet.runs' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what can be used, imported or not."""
    return __all__
