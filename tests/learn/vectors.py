"""Vectors in named blocks, and as one."""

import torch

SHAPES = {"layer.weight": (4, 3), "layer.bias": (4,), "head.weight": (2, 4)}


def blocks(seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in SHAPES.items()
    }


def flat(named):
    return torch.cat([block.detach().flatten() for block in named.values()])
