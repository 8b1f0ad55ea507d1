"""Train the encoder that comes with Privet, from images of nobody's.

    python scripts/glyph_encoder.py

It learns to tell characters of openly licensed fonts and random processes apart, and is written to
src/privet/models/weights/glyphs.safetensors in half precision. The same seed and versions give the
same images; weights differ in their last digits with the number of threads.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file

from privet.public import PublicRows, glyph_rows, procedural_rows
from privet.recipes.public_encoders import Pretrained, PublicTraining

SHAPE = (28, 28, 1)
LESSONS = Pretrained(epochs=10)
PER_CHARACTER, PER_PROCESS = 500, 150
OUT = Path(__file__).parent.parent / "src/privet/models/weights/glyphs.safetensors"


def teaching_rows(seed: int = 0) -> PublicRows:
    """Characters and processes, each with a label of its own."""
    generator = torch.Generator().manual_seed(seed)
    glyphs = glyph_rows(SHAPE, PER_CHARACTER, generator)
    others = procedural_rows(SHAPE, PER_PROCESS, generator)
    return PublicRows(
        torch.cat([glyphs.inputs, others.inputs]),
        torch.cat([glyphs.targets, others.targets + int(glyphs.targets.max()) + 1]),
    )


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    out: Path = parser.parse_args().out

    def tell(done: int, of: int) -> None:
        print(f"epoch {done} of {of}", flush=True)

    weights = PublicTraining(LESSONS, SHAPE, teaching_rows(), tell)()
    halves = {
        name: each.half().contiguous() if each.is_floating_point() else each
        for name, each in weights.items()
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(halves, out)
    print(f"{out}: {out.stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
