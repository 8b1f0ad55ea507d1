"""`privet train` from beginning to end: refuse, prepare, reserve, train, certify; or go on.

A run is durable in this order, so that a kill at any moment leaves something that `--resume`
understands: its configuration; its name in the ledger; the reservation; the release of a synthetic
set, if there is one; the divisor; a checkpoint; results. Whatever is paid for twice is counted
twice.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import replace
from typing import Any

from privet import __version__
from privet.errors import ConfigError, PrivacyError, Stopped
from privet.hedge import (
    Hedge,
    PoissonSum,
    Randomness,
    Team,
    released_size,
    size_mechanism,
)
from privet.learn import Engine, EnginePlan, Progress
from privet.learn import checkpoint as checkpoints
from privet.learn.gradients import at_weights, trainable
from privet.measure import Accuracy, Perplexity
from privet.privacy import Reservation
from privet.recipes.training import TrainingStart, expected_rows, prepare, take_steps
from privet.runs.listening import StepListener
from privet.runs.run_folder import (
    CHECKPOINT,
    CONFIG,
    LEDGER,
    RESULT,
    STATE,
    RunFolder,
    understood,
)
from privet.runs.run_ledger import find_or_reserve, open_ledger
from privet.runs.run_metrics import Metrics, begin_events, check_events
from privet.runs.saved_config import require_same
from privet.runs.session import Session
from privet.runs.teamwork import called_together, spread
from privet.runs.train_config import Asked, RunConfig
from privet.runs.train_diagnostics import Diagnostics
from privet.runs.train_log import Costs, Recorder, stoppable
from privet.runs.train_result import RunResult, finished, write_results
from privet.runs.train_stage import Stage, staged
from privet.runs.train_state import RunState
from privet.runs.trial import Trial


def train(
    asked: Asked, session: Session, listener: StepListener, trial: Trial | None = None
) -> RunResult:
    """Start a run, or go on with one.

    Args:
        asked: what was asked for.
        session: how it is carried out.
        listener: told of everything.
        trial: what a tuning decided; None if the run is not one of its trials.

    Raises:
        Stopped: on Ctrl-C, when what was done is saved.
    """
    folder = RunFolder(session.out)
    check_events(folder, asked=session.tensorboard, resume=session.resume)
    try:
        if session.resume:
            return _resume(asked, session, folder, listener, trial)
        return _begin(asked, session, folder, listener, trial)
    except KeyboardInterrupt:
        if session.force:
            raise Stopped("Stopped before anything was spent: run it again.") from None
        raise folder.stopped(began=session.resume) from None


def _begin(
    asked: Asked, session: Session, folder: RunFolder, listener: StepListener, trial: Trial | None
) -> RunResult:
    folder.check_idle()
    folder.check_free(force=session.force)
    stage = staged(asked, noise_seed=session.noise_seed, device=session.device, trial=trial)
    if stage.release is not None:
        stage.release.require_alone(session.team)
    mechanism = stage.noise()
    for sentence in stage.warnings():
        listener.note(sentence)
    with folder.claimed():
        folder.check_free(force=session.force)  # another process may have been quicker
        engine, public_only = None, None
        if stage.release is None:
            stage, engine, public_only = _prepared(stage, listener)
            engine = spread(engine, stage.expected_batch(), session.team)
        kept = folder.clear()
        if kept is not None:
            listener.note(f"The earlier run's ledger is kept as {kept}: what it spent stays spent.")
        _write_config(folder, stage, engine)
        if session.tensorboard:
            begin_events(folder)
        state = _new_state(stage, mechanism, public_only, folder)
        return _run(stage, engine, state, folder, listener, session.team)


def _resume(
    asked: Asked, session: Session, folder: RunFolder, listener: StepListener, trial: Trial | None
) -> RunResult:
    folder.refuse_other_layouts()
    if not folder.holds_run:
        raise ConfigError(f"{folder} holds no run to go on with: start one without --resume.")
    with folder.claimed():
        stored = folder.read(CONFIG)
        config = RunConfig.from_json(stored["config"])
        stage = staged(
            asked.over(stored["asked"]),
            noise_seed=session.noise_seed,
            device=session.device,
            trial=trial,
        )
        require_same(config, stage.config)
        if stage.release is not None:
            stage.release.require_same(stored["release"])
            stage.release.require_alone(session.team)
        if session.tensorboard:
            begin_events(folder)
        if folder.has(RESULT):
            listener.note("The run is done already.")
            return finished(folder)
        stage, engine, state = _recovered(stage, stored, folder, listener)
        return _run(stage, engine, state, folder, listener, session.team)


def _recovered(
    stage: Stage, stored: dict[str, Any], folder: RunFolder, listener: StepListener
) -> tuple[Stage, EnginePlan | None, RunState]:
    """Recover what the killed process knew; warm up again if there is no checkpoint yet."""
    engine = None if stored["engine"] is None else _engine(stored["engine"], folder)
    if stage.release is not None:
        if folder.has(STATE):
            return stage, engine, RunState.from_json(folder.read(STATE))
        return stage, engine, _new_state(stage, stage.noise(), None, folder)
    if folder.has(CHECKPOINT):
        return stage.encoded(), engine, RunState.from_json(folder.read(STATE))
    stage, _, public_only = _prepared(stage, listener, engine)
    if folder.has(STATE):
        return stage, engine, RunState.from_json(folder.read(STATE))
    return stage, engine, _new_state(stage, stage.noise(), public_only, folder)


def _new_state(
    stage: Stage,
    mechanism: PoissonSum,
    public_only: Accuracy | Perplexity | None,
    folder: RunFolder,
) -> RunState:
    """Write the run's state before anything is reserved: the ledger knows the run by its label."""
    state = RunState(
        label=f"train {folder.path.resolve().name} {uuid.uuid4().hex[:8]}",
        ledger=stage.config.ledger or LEDGER,
        mechanism=mechanism,
        public_only=public_only,
    )
    folder.write(STATE, state.to_json())
    return state


