"""A finished run of `privet synthesize`, as it lies in its folder."""

from __future__ import annotations

from dataclasses import dataclass

from privet.privacy import Certificate
from privet.runs.finished_run import FinishedRun
from privet.runs.run_folder import CERTIFICATE, PNG, RESULT, SAMPLES, SYNTHETIC, RunFolder


@dataclass(frozen=True, kw_only=True)
class SynthesisResult(FinishedRun):
    """What a finished run of `privet synthesize` left."""

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        forms = (SYNTHETIC, PNG) if self.summary["png"] else (SYNTHETIC,)
        places = " and ".join(str(self.folder / each) for each in forms)
        return {
            "guarantee": self.summary["guarantee"],
            "images": f"{self.summary['images']:,} in {places}",
            "samples": self.folder / SAMPLES,
            "certificate": self.folder / CERTIFICATE,
            "ledger": self.ledger,
        }


def finished(folder: RunFolder, ledger: str) -> SynthesisResult:
    """Read the result of a finished run from its folder."""
    return SynthesisResult(
        folder=folder.path,
        ledger=folder / ledger,
        summary=folder.read(RESULT),
        certificate=Certificate.from_json(folder.read(CERTIFICATE)),
    )
