"""A private model as anyone may use it: images in, labels and scores out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import torch
from torch import nn

from privet.augment import to_float
from privet.errors import ConfigError
from privet.share.pictures import batches, is_single

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privet.privacy import Certificate


class Prediction(TypedDict):
    """A class and its probability."""

    label: str
    score: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Classifier:
    """A trained image classifier with its class names and its certificate.

    Images are uint8 arrays (N, H, W, C) or (N, H, W), a Pillow image, the path of a PNG, JPEG or
    WebP file, or a list of single images of any of these kinds; an array (H, W) or (H, W, C) is
    one image. Those of another size, or grey where the model learned from colour, are brought to
    `image_shape`, and a warning says so.

    Args:
        module: from images (N, C, H, W) in [-1, 1] to logits.
        image_shape: height, width and channels of what it learned from.
        class_names: the name of each class, in the order of the logits.
        certificate: the certificate of the run that trained it.
    """

    module: nn.Module
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    certificate: Certificate

    def __repr__(self) -> str:
        sides = "×".join(map(str, self.image_shape))
        promise = self.certificate.guarantee if self.certificate.private else "NOT private"
        return f"Classifier(images of {sides}, {len(self.class_names)} classes, {promise})"

    def predict(self, images: Any, *, top_k: int = 5) -> list[Prediction] | list[list[Prediction]]:
        """The most probable classes, as a pipeline of `transformers` gives them.

        Args:
            images: one image or several, as the class describes.
            top_k: how many classes at most.

        Returns:
            A list for one image, the most probable class first; a list of such lists for several.
        """
        check_top_k(top_k)
        best = [best_of(row, self.class_names, top_k) for row in self.probabilities(images)]
        return best[0] if is_single(images) else best

    def probabilities(self, images: Any) -> NDArray[np.float32]:
        """The probability of each class (N, classes), one row per image."""
        device = next(self.module.parameters()).device
        found = [np.empty((0, len(self.class_names)), np.float32)]
        with torch.no_grad():
            for batch in batches(images, self.image_shape):
                logits = self.module(to_float(torch.tensor(batch)).to(device))
                found.append(logits.softmax(1).cpu().numpy())
        return np.concatenate(found)


def best_of(row: NDArray[np.float32], class_names: tuple[str, ...], top_k: int) -> list[Prediction]:
    """The most probable classes of one row of probabilities, the best first."""
    order = np.argsort(-row, kind="stable")[:top_k].tolist()
    return [{"label": class_names[each], "score": float(row[each])} for each in order]


def check_top_k(top_k: int) -> None:
    """Refuse a `top_k` that is no positive whole number."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise ConfigError(f"top_k is {top_k!r}; give a whole number from 1 upwards.")
