"""`privet ledger`: the data owner's budget."""

from pathlib import Path
from typing import Annotated, Any

import typer

from privet.cli.options import (
    AsJson,
    Delta,
    Epsilon,
    RelationOption,
    UnitOption,
    print_json,
    print_pairs,
)
from privet.privacy import Ledger, Relation, Unit
from privet.privacy.overview import overview

app = typer.Typer(no_args_is_help=True, help="Create and look into a data owner's ledger.")

LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger's file.")]


@app.command()
def create(
    path: LedgerPath,
    epsilon: Epsilon,
    delta: Delta,
    relation: RelationOption = Relation.ADD_REMOVE,
    unit: UnitOption = Unit.EXAMPLE,
    json: AsJson = False,
) -> None:
    """Make a ledger: the most that may ever be spent on one private data set."""
    ledger = Ledger.create(path, epsilon=epsilon, delta=delta, relation=relation, unit=unit)
    _show(overview(ledger), json)


@app.command()
def show(path: LedgerPath, json: AsJson = False) -> None:
    """What was reserved and spent, and what is left."""
    _show(overview(Ledger.open(path)), json)


def _show(view: dict[str, Any], json: bool) -> None:
    if json:
        print_json(view)
        return
    print_pairs(
        {
            "ledger": view["ledger"],
            "budget": view["budget"],
            "left": f"ε ≤ {view['remaining_epsilon']:g} for one further Gaussian release",
            "across runs": view["composition"],
        }
    )
    for run in view["reservations"]:
        typer.echo(f"\n{run['label']}  ({run['id']}, {run['opened_at']}, {run['state']})")
        for line in run["lines"]:
            typer.echo(f"    {line}")
