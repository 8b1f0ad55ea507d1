"""What a finished run leaves in its folder, and how it is told."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from privet.data.guard import shown
from privet.errors import DataError
from privet.learn import Progress
from privet.learn.checkpoint import save_tensors
from privet.privacy import Certificate, Ledger, Reservation, certify
from privet.runs.finished_run import FinishedRun
from privet.runs.run_folder import (
    CERTIFICATE,
    CHECKPOINT,
    ENSEMBLE,
    METRICS,
    MODEL,
    RESULT,
    STATE,
    SYNTHETIC,
    RunFolder,
)
from privet.runs.train_stage import Stage
from privet.runs.train_state import RunState
from privet.runs.weights import all_weights


@dataclass(frozen=True, kw_only=True)
class RunResult(FinishedRun):
    """What a finished run of `privet train` left."""

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        found, before = self.summary["test"], self.summary["test_after_warm_up"]
        noun = self.summary.get("rows", "images")
        words: dict[str, object] = {"guarantee": self.summary["guarantee"]}
        if before is not None:
            words[_before(self.summary, noun)] = _told(before)
        if found is not None:
            worst = f", worst class {found['worst_class']:.1%}" if "worst_class" in found else ""
            words["private model"] = f"{_told(found)}{worst}, {found['count']:,} {noun}"
        if (release := self.summary.get("release")) is not None:
            words["synthetic set"] = f"{release['images']:,} images in {self.folder / SYNTHETIC}"
        if (tuning := self.summary.get("tuning")) is not None:
            words["chosen"] = tuning["in_words"]
        return words | {
            "steps": _steps_in_words(**self.summary["steps"]),
            "model": self.folder / MODEL,
            "certificate": self.folder / CERTIFICATE,
            "metrics": self.folder / METRICS,
            "ledger": self.ledger,
        }


def _before(summary: dict[str, Any], noun: str) -> str:
    """The words for what taught the model before its first private step."""
    return f"public {noun} alone" if summary.get("release") is None else "before private steps"


def _told(found: dict[str, Any]) -> str:
    if "perplexity" in found:
        return f"test perplexity {found['perplexity']:,.1f}"
    return f"{found['accuracy']:.1%} test accuracy"


def write_results(
    reservation: Reservation, stage: Stage, state: RunState, progress: Progress, folder: RunFolder
) -> None:
    """Write all files; the summary, which marks the run as done, comes last."""
    certificate = certify(reservation, public=stage.treated_as_public)
    folder.write(CERTIFICATE, certificate.to_json())
    if stage.release is not None:
        stage.release.write_card(folder)
    _write_tensors(folder, MODEL, "privet.model/1", all_weights(stage.network))
    if progress.ring:
        ring = {
            f"{place:06d}/{name}": block
            for place, blocks in enumerate(progress.ring)
            for name, block in blocks.items()
        }
        _write_tensors(folder, ENSEMBLE, "privet.ensemble/1", ring)
    folder.write(RESULT, _summary(reservation, stage, state, progress, certificate))


def finished(folder: RunFolder) -> RunResult:
    """Read what a finished run found; tidy up whatever the last process did not come to."""
    state = RunState.from_json(folder.read(STATE))
    if state.reservation is None:
        raise DataError(f"{shown(folder / STATE)} names no reservation of a run that is done.")
    with closing(Ledger.open(folder / state.ledger)) as ledger:
        Reservation(ledger, state.reservation).close()
    folder.discard(CHECKPOINT)
    return RunResult(
        folder=folder.path,
        ledger=folder / state.ledger,
        summary=folder.read(RESULT),
        certificate=Certificate.from_json(folder.read(CERTIFICATE)),
    )


def _summary(
    reservation: Reservation,
    stage: Stage,
    state: RunState,
    progress: Progress,
    certificate: Certificate,
) -> dict[str, Any]:
    steps = {
        "planned": stage.config.training.steps,
        "done": progress.step,
        "paid_and_lost": max(0, reservation.spent(state.mechanism.event) - progress.step),
    }
    found = stage.measured()
    return {
        "schema": "privet.result/1",
        "method": stage.config.method,
        "rows": stage.config.rows.noun,
        "guarantee": str(certificate.guarantee) if certificate.private else certificate.statement,
        "steps": steps,
        "steps_in_words": _steps_in_words(**steps),
        "noise_multiplier": state.mechanism.noise_multiplier,
        "sampling_rate": state.mechanism.sampling_rate,
        "parameters": stage.num_parameters,
        "test": None if found is None else found.to_json(),
        "test_after_warm_up": None if state.public_only is None else state.public_only.to_json(),
        **_release(stage, certificate),
    }


def _release(stage: Stage, certificate: Certificate) -> dict[str, Any]:
    """The summary of a synthetic set that the run made: what it and the steps cost alone."""
    if stage.release is None:
        return {}
    release, alone = stage.release, stage.alone(certificate.plan)
    body = {"share": release.share, "reason": release.reason, "images": release.count}
    return {"release": {**body, "epsilon_alone": alone}}


def _steps_in_words(planned: int, done: int, paid_and_lost: int) -> str:
    words = f"{done:,} of {planned:,}"
    if not paid_and_lost:
        return words
    was = "step was" if paid_and_lost == 1 else "steps were"
    return f"{words}; {paid_and_lost:,} {was} paid for and lost when the run was killed"


def _write_tensors(folder: RunFolder, name: str, schema: str, tensors: dict[str, Tensor]) -> None:
    own = {key: value.detach().cpu().clone() for key, value in tensors.items()}
    folder.write_with(name, lambda path: save_tensors(own, path, {"schema": schema}))
