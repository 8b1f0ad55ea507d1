"""`privet merge`: the synthetic sets of several runs as one, under one certificate.

Nothing private is touched, and nothing is spent. What the runs cost together is worked out from the
ledgers that they drew on, so these must be there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privet import __version__
from privet.data import ImageSet, load
from privet.data.guard import shown
from privet.data.shards import soft_labels, write_shard
from privet.data.staging import check_free_folder, new_folder
from privet.errors import ConfigError, LedgerError, PrivacyError
from privet.paths import as_path
from privet.privacy import Certificate, Ledger, certify_together
from privet.privacy.certificate import ALWAYS_PUBLIC, promise
from privet.privacy.spends import plan_of
from privet.privacy.splits import refuse_other_splits
from privet.runs.federated_set import FederatedSet
from privet.runs.finished_set import SetConfig, finished_set_config, set_folder
from privet.runs.listening import Listener, Silent
from privet.runs.merged_config import MERGE, MergedConfig, Source, sources_of
from privet.runs.public_synthesis import PublicConfig
from privet.runs.run_certificate import certificate_of
from privet.runs.run_folder import (
    CERTIFICATE,
    CONFIG,
    EVALUATION,
    MEMORISATION,
    PNG,
    REPORT,
    RESULT,
    SAMPLES,
    STATE,
    SYNTHETIC,
    RunFolder,
    understood,
)
from privet.runs.set_card import write_card
from privet.runs.sets import UNLABELLED
from privet.runs.synthesis_config import SynthesisConfig
from privet.runs.synthesis_images import Wanted, check_space, write_sheet

_SHARD = 1000
_OURS = {
    *(CONFIG, STATE, CERTIFICATE, RESULT, SAMPLES, SYNTHETIC, PNG),
    *(REPORT, EVALUATION, MEMORISATION),
}


@dataclass(frozen=True, kw_only=True)
class MergeResult:
    """What a merge left.

    Args:
        folder: where the merged set lies.
        summary: the result in a few words, by name.
        certificate: the certificate of all runs together.
    """

    folder: Path
    summary: Mapping[str, Any]
    certificate: Certificate

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        body = {"folder": str(self.folder), **self.summary}
        return {**body, "certificate": self.certificate.to_json()}

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        spends = {
            f"  {each.run}": f"{each.plan}{'' if each.portion is None else f', {each.portion}'}"
            for each in self.certificate.spends
        }
        return {
            "guarantee": self.summary["guarantee"],
            **spends,
            "images": f"{self.summary['images']:,} in {self.folder / SYNTHETIC}",
            "certificate": self.folder / CERTIFICATE,
        }


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A finished set, as it goes into another."""

    folder: RunFolder
    config: SynthesisConfig | MergedConfig
    images: ImageSet
    sources: tuple[Source, ...]
    made_by: Mapping[str, Mapping[str, Any]]  # of each run, by its name


def merge(
    runs: Sequence[Path], out: Path, *, force: bool = False, listener: Listener | None = None
) -> MergeResult:
    """Put the sets of finished runs together, with the classes of all: whole or not at all.

    Guarantees:
        The certificate counts every run's whole plan. Runs of one ledger are in the portions that
        it has them in; all others add up.

    Args:
        runs: folders of `privet synthesize`, or of an earlier merge.
        out: the folder to be made.
        force: replace an earlier merge there.
        listener: told of progress; None tells nobody.
    """
    listener = listener or Silent()
    if len({as_path(each).resolve() for each in runs}) < max(2, len(runs)):
        raise ConfigError("Merge two runs or more, each once.")
    for each in runs:
        check_free_folder(out, source=each, is_ours=_is_merge, force=force)
    with ExitStack() as stack:
        folders = [set_folder(each) for each in runs]
        for folder in folders:
            stack.enter_context(folder.claimed())  # so that nobody adds images meanwhile
        stack.enter_context(understood("one of those folders"))
        parts = list(_parts(folders))
        config = _merged(parts, listener)
        sources = {(each.ledger, each.reservation): each for part in parts for each in part.sources}
        certificate = _certificate(list(sources.values()))
        return _written(parts, config, list(sources.values()), certificate, out, listener)


