"""A transformer over words, small enough to be trained privately from scratch.

All that learns sits in nn.Embedding, nn.Linear and nn.LayerNorm layers, which fast per-example
gradients know.

References:
    Nasr et al., Effectively Using Public Data in Privacy Preserving Machine Learning, 2023, §4 (a
    model "with two blocks"); Devlin et al., BERT, 2019.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from privet.errors import ConfigError
from privet.models.layers import check_sizes


class LanguageModel(nn.Module):
    """A transformer that maps sequences (N, T) of word numbers to logits (N, T, words).

    Args:
        num_words: in the vocabulary.
        length: of the longest sequence.
        width: of every layer.
        depth: how many blocks.
        heads: of attention; they divide the width.
        causal: whether a position sees only what comes before it, and itself.
    """

    def __init__(
        self,
        num_words: int,
        length: int,
        *,
        width: int = 128,
        depth: int = 2,
        heads: int = 4,
        causal: bool = True,
    ) -> None:
        super().__init__()
        check_sizes(num_words=num_words, length=length, width=width, depth=depth, heads=heads)
        if width % heads:
            raise ConfigError(f"heads is {heads}; give a divisor of width, which is {width}.")
        self.words = nn.Embedding(num_words, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_words)
        for table in (self.words, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, words: Tensor) -> Tensor:
        """Logits of the word at each position."""
        places = torch.arange(words.shape[1], device=words.device).expand(words.shape)
        seen: Tensor = self.words(words) + self.positions(places)
        logits: Tensor = self.head(self.norm(self.blocks(seen)))
        return logits


class Block(nn.Module):
    """Attention, then two linear layers, each around a shortcut and behind a norm.

    Args:
        width: of every layer.
        heads: of attention.
        causal: whether a position sees only what comes before it, and itself.
    """

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, seen: Tensor) -> Tensor:
        """Transform a sequence of vectors, keeping its shape."""
        seen = seen + self.out(self._attended(self.mix(self.first_norm(seen))))
        wide = F.gelu(self.widen(self.second_norm(seen)))
        narrow: Tensor = self.narrow(wide)
        return seen + narrow

    def _attended(self, mixed: Tensor) -> Tensor:
        parts = mixed.chunk(3, dim=-1)
        q, k, v = (torch.unflatten(part, -1, (self.heads, -1)).transpose(1, 2) for part in parts)
        # The plain kernel is exact in double precision and known to torch.func.vmap.
        with sdpa_kernel(SDPBackend.MATH):
            found = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return found.transpose(1, 2).flatten(2)
