"""What a command does from beginning to end: settings, folder, ledger, resuming, results, pages."""

from typing import TYPE_CHECKING

from privet.on_use import on_use

if TYPE_CHECKING:
    from privet.runs.loading import load

__all__ = ["load"]

__getattr__, __dir__ = on_use(__name__, {"loading": ("load",)})
