"""`privet evaluate`: metrics of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from privet.cli.options import AsJson, print_json, print_pairs


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run of 'privet train'.")],
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Images to measure accuracy on; the run's own test set if left out.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure the accuracy of a run's model on test images."""
    from privet.recipes.run_evaluation import evaluate as run

    found = run(folder, test)
    for note in found.notes:
        typer.echo(note, err=True)
    if json:
        print_json(found.to_json())
        return
    print_pairs(found.in_words())