def _prepared(
    stage: Stage, listener: StepListener, engine: EnginePlan | None = None
) -> tuple[Stage, EnginePlan, Accuracy | Perplexity | None]:
    """Do all that public rows are for, before the first private one."""
    config = stage.config.training
    if not stage.config.model.sees_inputs:
        listener.note("Computing features of public and test images.")
    stage = stage.encoded()
    own = stage.material.warming(config)
    rows = stage.material.public if own is None else own
    if config.warm_up is not None and rows is not None:
        kind = "public and synthetic" if config.synthetic_warm_up else "public"
        listener.note(
            f"Warming up on {len(rows):,} {kind} {stage.config.rows.noun} for "
            f"{config.warm_up.epochs} epochs."
        )
    found = prepare(stage.network, config, stage.material, stage.keys)
    known = config.warm_up is not None and own is not None
    return stage, engine or found, stage.measured() if known else None


def _run(
    stage: Stage,
    engine: EnginePlan | None,
    state: RunState,
    folder: RunFolder,
    listener: StepListener,
    team: Team,
) -> RunResult:
    """Do all that touches the ledger and private rows; Ctrl-C leaves it to be resumed."""
    release = stage.release
    try:
        ready = None
        if release is not None and not release.made(folder):
            ready = release.prepared(folder, listener, stage.device)
            if state.reservation is None:
                for sentence in release.warnings(ready):
                    listener.note(sentence)
        secure = stage.trial is not None and stage.trial.secure_noise
        with closing(open_ledger(stage.config, state, folder, secure_noise=secure)) as ledger:
            reservation = find_or_reserve(
                ledger,
                state,
                lambda: ledger.reserve(
                    plan=stage.plan(state.mechanism),
                    label=state.label,
                    portion=stage.config.portion,
                    split=stage.split,
                ),
            )
            state = replace(state, reservation=reservation.id)
            folder.write(STATE, state.to_json())
            listener.note(f"Plan: {reservation.plan}; {stage.guarantee(reservation.plan)}.")
            if release is not None:
                release.require_kept(reservation, folder)
                if ready is not None:
                    hedge = release.hedge(reservation, Randomness(stage.noise_seed), stage.device)
                    release.make(ready, hedge, folder, listener)
                stage = stage.with_synthetic(release.images(folder))
                stage, engine, state = _taught(stage, engine, state, folder, listener)
            assert engine is not None
            listener.note(f"Engine: {engine}.")
            if stage.encoder is not None:
                listener.note("Computing features of private images, behind the hedge.")
            hedge = stage.hedge(reservation)
            if state.divisor is None:
                state = replace(state, divisor=_divisor(hedge, stage, reservation))
                folder.write(STATE, state.to_json())
            return _trained(hedge, stage, engine, state, folder, listener, team)
    except KeyboardInterrupt:
        raise Stopped(f"Stopped between steps: go on with {folder.command_to_resume}") from None


