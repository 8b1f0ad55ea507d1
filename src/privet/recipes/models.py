"""Models by name, and how each is made for rows of a given shape.

A model is either a network that learns from rows as they are, or a frozen public encoder under a
linear head that learns from its features.
"""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from privet import plain_json
from privet.augment import to_float
from privet.data.guard import shown
from privet.errors import ConfigError, DataError
from privet.models import (
    MLP,
    ConvEncoder,
    ConvNet,
    Encoder,
    LanguageModel,
    PretrainedWords,
    ResNet9,
    WideResNet,
    efficientnet_lite,
    glyph_encoder,
    pretrained_words,
    teach_words,
    tiny_vit,
    vision_transformer,
)
from privet.paths import place
from privet.recipes.forms import Kind

ImageShape = tuple[int, int, int]
"""Height, width, channels."""
Shape = tuple[int, ...]
"""Of one row: of an image, or of a vector."""

_FEATURE_BATCH = 64
_LEAST_DEVIATION = 1e-3
_MOST_WIDTH, _MOST_DEPTH = 2**20, 1000


class Model(Protocol):
    """What is trained."""

    @property
    def takes(self) -> tuple[str, ...]:
        """What rows it can learn from, by their nouns."""

    @property
    def sees_inputs(self) -> bool:
        """Whether the network itself reads rows as they are stored, not features of them."""

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """Of what the network reads."""

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """What learns, with its weights as they are before training."""

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What was learned elsewhere, for the certificate."""

    def encoder(self) -> nn.Module | None:
        """From images (N, C, H, W) to what the network sees; none if it sees them itself."""

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """The same network with any weights, to load trained ones into."""


def _check_sizes(model: Any) -> None:
    """Refuse widths, depths and such that no network has."""
    for each in fields(model):
        value = getattr(model, each.name)
        most = _MOST_DEPTH if each.name == "depth" else _MOST_WIDTH
        for size in value if isinstance(value, tuple) else (value,):
            if type(size) is int and each.name != "version" and not 1 <= size <= most:
                raise ConfigError(f"The model's {each.name} is {size}: give 1 to {most:,}.")


class _Plain(ABC):
    """For models that see rows as they are, and need nothing but their settings to be made."""

    takes: tuple[str, ...] = ("images",)
    sees_inputs = True
    treated_as_public: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_sizes(self)

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """As it is."""
        return shape

    def encoder(self) -> nn.Module | None:
        """None."""
        return None

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Made anew."""
        return self.network(shape, num_classes)

    @abstractmethod
    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Every model has its own."""


@dataclass(frozen=True, kw_only=True)
class WideResNetModel(_Plain):
    """WRN-depth-width with GroupNorm and weight standardisation."""

    depth: int
    width: int

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Of De et al. 2022."""
        return WideResNet(self.depth, self.width, num_classes, shape[2])


@dataclass(frozen=True, kw_only=True)
class ConvNetModel(_Plain):
    """Three convolutions."""

    width: int = 32
    strided: bool = False

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """For square images."""
        return ConvNet(
            num_classes,
            shape[2],
            image_size=min(shape[:2]),
            width=self.width,
            strided=self.strided,
        )


