"""`privet audit attack`: attacks as users fear them, on models and sets of public examples."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from privet.cli.options import AsJson, print_json, print_pairs
from privet.cli.progress import Watch
from privet.errors import ConfigError, PrivacyError, Stopped
from privet.paths import as_path

_LEDGER = b"SQLite format 3"


def attack(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Labelled images that are public: nobody's secret."),
    ],
    epsilon: Annotated[
        list[float], typer.Option(help="Of private models and sets; may be given several times.")
    ],
    delta: Annotated[float, typer.Option(help="Of all of them.")],
    declare_public: Annotated[
        bool,
        typer.Option(
            "--declare-public",
            help="DATA is public, in full. Needed for all but built-in sets: models learn from it "
            "without privacy, and its images are shown.",
        ),
    ] = False,
    models: Annotated[
        int, typer.Option(help="For each level; every one in turn is attacked by the others.")
    ] = 16,
    examples: Annotated[int, typer.Option(help="Of DATA, at most, in or out by coins.")] = 1000,
    images: Annotated[
        int, typer.Option(help="In each synthetic set; 0 leaves extraction out.")
    ] = 500,
    iterations: Annotated[int, typer.Option(help="Of the generators of these sets.")] = 100,
    resize: Annotated[int | None, typer.Option(help="Bring images to this side first.")] = None,
    seed: Annotated[int, typer.Option(help="Of coins and weights, not of private noise.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write what was found as JSON, for 'privet report --attack'."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Attack models and synthetic sets of PUBLIC images.

    Those are made without privacy, and at every ε.

    Membership inference (LiRA, and one threshold for all) on models, and a search for nearest
    neighbours in synthetic sets. DATA can never be private: models learn from it without any
    protection, and some of its images are in the result.
    """
    from privet.audit.attacks import DECLARED, AttackPlan
    from privet.audit.attacks import attack as attacked
    from privet.audit.extraction import SetMaking
    from privet.data import load
    from privet.data.disk import write_whole

    _require_public(data, declared=declare_public)
    if out is not None and (out.exists() or not out.parent.is_dir()):
        raise ConfigError(f"{out} exists already, or its folder does not: give another --out.")
    plan = AttackPlan(
        epsilons=tuple(epsilon),
        delta=delta,
        models=models,
        examples=examples,
        making=SetMaking(images=images, iterations=iterations) if images else None,
        seed=seed,
    )
    rows = load(data, resize=resize, require_labels=True)
    try:
        with Watch(bar=not json) as watch:
            watch.note(f"Nothing private: {DECLARED}.")
            found = attacked(rows, Path(data).name, plan, watch.progress)
    except KeyboardInterrupt:
        raise Stopped("Stopped: nothing was written, and an attack spends nothing.") from None
    if out is not None:
        write_whole(out, f"{json_.dumps(found, ensure_ascii=False)}\n".encode())
    if json:
        print_json(found)
        return
    for pairs in _in_words(found):
        print_pairs(pairs)
        typer.echo()


def _require_public(data: str, *, declared: bool) -> None:
    """Refuse data that nobody declared public, so that no private row is attacked by mistake."""
    from privet.data.builtin import BUILTIN

    path = as_path(data)
    near = [path, *(path.glob("*") if path.is_dir() else ())]
    if any(each.is_file() and _is_ledger(each) for each in near):
        raise PrivacyError(
            f"{data} is a ledger, or holds one, so it is private: attack public images alone."
        )
    if data not in BUILTIN and not declared:
        raise PrivacyError(
            f"An attack trains models of {data} without privacy and shows its images: if it is "
            "public, in full, add --declare-public."
        )


def _is_ledger(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_LEDGER)) == _LEDGER
    except OSError:
        return False


def _in_words(found: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    from privet.runs.attack_story import DISTANCE, LIRA, THRESHOLD

    yield {"attacked": found["data"], "not private": found["declared"]}
    for level in found["membership"]:
        yield {
            "models": f"{level['level']} ({level['guarantee'] or 'nothing is promised'})",
            "accuracy": f"{level['accuracy_on_members']:.1%} on members, "
            f"{level['accuracy_on_others']:.1%} on others",
            **{name: _told(level["attacks"][name]["figures"]) for name in (LIRA, THRESHOLD)},
        }
    for level in found["extraction"]:
        low, high = level["nearer_by_chance"]
        yield {
            "images": f"{level['level']} ({level['guarantee'] or 'nothing is promised'})",
            "nearer": f"{level['nearer']:.1%} to a member than to any other; by chance "
            f"{low:.1%} to {high:.1%}",
            "copies": f"{level['copies']:.1%} of members, {level['chance_copies']:.1%} of others",
            DISTANCE: _told(level["attacks"][DISTANCE]["figures"]),
        }


def _told(figures: Mapping[str, Any]) -> str:
    auc, hits = figures["auc"], figures["hits_at_0.01"]
    above = any(each["above"] for each in figures.values())
    most = "" if auc["allowed"] is None else f", at most {auc['allowed']:.3f} is allowed"
    rare = "" if hits["allowed"] is None else f", at most {hits['allowed']:.1%}"
    return (
        f"AUC {auc['value']:.3f} ({auc['low']:.3f} to {auc['high']:.3f}{most}); finds "
        f"{hits['value']:.1%} of members at 1% false alarms{rare}"
        + ("; MORE THAN IS ALLOWED: run 'privet audit train'" if above else "")
    )
