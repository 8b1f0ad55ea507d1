"""`privet evaluate` for runs of `privet synthesize`: how good the images in a folder are.

Images are read from the run's folder and judged by test images, which are not private. Private rows
are of no use here: at most they lie in one source with test or public ones, and stay undecoded
where its format allows it. Unless someone asks for classifiers of private images to compare with:
they are looked at through the hedge's marked door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privet.data import ImageSet
from privet.data.contact_sheet import draw_contact_sheet
from privet.data.guard import shown
from privet.errors import ConfigError, DataError, PrivacyError
from privet.hedge import Hedge
from privet.privacy import Ledger, Unit
from privet.privacy.certificate import promise
from privet.public import PublicRows
from privet.recipes.presets import named
from privet.recipes.public_diffusion import Progress
from privet.recipes.releases import OnStep
from privet.recipes.set_extractors import EXTRACTORS, Eye, Look
from privet.recipes.set_panel import PanelScore, panel_names, panel_scores
from privet.recipes.set_quality import MOST, Closest, Extractor, SetQuality, set_quality
from privet.runs.data_choice import DataChoice, from_the_run, part_of
from privet.runs.federated_set import FederatedSet
from privet.runs.finished_set import SetConfig, finished_set_config, set_folder
from privet.runs.merged_config import MergedConfig, sources_of
from privet.runs.origins import refuse_private
from privet.runs.protected import refuse_protected
from privet.runs.public_synthesis import PublicConfig
from privet.runs.run_certificate import certificate_of
from privet.runs.run_folder import MEMORISATION, STATE, SYNTHETIC, RunFolder, understood
from privet.runs.sets import Sets, read_sets
from privet.runs.stored_evaluation import Kind, store
from privet.runs.synthesis_config import SynthesisConfig


@dataclass(frozen=True, kw_only=True)
class SetEvaluation:
    """How good a run's images are, and what they cost.

    Args:
        test: where test images come from, in words.
        synthetic_count: how many images the run has.
        test_count: how many test images there are.
        class_names: names of their labels; empty if there are no labels.
        quality: all figures of the set.
        picture: the file of a picture of synthetic images beside those that the run saw; None if
            these are not public.
        guarantee: the guarantee of the run, in words.
        panel: scores of classifiers that learned from the images; empty if not asked for.
    """

    test: str
    synthetic_count: int
    test_count: int
    class_names: tuple[str, ...]
    quality: SetQuality
    picture: Path | None
    guarantee: str
    panel: tuple[PanelScore, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "test": self.test,
            "synthetic_count": self.synthetic_count,
            "test_count": self.test_count,
            "class_names": list(self.class_names),
            **self.quality.to_json(),
            "cas_worst_class_name": self.worst_class_name,
            "panel": [asdict(each) for each in self.panel],
            "picture": None if self.picture is None else str(self.picture),
            "guarantee": self.guarantee,
        }

    @property
    def worst_class_name(self) -> str | None:
        """The name of the class that the CNN recognises least; None without CAS."""
        number = self.quality.cas_worst
        return None if number is None else self.class_names[number]

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        found = self.quality
        made, real = f"{found.images:,} synthetic", f"{found.test_images:,} test images"
        score = "" if found.inception is None else f"{found.inception:.2f} ({made} images)"
        return {
            "test images": f"{self.test_count:,} ({self.test})",
            "extractor": found.extractor,
            "Fréchet distance": f"{found.frechet:.4g} ({made} and {real})",
            "KID": f"{found.kid:.4g} ± {found.kid_std:.2g} ({found.kid_subsets} subsets, each of "
            f"{found.kid_subset_size:,} of {made} and of {real})",
            "MMD²": f"{found.mmd:.4g} ({made} and {real}, Gaussian kernel of length "
            f"{found.mmd_length_scale:.3g})",
            "Inception score": score or "none: the extractor does not know the classes",
            "precision": f"{found.precision:.1%} of {made} images lie among {real}",
            "recall": f"{found.recall:.1%} of {real} lie among {made} ones",
            "density": f"{found.density:.2f} ({made} among {real}; about 1 if they are alike)",
            "coverage": f"{found.coverage:.1%} of {real} have one of {made} ones near them",
            **self._score_in_words(),
            **{f"panel, {each.classifier}": each.in_words() for each in self.panel},
            **self._memory_in_words(),
            "guarantee": self.guarantee,
        }

    def _score_in_words(self) -> dict[str, object]:
        found = self.quality
        if found.cas is None or self.worst_class_name is None:
            return {"CAS": "none: there is one class only"}
        on = f"on {self.test_count:,} test images, by a CNN"
        of = f"that learned from {self.synthetic_count:,} synthetic ones alone"
        by_class = zip(self.class_names, found.cas_by_class, strict=True)
        return {
            "CAS": f"{found.cas:.1%} {on} {of}",
            "worst class": f"{found.cas_worst_class:.1%}: {shown(self.worst_class_name)}",
            **{f"  {shown(name)}": _share(share) for name, share in by_class},
        }

    def _memory_in_words(self) -> dict[str, object]:
        found = self.quality
        if found.seen_images is None or found.memorisation is None or found.copies is None:
            return {}
        size = min(found.seen_images, found.test_images)
        return {
            "memorisation": f"{found.memorisation:.1%} of synthetic images are nearer to one of "
            f"{size:,} public images that the run saw than to one of {size:,} test images; half if "
            "it remembers nothing",
            "copies": f"{found.copies:.1%} are three times nearer to one of {found.seen_images:,} "
            "public images that the run saw than to any other",
            "closest": self.picture,
        }


def _share(share: float | None) -> str:
    return "no images" if share is None else f"{share:.1%}"


def evaluate_set(
    out: Path,
    test: str | None = None,
    extractor: str | None = None,
    note: Callable[[str], object] = lambda sentence: None,
    progress: Progress | None = None,
    panel: str | None = None,
    real: bool = False,
) -> SetEvaluation:
    """Read the images of a finished run and judge them; what was found is kept in its folder.

    Args:
        out: the run's folder.
        test: another test set; None takes the one that the run had.
        extractor: the name of what looks at images; None takes `cnn`.
        note: told what is worth a line.
        progress: gives a listener for each part, by its name; None tells nobody.
        panel: classifiers that learn from the images too: `all`, or names with commas; None for
            none.
        real: let them learn from the private images as well, outside the guarantee: the run's
            ledger says so, and what comes of it is returned and kept nowhere.
    """
    if real and panel is None:
        raise ConfigError("--real compares classifiers of a --panel: name some.")
    kinds = panel_names(panel)
    look = EXTRACTORS[named(EXTRACTORS, extractor or "cnn", "--extractor")]
    folder = set_folder(out)
    with folder.claimed(), understood(folder):  # so that nobody adds images meanwhile
        with _looking(folder) if real else nullcontext() as private:
            found = _evaluated(folder, look, kinds, test, note, progress, private)
        picture = None if found.picture is None else found.picture.name
        free = replace(found, panel=tuple(replace(each, real=None) for each in found.panel))
        store(folder, Kind.SET, {**free.to_json(), "picture": picture}, note)
    return found


@contextmanager
def _looking(folder: RunFolder) -> Iterator[Hedge]:
    """The run's private images, behind a hedge that only its marked door leads out of."""
    config = finished_set_config(folder)
    if isinstance(config, FederatedSet):
        raise ConfigError("The private images lie with the parties: leave --real out.")
    if not isinstance(config, SynthesisConfig):
        raise ConfigError("The run had no private images: leave --real out.")
    with closing(Ledger.open(folder / folder.read(STATE)["ledger"])) as ledger:
        if ledger.unit is not Unit.EXAMPLE:
            raise ConfigError(f"The ledger protects each {ledger.unit.value}: leave --real out.")
        private = read_sets(config.data).private
        reservation = ledger.look(f"evaluate {folder.path.resolve().name}")
        try:
            yield Hedge(private, reservation)
        finally:
            reservation.close()


