"""What a synthetic set teaches the classifiers that people use, beside public images alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privet.errors import ConfigError
from privet.hedge import Hedge, Units
from privet.measure import accuracy
from privet.public import PublicRows
from privet.recipes.presets import named
from privet.recipes.releases import OnStep
from privet.share.panel import PANEL, Lesson, taught

DOOR = "classifiers trained on private images without privacy, to compare with"


@dataclass(frozen=True, kw_only=True)
class PanelScore:
    """Test accuracies of one kind of classifier.

    Args:
        classifier: the name of the classifier.
        synthetic: after it learned from synthetic images alone.
        public: after it learned from public images of the run alone; None if there are none, or of
            other classes.
        real: after it learned from the private images themselves: NOT private; None if not asked
            for.
    """

    classifier: str
    synthetic: float
    public: float | None
    real: float | None = None

    def in_words(self) -> str:
        """The accuracies in one line, for a terminal."""
        beside = "" if self.public is None else f"; of public images alone {self.public:.1%}"
        real = "" if self.real is None else f"; of private images {self.real:.1%} (NOT PRIVATE)"
        return f"{self.synthetic:.1%} test accuracy{beside}{real}"


def panel_names(text: str | None) -> tuple[str, ...]:
    """Read `all`, or names with commas between them; None names none."""
    if text is None:
        return ()
    if text == "all":
        return PANEL
    names = tuple(named(PANEL, each.strip(), "--panel") for each in text.split(","))
    if len(set(names)) < len(names):
        raise ConfigError("--panel names the same classifier twice.")
    return names


def panel_scores(
    names: Sequence[str],
    synthetic: PublicRows,
    test: PublicRows,
    public: PublicRows | None,
    num_classes: int,
    on_step: OnStep | None = None,
    private: Hedge | None = None,
) -> tuple[PanelScore, ...]:
    """Train one classifier of each kind on each set, and test all on the same images.

    Args:
        names: kinds of classifiers.
        synthetic: synthetic images, as released.
        test: test images, which are real and not private.
        public: public images whose labels mean the same classes; None leaves them out.
        num_classes: how many classes all of them have.
        on_step: called with the steps done and their total in each network's training.
        private: the private images, to be looked at outside the guarantee; None leaves them out.
    """

    def score(name: str, rows: PublicRows) -> float:
        judge = taught(name, Lesson(rows.inputs, rows.targets, num_classes), on_step=on_step)
        return accuracy(judge(test.inputs).argmax(1), test.targets, num_classes).overall

    def real(units: Units) -> dict[str, float]:
        rows = PublicRows(units["images"], units["labels"])  # for once, and marked so
        return {name: score(name, rows) for name in names}

    of_real = {} if private is None else private.outside_guarantee(DOOR, real).value
    return tuple(
        PanelScore(
            classifier=name,
            synthetic=score(name, synthetic),
            public=None if public is None else score(name, public),
            real=of_real.get(name),
        )
        for name in names
    )
