"""`privet demo`: both jobs on embedded data, and a page about them."""

from pathlib import Path
from typing import Annotated

import typer

from privet.cli.options import AsJson, print_json, print_pairs
from privet.cli.progress import Watch


def demo(
    out: Annotated[Path, typer.Option(help="Where everything goes.")] = Path("privet-demo"),
    epsilon: Annotated[float, typer.Option(help="The ε to spend on both together.")] = 2.0,
    delta: Annotated[float, typer.Option(help="The δ of the guarantee.")] = 1e-5,
    count: Annotated[int, typer.Option(help="How many synthetic digits to make.")] = 5000,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier demo.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a demo that was interrupted.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Make a private data set and a classifier of embedded digits.

    It takes minutes. Of 5,000 digits a tenth is public and 4,000 are private. Both jobs draw on one
    ledger, and a page shows what they are worth beside public digits alone and no privacy at all.
    """
    from privet.runs.demo import DemoTerms
    from privet.runs.demo import demo as run

    terms = DemoTerms(epsilon=epsilon, delta=delta, count=count)
    with Watch(bar=not json) as watch:
        result = run(out, terms, watch, force=force, resume=resume)
    if json:
        print_json(result.to_json())
        return
    print_pairs(result.in_words())
