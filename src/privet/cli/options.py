"""Options and output that commands share."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from privet.privacy.budget import Relation, Unit

Epsilon = Annotated[float, typer.Option(help="The target ε.")]
Delta = Annotated[float, typer.Option(help="The target δ.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
RelationOption = Annotated[
    Relation, typer.Option("--relation", help="Which private data sets count as neighbours.")
]
UnitOption = Annotated[
    Unit, typer.Option("--unit", help="What is protected: an example, or all rows of a user.")
]


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object, alone on stdout."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        typer.echo(f"{name:<{width}}  {value}")
