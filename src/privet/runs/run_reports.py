"""`privet report`: what folders of finished runs tell, as one HTML page.

Only what left the hedge is read: no private row is needed for a page, and none is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privet.data.disk import write_whole
from privet.data.guard import shown
from privet.errors import ConfigError
from privet.report import Story, comparison, page
from privet.runs.attack_story import attack_story
from privet.runs.federated_set import FEDERATE
from privet.runs.finished_set import finished_set_config, finished_table_config, made_table
from privet.runs.model_story import model_story
from privet.runs.run_folder import REPORT, RunFolder, understood
from privet.runs.set_story import set_story
from privet.runs.table_story import table_story
from privet.runs.trained_network import finished_config

_COMMANDS: Mapping[str, tuple[Callable[[RunFolder], object], Callable[[RunFolder], Story]]] = {
    "train": (finished_config, model_story),
    "synthesize": (finished_set_config, set_story),
    "merge": (finished_set_config, set_story),
    FEDERATE: (finished_set_config, set_story),
}
_SEVERAL = "privet-report.html"


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page on disk.

    Args:
        path: where the page lies.
        runs: folders of the runs that it tells of.
        size: its size in bytes.
    """

    path: Path
    runs: tuple[Path, ...]
    size: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "report": str(self.path),
            "runs": [str(each) for each in self.runs],
            "bytes": self.size,
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        size = f"{self.size / 1e6:.1f} MB" if self.size >= 1e6 else f"{self.size / 1e3:.0f} kB"
        return {"report": self.path, "size": f"{size}, in one file"}


def report(
    runs: Sequence[Path],
    out: Path | None = None,
    *,
    attack: Path | None = None,
    force: bool = False,
) -> Report:
    """Write a page on one run, or on several beside each other.

    Args:
        runs: their folders.
        out: the page; None takes `report.html` in the folder of one run, which is made anew each
            time, and `privet-report.html` here for several.
        attack: the file of what `privet audit attack` found, for a page on one run; None for none.
        force: replace a page that lies elsewhere than in a run's folder.
    """
    if attack is not None and len(runs) > 1:
        raise ConfigError("--attack is for a page on one run: name one, or leave it out.")
    stories = [story(each) for each in runs]
    if attack is not None:
        stories = [replace(stories[0], attacks=attack_story(attack))]
    place = out or (RunFolder(runs[0]) / REPORT if len(runs) == 1 else Path(_SEVERAL))
    own = out is None and len(runs) == 1
    if place.exists() and not (own or force):
        raise ConfigError(f"{shown(place)} exists already: choose another --out, or add --force.")
    with understood(runs[0] if len(runs) == 1 else "those folders"):
        text = page(stories[0]) if len(stories) == 1 else comparison(_told_apart(stories))
        content = text.encode()
    if not place.parent.is_dir():
        raise ConfigError(f"{shown(place.parent)} is no folder: choose another --out.")
    write_whole(place, memoryview(content))
    return Report(path=place, runs=tuple(runs), size=len(content))


def story(path: Path) -> Story:
    """Read what a finished run's folder tells."""
    RunFolder(path).refuse_other_layouts()
    for command, (require_finished, told) in _COMMANDS.items():
        folder = RunFolder(path, command)
        if folder.holds_run:
            with understood(folder):
                if command == "synthesize" and made_table(folder):
                    require_finished, told = finished_table_config, table_story
                require_finished(folder)
                return told(folder)
    raise ConfigError(
        f"{shown(path)} holds no run of 'privet train', 'tune', 'synthesize', 'merge' or "
        "'federate': give the folder of one."
    )


def _told_apart(stories: list[Story]) -> list[Story]:
    """Give stories names that differ, also of folders of one name in several places."""
    names = [each.name for each in stories]
    return [
        each if names.count(each.name) == 1 else replace(each, name=f"{each.name} ({number})")
        for number, each in enumerate(stories, 1)
    ]
