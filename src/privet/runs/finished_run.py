"""A finished run of any command, as it lies in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privet.privacy import Certificate


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """What a finished run left.

    Args:
        folder: where it lies.
        ledger: the file of the ledger that it drew on.
        summary: the result in a few words, by name.
        certificate: what it cost.
    """

    folder: Path
    ledger: Path
    summary: dict[str, Any]
    certificate: Certificate

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "folder": str(self.folder),
            "ledger": str(self.ledger),
            **self.summary,
            "certificate": self.certificate.to_json(),
        }
