"""What a synthetic set teaches the classifiers that people use, beside public images alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privet.errors import ConfigError
from privet.measure import accuracy
from privet.public import PublicRows
from privet.recipes.presets import named
from privet.recipes.releases import OnStep
from privet.share.panel import PANEL, Lesson, taught


@dataclass(frozen=True, kw_only=True)
class PanelScore:
    """Test accuracies of one kind of classifier.

    Args:
        classifier: which.
        synthetic: where it learned from synthetic images alone.
        public: where it learned from public images of the run alone, if they have the classes.
    """

    classifier: str
    synthetic: float
    public: float | None

    def in_words(self) -> str:
        """For a terminal."""
        beside = "" if self.public is None else f"; of public images alone {self.public:.1%}"
        return f"{self.synthetic:.1%} test accuracy{beside}"


def panel_names(text: str | None) -> tuple[str, ...]:
    """Of `all`, or of names with commas between them."""
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
) -> tuple[PanelScore, ...]:
    """One classifier of each kind for each set, all tested on the same images.

    Args:
        names: of the panel.
        synthetic: what was released.
        test: real images, not private.
        public: with labels that mean the same classes.
        num_classes: of all of them.
        on_step: told of each network's training.
    """

    def score(name: str, rows: PublicRows) -> float:
        judge = taught(name, Lesson(rows.inputs, rows.targets, num_classes), on_step=on_step)
        return accuracy(judge(test.inputs).argmax(1), test.targets, num_classes).overall

    return tuple(
        PanelScore(
            classifier=name,
            synthetic=score(name, synthetic),
            public=None if public is None else score(name, public),
        )
        for name in names
    )