def _is_merge(place: Path) -> bool:
    """Whether nothing but an earlier merge would be lost with a folder."""
    return RunFolder(place, MERGE).holds_run and {each.name for each in place.iterdir()} <= _OURS


def _parts(folders: Sequence[RunFolder]) -> Iterator[_Part]:
    taken: dict[str, tuple[str, str]] = {}
    for folder in folders:
        config = finished_set_config(folder)
        if isinstance(config, PublicConfig):
            raise ConfigError(
                f"{folder} was made of public images alone, and has no certificate to merge: leave "
                "it out."
            )
        if isinstance(config, FederatedSet):
            raise ConfigError(
                f"{folder} was made by a federation, whose spends lie with its parties: leave it "
                "out."
            )
        earlier = _sources(folder, config)
        sources = tuple(each.named_apart(taken) for each in earlier)
        yield _Part(
            folder=folder,
            config=config,
            images=load(folder / SYNTHETIC),
            sources=sources,
            made_by={
                new.name: config.runs[old.name]
                if isinstance(config, MergedConfig)
                else config.made_by
                for old, new in zip(earlier, sources, strict=True)
            },
        )


def _sources(folder: RunFolder, config: SetConfig) -> tuple[Source, ...]:
    """List every run that a set rests on, and where its spend is written down."""
    certificate = certificate_of(folder)
    assert isinstance(certificate, Certificate)
    if isinstance(config, MergedConfig):
        return sources_of(folder)
    state = folder.read(STATE)
    return (
        Source(
            name=folder.path.resolve().name,
            ledger=str((folder / state["ledger"]).resolve()),
            reservation=state["reservation"],
            data=config.data.source,
            public=tuple(each for each in certificate.public if each not in ALWAYS_PUBLIC),
        ),
    )


def _merged(parts: Sequence[_Part], listener: Listener) -> MergedConfig:
    """The configuration of the merged set, with all classes in the order in which they came."""
    shapes = {part.config.image_shape for part in parts}
    if len(shapes) > 1:
        sizes = ", ".join(sorted("×".join(map(str, each)) for each in shapes))
        raise ConfigError(f"The runs have images of different sizes ({sizes}): merge equal ones.")
    labelled = {bool(part.config.class_names) for part in parts}
    if len(labelled) > 1:
        raise ConfigError("Some of the runs have labels and some have none: merge equal ones.")
    names = tuple(dict.fromkeys(name for part in parts for name in part.config.class_names))
    if any(part.config.class_names[:1] == ("0",) for part in parts):
        listener.note("Classes have numbers for names: equal ones are taken to mean the same.")
    soft = [part.config.soft_labels for part in parts]
    if any(soft) and not all(soft):
        listener.note("Not every run has soft labels: they are left out.")
    return MergedConfig(
        image_shape=shapes.pop(),
        class_names=names,
        soft_labels=all(soft),
        runs={name: made_by for part in parts for name, made_by in part.made_by.items()},
    )


def _certificate(sources: Sequence[Source]) -> Certificate:
    with ExitStack() as stack:
        ledgers: dict[str, Ledger] = {}
        for each in sources:
            if each.ledger not in ledgers:
                ledgers[each.ledger] = stack.enter_context(closing(_opened(each)))
        runs = {each.name: each.reserved(ledgers[each.ledger]) for each in sources}
        records = [each.record for each in runs.values()]
        for number, record in enumerate(records):
            refuse_other_splits(record, records[:number])
        return certify_together(
            runs,
            public=tuple(dict.fromkeys(used for each in sources for used in each.public)),
        )


def _opened(source: Source) -> Ledger:
    try:
        return Ledger.open(source.ledger)
    except LedgerError as error:
        raise LedgerError(
            f"What {shown(source.name)} cost stands in a ledger that cannot be read, so bring it "
            f"back ({error})"
        ) from None


