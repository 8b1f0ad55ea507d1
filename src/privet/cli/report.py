"""`privet report`: a page about a run, to look at and to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privet.cli.options import AsJson, print_json, print_pairs


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Finished runs of 'privet train', 'tune', 'synthesize', 'merge' or 'federate'.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The page. Default: report.html in DIR, or privet-report.html for several runs.",
        ),
    ] = None,
    attack: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show what 'privet audit attack' found, too."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier page.")] = False,
    json: AsJson = False,
) -> None:
    """Write one HTML page about a run, or about several.

    It is self-contained, needs no network and holds no private image: what was made, what it cost,
    how good it is, every setting. Run 'privet evaluate' before it to have more figures on the page.
    """
    from privet.runs.run_reports import report as write

    found = write(folders, out, attack=attack, force=force)
    if json:
        print_json(found.to_json())
        return
    print_pairs(found.in_words())
