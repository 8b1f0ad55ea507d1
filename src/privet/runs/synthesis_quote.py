"""`privet synthesize --dry-run`: the plan, its cost, and how much of the signal noise leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from privet.hedge import GaussianSum
from privet.privacy import PLD, Guarantee, Plan, events
from privet.privacy.budget import decimals, round_up
from privet.privacy.splits import Split
from privet.recipes.releases import NoMemory, Release, other_events
from privet.recipes.synthesis_methods import Prepared, releases_of
from privet.release.embedding import COUNTS
from privet.release.signal import BlockSignal, predicted_signals
from privet.runs.listening import Listener
from privet.runs.run_ledger import Terms
from privet.runs.run_terms import delta_warnings
from privet.runs.saved_config import Saved
from privet.runs.synthesis_config import SynthesisAsked
from privet.runs.synthesis_stage import SynthesisStage, staged

_LOW = 0.1
_PUBLIC_ROWS = 1000


class Settled(Saved, Terms, Protocol):
    """What a configuration says of a release, be it of images or of a table."""

    @property
    def split(self) -> Split:
        """Which rows are private."""

    @property
    def portion(self) -> str | None:
        """The portion of the ledger that counts the run; None for none."""

    @property
    def declared_size(self) -> float | None:
        """The number of private units as the owner declares it; None if not."""

    @property
    def num_classes(self) -> int:
        """How many classes they are divided among."""


class Outlined(Protocol):
    """A run whose releases are known."""

    @property
    def config(self) -> Settled:
        """The configuration, which decides the releases."""

    @property
    def mechanisms(self) -> list[GaussianSum]:
        """The mechanism of each release."""

    @property
    def plan(self) -> Plan:
        """All that will happen to private rows."""


@dataclass(frozen=True, kw_only=True)
class SynthesisQuote:
    """What a run of `privet synthesize` would do and cost."""

    config: Settled
    noise_multiplier: float
    coordinates: int
    plan: Plan
    guarantee: Guarantee
    signals: tuple[BlockSignal, ...]
    choices: tuple[str, ...]
    noun: str = "images"

    @property
    def alone(self) -> dict[str, float]:
        """ε of the releases, and of an encoder's training, each without the other."""
        before, found = other_events(self.plan), {}
        releases = [each for each in self.plan.events if each not in before]
        for name, some in (("encoder", before), ("releases", releases)):
            if some:
                terms = self.guarantee
                found[name] = PLD().epsilon(some, terms.delta, terms.relation)
        return found

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values: an ε with everything that belongs to it."""
        return {
            **self.config.to_json()["system"],
            "noise_multiplier": self.noise_multiplier,
            "coordinates": self.coordinates,
            **self.guarantee.to_json(),
            "events": events.to_json(self.plan.events),
            "epsilon_alone": self.alone,
            "choices": list(self.choices),
            "signal_to_noise": {each.name: each.ratio for each in self.signals},
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        words: dict[str, object] = {
            "method": self.config.to_json()["system"]["kind"],
            "released numbers": f"{self.coordinates:,}",
            "noise multiplier": f"{round_up(self.noise_multiplier, 4):g}",
            "plan": self.plan,
            "guarantee": self.guarantee,
        }
        if "encoder" in self.alone:
            words |= {
                f"  {name} alone": f"ε = {decimals(round_up(cost, 3))}"
                for name, cost in self.alone.items()
            }
        if self.signals:
            words["signal over noise"] = f"predicted from public {self.noun}"
        return words | {f"  {each.name}": f"{each.ratio:.3g}" for each in self.signals}


def quote(asked: SynthesisAsked, listener: Listener) -> SynthesisQuote:
    """Decide all that is decided before a private row is read, refusals included."""
    stage = staged(asked, unread=True)
    stage.require_room()
    signals: tuple[BlockSignal, ...] = ()
    if stage.lessons is not None:
        listener.note("What noise leaves is not foretold of an encoder that is still to learn.")
    elif stage.config.declared_size is None or stage.public is None:
        listener.note("Give --declared-size and public images to see what noise leaves.")
    else:
        signals = predicted(stage, stage.prepared(1, NoMemory(), listener))
    for sentence in (*stage.sets.notes, *stage.choices, *warnings(stage, signals)):
        listener.note(sentence)
    return SynthesisQuote(
        config=stage.config,
        noise_multiplier=stage.mechanisms[0].noise_multiplier,
        coordinates=sum(each.embedding.num_coordinates for each in stage.outline),
        plan=stage.plan,
        guarantee=guarantee_of(stage),
        signals=signals,
        choices=stage.choices,
    )


def predicted(stage: SynthesisStage, prepared: Prepared) -> tuple[BlockSignal, ...]:
    """Predict signal over noise of the first release; empty without public images and a size.

    Classes are taken to be equally large.
    """
    size, public = stage.config.declared_size, stage.public
    if size is None or public is None or stage.lessons is not None:
        return ()
    release, mechanism = releases_of(stage.config.system, prepared)[0], stage.mechanisms[0]
    labels = public.targets if stage.knows_classes else None
    return signals_of(release, mechanism, public.inputs, labels, size)


def signals_of(
    release: Release, mechanism: GaussianSum, public: Tensor, labels: Tensor | None, size: float
) -> tuple[BlockSignal, ...]:
    """Predict signal over noise of every block of a release.

    Private rows are taken to be like public ones, in classes of equal size.

    Args:
        release: the release to be paid for.
        mechanism: its mechanism: clip norm and noise.
        public: public rows, some of which are looked at.
        labels: their labels; None where they have nothing to do with the classes.
        size: the number of private units.
    """
    some = slice(None, None, max(1, len(public) // _PUBLIC_ROWS))
    classes = release.embedding.num_classes
    return tuple(
        predicted_signals(
            release.embedding,
            public[some],
            None if labels is None else labels[some],
            mechanism.clip_norm,
            mechanism.noise_multiplier,
            torch.full((classes,), size / classes),
        )
    )


def warnings(stage: Outlined, signals: tuple[BlockSignal, ...]) -> list[str]:
    """Sentences about what is allowed and yet worth one before it is paid for."""
    config = stage.config
    large = delta_warnings(config.budget.delta, config.declared_size, config.unit.value)
    return [*large, *swamped(stage, signals)]


def swamped(stage: Outlined, signals: tuple[BlockSignal, ...]) -> list[str]:
    """Sentences about what noise swamps."""
    config = stage.config
    if not signals:
        return _hopeless(stage)
    moments = [each for each in signals if not each.name.startswith(COUNTS)]
    best = max((each.ratio for each in moments), default=_LOW)
    if best < _LOW:
        return [
            f"At ε = {config.budget.epsilon:g} noise swamps every block of this release (signal "
            f"over noise {best:.2g} or less): spend more, or release fewer numbers."
        ]
    return [
        f"Noise swamps {each.name} (signal over noise {each.ratio:.2g}): "
        + ("make it smaller." if each in moments else "raise count_share.")
        for each in signals
        if each.ratio < _LOW
    ]


def _hopeless(stage: Outlined) -> list[str]:
    """Warnings where nothing is public: no sum is longer than its images' clip norms together."""
    config, noise = stage.config, stage.mechanisms[0].noise_multiplier
    if config.declared_size is None or noise < config.declared_size / config.num_classes:
        return []
    return [
        f"At ε = {config.budget.epsilon:g} every released number has more noise than a class of "
        "average size could have signal: spend more, or make fewer classes."
    ]


def guarantee_of(stage: Outlined) -> Guarantee:
    """The guarantee of the whole plan."""
    budget, relation = stage.config.budget, stage.config.relation
    return Guarantee(
        epsilon=PLD().epsilon(stage.plan.events, budget.delta, relation),
        delta=budget.delta,
        relation=relation,
        unit=stage.config.unit,
        accountant=PLD().name,
    )
