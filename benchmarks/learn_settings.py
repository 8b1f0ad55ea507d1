"""Every row of the learning study and its settings, in the order in which they are run.

Learning rates, clip norms and warm-ups were chosen on 5,000 rows held out of the training sets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from privet.augment import CropFlip
from privet.learn import (
    SGD,
    Ascent,
    Augmented,
    Method,
    Mirror,
    Mixed,
    PublicMoments,
    PublicOrigin,
)
from privet.learn.views import AsIs
from privet.models import MLP, ConvNet
from privet.public import WarmUp
from privet.recipes.training_config import TrainingConfig

SEEDS = (0, 1, 2)
# With more seeds, all but the first also at other ε; for images, those that were best at ε = 1.
IMAGES_HEADLINE = ("cold", "warm", "warm + DOPE", "extended + DOPE")
FEATURES_HEADLINE = ("cold", "warm", "warm + DOPE", "extended + DOPE + AdaDPS")
FEATURES = "cifar10 features: lite0 160"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    Args:
        data: what it is run on.
        name: what it is called.
        model: from a seed to a new model.
        config: every setting.
        epsilon: of the private run; none for bounds.
        seed: of the model and of everything public.
        bound: also train without noise.
    """

    data: str
    name: str
    model: Callable[[int], nn.Module]
    config: TrainingConfig
    epsilon: float | None = 1.0
    seed: int = 0
    bound: bool = False

    @property
    def key(self) -> str:
        """What the row is kept under."""
        epsilon = "none" if self.epsilon is None else f"{self.epsilon:g}"
        return f"{self.data} | {self.name} | epsilon {epsilon} | seed {self.seed}"

    def described(self) -> dict[str, Any]:
        """What stands in the row beside its results."""
        config = dataclasses.asdict(self.config)
        return {
            "data": self.data,
            "name": self.name,
            "epsilon": self.epsilon,
            "seed": self.seed,
            "model": (self.model.__doc__ or "").rstrip("."),
            "views": self.config.method.views.num_views,
            "steps": self.config.steps,
            "settings": config | {"method": repr(self.config.method)},
        }


def all_rows() -> Iterator[Row]:
    """Headline rows of every data set first, then the rest, then more seeds and other ε."""
    images = [row for data in ("fashion_mnist", "mnist") for row in image_rows(data)]
    features = list(feature_rows())
    headline = [row for row in images if row.name in IMAGES_HEADLINE]
    headline += [row for row in features if row.name in FEATURES_HEADLINE]
    yield from sorted([*images, *features], key=lambda row: row not in headline)
    again = [replace(row, bound=False) for row in headline]
    yield from (_with_seed(row, SEEDS[1]) for row in again)
    for row in again:
        if row.name != "cold":
            yield from (replace(row, epsilon=epsilon) for epsilon in (2.0, 4.0))
    yield from (_with_seed(row, SEEDS[2]) for row in again)


def _with_seed(row: Row, seed: int) -> Row:
    return replace(row, seed=seed, config=replace(row.config, seed=seed))


