"""The data of the release study: private sets, public ones, and encoders that these taught."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from privet.augment import CropFlip
from privet.data import ImageSet, load
from privet.data.options import Channels
from privet.measure import frechet_distance
from privet.models import ConvEncoder
from privet.models.layers import Activation
from privet.public import PublicRows, WarmUp, warm_up
from privet.public.warm_up import EpochRecord
from privet.recipes.set_quality import features
from privet.recipes.synthesis_methods import Prepared

KEPT = Path(__file__).parent / "encoders"  # with the figures: each takes half an hour to teach
CACHE = Path(tempfile.gettempdir()) / "privet-encoders"
SAMPLES = Path(tempfile.gettempdir()) / "privet-samples"
JUDGED = 5000  # images of each set in a Fréchet distance
SAMPLED = 500  # images of each set that are kept for contact sheets
SHIFTED = CropFlip(padding=3, flip=False, mode="constant", invert=True)
PRETRAINING = WarmUp(
    epochs=12,
    batch_size=128,
    learning_rate=0.1,
    weight_decay=5e-4,
    augment=SHIFTED,
    label_smoothing=0.1,
)
COLOUR_PRETRAINING = replace(PRETRAINING, augment=CropFlip(padding=4))
MOST, LEAST = 6000, 600  # images of the largest and of the smallest class of an imbalanced set
PRINTED = 10  # labels of letters28 below it are printed letters, the others handwritten
# Of Tiny ImageNet: backpack, cardigan, fur coat, kimono, miniskirt, poncho, sandal, sock, swimming
# trunks, vestment; and ten kinds of things of which none is like another.
CLOTHES = (63, 85, 105, 112, 120, 134, 144, 149, 158, 169)
THINGS = (0, 26, 44, 71, 94, 142, 160, 168, 188, 194)


@lru_cache(maxsize=2)
def sets(name: str, folder: Path) -> tuple[ImageSet, ImageSet]:
    """Private and test images; with `-imbalanced`, of classes from large to small."""
    base, _, kind = name.partition("-")
    private = load(folder / f"{base}.npz")
    if kind:
        private = private.take(
            unevenly(private.labels, geometric_sizes(MOST, LEAST, private.num_classes))
        )
    return private, load(folder / f"{base}.npz", part="test")


def geometric_sizes(most: int, least: int, classes: int) -> list[int]:
    """From `most` down to `least`, each the same share of the one before it."""
    shares = np.geomspace(most, least, classes)
    return [round(float(share)) for share in shares]


def unevenly(labels: NDArray[np.int64] | None, sizes: list[int]) -> NDArray[np.int64]:
    """The first rows of each class, as many as it is to have, in the order of the set."""
    assert labels is not None
    chosen = [np.flatnonzero(labels == label)[:size] for label, size in enumerate(sizes)]
    return np.sort(np.concatenate(chosen))


def samples_path(key: Mapping[str, object]) -> Path:
    """Where the first images of a run are kept, outside the repository."""
    return SAMPLES / f"{'-'.join(map(str, key.values()))}.npz"


def keep_samples(
    key: Mapping[str, object], images: NDArray[np.uint8], labels: NDArray[np.int64]
) -> None:
    """The first of a run, for a contact sheet."""
    SAMPLES.mkdir(exist_ok=True)
    np.savez_compressed(samples_path(key), x=images[:SAMPLED], y=labels[:SAMPLED])


def frechet(network: nn.Module, images: NDArray[np.uint8], test: ImageSet) -> float:
    """By a study's encoder: to compare with each other, not with FID. Classes come in turn."""
    sets = (np.asarray(each[:JUDGED]) for each in (test.images, images))
    return frechet_distance(*(features(network, torch.from_numpy(each)) for each in sets))


@lru_cache(maxsize=4)
def photos(folder: Path, *, grey: bool) -> PublicRows:
    """Tiny ImageNet: grey at 28 pixels, or in colour at 32."""
    size = (28, 28) if grey else None
    channels = Channels.GREY if grey else None
    return PublicRows.from_images(
        load(folder / "tiny_imagenet32.parquet", resize=size, channels=channels)
    )


@lru_cache(maxsize=1)
def glyphs(folder: Path) -> PublicRows:
    """Printed and handwritten characters."""
    return PublicRows.from_images(load(folder / "letters28.npz"))


def public_rows(name: str, folder: Path) -> PublicRows:
    """`photos`, `colour` or `letters` (all glyphs), or several with `+` between them.

    `handwriting` are glyphs without printed ones; `no-clothes` and `no-things` photos without some.
    """
    first, *others = [_public(each, folder) for each in name.split("+")]
    for other in others:
        first = joined(first, other)
    return first


