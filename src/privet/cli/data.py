"""`privet data`: look at a data set before it is used."""

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from privet.cli.options import AsJson, print_json
from privet.cli.panels import Table
from privet.data.guard import shown
from privet.data.options import Channels, parse_size
from privet.data.summary import NOT_PRIVATE, Summary
from privet.errors import ConfigError
from privet.paths import absolute

app = Table(no_args_is_help=True, help="Look at a data set before it is used.")

_MOST_CLASSES = 40


@app.command()
def inspect(
    source: Annotated[
        str, typer.Argument(metavar="DATA", help="A built-in name (digits, mnist5k) or a path.")
    ],
    private: Annotated[
        bool, typer.Option("--private", help="The data are private: say what this view gives away.")
    ] = False,
    resize: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Bring images to one size: 32 or 32x48.")
    ] = None,
    channels: Annotated[
        Channels | None,
        typer.Option(help="Bring images to colour or to grey."),
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Which part, such as train or test, of a set that has parts.")
    ] = None,
    contact_sheet: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write a PNG with images of each class.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the contact sheet.")] = False,
    json: AsJson = False,
) -> None:
    """Show sizes, type and classes of a data set."""
    from privet.data.contact_sheet import check_free, write_contact_sheet
    from privet.data.load import load
    from privet.data.summary import summarise

    if contact_sheet is not None:
        check_free(contact_sheet, force=force)
    size = None if resize is None else parse_size(resize)
    data = load(source, part=part, resize=size, channels=channels)
    summary = summarise(data, source)
    if private:
        typer.echo(NOT_PRIVATE, err=json)
    if json:
        print_json(summary.as_dict() | ({"guarantee": NOT_PRIVATE} if private else {}))
    else:
        _print(summary)
    if contact_sheet is not None:
        write_contact_sheet(data, contact_sheet, force=force)
        typer.echo(f"Wrote {shown(contact_sheet)}", err=True)


@app.command()
def schema(
    table: Annotated[
        Path,
        typer.Argument(metavar="TABLE", help="PUBLIC rows, as .csv or .parquet: never private."),
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there, not to the terminal.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write down what the columns of a public table hold.

    The file is for you to edit, and for --schema. Bounds, categories and classes are those of the
    rows themselves, so these must be public: a run that protects the same rows refuses the file.
    """
    from privet.data.disk import write_whole
    from privet.data.public_schema import schema_of
    from privet.data.schema_file import MADE_OF, RELEASED, schema_to_json
    from privet.data.tables import read_table
    from privet.runs.made_of import is_release

    found, notes = schema_of(read_table(table), target, table)
    for sentence in notes:
        typer.echo(sentence, err=True)
    body = schema_to_json(found) | {MADE_OF: absolute(table)}
    if is_release(str(table)):
        body[RELEASED] = True
    if out is None:
        print_json(body)
        return
    if out.exists() and not force:
        raise ConfigError(f"{shown(out)} exists already: choose another --out, or add --force.")
    text = json_text.dumps(body, indent=2, ensure_ascii=False) + "\n"
    write_whole(out, memoryview(text.encode()))
    typer.echo(f"Wrote {shown(out)}", err=True)


def _print(summary: Summary) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise

    console = Output(highlight=False, soft_wrap=True)
    size = f"{summary.height}×{summary.width}×{summary.channels} {summary.dtype}"
    stored = f"{summary.bytes:,} bytes, {summary.storage}"
    console.print(escape(summary.source), style="bold")
    console.print(f"{summary.images:,} images of {size}, {stored}")
    if summary.classes is None:
        console.print("no labels")
        return
    table = Table("class", "name")
    table.add_column("images", justify="right")
    for number, each in enumerate(summary.classes[:_MOST_CLASSES]):
        table.add_row(str(number), escape(each.name), f"{each.count:,}")
    console.print(table)
    hidden = len(summary.classes) - _MOST_CLASSES
    if hidden > 0:
        console.print(f"… and {hidden} more classes; --json lists all {len(summary.classes)}.")
