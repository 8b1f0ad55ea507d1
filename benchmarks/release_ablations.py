"""Claim: what the parts of these methods are for, as their papers asked it, at a small scale.

    python benchmarks/release_ablations.py --data FOLDER --public FOLDER [--only TEXT]

One small table for each of Tables 3 to 8 of SPS and 4, 8, 17, 18, 19 of DP-MEPF: the first 20,000
images of FashionMNIST, ε = 1 where nothing else is said, one seed, short runs. Tables 3 and 4 of
SPS are by the encoder of the large study, and have Fréchet distances by it; all others are by
encoders that learned for a few minutes. Folders and options are those of release_table.py; rows are
kept as they are done, and rows of two tables that are the same run are done once. The last
table asks why classifiers of the images of SPS-G know less than the moments they are made of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

import machine
from kept_rows import Kept, arguments, do_missing, kept
from privet.data import ImageSet
from privet.models import efficientnet_lite
from privet.recipes.map_moments import SpsG
from privet.recipes.mean_settings import DpMepf
from privet.recipes.releases import Synthetic
from privet.recipes.sps_settings import Sps, SpsPlus
from privet.recipes.synthesis_methods import System
from privet.release import Cleaning, MomentDiscriminant
from privet.share import ClassifierTraining, train_classifier
from privet.synthesis import GeneratorTraining
from release_classifiers import Examination, Train, with_steps
from release_data import Lessons, frechet, prepared, sets, taught
from release_making import NO_NOISE, Made, Terms, discriminants, judged, made
from release_variants import (
    d3s,
    soft_labels,
    teacher_of,
    train_sharpness_aware,
    with_private_encoder,
)

OUT = machine.RESULTS / "release_ablations.json"
PRIVATE, PUBLIC = "fashion_mnist", "photos+letters"
SIZE, PIXEL_IMAGES, IMAGES = 20_000, 300, 5000
CLASSIFIERS = ("logistic", "cnn")
WITH_MLP = ("logistic", "mlp", "cnn")
CNN, STEPS, SET_SIZE_STEPS = ClassifierTraining(batch_size=64), 400, 1250

GENERATOR = GeneratorTraining(iterations=300)
SPS_G = SpsG(training=GENERATOR)
DP_MEPF = DpMepf(training=replace(GENERATOR, per_class=10, learning_rate=1e-3))
_PIXELS: dict[str, Any] = {
    "global_size": 32,
    "class_size": 32,
    "class_layers": 3,
    "per_class": 10,
    "clip_ratios": (1 / 8,),
    "iterations": 150,
}
SPS = Sps(**_PIXELS)
SPS_PLUS = SpsPlus(
    **_PIXELS
    | {
        "clip_ratios": (1 / 16, 1 / 16),
        "iterations": 100,
        "later_iterations": 50,
        "pseudo_count": 20,
        "per_pseudo": 2,
    }
)
FULL = Lessons(public=PUBLIC)  # the study's encoder
SHORT = Lessons(public=PUBLIC, most=12_000, epochs=4)
UPRIGHT, SHORT_UPRIGHT = replace(FULL, invert=False), replace(SHORT, invert=False)  # for SPS, SPS+

Labels = NDArray[Any]
Set = tuple[NDArray[np.uint8], Labels]

TITLES = {
    "SPS-3": "size of the synthetic set, SPS-G (SPS, Table 3)",
    "SPS-4": "what tells classes apart, and labels (SPS, Table 4)",
    "SPS-5": "parts of SPS (its Table 5)",
    "SPS-6": "D_G = D_C, SPS+ (SPS, Table 6)",
    "SPS-7": "layers matched by class, SPS+ (SPS, Table 7)",
    "SPS-8": "pseudo-classes and stages (SPS, Table 8)",
    "DP-MEPF-4": "early stopping, DP-MEPF φ₁ (its Table 4)",
    "DP-MEPF-8": "iterations of the generator, DP-MEPF (100,000 in its Table 8)",
    "DP-MEPF-17": "encoders, DP-MEPF (its Table 17)",
    "DP-MEPF-18": "public images that taught the encoder, DP-MEPF (its Table 18)",
    "DP-MEPF-19": "ε for a DP-trained encoder and for the release, DP-MEPF (its Table 19)",
    "SPS-G": "what SPS-G makes of its moments, ε = 10",
}


@dataclass(frozen=True)
class Study:
    """Where data lies."""

    data: Path
    public: Path

    @property
    def private(self) -> ImageSet:
        """Some of the private images."""
        return sets(PRIVATE, self.data)[0].take(slice(0, SIZE))

    def examined(
        self,
        found: Set,
        steps: int = STEPS,
        train: Train = train_classifier,
        *,
        judged: bool = False,
        kinds: Sequence[str] = CLASSIFIERS,
    ) -> Kept:
        """What a set is worth, and how far it is from the test images where it is to be judged."""
        images, labels = found
        config = with_steps(CNN, len(images), steps)
        examination = Examination(
            test=sets(PRIVATE, self.data)[1],
            body=partial(taught, SHORT, self.public),
            cnn=config,
            fine_tuning=config,
            train=train,
        )
        accuracies = examination.accuracies(images, labels, kinds)
        worth: Kept = {
            "accuracies": {kind: each.overall for kind, each in accuracies.items()},
            "images": len(images),
        }
        if not judged:
            return worth
        judge = taught(FULL, self.public).folded()
        return {"frechet": frechet(judge, images, examination.test), **worth}

    def right(self, judge: MomentDiscriminant) -> float:
        """How often released moments alone are right about test images."""
        test = sets(PRIVATE, self.data)[1]
        return float((judged(judge, test).numpy() == test.labels).mean())


@lru_cache(maxsize=1)
def _made(study: Study, system: System, encoder: Lessons | int, epsilon: float) -> Made:
    """By a pretrained encoder, or by EfficientNet-Lite at so many pixels."""
    private = study.private
    network: nn.Module = (
        efficientnet_lite(0, encoder)
        if isinstance(encoder, int)
        else taught(encoder, study.public).folded()
    )
    material = prepared(private, network, PUBLIC, study.public, _count(system))
    return made(system, private, material, Terms(epsilon=epsilon))


def _count(system: System) -> int:
    return PIXEL_IMAGES if isinstance(system, Sps) else IMAGES


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One row of one table.

    Args:
        table: of the paper.
        row: what is different in it.
        run: its accuracies.
        described: its settings.
    """

    table: str
    row: str
    run: Callable[[Study], Kept]
    described: str = ""

    @property
    def key(self) -> dict[str, str]:
        """What tells rows apart."""
        return {"table": self.table, "row": self.row}


