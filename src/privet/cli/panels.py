"""Help whose options stand under headings, without boxes and colours."""

from typing import Any

from typer.core import TyperCommand


class PanelCommand(TyperCommand):
    """Options are grouped by their `rich_help_panel`, in the order in which these appear."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """One section each."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                panel = getattr(parameter, "rich_help_panel", None) or "Options"
                sections.setdefault(panel, []).append(record)
        for panel, records in sections.items():
            with formatter.section(panel):
                formatter.write_dl(records)
