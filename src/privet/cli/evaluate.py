"""`privet evaluate`: metrics of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privet.cli.options import AsJson, print_json, print_pairs
from privet.cli.progress import Watch
from privet.errors import ConfigError

if TYPE_CHECKING:
    from privet.runs.model_evaluation import Evaluation
    from privet.runs.set_evaluation import SetEvaluation
    from privet.runs.text_evaluation import TextEvaluation


def evaluate(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A finished run of 'privet train', 'tune', 'synthesize', 'merge' or 'federate'.",
        ),
    ],
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Rows to measure on, not private; the run's own test set if left out.",
        ),
    ] = None,
    extractor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="For synthetic images, what looks at them: cnn (default), which learns from half "
            "of the test images, glyphs (quick, for grey images), efficientnet-lite0, 1 or 2, or "
            "inception (for FID, slow).",
        ),
    ] = None,
    panel: Annotated[
        str | None,
        typer.Option(
            metavar="all|NAME,…",
            help="For synthetic images, train classifiers on them and on the run's public images: "
            "logistic, mlp, cnn, conv-net, resnet-9, wide-resnet.",
        ),
    ] = None,
    real: Annotated[
        bool,
        typer.Option(
            "--real",
            help="Train the panel on the private images as well, to compare with: outside the "
            "guarantee, noted in the ledger, printed, and kept nowhere.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Measure how good a run's model or synthetic images are.

    A classifier: its accuracy on test rows. A language model: its perplexity. Synthetic images: how
    far they are from test images, what a CNN learns from them, and whether they repeat public
    images that the run saw.
    """
    from privet.runs.model_evaluation import evaluate as evaluate_model
    from privet.runs.run_folder import RunFolder
    from privet.runs.set_evaluation import evaluate_set

    if not RunFolder(folder).holds_run:
        with Watch(bar=not json) as watch:
            found_set = evaluate_set(
                folder, test, extractor, watch.note, watch.progress, panel, real
            )
        _show(found_set, json)
        return
    for name, given in {"extractor": extractor, "panel": panel, "real": real or None}.items():
        if given is not None:
            raise ConfigError(f"--{name} is for runs of 'privet synthesize': leave it out.")
    found = evaluate_model(folder, test)
    for sentence in found.notes:
        typer.echo(sentence, err=True)
    _show(found, json)


def _show(found: Evaluation | TextEvaluation | SetEvaluation, json: bool) -> None:
    if json:
        print_json(found.to_json())
        return
    print_pairs(found.in_words())