@dataclass(frozen=True, kw_only=True)
class ResNet9Model(_Plain):
    """ResNet-9."""

    width: int = 64

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Of Klause et al. 2022."""
        return ResNet9(num_classes, shape[2], width=self.width)


@dataclass(frozen=True, kw_only=True)
class MLPModel(_Plain):
    """Linear layers on rows of a table, or on flattened images."""

    takes = ("images", "rows")

    hidden: tuple[int, ...] = (200,)

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """None hidden make a linear classifier."""
        return MLP(math.prod(shape), self.hidden, num_classes)


@dataclass(frozen=True, kw_only=True)
class TinyViT(_Plain):
    """A small vision transformer with random weights."""

    patch: int = 4
    width: int = 192
    depth: int = 6
    heads: int = 3

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """For square images."""
        return tiny_vit(
            num_classes,
            min(shape[:2]),
            self.patch,
            self.width,
            self.depth,
            self.heads,
            channels=shape[2],
        )


@dataclass(frozen=True, kw_only=True)
class BlocksModel(_Plain):
    """A transformer over words with random weights.

    Args:
        causal: whether a position sees only what comes before it.
        width: of every layer.
        depth: how many blocks.
        heads: of attention.
    """

    takes = ("sequences",)

    causal: bool
    width: int = 128
    depth: int = 2
    heads: int = 4

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """Of Nasr et al. 2023."""
        return LanguageModel(
            num_classes,
            shape[0],
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            causal=self.causal,
        )


class _Features(ABC):
    """For linear or MLP heads that see features of a frozen public encoder."""

    takes = ("images",)
    sees_inputs = False
    num_features: ClassVar[int]
    hidden: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_sizes(self)

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """One vector an image."""
        return (self.num_features,)

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """The head."""
        return CentredHead(self.num_features, num_classes, self.hidden)

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """The head."""
        return self.network(shape, num_classes)

    @abstractmethod
    def encoder(self) -> nn.Module:
        """Every model has its own."""


@dataclass(frozen=True, kw_only=True)
class EncoderHead(_Features):
    """A linear or MLP head on a frozen EfficientNet-Lite, trained on ImageNet.

    Args:
        version: 0, 1 or 2.
        image_size: what images are resized to.
        mirror: average the features of an image and of its mirror image.
        hidden: widths of the head's hidden layers; none for a linear head.
    """

    num_features = 1280
    treated_as_public = ("a frozen encoder that was trained on ImageNet",)

    version: int
    image_size: int = 112
    mirror: bool = False
    hidden: tuple[int, ...] = ()

    def encoder(self) -> nn.Module:
        """From the package that carries it."""
        encoder = efficientnet_lite(self.version, self.image_size)
        return _Mirrored(encoder) if self.mirror else encoder


@dataclass(frozen=True, kw_only=True)
class GlyphHead(_Features):
    """A linear or MLP head on the frozen encoder that comes with Privet, for grey images.

    Args:
        image_size: what images are resized to: what the encoder learned from.
        hidden: widths of the head's hidden layers; none for a linear head.
    """

    num_features = 1024
    treated_as_public = ("a frozen encoder that was trained on glyphs of fonts and random images",)

    image_size: int = 28
    hidden: tuple[int, ...] = ()

    def encoder(self) -> nn.Module:
        """Its last map, of which four corners are left."""
        corners = _Corners(glyph_encoder().folded())
        return Encoder(corners, self.num_features, channels=1, image_size=self.image_size)


@dataclass(frozen=True, kw_only=True)
class LocalTransformer(_Plain):
    """A ViT or DeiT from a folder of `transformers`, all of it trained.

    Args:
        folder: with config.json and model.safetensors.
        image_size: what images are resized to; the network's own if none.
        architecture: the folder's config.json, so that a run needs the folder no more.
    """

    treated_as_public = ("pretrained weights of the model, and whatever they were learned from",)

    folder: str
    image_size: int | None = None
    architecture: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.architecture:
            object.__setattr__(self, "architecture", _architecture(place(self.folder)))

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """With the folder's weights, and a new head where its own has other classes."""
        return vision_transformer(self.folder, num_classes, image_size=self.image_size)

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Without the folder."""
        from transformers import AutoConfig

        settings = json.loads(self.architecture)
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        return vision_transformer(config, num_classes, image_size=self.image_size)


@dataclass(frozen=True, kw_only=True)
class LocalLanguageModel(_Plain):
    """A GPT-2 from a folder of `transformers`, all of it trained, over words of public text.

    Args:
        folder: with config.json and model.safetensors.
        architecture: the folder's config.json, so that a run needs the folder no more.
    """

    takes = ("sequences",)
    causal: ClassVar[bool] = True
    treated_as_public = ("pretrained weights of the model, and whatever they were learned from",)

    folder: str
    architecture: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.architecture:
            object.__setattr__(self, "architecture", _architecture(place(self.folder)))

    def network(self, shape: Shape, num_classes: int) -> nn.Module:
        """With the folder's weights, and an untrained table of words."""
        return pretrained_words(self.folder, num_classes, shape[0])

    def learn_words(self, network: nn.Module, words: tuple[str, ...]) -> None:
        """Start each word from its pieces, if the folder can tell them."""
        assert isinstance(network, PretrainedWords)
        teach_words(network, self.folder, words)

    def outline(self, shape: Shape, num_classes: int) -> nn.Module:
        """Without the folder."""
        from transformers import AutoConfig

        settings = json.loads(self.architecture)
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        return pretrained_words(config, num_classes, shape[0])


