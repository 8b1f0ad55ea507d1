"""What pages on runs of any command have in common: privacy, settings, how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from privet.data.guard import shown
from privet.errors import DataError, LedgerError
from privet.plain_json import parsed
from privet.privacy import Certificate, Ledger
from privet.privacy.budget import decimals, round_up
from privet.privacy.certificate import NOTHING_PRIVATE
from privet.privacy.federated import FederatedCertificate
from privet.privacy.overview import overview
from privet.report import Bar, Fact, Privacy
from privet.runs.federated_set import FEDERATE
from privet.runs.run_certificate import certificate_of
from privet.runs.run_folder import CONFIG, METRICS, STATE, RunFolder

_PLACES = ("data", "public", "test", "synthetic", "schema", "ledger", "encoder", "encoder_data")
_LONGEST = 200


def privacy_of(folder: RunFolder) -> Privacy:
    """Read what a run promises from its certificate, which is checked, and from its ledger."""
    certificate = certificate_of(folder)
    if certificate is None:
        return Privacy(
            private=True, guarantee="no private row was touched", statement=NOTHING_PRIVATE
        )
    if isinstance(certificate, FederatedCertificate):
        return _privacy_of_parties(certificate)
    budget, note = _budget(folder)
    return Privacy(
        private=certificate.private,
        guarantee=str(certificate.guarantee)
        if certificate.private
        else "seeded noise: NOT private",
        statement=certificate.statement,
        events=tuple(map(str, certificate.plan.events)),
        facts=tuple(_facts(certificate)),
        public=certificate.public,
        outside=certificate.outside,
        budget=budget,
        budget_note=note,
    )


def _privacy_of_parties(certificate: FederatedCertificate) -> Privacy:
    """Tell every party's own privacy, by its name; their ledgers are not here."""
    parties = {shown(name): each for name, each in certificate.parties.items()}
    epsilon, delta = certificate.everywhere
    several = f"ε ≤ {decimals(round_up(epsilon, 3))}, δ ≤ {delta:g}" if certificate.private else ""
    return Privacy(
        private=certificate.private,
        guarantee=shown(certificate.guarantee) if certificate.private else "NOT private",
        statement=shown(certificate.statement),
        events=tuple(
            f"{name}: {event}" for name, each in parties.items() for event in each.plan.events
        ),
        facts=(
            *(
                Fact(f"{name}, {fact.name}", fact.value)
                for name, each in parties.items()
                for fact in _facts(each)
            ),
            *([Fact("someone with all parties", several)] if several else []),
        ),
        public=tuple(dict.fromkeys(text for each in parties.values() for text in each.public)),
        outside=tuple(f"{name}: {text}" for name, each in parties.items() for text in each.outside),
    )


def _facts(certificate: Certificate) -> Iterator[Fact]:
    guarantee = certificate.guarantee
    if certificate.private:
        yield Fact("ε", decimals(round_up(guarantee.epsilon, 3)))
    yield Fact("δ", f"{guarantee.delta:g}")
    yield Fact("relation", f"{guarantee.relation.verb} one {guarantee.unit.value}")
    yield Fact("unit of privacy", guarantee.unit.value)
    yield Fact("accountant", f"{guarantee.accountant} ({certificate.accountant_version})")
    yield Fact("across runs", certificate.composition)
    for each in certificate.spends:
        portion = "" if each.portion is None else f", in the portion {shown(each.portion)}"
        yield Fact(f"spent by {shown(each.run)}", f"{each.plan}{portion}")
    for name, value in certificate.declared.items():
        yield Fact(f"declared number of {name}", f"{value:,g}")


