"""One pass forward and back that notes what every layer saw and what came back to it.

The weights' own gradients are not computed: engines derive what they need from the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from privet.learn.gradients import trainable
from privet.models import StandardisedConv2d


class Unsupported(Exception):  # noqa: N818  (a fact about a model, not a mistake)
    """The batched engines cannot take this model: it needs the loop engine."""


@dataclass(eq=False)
class Call:
    """One use of a layer: its input, its output, and the loss's gradient with respect to that.

    Autograd does not know that inputs and outputs are read again, so changes are checked here.

    Args:
        inputs: the input of the layer.
        outputs: the output of the layer, where it is read again.
        shared: results computed from the inputs, for all layers that were called with them.
        gradient: of the loss with respect to the outputs.
        summed: the gradient's sums over positions, which norms and weighted sums both ask for.
    """

    inputs: Tensor
    outputs: Tensor | None
    shared: dict[Any, Tensor]
    gradient: Tensor | None = None
    summed: Tensor | None = None

    def __post_init__(self) -> None:
        self._inputs_version = self.inputs._version
        self._outputs_version = None if self.outputs is None else self.outputs._version

    def require_unchanged(self) -> None:
        """Refuse to go on from an input that was overwritten in place."""
        if self.inputs._version != self._inputs_version:
            raise Unsupported("a layer's input is changed in place after it was used")

    @property
    def outputs_unchanged(self) -> bool:
        """Whether the output was kept and is still what the layer returned."""
        return self.outputs is not None and self.outputs._version == self._outputs_version


Calls = dict[nn.Module, list[Call]]


def recorded(
    model: nn.Module,
    layers: Sequence[nn.Module],
    inputs: Tensor,
    loss: Callable[[Tensor], Tensor],
) -> Calls:
    """Run a model forward and back once and note the calls of some layers.

    `loss` turns the model's output into one number.
    """
    calls: Calls = {layer: [] for layer in layers}
    leaves: list[Tensor] = []
    shared = _Shared()
    with ExitStack() as stack, torch.enable_grad():
        stack.enter_context(_frozen(trainable(model)))
        for layer in layers:
            note = _note(calls[layer], leaves, shared, len(inputs))
            handle = layer.register_forward_hook(note)
            stack.callback(handle.remove)
        total = loss(model(inputs))
    if leaves:
        torch.autograd.grad(total, leaves, allow_unused=True)
    return {
        layer: [call for call in each if call.gradient is not None] for layer, each in calls.items()
    }


class _Shared:
    """A dictionary of shared results for each tensor that layers are called with."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, int, dict[Any, Tensor]] | None = None

    def of(self, inputs: Tensor) -> dict[Any, Tensor]:
        """The dictionary of a tensor, the same for consecutive calls while it is unchanged."""
        if self._last is None or self._last[0] is not inputs or self._last[1] != inputs._version:
            self._last = inputs, inputs._version, {}
        return self._last[2]


def _note(
    calls: list[Call], leaves: list[Tensor], shared: _Shared, batch: int
) -> Callable[[nn.Module, tuple[Any, ...], Any], Tensor | None]:
    def hook(layer: nn.Module, arguments: tuple[Any, ...], outputs: Any) -> Tensor | None:
        if len(arguments) != 1 or not isinstance(outputs, Tensor):
            raise Unsupported("a layer takes or returns more than one tensor")
        inputs = arguments[0]
        if len(inputs) != batch or len(outputs) != batch:
            raise Unsupported("a layer does not see one row per view")
        read_again = isinstance(layer, StandardisedConv2d)
        call = Call(inputs.detach(), outputs.detach() if read_again else None, shared.of(inputs))
        calls.append(call)
        first = not outputs.requires_grad
        if first:
            leaves.append(outputs.requires_grad_())

        # A tensor's hook sees the gradient of the value it had when the hook was made.
        def arrive(gradient: Tensor) -> None:
            call.gradient = gradient

        outputs.register_hook(arrive)  # type: ignore[no-untyped-call]
        # What follows may change its input in place, which a leaf does not allow.
        return outputs.clone() if first else None

    return hook


@contextmanager
def _frozen(parameters: Mapping[str, nn.Parameter]) -> Iterator[None]:
    try:
        for parameter in parameters.values():
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in parameters.values():
            parameter.requires_grad_(True)
