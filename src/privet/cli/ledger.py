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
from privet.cli.panels import Table
from privet.privacy import Ledger, Relation, Unit
from privet.privacy.overview import overview

app = Table(no_args_is_help=True, help="Create and look into a data owner's ledger.")

LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger's file.")]


@app.command()
def create(
    path: LedgerPath,
    epsilon: Epsilon,
    delta: Delta,
    relation: RelationOption = Relation.ADD_REMOVE,
    unit: UnitOption = Unit.EXAMPLE,
    secure_noise: Annotated[
        bool,
        typer.Option(
            "--secure-noise",
            help="Draw all noise on a grid, of the operating system's bits: slower, and safe from "
            "attacks on floating-point numbers.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Make a ledger of what may be spent on a private data set. That is the most, ever."""
    ledger = Ledger.create(
        path,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        unit=unit,
        secure_noise=secure_noise,
    )
    _show(overview(ledger), json)


@app.command()
def show(path: LedgerPath, json: AsJson = False) -> None:
    """Show what was reserved and spent, and what is left."""
    _show(overview(Ledger.open(path)), json)


@app.command()
def portion(
    path: LedgerPath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="By which runs name it.")],
    json: AsJson = False,
) -> None:
    """Declare a portion, of which no row lies in another one.

    That is the owner's word. Runs with --portion NAME add up among themselves and with runs that
    name none, and count beside those of other portions. What tells portions apart must be in the
    row itself, such as its class or the day on which it came.
    """
    ledger = Ledger.open(path)
    ledger.declare_portion(name)
    _show(overview(ledger), json)


def _show(view: dict[str, Any], json: bool) -> None:
    if json:
        print_json(view)
        return
    room = "one further Gaussian release" + (" of all portions" if view["portions"] else "")
    print_pairs(
        {
            "ledger": view["ledger"],
            "budget": view["budget"],
            **({"noise": "secure: on a grid"} if view["secure_noise"] else {}),
            "left": f"ε ≤ {view['remaining_epsilon']:g} for {room}",
            "across runs": view["composition"],
        }
    )
    if view["portions"]:
        typer.echo(f"\nportions, by {view['portions_rest_on']}")
    for name, left in view["portions"].items():
        typer.echo(f"    {name}  left: ε ≤ {left:g}")
    for run in view["reservations"]:
        typer.echo(f"\n{run['label']}  ({run['id']}, {run['opened_at']}, {run['state']})")
        for line in run["lines"]:
            typer.echo(f"    {line}")
