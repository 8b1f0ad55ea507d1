"""Whether a frozen network treats each image by itself: the bound of a release rests on it.

Eval mode alone does not make it so: a BatchNorm without running statistics goes on looking at its
batch, and functions such as `F.dropout` do not know of modes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import TypeVar
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from privet.errors import PrivacyError

Owner = TypeVar("Owner", bound=nn.Module)
Run = Callable[[Tensor], Sequence[Tensor]]
"""From images to what a network makes of them, the image in the first dimension of each."""

_TRIED: WeakSet[nn.Module] = WeakSet()  # not in the modules: they keep nothing between calls
_WITHIN = ContextVar("within", default=False)
_TOLERANCE = 1e-3  # of the largest value: far above rounding, far below what mixing does


def mixes_examples(layer: nn.Module) -> bool:
    """Whether a layer normalises by the statistics of its batch."""
    return isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None)


def values_of(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All parameters and buffers, by name."""
    return chain(network.named_parameters(), network.named_buffers())


def random_state(device: torch.device) -> Tensor:
    """The state of torch's global generators, of the CPU and of a device."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return torch.cat(states)


def refuse_mixing_layers(network: nn.Module) -> None:
    """Refuse a network in eval mode that still has a layer which looks at its batch."""
    for name, layer in network.named_modules():
        if mixes_examples(layer):
            raise PrivacyError(
                f"The encoder's layer {name!r} is a {type(layer).__name__} without running "
                "statistics, so that one image changes the features of others: use "
                "track_running_stats=True, or GroupNorm."
            )


def tried_once(owner: Owner, run_by: Callable[[Owner], Run], like: Tensor) -> None:
    """Do as `require_independent` the first time that a frozen network is used, on a copy of it.

    Args:
        owner: what has it as `network`, and is remembered; while it is traced nothing is tried.
        run_by: from a copy of the owner to what it makes of images.
        like: see `require_independent`.
    """
    if owner in _TRIED or _WITHIN.get() or torch.compiler.is_compiling():
        return
    trial = copy.deepcopy(owner)
    network = trial.network
    assert isinstance(network, nn.Module)
    with within_another():
        require_independent(network, run_by(trial), like)
    _TRIED.add(owner)


@contextmanager
def within_another() -> Iterator[None]:
    """Try no network that is a part of another one, which is tried or was: its trial is theirs."""
    token = _WITHIN.set(True)
    try:
        yield
    finally:
        _WITHIN.reset(token)


@torch.no_grad()
def require_independent(network: nn.Module, run: Run, like: Tensor) -> None:
    """Refuse a network that mixes images, remembers them or draws random numbers.

    It is tried on a few random images, together, again and one by one. Torch's global generators
    are left as they were.

    Args:
        network: its parameters and buffers must not change; give a copy, for they might.
        run: what it makes of images.
        like: images whose shape, type and device are right; their values are not looked at.
    """
    device = like.device
    images = _trial_images(like)
    before = {name: value.nan_to_num() for name, value in values_of(network)}
    forked = torch.random.fork_rng([device] if device.type == "cuda" else [])
    with forked, torch.autocast(device.type, enabled=False):
        state = random_state(device)
        together, again = run(images), run(images)
        alone = [run(image) for image in torch.split(images, 1)]
        drew = not torch.equal(state, random_state(device))
    _refuse_memory(network, before)
    if drew or not _alike(together, again):
        raise PrivacyError(
            "The encoder draws random numbers or does not repeat itself, so that one image changes "
            "what others get: take out what does so in eval mode too, such as F.dropout."
        )
    if not _alike(together, [torch.cat(each) for each in zip(*alone, strict=True)]):
        raise PrivacyError(
            "The encoder makes something else of an image in a batch than of the image alone, so "
            "that one image changes the features of others: take out what looks at several, such "
            "as F.batch_norm with training=True."
        )


def _trial_images(like: Tensor) -> Tensor:
    """Noise in [-1, 1], of different brightness and contrast, so that mixing would show."""
    generator = torch.Generator().manual_seed(0)
    noise = 2 * torch.rand((3, *like.shape[1:]), generator=generator) - 1
    contrast, brightness = (
        torch.tensor(each).reshape(3, 1, 1, 1) for each in ([1.0, 0.3, 0.1], [0.0, 0.6, -0.7])
    )
    return (contrast * noise + brightness).to(like)


def _refuse_memory(network: nn.Module, before: dict[str, Tensor]) -> None:
    for name, value in values_of(network):
        if name not in before or not torch.equal(before[name], value.nan_to_num()):
            kind = "parameter" if isinstance(value, nn.Parameter) else "buffer"
            raise PrivacyError(
                f"The encoder's {kind} {name!r} changes with its inputs, so it would remember "
                "private images: take that layer out, or freeze it."
            )


def _alike(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(_close(*both) for both in zip(some, others, strict=True))


def _close(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape:
        return False
    largest = float(first.nan_to_num(0, 0, 0).abs().max()) if first.numel() else 0.0
    rounding = 16 * torch.finfo(first.dtype).eps if first.is_floating_point() else 0.0
    close = max(_TOLERANCE, rounding) * largest
    return torch.allclose(first.double(), second.double(), rtol=0, atol=close, equal_nan=True)
