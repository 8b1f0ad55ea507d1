"""The certificate of a set that several owners released sums for: each one's own guarantee."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privet.errors import PrivacyError
from privet.privacy.budget import decimals, round_up
from privet.privacy.certificate import Certificate

if TYPE_CHECKING:
    from collections.abc import Mapping

FEDERATED_SCHEMA = "privet.federated/1"


@dataclass(frozen=True, kw_only=True)
class FederatedCertificate:
    """The certificates of all parties whose releases went into a set.

    Guarantees:
        Parties hold different rows, and each noised its own sums before they left it. So a row is
        covered by its party's guarantee, whatever other parties and the server did.

    Args:
        parties: each one's certificate, as its own ledger says.
        left_out: why others are not in the set; what they spent is in their ledgers.
    """

    parties: Mapping[str, Certificate]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.parties:
            raise PrivacyError("A federated certificate needs the certificate of a party.")

    @property
    def private(self) -> bool:
        """Whether every party's part is private."""
        return all(each.private for each in self.parties.values())

    @property
    def guarantees(self) -> dict[str, str]:
        """The guarantee of each party in one line, by name."""
        return {
            name: str(each.guarantee) if each.private else "NOT private: its noise was seeded"
            for name, each in self.parties.items()
        }

    @property
    def guarantee(self) -> str:
        """The guarantees of all parties in one line."""
        return "; ".join(f"{name}: {promise}" for name, promise in self.guarantees.items())

    @property
    def everywhere(self) -> tuple[float, float]:
        """ε and δ of someone with one row at every party: their sums (basic composition)."""
        own = [each.guarantee for each in self.parties.values() if each.private]
        epsilon = math.fsum(each.epsilon for each in own) if self.private else math.inf
        return epsilon, math.fsum(each.delta for each in own)

    @property
    def statement(self) -> str:
        """The guarantee in plain words."""
        said = (
            f"{len(self.parties)} parties released noised sums of their own rows, or images made "
            f"of them. Each row lies with one party and is covered by that party's guarantee "
            f"alone, as its own ledger says ({self.guarantee})."
        )
        if self.private:
            epsilon, delta = self.everywhere
            said += (
                " A person with one row at each of several parties is covered by the sum of their "
                "ε and the sum of their δ: with all of them, by at most "
                f"ε = {decimals(round_up(epsilon, 3))}, δ = {delta:g}. Of several rows at one "
                "party each is covered, and not all of them together."
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """The certificate as plain JSON values, with the version of its layout."""
        return {
            "schema": FEDERATED_SCHEMA,
            "private": self.private,
            "parties": {name: each.to_json() for name, each in self.parties.items()},
            "left_out": dict(self.left_out),
            "statement": self.statement,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> FederatedCertificate:
        """Read a certificate from plain JSON values.

        Another layout is refused, and so are events that do not cost what it says.
        """
        parties = body.get("parties") if isinstance(body, dict) else None
        left_out = body.get("left_out") if isinstance(body, dict) else None
        if not isinstance(parties, dict) or not isinstance(left_out, dict):
            raise PrivacyError("This federated certificate is damaged: put back a copy.")
        if body.get("schema") != FEDERATED_SCHEMA:
            raise PrivacyError(
                f"This certificate has the layout {body.get('schema')!r}, not "
                f"{FEDERATED_SCHEMA!r}: read it with the Privet that wrote it."
            )
        found = {str(name): Certificate.from_json(each) for name, each in parties.items()}
        for name, each in found.items():
            each.check_events(f"The certificate of party {name!r}")
        return cls(parties=found, left_out={str(k): str(v) for k, v in left_out.items()})

    def dumps(self) -> str:
        """The text of `certificate.json`."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"