def _of_system(
    table: str,
    row: str,
    system: System,
    encoder: Lessons | int | None = None,
    *,
    epsilon: float = 1.0,
    count: int | None = None,
    steps: int = STEPS,
    train: Train = train_classifier,
    kinds: Sequence[str] = CLASSIFIERS,
) -> Ablation:
    """A system's images, and classifiers of them."""
    count = count or _count(system)
    encoder = encoder or (SHORT_UPRIGHT if isinstance(system, Sps) else SHORT)
    judged = encoder in (UPRIGHT, FULL)

    def run(study: Study) -> Kept:
        found = _made(study, system, encoder, epsilon)
        images, labels = found.synthetic.take(count)
        iterations = found.iterations(system, len(images))
        worth = study.examined((images, labels), steps, train, judged=judged, kinds=kinds)
        if isinstance(system, SpsG):
            judges = discriminants(found, system)
            worth["accuracies"]["discriminant"] = study.right(judges["discriminant"])
        return worth | {"iterations": iterations}

    described = f"{system}, {encoder}, ε = {epsilon:g}, {count} images"
    if train is not train_classifier:
        described += f", {train.__name__}"
    if kinds != CLASSIFIERS:
        described += f", {' '.join(kinds)}"
    return Ablation(table=table, row=row, run=run, described=described)


def all_ablations() -> Iterator[Ablation]:
    """In the order of the tables; what needs an encoder of its own comes last."""
    yield from _set_sizes()
    yield from _losses()
    yield from _sizes_and_layers()
    yield from _stages()
    yield from _early_stopping()
    yield from _parts()
    yield from _encoders()
    yield from _private_encoders()
    yield from _iterations()
    yield from _generators()


def _set_sizes() -> Iterator[Ablation]:
    for percent in (2, 10, 50, 100, 400):
        yield _of_system(
            "SPS-3", f"{percent}%", SPS_G, FULL, count=SIZE * percent // 100, steps=SET_SIZE_STEPS
        )


def _losses() -> Iterator[Ablation]:
    def row(name: str, make: Callable[[Study], Set]) -> Ablation:
        def run(study: Study) -> Kept:
            return study.examined(make(study), judged=True)

        return Ablation(table="SPS-4", row=name, run=run)

    for soft in (True, False):
        labels = "soft" if soft else "hard"
        yield row(f"D3S, {labels} labels, no noise", partial(_d3s, soft=soft))
        yield row(f"SPS, {labels} labels, no noise", partial(_sps, soft=soft))
    yield _of_system("SPS-4", "SPS, hard labels", SPS, UPRIGHT)
    yield row("SPS-G, soft labels of released moments", _judged)
    yield _of_system("SPS-4", "SPS-G, hard labels", SPS_G, FULL)


@lru_cache(maxsize=1)
def _teacher(study: Study) -> nn.Sequential:
    return teacher_of(study.private, with_steps(CNN, SIZE, 3 * STEPS))


def _d3s(study: Study, *, soft: bool) -> Set:
    teacher, terms = _teacher(study), Terms(epsilon=NO_NOISE)
    images, labels = d3s(study.private, teacher, SPS, terms, PIXEL_IMAGES)
    return images, soft_labels(teacher, images) if soft else labels


def _sps(study: Study, *, soft: bool) -> Set:
    images, labels = _made(study, SPS, UPRIGHT, NO_NOISE).synthetic.take(PIXEL_IMAGES)
    return images, soft_labels(_teacher(study), images) if soft else labels