def _public(name: str, folder: Path) -> PublicRows:
    if name in ("photos", "colour"):
        return photos(folder, grey=name == "photos")
    if name in ("no-clothes", "no-things"):
        rows, left_out = photos(folder, grey=True), CLOTHES if "clothes" in name else THINGS
        return rows.select((~torch.isin(rows.targets, torch.tensor(left_out))).nonzero().flatten())
    rows = glyphs(folder)
    if name == "letters":
        return rows
    if name == "handwriting":
        return rows.select((rows.targets >= PRINTED).nonzero().flatten())
    raise SystemExit(f"There are no public images {name!r}.")


def joined(first: PublicRows, second: PublicRows) -> PublicRows:
    """Both, with labels of their own."""
    _, labels = torch.unique(second.targets, return_inverse=True)
    return PublicRows(
        torch.cat([first.inputs, second.inputs]),
        torch.cat([first.targets, labels + int(first.targets.max()) + 1]),
    )


@dataclass(frozen=True, kw_only=True)
class Lessons:
    """What an encoder is, and how it learns.

    Args:
        public: which images teach it.
        widths: of its layers.
        activation: of its layers.
        most: of the public images, the same ones for every encoder.
        epochs: passes over them; 0 leaves it as it is.
        invert: whether grey images are as often dark ones as light ones to it.
        seed: of its first weights.
    """

    public: str
    widths: tuple[int, ...] = (32, 64, 128, 128, 256)
    activation: Activation = nn.SiLU
    most: int | None = None
    epochs: int = PRETRAINING.epochs
    invert: bool = True
    seed: int = 0

    @property
    def path(self) -> Path:
        """Where its weights are kept: in the repository, if rows of the main table rest on them."""
        plain = Lessons(public=self.public, invert=self.invert)
        shape = "x".join(map(str, self.widths))
        kind = getattr(self.activation, "__name__", "")
        more = "" if self == plain else f"-{self.seed}-{shape}-{kind}-{self.most}-{self.epochs}"
        upright = "" if self.invert else "-not-inverted"
        return (KEPT if self == plain else CACHE) / f"{self.public}{more}{upright}.npz"

    @property
    def training(self) -> WarmUp:
        """How it is taught."""
        if self.public == "colour":
            return replace(COLOUR_PRETRAINING, epochs=self.epochs)
        augment = replace(SHIFTED, invert=self.invert)
        return replace(PRETRAINING, epochs=self.epochs, augment=augment)

    def rows(self, folder: Path) -> PublicRows:
        """What it learns from."""
        rows = public_rows(self.public, folder)
        if self.most is None:
            return rows
        return rows.sample(min(self.most, len(rows)), torch.Generator().manual_seed(0))

    def network(self, channels: int) -> ConvEncoder:
        """With its first weights."""
        torch.manual_seed(self.seed)
        made = ConvEncoder(channels, widths=self.widths, activation=self.activation)
        return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def encoder(name: str, folder: Path, *, seed: int = 0) -> ConvEncoder:
    """Pretrained on `public_rows(name)`, folded for use."""
    return taught(Lessons(public=name, seed=seed), folder).folded()


def trainable_encoder(name: str, folder: Path, *, seed: int = 0) -> ConvEncoder:
    """The same, to be trained further."""
    return taught(Lessons(public=name, seed=seed), folder)


def taught(lessons: Lessons, folder: Path) -> ConvEncoder:
    """Pretrained once, then remembered."""
    network = lessons.network(3 if lessons.public == "colour" else 1)
    if lessons.path.exists():
        network.load_state_dict(_loaded(lessons.path))
        return network
    if not lessons.epochs:
        return network
    rows = lessons.rows(folder)
    head = nn.Linear(network.num_features, int(rows.targets.max()) + 1)

    def tell(epoch: int, record: EpochRecord) -> None:
        print(f"{lessons.path.stem}: epoch {epoch} {record}", flush=True)

    generator = torch.Generator().manual_seed(lessons.seed)
    warm_up(network, rows, lessons.training, generator=generator, head=head, on_epoch=tell)
    _save(network, lessons.path)
    network.load_state_dict(_loaded(lessons.path))
    return network


def _save(network: nn.Module, path: Path) -> None:
    """In half precision, so that a file stays below a megabyte."""
    path.parent.mkdir(exist_ok=True)
    weights = {key: value.half().numpy() for key, value in network.state_dict().items()}
    draft = path.with_suffix(".part")
    with draft.open("wb") as file:
        np.savez_compressed(file, **weights)  # type: ignore[arg-type]
    draft.replace(path)


def _loaded(path: Path) -> dict[str, torch.Tensor]:
    with np.load(path) as kept:
        return {key: torch.from_numpy(kept[key]).float() for key in kept}


def prepared(
    private: ImageSet, network: nn.Module, components: str, folder: Path, count: int
) -> Prepared:
    """What a system needs besides private images."""
    return Prepared(
        image_shape=private.image_shape,
        num_classes=private.num_classes,
        encoder=network,
        public=public_rows(components, folder).inputs,
        count=count,
    )
