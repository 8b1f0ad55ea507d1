"""`privet tune`: the best of a random number of private runs, and one guarantee for the choice."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from privet.cli.options import print_json, print_pairs
from privet.cli.progress import Watch
from privet.cli.run_options import MAIN, Number, Text, option
from privet.cli.train import show_result, train
from privet.errors import ConfigError

# What looks outside the guarantee, pays for something else, or tells of every trial.
_NOT_FOR_TRIALS = (
    *("release", "release_method", "release_count", "encoder", "diagnostics", "tensorboard"),
)


def tune(
    context: typer.Context,
    tries: Annotated[
        list[str] | None,
        option(
            MAIN,
            "A setting and its values, as in learning_rate=0.1,0.3,1; several times for several "
            "settings, of which all combinations are candidates. Values with commas stand apart by "
            "semicolons.",
            "NAME=VALUE,…",
            "--try",
        ),
    ] = None,
    trials: Annotated[
        Number, option(MAIN, "How many trials there are on average, above 1.", "MEAN")
    ] = None,
    shape: Annotated[
        Text,
        option(
            MAIN,
            "The law of their number: logarithmic (0: costs least, often few trials), geometric "
            "(1: default) or poisson (close to its mean; for few trials).",
            "0|1|poisson",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Train with settings drawn from a list, and keep the best.

    What is kept is certified, and the choice is paid for. Every other option is one of 'privet
    train'. Needed are DATA, --method, --epsilon, --delta, --test (rows that are not private, by
    which trials are compared), --declared-size, --trials, --try and --out; nothing but --out for
    --resume.
    """
    from privet.runs.session import Session
    from privet.runs.teamwork import helps, team_for
    from privet.runs.train_config import Asked
    from privet.runs.tuning import tune as run
    from privet.runs.tuning_config import Search
    from privet.runs.tuning_stage import quote_tuning

    asked, json, resume = Asked.of(context.params), options["json"], options["resume"]
    with team_for(options["device"]) as team, Watch(bar=not json) as watch:
        if helps(team):
            raise ConfigError("One process goes through all trials: start it without torchrun.")
        again = resume and not (tries or trials or shape)
        search = None if again else Search.of(tries or (), trials, shape or "1")
        if options["dry_run"]:
            if search is None:
                raise ConfigError("Give either --dry-run or --resume: one spends nothing.")
            found = quote_tuning(asked, search, noise_seed=options["noise_seed"], listener=watch)
            if json:
                print_json(found.to_json())
            else:
                print_pairs(found.in_words())
            return
        if options["out"] is None:
            raise ConfigError("Give --out: the folder where the run goes.")
        session = Session(
            out=options["out"],
            resume=resume,
            force=options["force"],
            noise_seed=options["noise_seed"],
            device=str(team.device),
            team=team,
        )
        result = run(asked, search, session, watch)
    show_result(result, json)


def _with_options_of_training() -> inspect.Signature:
    """The signature that Typer reads options from: those of `privet train`, and the new ones."""
    own = inspect.signature(tune, eval_str=True).parameters
    theirs = inspect.signature(train, eval_str=True).parameters
    shared = {name: each for name, each in theirs.items() if name not in _NOT_FOR_TRIALS}
    new = [own[name] for name in ("tries", "trials", "shape")]
    return inspect.Signature([*shared.values(), *new])


tune.__signature__ = _with_options_of_training()  # type: ignore[attr-defined]
