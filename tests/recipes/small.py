"""Small private images, an encoder that knows nothing, and a hedge around them."""

from functools import partial

import numpy as np
import torch

from privet.hedge import Hedge, Randomness
from privet.models import ConvEncoder
from privet.privacy import Ledger
from privet.recipes.choices import Situation
from privet.synthesis import GeneratorTraining

CLASSES, SHAPE = 3, (8, 8, 1)
TRAINING = GeneratorTraining(iterations=3, per_class=2)
SITUATION = Situation(relative_noise=0.1, size=60.0, num_classes=CLASSES, image_shape=SHAPE)
SMALL = {"training": TRAINING, "widths": (4, 4, 4, 4), "batch_size": 12}


def pictures(count=60, seed=0):
    """Noise around a grey of each class's own."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    images = rng.integers(0, 90, (count, *SHAPE)) + 60 * labels[:, None, None, None]
    return {"images": images.astype(np.uint8), "labels": labels}


def encoder(seed=0, widths=(4, 5, 6)):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ConvEncoder(1, widths=widths, pooled=(0,)).folded()


def hedge(folder, columns=None, epsilon=2.0, relation="add-remove", **more):
    """Around private images, with a reservation of its own."""
    ledger = Ledger.create(folder / "ledger.db", epsilon=epsilon, delta=1e-5, relation=relation)
    return Hedge(columns or pictures(), ledger.reserve(epsilon=epsilon), **more)


class Silence(Randomness):
    """No noise, so that what is released can be computed by hand."""

    def __init__(self):
        super().__init__(seed=0)

    def noise(self, stream, step, block, shape):
        return torch.zeros(shape, dtype=torch.float64)


class DictMemory:
    """Remembers in a dictionary, and counts what was made."""

    def __init__(self):
        self.kept, self.made, self.drafts = {}, [], {}

    def every(self, names, make):
        return [self.once(name, partial(make, place)) for place, name in enumerate(names)]

    def once(self, name, make):
        if name not in self.kept:
            self.made.append(name)
            self.kept[name] = make()
        return self.kept[name]

    def paid(self, name, embedding, make):
        return self.once(name, make)

    def learned(self, name, like, make):
        return self.once(name, make)

    def unfinished(self, name, *, paid=False):
        return self.drafts.get(name)

    def keep(self, name, state):
        self.drafts[name] = {key: each.clone() for key, each in state.items()}