def _taught(
    stage: Stage,
    engine: EnginePlan | None,
    state: RunState,
    folder: RunFolder,
    listener: StepListener,
) -> tuple[Stage, EnginePlan, RunState]:
    """Do what only the set that a run paid for makes possible: warm up, choose an engine."""
    if engine is not None and folder.has(CHECKPOINT):
        return stage.encoded(), engine, state
    stage, engine, known = _prepared(stage, listener, engine)
    _write_config(folder, stage, engine)
    state = replace(state, public_only=known)
    folder.write(STATE, state.to_json())
    return stage, engine, state


def _trained(
    hedge: Hedge,
    stage: Stage,
    engine: EnginePlan,
    state: RunState,
    folder: RunFolder,
    listener: StepListener,
    team: Team,
) -> RunResult:
    assert state.divisor is not None
    start = TrainingStart(
        mechanism=state.mechanism,
        divisor=state.divisor,
        engine=engine,
        progress=_progress(stage, folder),
    )
    metrics = Metrics(folder)
    metrics.keep(lambda line: line["step"] <= start.progress.step)
    recorder = _recorder(hedge, stage, start, metrics, folder, listener)
    if not folder.has(CHECKPOINT):
        recorder.save()
    look = Diagnostics(hedge, stage, start, folder)
    called_together(team, stage, start, folder / CHECKPOINT)
    with stoppable(recorder):
        trained = take_steps(
            hedge,
            stage.network,
            stage.config.training,
            stage.material,
            start,
            keys=stage.keys,
            on_step=recorder,
            on_gradient=look,
            team=team,
        )
    recorder.save()
    look(trained.progress.state)
    write_results(hedge.reservation, stage, state, trained.progress, folder)
    return finished(folder)


def _recorder(
    hedge: Hedge,
    stage: Stage,
    start: TrainingStart,
    metrics: Metrics,
    folder: RunFolder,
    listener: StepListener,
) -> Recorder:
    config, reservation = stage.config, hedge.reservation
    costs = (
        Costs(reservation.plan, config.budget.delta, config.relation)
        if stage.trial is None
        else Costs.spent_at_once(stage.trial.epsilon)
    )

    def measure(progress: Progress) -> float | None:
        with at_weights(stage.network, progress.average):
            found = stage.measured()
        return None if found is None else found.overall

    return Recorder(
        folder=folder,
        metrics=metrics,
        course=config.training.course,
        sampling_rate=config.training.sampling_rate,
        expected_rows=start.divisor * config.training.method.views.num_views,
        costs=costs,
        paid=lambda: reservation.spent(start.mechanism.event),
        measure=measure,
        measured="test_perplexity" if stage.material.words else "test_accuracy",
        listener=listener,
        progress=start.progress,
    )


def _write_config(folder: RunFolder, stage: Stage, engine: EnginePlan | None) -> None:
    body = {
        "schema": folder.schema,
        "privet_version": __version__,
        "asked": stage.asked.placed().given,
        "config": stage.config.to_json(),
        "engine": None,
    }
    if engine is not None:
        body["engine"] = {
            "name": engine.engine.name.value,
            "physical_batch": engine.engine.physical_batch,
            "seconds_per_unit": engine.seconds_per_unit,
            "reason": engine.reason,
        }
    if stage.release is not None:
        body["release"] = stage.release.to_json()
    folder.write(CONFIG, body)


def _engine(body: dict[str, Any], folder: RunFolder) -> EnginePlan:
    with understood(folder):
        return EnginePlan(
            engine=Engine(name=body["name"], physical_batch=int(body["physical_batch"])),
            seconds_per_unit={name: float(s) for name, s in body["seconds_per_unit"].items()},
            reason=str(body["reason"]),
        )


def _divisor(hedge: Hedge, stage: Stage, reservation: Reservation) -> float:
    """Find the expected number of rows in a step: by the declared size, or by a count."""
    config = stage.config
    if config.declared_size is not None:
        return expected_rows(config.training, stage.material, hedge.size)
    counting = size_mechanism(config.budget, config.relation)
    if not reservation.remaining(counting.event):
        reservation.close()
        raise PrivacyError(
            f"The run was killed after it paid for a count of the private {config.units} and "
            "before it wrote that down, so it cannot go on: start again with --force or "
            "--declared-size."
        )
    return expected_rows(config.training, stage.material, released_size(hedge, counting))


def _progress(stage: Stage, folder: RunFolder) -> Progress:
    if not folder.has(CHECKPOINT):
        return Progress.start(dict(trainable(stage.network)))
    found = checkpoints.load(folder / CHECKPOINT, str(stage.device))
    checkpoints.require_layout(found, dict(trainable(stage.network)), folder / CHECKPOINT)
    return found
