"""Help whose options stand under headings, without boxes and colours."""

import typer
from typer.core import TyperCommand


class PanelCommand(TyperCommand):
    """Options are grouped by their `rich_help_panel`, in the order in which they appear."""

    def format_options(self, ctx: typer.Context, formatter: typer.core.HelpFormatter) -> None:  # type: ignore[name-defined, override]
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
