"""`privet evaluate`: a finished run's model again, from its folder alone, on test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from privet.augment import to_float
from privet.data.guard import shown
from privet.learn.ensemble import mean_logits, mean_weights, vote_shares
from privet.learn.gradients import Blocks, at_weights
from privet.measure import Accuracy, Calibration, accuracy, calibration, logits, predictions
from privet.privacy import Certificate
from privet.privacy.certificate import promise
from privet.public import PublicRows
from privet.recipes.feature_models import features
from privet.runs.reading import public_rows, read_test_rows
from privet.runs.run_certificate import spending_certificate_of
from privet.runs.run_folder import ENSEMBLE, MODEL, RunFolder, understood
from privet.runs.stored_evaluation import Kind, store
from privet.runs.text_evaluation import TextEvaluation, evaluated_text
from privet.runs.train_config import RunConfig
from privet.runs.trained_network import finished_config, saved_tensors, trained_network


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How good a run's model is, and what it cost.

    Args:
        test: where the rows come from, in words.
        noun: the word for the rows.
        class_names: class names of the private rows.
        accuracy: accuracy of the averaged weights.
        calibration: calibration of the same weights, on the same rows.
        ensembles: accuracy of what the last weights make together, by name.
        certificate: the certificate of the run.
        notes: sentences for whoever asked.
    """

    test: str
    noun: str
    class_names: tuple[str, ...]
    accuracy: Accuracy
    calibration: Calibration
    ensembles: dict[str, Accuracy]
    certificate: Certificate
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "test": self.test,
            **self.accuracy.to_json(),
            "worst_class_name": self.worst_class_name,
            "class_names": list(self.class_names),
            "calibration": self.calibration.to_json(),
            "ensembles": {name: found.to_json() for name, found in self.ensembles.items()},
            "certificate": self.certificate.to_json(),
        }

    @property
    def worst_class_name(self) -> str:
        """The name of the class that is recognised least."""
        return self.class_names[self.accuracy.worst]

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        certificate, found, sure = self.certificate, self.accuracy, self.calibration
        by_class = zip(self.class_names, found.by_class, strict=True)
        return {
            "accuracy": f"{found.overall:.1%} on {found.count:,} {self.noun} ({self.test})",
            "worst class": f"{found.worst_class:.1%}: {shown(self.worst_class_name)}",
            **{f"  {shown(name)}": _share(share, self.noun) for name, share in by_class},
            "calibration": f"ECE {sure.error:.1%}, {sure.confidence:.1%} sure on average, on the "
            f"same {sure.count:,} {self.noun} in {len(sure.bins)} bins",
            **{f"ensemble, {name}": f"{each.overall:.1%}" for name, each in self.ensembles.items()},
            "guarantee": promise(certificate),
        }


def _share(share: float | None, noun: str) -> str:
    return f"no {noun}" if share is None else f"{share:.1%}"


def evaluate(out: Path, test: str | None = None) -> Evaluation | TextEvaluation:
    """Rebuild the model of a finished run and measure it; what was found is kept in its folder.

    Args:
        out: the run's folder.
        test: another test set; None takes the one that the run had.
    """
    folder = RunFolder(out)
    config = finished_config(folder)
    with folder.claimed(), understood(folder):  # so that no new run takes its place meanwhile
        found: Evaluation | TextEvaluation
        if config.rows.words:
            found = evaluated_text(folder, config, test)
        else:
            found = _evaluated(folder, config, test)
        notes = list(found.notes)
        store(folder, Kind.MODEL, found.to_json(), notes.append)
    return replace(found, notes=tuple(notes))


def _evaluated(folder: RunFolder, config: RunConfig, test: str | None) -> Evaluation:
    certificate, num_classes = spending_certificate_of(folder), len(config.class_names)
    network = trained_network(folder / MODEL, config.model, config.rows.shape, num_classes)
    tested, where, notes = read_test_rows(folder, config, test)
    rows = _inputs(config, public_rows(tested))
    ensembles = {}
    if folder.has(ENSEMBLE):
        ring = _ring(saved_tensors(folder / ENSEMBLE))
        ensembles = _ensembles(network, ring, rows, num_classes)
    found = logits(network, rows.inputs)
    return Evaluation(
        test=where,
        noun=config.rows.noun,
        class_names=config.class_names,
        accuracy=accuracy(found.argmax(1), rows.targets, num_classes),
        calibration=calibration(found.double().softmax(1), rows.targets),
        ensembles=ensembles,
        certificate=certificate,
        notes=tuple(notes),
    )


def _inputs(config: RunConfig, rows: PublicRows) -> PublicRows:
    """Compute what the network reads: numbers as they are or from pixels, or features."""
    encoder = config.model.encoder()
    if encoder is None:
        return PublicRows(to_float(rows.inputs), rows.targets) if config.rows.pixels else rows
    return PublicRows(features(encoder, rows.inputs), rows.targets)


def _ensembles(
    network: nn.Module, ring: list[Blocks], rows: PublicRows, num_classes: int
) -> dict[str, Accuracy]:
    """Measure what the last weights make together (section 3.2 of Nasr et al. 2023)."""
    with at_weights(network, mean_weights(ring)):
        found = {"mean weights": _accuracy(network, rows, num_classes)}
    for name, way in {"vote": vote_shares, "mean logits": mean_logits}.items():
        found[name] = _accuracy(partial(way, network, ring), rows, num_classes)
    return found


def _accuracy(
    logits_of: Callable[[Tensor], Tensor], rows: PublicRows, num_classes: int
) -> Accuracy:
    return accuracy(predictions(logits_of, rows.inputs), rows.targets, num_classes)


def _ring(tensors: dict[str, Tensor]) -> list[Blocks]:
    ring: dict[str, Blocks] = {}
    for name, tensor in sorted(tensors.items()):
        place, _, block = name.partition("/")
        ring.setdefault(place, {})[block] = tensor
    return list(ring.values())