def _evaluated(
    folder: RunFolder,
    look: Look,
    kinds: tuple[str, ...],
    test: str | None,
    note: Callable[[str], object],
    progress: Progress | None,
    private: Hedge | None,
) -> SetEvaluation:
    config, certificate = finished_set_config(folder), certificate_of(folder)
    synthetic = _beside(folder, replace(config.data, public=None, test=None)).private
    real, where = _test_images(folder, config, test, note)
    made, seen = PublicRows.from_images(synthetic), _seen(folder, config, note)
    if config.class_names:
        note("A CNN learns from the synthetic images: the more there are, the longer it takes.")
    num_classes, tested = max(1, len(config.class_names)), PublicRows.from_images(real)
    if kinds and num_classes < 2:
        raise ConfigError("--panel needs labels of two classes or more: leave it out.")
    eye = look(tested, num_classes, _bar(progress, "extractor"))
    quality = _quality(eye, made, seen, num_classes, progress)
    return SetEvaluation(
        test=where,
        synthetic_count=len(made),
        test_count=len(real),
        class_names=config.class_names,
        quality=quality,
        picture=_picture(folder, quality.closest, made, seen),
        guarantee=promise(certificate),
        panel=panel_scores(
            kinds,
            made,
            tested,
            seen if _knows_classes(config) else None,
            num_classes,
            _bar(progress, "panel"),
            private,
        ),
    )


