"""`privet demo`: the way from private rows to a shared result, on embedded data."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from privet.cli.options import AsJson, print_json, print_pairs


def demo(
    out: Annotated[Path, typer.Option(help="Where the results go.")] = Path("privet-demo"),
    epsilon: Annotated[float, typer.Option(help="The ε to spend.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The δ of the guarantee.")] = 1e-5,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier demo.")] = False,
    json: AsJson = False,
) -> None:
    """Learn from 5,000 embedded digits under differential privacy, in a few seconds."""
    from privet.recipes.demo import demo as run

    result = run(out, epsilon=epsilon, delta=delta, force=force)
    if json:
        print_json(
            {
                "folder": str(result.folder),
                "test_accuracy": asdict(result.accuracy),
                "certificate": result.certificate.to_json(),
            }
        )
        return
    print_pairs(
        {
            "spent": result.certificate.guarantee,
            "200 public digits alone": f"{result.accuracy.public_only:.1%} test accuracy",
            "with the private release": f"{result.accuracy.private:.1%} test accuracy",
            "class means that left": result.folder / "classes.png",
            "certificate": result.folder / "certificate.json",
        }
    )
