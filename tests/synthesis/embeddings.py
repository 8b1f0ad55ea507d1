"""A small embedding of pixels, and images to match with it."""

import torch

from privet.release import Embedding, Part, each_class, everyone

CLASSES, SIDE, SIZE = 2, 4, 3


def pixels(images):
    """A few sums of pixels, squashed."""
    weights = torch.linspace(-1, 1, SIDE * SIDE * SIZE).reshape(-1, SIZE).sin()
    return {"z": torch.tanh(images.flatten(1) @ weights.to(images) / 2)}


def embedding(*, second=True, together=False):
    groups = everyone(CLASSES) if together else each_class(CLASSES)
    part = Part(name="z", source="z", size=SIZE, groups=groups, second_weight=float(second))
    return Embedding(features=pixels, parts=(part,), num_classes=CLASSES, count_weight=0.1)


def images(count=20, seed=0, bright=0.0):
    generator = torch.Generator().manual_seed(seed)
    return bright + 0.5 * torch.randn(count, 1, SIDE, SIDE, generator=generator)


def labels(count=20):
    return torch.arange(count) % CLASSES