def _written(
    parts: Sequence[_Part],
    config: MergedConfig,
    sources: Sequence[Source],
    certificate: Certificate,
    out: Path,
    listener: Listener,
) -> MergeResult:
    for part in parts:
        _require_whole_plan(part, certificate)
    wanted = Wanted(count=sum(len(part.images) for part in parts))
    ledgers = {each.ledger for each in sources}
    names = [each.name for each in sources]
    state = {
        "runs": [asdict(each) for each in sources],
        "reservations": [each.reservation for each in sources],
        **({"ledger": ledgers.pop()} if len(ledgers) == 1 else {}),
    }
    summary = {
        "schema": "privet.result/1",
        "method": MERGE,
        "runs": names,
        "guarantee": promise(certificate),
        "images": wanted.count,
        "png": wanted.png,
        "releases": [str(each) for each in certificate.plan.events],
    }
    with new_folder(out) as staging:
        folder = RunFolder(staging, MERGE)
        check_space(folder, config, wanted)
        body = {
            "schema": folder.schema,
            "privet_version": __version__,
            "asked": {"data": " and ".join(names)},
            "config": config.to_json(),
        }
        folder.write(CONFIG, {**body, **asdict(wanted)})
        folder.write(STATE, state)
        folder.write(CERTIFICATE, certificate.to_json())
        _write_shards(parts, config, folder, listener)
        write_sheet(folder)
        write_card(folder, config, wanted.count)
        folder.write(RESULT, summary)
    return MergeResult(folder=out, summary=summary, certificate=certificate)


def _require_whole_plan(part: _Part, certificate: Certificate) -> None:
    """Refuse a set whose own certificate says something else than the ledger."""
    own = certificate_of(part.folder)
    names = {each.name for each in part.sources}
    paid = plan_of(each for each in certificate.spends if each.run in names)
    if not isinstance(own, Certificate) or set(own.plan.events) != set(paid.events):
        raise PrivacyError(
            f"The certificate in {part.folder} has other events than its ledger: one of them was "
            "edited, so believe neither."
        )


@dataclass(frozen=True, eq=False)
class _Rows:
    """A set's images with the labels of all classes."""

    images: ImageSet
    labels: NDArray[np.int64]
    soft: NDArray[np.float32] | None = field(default=None)


def _write_shards(
    parts: Sequence[_Part], config: MergedConfig, folder: RunFolder, listener: Listener
) -> None:
    """Write all images in an order that mixes the runs, and depends on their number alone."""
    sets = [_rows(part, config) for part in parts]
    which = np.repeat(np.arange(len(sets)), [len(each.labels) for each in sets])
    row = np.concatenate([np.arange(len(each.labels)) for each in sets])
    order = np.random.default_rng(0).permutation(len(row))
    tell = listener.progress("images")
    for number in range(math.ceil(len(order) / _SHARD)):
        here = order[number * _SHARD : (number + 1) * _SHARD]
        taken = [(which[here] == k, row[here][which[here] == k]) for k in range(len(sets))]
        images = np.empty((len(here), *config.image_shape), np.uint8)
        labels = np.empty(len(here), np.int64)
        soft = np.zeros((len(here), len(config.class_names)), np.float32)
        for each, (places, rows) in zip(sets, taken, strict=True):
            images[places] = each.images.images[rows]
            labels[places] = each.labels[rows]
            if each.soft is not None:
                soft[places] = each.soft[rows]
        write_shard(
            folder / SYNTHETIC,
            number,
            images,
            labels if config.class_names else None,
            config.class_names or None,
            probabilities=soft if config.soft_labels else None,
        )
        tell(min(len(order), (number + 1) * _SHARD), len(order))


def _rows(part: _Part, config: MergedConfig) -> _Rows:
    names = part.config.class_names or UNLABELLED
    places = np.array([(config.class_names or UNLABELLED).index(name) for name in names])
    found = part.images.labels
    labels = places[np.zeros(len(part.images), np.int64) if found is None else found]
    if not config.soft_labels:
        return _Rows(part.images, labels)
    soft = np.zeros((len(part.images), len(config.class_names)), np.float32)
    soft[:, places] = np.concatenate(list(soft_labels(part.folder / SYNTHETIC)))
    return _Rows(part.images, labels, soft)