def _budget(folder: RunFolder) -> tuple[tuple[Bar, ...], str]:
    """Bars of what every run reserved of the owner's budget; empty if the ledger is not here."""
    state = folder.read(STATE) if folder.has(STATE) else {}
    try:
        with closing(Ledger.open(folder / str(state["ledger"]))) as ledger:
            view = overview(ledger)
    except (KeyError, DataError, LedgerError, OSError):
        return (), ""
    whole, own = view["epsilon"], (state.get("reservation"), *state.get("reservations", ()))
    bars = tuple(
        Bar(
            shown(run["label"]),
            min(1.0, run["epsilon"] / whole),
            _reserved(run["epsilon"]),
            own=run["id"] in own,
        )
        for run in view["reservations"]
    )
    left = Bar(
        "left for one more release",
        view["remaining_epsilon"] / whole,
        f"ε ≤ {decimals(view['remaining_epsilon'])}",
        own=False,
    )
    note = (
        f"What was reserved of the owner's budget of {view['budget']}. The runs' ε do not simply "
        f"add up: the ledger composes them by an {view['composition']}."
    )
    if view["portions"]:
        note += f" Portions count beside each other, by {view['portions_rest_on']}."
    return (*bars, left), note


def _reserved(epsilon: float) -> str:
    """Write ε of a reservation; who reserves nothing may only look, which is not private."""
    return f"ε = {decimals(round_up(epsilon, 3))}" if epsilon else "NOT PRIVATE"


def settings_of(folder: RunFolder) -> tuple[Fact, ...]:
    """List all settings of a run; of paths, the last names: a page is there to be passed on."""
    stored = folder.read(CONFIG)
    body = stored["agreement" if folder.command == FEDERATE else "config"]
    return (*_flat("", body), *_flat("synthetic", stored.get("release", {})))


def _flat(name: str, value: Any) -> Iterator[Fact]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), each)
        return
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if isinstance(value, str):
        text = _last_name(text)
    yield Fact(shown(name), shown(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"))


def versions_of(folder: RunFolder) -> tuple[Fact, ...]:
    """The version of Privet that made the run."""
    return (Fact("run by", f"Privet {shown(folder.read(CONFIG)['privet_version'])}"),)


def command_of(folder: RunFolder, **others: object) -> str:
    """The command that someone types to make the run again."""
    stored = folder.read(CONFIG)
    if folder.command == FEDERATE:
        asked = {name: each for name, each in stored["server"].items() if name != "out"}
        words = ["privet", folder.command, "server"]
    else:
        tuning = stored.get("tuning")
        asked = dict(stored["asked"] if tuning is None else tuning["asked"])
        words = ["privet", folder.command if tuning is None else "tune", _place(asked.pop("data"))]
        asked |= {} if tuning is None else tuning["words"]
    for name, value in (asked | others).items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            words += [word for each in value for word in (option, shown(each))]
        elif value is True:
            words.append(option)
        elif value is not False and value is not None:
            told = _place(value) if name in _PLACES else _number(value)
            words += [option, told]
    return shlex.join([*words, "--out", shown(name_of(folder))])


def name_of(folder: RunFolder) -> str:
    """The last name of the folder's path."""
    return shown(folder.path.resolve().name)


def tested_on(evaluation: Mapping[str, Any]) -> str:
    """The words for where test rows came from, without a place on somebody's disk."""
    return _place(evaluation["test"])


def metric_lines(folder: RunFolder) -> list[dict[str, Any]]:
    """Read all lines of metrics, in the order in which they were written."""
    if not folder.has(METRICS):
        return []
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8").splitlines()
        return [{**each, "step": int(each["step"])} for each in map(parsed, lines)]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{shown(folder / METRICS)} is damaged ({error}): remove it to go without curves."
        ) from None


def source_of(folder: RunFolder) -> str:
    """The words for the data that a run learned from: the last name of its path."""
    if folder.command == FEDERATE:
        return "noised sums of several parties"
    return _place(folder.read(CONFIG)["asked"]["data"])


def _place(value: object) -> str:
    return shown(_last_name(str(value)))


def _last_name(text: str) -> str:
    return Path(text).name if text.startswith(("/", "~")) else text


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(value)
