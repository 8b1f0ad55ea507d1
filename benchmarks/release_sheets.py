"""Contact sheets of the release study for the docs: ten images of every class, one sheet a method.

    python benchmarks/release_sheets.py

Draws what release_table.py kept of each run at ε = 1 (of CIFAR-10 at ε = 10), outside the
repository, to docs/images/release-DATA-METHOD.png. A sheet is at most 60 KB: fewer colours are
taken until it is.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL.Image import Image, Quantize

import machine
from privet.data import ImageSet
from privet.data.contact_sheet import draw_contact_sheet
from release_data import SAMPLES, samples_path
from release_settings import Run, all_runs

OUT = machine.ROOT / "docs" / "images"
COLUMNS, MOST_BYTES = 10, 60_000
EPSILON = {"cifar10": 10.0}
NAMES = {
    "mnist": "0 1 2 3 4 5 6 7 8 9",
    "fashion_mnist": "T-shirt trouser pullover dress coat sandal shirt sneaker bag boot",
    "cifar10": "plane car bird cat deer dog frog horse ship truck",
}


def wanted() -> Iterator[Run]:
    """The first run of each method and data set, at the ε that is shown."""
    for each in all_runs():
        epsilon = EPSILON.get(each.data, 1.0)
        if each == Run(data=each.data, method=each.method, epsilon=epsilon) and each.data in NAMES:
            yield each


def sheet(samples: Path, data: str) -> Image:
    """Ten classes of ten images."""
    with np.load(samples) as kept:
        images = ImageSet(kept["x"], kept["y"], tuple(NAMES[data].split()))
    return draw_contact_sheet(images, columns=COLUMNS, lines=1)


def encoded(image: Image, most: int = MOST_BYTES) -> bytes:
    """As PNG, with as many colours as fit."""
    for colours in (256, 128, 64, 32, 16, 8):
        file = io.BytesIO()
        reduced = image.quantize(colours, method=Quantize.MEDIANCUT)
        reduced.save(file, "PNG", optimize=True)
        if file.tell() <= most:
            break
    return file.getvalue()


def main() -> None:
    """Draw what there is."""
    OUT.mkdir(exist_ok=True)
    for each in wanted():
        samples = samples_path(each.key)
        if samples.exists():
            path = OUT / f"release-{each.data}-{each.method}.png"
            path.write_bytes(encoded(sheet(samples, each.data)))
            print(f"wrote {path.name}")
    if not SAMPLES.exists():
        print("No run was kept: run release_table.py first.")


if __name__ == "__main__":
    main()
