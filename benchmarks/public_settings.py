"""Every set and every run of the study of public data, and their settings, frozen by their commit.

Private steps are those of learn_settings.py, chosen on rows held out of the training set, at ε = 2.
Every warm-up sees as many views of images, whatever the number of images is. Settings of diffusion
models are those of the paper, as far as two cores go; nothing was chosen on test images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from learn_settings import Row, image_rows
from privet.augment import CropFlip
from privet.learn import SGD, Ascent, Augmented, Method, Mirror, PublicOrigin
from privet.learn.updates import Update
from privet.learn.views import AsIs
from privet.models import ConvNet
from privet.optim import Sharpness
from privet.public import DiffusionTraining, WarmUp
from privet.public.adversary import Adversary
from privet.recipes.public_ddpm import PublicDdpm
from privet.recipes.public_edm import PublicEdm

DATA, EPSILON = "fashion_mnist", 2.0
SEEDS = (0, 1, 2)
COUNT, MOST = 10_000, 20_000  # synthetic images of a set, and of the largest
VIEWS = 250_000  # of images in a warm-up
GUIDANCE = (3.0, 10.0, 20.0)  # w_d of Table 2
GUIDED = 3.0  # of the ladder: what the paper found the best FID with
_WIDTHS = (16, 32, 48)  # 455,009 parameters
_LESSONS = DiffusionTraining(iterations=4000)
EDM = PublicEdm(widths=_WIDTHS, training=_LESSONS)
COLOUR_EDM = PublicEdm(widths=(32, 64, 64), training=_LESSONS)  # an hour on two cores
DDPM = PublicDdpm(widths=_WIDTHS, training=replace(_LESSONS, augment=None))


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """Images that are made of public ones.

    Args:
        name: what it is called.
        system: what makes them; none repeats the public images.
        count: how many.
        data: of which 4% are public.
    """

    name: str
    system: PublicEdm | PublicDdpm | None
    count: int = COUNT
    data: str = DATA

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells it apart."""
        return {"kind": "set", "name": self.name}

    @property
    def described(self) -> str:
        """All its settings."""
        return f"{self.count} images of {self.system} on {self.data}"


SETS = {
    each.name: each
    for each in (
        PublicSet(name="edm", system=EDM),
        PublicSet(name="ddpm", system=DDPM),
        PublicSet(name="repeated", system=None),
        *(PublicSet(name=f"edm, w_d {w:g}", system=replace(EDM, guidance=w)) for w in GUIDANCE),
        PublicSet(name="edm, 20,000", system=EDM, count=MOST),
        PublicSet(name="cifar10 edm", system=COLOUR_EDM, data="cifar10"),
    )
}


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One private run.

    Args:
        study: of which table it is.
        row: the run.
        made: the set of synthetic images beside the public ones, if there is one.
        count: of its images; all if none is given.
        public: how many public images there are; 4% if none is given.
        other: whether public images are photos, with labels that mean other things.
    """

    study: str
    row: Row
    made: str | None = None
    count: int | None = None
    public: int | None = None
    other: bool = False

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells it apart."""
        return {"kind": "run", "study": self.study, "name": self.row.name, "seed": self.row.seed}

    @property
    def described(self) -> str:
        """All its settings."""
        made = None if self.made is None else SETS[self.made].described
        return f"{made} {self.count} {self.public} {self.other} {self.row.config}"

    def with_seed(self, seed: int) -> Rung:
        """Once more."""
        config = replace(self.row.config, seed=seed)
        return replace(self, row=replace(self.row, seed=seed, config=config))


