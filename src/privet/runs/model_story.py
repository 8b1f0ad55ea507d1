"""What a page tells of a run of `privet train`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from privet.data import load
from privet.data.guard import shown
from privet.report import Bar, Curve, Figure, Measure, Privacy, Samples, Story
from privet.runs.run_folder import CONFIG, RESULT, SYNTHETIC, RunFolder
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
from privet.runs.train_config import RunConfig

Found = Mapping[str, Any]


def model_story(folder: RunFolder) -> Story:
    """Read from its folder what a page tells of a run of `privet train`."""
    config, result = RunConfig.from_json(folder.read(CONFIG)["config"]), folder.read(RESULT)
    noun = config.rows.noun
    evaluation = stored(folder, Kind.MODEL)
    privacy = privacy_of(folder)
    words = config.rows.words
    names = [] if words else [shown(each) for each in config.class_names]
    what = "language model" if words else "classifier"
    told = f"It tells {len(names)} classes of {source_of(folder)} apart"
    if words:
        told = f"It predicts words of {source_of(folder)}"
    found = evaluation or result["test"]
    where = tested_on(evaluation) if evaluation else "set aside by the run"
    return Story(
        name=name_of(folder),
        title=f"A private {what}" if privacy.private else f"A {what}, NOT private",
        lead=(
            f"{told}, and was trained by "
            f"{result['method']} with {result['parameters']:,} parameters in "
            f"{result['steps_in_words']} steps.{_after_release(result)}{_chosen(result, noun)}"
        ),
        figures=tuple(_figures(result, found, privacy, names, noun)),
        privacy=privacy,
        samples=tuple(_samples(folder, result, names)),
        curves=tuple(_curves(folder)),
        classes=() if found is None or words else class_bars(names, found["by_class"], noun),
        classes_note=""
        if found is None or words
        else f"Accuracy on {found['count']:,} {noun} ({where}).",
        measures=tuple(_measures(found, where, noun)) if found else (),
        diagrams=tuple(_diagrams(evaluation)) if evaluation and not words else (),
        hints=() if found else (f"There were no test {noun}: measure with 'privet evaluate'.",),
        settings=settings_of(folder),
        versions=versions_of(folder),
        command=command_of(folder),
    )


def _after_release(result: Found) -> str:
    found = result.get("release")
    if found is None:
        return ""
    return (
        f" For {found['share']:g} of ε the run first made {found['images']:,} synthetic images of "
        "the same data, which served as public ones do; the guarantee covers them too."
    )


def _chosen(result: Found, noun: str) -> str:
    found = result.get("tuning")
    if found is None:
        return ""
    settings = ", ".join(f"{name} {value}" for name, value in found["settings"].items())
    law = f"{found['trials']['law']}, {found['trials']['mean']:g} on average"
    return (
        f" Its settings ({shown(settings)}) are those of the best of a random number of trials "
        f"({law}) among {found['candidates']:,} candidates; the guarantee covers the choice. The "
        f"test {noun} made it, so they flatter the model a little."
    )


def class_bars(
    names: Sequence[str], by_class: Sequence[float | None], noun: str = "images"
) -> tuple[Bar, ...]:
    """Make a bar for the accuracy of each class, the worst first."""
    pairs = zip(names, by_class, strict=True)
    bars = [
        Bar(name, share, f"no {noun}" if share is None else f"{share:.1%}") for name, share in pairs
    ]
    return tuple(sorted(bars, key=lambda bar: 2.0 if bar.share is None else bar.share))


def worst(names: Sequence[str], by_class: Sequence[float | None]) -> str:
    """The name of the class that is recognised least."""
    first = class_bars(names, by_class)[0]
    return "" if first.share is None else f"class {first.name}"


def epsilon_figure(privacy: Privacy) -> Figure:
    """The figure that says what a run cost, never without what the number means."""
    facts = {fact.name: fact.value for fact in privacy.facts}
    if "ε" not in facts:
        return Figure("none", "guarantee", privacy.guarantee)
    note = f"at δ = {facts['δ']} ({facts['relation']}, {facts['accountant'].split(' ')[0]})"
    return Figure(f"ε = {facts['ε']}", "was spent", note)


def _figures(
    result: Found, found: Found | None, privacy: Privacy, names: Sequence[str], noun: str
) -> Iterator[Figure]:
    if found is not None and "perplexity" in found:
        yield Figure(_headline(found), "test perplexity", f"{found['count']:,} {noun}")
    elif found is not None:
        yield Figure(f"{found['accuracy']:.1%}", "test accuracy", f"{found['count']:,} {noun}")
        yield Figure(f"{found['worst_class']:.1%}", "worst class", worst(names, found["by_class"]))
    before, released = result["test_after_warm_up"], result.get("release")
    if before is not None and released is not None:
        yield Figure(_headline(before), "before private steps", "with its synthetic images")
    elif before is not None:
        yield Figure(_headline(before), f"public {noun} alone", "before any private step")
    yield epsilon_figure(privacy)


def _samples(folder: RunFolder, result: Found, names: Sequence[str]) -> Iterator[Samples]:
    """Yield strips of the synthetic set that a run paid for and learned from."""
    if result.get("release") is not None:
        yield from strips(load(folder / SYNTHETIC), names)


def _headline(found: Found) -> str:
    if "perplexity" in found:
        return f"{found['perplexity']:,.1f}"
    return f"{found['accuracy']:.1%}"


def _curves(folder: RunFolder) -> Iterator[Curve]:
    lines, budget = _metrics(folder), folder.read(CONFIG)["config"]["budget"]["epsilon"]
    for key, title, up, percent in (
        ("test_accuracy", "Test accuracy", "accuracy", True),
        ("test_perplexity", "Test perplexity", "perplexity", False),
        ("epsilon", "Privacy spent", "ε", False),
        ("learning_rate", "Learning rate", "rate", False),
    ):
        points = tuple((float(each["step"]), float(each[key])) for each in lines if key in each)
        changes = len({y for _, y in points}) > 1
        if len(points) > 1 and changes:
            curve = {title: points}
            limit = budget if key == "epsilon" else None
            yield Curve(
                title=title, across="step", up=up, lines=curve, percent=percent, limit=limit
            )


def _metrics(folder: RunFolder) -> list[dict[str, Any]]:
    """List metrics by step; what was done again after a crash counts as it was done last."""
    found = {each["step"]: each for each in metric_lines(folder)}
    return [found[step] for step in sorted(found)]


def _diagrams(evaluation: Found) -> Iterator[Curve]:
    """Yield the reliability diagram, of bins that have examples."""
    bins = [each for each in evaluation["calibration"]["bins"] if each["count"]]
    points = tuple((each["confidence"], each["accuracy"]) for each in bins)
    yield Curve(
        title="How often it is right when it is so sure",
        across="confidence",
        up="accuracy",
        lines={"the model": points, "as sure as it is right": ((0.0, 0.0), (1.0, 1.0))},
        percent=True,
    )


def _measures(found: Found, where: str, noun: str) -> Iterator[Measure]:
    on = f"{found['count']:,} {noun} ({where})"
    if "perplexity" in found:
        yield Measure(
            name="perplexity",
            value=_headline(found),
            better="lower",
            span="1 to the number of words",
            meaning="Among how many words the model wavers, on average.",
            on=on,
        )
        return
    yield Measure(
        name="accuracy",
        value=f"{found['accuracy']:.1%}",
        better="higher",
        span="0 to 100%",
        meaning=f"The share of {noun} that get their own class.",
        on=on,
    )
    yield Measure(
        name="worst class",
        value=f"{found['worst_class']:.1%}",
        better="higher",
        span="0 to 100%",
        meaning="The same for the class that is recognised least.",
        on=on,
    )
    if "calibration" in found:
        yield Measure(
            name="calibration error",
            value=f"{found['calibration']['error']:.1%}",
            better="lower",
            span="0 to 100%",
            meaning="How far the model's confidence is from how often it is right, on average.",
            on=on,
        )
    for name, each in found.get("ensembles", {}).items():
        yield Measure(
            name=f"ensemble, {name}",
            value=f"{each['accuracy']:.1%}",
            better="higher",
            span="0 to 100%",
            meaning="Accuracy of the last weights together.",
            on=on,
        )
