"""`--dry-run`: what a run would do and cost, without a private row and without a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privet.hedge import PoissonSum
from privet.privacy import Guarantee, Plan, events
from privet.privacy.budget import decimals, round_up
from privet.recipes.releases import NoMemory
from privet.recipes.slots import SLOT_NAMES, model_text, slot_text
from privet.release.signal import BlockSignal
from privet.runs.listening import StepListener
from privet.runs.paid_sets import PaidSet
from privet.runs.synthesis_quote import predicted
from privet.runs.train_config import Asked
from privet.runs.train_stage import Stage, staged


@dataclass(frozen=True, kw_only=True)
class ReleaseQuote:
    """The synthetic set that a run would pay for.

    Args:
        share: the share of ε that its release would cost alone.
        reason: the reason for that share.
        images: how many images there would be.
        noise_multiplier: noise multiplier of the release.
        alone: ε of the release and of the steps, each without the other.
        signals: how much of every block noise leaves, where public images foretell it.
    """

    share: float
    reason: str
    images: int
    noise_multiplier: float
    alone: Mapping[str, float]
    signals: tuple[BlockSignal, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "share": self.share,
            "reason": self.reason,
            "images": self.images,
            "noise_multiplier": self.noise_multiplier,
            "epsilon_alone": dict(self.alone),
            "signal_to_noise": {each.name: each.ratio for each in self.signals},
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        words: dict[str, object] = {
            f"  {name} alone": f"ε = {decimals(round_up(cost, 3))}"
            for name, cost in self.alone.items()
        }
        words["release"] = f"{self.images:,} synthetic images for {self.share:g} of ε"
        words["release noise multiplier"] = f"{round_up(self.noise_multiplier, 4):g}"
        if self.signals:
            words["signal over noise"] = "predicted from public images"
        return words | {f"  {each.name}": f"{each.ratio:.3g}" for each in self.signals}


@dataclass(frozen=True, kw_only=True)
class TrainingQuote:
    """What a run of `privet train` would do and cost."""

    rows: str
    method: str
    slots: dict[str, str]
    model: str
    num_parameters: int
    mechanism: PoissonSum
    plan: Plan
    guarantee: Guarantee
    steps: int
    expected_batch: float | None
    release: ReleaseQuote | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values: an ε with everything that belongs to it."""
        return {
            "method": self.method,
            "slots": self.slots,
            "model": self.model,
            "parameters": self.num_parameters,
            "steps": self.steps,
            "sampling_rate": self.mechanism.sampling_rate,
            "expected_batch": self.expected_batch,
            "clip_norm": self.mechanism.clip_norm,
            "noise_multiplier": self.mechanism.noise_multiplier,
            **self.guarantee.to_json(),
            "events": events.to_json(self.plan.events),
            **({} if self.release is None else {"release": self.release.to_json()}),
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        rate, noise = self.mechanism.sampling_rate, round_up(self.mechanism.noise_multiplier, 4)
        batch = "a count is released first"
        if self.expected_batch is not None:
            batch = f"{self.expected_batch:,.1f} expected {self.rows}"
        return {
            "method": self.method,
            **{f"  {name}": text for name, text in self.slots.items()},
            "model": f"{self.model}, {self.num_parameters:,} parameters",
            "steps": f"{self.steps:,} at rate {rate:.4g} ({batch})",
            "noise multiplier": f"{noise:g} at clip norm {self.mechanism.clip_norm:g}",
            "plan": self.plan,
            "guarantee": self.guarantee,
            **({} if self.release is None else self.release.in_words()),
        }


def quote(asked: Asked, *, noise_seed: int | None, listener: StepListener) -> TrainingQuote:
    """Decide all that is decided before a private row is read, refusals included."""
    stage = staged(asked, noise_seed=noise_seed, unread=True)
    mechanism = stage.noise()
    for sentence in stage.warnings():
        listener.note(sentence)
    plan = stage.plan(mechanism)
    release = None if stage.release is None else _released(stage.release, stage, plan, listener)
    return _quoted(stage, mechanism, release)


def _released(release: PaidSet, stage: Stage, plan: Plan, listener: StepListener) -> ReleaseQuote:
    ready = release.stage.prepared(1, NoMemory(), listener)
    for sentence in release.warnings(ready):
        listener.note(sentence)
    return ReleaseQuote(
        share=release.share,
        reason=release.reason,
        images=release.count,
        noise_multiplier=release.stage.mechanisms[0].noise_multiplier,
        alone=stage.alone(plan),
        signals=predicted(release.stage, ready),
    )


def _quoted(stage: Stage, mechanism: PoissonSum, release: ReleaseQuote | None) -> TrainingQuote:
    config, plan = stage.config, stage.plan(mechanism)
    method = config.training.method
    return TrainingQuote(
        rows=config.units,
        method=config.method,
        slots={name: slot_text(name, getattr(method, name)) for name in SLOT_NAMES},
        model=model_text(config.model),
        num_parameters=stage.num_parameters,
        mechanism=mechanism,
        plan=plan,
        guarantee=stage.guarantee(plan),
        steps=config.training.steps,
        expected_batch=stage.expected_batch(),
        release=release,
    )
