"""What is refused before anything is spent: models that mix examples, or remember them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from privet.errors import ConfigError
from privet.learn.gradients import trainable
from privet.learn.objective import Examples, Loss
from privet.models.independence import mixes_examples, random_state, values_of


def check_model(model: nn.Module, loss: Loss, trial: Examples, num_classes: int) -> None:
    """Refuse, in one sentence, a model that cannot be trained privately.

    Args:
        model: the model to be trained.
        loss: from its outputs and targets to one number each.
        trial: some inputs that are not private.
        num_classes: how many outputs the model should have.
    """
    for name, layer in model.named_modules():
        _refuse_batch_norm(name, layer)
        _refuse_dropout(name, layer)
        _refuse_max_norm(name, layer)
    if not trainable(model):
        raise ConfigError("No parameter of the model requires a gradient: unfreeze some.")
    _refuse_half_precision(model)
    outputs = _tried(model, trial.inputs)
    words = () if trial.targets.is_floating_point() else tuple(trial.targets.shape[1:])
    wanted = (len(trial), *words, num_classes)
    if tuple(outputs.shape) != wanted:
        raise ConfigError(
            f"The model returns {tuple(outputs.shape)} for {len(trial)} examples of "
            f"{num_classes} classes: make it return {wanted}."
        )
    if not torch.isfinite(loss(outputs, trial.targets)).all():
        raise ConfigError(
            "The loss is not finite before the first step: check the model's weights."
        )


@torch.no_grad()
def _tried(model: nn.Module, inputs: Tensor) -> Tensor:
    """Run the model on trial inputs; refuse one that remembers anything of them."""
    before = {name: value.nan_to_num() for name, value in values_of(model)}
    state = random_state(inputs.device)
    outputs = _passed(model, inputs)
    for name, value in values_of(model):
        if not torch.equal(before[name], value.nan_to_num()):
            kind = "parameter" if isinstance(value, nn.Parameter) else "buffer"
            raise ConfigError(
                f"The model's {kind} {name!r} changes with its inputs, so it would remember "
                "private rows: take that layer out, or freeze it with .eval()."
            )
    if not torch.equal(state, random_state(inputs.device)):
        raise ConfigError(
            "The model draws from torch's global generator, so one example's presence changes what "
            "others draw: take its random layers out, or freeze them with .eval()."
        )
    return outputs


def _passed(model: nn.Module, inputs: Tensor) -> Tensor:
    try:
        outputs: Tensor = model(inputs)
    except (RuntimeError, ValueError, IndexError) as error:
        why = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise ConfigError(
            f"The model cannot take inputs of shape {tuple(inputs.shape[1:])}: {why}."
        ) from error
    return outputs


def _refuse_half_precision(model: nn.Module) -> None:
    for name, parameter in trainable(model).items():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ConfigError(
                f"The parameter {name!r} is {parameter.dtype}, too coarse for norms that privacy "
                "rests on: use model.float()."
            )


def _refuse_batch_norm(name: str, layer: nn.Module) -> None:
    if mixes_examples(layer):
        raise ConfigError(
            f"The layer {name!r} is a {type(layer).__name__} in training mode, which mixes the "
            "examples of a batch: use GroupNorm, or freeze it with .eval()."
        )


def _refuse_dropout(name: str, layer: nn.Module) -> None:
    if isinstance(layer, _DropoutNd) and layer.training and layer.p > 0:
        raise ConfigError(
            f"The layer {name!r} is a {type(layer).__name__} in training mode, whose masks change "
            "with who else is in a batch: use p=0, or freeze it with .eval()."
        )


def _refuse_max_norm(name: str, layer: nn.Module) -> None:
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
        raise ConfigError(
            f"The layer {name!r} is an {type(layer).__name__} with max_norm, which changes its "
            "weights without noise wherever private rows look: use max_norm=None."
        )
