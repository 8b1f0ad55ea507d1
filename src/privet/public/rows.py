"""Public examples: the one type that marks data as free to use."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from privet.data.image_set import ImageSet
from privet.data.text import UNPREDICTED
from privet.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False, repr=False)
class PublicRows:
    """Inputs and their labels, of people who consented or of another public data set.

    Guarantees:
        None: whatever is in here may leak in full. Origins, weight perturbations, scales and
        images to mix with private ones take this type and no other, so that a private row cannot
        get there by way of a plain tensor.

    Args:
        inputs: images (N, H, W, C) as uint8, features (N, ...) as floating point, or sequences
            (N, T) of word numbers as int64.
        targets: a class label each, or one for every word of a sequence, as int64.
    """

    inputs: Tensor
    targets: Tensor

    def __post_init__(self) -> None:
        words = self.inputs.dtype == torch.int64 and self.inputs.shape == self.targets.shape
        if not words:
            _check_inputs(self.inputs)
        _check_targets(self.targets, dimensions=2 if words else 1)
        if len(self.inputs) != len(self.targets):
            raise DataError(
                f"there are {len(self.inputs)} public inputs and {len(self.targets)} targets; "
                "give one target for each input."
            )

    @classmethod
    def from_images(cls, images: ImageSet) -> PublicRows:
        """All images of a set, copied into memory."""
        if images.labels is None:
            raise DataError("public images have no labels; give an ImageSet with labels.")
        return cls(torch.tensor(images.images[:]), torch.tensor(images.labels))

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        shape = "×".join(str(side) for side in self.inputs.shape[1:])
        return f"PublicRows({len(self)} rows of {shape}, {self.inputs.dtype})"

    def select(self, index: Tensor) -> PublicRows:
        """The rows at these places, in that order."""
        index = index.to(self.inputs.device)
        return PublicRows(self.inputs[index], self.targets[index])

    def sample(self, count: int, generator: torch.Generator) -> PublicRows:
        """Draw that many rows: different ones, or with replacement if there are too few."""
        if count < 0:
            raise ConfigError(f"count is {count}; give 0 or more.")
        if count > 0 and len(self) == 0:
            raise DataError(f"{count} of 0 public rows cannot be drawn; give some public rows.")
        device = generator.device
        if count <= len(self):
            return self.select(
                torch.randperm(len(self), generator=generator, device=device)[:count]
            )
        return self.select(torch.randint(len(self), (count,), generator=generator, device=device))

    def to(self, device: torch.device | str) -> PublicRows:
        """The same rows on that device."""
        return PublicRows(self.inputs.to(device), self.targets.to(device))


def _check_inputs(inputs: Tensor) -> None:
    images = inputs.dtype == torch.uint8 and inputs.ndim == 4
    features = inputs.is_floating_point() and inputs.ndim >= 2
    if not (images or features):
        raise DataError(
            f"public inputs are {inputs.dtype} of shape {tuple(inputs.shape)}; give images as "
            "uint8 (N, H, W, C), features as floating point (N, ...), or words as int64 (N, T) "
            "with as many targets."
        )


def _check_targets(targets: Tensor, dimensions: int) -> None:
    if targets.dtype != torch.int64 or targets.ndim != dimensions:
        raise DataError(
            f"public targets are {targets.dtype} of shape {tuple(targets.shape)}; give int64 (N,) "
            "or (N, T)."
        )
    # Looking would make every sample on an accelerator wait for it; rows are made on the CPU.
    if targets.numel() and targets.device.type == "cpu":
        # In the place of a word that is not predicted, behind the end of a text.
        labels = targets if dimensions == 1 else targets[targets != UNPREDICTED]
        if labels.numel() and int(labels.min()) < 0:
            raise DataError(f"a public target is {int(labels.min())}; give labels from 0 upwards.")
