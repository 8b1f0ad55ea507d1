"""Vision transformers of the `transformers` package, for private fine-tuning.

All that learns sits in nn.Linear, nn.LayerNorm and nn.Conv2d layers. The class token and the
position embeddings are bare parameters, which fast per-example gradients cannot see: they stay as
they are unless asked for.

References:
    Dosovitskiy et al., An Image is Worth 16×16 Words, 2021; Touvron et al., DeiT, 2021; Bu et al.,
    Scalable and Efficient Training of Large Convolutional Neural Networks with Differential
    Privacy, 2022 (private fine-tuning of both).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from privet.errors import ConfigError
from privet.models.layers import check_sizes
from privet.models.resize import fitted

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_KINDS = {"vit": "ViTForImageClassification", "deit": "DeiTForImageClassification"}


class VisionTransformer(nn.Module):
    """Logits of images (N, C, H, W) in [-1, 1], by a network of `transformers`.

    Args:
        network: an image classifier of `transformers` with `base_model.embeddings`.
        image_size: what images are resized to; positions are interpolated if it is not the
            network's own.
        mean: of each channel, or all, for pixels in [0, 1]; public, from the network's training.
        std: likewise.
        train_embeddings: also learn the class token and the position embeddings.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        network: Any,
        *,
        image_size: int,
        mean: Sequence[float] = (0.5,),
        std: Sequence[float] = (0.5,),
        train_embeddings: bool = False,
    ) -> None:
        super().__init__()
        self.network = network
        self.image_size = image_size
        m, s = (torch.tensor(value)[:, None, None] for value in (mean, std))
        self.register_buffer("scale", 0.5 / s, persistent=False)
        self.register_buffer("shift", (0.5 - m) / s, persistent=False)
        for parameter in network.base_model.embeddings.parameters(recurse=False):
            parameter.requires_grad_(train_embeddings)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images (N, C, H, W) in [-1, 1]."""
        config = self.network.config
        fit = fitted(images, channels=config.num_channels, image_size=self.image_size)
        other_size = self.image_size != config.image_size
        # The plain kernel is as fast for this many tokens, exact in double precision and known to
        # torch.func.vmap.
        with sdpa_kernel(SDPBackend.MATH):
            out = self.network(fit * self.scale + self.shift, interpolate_pos_encoding=other_size)
        logits: Tensor = out.logits
        return logits


def vision_transformer(
    source: str | Path | PreTrainedConfig,
    num_classes: int,
    *,
    image_size: int | None = None,
    train_embeddings: bool = False,
) -> VisionTransformer:
    """A ViT or DeiT from a local folder with its weights, or from a configuration without any.

    Args:
        source: a folder with config.json and safetensors, as `save_pretrained` writes it and hubs
            offer it, or a configuration, which gives random weights.
        num_classes: the number of logits; the head is new if the folder has another number.
        image_size: what images are resized to, by default the network's own.
        train_embeddings: also learn the class token and the position embeddings.
    """
    check_sizes(num_classes=num_classes)
    transformers = transformers_package()
    if isinstance(source, str):
        source = Path(source)
    config = _config(transformers, source)
    size = _checked_size(config, image_size)
    if isinstance(source, Path):
        kind = getattr(transformers, _KINDS[config.model_type])
        with quiet(transformers):
            network = _pretrained(kind, source, num_classes)
        pixels = _normalisation(source)
    else:
        network, pixels = _untrained(transformers, config, num_classes), {}
    return VisionTransformer(network, image_size=size, train_embeddings=train_embeddings, **pixels)


def tiny_vit(
    num_classes: int,
    image_size: int = 32,
    patch: int = 4,
    width: int = 192,
    depth: int = 6,
    heads: int = 3,
    *,
    channels: int = 3,
    train_embeddings: bool = False,
) -> VisionTransformer:
    """A small ViT with random weights and no dropout: 2.7M parameters and 64 patches as it is."""
    check_sizes(image_size=image_size, patch=patch, width=width, depth=depth, heads=heads)
    check_sizes(channels=channels)
    if width % heads:
        raise ConfigError(f"heads is {heads}; give a divisor of width, which is {width}.")
    config = transformers_package().ViTConfig(
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        image_size=image_size,
        patch_size=patch,
        num_channels=channels,
    )
    return vision_transformer(config, num_classes, train_embeddings=train_embeddings)


def transformers_package() -> Any:
    """The optional package; refused with a remedy where it is not installed."""
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            "transformers is not installed; run pip install 'privet[encoders]' to get it."
        ) from None
    return transformers


def _config(transformers: Any, source: Path | PreTrainedConfig) -> Any:
    """A copy of the configuration that may be changed; refused for unsupported kinds of network."""
    if not isinstance(source, Path):
        config = copy.deepcopy(source)
    elif (source / "config.json").is_file():
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=True)
    else:
        raise ConfigError(f"{source} has no config.json; give a folder of a saved ViT or DeiT.")
    if config.model_type not in _KINDS:
        raise ConfigError(f"The model is a {config.model_type!r}; give a ViT or a DeiT.")
    return config


def _checked_size(config: Any, image_size: int | None) -> int:
    size = config.image_size if image_size is None else image_size
    if not isinstance(size, int) or size < 1 or size % config.patch_size:
        raise ConfigError(f"image_size is {size}; give a multiple of {config.patch_size}, a patch.")
    return size


def _untrained(transformers: Any, config: Any, num_classes: int) -> Any:
    config.num_labels = num_classes
    config.architectures = [_KINDS[config.model_type]]
    auto = transformers.AutoModelForImageClassification
    return auto.from_config(config, attn_implementation="sdpa")


def _pretrained(kind: Any, folder: Path, num_classes: int) -> Any:
    """The folder's network in single precision; only a head may be new."""
    try:
        network, report = kind.from_pretrained(
            folder,
            num_labels=num_classes,
            ignore_mismatched_sizes=True,
            attn_implementation="sdpa",
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except OSError:
        raise ConfigError(
            f"{folder} has no model.safetensors; save the model again with safetensors."
        ) from None
    mismatched = {key for key, *_ in report["mismatched_keys"]}
    lacking = sorted({*report["missing_keys"], *mismatched} - _head(network))
    if lacking:
        raise ConfigError(f"{folder} lacks {lacking[0]}; give a folder with all weights.")
    return network.float()


def _head(network: nn.Module) -> set[str]:
    return {name for name, _ in network.named_parameters() if name.startswith("classifier.")}


def _normalisation(folder: Path) -> dict[str, list[float]]:
    """The mean and deviation that the network was trained with, where the folder says."""
    file = folder / "preprocessor_config.json"
    stated = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    names = {"mean": "image_mean", "std": "image_std"}
    return {name: stated[key] for name, key in names.items() if key in stated}


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Switch off the progress bar of `transformers` and its report of a new head."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