@dataclass(frozen=True, kw_only=True)
class WarmedUp:
    """A warm-up without private steps.

    Args:
        name: what it is called.
        config: of the warm-up.
        made: the set of synthetic images beside the public ones, if there is one.
        data: of which 4% are public.
        curvature: whether to look at the loss around the weights.
    """

    name: str
    config: WarmUp
    made: str | None = None
    data: str = DATA
    curvature: bool = False
    seed: int = 0

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells it apart."""
        return {"kind": "warm-up", "data": self.data, "name": self.name}

    @property
    def described(self) -> str:
        """All its settings."""
        made = None if self.made is None else SETS[self.made].described
        return f"{made} {self.config} {self.seed}"

    def model(self) -> nn.Module:
        """Before it has learned anything."""
        torch.manual_seed(self.seed)
        side, channels = (32, 3) if self.data == "cifar10" else (28, 1)
        return ConvNet(10, channels=channels, width=32, image_size=side, strided=True)


_ROWS = {row.name: row for row in image_rows(DATA)}
COMMON = CropFlip(padding=2)
CUTOUT = replace(COMMON, cutout=8)
_WARM = _ROWS["warm"].config


def _views(images: int, augment: CropFlip | None, **changes: Any) -> WarmUp:
    """Of so many images."""
    epochs = max(1, round(VIEWS / images))
    return replace(WarmUp(epochs=epochs, augment=augment), **changes)


def rung(
    study: str,
    name: str,
    *,
    made: str | None = None,
    augment: CropFlip | None = CUTOUT,
    method: Method | None = None,
    warm: Mapping[str, Any] | None = None,
    count: int | None = None,
    public: int | None = None,
    **changes: Any,
) -> Rung:
    """A run after a warm-up on public images, and on synthetic ones if there are any."""
    images = (public or 2400) + (0 if made is None else count or SETS[made].count)
    plain = _ROWS["warm"].config.method
    config = replace(
        _WARM,
        method=plain if method is None else replace(method, update=_update(method, plain)),
        warm_up=_views(images, augment, **(warm or {})),
        synthetic_warm_up=made is not None,
        **changes,
    )
    row = replace(_ROWS["warm"], name=name, config=config, epsilon=EPSILON, bound=False)
    return Rung(study=study, row=row, made=made, count=count, public=public)


def _update(method: Method, plain: Method) -> Update:
    """With the momentum of the other rows."""
    if isinstance(method.update, Mirror) and isinstance(plain.update, SGD):
        return replace(method.update, base=plain.update)
    return plain.update


SAM = {"sharpness": Sharpness()}
_FOUR = Augmented(num_views=4, augment=CropFlip(padding=1))
DOPE = Method(views=AsIs(), origin=PublicOrigin())


def _multiplied(radius: float = 0.1, **changes: Any) -> Method:
    return Method(views=_FOUR, perturb=Ascent(radius=radius, count=4, **changes))


def ladder() -> Iterator[Rung]:
    """Table 1 of IDS."""
    cold = replace(_ROWS["cold"], epsilon=EPSILON, bound=False)
    yield Rung(study="ladder", row=cold)
    yield rung("ladder", "warm", augment=None)
    yield rung("ladder", "warm, common", augment=COMMON)
    yield rung("ladder", "ddpm", made="ddpm", augment=None)
    yield rung("ladder", "edm", made="edm", augment=None)
    yield rung("ladder", "edm + guidance", made=f"edm, w_d {GUIDED:g}", augment=None)
    yield rung("ladder", "edm + cutout", made="edm")
    yield rung("ladder", "edm + cutout + SAM", made="edm", warm=SAM)
    yield rung(
        "ladder",
        "edm + cutout + SAM + weight multiplicity",
        made="edm",
        warm=SAM,
        method=_multiplied(),
    )
    yield rung(
        "ladder", "edm + cutout + SAM + DOPE", made="edm", warm=SAM, method=DOPE, extended=1.0
    )


def studies() -> Iterator[Rung]:
    """Tables 2, 3, 8, 9, 13, 15 and 16 of IDS; Tables 4, 11 and 12 of DOPE-SGD."""
    for made in ("repeated", *(f"edm, w_d {w:g}" for w in GUIDANCE)):
        yield rung("IDS table 2", made, made=made, augment=None)
        yield rung("IDS table 13", f"{made}, cutout", made=made)
    yield rung("IDS table 3", "common", made="edm", augment=COMMON)
    yield rung("IDS table 3", "cutmix", made="edm", augment=COMMON, warm={"cutmix": True})
    yield rung("IDS table 3", "auto", made="edm", augment=COMMON, warm={"auto_augment": True})
    for count in (500, 2000):
        yield rung("IDS table 8", f"{count} images", made="edm", count=count)
    yield rung("IDS table 8", "20,000 images", made="edm, 20,000")
    plain = _ROWS["warm"].config.method
    for name, method in (
        ("DP-SGD", plain),
        ("mirror", Method(views=AsIs(), update=Mirror())),
        ("DOPE", DOPE),
        ("DP-SGD, 4 views", Method(views=_FOUR)),
    ):
        yield rung("IDS table 9", name, made="edm", warm=SAM, method=method)
    for radius in (0.02, 0.05, 0.2):
        yield rung(
            "IDS table 15", f"rho {radius:g}", made="edm", warm=SAM, method=_multiplied(radius)
        )
    for radius in (2 / 255, 8 / 255):
        adversary = Adversary(radius=radius)
        name = f"PGD {round(255 * radius)}/255"
        yield rung("IDS table 16", name, made="edm", warm={"adversary": adversary})
    yield rung(
        "IDS table 16",
        "adaptive weight multiplicity",
        made="edm",
        warm=SAM,
        method=_multiplied(adaptive=True),
    )
    for public in (60, 120, 600, 1200, 2400):
        yield rung(
            "DOPE-SGD table 4",
            f"{public} public images",
            public=public,
            augment=COMMON,
            method=DOPE,
            extended=1.0,
        )
    yield from _imperfect()


def _imperfect() -> Iterator[Rung]:
    """Photos with labels that mean other things, and how far to trust them."""
    runs = [rung("DOPE-SGD tables 11, 12", "warm", augment=COMMON)]
    for limit in (None, 0.1, 1.0):
        dope = Method(views=AsIs(), origin=PublicOrigin(limit=limit))
        name = "DOPE" if limit is None else f"DOPE, lambda {limit:g}"
        runs.append(rung("DOPE-SGD tables 11, 12", name, augment=COMMON, method=dope))
    for share in (0.1, 1.0):
        name = f"DOPE, lambda 1, extended {share:g}"
        dope = Method(views=AsIs(), origin=PublicOrigin(limit=1.0))
        runs.append(
            rung("DOPE-SGD tables 11, 12", name, augment=COMMON, method=dope, extended=share)
        )
    yield from (replace(each, other=True) for each in runs)


def warm_ups() -> Iterator[WarmedUp]:
    """Curvature after SGD and after SAM (Table 4 of IDS); CIFAR-10 from 2,000 images."""
    for name, warm in (("SGD", {}), ("SAM", SAM)):
        config = _views(2400 + COUNT, CUTOUT, **warm)
        yield WarmedUp(name=name, config=config, made="edm", curvature=True)
    wide = CropFlip(padding=4, cutout=16)
    for made, images in ((None, 2000), ("cifar10 edm", 2000 + COUNT)):
        name = "public images" if made is None else "public and synthetic images"
        config = _views(images, wide)
        yield WarmedUp(name=name, config=config, made=made, data="cifar10")


def all_tasks() -> Iterator[PublicSet | Rung | WarmedUp]:
    """What the ladder needs first; then studies; then more seeds of the ladder."""
    needed = {each.made for each in ladder()}
    yield from (each for each in SETS.values() if each.name in needed)
    yield from ladder()
    of_study = [each for each in SETS.values() if each.name not in needed]
    yield from (each for each in of_study if each.data == DATA)
    yield from studies()
    yield from (each for each in of_study if each.data != DATA)
    yield from warm_ups()
    for seed in SEEDS[1:]:
        yield from (each.with_seed(seed) for each in ladder())
