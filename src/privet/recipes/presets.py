"""Methods by name, and the settings that runs start from.

`cpu` is for a laptop and a few thousand small images. `cpu-large` is for tens of thousands, where
noise is small beside a batch: the settings of the learning study (docs/training.md). `paper` is for
CIFAR on a GPU: Tables 10 to 12 of "in-distribution public data synthesis", where every method
has K = 16 views. DP-Mix was published with C = 1 and without a schedule, which is the same.
DOPE-SGD was published with a search grid alone (Table 8 of Nasr et al. 2023): learning rates 1 to
6, public batches of 80 to 2560, clip norms 0.5 to 1.5, batches of 512 to 4096.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from privet.augment import CropFlip
from privet.errors import ConfigError
from privet.learn import SGD, Ascent, AsIs, Augmented, MaskedWords, Method, Mirror, Mixed
from privet.learn.views import Views
from privet.optim import Schedule, constant, cosine
from privet.public import WarmUp
from privet.recipes.methods import (
    adadps_method,
    dope_method,
    dp_mix_method,
    dp_sgd_method,
    mirror_method,
    weight_multiplicity_method,
)

METHODS: Mapping[str, Callable[[], Method]] = {
    "dp-sgd": dp_sgd_method,
    "dp-mix": dp_mix_method,
    "dope": dope_method,
    "mirror": mirror_method,
    "adadps": adadps_method,
    "weight-multiplicity": weight_multiplicity_method,
}
SCHEDULES: Mapping[str, Schedule] = {"constant": constant(), "cosine": cosine()}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The settings that a run starts from, where nothing else is asked for.

    Args:
        name: the preset's name, as it is typed.
        model: the model's name, as it is typed.
        num_views: K augmentations; 1 for the example as it is.
        num_mixed: mixups of an example with itself, for DP-Mix.
        num_perturbations: M, for weight multiplicity.
        radius: ρ, for weight multiplicity.
        batch_size: expected rows in a step; None if the rate is given.
        sampling_rate: the probability with which each row joins a step; None if the batch size is
            given.
        epochs: passes over the private rows.
        learning_rate: the learning rate at its highest.
        clip_norm: C.
        momentum: momentum of SGD, alone or under mirror descent.
        ema_decay: decay of the moving average of weights.
        public_batch: rows in each public gradient.
        gentle: a factor of the learning rate where public rows have taught the whole model already.
        warm_up: how a model is warmed up on public rows.
        fitted_to: the ε that the settings were published for; None if it is the one that was asked
            for.
        features: settings that differ for a head on features.
        table: settings that differ for rows of a table.
        views: what takes the place of augmentations where those make no sense; None where they do.
    """

    name: str
    model: str
    num_views: int
    num_mixed: int
    num_perturbations: int
    radius: float
    epochs: float
    learning_rate: float
    warm_up: WarmUp
    clip_norm: float = 1.0
    momentum: float = 0.0
    ema_decay: float = 0.9999
    public_batch: int = 64
    gentle: float = 1.0
    batch_size: float | None = None
    sampling_rate: float | None = None
    fitted_to: float | None = None
    features: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    views: Views | None = None

    def on_features(self) -> Preset:
        """Adapt to a linear head on features of length 1: one view each, and longer steps."""
        return replace(self, num_views=1, num_perturbations=1, **{**_ON_FEATURES, **self.features})

    def on_table(self) -> Preset:
        """Adapt to rows of a table: one view each, and a network of four layers."""
        return replace(self, num_views=1, num_perturbations=1, **{**_ON_TABLE, **self.table})

    def on_text(self, *, causal: bool) -> Preset:
        """Adapt to sequences: two blocks, and blanks where words around one tell it."""
        return replace(
            self,
            num_views=1,
            num_perturbations=1,
            model="lm" if causal else "mlm",
            views=AsIs() if causal else MaskedWords(),
            **_ON_TEXT,
        )

    def method(self, name: str, augment: CropFlip) -> Method:
        """Return a published method with this preset's sizes."""
        method = METHODS[name]()
        views: Views = AsIs() if self.views is None else self.views
        if isinstance(method.views, Mixed):
            pair = max(2, self.num_views)
            views = Mixed(num_base=pair, num_self=self.num_mixed, augment=augment)
        elif self.num_views > 1:
            views = Augmented(num_views=self.num_views, augment=augment)
        perturb = method.perturb
        if isinstance(perturb, Ascent):
            perturb = replace(perturb, radius=self.radius, count=self.num_perturbations)
        base = SGD(momentum=self.momentum)
        update = replace(method.update, base=base) if isinstance(method.update, Mirror) else base
        return replace(method, views=views, perturb=perturb, update=update)


