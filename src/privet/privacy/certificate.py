"""What a run promises, or several together, in a form that travels with their results.

Nothing in a certificate is a function of the private data: no hash of it, no exact size, no date.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privet import __version__
from privet.errors import ConfigError, PrivacyError
from privet.plain_json import WRONG_VALUES
from privet.privacy import events
from privet.privacy.accountants import PLD, RDP, accountant_version, tightest
from privet.privacy.budget import Guarantee, Relation, Unit, decimals, round_up
from privet.privacy.events import Plan, Selection
from privet.privacy.portions import check_portions, lives, word
from privet.privacy.spends import Spend, cost_of, plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from privet.privacy.federated import FederatedCertificate
    from privet.privacy.ledger import Ledger
    from privet.privacy.reservation import Reservation

SCHEMA = "privet.certificate/1"
_SLACK = 1e-4  # between versions of an accountant
_TIGHTER = 0.01  # by as much a later one may be
PUBLIC_SCHEMA = "privet.public/1"

SETTINGS = "every setting of the run, chosen without looking at private rows"
ALWAYS_PUBLIC = (
    "the layout of the data: classes, sizes, columns",
    "the shares of the split into private, public and test",
    SETTINGS,
)

NOTHING_PRIVATE = (
    "No private row was touched. Everything comes from images that were declared public, and may "
    "repeat them: there is no guarantee for those."
)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The guarantee of one run, or of several together, and everything it rests on.

    Args:
        guarantee: the ε and δ of everything together, and what they mean.
        plan: every event that was paid for.
        composition: how the ledger adds up what else is done to the same data.
        public: what was treated as public.
        declared: numbers that the owner declared, by name.
        outside: names of what looked at private rows outside the guarantee.
        seeded: whether noise came from a seed, so that nothing is private.
        accountant_version: the library that computed the cost.
        privet_version: the Privet that wrote the certificate.
        spends: what each run did, if there are several or they lie in portions.
        secure_noise: whether noise was drawn on a grid, from bits of the operating system.
    """

    guarantee: Guarantee
    plan: Plan
    composition: str
    public: tuple[str, ...]
    declared: Mapping[str, float]
    outside: tuple[str, ...]
    seeded: bool
    accountant_version: str
    privet_version: str
    spends: tuple[Spend, ...] = ()
    secure_noise: bool = False

    def __post_init__(self) -> None:
        if not self.spends:
            return
        if plan_of(self.spends) != self.plan:
            raise ConfigError("The events of runs are not all events.")
        if any(each.portion is not None for each in self.spends):
            check_portions(self.guarantee.relation, self.guarantee.unit)

    @property
    def private(self) -> bool:
        """Whether the run's outputs may be treated as private at all."""
        return not self.seeded

    @property
    def statement(self) -> str:
        """The guarantee in plain words."""
        if self.seeded:
            return (
                "This run is NOT private: its noise came from a given seed, so anyone who knows "
                "the seed can subtract it. Seeded runs are for tests."
            )
        said = (self._promise_in_words(), self._choice_in_words(), self._limits_in_words())
        return " ".join(filter(None, said))

    def to_json(self) -> dict[str, Any]:
        """The certificate as plain JSON values, with the version of its layout."""
        return {
            "schema": SCHEMA,
            "private": self.private,
            **self.guarantee.to_json(),
            **({} if self.private else {"epsilon": None}),
            "accountant_version": self.accountant_version,
            "composition_across_runs": self.composition,
            "events": events.to_json(self.plan.events),
            **({"spends": [each.to_json() for each in self.spends]} if self.spends else {}),
            "public": list(self.public),
            "declared": dict(self.declared),
            "outside_guarantee": list(self.outside),
            "seeded_noise": self.seeded,
            **({"secure_noise": True} if self.secure_noise else {}),
            "statement": self.statement,
            "privet_version": self.privet_version,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Certificate:
        """Read a certificate from plain JSON values; another layout is refused."""
        if not isinstance(body, dict):
            raise PrivacyError("This certificate is damaged: put back a copy.")
        if body.get("schema") != SCHEMA:
            raise PrivacyError(
                f"This certificate has the layout {body.get('schema')!r}, not {SCHEMA!r}: "
                "read it with the Privet that wrote it."
            )
        try:
            return _from_fields(body)
        except (ConfigError, PrivacyError, *WRONG_VALUES) as error:
            raise PrivacyError(
                f"This certificate is damaged ({error!r}): put back a copy."
            ) from None

    def check_events(self, where: str) -> None:
        """Refuse a certificate whose events do not cost what it says.

        Args:
            where: the file of the certificate, for the refusal.
        """
        accountant = {each.name: each for each in (PLD(), RDP())}.get(self.guarantee.accountant)
        if accountant is None:
            raise PrivacyError(
                f"{where} names the accountant {self.guarantee.accountant!r}, which is not known: "
                "nothing in it can be believed."
            )
        promised = self.guarantee
        spends = self.spends or (Spend(run="this run", plan=self.plan),)
        cost = cost_of(spends, accountant, promised.delta, promised.relation)
        least = 0.0 if self.seeded else promised.epsilon * (1 - _TIGHTER)
        if not least <= cost <= promised.epsilon * (1 + _SLACK):
            raise PrivacyError(
                f"{where} promises ε = {decimals(round_up(promised.epsilon, 3))}, but its events "
                f"cost ε = {decimals(round_up(cost, 3))}: it was edited, so believe nothing in it."
            )

    def dumps(self) -> str:
        """The text of `certificate.json`."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"

    def _promise_in_words(self) -> str:
        unit, relation = self.guarantee.unit.value, self.guarantee.relation
        otherwise = "absent from the private data"
        if relation is Relation.REPLACE_ONE:
            otherwise = "replaced by any other"
        return (
            f"Whatever anyone learns from the outputs of {self._runs}, they could have learned "
            f"almost as well had any one {unit} been {otherwise}: to {relation.verb} one {unit} "
            f"changes the probability of every outcome by at most a factor of "
            f"e^{decimals(round_up(self.guarantee.epsilon, 3))} plus an additional "
            f"{self.guarantee.delta:g} ({self.guarantee})."
        )

    def _choice_in_words(self) -> str:
        """How the kept result was chosen among trials, in words; empty without trials."""
        laws = dict.fromkeys(
            str(each.trials) for each in self.plan.events if isinstance(each, Selection)
        )
        if not laws:
            return ""
        return (
            "That includes the choice of settings: what was kept is the best of a random number of "
            f"trials ({'; '.join(laws)}) by rows that are not private. How many there were, and "
            "what became of the others, is no output: whoever learns that as well is not covered."
        )

    @property
    def _runs(self) -> str:
        if len(self.spends) < 2:
            return "this run"
        return f"these {len(self.spends)} runs together"

    def _limits_in_words(self) -> str:
        limits = (
            f"It covers {self._runs.removesuffix(' together')} alone; runs on the same data add up "
            f"in their ledger. {self._portions_in_words()}It says "
            "nothing of what is true of the population, of data treated as public, or of settings "
            "that someone chose by looking at private data."
        )
        if self.outside:
            limits += (
                " NOT covered, since they looked at private rows outside the guarantee: "
                + ", ".join(self.outside)
                + "."
            )
        return limits

    def _portions_in_words(self) -> str:
        """What the guarantee rests on where there are several runs or portions, in words."""
        said = ""
        names = dict.fromkeys(each.portion for each in self.spends if each.portion is not None)
        if names:
            said = (
                f"Portions of the ledger, here {', '.join(map(repr, names))}, are counted beside "
                f"each other and not added up, under {word(self.guarantee.unit)}. "
            )
        if any(len(runs) > 1 for runs in lives((each.portion, (each,)) for each in self.spends)):
            said += (
                "If the noise of one of these runs was chosen by what another had shown, what "
                f"bounds them together is their ledger: {self.composition}. "
            )
        return said


def nothing_private() -> dict[str, Any]:
    """JSON values in the place of a certificate, where no private row was touched."""
    return {"schema": PUBLIC_SCHEMA, "statement": NOTHING_PRIVATE}


def read_certificate(body: Mapping[str, Any]) -> Certificate | None:
    """Read a certificate from plain JSON values; `None` if nothing private was touched."""
    public = isinstance(body, dict) and body.get("schema") == PUBLIC_SCHEMA
    return None if public else Certificate.from_json(body)


def as_json(certificate: Certificate | FederatedCertificate | None) -> dict[str, Any]:
    """A certificate as plain JSON values; `None` stands for no private row touched."""
    return nothing_private() if certificate is None else certificate.to_json()


def promise(certificate: Certificate | FederatedCertificate | None) -> str:
    """One line that states the guarantee, or that there is none."""
    if certificate is None:
        return NOTHING_PRIVATE
    return str(certificate.guarantee) if certificate.private else certificate.statement


def certify(reservation: Reservation, *, public: Sequence[str] = ()) -> Certificate:
    """Make the certificate of a reservation's whole plan, whether or not it ran to its end.

    Args:
        reservation: the reservation that the run drew on.
        public: what else was treated as public.
    """
    record = reservation.record
    plan, portion = reservation.plan, record.portion
    return Certificate(
        guarantee=reservation.guarantee,
        plan=plan,
        composition=reservation.ledger.composition,
        public=(*ALWAYS_PUBLIC, *public),
        declared={} if record.declared_size is None else {"units": record.declared_size},
        outside=tuple(dict.fromkeys(record.outside)),
        seeded=record.seeded,
        accountant_version=accountant_version(),
        privet_version=__version__,
        spends=() if portion is None else (Spend(run="this run", plan=plan, portion=portion),),
        secure_noise=reservation.ledger.secure_noise,
    )


def certify_together(runs: Mapping[str, Reservation], *, public: Sequence[str] = ()) -> Certificate:
    """Make one certificate for the whole plans of several runs.

    Guarantees:
        Runs of one ledger are in the portions that it has them in, and all others add up. Nobody
        gave a word for several ledgers together: what was drawn on them adds up.

    Args:
        runs: the reservation of each run, by name.
        public: what else was treated as public.
    """
    ledgers = {each.ledger.path: each.ledger for each in runs.values()}
    ledger, *others = ledgers.values()
    for other in others:
        if ledger.guarantee(0.0) != other.guarantee(0.0):
            raise PrivacyError(
                f"{ledger.path} and {other.path} have other δ, relations or units: what was drawn "
                "on them has no common guarantee."
            )
    records = {name: each.record for name, each in runs.items()}
    spends = tuple(
        Spend(run=name, plan=each.plan, portion=None if others else records[name].portion)
        for name, each in runs.items()
    )
    plan = plan_of(spends)
    epsilon = cost_of(spends, tightest(plan.events), ledger.budget.delta, ledger.relation)
    sizes = {name: each.declared_size for name, each in records.items()}
    return Certificate(
        guarantee=ledger.guarantee(epsilon, plan),
        plan=plan,
        composition=_kept_by(*ledgers.values()),
        public=(*ALWAYS_PUBLIC, *public),
        declared={f"units of {name}": size for name, size in sizes.items() if size is not None},
        outside=tuple(dict.fromkeys(door for each in records.values() for door in each.outside)),
        seeded=any(each.seeded for each in records.values()),
        accountant_version=accountant_version(),
        privet_version=__version__,
        spends=spends,
        secure_noise=all(each.secure_noise for each in ledgers.values()),
    )


def _kept_by(ledger: Ledger, *others: Ledger) -> str:
    if others:
        return f"none, since they drew on {1 + len(others)} ledgers"
    budget = ledger.budget
    kept = f"{ledger.composition}, ε ≤ {budget.epsilon:g} at δ = {budget.delta:g} for all its runs"
    if any(each.seeded or each.outside for each in ledger.records()):
        kept += " but those whose noise was seeded or that looked outside the guarantee"
    return kept


def _from_fields(body: Mapping[str, Any]) -> Certificate:
    plan = Plan(events.from_json(body["events"]))
    guarantee = Guarantee(
        epsilon=float("inf") if body["epsilon"] is None else float(body["epsilon"]),
        delta=float(body["delta"]),
        relation=Relation(body["relation"]),
        unit=Unit(body["unit"]),
        accountant=str(body["accountant"]),
    )
    return Certificate(
        guarantee=guarantee,
        plan=plan,
        composition=str(body["composition_across_runs"]),
        public=_texts(body["public"]),
        declared={str(name): float(size) for name, size in body["declared"].items()},
        outside=_texts(body["outside_guarantee"]),
        seeded=bool(body["seeded_noise"]),
        accountant_version=str(body["accountant_version"]),
        privet_version=str(body["privet_version"]),
        spends=tuple(map(Spend.from_json, body.get("spends", ()))),
        secure_noise=bool(body.get("secure_noise", False)),
    )


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise TypeError(f"{values!r} is no list of texts")
    return tuple(values)
