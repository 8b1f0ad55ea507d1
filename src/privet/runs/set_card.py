"""The card and the certificate that lie with the images of a run, wherever these go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from privet.data.guard import shown
from privet.data.shards import class_counts, num_rows
from privet.errors import DataError
from privet.privacy import Certificate
from privet.privacy.certificate import as_json
from privet.privacy.federated import FederatedCertificate
from privet.recipes.model import ImageShape
from privet.runs.run_certificate import certificate_of
from privet.runs.run_folder import CARD, CERTIFICATE, CONFIG, SYNTHETIC, RunFolder
from privet.share.data_card import PARQUET, DataCard, Form


class Layout(Protocol):
    """What images of a run are like, as its configuration says."""

    @property
    def image_shape(self) -> ImageShape:
        """Height, width and channels."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of classes; empty for images without labels."""

    @property
    def soft_labels(self) -> bool:
        """Whether images come with class probabilities."""

    @property
    def made_by(self) -> Mapping[str, Any]:
        """The method, under `kind`, and its settings, as plain JSON values."""


def beside(folder: RunFolder, config: Layout, count: int, form: Form) -> dict[str, str]:
    """The texts that travel with the images of a run, by the names of their files."""
    found = num_rows(folder / SYNTHETIC)
    if found != count:
        raise DataError(
            f"{shown(folder / SYNTHETIC)} holds {found:,} images and the run made {count:,}: bring "
            "the missing shards back."
        )
    method, *settings = _flat(config.made_by)
    names = config.class_names
    card = DataCard(
        count=count,
        image_shape=config.image_shape,
        class_names=names,
        class_counts=tuple(class_counts(folder / SYNTHETIC, len(names)).tolist()),
        soft_labels=config.soft_labels,
        method=method[1],
        settings=dict(settings),
        privet_version=folder.read(CONFIG)["privet_version"],
        certificate=certificate_of(folder),
        command=folder.command,
    )
    return {CARD: card.text(form), CERTIFICATE: certificate_text(card.certificate)}


def certificate_text(certificate: Certificate | FederatedCertificate | None) -> str:
    """Write a certificate as the text of its JSON file."""
    return json.dumps(as_json(certificate), indent=2, ensure_ascii=False) + "\n"


def write_card(folder: RunFolder, config: Layout, count: int) -> None:
    """Write card and certificate beside the shards.

    The card, which tells `datasets` them apart, comes first.
    """
    for name, text in beside(folder, config, count, PARQUET).items():
        _write(folder, f"{SYNTHETIC}/{name}", text)


def discard_card(folder: RunFolder) -> None:
    """Remove card and certificate while images are being added."""
    for name in (CERTIFICATE, CARD):
        folder.discard(f"{SYNTHETIC}/{name}")


def _write(folder: RunFolder, name: str, text: str) -> None:
    folder.write_with(name, lambda path: path.write_text(text, encoding="utf-8"))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield settings by their names, nested ones with a dot; no places on somebody's disk."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            inner = f"{name}.{key}" if name else key
            yield from _flat(each, name if name and key == "kind" else inner)
    elif isinstance(value, list):
        if any(isinstance(each, Mapping) for each in value):
            for number, each in enumerate(value):
                yield from _flat(each, f"{name}.{number}")
        elif value:
            yield name, "-".join(map(str, value))
    elif isinstance(value, bool):
        yield name, str(value).lower()
    elif value is not None and "/" not in str(value):
        yield name, str(value)
