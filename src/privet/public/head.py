"""Warm-up on public data with classes of its own: the body learns, the head is put back."""

from __future__ import annotations

import torch
from torch import nn

from privet.augment import to_float
from privet.errors import ConfigError
from privet.keys import seeded
from privet.public.rows import PublicRows
from privet.public.warm_up import EpochRecord, OnEpoch, Preprocess, WarmUp, warm_up


def final_linear(model: nn.Module) -> tuple[str, nn.Linear]:
    """The last linear layer, in the order of registration, and its name."""
    found = [(name, part) for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    if not found:
        raise ConfigError(
            f"{type(model).__name__} has no nn.Linear to take as its head; give a model that ends "
            "in one."
        )
    return found[-1]


def warm_up_body(
    model: nn.Module,
    head_name: str,
    num_public_classes: int,
    public: PublicRows,
    config: WarmUp,
    *,
    generator: torch.Generator,
    preprocess: Preprocess = to_float,
    on_epoch: OnEpoch | None = None,
) -> list[EpochRecord]:
    """Train all but the head, under a fresh head of the public classes that is then dropped.

    Args:
        model: from preprocessed inputs to logits of the private classes.
        head_name: of the linear layer that gives the logits; see `final_linear`.
        num_public_classes: how many classes the public data has.
        public: what to train on.
        config: how to train.
        generator: all randomness comes from it.
        preprocess: see `warm_up`.
        on_epoch: see `warm_up`.
    """
    if num_public_classes < 1:
        raise ConfigError(f"num_public_classes is {num_public_classes}; give 1 or more.")
    head = _linear(model, head_name)
    parent_name, _, leaf = head_name.rpartition(".")
    parent = model.get_submodule(parent_name)
    with seeded(generator):
        public_head = _like(head, num_public_classes)
    try:
        setattr(parent, leaf, public_head)
        return warm_up(
            model, public, config, generator=generator, preprocess=preprocess, on_epoch=on_epoch
        )
    finally:
        setattr(parent, leaf, head)


def _linear(model: nn.Module, name: str) -> nn.Linear:
    part = dict(model.named_modules()).get(name)
    if not isinstance(part, nn.Linear) or part is model:
        raise ConfigError(
            f"head {name!r} is {type(part).__name__}; give the name of an nn.Linear inside the "
            "model, as final_linear finds it."
        )
    return part


def _like(head: nn.Linear, num_classes: int) -> nn.Linear:
    weight = head.weight
    return nn.Linear(
        head.in_features,
        num_classes,
        bias=head.bias is not None,
        device=weight.device,
        dtype=weight.dtype,
    )
