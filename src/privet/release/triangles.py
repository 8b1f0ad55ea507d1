"""Symmetric matrices as their upper triangles: each number once, so that it is noised once."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def packed_size(size: int) -> int:
    """How many numbers the upper triangle of a square matrix of this size has."""
    return size * (size + 1) // 2


def pack(matrices: Tensor) -> Tensor:
    """Turn symmetric matrices (…, D, D) into their upper triangles (…, D(D+1)/2)."""
    rows, columns = _places(matrices.shape[-1])
    return matrices[..., rows, columns]


def unpack(triangles: Tensor, size: int) -> Tensor:
    """Turn upper triangles back into symmetric matrices: the inverse of `pack`."""
    rows, columns = _places(size)
    matrices = triangles.new_zeros(*triangles.shape[:-1], size, size)
    matrices[..., rows, columns] = triangles
    matrices[..., columns, rows] = triangles
    return matrices


def packed_dot(first: Tensor, second: Tensor) -> Tensor:
    """⟨triu(A), triu(B)⟩ of symmetric matrices, without packing them."""
    diagonals = first.diagonal(dim1=-2, dim2=-1) * second.diagonal(dim1=-2, dim2=-1)
    return ((first * second).sum((-2, -1)) + diagonals.sum(-1)) / 2


def halved(matrices: Tensor) -> Tensor:
    """M with ⟨A, M⟩ = ⟨triu(A), triu(B)⟩ for symmetric A: half of B, its diagonal whole."""
    return (matrices + torch.diag_embed(matrices.diagonal(dim1=-2, dim2=-1))) / 2


@lru_cache(maxsize=32)
def _places(size: int) -> tuple[Tensor, Tensor]:
    rows, columns = torch.triu_indices(size, size)
    return rows, columns