_ON_FEATURES = {
    "learning_rate": 4.0,
    "gentle": 0.25,
    "warm_up": WarmUp(learning_rate=1.0, augment=None),
}

# Appendix B of Nasr et al. 2023 has four layers, and does not say how wide.
_ON_TABLE: Mapping[str, Any] = {
    "model": "mlp:hidden=256-128-64",
    "warm_up": WarmUp(augment=None),
}
# Rates did best, or nearly so, on text in benchmarks/beyond_settings.py.
_ON_TEXT: Mapping[str, Any] = {
    "learning_rate": 1.0,
    "gentle": 0.3,
    "warm_up": WarmUp(
        epochs=10, optimizer="adam", learning_rate=2e-3, weight_decay=0.0, augment=None
    ),
}


def cpu(epsilon: float, num_classes: int) -> Preset:
    """Settings for a CPU: few steps with large batches.

    After a warm-up, steps are short, so that they undo little of it.
    """
    return Preset(
        name="cpu",
        model="conv-net:width=32",
        num_views=4,
        num_mixed=4,
        num_perturbations=2,
        radius=0.05,
        sampling_rate=0.1,
        epochs=10,
        learning_rate=1.0,
        gentle=0.05,
        warm_up=WarmUp(),
        table={"gentle": 0.3},
    )


def cpu_large(epsilon: float, num_classes: int) -> Preset:
    """Settings for tens of thousands of images: fewer and longer steps, and less clipping."""
    return Preset(
        name="cpu-large",
        model="conv-net:width=32,strided=true",
        num_views=1,
        num_mixed=2,
        num_perturbations=1,
        radius=0.05,
        sampling_rate=1 / 14,
        epochs=3,
        learning_rate=0.1,
        gentle=1.5,
        clip_norm=10.0,
        momentum=0.9,
        ema_decay=0.9,
        public_batch=256,
        warm_up=WarmUp(epochs=40),
        features={
            "sampling_rate": 0.2,
            "epochs": 12,
            "learning_rate": 128.0,
            "gentle": 0.5,
            "clip_norm": 0.5,
            "momentum": 0.0,
            "public_batch": 512,
            "warm_up": WarmUp(epochs=30, learning_rate=4.0, weight_decay=1e-5, augment=None),
        },
    )


# Tables 10 and 11 of IDS: ε, epochs, learning rate, ρ; Table 12: the warm-up.
_CIFAR10 = (
    (1, 15, 0.5, 0.05),
    (2, 30, 0.5, 0.1),
    (3, 30, 1, 0.1),
    (4, 30, 1, 0.1),
    (6, 20, 2, 0.1),
)
_CIFAR100 = (
    (1, 25, 0.5, 0.1),
    (2, 50, 0.5, 0.1),
    (6, 75, 1, 0.05),
    (10, 75, 1, 0.05),
)


def paper(epsilon: float, num_classes: int) -> Preset:
    """The published settings for the nearest ε: of CIFAR-100 from 100 classes, else of CIFAR-10."""
    many = num_classes >= 100
    table = _CIFAR100 if many else _CIFAR10
    nearest, epochs, rate, radius = min(table, key=lambda row: abs(row[0] - epsilon))
    return Preset(
        name="paper",
        model="wrn-16-4",
        num_views=16,
        num_mixed=18,
        num_perturbations=16,
        radius=radius,
        batch_size=4096,
        epochs=epochs,
        learning_rate=rate,
        warm_up=WarmUp(batch_size=64, epochs=200, learning_rate=0.1) if many else WarmUp(),
        fitted_to=None if nearest == epsilon else nearest,
    )


PRESETS: Mapping[str, Callable[[float, int], Preset]] = {
    "cpu": cpu,
    "cpu-large": cpu_large,
    "paper": paper,
}


def augmentation(image_shape: tuple[int, int, int]) -> CropFlip:
    """Choose shifts of up to an eighth of the side, as 4 pixels of 32; mirror colour images only.

    Grey images may be writing.
    """
    height, width, channels = image_shape
    return CropFlip(padding=min(height, width) // 8, flip=channels == 3)


def named(table: Collection[str], name: str, option: str) -> str:
    """Return the name; refuse one that is not in the table."""
    if name not in table:
        raise ConfigError(f"{option} is {name!r}: choose {', '.join(table)}.")
    return name
