"""Summands of several kinds for the contract suite, and a slow, obviously right reference."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch.func import functional_call, grad

from privet.hedge import PerRow, Units
from privet.release import ClassBlocks

FEATURES, CLASSES = 5, 3


def rows(count, seed=0, scale=1.0):
    """Named columns of random rows."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((count, FEATURES)) * scale,
        "labels": rng.integers(0, CLASSES, count),
    }


def units(columns, users=None):
    """All rows as one batch of units."""
    from privet.hedge.units import Rows

    store = Rows(columns, users)
    return store.batch(slice(0, store.num_units), torch.device("cpu"))


def per_row():
    return PerRow(lambda batch: batch["x"], FEATURES, dtype=torch.float64)


def class_blocks():
    return ClassBlocks(
        features=lambda batch: batch["x"],
        size=FEATURES,
        num_classes=CLASSES,
        count_scale=0.3,
        dtype=torch.float64,
    )


@dataclass
class GhostLinear:
    """Gradients of a linear classifier, two passes, no gradient per unit ever formed.

    The gradient of one row is an outer product of its error and its input, so its norm is the
    product of theirs; the weighted sum is one matrix product with what the first pass kept.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    kept: tuple = field(default=(), repr=False)

    def zeros(self):
        return {"weight": torch.zeros_like(self.weight), "bias": torch.zeros_like(self.bias)}

    def norms(self, batch: Units):
        x = batch["x"]
        errors = torch.softmax(x @ self.weight.T + self.bias, 1)
        errors = errors - torch.nn.functional.one_hot(batch["labels"].long(), CLASSES)
        self.kept = (batch, x, errors)
        return errors.norm(dim=1) * (x.square().sum(1) + 1).sqrt()

    def weighted_sum(self, batch: Units, weights):
        kept, x, errors = self.kept
        assert kept is batch
        weighted = errors * weights[:, None]
        return {"weight": weighted.T @ x, "bias": weighted.sum(0)}


def ghost():
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(CLASSES, FEATURES, generator=generator, dtype=torch.float64)
    return GhostLinear(weight, torch.zeros(CLASSES, dtype=torch.float64))


ALL = {"per_row": per_row, "class_blocks": class_blocks, "ghost": ghost}


def reference_vectors(name, columns):
    """One flat vector per row, written out in full."""
    x, labels = torch.from_numpy(columns["x"]), torch.from_numpy(columns["labels"])
    if name == "per_row":
        return x
    if name == "class_blocks":
        one_hot = torch.nn.functional.one_hot(labels, CLASSES).double()
        sums = torch.einsum("nc,nd->ncd", one_hot, x).flatten(1)
        return torch.cat([sums, 0.3 * one_hot], 1)
    model = torch.nn.Linear(FEATURES, CLASSES).double()
    state = {"weight": ghost().weight, "bias": ghost().bias}

    def loss(state, row, label):
        logits = functional_call(model, state, (row[None],))
        return torch.nn.functional.cross_entropy(logits, label[None])

    gradients = [grad(loss)(state, row, label) for row, label in zip(x, labels, strict=True)]
    return torch.stack([torch.cat([g["weight"].flatten(), g["bias"]]) for g in gradients])


def flat(blocks):
    """All blocks as one vector."""
    return torch.cat([block.flatten().double() for block in blocks.values()])