def _judged(study: Study) -> Set:
    """Labels from the same release as the images: private, unlike a teacher's."""
    synthetic = _made(study, SPS_G, FULL, 1.0).synthetic
    images, _ = synthetic.take(IMAGES)
    assert synthetic.soft is not None
    return images, synthetic.soft(images)


def _sizes_and_layers() -> Iterator[Ablation]:
    for size in (16, 24, 32, 48):
        yield _of_system("SPS-6", str(size), replace(SPS_PLUS, global_size=size, class_size=size))
    for layers in (1, 2, 3, 4, 5):
        yield _of_system("SPS-7", f"last {layers}", replace(SPS_PLUS, class_layers=layers))


def _stages() -> Iterator[Ablation]:
    yield _of_system("SPS-8", "SPS", SPS)
    one = replace(SPS_PLUS, clip_ratios=(1 / 16,), iterations=150, later_iterations=None)
    yield _of_system("SPS-8", "SPS+ without stages", one)
    yield _of_system("SPS-8", "SPS+", SPS_PLUS)


def _early_stopping() -> Iterator[Ablation]:
    first = replace(DP_MEPF, second=False)
    for epsilon in (1.0, 0.2):
        for stopping in (True, False):
            name = "by a second release" if stopping else "at the end of training"
            system = replace(first, stopping=stopping)
            yield _of_system("DP-MEPF-4", f"ε = {epsilon:g}, {name}", system, epsilon=epsilon)


def _parts() -> Iterator[Ablation]:
    row = partial(_of_system, "SPS-5", train=train_sharpness_aware)
    yield row("SPS", SPS)
    yield row("without a floor of the jitter", replace(SPS, cleaning=Cleaning()))
    yield row("without class rescaling", replace(SPS, rescale=False))
    yield row("without smooth activation", SPS, replace(SHORT_UPRIGHT, activation=nn.ReLU))
    yield row("by an encoder to which light and dark are alike", SPS, SHORT)
    yield _of_system("SPS-5", "without GSAM", SPS)


def _encoders() -> Iterator[Ablation]:
    widths = {"half as wide": (16, 32, 64, 64, 128), "twice as wide": (64, 128, 256, 256, 512)}
    yield _of_system("DP-MEPF-17", "as elsewhere here", DP_MEPF)
    for name, each in widths.items():
        yield _of_system("DP-MEPF-17", name, DP_MEPF, replace(SHORT, widths=each))
    yield _of_system("DP-MEPF-17", "untrained", DP_MEPF, replace(SHORT, epochs=0))
    yield _of_system("DP-MEPF-17", "EfficientNet-Lite0, ImageNet", DP_MEPF, 32)
    for public in ("photos+letters", "photos", "letters"):
        yield _of_system("DP-MEPF-18", public, DP_MEPF, replace(SHORT, public=public))


def _private_encoders() -> Iterator[Ablation]:
    for share in (0.0, 0.2, 0.5, 0.8):
        name = f"{share:g} and {1 - share:g}" if share else "0 (untrained) and 1"
        yield Ablation(table="DP-MEPF-19", row=name, run=partial(_privately, share=share))


def _iterations() -> Iterator[Ablation]:
    for iterations in (300, 1200, 4800):
        training = replace(DP_MEPF.training, iterations=iterations)
        system = replace(DP_MEPF, training=training)
        yield _of_system("DP-MEPF-8", f"{iterations:,}", system, kinds=WITH_MLP)


def _generators() -> Iterator[Ablation]:
    """With so little noise, what is missing is missing in images: moments tell classes apart."""
    row = partial(_of_system, "SPS-G", epsilon=10.0)
    yield row("as elsewhere here", SPS_G)
    yield row("latent vectors of 128 numbers for 32", replace(SPS_G, latent=128))
    yield row("a generator twice as wide", replace(SPS_G, widths=(192, 128, 64, 32)))
    longer = replace(GENERATOR, iterations=1200)
    yield row("four times as many steps", replace(SPS_G, training=longer))
    yield row("pixels refined, 20 steps", replace(SPS_G, refine=20))
    yield row("images on which moments disagree, too", replace(SPS_G, agreement=False))


def _privately(study: Study, *, share: float) -> Kept:
    made: Synthetic = with_private_encoder(study.private, DP_MEPF, share, Terms())
    return study.examined(made.take(IMAGES)) | {"iterations": GENERATOR.iterations}


def main() -> None:
    """Do what is missing."""
    options = arguments(__doc__).parse_args()
    study = Study(options.data, options.public)

    def run(each: Ablation) -> Kept:
        for old in kept(OUT):  # what two tables have in common is done once
            if each.described and old["described"] == each.described:
                return {name: value for name, value in old.items() if name not in each.key}
        start = time.perf_counter()
        found = each.run(study)
        seconds = round(time.perf_counter() - start, 1)
        return found | {"seconds": seconds, "seed": 0, "code": machine.COMMIT}

    do_missing(OUT, all_ablations(), run, lambda _: {"titles": TITLES}, options)


if __name__ == "__main__":
    main()
