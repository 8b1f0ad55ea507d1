"""What server and parties say to each other: a few words of JSON, and tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from torch import Tensor

from privet.errors import DataError, PrivacyError
from privet.federate.agreement import Agreement
from privet.plain_json import WRONG_VALUES, parsed
from privet.privacy import Certificate
from privet.recipes.releases import Tensors
from privet.release import Embedding, Moments

_CENTRE = "centre:"
PREPARE = -1
"""The stage at which parties agree, and nothing is spent."""


class Refusal(StrEnum):
    """Why a party did not do what it was asked, and all that it says of it.

    What went wrong in detail stays with the party: a sentence might name a private file.
    """

    EMBEDDING = "it has another encoder, other public images or another seed of projections"
    AGREEMENT = "its settings or classes do not fit the agreement, or it takes part in another one"
    BUDGET = "its ledger does not pay for it"
    GUARANTEE = "going on would break its guarantee"
    DATA = "its data cannot be used"
    BUSY = "it is still at work"
    FAILED = "it failed"


@dataclass(frozen=True, eq=False, kw_only=True)
class Ask:
    """What the server asks of a party.

    Args:
        agreement: what parties agree to, the same in every message.
        stage: the stage whose noised sum is wanted; before the first, parties only agree.
        probe: the server's embedding of fixed images (see `folder_memory`).
        centre: moments of images that the stage is centred on, by part.
    """

    agreement: Agreement
    stage: int
    probe: Tensors = field(default_factory=dict)
    centre: Mapping[str, Moments] = field(default_factory=dict)

    def words(self) -> str:
        """The agreement and the stage, as JSON."""
        return json.dumps({"agreement": self.agreement.to_json(), "stage": self.stage})

    def tensors(self) -> Tensors:
        """The probe and the centre, as named tensors."""
        found = dict(self.probe)
        for name, own in self.centre.items():
            found[f"{_CENTRE}mean:{name}"] = own.mean
            if own.second is not None:
                found[f"{_CENTRE}second:{name}"] = own.second
        return found

    @classmethod
    def read(cls, words: str, tensors: Tensors) -> Ask:
        """Read a message from its `words` and `tensors`."""
        body = _read(words, "The server's message")
        means = _under(tensors, f"{_CENTRE}mean:")
        seconds = _under(tensors, f"{_CENTRE}second:")
        try:
            return cls(
                agreement=Agreement.from_json(body["agreement"]),
                stage=int(body["stage"]),
                probe={k: v for k, v in tensors.items() if not k.startswith(_CENTRE)},
                centre={name: Moments(each, seconds.get(name)) for name, each in means.items()},
            )
        except WRONG_VALUES as error:
            raise DataError(f"The server's message cannot be read ({error!r}).") from None


def centre_of(embedding: Embedding) -> dict[str, Moments]:
    """The moments that a stage is centred on, by part; empty if it has no centre."""
    return {each.name: each.centre for each in embedding.parts if each.centre is not None}


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """What leaves a party: a noised sum or synthetic images whose spend is durable; or a refusal.

    Guarantees:
        Nothing here is a function of private rows but `tensors`, which passed the hedge.

    Args:
        party: the name of the party.
        refusal: why there is nothing else; `None` if there is.
        noise_scale: the standard deviation of the noise in every number of a sum.
        certificate: the certificate of all that the party releases, by its own ledger.
        tensors: blocks of the sum, or images and labels.
    """

    party: str
    refusal: Refusal | None = None
    noise_scale: float | None = None
    certificate: Certificate | None = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    def words(self) -> str:
        """All but the tensors, as JSON."""
        certificate = None if self.certificate is None else self.certificate.to_json()
        refusal = None if self.refusal is None else self.refusal.name
        return json.dumps(
            {
                "party": self.party,
                "refusal": refusal,
                "noise_scale": self.noise_scale,
                "certificate": certificate,
            }
        )

    @classmethod
    def read(cls, words: str, tensors: Tensors, where: str) -> Answer:
        """Read an answer from its `words` and tensors; `where` names who sent it."""
        body = _read(words, where)
        try:
            refusal, scale = body["refusal"], body["noise_scale"]
            certificate = body["certificate"]
            return cls(
                party=str(body["party"]),
                refusal=None if refusal is None else Refusal[refusal],
                noise_scale=None if scale is None else float(scale),
                certificate=None if certificate is None else Certificate.from_json(certificate),
                tensors=tensors,
            )
        except (PrivacyError, *WRONG_VALUES) as error:
            raise DataError(f"{where} sent something that cannot be read ({error!r}).") from None


def _read(words: str, where: str) -> dict[str, Any]:
    try:
        body = parsed(words)
    except (TypeError, ValueError):
        body = None
    if not isinstance(body, dict):
        raise DataError(f"{where} is no JSON object.")
    return body


def _under(tensors: Tensors, prefix: str) -> Tensors:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
