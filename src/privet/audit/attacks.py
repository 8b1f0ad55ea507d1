"""Attacks as users fear them, on models and sets of public examples: without privacy, and with.

What is attacked is made here, and thrown away: an attack says what a recipe gives away at an ε, not
what a run did. It proves nothing; the guarantee is about every attack, these are two.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from privet import __version__
from privet.audit.coins import tossed
from privet.audit.extraction import (
    Extraction,
    SetMaking,
    check_images,
    extracted,
    memorised_set,
    synthetic_set,
)
from privet.audit.membership import (
    Allowed,
    Attack,
    Estimate,
    allowed_figures,
    likelihood_ratios,
)
from privet.audit.one_run import Coins
from privet.audit.shadows import ShadowTraining, shadow_models
from privet.audit.trials import OnTrial, Terms, planted
from privet.data import ImageSet
from privet.errors import ConfigError, DataError
from privet.privacy import Budget, Guarantee, Relation
from privet.public import PublicRows
from privet.runs.attack_story import LIRA, NOT_PRIVATE, SCHEMA, THRESHOLD

_LEAST_MODELS, _LEAST_EXAMPLES = 4, 40
_ASIDE = 5  # one of so many images serves as public ones for synthesis
DECLARED = (
    "the examples were declared public: models learned from them without privacy, and some of "
    "them are shown"
)
NO_NOISE = "no noise"
ProgressOf = Callable[[str], OnTrial]
"""Told of one part of the work, by its name."""


@dataclass(frozen=True, kw_only=True)
class AttackPlan:
    """What is attacked, and how much of it.

    Args:
        epsilons: the ε of each level of private models and sets, to add or remove one example.
        delta: the δ of all of them.
        models: the number of models at every level; each in turn is the target.
        examples: the largest number of examples, members or not.
        training: how models are trained.
        making: how synthetic sets are made; `None` leaves extraction out.
        seed: the seed of coins, weights and the choice of examples, not of private noise.
    """

    epsilons: tuple[float, ...]
    delta: float
    models: int = 16
    examples: int = 1000
    training: ShadowTraining = field(default_factory=ShadowTraining)
    making: SetMaking | None = field(default_factory=SetMaking)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.models < _LEAST_MODELS:
            raise ConfigError(
                f"--models is {self.models}: an attack needs {_LEAST_MODELS} or more, a target and "
                "its shadows."
            )
        if self.examples < _LEAST_EXAMPLES:
            raise ConfigError(f"--examples is {self.examples}: give {_LEAST_EXAMPLES} or more.")
        if len(set(self.epsilons)) < len(self.epsilons):
            raise ConfigError("--epsilon has a value twice: give each once.")
        for epsilon in self.epsilons:
            _ = self.terms(epsilon)

    def terms(self, epsilon: float) -> Terms:
        """The terms of the level with this ε."""
        return Terms(
            budget=Budget(epsilon=epsilon, delta=self.delta),
            relation=Relation.ADD_REMOVE,  # a coin adds an example, it replaces none
            seed=self.seed,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """Public examples, and coins that say which of them are members.

    Args:
        rows: the examples, each a member or not.
        aside: other images, which serve as public ones.
        coins: whether each example is a member, for each model.
    """

    rows: PublicRows
    aside: PublicRows
    coins: Coins

    @classmethod
    def of(cls, images: ImageSet, plan: AttackPlan) -> Candidates:
        """Choose examples of a set in random order, and toss their coins."""
        rng = np.random.default_rng((plan.seed, 3))
        count = min(plan.examples, len(images) - len(images) // _ASIDE)
        if count < _LEAST_EXAMPLES:
            raise DataError(
                f"An attack needs {_LEAST_EXAMPLES * _ASIDE // (_ASIDE - 1)} images or more: give "
                "a larger set."
            )
        order = rng.permutation(len(images))[: count + count // (_ASIDE - 1)]
        rows, aside = (
            PublicRows.from_images(images.take(each)) for each in (order[:count], order[count:])
        )
        if int(rows.targets.min()) == int(rows.targets.max()):
            raise DataError("An attack needs examples of two classes or more: give another set.")
        coins = tossed(plan.models * count, rng).reshape(plan.models, count)
        return cls(rows=rows, aside=aside, coins=coins)


@dataclass(frozen=True, eq=False, kw_only=True)
class Level:
    """What was found at one level of privacy.

    Args:
        name: the name of the level.
        claim: the guarantee of the level; `None` if there is none.
        attacks: the attacks, by name.
        facts: other numbers, by name.
        pairs: pictures of nearest neighbours; `None` but for extraction.
    """

    name: str
    claim: Guarantee | None
    attacks: dict[str, Attack]
    facts: dict[str, Any]
    pairs: Tensor | None = None

    def to_json(self, rng: np.random.Generator) -> dict[str, Any]:
        """The level as plain JSON values; `rng` draws the resamples for intervals."""
        return {
            "level": self.name,
            "guarantee": None if self.claim is None else str(self.claim),
            "epsilon": None if self.claim is None else self.claim.epsilon,
            "delta": None if self.claim is None else self.claim.delta,
            **self.facts,
            "attacks": {name: self._told(each, rng) for name, each in self.attacks.items()},
            **({} if self.pairs is None else {"pairs": _packed(self.pairs.numpy())}),
        }

    def _told(self, attack: Attack, rng: np.random.Generator) -> dict[str, Any]:
        allowed = {} if self.claim is None else allowed_figures(_allowed(self.claim))
        return {
            "figures": {
                name: _figure(each, allowed.get(name))
                for name, each in attack.estimates(rng).items()
            },
            "curve": attack.curve.points(),
        }


def _figure(estimate: Estimate, allowed: float | None) -> dict[str, Any]:
    above = allowed is not None and estimate.low > allowed
    return {**asdict(estimate), "allowed": allowed, "above": above}


def _allowed(claim: Guarantee) -> Allowed:
    return Allowed(claim.epsilon, claim.delta)


def _packed(pixels: NDArray[np.uint8]) -> dict[str, Any]:
    return {
        "shape": list(pixels.shape),
        "pixels": base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode(),
    }


def attack(images: ImageSet, source: str, plan: AttackPlan, progress: ProgressOf) -> dict[str, Any]:
    """Run all attacks; return what they found as plain JSON values.

    Args:
        images: labelled images, which are public.
        source: the name of the images.
        plan: what is attacked, and how much of it.
        progress: gives a function that is told of progress, by the name of a level.
    """
    candidates = Candidates.of(images, plan)
    if plan.making is not None:
        check_images(candidates.rows, plan.making)
    rng = np.random.default_rng((plan.seed, 4))
    levels = {NOT_PRIVATE: None, **{_name(each): each for each in plan.epsilons}}
    membership = [
        attacked_models(candidates, plan, epsilon, progress(f"models, {name}"))
        for name, epsilon in levels.items()
    ]
    extraction = []
    if plan.making is not None:
        extraction.append(attacked_copies(candidates, plan, plan.making))
        for name, epsilon in levels.items():
            bar = progress(f"images, {name if epsilon else NO_NOISE}")
            extraction.append(attacked_set(candidates, plan, plan.making, epsilon, bar))
    return {
        "schema": SCHEMA,
        "privet_version": __version__,
        "declared": DECLARED,
        "data": source,
        "examples": len(candidates.rows),
        "models": plan.models,
        "settings": {
            "epsilons": list(plan.epsilons),
            "delta": plan.delta,
            "seed": plan.seed,
            "training": repr(plan.training),
            "making": None if plan.making is None else repr(plan.making),
        },
        "membership": [each.to_json(rng) for each in membership],
        "extraction": [each.to_json(rng) for each in extraction],
    }


def attacked_models(
    candidates: Candidates, plan: AttackPlan, epsilon: float | None, on_trial: OnTrial
) -> Level:
    """Attack models of one level by LiRA and by one threshold; an ε of `None` means no privacy."""
    terms = None if epsilon is None else plan.terms(epsilon)
    looked = shadow_models(
        candidates.rows,
        candidates.coins,
        plan.training,
        terms,
        seed=plan.seed,
        on_trial=on_trial,
    )
    of_members, of_others = looked.accuracies(candidates.coins)
    ratios = likelihood_ratios(looked.confidences, candidates.coins)
    return Level(
        name=NOT_PRIVATE if epsilon is None else _name(epsilon),
        claim=None if terms is None else terms.claim,
        attacks={
            LIRA: Attack(ratios, candidates.coins),
            THRESHOLD: Attack(looked.confidences, candidates.coins),
        },
        facts={"accuracy_on_members": of_members, "accuracy_on_others": of_others},
    )


def attacked_copies(candidates: Candidates, plan: AttackPlan, making: SetMaking) -> Level:
    """Look for planted copies by nearest neighbours, to see that copies are found."""
    coins = candidates.coins[0]
    rng = np.random.default_rng((plan.seed, 5))
    copied = memorised_set(candidates.rows, coins, making.images, rng)
    return _level("planted copies", None, extracted(copied, candidates.rows.inputs, coins))


def attacked_set(
    candidates: Candidates,
    plan: AttackPlan,
    making: SetMaking,
    epsilon: float | None,
    on_trial: OnTrial,
) -> Level:
    """Look for members in a synthetic set of one level; an ε of `None` leaves out the noise."""
    coins = candidates.coins[0]
    if epsilon is None:
        terms = replace(plan.terms(max(plan.epsilons)), noise_of=planted(0.0))
    else:
        terms = plan.terms(epsilon)
    made = synthetic_set(candidates.rows, coins, candidates.aside, making, terms, on_trial)
    found = extracted(made, candidates.rows.inputs, coins)
    if epsilon is None:
        return _level(NO_NOISE, None, found)
    return _level(_name(epsilon), terms.claim, found)


def _level(name: str, claim: Guarantee | None, found: Extraction) -> Level:
    return Level(
        name=name,
        claim=claim,
        attacks={"distance": found.distances},
        facts={
            "images": found.images,
            "nearer": found.nearer,
            "nearer_by_chance": found.chance,
            "copies": found.copies,
            "chance_copies": found.chance_copies,
        },
        pairs=found.pairs,
    )


def _name(epsilon: float) -> str:
    return f"ε = {epsilon:g}"
