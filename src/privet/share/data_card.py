"""The card of a synthetic set: a README.md in the form that Hugging Face `datasets` reads.

Nothing in a card is a function of private data but what the certificate and the configuration say;
images are counted as they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from privet.privacy import Certificate
from privet.privacy.budget import decimals, round_up
from privet.privacy.certificate import NOTHING_PRIVATE
from privet.privacy.federated import FederatedCertificate
from privet.share.escapes import in_markdown, in_yaml

# As hubs know them.
_SIZES = {1e3: "n<1K", 1e4: "1K<n<10K", 1e5: "10K<n<100K", 1e6: "100K<n<1M", 1e7: "1M<n<10M"}
_LARGEST_SIZE = "10M<n<100M"


@dataclass(frozen=True, kw_only=True)
class DataCard:
    """What there is to say of a synthetic set.

    Args:
        count: the number of images.
        image_shape: height, width and channels of each.
        class_names: the names of the labels; `None` if there are no labels.
        class_counts: the number of images of each class.
        soft_labels: whether images come with class probabilities.
        method: how the images were made.
        settings: the settings of the method, in short.
        privet_version: the Privet that made them.
        certificate: the guarantee of the run; `None` where no private row was touched.
        command: the command of Privet that made them.
    """

    count: int
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    class_counts: tuple[int, ...]
    soft_labels: bool
    method: str
    settings: Mapping[str, object]
    privet_version: str
    certificate: Certificate | FederatedCertificate | None
    command: str = "synthesize"

    @property
    def statement(self) -> str:
        """The guarantee of the set in words."""
        return NOTHING_PRIVATE if self.certificate is None else self.certificate.statement

    def text(self, form: Form) -> str:
        """The text of the card, for a set that is stored in the given form."""
        parts = (
            "\n".join(("---", *_front_matter(self, form), "---")),
            _introduction(self),
            _privacy(self),
            _classes(self),
            _making(self),
            "## How to load it\n\n" + form.loading,
            _citation(self),
            _limits(self),
        )
        return "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class Form:
    """How a set is stored.

    Args:
        layout: lines of the front matter that say what lies where.
        loading: how to open it, in Markdown.
    """

    layout: Callable[[DataCard], Iterator[str]]
    loading: str


def _front_matter(card: DataCard, form: Form) -> Iterator[str]:
    task = "image-classification" if card.class_names else "unconditional-image-generation"
    size = next((name for most, name in _SIZES.items() if card.count < most), _LARGEST_SIZE)
    yield "# license: yours to choose"
    yield f"pretty_name: {in_yaml(_title(card))}"
    yield from ("task_categories:", f"- {task}")
    yield from ("size_categories:", f"- {size}")
    yield from ("tags:", "- synthetic", "- privet")
    if card.certificate is not None and card.certificate.private:
        yield "- differential-privacy"
    yield from form.layout(card)


def _title(card: DataCard) -> str:
    if card.certificate is None:
        return "Synthetic images of public ones"
    private = card.certificate.private
    return "Private synthetic images" if private else "Synthetic images, NOT private"


def _introduction(card: DataCard) -> str:
    height, width, channels = card.image_shape
    kind = "grey" if channels == 1 else "colour"
    classes = f", in {len(card.class_names):,} classes" if card.class_names else ", without labels"
    origin = "from images that were declared public"
    if card.certificate is not None:
        origin = "from what left private images as noised sums"
    return (
        f"# {_title(card)}\n\n{card.count:,} synthetic images, each {height}×{width} pixels, "
        f"{kind}{classes}. Privet {card.privet_version} made them {origin}."
    )


def _privacy(card: DataCard) -> str:
    lines = ["## Privacy", "", f"> {in_markdown(card.statement)}"]
    if isinstance(card.certificate, FederatedCertificate):
        for name, each in card.certificate.parties.items():
            lines += ["", f"### Party {in_markdown(name)}", "", *_certificate_in_words(each)]
    elif card.certificate is not None:
        lines += ["", *_certificate_in_words(card.certificate)]
    lines += [
        "",
        "The certificate itself, for programs, travels with the set: `certificate.json`, or the "
        "member `certificate` of an .npz.",
    ]
    return "\n".join(lines)


def _certificate_in_words(certificate: Certificate) -> Iterator[str]:
    found = certificate.guarantee
    epsilon = decimals(round_up(found.epsilon, 3)) if certificate.private else "none: NOT private"
    accountant = f"{found.accountant} ({certificate.accountant_version})"
    yield from ("| | |", "|---|---|")
    rows = {
        "ε": epsilon,
        "δ": f"{found.delta:g}",
        "relation": f"{found.relation.verb} one {found.unit.value}",
        "unit": f"one {found.unit.value}",
        "accountant": accountant,
        "what was done to private images": "; ".join(map(str, certificate.plan.events)),
        "treated as public": "; ".join(certificate.public),
        **{f"declared {name}": f"{value:g}" for name, value in certificate.declared.items()},
    }
    for name, value in rows.items():
        yield f"| {name} | {in_markdown(value)} |"


def _classes(card: DataCard) -> str:
    if not card.class_names:
        return "## Classes\n\nNone: images have no labels."
    lines = ["## Classes", "", "| label | name | synthetic images |", "|---|---|---|"]
    for label, (name, count) in enumerate(zip(card.class_names, card.class_counts, strict=True)):
        lines.append(f"| {label} | {in_markdown(name)} | {count:,} |")
    if card.soft_labels:
        lines += ["", "`probabilities` has, for each image, one number a class."]
    return "\n".join(lines)


def _making(card: DataCard) -> str:
    settings = ", ".join(f"{name} = {value}" for name, value in card.settings.items())
    return (
        f"## How it was made\n\n`privet {card.command}` of Privet {card.privet_version}, "
        f"method {in_markdown(card.method)}.\nSettings: {in_markdown(settings)}."
    )


def _citation(card: DataCard) -> str:
    """The citation of Privet, as CITATION.cff has it."""
    return (
        "## How to cite\n\n"
        "If you use Privet, please cite it and the paper of the method that you ran.\n\n"
        "```bibtex\n"
        "@software{privet,\n"
        "  title = {Privet: learning from private data with the help of public data},\n"
        "  author = {{The Privet contributors}},\n"
        f"  version = {{{card.privet_version}}},\n"
        "  license = {Apache-2.0}\n"
        "}\n```"
    )


def _limits(card: DataCard) -> str:
    lines = [
        "## Limits",
        "",
        "- The images are synthetic. A label says what an image was made for; some images show it "
        "badly, and what is rare among the originals may be missing.",
        "- Sizes of classes were chosen or released with noise: they are not those of the "
        "originals.",
    ]
    if card.certificate is not None:
        lines.append(
            "- The guarantee is of this run. Whoever publishes more of the same private images "
            "adds to its ε."
        )
    return "\n".join(lines)


def _configs(pattern: str) -> Iterator[str]:
    yield from ("configs:", "- config_name: default", "  data_files:")
    yield from ("  - split: train", f"    path: {in_yaml(pattern)}")


def _shards(card: DataCard) -> Iterator[str]:
    """Lines of the front matter for shards: the files by name, and what is in them."""
    yield from _configs("part-*.parquet")
    yield from ("dataset_info:", "  features:", "  - name: image", "    dtype: image")
    if card.class_names:
        yield from ("  - name: label", "    dtype:", "      class_label:", "        names:")
        for label, name in enumerate(card.class_names):
            yield f"          '{label}': {in_yaml(name)}"
    if card.soft_labels:
        yield from ("  - name: probabilities", "    sequence: float32")


PARQUET = Form(
    _shards,
    """\
