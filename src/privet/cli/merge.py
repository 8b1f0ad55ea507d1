"""`privet merge`: the synthetic sets of several runs as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privet.cli.options import AsJson, print_json, print_pairs
from privet.cli.progress import Watch


def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Finished runs of 'privet synthesize', or earlier merges."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier merge.")] = False,
    json: AsJson = False,
) -> None:
    """Put synthetic sets together under one certificate.

    The whole has the classes of all. It costs nothing: no private image is read. What the runs cost
    together is worked out from the ledgers that they drew on. Runs add up, but for those in
    different portions of one ledger.
    """
    from privet.runs.merging import merge as write

    with Watch(bar=not json) as watch:
        merged = write(folders, out, force=force, listener=watch)
    if json:
        print_json(merged.to_json())
        return
    print_pairs(merged.in_words())
