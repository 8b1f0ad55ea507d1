"""A private model of table rows as anyone may use it: rows in, labels and scores out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from privet.data.schema import Schema
from privet.data.tables import table_of
from privet.share.classifier import Prediction, best_of, check_top_k

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privet.privacy import Certificate

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TableClassifier:
    """A trained classifier of table rows with its schema and its certificate.

    Rows are a mapping from columns to values (one row), a list of such mappings, the path of a CSV
    or Parquet file, or a data frame that Arrow can read. They need every column of the schema; the
    target and what is ignored may be there or not.

    Args:
        module: from rows (N, width) to logits.
        schema: the schema of the table that it learned from.
        certificate: the certificate of the run that trained it.
    """

    module: nn.Module
    schema: Schema
    certificate: Certificate

    def __repr__(self) -> str:
        promise = self.certificate.guarantee if self.certificate.private else "NOT private"
        target, classes = self.schema.target, len(self.schema.classes)
        return f"TableClassifier({target!r} of table rows, {classes} classes, {promise})"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes of the target."""
        return self.schema.classes

    def predict(self, rows: Any, *, top_k: int = 5) -> list[Prediction] | list[list[Prediction]]:
        """The most probable classes.

        Args:
            rows: one row or several, as the class describes.
            top_k: how many classes at most.

        Returns:
            A list for one row, the most probable class first; a list of such lists for several.
        """
        check_top_k(top_k)
        best = [best_of(row, self.class_names, top_k) for row in self.probabilities(rows)]
        return best[0] if isinstance(rows, Mapping) else best

    def probabilities(self, rows: Any) -> NDArray[np.float32]:
        """The probability of each class (N, classes), one line per row."""
        table = table_of(rows)
        self.schema.require_columns(table.column_names, "the table", target=False)
        inputs = torch.from_numpy(self.schema.inputs(table))
        device = next(self.module.parameters()).device
        with torch.no_grad():
            found = [
                self.module(batch.to(device)).softmax(1).cpu().numpy()
                for batch in torch.split(inputs, _ROWS_AT_ONCE)
            ]
        return np.concatenate(found)
