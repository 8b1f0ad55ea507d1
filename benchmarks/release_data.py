"""The data of the release study: private sets, public ones, and encoders that these taught."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from privet.augment import CropFlip
from privet.data import load
from privet.data.options import Channels
from privet.models import ConvEncoder
from privet.public import PublicRows, WarmUp, warm_up
from privet.public.warm_up import EpochRecord

CACHE = Path(tempfile.gettempdir()) / "privet-encoders"
PRETRAINING = WarmUp(
    epochs=12,
    batch_size=128,
    learning_rate=0.1,
    weight_decay=5e-4,
    augment=CropFlip(padding=3, flip=False, mode="constant", invert=True),
    label_smoothing=0.1,
)
PRINTED = 10  # labels of letters28 below it are printed letters, the others handwritten


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
    """`photos`, with `+letters` (all glyphs) or `+handwriting` (without printed ones)."""
    base, _, more = name.partition("+")
    rows = photos(folder, grey=base == "photos")
    if not more:
        return rows
    extra = glyphs(folder)
    if more == "handwriting":
        extra = extra.select((extra.targets >= PRINTED).nonzero().flatten())
    return joined(rows, extra)


def joined(first: PublicRows, second: PublicRows) -> PublicRows:
    """Both, with labels of their own."""
    _, labels = torch.unique(second.targets, return_inverse=True)
    return PublicRows(
        torch.cat([first.inputs, second.inputs]),
        torch.cat([first.targets, labels + int(first.targets.max()) + 1]),
    )


def encoder(name: str, folder: Path, *, seed: int = 0) -> ConvEncoder:
    """Pretrained on `public_rows(name)`, folded for use."""
    return trainable_encoder(name, folder, seed=seed).folded()


def trainable_encoder(name: str, folder: Path, *, seed: int = 0) -> ConvEncoder:
    """The same, to be trained further; weights are kept outside the repository."""
    rows = public_rows(name, folder)
    path = CACHE / f"{name}-{seed}.safetensors"
    torch.manual_seed(seed)
    network = ConvEncoder(rows.inputs.shape[-1])
    if path.exists():
        network.load_state_dict(load_file(path))
        return network
    head = nn.Linear(network.num_features, int(rows.targets.max()) + 1)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def tell(epoch: int, record: EpochRecord) -> None:
        print(f"{name} {seed}: epoch {epoch} {record}", flush=True)

    generator = torch.Generator().manual_seed(seed)
    warm_up(network, rows, PRETRAINING, generator=generator, head=head, on_epoch=tell)
    CACHE.mkdir(exist_ok=True)
    save_file({key: value.contiguous() for key, value in network.state_dict().items()}, path)
    return network
