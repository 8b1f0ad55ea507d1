"""`privet export`: what a finished run made, in the form that somebody else's tools read.

Nothing private is touched. Wherever something goes, its certificate goes with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privet import __version__
from privet.data.disk import check_free_space
from privet.data.guard import MIB, shown
from privet.data.png_folders import write_png_folders
from privet.data.shard_exports import copy_shards, write_npz
from privet.data.staging import check_free_file, check_free_folder, new_file, new_folder
from privet.errors import ConfigError
from privet.learn.checkpoint import save_tensors
from privet.paths import as_path
from privet.privacy import Certificate
from privet.privacy.certificate import as_json, promise
from privet.privacy.federated import FederatedCertificate
from privet.recipes.row_kinds import ImageRows, TableRows, TextRows
from privet.runs.federated_set import FEDERATE
from privet.runs.finished_set import finished_set_config
from privet.runs.loading import SHARED, load_classifier
from privet.runs.run_certificate import certificate_of
from privet.runs.run_folder import (
    CARD,
    CERTIFICATE,
    CONFIG,
    MODEL,
    RESULT,
    SYNTHETIC,
    RunFolder,
    understood,
)
from privet.runs.set_card import beside, certificate_text
from privet.runs.shared_model import SharedModel
from privet.runs.trained_network import finished_config, saved_tensors
from privet.share.classifier import Classifier
from privet.share.data_card import NPZ, PARQUET, PNG, Form
from privet.share.onnx_model import check_installed, onnx_bytes

_INPUT = "float32 (N, C, H, W): pixels from 0 to 255, divided by 127.5, minus 1"
_INPUTS: Mapping[type, str] = {
    ImageRows: _INPUT,
    TableRows: "float32 (N, numbers): columns of a table, as the schema of the rows says",
    TextRows: "int64 (N, T): numbers of words among the class names",
}
_WORDS = "float32 (N, T, words): logits, whose softmax are probabilities"
_OUTPUT = "float32 (N, classes): logits, whose softmax are probabilities"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What an export wrote.

    Args:
        run: the run's folder.
        format: the format that was written.
        out: where it is.
        card: where its card is; None if it has none.
        images: how many images were written; None for a model.
        certificate: the certificate that went with it; None where nothing private was touched.
    """

    run: Path
    format: str
    out: Path
    card: Path | None
    images: int | None
    certificate: Certificate | FederatedCertificate | None

    @property
    def guarantee(self) -> str:
        """The guarantee in words."""
        return promise(self.certificate)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "run": str(self.run),
            "format": self.format,
            "out": str(self.out),
            "card": None if self.card is None else str(self.card),
            "images": self.images,
            "guarantee": self.guarantee,
            "certificate": as_json(self.certificate),
        }

    def in_words(self) -> dict[str, object]:
        """What a terminal shows, by the name of each line."""
        what = "the model" if self.images is None else f"{self.images:,} images"
        words: dict[str, object] = {"wrote": f"{what} as {self.format} to {self.out}"}
        if self.card is not None:
            words["card"] = self.card
        return words | {"guarantee": self.guarantee}


@dataclass(frozen=True, kw_only=True)
class _Order:
    """An export that was asked for: from which run, and to where."""

    folder: RunFolder
    certificate: Certificate | FederatedCertificate | None
    out: Path
    force: bool

    @property
    def certificate_text(self) -> str:
        """The text of the certificate, which goes with everything."""
        return certificate_text(self.certificate)

    def texts(self, form: Form) -> dict[str, str]:
        """The texts that go with a set, by the names of their files."""
        config, count = finished_set_config(self.folder), self.folder.read(RESULT)["images"]
        return beside(self.folder, config, count, form)


def export(run: Path, to: str, out: Path, *, force: bool = False) -> Exported:
    """Write the images or the model of a finished run in another form, whole or not at all.

    Args:
        run: the run's folder.
        to: parquet, png or npz for images, onnx or safetensors for a model.
        out: the file or folder to be made.
        force: replace what an earlier export left there.
    """
    RunFolder(run).refuse_other_layouts()
    for command, formats in _FORMATS.items():
        folder = RunFolder(run, command)
        if folder.holds_run:
            _require_finished(folder)
            if to not in formats:
                raise ConfigError(
                    f"--to is {shown(to)}: for a run of 'privet {command}' choose one of "
                    f"{', '.join(formats)}."
                )
            _require_outside(out)
            with folder.claimed(), understood(folder):
                _require_finished(folder)
                order = _Order(
                    folder=folder,
                    certificate=certificate_of(folder),
                    out=as_path(out),
                    force=force,
                )
                return formats[to](order)
    raise ConfigError(
        f"{shown(run)} holds no run of 'privet train', 'tune', 'synthesize', 'merge' or "
        "'federate': give the folder of one."
    )


