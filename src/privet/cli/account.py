"""`privet account`: noise for a target, or the cost of noise. Touches no data."""

import math
from enum import Enum
from functools import partial
from typing import Annotated

import typer

from privet.cli.options import AsJson, RelationOption, UnitOption, print_json, print_pairs
from privet.errors import ConfigError
from privet.privacy.accountants import PLD, RDP, Accountant
from privet.privacy.budget import Budget, Relation, Unit, check_delta, round_up
from privet.privacy.events import GaussianRelease, Plan, PoissonSteps
from privet.privacy.quote import Quote, Terms, quote_cost, quote_noise


class AccountantName(Enum):
    """The values of --accountant."""

    PLD = "pld"
    RDP = "rdp"


_ACCOUNTANTS: dict[AccountantName, Accountant] = {
    AccountantName.PLD: PLD(),
    AccountantName.RDP: RDP(),
}


def account(
    delta: Annotated[float, typer.Option(help="The δ of the guarantee.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Target ε: print the least noise multiplier.")
    ] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Noise in units of the clip norm: print the ε.")
    ] = None,
    releases: Annotated[int | None, typer.Option(help="Number of one-shot releases.")] = None,
    sample_rate: Annotated[
        float | None, typer.Option(help="Poisson sampling rate of training steps.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Number of training steps.")] = None,
    accountant: Annotated[
        AccountantName, typer.Option(help="pld is the tightest; rdp is what many papers use.")
    ] = AccountantName.PLD,
    relation: RelationOption = Relation.ADD_REMOVE,
    unit: UnitOption = Unit.EXAMPLE,
    json: AsJson = False,
) -> None:
    """Tell the noise for a target ε, or the ε of given noise. No data is touched."""
    check_delta(delta)
    plan_at = partial(_plan, releases, sample_rate, steps)
    terms = Terms(relation=relation, unit=unit, accountant=_ACCOUNTANTS[accountant])
    if epsilon is not None and noise_multiplier is None:
        quote = quote_noise(plan_at, Budget(epsilon=epsilon, delta=delta), terms)
    elif noise_multiplier is not None and epsilon is None:
        quote = quote_cost(plan_at, noise_multiplier, delta, terms)
    else:
        raise ConfigError(
            "Give either --epsilon or --noise-multiplier: one follows from the other."
        )
    _show(quote, json)


def _plan(releases: int | None, sample_rate: float | None, steps: int | None, sigma: float) -> Plan:
    if releases is not None and sample_rate is None and steps is None:
        return Plan.of(GaussianRelease(noise_multiplier=sigma, releases=releases))
    if releases is None and sample_rate is not None and steps is not None:
        return Plan.of(PoissonSteps(sampling_rate=sample_rate, noise_multiplier=sigma, steps=steps))
    raise ConfigError("Give either --releases, or --sample-rate together with --steps.")


def _show(quote: Quote, json: bool) -> None:
    if json:
        print_json(quote.to_json())
        return
    print_pairs(
        {
            "noise multiplier": _four_digits(quote.noise_multiplier),
            "guarantee": quote.guarantee,
            "plan": quote.plan,
        }
    )


def _four_digits(sigma: float) -> str:
    """From above; small ones by their first digits that are not 0."""
    return f"{round_up(sigma, max(4, 3 - math.floor(math.log10(sigma)))):.12g}"
