"""The table of commands."""

from typing import Annotated

import typer

from privet import __version__
from privet.cli import (
    account,
    audit,
    data,
    demo,
    evaluate,
    export,
    federate,
    ledger,
    merge,
    report,
    synthesize,
    train,
    tune,
)
from privet.cli.panels import Table
from privet.cli.stopping import Commands

app = Table(
    name="privet",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("synthesize")(synthesize.synthesize)
app.command("merge")(merge.merge)
app.command("evaluate")(evaluate.evaluate)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("account")(account.account)
app.add_typer(audit.app, name="audit")
app.add_typer(federate.app, name="federate")
app.add_typer(ledger.app, name="ledger")
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"privet {__version__}")
        raise typer.Exit


@app.callback()
def privet(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Learn from private data with the help of public data, under differential privacy."""
