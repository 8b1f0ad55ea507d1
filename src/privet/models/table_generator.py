"""A generator of encoded table rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.models.mlp import MLP


class TableGenerator(nn.Module):
    """Rows of numbers from -1 to 1 and of shares among categories, from noise and a class.

    Args:
        latent: the length of the noise.
        num_classes: the number of classes of rows.
        widths: encoded numbers of each column: 1 for a number, more for the slots of a category.
        hidden: the sizes of the layers between.
    """

    def __init__(
        self,
        latent: int,
        num_classes: int,
        widths: tuple[int, ...],
        hidden: tuple[int, ...] = (128, 128),
    ) -> None:
        super().__init__()
        self.latent, self.num_classes, self.widths = latent, num_classes, widths
        self.layers = MLP(latent + num_classes, hidden, sum(widths))

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        """Encoded rows (N, width), each of its class."""
        told = F.one_hot(labels, self.num_classes).to(noise.dtype)
        raw: Tensor = self.layers(torch.cat([noise, told], 1))
        columns = torch.split(raw, list(self.widths), 1)
        return torch.cat(
            [each.tanh() if each.shape[1] == 1 else each.softmax(1) for each in columns], 1
        )
