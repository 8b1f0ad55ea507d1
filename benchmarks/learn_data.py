"""The data of the learning study: 96% private, 4% public, the real test set."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from privet.augment import to_float
from privet.data import load
from privet.models import efficientnet_lite
from privet.public import PublicRows
from privet.recipes.training_config import Material

PUBLIC, SPLIT_SEED = 0.04, 0
CACHE = Path(tempfile.gettempdir()) / "privet-features"


@dataclass(frozen=True)
class Prepared:
    """What a row is run on."""

    private: PublicRows  # benchmark data: private rows are handed to a hedge all the same
    test: PublicRows
    material: Material

    def ready(self, inputs: Tensor) -> Tensor:
        """What the model reads."""
        return to_float(inputs) if self.material.pixels else inputs


@lru_cache(maxsize=1)
def prepare_data(name: str, folder: Path) -> Prepared:
    """`mnist`, `fashion_mnist`, or `cifar10 features: liteV SIZE`; `/half` for Table 10 of DP-Mix.

    The halves are S1 (private) and S2, which method C takes as its public mixing pool.
    """
    base, _, half = name.partition("/")
    source, _, encoder = base.partition(" features: ")
    data = load(folder / f"{source}.npz").split(public=PUBLIC, seed=SPLIT_SEED)
    test = PublicRows.from_images(load(folder / f"{source}.npz", part="test"))
    assert data.public is not None
    private, public = PublicRows.from_images(data.private), PublicRows.from_images(data.public)
    if half:
        first = torch.arange(len(private)) % 2 == 0
        pool = private.select((~first).nonzero().flatten())
        private = private.select(first.nonzero().flatten())
        public = pool if half == "pool" else public
    classes = data.private.num_classes
    if not encoder:
        shape = data.private.image_shape
        return Prepared(
            private, test, Material(input_shape=shape, num_classes=classes, public=public)
        )
    parts = [
        _features(f"{base} {part}", encoder, rows)
        for part, rows in (("private", private), ("public", public), ("test", test))
    ]
    private, public, test = _centred(*parts)
    shape = tuple(private.inputs.shape[1:])
    material = Material(input_shape=shape, num_classes=classes, public=public, pixels=False)
    return Prepared(private, test, material)


def _features(name: str, encoder: str, rows: PublicRows) -> PublicRows:
    """Pooled features, averaged over an image and its mirror image; kept outside the repository."""
    path = CACHE / (name.replace(" ", "-").replace(":", "") + ".pt")
    if path.exists():
        return PublicRows(torch.load(path, weights_only=True), rows.targets)
    version, size = encoder.removeprefix("lite").split()
    network = efficientnet_lite(int(version), int(size))
    found = []
    with torch.inference_mode():
        for batch in torch.split(rows.inputs, 32):
            images = to_float(batch)
            found.append((network(images) + network(images.flip(-1))) / 2)
    features = torch.cat(found).clone()
    CACHE.mkdir(exist_ok=True)
    torch.save(features, path)
    return PublicRows(features, rows.targets)


def _centred(private: PublicRows, public: PublicRows, test: PublicRows) -> list[PublicRows]:
    """Around the public mean, in units of the public standard deviations, then of length 1."""
    mean, std = public.inputs.mean(0), public.inputs.std(0) + 1e-3

    def centre(rows: PublicRows) -> PublicRows:
        inputs = (rows.inputs - mean) / std
        return PublicRows(inputs / inputs.norm(dim=1, keepdim=True), rows.targets)

    return [centre(rows) for rows in (private, public, test)]
