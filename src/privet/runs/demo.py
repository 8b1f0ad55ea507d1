"""Both jobs on embedded digits: a private data set and a private classifier, out of one budget."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from privet import plain_json
from privet.data import ImageSet
from privet.data.disk import write_whole
from privet.errors import ConfigError, Stopped
from privet.hedge import Hedge
from privet.hedge.units import Units
from privet.measure import accuracy
from privet.paths import as_path
from privet.privacy import Budget, Guarantee, Ledger, Relation
from privet.privacy.store import BESIDE
from privet.public import PublicRows
from privet.report import Figure, Privacy, Story, comparison
from privet.runs.data_choice import DataChoice
from privet.runs.listening import StepListener
from privet.runs.model_evaluation import evaluate
from privet.runs.run_folder import EVALUATION, RunFolder, understood
from privet.runs.run_reports import story
from privet.runs.session import Session
from privet.runs.set_evaluation import evaluate_set
from privet.runs.sets import read_sets
from privet.runs.synthesis_config import SynthesisAsked
from privet.runs.synthesis_run import synthesize
from privet.runs.train_config import Asked
from privet.runs.train_run import train
from privet.share.panel import Lesson, taught

DATA = DataChoice(source="mnist5k", public="0.1", test="0.1")
SIZE, CLASSES = 4000, 10  # private images, as their owner would declare them
SYSTEM = "sps-g:iterations=300"  # for minutes, not for the last point
# Shares of ε for each; costs compose, so that both together stay within it. A head of a classifier
# has few weights for noise to spoil, images have thousands of moments.
FOR_IMAGES, FOR_CLASSIFIER = 0.8, 0.35
_STATE, _LEDGER, _REPORT, _IMAGES, _MODEL = (
    "demo.json",
    "ledger.db",
    "report.html",
    "images",
    "model",
)
_FILES = (_STATE, _LEDGER, *(f"{_LEDGER}{suffix}" for suffix in BESIDE), _REPORT)
DOOR = "a CNN trained on private images without privacy, to compare with"


@dataclass(frozen=True, kw_only=True)
class DemoTerms:
    """What a demo may spend and make.

    Args:
        epsilon: ε of the classifier and the images together.
        delta: δ of the guarantee.
        count: how many synthetic images to make.
    """

    epsilon: float
    delta: float
    count: int = 5000

    def __post_init__(self) -> None:
        _ = Budget(epsilon=self.epsilon, delta=self.delta)
        if self.count < 1:
            raise ConfigError(f"--count is {self.count}: give 1 or more.")


@dataclass(frozen=True, kw_only=True)
class Accuracies:
    """Accuracies on the test images, which are the same for all.

    Args:
        classifier: of the private classifier.
        images: of a CNN that saw private synthetic images alone.
        public: of the same CNN where it saw the public images alone.
        real: of the same CNN where it saw the private images, without privacy.
    """

    classifier: float
    images: float
    public: float
    real: float


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What was made, what it cost and where it lies."""

    folder: Path
    guarantee: Guarantee
    accuracy: Accuracies

    @property
    def report(self) -> Path:
        """Where the page lies."""
        return self.folder / _REPORT

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "folder": str(self.folder),
            "report": str(self.report),
            "guarantee": str(self.guarantee),
            "test_accuracy": asdict(self.accuracy),
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows: five figures, and where to look."""
        found = self.accuracy
        return {
            "private classifier": f"{found.classifier:.1%} test accuracy",
            "CNN of private synthetic images": f"{found.images:.1%}",
            "CNN of 500 public images": f"{found.public:.1%}",
            f"CNN of {SIZE:,} private images": f"{found.real:.1%}, NOT private, to compare with",
            "spent on both together": f"at most {self.guarantee}",
            "report": self.report,
        }


def demo(
    folder: Path,
    terms: DemoTerms,
    listener: StepListener,
    *,
    force: bool = False,
    resume: bool = False,
) -> DemoResult:
    """Make images and a classifier of 4,000 private digits, and a page about them.

    Args:
        folder: where everything goes.
        terms: what may be spent.
        listener: told of progress.
        force: replace an earlier demo.
        resume: go on with a demo that was interrupted, on its own terms.
    """
    folder = as_path(folder)
    terms = _place(folder, terms, force=force, resume=resume)
    try:
        return _made(folder, terms, listener)
    except (Stopped, KeyboardInterrupt):
        again = f"privet demo --out {shlex.quote(str(folder))} --resume"
        raise Stopped(f"Stopped: go on with {again}") from None


def _made(folder: Path, terms: DemoTerms, listener: StepListener) -> DemoResult:
    """Make what is not there yet of both jobs and the page."""
    with closing(_ledger(folder / _LEDGER, terms)):
        pass  # the owner's, before anyone reads a private image
    images = _images(folder, terms, listener)
    classifier = _classifier(folder, terms, listener)
    listener.note("3 of 3: what it is worth, beside public images alone and no privacy at all.")
    found = Accuracies(classifier=classifier, images=images, **_compared(folder, listener))
    with closing(Ledger.open(folder / _LEDGER)) as ledger:
        guarantee = replace(ledger.guarantee(terms.epsilon), accountant=ledger.composition)
    stories = [story(folder / _MODEL), story(folder / _IMAGES), *_baselines(found)]
    write_whole(folder / _REPORT, memoryview(comparison(stories).encode()))
    return DemoResult(folder=folder, guarantee=guarantee, accuracy=found)


def _place(folder: Path, terms: DemoTerms, *, force: bool, resume: bool) -> DemoTerms:
    """Make room for a demo, and return its terms: those of an earlier one that goes on.

    Only an earlier demo is ever replaced.
    """
    mark = folder / _STATE
    if resume:
        if not mark.is_file():
            raise ConfigError(f"{folder} holds no demo to go on with: start one without --resume.")
        with understood(folder):
            return DemoTerms(**_remembered(folder)["terms"])
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file: choose another --out.")
    if folder.exists() and any(folder.iterdir()):
        if not mark.is_file():
            raise ConfigError(f"{folder} holds something else than a demo: choose another --out.")
        if not force:
            raise ConfigError(
                f"{folder} holds a demo already: go on with --resume, replace it with --force, or "
                "choose another --out."
            )
        _clear(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _remember(folder, terms=asdict(terms))
    return terms


def _clear(folder: Path) -> None:
    """Remove an earlier demo's files, and nothing else; its digits are nobody's secret."""
    runs = [RunFolder(folder / _IMAGES, "synthesize"), RunFolder(folder / _MODEL, "train")]
    for run in runs:
        run.check_idle()
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    for run in runs:
        if run.holds_run:
            shutil.rmtree(run.path)


def _remembered(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = plain_json.read(folder / _STATE)
    return found


def _remember(folder: Path, **state: object) -> None:
    write_whole(folder / _STATE, memoryview((json.dumps(state, indent=2) + "\n").encode()))


def _ledger(path: Path, terms: DemoTerms) -> Ledger:
    if path.exists():
        return Ledger.open(path)
    return Ledger.create(
        path, epsilon=terms.epsilon, delta=terms.delta, relation=Relation.ADD_REMOVE
    )


def _asked(folder: Path, terms: DemoTerms, share: float, **others: object) -> dict[str, Any]:
    return {
        "data": DATA.source,
        "public": DATA.public,
        "test": DATA.test,
        "declared_size": float(SIZE),
        "epsilon": share * terms.epsilon,
        "delta": terms.delta,
        "ledger": str(folder / _LEDGER),
        **others,
    }


def _images(folder: Path, terms: DemoTerms, listener: StepListener) -> float:
    """Make a private data set; return the test accuracy of a CNN that it alone taught."""
    run = RunFolder(folder / _IMAGES, "synthesize")
    words = _asked(folder, terms, FOR_IMAGES, method=SYSTEM, encoder="glyphs")
    session = Session(out=run.path, resume=run.holds_run)
    listener.note(f"1 of 3: {terms.count:,} private synthetic digits.")
    synthesize(SynthesisAsked.of(words), session, listener, count=terms.count)
    if not run.has(EVALUATION):
        evaluate_set(run.path, extractor="glyphs", note=listener.note, progress=listener.progress)
    return float(run.read(EVALUATION)["cas"])


def _classifier(folder: Path, terms: DemoTerms, listener: StepListener) -> float:
    """Train a private classifier by DOPE-SGD on features of a public encoder; return its score."""
    run = RunFolder(folder / _MODEL)
    words = _asked(folder, terms, FOR_CLASSIFIER, method="dope", model="glyphs")
    session = Session(out=run.path, resume=run.holds_run)
    listener.note("2 of 3: a private classifier.")
    train(Asked.of(words), session, listener)
    if not run.has(EVALUATION):
        evaluate(run.path)
    return float(run.read(EVALUATION)["accuracy"])


def _compared(folder: Path, listener: StepListener) -> dict[str, float]:
    """Test the same CNN, taught by public images alone, and by private ones without privacy.

    Private images are looked at once, however often a demo goes on.
    """
    with understood(folder):
        known = _remembered(folder)
        found: dict[str, float] | None = known.get("compared")
        if found is not None:
            plain_json.require(found, public=float, real=float)
    if found is None:
        found = _compare(folder, listener)
        _remember(folder, **known, compared=found)
    return found


def _compare(folder: Path, listener: StepListener) -> dict[str, float]:
    sets = read_sets(DATA)
    assert sets.public is not None
    assert sets.test is not None
    score, shared = _score_of(sets.test, listener), PublicRows.from_images(sets.public)
    public = score(shared.inputs, shared.targets)
    with closing(Ledger.open(folder / _LEDGER)) as ledger:
        reservation = ledger.look("no privacy")
        hedge = Hedge(sets.private, reservation)

        def without_privacy(units: Units) -> float:
            return score(units["images"], units["labels"])

        real = hedge.outside_guarantee(DOOR, without_privacy).value
        reservation.close()
    return {"public": public, "real": real}


def _score_of(test: ImageSet, listener: StepListener) -> Callable[[Tensor, Tensor], float]:
    """Make what gives the test accuracy of a CNN that learned from given images."""
    rows = PublicRows.from_images(test)

    def score(images: Tensor, labels: Tensor) -> float:
        judge = taught("cnn", Lesson(images, labels, CLASSES), on_step=listener.progress("CNN"))
        return accuracy(judge(rows.inputs).argmax(1), rows.targets, CLASSES).overall

    return score


def _baselines(found: Accuracies) -> list[Story]:
    """Stories of the two baselines that stand beside the runs on the page."""
    cnn = "a CNN as for synthetic images"
    return [
        Story(
            name="public images alone",
            title="A baseline",
            lead="The same CNN, trained on the 500 public images and on nothing else.",
            figures=(
                Figure(f"{found.public:.1%}", "test accuracy", cnn),
                Figure("nothing", "was spent"),
            ),
            privacy=Privacy(
                private=True,
                guarantee="no private row was touched",
                statement="Only public images were used.",
            ),
        ),
        Story(
            name="no privacy",
            title="A baseline that is NOT private",
            lead=f"The same CNN, trained on the {SIZE:,} private images themselves.",
            figures=(
                Figure(f"{found.real:.1%}", "test accuracy", cnn),
                Figure("NOT private", "was spent", "no guarantee"),
            ),
            privacy=Privacy(
                private=False,
                guarantee="none",
                statement="It saw private images without protection, through the marked door of "
                "the hedge, which the ledger tells: a bound to compare with, not to share.",
                outside=(DOOR,),
            ),
        ),
    ]
