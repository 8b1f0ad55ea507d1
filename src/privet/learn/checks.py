"""What is refused before anything is spent: models that mix examples, or remember them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from privet.errors import ConfigError
from privet.learn.gradients import trainable
from privet.learn.objective import Examples, Loss


def check_model(model: nn.Module, loss: Loss, trial: Examples, num_classes: int) -> None:
    """Refuse, in one sentence, a model that cannot be trained privately.

    Args:
        model: what is about to be trained.
        loss: of its outputs.
        trial: some inputs that are not private.
        num_classes: how many outputs there should be.
    """
    _refuse_batch_norm(model)
    if not trainable(model):
        raise ConfigError("No parameter of the model requires a gradient: unfreeze some.")
    _refuse_half_precision(model)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.no_grad():
        outputs = model(trial.inputs)
        losses = loss(outputs, trial.targets) if _fits(outputs, trial, num_classes) else None
    for name, buffer in model.named_buffers():
        if not torch.equal(before[name], buffer):
            raise ConfigError(
                f"The model's buffer {name!r} changes with its inputs, so it would remember "
                "private rows: freeze that layer with .eval()."
            )
    if losses is None:
        raise ConfigError(
            f"The model returns {tuple(outputs.shape)} for {len(trial)} examples of "
            f"{num_classes} classes: make it return ({len(trial)}, {num_classes})."
        )
    if not torch.isfinite(losses).all():
        raise ConfigError(
            "The loss is not finite before the first step: check the model's weights."
        )


def _fits(outputs: torch.Tensor, trial: Examples, num_classes: int) -> bool:
    return tuple(outputs.shape) == (len(trial), num_classes)


def _refuse_half_precision(model: nn.Module) -> None:
    for name, parameter in trainable(model).items():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ConfigError(
                f"The parameter {name!r} is {parameter.dtype}, too coarse for norms that privacy "
                "rests on: use model.float()."
            )


def _refuse_batch_norm(model: nn.Module) -> None:
    for name, layer in model.named_modules():
        if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
            raise ConfigError(
                f"The layer {name!r} is a {type(layer).__name__} in training mode, which mixes the "
                "examples of a batch: use GroupNorm, or freeze it with .eval()."
            )
