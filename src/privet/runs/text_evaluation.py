"""How good a run's language model is on test text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privet.measure import Perplexity, perplexity
from privet.privacy import Certificate
from privet.privacy.certificate import promise
from privet.runs.reading import public_rows, read_test_rows, tested_words
from privet.runs.run_certificate import spending_certificate_of
from privet.runs.run_folder import MODEL, RunFolder
from privet.runs.train_config import RunConfig
from privet.runs.trained_network import trained_network


@dataclass(frozen=True, kw_only=True)
class TextEvaluation:
    """How good a language model is, and what it cost.

    Args:
        test: where the text comes from, in words.
        perplexity: perplexity of the averaged weights.
        certificate: the certificate of the run.
        notes: sentences for whoever asked.
    """

    test: str
    perplexity: Perplexity
    certificate: Certificate
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "test": self.test,
            **self.perplexity.to_json(),
            "certificate": self.certificate.to_json(),
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        found = self.perplexity
        return {
            "perplexity": f"{found.perplexity:,.1f} on {found.words:,} words of {found.count:,} "
            f"sequences ({self.test})",
            "guarantee": promise(self.certificate),
        }


def evaluated_text(folder: RunFolder, config: RunConfig, test: str | None) -> TextEvaluation:
    """Evaluate the language model of a finished run, from its folder.

    Args:
        folder: the run's folder.
        config: the run's configuration.
        test: another text; None takes the one that the run had.
    """
    num_words = len(config.class_names)
    network = trained_network(folder / MODEL, config.model, config.rows.shape, num_words)
    text, where, notes = read_test_rows(folder, config, test)
    rows = tested_words(public_rows(text), config.training.method.views)
    return TextEvaluation(
        test=where,
        perplexity=perplexity(network, rows.inputs, rows.targets),
        certificate=spending_certificate_of(folder),
        notes=tuple(notes),
    )
