"""`--diagnostics`: what papers plot of private rows, looked at outside the guarantee."""

from __future__ import annotations

from typing import Any

from privet.hedge import Hedge
from privet.learn import Progress
from privet.learn.diagnostics import fits, gradient_norms
from privet.recipes.private_training import Launch, equation_for
from privet.recipes.run_folder import DIAGNOSTICS, RunFolder
from privet.recipes.run_stage import Stage

_WARNING = "NOT PRIVATE: computed from private rows outside the guarantee. Do not share."


def diagnose(
    hedge: Hedge, stage: Stage, start: Launch, progress: Progress, folder: RunFolder
) -> None:
    """Gradient norms, loss and accuracy at the run's weights, if the run was asked to look."""
    if not stage.config.diagnostics:
        return
    found = folder.read(DIAGNOSTICS) if folder.has(DIAGNOSTICS) else {"not_private": _WARNING}
    if str(progress.step) in found:
        return
    folder.write(DIAGNOSTICS, found | {str(progress.step): _look(hedge, stage, start, progress)})


def _look(hedge: Hedge, stage: Stage, start: Launch, progress: Progress) -> dict[str, Any]:
    training = stage.config.training
    equation = equation_for(
        stage.network, training, stage.material, stage.keys, start.divisor, start.engine.engine
    )
    rows = stage.material.same_classes
    public = None if rows is None else {"public": rows}
    norms = gradient_norms(
        hedge, equation, progress.state, clip_norm=training.clip_norm, public=public
    )
    return {
        each.name: each.value.to_json()
        for each in (norms, fits(hedge, equation, progress.state, public=public))
    }
