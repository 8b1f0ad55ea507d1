"""What the layers of a frozen public network make of images."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self

from torch import Tensor, nn

from privet.errors import ConfigError
from privet.models.independence import refuse_mixing_layers, tried_once, within_another
from privet.models.resize import fitted


class FeatureMaps(nn.Module):
    """Images (N, C, H, W) in [-1, 1] to the outputs of chosen layers of a frozen copy.

    The copy stays in eval mode. Gradients reach the images, never the network.

    Guarantees:
        An image's maps depend on that image alone. A network that mixes images, remembers them or
        draws random numbers is refused when it is first used, if random images show it to.

    Args:
        network: takes images.
        layers: names of modules in it, as `named_modules` gives them.
        channels: what the network expects; grey images are repeated to fit. None takes any.
        image_size: what images are resized to; None leaves them.
    """

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        *,
        channels: int | None = None,
        image_size: int | None = None,
    ) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)
        self.layers = tuple(layers)
        self.channels, self.image_size = channels, image_size
        self.requires_grad_(False)
        self.eval()
        refuse_mixing_layers(self.network)
        modules = dict(self.network.named_modules())
        for name in self.layers:
            if name not in modules:
                raise ConfigError(
                    f"The encoder has no layer {name!r}: choose among {_some(modules)}."
                )
        for module in modules.values():
            if getattr(module, "inplace", False):
                module.inplace = False  # would change what is noted

    def train(self, mode: bool = True) -> Self:
        """Stay in eval mode, also inside a model that is trained."""
        return super().train(False)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """A map for each layer, in the order in which they were asked for."""
        ready = fitted(images, channels=self.channels, image_size=self.image_size)
        tried_once(self, lambda trial: lambda each: [*trial._maps(each).values()], ready)
        return self._maps(ready)

    def _maps(self, ready: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        versions: dict[str, int] = {}
        modules = dict(self.network.named_modules())
        with ExitStack() as stack:
            for name in self.layers:
                note = _note(name, found, versions, wanted=len(self.layers))
                handle = modules[name].register_forward_hook(note)
                stack.callback(handle.remove)
            with suppress(_Enough), within_another():
                self.network(ready)
        for name in self.layers:
            if name not in found:
                raise ConfigError(f"Layer {name!r} of the encoder was not used: choose another.")
            if found[name]._version != versions[name]:
                raise ConfigError(
                    f"The output of layer {name!r} is changed in place afterwards: choose another."
                )
        return {name: found[name] for name in self.layers}


class _Enough(Exception):  # noqa: N818  (not a mistake)
    """Raised once all layers were seen, since what follows need not be computed."""


def _note(name: str, found: dict[str, Tensor], versions: dict[str, int], wanted: int) -> Any:
    def hook(_: nn.Module, __: Any, output: Any) -> None:
        if not isinstance(output, Tensor):
            raise ConfigError(f"Layer {name!r} returns no tensor: choose another.")
        found[name], versions[name] = output, output._version
        if len(found) == wanted:
            raise _Enough

    return hook


def convolutions(network: nn.Module) -> list[str]:
    """Names of convolutions larger than 1×1, whose activations DP-MEPF matches (appendix D)."""
    return [
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d) and max(module.kernel_size) > 1
    ]


def _some(modules: dict[str, nn.Module]) -> str:
    names = [name for name in modules if name]
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
