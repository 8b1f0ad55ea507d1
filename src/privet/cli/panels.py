"""Help whose options stand under headings, without boxes and colours."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand


class PanelCommand(TyperCommand):
    """A command whose help groups options by `rich_help_panel`, in the order of appearance."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section of the help for each panel."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                panel = getattr(parameter, "rich_help_panel", None) or "Options"
                name, text = record
                # Typer escapes brackets for Rich, which does not write this help.
                sections.setdefault(panel, []).append((name, text.replace("\\[", "[")))
        for panel, records in sections.items():
            with formatter.section(panel):
                formatter.write_dl(records)


class Table(typer.Typer):
    """A table of commands that all have such help."""

    def __init__(self, **settings: Any) -> None:
        # Click suggests names that are spelt alike, and Typer would once more.
        super().__init__(**{"suggest_commands": False, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Register a command under this name, or under its function's."""
        return super().command(name, **{"cls": PanelCommand, **settings})
