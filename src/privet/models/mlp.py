"""Linear classifiers and multilayer perceptrons, for features, tables and flattened images."""

from __future__ import annotations

import math
from itertools import pairwise

from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models.layers import Activation, check_sizes


class MLP(nn.Module):
    """Linear layers with an activation between them.

    Args:
        in_features: numbers in one example, whatever its shape.
        hidden: the size of each hidden layer; an empty tuple makes a linear classifier.
        num_classes: the number of logits.
        activation: an nn.Module class.
    """

    def __init__(
        self,
        in_features: int,
        hidden: tuple[int, ...],
        num_classes: int,
        *,
        activation: Activation = nn.ReLU,
    ) -> None:
        super().__init__()
        check_sizes(in_features=in_features, num_classes=num_classes)
        check_sizes(**{f"hidden[{i}]": size for i, size in enumerate(hidden)})
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in pairwise((in_features, *hidden)):
            layers += [nn.Linear(inputs, outputs), activation()]
        self.in_features = in_features
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear((in_features, *hidden)[-1], num_classes)

    def forward(self, examples: Tensor) -> Tensor:
        """Logits of examples (N, …)."""
        given = math.prod(examples.shape[1:])
        if given != self.in_features:
            raise ConfigError(
                f"An example has {given} numbers; make the MLP with as many,"
                f" as its in_features is {self.in_features}."
            )
        logits: Tensor = self.classifier(self.features(examples))
        return logits
