"""What a run has to remember of its place in a ledger, so that another process can go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from privet.errors import ConfigError, DataError
from privet.hedge import PoissonSum
from privet.measure import Accuracy, Perplexity
from privet.plain_json import WRONG_VALUES, require


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What a run remembers of its place in a ledger; it grows as the run gets under way.

    Nothing in it is private: a divisor is declared or released.

    Args:
        label: the label under which the ledger knows the run; it finds a reservation whose id was
            lost.
        ledger: the ledger's file, seen from the run's folder.
        mechanism: clip, noise and sampling of every step.
        reservation: the id of the reservation that pays; None until it is written down.
        divisor: the expected number of rows in a step; None until it is known.
        public_only: how good the model was after the warm-up, before the first private step; None
            if not measured.
    """

    label: str
    ledger: str
    mechanism: PoissonSum
    reservation: str | None = None
    divisor: float | None = None
    public_only: Accuracy | Perplexity | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "label": self.label,
            "ledger": self.ledger,
            "mechanism": asdict(self.mechanism),
            "reservation": self.reservation,
            "divisor": self.divisor,
            "public_only": None if self.public_only is None else asdict(self.public_only),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> RunState:
        """What `to_json` was given."""
        try:
            require(body, label=str, ledger=str, reservation=str | None, divisor=float | int | None)
            found = body["public_only"]
            if found is not None and "perplexity" in found:
                found = Perplexity(**found)
            elif found is not None:
                found = Accuracy(**{**found, "by_class": tuple(found["by_class"])})
            noted = {field.name: body[field.name] for field in fields(cls)}
            mechanism = PoissonSum(**body["mechanism"])
            return cls(**{**noted, "mechanism": mechanism, "public_only": found})
        except (ConfigError, *WRONG_VALUES) as error:
            raise DataError(f"run.json cannot be read ({error!r}): start again.") from None