MODELS = {
    "conv-net": Kind(ConvNetModel),
    "linear": Kind(MLPModel, {"hidden": ()}),
    "mlp": Kind(MLPModel),
    "resnet9": Kind(ResNet9Model),
    "wrn-16-4": Kind(WideResNetModel, {"depth": 16, "width": 4}),
    "wrn-40-4": Kind(WideResNetModel, {"depth": 40, "width": 4}),
    "vit": Kind(TinyViT),
    "lm": Kind(BlocksModel, {"causal": True}),
    "mlm": Kind(BlocksModel, {"causal": False}),
    "efficientnet-lite0": Kind(EncoderHead, {"version": 0}),
    "efficientnet-lite1": Kind(EncoderHead, {"version": 1}),
    "efficientnet-lite2": Kind(EncoderHead, {"version": 2}),
    "glyphs": Kind(GlyphHead),
    "transformers": Kind(LocalTransformer),
    "gpt2": Kind(LocalLanguageModel),
}


def features(encoder: nn.Module, images: Tensor) -> Tensor:
    """What the encoder makes of bytes (N, H, W, C), in batches."""
    with torch.no_grad():
        found = [encoder(to_float(batch)) for batch in torch.split(images, _FEATURE_BATCH)]
    return torch.cat(found)


def require_room(model: Model, shape: Shape, num_classes: int) -> None:
    """Refuse a network whose weights this machine's memory cannot hold, before it is made."""
    with torch.device("meta"):
        found = all_weights(model.outline(shape, num_classes)).values()
    needed = sum(each.nbytes for each in found)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ConfigError(
            f"The model's weights take {needed:,} bytes and this machine has {there:,}: choose a "
            "smaller --model."
        )


def load_weights(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put saved parameters and buffers in place of a network's own."""
    known = dict(all_weights(network))
    require_weights(known, tensors)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(tensors[name])
    for name, _ in network.named_buffers():
        owner, _, leaf = name.rpartition(".")
        setattr(network.get_submodule(owner), leaf, tensors[name])


def require_weights(known: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Refuse saved tensors with other names, shapes or types than a network's own."""
    layouts = [
        {name: (each.shape, each.dtype) for name, each in found.items()}
        for found in (known, tensors)
    ]
    odd = sorted(known.keys() ^ tensors.keys())
    odd += [name for name in known if layouts[0][name] != layouts[1].get(name)]
    if odd:
        raise ConfigError(f"The saved weights and the model differ in {odd[0]!r}: train it again.")


def all_weights(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, those included that `state_dict` leaves out."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


class CentredHead(nn.Module):
    """A classifier of features around a public mean, in public deviations, of length 1.

    Lengths bound gradients, so that one clip norm suits every encoder. A linear head starts at
    zero.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, num_features: int, num_classes: int, hidden: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("deviation", torch.ones(num_features))
        self.classifier: nn.Module = MLP(num_features, hidden, num_classes)
        if not hidden:
            self.classifier = nn.Linear(num_features, num_classes)
            nn.init.zeros_(self.classifier.weight)
            nn.init.zeros_(self.classifier.bias)

    def centre_on(self, public: Tensor) -> None:
        """Take mean and deviations from features of public images."""
        self.mean.copy_(public.mean(0))
        self.deviation.copy_(public.std(0, correction=0) + _LEAST_DEVIATION)

    def forward(self, features: Tensor) -> Tensor:
        """Logits."""
        centred = (features - self.mean) / self.deviation
        logits: Tensor = self.classifier(nn.functional.normalize(centred, dim=-1))
        return logits


class _Corners(nn.Module):
    """A last map averaged over four quarters of the image: what is where counts."""

    def __init__(self, encoder: ConvEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        maps = self.encoder.last_map(images)
        return nn.functional.adaptive_avg_pool2d(maps, 2).flatten(1)


class _Mirrored(nn.Module):
    """Features averaged over an image and its mirror image."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        both: Tensor = self.encoder(images) + self.encoder(images.flip(-1))
        return both / 2


def is_gpt2(folder: Path) -> bool:
    """Whether a folder's config.json says so."""
    try:
        body = plain_json.read(folder / "config.json")
    except (OSError, ValueError):
        return False
    return isinstance(body, dict) and body.get("model_type") == "gpt2"


def _architecture(folder: Path) -> str:
    file = folder / "config.json"
    if not file.is_file():
        raise ConfigError(
            f"{folder} has no config.json; give a folder of a saved ViT, DeiT or GPT-2."
        )
    try:
        return json.dumps(plain_json.read(file), sort_keys=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{shown(file)} cannot be read ({shown(error)}).") from None