Where `folder` is the folder of this card:

```python
from datasets import load_dataset

images = load_dataset(folder)["train"]
```

```python
import io
from pathlib import Path

import pandas
import pyarrow.parquet
from PIL import Image

table = pyarrow.parquet.read_table(sorted(Path(folder).glob("part-*.parquet")))
frame = table.to_pandas()
first = Image.open(io.BytesIO(frame.image[0]["bytes"]))
```

```python
import privet

data = privet.load(folder)  # data.images, data.labels, data.class_names, data.certificate
```""",
)
PNG = Form(
    lambda card: _configs("*/*.png"),
    """\
A folder for each class, in whose name %XX stands for what a file's name should not have. Where
`folder` is the folder of this card:

```python
from datasets import load_dataset

images = load_dataset("imagefolder", data_dir=folder, split="train")
```

```python
import privet

data = privet.data.load(folder)  # data.images, data.labels, data.class_names
```""",
)
NPZ = Form(
    lambda card: iter(()),
    """\
Where `file` is the .npz beside this card:

```python
import json

import numpy

arrays = numpy.load(file)  # images, labels, class_names, probabilities if there are any
certificate = json.loads(str(arrays["certificate"]))
```

```python
import privet

data = privet.data.load(file)  # data.images, data.labels, data.class_names
```""",
)
