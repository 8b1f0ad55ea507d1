"""Which settings of SPS-G are worth a run: tried on public images in the place of private ones.

    python benchmarks/release_screen.py --public FOLDER [--surrogate letters|clothes|things]
        [--epsilon E] [--seeds N] [--full] [NAME=VALUE,NAME=VALUE ...]

Some classes of a public set stand in for private images, a fifth of them for test images, and the
encoder and the principal components see none of them. Noise is that of 60,000 images: a release of
fewer has as much less of it, and counts as often as makes 60,000. A candidate is the study's SPS-G
with other values, and takes seconds: its score is the accuracy of discriminants straight from
noised moments. With --full a generator and a CNN are trained too, which takes minutes. Nothing here
reads a private or a test image of the study.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from privet.data import ImageSet
from privet.public import PublicRows
from privet.recipes.forms import Forms, Kind
from privet.recipes.map_moments import SpsG
from privet.recipes.synthesis_methods import Prepared
from release_classifiers import Examination, with_steps
from release_data import (
    CLOTHES,
    PRINTED,
    THINGS,
    encoder,
    glyphs,
    photos,
    prepared,
    trainable_encoder,
)
from release_making import Fainter, Made, Releases, Terms, discriminants, judged, made
from release_settings import CNN, CNN_STEPS, FINE_TUNING, MOST_IMAGES, SYSTEMS

LIKE = 60_000  # images whose noise there is
COMPONENT_IMAGES = 4000  # fewer public images than in a run, to be quick
ENCODERS = {
    "letters": "photos+handwriting",
    "clothes": "no-clothes+letters",
    "things": "no-things+letters",
}


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Public images in the places of private and test images, and an encoder that saw neither."""

    private: ImageSet
    test: ImageSet
    encoder: str


def surrogate(name: str, folder: Path) -> Surrogate:
    """10,000 printed letters, or 2,500 grey photographs of ten kinds of clothes or things."""
    if name == "letters":
        rows, classes = glyphs(folder), tuple(range(PRINTED))
    else:
        rows, classes = photos(folder, grey=True), CLOTHES if name == "clothes" else THINGS
    images = chosen(rows, classes)
    fifth = len(images) // 5
    return Surrogate(
        images.take(slice(fifth, len(images))), images.take(slice(0, fifth)), ENCODERS[name]
    )


def chosen(rows: PublicRows, classes: tuple[int, ...]) -> ImageSet:
    """Rows of some classes, shuffled, with labels from 0."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    own = order[torch.isin(rows.targets[order], torch.tensor(classes))]
    labels = np.searchsorted(np.array(classes), rows.targets[own].numpy())
    names = tuple(map(str, classes))
    return ImageSet(rows.inputs[own].numpy(), labels, names)


def candidate(text: str) -> SpsG:
    """The study's settings, with others in their places: `deep=64,shrinkage=0.5`."""
    forms = Forms({SpsG: {"sps-g": Kind(SpsG)}})
    study = SYSTEMS["sps-g"]
    assert isinstance(study, SpsG)
    defaults = {type(each): each for each in (study, study.training, study.cleaning)}
    made: SpsG = forms.read(SpsG, f"sps-g:{text}" if text else "sps-g", "a candidate", defaults)
    return made


def released(
    system: SpsG, chosen: Surrogate, material: Prepared, epsilon: float, seed: int
) -> Made:
    """As if there were 60,000 images."""
    times = LIKE / len(chosen.private)
    return made(
        system,
        chosen.private,
        material,
        Terms(epsilon=epsilon),
        Releases(times=times),
        Fainter(1 / times, seed),
    )


def scores(
    system: SpsG, chosen: Surrogate, material: Prepared, epsilon: float, seeds: int
) -> dict[str, float]:
    """Accuracies of discriminants, over draws of the noise."""
    hasty = replace(system, training=replace(system.training, iterations=1, per_class=2))
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        for name, judge in discriminants(
            released(hasty, chosen, material, epsilon, seed), hasty
        ).items():
            right = judged(judge, chosen.test).numpy() == chosen.test.labels
            found.setdefault(name, []).append(float(right.mean()))
    return {name: statistics.mean(values) for name, values in found.items()}


def full_scores(
    system: SpsG, chosen: Surrogate, material: Prepared, epsilon: float, public: Path
) -> dict[str, float]:
    """Accuracies of a CNN and of the encoder, trained on a generator's images."""
    images, labels = released(system, chosen, material, epsilon, 0).synthetic.take(MOST_IMAGES)
    examination = Examination(
        test=chosen.test,
        body=partial(trainable_encoder, chosen.encoder, public),
        cnn=with_steps(CNN, MOST_IMAGES, CNN_STEPS),
        fine_tuning=with_steps(FINE_TUNING, MOST_IMAGES, CNN_STEPS // 2),
    )
    found = examination.accuracies(images, labels, ("cnn", "encoder"))
    return {kind: each.overall for kind, each in found.items()}


def shown(results: dict[str, float]) -> Iterator[str]:
    """In per cent."""
    for name, value in results.items():
        yield f"{name} {100 * value:.2f}"


def main() -> None:
    """Print a line for each candidate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("candidates", nargs="*", default=[""], help="NAME=VALUE,…; none: as frozen")
    parser.add_argument("--public", type=Path, required=True, help="A folder of public data.")
    parser.add_argument("--surrogate", choices=ENCODERS, default="letters")
    parser.add_argument("--epsilon", type=float, default=1.0, help="0 for no noise. Default: 1.")
    parser.add_argument("--seeds", type=int, default=2, help="Draws of the noise. Default: 2.")
    parser.add_argument("--full", action="store_true", help="Train a generator and classifiers.")
    options = parser.parse_args()
    chosen = surrogate(options.surrogate, options.public)
    network = encoder(chosen.encoder, options.public)
    material = prepared(chosen.private, network, chosen.encoder, options.public, MOST_IMAGES)
    assert material.public is not None
    order = torch.randperm(len(material.public), generator=torch.Generator().manual_seed(1))
    few = replace(material, public=material.public[order[:COMPONENT_IMAGES]])
    for text in options.candidates:
        start, system = time.perf_counter(), candidate(text)
        found = scores(system, chosen, few, options.epsilon, options.seeds)
        if options.full:
            found |= full_scores(system, chosen, material, options.epsilon, options.public)
        seconds = time.perf_counter() - start
        print(f"{text or 'as frozen'}: {', '.join(shown(found))} ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
