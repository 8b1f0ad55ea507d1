"""Small public data sets and models that several tests share."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from privet.augment import CropFlip
from privet.public import PublicRows, WarmUp

QUICK = WarmUp(epochs=10, augment=CropFlip(padding=1, flip=False))


def seed(number=0):
    return torch.Generator().manual_seed(number)


def digits():
    """1,797 images of 8×8, as bytes."""
    images, labels = load_digits(return_X_y=True)
    pixels = np.clip(images * 16, 0, 255).astype(np.uint8).reshape(-1, 8, 8, 1)
    return PublicRows(torch.tensor(pixels), torch.tensor(labels, dtype=torch.int64))


def network(dropout=0.0, classes=10):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(dropout))
        return nn.Sequential(body, nn.Linear(64, classes))


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)