def _require_finished(folder: RunFolder) -> None:
    with understood(folder):
        _FINISHED[folder.command](folder)


def _require_outside(out: Path) -> None:
    """Refuse a place in a run's folder: nothing of a run is taken for an export of another."""
    place = as_path(out).resolve()
    for folder in (place, *place.parents):
        if any(RunFolder(folder, command).holds_run for command in _FORMATS):
            raise ConfigError(f"{shown(out)} lies in the folder of a run: choose a place outside.")


def _parquet(order: _Order) -> Exported:
    images = copy_shards(
        order.folder / SYNTHETIC, order.out, beside=order.texts(PARQUET), force=order.force
    )
    return _exported(order, "parquet", card=order.out / CARD, images=images)


def _png(order: _Order) -> Exported:
    images = write_png_folders(
        order.folder / SYNTHETIC, order.out, beside=order.texts(PNG), force=order.force
    )
    return _exported(order, "png", card=order.out / CARD, images=images)


def _npz(order: _Order) -> Exported:
    card = order.out.with_name(f"{order.out.stem}.{CARD}")
    check_free_file(order.out, ".npz", force=order.force)
    check_free_file(card, ".md", force=order.force)
    text = order.texts(NPZ)[CARD]
    images = write_npz(order.folder / SYNTHETIC, order.out, certificate=order.certificate_text)
    with new_file(card) as file:
        file.write(text.encode())
    return _exported(order, "npz", card=card, images=images)


def _onnx(order: _Order) -> Exported:
    check_free_file(order.out, ".onnx", force=order.force)
    check_installed()
    classifier = load_classifier(order.folder.path)
    if not isinstance(classifier, Classifier):
        raise ConfigError("ONNX export is for models of images: choose safetensors.")
    properties = {
        "privet.certificate": order.certificate_text,
        "privet.statement": classifier.certificate.statement,
        "privet.class_names": json.dumps(classifier.class_names),
        "privet.image_shape": json.dumps(classifier.image_shape),
        "privet.input": _INPUT,
        "privet.output": _OUTPUT,
        "privet.version": __version__,
    }
    content = onnx_bytes(classifier.module, classifier.image_shape, properties)
    check_free_space(order.out, len(content))
    with new_file(order.out) as file:
        file.write(content)
    return _exported(order, "onnx")


def _safetensors(order: _Order) -> Exported:
    """Write what `privet.load` opens: weights, how to make the network, and the certificate."""
    folder, out = order.folder, order.out
    check_free_folder(out, source=folder.path, is_ours=_is_model, force=order.force)
    shared = SharedModel.of(finished_config(folder))
    config = {
        "schema": RunFolder(out, SHARED).schema,
        "privet_version": __version__,
        "config": shared.to_json(),
        "input": _INPUTS[type(shared.rows)],
        "output": _WORDS if shared.rows.words else _OUTPUT,
    }
    tensors = saved_tensors(folder / MODEL)
    check_free_space(out, (folder / MODEL).stat().st_size + MIB)
    with new_folder(out) as staging:
        place = RunFolder(staging, SHARED)
        place.write_with(
            MODEL, lambda path: save_tensors(tensors, path, {"schema": "privet.model/1"})
        )
        place.write_with(CERTIFICATE, lambda path: path.write_text(order.certificate_text, "utf-8"))
        place.write(CONFIG, config)
    return _exported(order, "safetensors")


def _is_model(place: Path) -> bool:
    """Whether nothing but an exported model would be lost with a folder."""
    files = {each.name for each in place.iterdir()}
    return files <= {MODEL, CONFIG, CERTIFICATE} and RunFolder(place, SHARED).holds_run


def _exported(
    order: _Order, form: str, *, card: Path | None = None, images: int | None = None
) -> Exported:
    return Exported(
        run=order.folder.path,
        format=form,
        out=order.out,
        card=card,
        images=images,
        certificate=order.certificate,
    )


_FINISHED: Mapping[str, Callable[[RunFolder], object]] = {
    "train": finished_config,
    "synthesize": finished_set_config,
    "merge": finished_set_config,
    FEDERATE: finished_set_config,
}
_SETS: Mapping[str, Callable[[_Order], Exported]] = {"parquet": _parquet, "png": _png, "npz": _npz}
_FORMATS: Mapping[str, Mapping[str, Callable[[_Order], Exported]]] = {
    "train": {"onnx": _onnx, "safetensors": _safetensors},
    "synthesize": _SETS,
    "merge": _SETS,
    FEDERATE: _SETS,
}
