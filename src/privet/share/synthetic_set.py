"""A synthetic set as anyone may use it: images, labels, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privet.data import Column, ImageSet
from privet.data.shards import soft_labels
from privet.privacy.certificate import NOTHING_PRIVATE, Certificate
from privet.privacy.federated import FederatedCertificate

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SyntheticSet:
    """The images of a folder of shards, and their certificate.

    Args:
        data: images and labels, with all that an image set can do.
        certificate: the certificate of the run; `None` where no private row was touched.
        folder: the folder of the shards.
    """

    data: ImageSet
    certificate: Certificate | FederatedCertificate | None
    folder: Path

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        inside = repr(self.data).removeprefix("ImageSet(").removesuffix(")")
        if self.certificate is None:
            return f"SyntheticSet({inside}, nothing private)"
        promise = self.certificate.guarantee if self.certificate.private else "NOT private"
        return f"SyntheticSet({inside}, {promise})"

    @property
    def images(self) -> Column:
        """The images, uint8 (N, H, W, C)."""
        return self.data.images

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The class of each image; `None` if there are no labels."""
        return self.data.labels

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes; `None` if there are no labels."""
        return self.data.class_names

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of every image."""
        return self.data.image_shape

    @property
    def statement(self) -> str:
        """The guarantee of the set in words."""
        return NOTHING_PRIVATE if self.certificate is None else self.certificate.statement

    @cached_property
    def probabilities(self) -> NDArray[np.float32] | None:
        """Soft labels (N, classes); `None` if the set has none."""
        found = list(soft_labels(self.folder))
        return np.concatenate(found) if found else None