def image_rows(data: str) -> Iterator[Row]:
    """MNIST and FashionMNIST from pixels, with a strided ConvNet of 66,314 parameters."""
    augment = CropFlip(padding=1, flip=data == "fashion_mnist")
    plain, views = AsIs(), Augmented(num_views=4, augment=augment)
    mixed = Mixed(num_base=2, num_self=2, augment=augment)
    base = TrainingConfig(
        method=Method(),
        sampling_rate=1 / 14,
        epochs=3,
        clip_norm=10.0,
        learning_rate=0.15,
        ema_decay=0.9,
        public_batch=256,
        warm_up=WarmUp(epochs=40, augment=replace(augment, padding=2)),
    )
    cold = replace(base, warm_up=None, learning_rate=0.1)

    def row(name: str, method: Method, config: TrainingConfig = base, **changes: Any) -> Row:
        return Row(
            data=data,
            name=name,
            model=_conv_net,
            config=replace(config, method=_with_momentum(method), **changes),
            bound=True,
        )

    yield replace(row("public only", Method()), epsilon=None, bound=False)
    yield row("cold", Method(views=plain), cold)
    yield row("warm", Method(views=plain))
    dope = Method(views=plain, origin=PublicOrigin())
    yield row("warm + DOPE", dope)
    yield row(
        "extended + DOPE + AdaDPS",
        replace(dope, scale=PublicMoments()),
        extended=1.0,
        learning_rate=0.1,
    )
    yield row("cold + 4 augmentations", Method(views=views), cold)
    yield row("cold + DP-Mix self", Method(views=mixed), cold)
    yield row("warm + mirror", Method(views=plain, update=Mirror()))
    yield row("warm + AdaDPS", Method(views=plain, scale=PublicMoments()), learning_rate=0.1)
    yield row("extended + DOPE", dope, extended=1.0)
    if data == "fashion_mnist":
        yield row("warm + 4 augmentations", Method(views=views))
    # How many perturbations it takes is asked of one data set.
    for count in (1, 2, 4) if data == "fashion_mnist" else (2,):
        yield row(
            f"warm + weight multiplicity, {count} of 4 perturbed",
            Method(views=views, perturb=Ascent(radius=0.05, count=count)),
        )
    yield row(
        "ensembles: warm, many small steps",
        Method(views=plain),
        sampling_rate=1 / 50,
        learning_rate=0.05,
        ema_decay=0.999,
        keep_last=100,
    )
    yield from mixing_pool_rows(data, augment, cold)


def mixing_pool_rows(data: str, augment: CropFlip, cold: TrainingConfig) -> Iterator[Row]:
    """A, B and C of Table 10 of the DP-Mix supplement, on half of the private rows."""
    own = Mixed(num_base=2, num_self=2, augment=augment)
    diff = Mixed(num_base=2, num_self=2, num_diff=1, augment=augment)
    for name, part, views in (
        ("mixing pool A: own views", "half", own),
        ("mixing pool B: public images", "half", diff),
        ("mixing pool C: the other half", "pool", diff),
    ):
        # All three start cold: only the pool differs.
        method = _with_momentum(Method(views=views))
        config = replace(cold, method=method)
        yield Row(data=f"{data}/{part}", name=name, model=_conv_net, config=config, bound=True)


def feature_rows() -> Iterator[Row]:
    """CIFAR-10: a private linear head on frozen features."""
    plain = AsIs()
    base = TrainingConfig(
        method=Method(),
        sampling_rate=0.2,
        epochs=12,
        clip_norm=0.5,
        learning_rate=64.0,
        ema_decay=0.9,
        public_batch=512,
        warm_up=WarmUp(
            epochs=30, learning_rate=4.0, weight_decay=1e-5, augment=None, batch_size=100
        ),
    )

    def row(name: str, method: Method, **changes: Any) -> Row:
        return Row(
            data=FEATURES,
            name=name,
            model=_linear_head,
            config=replace(base, method=method, **changes),
            bound=True,
        )

    yield replace(row("public only", Method()), epsilon=None, bound=False)
    yield row("cold", Method(views=plain), warm_up=None, learning_rate=128.0)
    yield row("warm", Method(views=plain))
    yield row("warm + DOPE", Method(views=plain, origin=PublicOrigin()))
    yield row(
        "extended + DOPE + AdaDPS",
        Method(views=plain, origin=PublicOrigin(), perturb=Ascent(radius=0.05, count=1)),
        extended=1.0,
    )
    yield row("warm + mirror", Method(views=plain, update=Mirror()))
    yield row("warm + AdaDPS", Method(views=plain, scale=PublicMoments()))


def _with_momentum(method: Method) -> Method:
    """Few steps: momentum gets further with them than a large learning rate does."""
    base = SGD(momentum=0.9)
    mirror = isinstance(method.update, Mirror)
    return replace(method, update=replace(method.update, base=base) if mirror else base)


def _conv_net(seed: int) -> nn.Module:
    """ConvNet, strided, width 32."""
    torch.manual_seed(seed)
    return ConvNet(10, channels=1, width=32, image_size=28, strided=True)


def _linear_head(seed: int) -> nn.Module:
    """Linear head on frozen EfficientNet-Lite0 features."""
    torch.manual_seed(seed)
    return MLP(1280, (), 10)