def _knows_classes(config: SetConfig) -> bool:
    """Whether labels of public images mean the classes of the set: a share's do."""
    return isinstance(config, PublicConfig) or _is_share(config.data.public)


def _quality(
    eye: Eye,
    made: PublicRows,
    seen: PublicRows | None,
    num_classes: int,
    progress: Progress | None,
) -> SetQuality:
    sets = [each for each in (made, eye.test, seen) if each is not None]
    total = sum(min(MOST, len(each)) for each in sets)
    return set_quality(
        made,
        eye.test,
        extractor=_watched(eye.features, _bar(progress, "images"), total),
        name=eye.name,
        probabilities=eye.probabilities,
        seen=seen,
        taught_by=eye.taught_by,
        num_classes=num_classes,
        on_step=_bar(progress, "CNN"),
    )


def _bar(progress: Progress | None, name: str) -> OnStep | None:
    return None if progress is None else progress(name)


def _watched(look: Extractor, tell: OnStep | None, total: int) -> Extractor:
    """Wrap an extractor, to tell how many images it has seen."""
    done = 0

    def counted(images: Tensor) -> Tensor:
        nonlocal done
        found = look(images)
        done += len(images)
        if tell is not None:
            tell(done, total)
        return found

    return counted


def _test_images(
    folder: RunFolder,
    config: SetConfig,
    test: str | None,
    note: Callable[[str], object],
) -> tuple[ImageSet, str]:
    given = config.data.test if test is None else test
    if given is None:
        raise ConfigError("The run had no test images: give some with --test.")
    if test is not None:
        _refuse_seen(folder, config, test)
        for sentence in refuse_protected(folder, test):
            note(sentence)
    sets = _beside(folder, replace(config.data, public=None, test=given))
    for sentence in sets.notes:
        note(sentence)
    assert sets.test is not None
    return sets.test, shown(given) if given is test else from_the_run(given)


def _refuse_seen(folder: RunFolder, config: SetConfig, test: str) -> None:
    """Refuse test images that the run learned from: nothing can be said by them."""
    if _is_share(test):
        raise ConfigError(
            f"--test is {test}: a run sets shares aside itself, so name other images."
        )
    merged = isinstance(config, MergedConfig)
    private = [each.data for each in sources_of(folder)] if merged else [config.data.source]
    try:
        for source in private:
            refuse_private("test", test, source)
    except ConfigError:
        if not isinstance(config, PublicConfig):
            raise
        raise ConfigError(
            "--test names the images that the run learned from, or a part of them: give others."
        ) from None


def _seen(folder: RunFolder, config: SetConfig, note: Callable[[str], object]) -> PublicRows | None:
    """Read public images that the run learned from, and never private ones; None without such."""
    try:
        found = _public_images(folder, config)
    except (ConfigError, DataError, PrivacyError) as error:
        note(f"Memorisation is left out, since public images of the run are not there: {error}")
        return None
    return None if found is None else PublicRows.from_images(found)


def _public_images(folder: RunFolder, config: SetConfig) -> ImageSet | None:
    data = config.data
    if not _is_share(data.test):
        data = replace(data, test=None)
    if isinstance(config, PublicConfig):
        return read_sets(data, require_labels=False).private  # so called, and public here
    if not _is_share(data.public):
        data = replace(data, test=None)
    return _beside(folder, data).public


def _beside(folder: RunFolder, data: DataChoice) -> Sets[ImageSet]:
    """Read images that are like the synthetic ones; DATA is opened for shares of it alone."""
    if not (_is_share(data.public) or _is_share(data.test)):
        data = replace(data, source=str(folder / SYNTHETIC))
    return read_sets(data, unread=True, require_labels=False)


def _is_share(text: str | None) -> bool:
    """Whether the text is a share or a count of DATA, not another source."""
    return isinstance(part_of(text), float | int)


def _picture(
    folder: RunFolder, closest: tuple[Closest, ...], made: PublicRows, seen: PublicRows | None
) -> Path | None:
    """Draw a line for each image: itself, a gap, and those nearest to it (IDS, Figure 8a)."""
    if seen is None:
        folder.discard(MEMORISATION)  # of an earlier evaluation
        return None
    gap = torch.full_like(made.inputs[:1], 255)
    lines = [
        torch.cat([made.inputs[each.synthetic, None], gap, seen.inputs[list(each.seen)]])
        for each in closest
    ]
    columns = len(lines[0])
    labels = np.arange(len(lines)).repeat(columns)
    names = tuple(f"{each.distances[0]:.3g}" for each in closest)
    images = ImageSet(torch.cat(lines).numpy(), labels, names)
    sheet = draw_contact_sheet(images, columns=columns, lines=1)
    folder.write_with(MEMORISATION, lambda path: sheet.save(path, "PNG"))
    return folder / MEMORISATION
