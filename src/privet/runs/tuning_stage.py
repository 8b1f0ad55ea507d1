"""A tuning before anything is spent: every candidate checked, and its noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from privet.errors import ConfigError
from privet.hedge import PoissonSum
from privet.hedge.randomness import require_covered
from privet.privacy import Guarantee, Ledger, Plan, PoissonSteps, Selection, events
from privet.privacy.accountants import RDP
from privet.privacy.budget import round_up
from privet.privacy.calibration import selection
from privet.recipes.presets import METHODS
from privet.recipes.training import noise_for
from privet.runs.listening import StepListener
from privet.runs.reading import read_rows
from privet.runs.run_words import two_digits
from privet.runs.train_config import Asked, RunConfig
from privet.runs.train_stage import staged_with
from privet.runs.trial import Trial
from privet.runs.tuning_config import Search, Settings, told


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Settings that a trial may draw.

    Args:
        settings: the settings that are tried.
        asked: what a run with them is asked for.
        config: the complete configuration that follows from that.
    """

    settings: Settings
    asked: Asked
    config: RunConfig

    @property
    def shape(self) -> tuple[float, int]:
        """Sampling rate and number of steps: all that its cost depends on, but for noise."""
        return self.config.training.sampling_rate, self.config.training.steps

    def steps(self, chosen: Selection) -> PoissonSteps:
        """The steps that a plan has for it."""
        for each in chosen.candidates:
            if (each.sampling_rate, each.steps) == self.shape:
                return each
        raise ConfigError("The reservation was made for other settings: start again.")

    def mechanism(self, chosen: Selection) -> PoissonSum:
        """The mechanism of its steps: clip, noise and sampling."""
        trial = Trial(steps=self.steps(chosen), epsilon=0.0, secure_noise=False)
        return trial.mechanism(self.config.training)

    @property
    def as_trial(self) -> Asked:
        """What is asked of a trial, which draws on no ledger but its own."""
        relation = self.config.relation.value
        return replace(self.asked, ledger=None, portion=None, relation=relation)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """All candidates, of one data set and under one guarantee.

    Args:
        asked: what was asked for, but for what is tried.
        search: what is tried.
        candidates: all candidates, in the order of the search.
        warnings: sentences about any of them.
    """

    asked: Asked
    search: Search
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...]

    @property
    def terms(self) -> RunConfig:
        """The configuration whose budget, relation, unit and ledger are everybody's."""
        return self.candidates[0].config

    def selection(self) -> Selection:
        """Find the least noise for the budget; refuse what a ledger or the grid has no room for."""
        terms = self.terms
        shapes = [each.shape for each in self.candidates]
        found = selection(shapes, self.search.trials, terms.budget, terms.relation)
        for each in self.candidates:
            with _named(each.settings):
                each.mechanism(found)
        terms.require_room(Plan((found,)))
        if terms.ledger is not None:
            with closing(Ledger.open(terms.ledger)) as ledger:
                if ledger.secure_noise:
                    require_covered(ledger.budget, Plan((found,)))
        return found

    def guarantee(self, plan: Plan) -> Guarantee:
        """The guarantee of a plan by itself."""
        terms = self.terms
        return Guarantee(
            epsilon=RDP().epsilon(plan.events, terms.budget.delta, terms.relation),
            delta=terms.budget.delta,
            relation=terms.relation,
            unit=terms.unit,
            accountant=RDP.name,
        )


def staged_tuning(
    asked: Asked, search: Search, *, noise_seed: int | None, device: str, unread: bool = False
) -> Tuning:
    """Read rows once and check every candidate; refuse what cannot work."""
    _ = asked.budget
    _check(asked)
    wanted = [(each, search.applied(asked, each)) for each in search.candidates()]
    if any(own.method is None for _, own in wanted):
        raise ConfigError(f"Give --method: {', '.join(METHODS)}.")
    rows, sets = read_rows(asked.data_choice, unread=unread)
    candidates, warnings = [], {}
    for settings, own in wanted:
        with _named(settings):
            stage = staged_with(own, rows, sets, noise_seed=noise_seed, device=device)
        candidates.append(Candidate(settings=settings, asked=own, config=stage.config))
        warnings.update(dict.fromkeys(stage.warnings()))
    return Tuning(
        asked=asked, search=search, candidates=tuple(candidates), warnings=tuple(warnings)
    )


def _check(asked: Asked) -> None:
    """Refuse what can be refused before anything is read."""
    if asked.test is None:
        raise ConfigError(
            "Trials are compared by rows that are not private: give them with --test, and declare "
            "them so."
        )
    if two_digits(asked.declared_size) is None:
        raise ConfigError(
            "Every trial divides by the number of private rows, which is private: declare it with "
            "--declared-size."
        )
    for name in ("release", "diagnostics"):
        if getattr(asked, name):
            raise ConfigError(f"--{name} is not for trials, of which most are thrown away.")


@contextmanager
def _named(settings: Settings) -> Iterator[None]:
    """Let refusals say which candidate they are about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"With {told(settings)}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class TuningQuote:
    """What a run of `privet tune` would do and cost."""

    tuning: Tuning
    plan: Plan
    noise: Mapping[tuple[float, int], tuple[float, float]]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values: an ε with everything that belongs to it."""
        return {
            "trials": self.tuning.search.to_json()["trials"],
            "candidates": [self._candidate(each) for each in self.tuning.candidates],
            **self.tuning.guarantee(self.plan).to_json(),
            "events": events.to_json(self.plan.events),
        }

    def _candidate(self, candidate: Candidate) -> dict[str, Any]:
        noise, alone = self.noise[candidate.shape]
        rate, steps = candidate.shape
        return {
            "settings": dict(candidate.settings),
            "sampling_rate": rate,
            "steps": steps,
            "clip_norm": candidate.config.training.clip_norm,
            "noise_multiplier": noise,
            "noise_multiplier_of_one_run": alone,
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        number = len(self.tuning.candidates)
        words: dict[str, object] = {
            "trials": self.tuning.search.trials,
            "candidates": f"{number:,}, of which each trial draws one",
        }
        for each in map(self._candidate, self.tuning.candidates):
            noise = round_up(each["noise_multiplier"], 4)
            alone = round_up(each["noise_multiplier_of_one_run"], 4)
            words[f"  {told(each['settings'])}"] = (
                f"{each['steps']:,} steps at rate {each['sampling_rate']:.4g}, noise multiplier "
                f"{noise:g} ({alone:g} for one run without tuning)"
            )
        return {**words, "plan": self.plan, "guarantee": self.tuning.guarantee(self.plan)}


def quote_tuning(
    asked: Asked, search: Search, *, noise_seed: int | None, listener: StepListener
) -> TuningQuote:
    """Decide all that is decided before a private row is read, refusals included."""
    tuning = staged_tuning(asked, search, noise_seed=noise_seed, device="cpu", unread=True)
    for sentence in tuning.warnings:
        listener.note(sentence)
    chosen = tuning.selection()
    terms, noise = tuning.terms, {}
    for each in tuning.candidates:
        if each.shape not in noise:
            alone, _ = noise_for(each.config.training, terms.budget, terms.relation, declared=True)
            noise[each.shape] = (each.steps(chosen).noise_multiplier, alone.noise_multiplier)
    return TuningQuote(tuning=tuning, plan=Plan((chosen,)), noise=noise)
