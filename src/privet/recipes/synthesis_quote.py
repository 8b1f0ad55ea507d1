"""`privet synthesize --dry-run`: the plan, its cost, and how much of the signal noise leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from privet.privacy import PLD, GaussianRelease, Guarantee, Plan, Unit, events
from privet.privacy.budget import round_up
from privet.recipes.releases import NoMemory, Release, release_noise
from privet.recipes.run import Session
from privet.recipes.synthesis_config import SynthesisAsked, SynthesisConfig
from privet.recipes.synthesis_methods import Prepared, releases_of
from privet.recipes.synthesis_run import Audience, prepare, staged
from privet.release.signal import BlockSignal, predicted_signals

_LOW = 0.1
_PUBLIC_IMAGES = 1000


@dataclass(frozen=True, kw_only=True)
class SynthesisQuote:
    """What a run would do."""

    config: SynthesisConfig
    noise_multiplier: float
    coordinates: int
    plan: Plan
    guarantee: Guarantee
    signals: tuple[BlockSignal, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values: an ε with everything that belongs to it."""
        return {
            **self.config.to_json()["system"],
            "noise_multiplier": self.noise_multiplier,
            "coordinates": self.coordinates,
            "epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "relation": self.guarantee.relation.value,
            "unit": self.guarantee.unit.value,
            "accountant": self.guarantee.accountant,
            "events": events.to_json(self.plan.events),
            "signal_to_noise": {each.name: each.ratio for each in self.signals},
        }

    def in_words(self) -> dict[str, object]:
        """For a terminal."""
        words: dict[str, object] = {
            "method": self.config.to_json()["system"]["kind"],
            "released numbers": f"{self.coordinates:,}",
            "noise multiplier": f"{round_up(self.noise_multiplier, 4):g}",
            "plan": self.plan,
            "guarantee": self.guarantee,
        }
        if self.signals:
            words["signal over noise"] = "predicted from public images"
        return words | {f"  {each.name}": f"{each.ratio:.3g}" for each in self.signals}


def quote(asked: SynthesisAsked, listener: Audience) -> SynthesisQuote:
    """Everything that is decided before a private row is read, refusals included."""
    sets, config = staged(asked, Session(out=Path()), unread=True)
    prepared = prepare(sets, config, 1, NoMemory(), listener)
    releases = releases_of(config.system, prepared)
    ratios = [each.noise_ratio for each in releases]
    noise = release_noise(config.budget, config.relation, ratios)
    plan = Plan.of(*(GaussianRelease(noise_multiplier=noise * each) for each in ratios))
    signals = _signals(config, prepared, releases, noise)
    for sentence in warnings(config, signals):
        listener.note(sentence)
    return SynthesisQuote(
        config=config,
        noise_multiplier=noise,
        coordinates=sum(
            block.numel() for each in releases for block in each.embedding.zeros().values()
        ),
        plan=plan,
        guarantee=Guarantee(
            epsilon=PLD().epsilon(plan.events, config.budget.delta, config.relation),
            delta=config.budget.delta,
            relation=config.relation,
            unit=Unit.EXAMPLE,
            accountant=PLD().name,
        ),
        signals=signals,
    )


def _signals(
    config: SynthesisConfig, prepared: Prepared, releases: list[Release], noise: float
) -> tuple[BlockSignal, ...]:
    """Of the first release, for classes of equal size."""
    if prepared.public is None or config.declared_size is None:
        return ()
    first = releases[0]
    totals = torch.full((prepared.num_classes,), config.declared_size / prepared.num_classes)
    images = prepared.public[:: max(1, len(prepared.public) // _PUBLIC_IMAGES)]
    return tuple(predicted_signals(first.embedding, images, None, first.clip_norm, noise, totals))


def warnings(config: SynthesisConfig, signals: tuple[BlockSignal, ...]) -> list[str]:
    """What is allowed and yet worth a sentence."""
    if config.declared_size is None:
        return ["Declare the number of private images (--declared-size) to see what noise leaves."]
    low = [each for each in signals if each.ratio < _LOW]
    if signals and len(low) == len(signals):
        return [
            f"At ε = {config.budget.epsilon:g} noise swamps every block of this release: spend "
            "more, or release fewer numbers."
        ]
    return [
        f"Noise swamps {each.name} (signal over noise {each.ratio:.2g}): make it smaller."
        for each in low
    ]
