"""What a page tells of a run of `privet synthesize`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from privet.data import ImageSet, load
from privet.data.guard import shown
from privet.report import Curve, Figure, Measure, Privacy, Story
from privet.runs.finished_set import finished_set_config
from privet.runs.merged_config import MERGE
from privet.runs.model_story import class_bars, epsilon_figure, worst
from privet.runs.run_folder import RESULT, SYNTHETIC, RunFolder
from privet.runs.run_story import (
    command_of,
    metric_lines,
    name_of,
    privacy_of,
    settings_of,
    source_of,
    tested_on,
    versions_of,
)
from privet.runs.sample_strips import strips
from privet.runs.stored_evaluation import Kind, stored

Found = Mapping[str, Any]


def set_story(folder: RunFolder) -> Story:
    """Read from its folder what a page tells of a run of `privet synthesize`."""
    config, result = finished_set_config(folder), folder.read(RESULT)
    evaluation = stored(folder, Kind.SET)
    names = [shown(each) for each in config.class_names]
    privacy, images = privacy_of(folder), load(folder / SYNTHETIC)
    classes = evaluation["cas_by_class"] if evaluation and evaluation["cas"] is not None else None
    told = (privacy, len(images), names)
    return Story(
        name=name_of(folder),
        title=_title(privacy),
        lead=_lead(folder, result, images, names, privacy),
        figures=tuple(_figures(evaluation, *told)),
        privacy=privacy,
        samples=tuple(strips(images, names)),
        curves=tuple(loss_curves(folder)),
        classes=() if classes is None else class_bars(names, classes),
        classes_note="" if evaluation is None else _learned(evaluation),
        measures=() if evaluation is None else tuple(_measures(evaluation)),
        hints=()
        if evaluation
        else ("How good the images are is not measured yet: 'privet evaluate' does.",),
        settings=settings_of(folder),
        versions=versions_of(folder),
        command=_command(folder, result),
    )


def _command(folder: RunFolder, result: Found) -> str:
    if folder.command == MERGE:
        names = map(shown, result["runs"])
        return shlex.join(["privet", MERGE, *names, "--out", name_of(folder)])
    return command_of(folder, count=result["images"], png=result.get("png"))


def _title(privacy: Privacy) -> str:
    if not privacy.private:
        return "A synthetic data set, NOT private"
    return "A private synthetic data set" if privacy.events else "A public synthetic data set"


def _lead(
    folder: RunFolder, result: Found, images: ImageSet, names: list[str], privacy: Privacy
) -> str:
    height, width, channels = images.image_shape
    kinds = f"{len(names)} classes" if names else "no labels"
    use = "Anyone may use them for anything: what is done with them costs no more privacy."
    if not privacy.private:
        use = "They are NOT private: keep them to yourself."
    return (
        f"{len(images):,} images of {height}×{width} pixels and {channels} "
        f"{'channel' if channels == 1 else 'channels'}, with {kinds}, made by "
        f"{result['method']} from {source_of(folder)}. {use}"
    )


def _figures(
    evaluation: Found | None, privacy: Privacy, count: int, names: list[str]
) -> Iterator[Figure]:
    yield Figure(f"{count:,}", "synthetic images")
    if evaluation and evaluation["cas"] is not None:
        on = f"CNN taught by them, {evaluation['test_count']:,} test images"
        yield Figure(f"{evaluation['cas']:.1%}", "test accuracy", on)
        yield Figure(
            f"{evaluation['cas_worst_class']:.1%}",
            "worst class",
            worst(names, evaluation["cas_by_class"]),
        )
        yield from _public_alone(evaluation)
    yield epsilon_figure(privacy)


def _public_alone(evaluation: Found) -> Iterator[Figure]:
    """Yield what the same CNN learned from public images, if somebody asked for it."""
    for each in evaluation.get("panel", ()):
        if each["classifier"] == "cnn" and each["public"] is not None:
            yield Figure(f"{each['public']:.1%}", "public images alone", "the same CNN")


def _learned(evaluation: Found) -> str:
    return (
        f"Accuracy on {evaluation['test_count']:,} test images ({tested_on(evaluation)}) of a "
        f"CNN that learned from {evaluation['synthetic_count']:,} synthetic ones alone."
    )


def _measures(found: Found) -> Iterator[Measure]:
    both = f"{found['images']:,} synthetic and {found['test_images']:,} test images"
    seen = f"{both}, by {shown(found['extractor'])}"
    if found["cas"] is not None:
        yield Measure(
            name="CAS",
            value=f"{found['cas']:.1%}",
            better="higher",
            span="0 to 100%",
            meaning="Classification accuracy score: what a CNN learns from synthetic images alone.",
            on=_learned(found),
        )
    for each in found.get("panel", ()):
        beside = "" if each["public"] is None else f" (of public images alone {each['public']:.1%})"
        yield Measure(
            name=f"panel, {shown(each['classifier'])}",
            value=f"{each['synthetic']:.1%}{beside}",
            better="higher",
            span="0 to 100%",
            meaning="Test accuracy of this classifier, trained on synthetic images alone.",
            on=f"{found['synthetic_count']:,} synthetic and {found['test_count']:,} test images",
        )
    for name, key, percent, better, span, meaning in _KINDS:
        value = found.get(key)
        if value is not None:
            text = f"{value:.1%}" if percent else f"{value:.4g}"
            if key == "kid" and found.get("kid_std") is not None:
                text += f" ± {found['kid_std']:.2g}"
            yield Measure(name=name, value=text, better=better, span=span, meaning=meaning, on=seen)


_KINDS = (
    (
        *("Fréchet distance", "frechet", False, "lower", "0 and more"),
        "Between Gaussians of the features of both sets; FID if Inception looked.",
    ),
    (
        *("KID", "kid", False, "lower", "around 0 and more"),
        "A kernel distance between features; unlike FID it does not depend on the number of "
        "images.",
    ),
    (
        *("MMD²", "mmd", False, "lower", "around 0 and more"),
        "The same with a Gaussian kernel of the median distance.",
    ),
    (
        *("Inception score", "inception", False, "higher", "1 to the number of classes"),
        "Whether single images are of one class and all together of many.",
    ),
    (
        *("precision", "precision", True, "higher", "0 to 100%"),
        "The share of synthetic images that lie among test images.",
    ),
    (
        *("recall", "recall", True, "higher", "0 to 100%"),
        "The share of test images that lie among synthetic ones.",
    ),
    (
        *("density", "density", False, "higher", "0 and more; 1 for equal sets"),
        "How many test images' neighbourhoods a synthetic image lies in, of what is expected.",
    ),
    (
        *("coverage", "coverage", True, "higher", "0 to 100%"),
        "The share of test images that have a synthetic neighbour.",
    ),
    (
        *("memorisation", "memorisation", True, "near 50%", "0 to 100%"),
        "The share that lies nearer to public images that the run saw than to test images.",
    ),
    (
        *("copies", "copies", True, "lower", "0 to 100%"),
        "The share that is three times nearer to a public image that the run saw than to any "
        "other.",
    ),
)


def loss_curves(folder: RunFolder) -> Iterator[Curve]:
    """Yield a curve for every part of the run that has a loss, such as a generator's training."""
    parts: dict[str, dict[int, float]] = {}
    for line in metric_lines(folder):
        if "part" in line and "loss" in line:
            parts.setdefault(shown(line["part"]), {})[line["step"]] = float(line["loss"])
    for part, losses in parts.items():
        if len(losses) > 1 and all(map(math.isfinite, losses.values())):
            points = tuple((float(step), losses[step]) for step in sorted(losses))
            title = f"Loss of {part}"
            yield Curve(title=title, across="step", up="loss", lines={title: points})
