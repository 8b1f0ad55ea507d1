"""`privet audit`: what a recipe truly costs, from below. On made-up rows, so it spends nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privet.cli.attack import attack
from privet.cli.options import AsJson, RelationOption, print_json, print_pairs
from privet.cli.panels import Table
from privet.cli.progress import Watch
from privet.data.staging import new_file
from privet.errors import ConfigError
from privet.privacy.budget import Budget, Relation

if TYPE_CHECKING:
    from privet.audit.findings import Finding
    from privet.audit.trials import Terms

app = Table(
    no_args_is_help=True,
    help="Bound the true ε from below, and attack public images.",
)
app.command()(attack)

Epsilons = Annotated[
    list[float], typer.Option("--epsilon", help="The claimed ε; may be given several times.")
]
Delta = Annotated[float, typer.Option(help="The claimed δ.")]
Confidence = Annotated[float, typer.Option(help="Of the lower bound.")]
Canaries = Annotated[int, typer.Option(help="Rows that are in by a coin each.")]
Seed = Annotated[int, typer.Option(help="Of the made-up rows and coins, not of the noise.")]
Plant = Annotated[
    float | None,
    typer.Option(
        "--plant", metavar="SHARE", help="Plant a bug: leave this share of the noise, 0 for none."
    ),
]
Secure = Annotated[
    bool, typer.Option("--secure-noise", help="Audit noise that is drawn on a grid.")
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write all that was found as JSON, into a new file."),
]


class Mechanism(Enum):
    """The values of --mechanism: what of the hedge is audited."""

    RELEASE = "release"
    STEP = "step"
    TRAINING = "training"


class Row(Enum):
    """The values of --row: what the row is that is there or not."""

    ADDED = "added"
    DUPLICATE = "duplicate"
    MISLABELLED = "mislabelled"
    NOT_A_NUMBER = "nan"


@app.command()
def hedge(
    epsilon: Epsilons,
    delta: Delta,
    mechanism: Annotated[
        Mechanism, typer.Option(help="One release, one Poisson step, or a whole short training.")
    ] = Mechanism.RELEASE,
    row: Annotated[
        Row,
        typer.Option(
            help="The row that is there or not: far beyond the clip norm, one that is there "
            "already, one with a wrong label, or one that is not a number."
        ),
    ] = Row.ADDED,
    runs: Annotated[int, typer.Option(help="With the row, and as many without.")] = 3000,
    sample_rate: Annotated[float, typer.Option(help="Of steps.")] = 0.5,
    relation: RelationOption = Relation.ADD_REMOVE,
    confidence: Confidence = 0.95,
    plant: Plant = None,
    secure_noise: Secure = False,
    out: Out = None,
    json: AsJson = False,
) -> None:
    """Run the hedge many times, with and without the worst row. It is the worst there can be."""

    def audited(terms: Terms) -> Finding:
        from privet.audit.mechanisms import MechanismAudit, Neighbour, audit_mechanism
        from privet.audit.short_training import ShortTrainingAudit, audit_short_training

        neighbour = Neighbour(row.value)
        if mechanism is Mechanism.TRAINING:
            return audit_short_training(
                ShortTrainingAudit(neighbour=neighbour, runs=runs, sampling_rate=sample_rate), terms
            )
        rate = sample_rate if mechanism is Mechanism.STEP else None
        audit = MechanismAudit(sampling_rate=rate, neighbour=neighbour, runs=runs)
        return audit_mechanism(audit, terms)

    _run(audited, _terms(epsilon, delta, relation, confidence, plant, secure_noise, 0), out, json)


@app.command()
def train(
    method: Annotated[str, typer.Option(help="Of 'privet train'.")],
    epsilon: Epsilons,
    delta: Delta,
    canaries: Canaries = 256,
    sample_rate: Annotated[float, typer.Option(help="Of steps.")] = 0.5,
    epochs: Annotated[float, typer.Option(help="Passes over all rows.")] = 10.0,
    relation: RelationOption = Relation.ADD_REMOVE,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    plant: Plant = None,
    secure_noise: Secure = False,
    out: Out = None,
    json: AsJson = False,
) -> None:
    """Train a linear model privately, with many canaries."""

    def audited(terms: Terms) -> Finding:
        from privet.audit.training import TrainingAudit, audit_training

        audit = TrainingAudit(
            method=method, canaries=canaries, sampling_rate=sample_rate, epochs=epochs
        )
        return audit_training(audit, terms)

    _run(
        audited, _terms(epsilon, delta, relation, confidence, plant, secure_noise, seed), out, json
    )


@app.command()
def synthesize(
    method: Annotated[str, typer.Option(help="Of 'privet synthesize'.")],
    epsilon: Epsilons,
    delta: Delta,
    canaries: Canaries = 256,
    relation: RelationOption = Relation.ADD_REMOVE,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    plant: Plant = None,
    secure_noise: Secure = False,
    out: Out = None,
    json: AsJson = False,
) -> None:
    """Release all sums of a synthetic set, with many canaries."""

    def audited(terms: Terms) -> Finding:
        from privet.audit.synthesis import SynthesisAudit, audit_synthesis

        return audit_synthesis(SynthesisAudit(method=method, canaries=canaries), terms)

    _run(
        audited, _terms(epsilon, delta, relation, confidence, plant, secure_noise, seed), out, json
    )


def _terms(
    epsilons: list[float],
    delta: float,
    relation: Relation,
    confidence: float,
    plant: float | None,
    secure_noise: bool,
    seed: int,
) -> list[Terms]:
    """The terms of an audit for each ε; all are checked before the first is audited."""
    from privet.audit.trials import Terms, planted

    if plant is not None and secure_noise:
        raise ConfigError(
            "--plant spoils noise, which --secure-noise does not allow: leave one out."
        )
    return [
        Terms(
            budget=Budget(epsilon=epsilon, delta=delta),
            relation=relation,
            confidence=confidence,
            noise_of=planted(plant),
            secure_noise=secure_noise,
            seed=seed,
        )
        for epsilon in epsilons
    ]


def _run(
    audited: Callable[[Terms], Finding], terms: list[Terms], out: Path | None, json: bool
) -> None:
    """Run one audit after the other; a broken guarantee is an error once all are told."""
    from privet.audit.findings import NO_COST, as_json, dumps, require_whole

    if out is not None and (out.exists() or not out.parent.is_dir()):
        raise ConfigError(f"{out} exists already, or its folder does not: give another --out.")
    findings = []
    with Watch(bar=not json) as watch:
        watch.note(f"Nothing private: {NO_COST}.")
        for each in terms:
            bar = watch.progress(f"ε = {each.budget.epsilon:g}")
            findings.append(audited(replace(each, on_trial=bar)))
    if out is not None:
        with new_file(out) as file:
            file.write(dumps(findings).encode())
    if json:
        print_json(as_json(findings))
    else:
        for finding in findings:
            print_pairs(finding.in_words())
            typer.echo()
    require_whole(findings)
