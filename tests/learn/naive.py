"""Equation 1 written out, one view at a time, on one long vector; and what tests feed to both."""

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from privet.augment import CropFlip
from privet.hedge import Hedge, PoissonSum, Randomness
from privet.learn.engine import Engine
from privet.learn.equation import Equation, Method, State
from privet.learn.gradients import copied, trainable
from privet.learn.keys import Keys, Purpose
from privet.learn.objective import Examples, cross_entropy
from privet.learn.origins import LastPrivate, PublicOrigin
from privet.learn.perturbations import Ascent, RandomDirections
from privet.learn.scales import PublicMoments
from privet.learn.updates import SGD, Adam, Mirror, Pace
from privet.learn.views import Mixed, Views
from privet.privacy import Plan
from privet.public import PublicRows

from .vectors import flat

CLASSES, SIDE = 3, 4
CLIP, SIGMA, DIVISOR, RATE, SEED = 0.4, 0.7, 4.5, 0.5, 3
PUBLIC_BATCH = 3


ENGINES = {
    "loop": Engine(name="loop"),
    "loop side by side": Engine(name="loop", physical_batch=4),
    "batched": Engine(name="batched", physical_batch=4),
    "ghost": Engine(name="ghost", physical_batch=6),
}


@dataclass(frozen=True)
class FixedViews:
    """Views without randomness: the row, ever fainter."""

    num_views: int = 4
    needs_public: bool = False

    def __call__(self, rows, around):
        faint = 1 - 0.2 * torch.arange(self.num_views, dtype=torch.float64)
        inputs = (rows.inputs[:, None] * faint.reshape(1, -1, 1, 1, 1)).flatten(0, 1)
        return Examples(inputs, rows.targets.repeat_interleave(self.num_views))

    def single(self, rows, generator):
        return rows


@dataclass(frozen=True)
class Remembered:
    """Views that keep what they gave, so that a reference may use the same."""

    views: Views
    given: list = field(default_factory=list)

    @property
    def num_views(self):
        return self.views.num_views

    @property
    def needs_public(self):
        return self.views.needs_public

    def __call__(self, rows, around):
        self.given.append(self.views(rows, around))
        return self.given[-1]

    def single(self, rows, generator):
        return self.views.single(rows, generator)


MIXED = Mixed(num_base=2, num_self=1, num_diff=1, augment=CropFlip(padding=1))

METHODS = {
    "dp-sgd": Method(),
    "views": Method(views=FixedViews()),
    "dp-mix": Method(views=MIXED),
    "dope": Method(origin=PublicOrigin()),
    "dope with λ": Method(origin=PublicOrigin(limit=0.05), views=FixedViews()),
    "last private": Method(origin=LastPrivate(limit=0.2)),
    "mirror": Method(update=Mirror(alpha=0.6, schedule="constant")),
    "adadps": Method(scale=PublicMoments()),
    "weight multiplicity": Method(views=FixedViews(), perturb=Ascent(radius=0.3, count=2)),
    "adaptive": Method(views=FixedViews(), perturb=Ascent(radius=0.3, count=4, adaptive=True)),
    "random": Method(views=FixedViews(), perturb=RandomDirections(radius=0.3, count=2)),
    "scaled origin": Method(scale=PublicMoments(), origin=PublicOrigin()),
    "dp-mix, dope, weight multiplicity": Method(
        views=MIXED, origin=PublicOrigin(), perturb=Ascent(radius=0.3, count=2)
    ),
    "everything": Method(
        views=MIXED,
        origin=PublicOrigin(limit=0.1),
        perturb=Ascent(radius=0.3, count=4),
        scale=PublicMoments(decay=0.5),
        update=Mirror(base=SGD(momentum=0.9)),
    ),
    "adam": Method(update=Adam(epsilon=0.1)),
}


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(SIDE * SIDE, 5), nn.Tanh(), nn.Linear(5, CLASSES)
    ).double()


def columns(count=6, seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    return {
        "images": rng.standard_normal((count, 1, SIDE, SIDE)) * scale,
        "labels": rng.integers(0, CLASSES, count),
    }


def public_rows(count=7, seed=2):
    made = columns(count, seed)
    return PublicRows(torch.from_numpy(made["images"]), torch.from_numpy(made["labels"]))


def make_equation(method, engine=None, **changes):
    settings = {
        "model": make_model(),
        "method": method,
        "divisor": DIVISOR,
        "num_classes": CLASSES,
        "keys": Keys(5, view_seed=6),
        "engine": engine or Engine(name="loop"),
        "public": public_rows(),
        "public_batch": PUBLIC_BATCH,
    }
    return Equation(**(settings | changes))


def start(equation):
    return State(weights=copied(trainable(equation.model)))


@cache
def reserved(ledger, mechanism):
    """One reservation for all tests of a mechanism: a ledger of hundreds is slow."""
    return ledger.reserve(plan=Plan.of(mechanism.event.times(5000)))


def make_steps(ledger, rows, *, rate=1.0, physical_batch=2):
    mechanism = PoissonSum(clip_norm=CLIP, noise_multiplier=SIGMA, sampling_rate=rate)
    hedge = Hedge(rows, reserved(ledger, mechanism), randomness=Randomness(SEED))
    return hedge.steps(mechanism, physical_batch=physical_batch)


def paces(count):
    return [Pace(RATE, step, count) for step in range(count)]


class Naive:
    """The reference: the same draws, none of the machinery."""

    def __init__(self, equation):
        self.equation, self.method = equation, equation.method
        self.shapes = {key: value.shape for key, value in trainable(equation.model).items()}
        self.w = flat(trainable(equation.model))
        self.v = self.momentum = self.last = None

    def gradient(self, w, inputs, target):
        """∇ℓ of one input at the weights w."""
        leaf = w.clone().requires_grad_()
        outputs = functional_call(self.equation.model, self.blocks(leaf), (inputs[None],))
        return torch.autograd.grad(cross_entropy(outputs, target[None]).sum(), leaf)[0]

    def blocks(self, vector):
        parts = vector.split([math.prod(shape) for shape in self.shapes.values()])
        return {
            key: part.reshape(shape)
            for (key, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def publics(self, step):
        equation, perturb = self.equation, self.method.perturb
        if not self.method.needs_public_gradient:
            return []
        count = perturb.count if perturb.needs_public else 1
        generator = equation.keys.generator(Purpose.PUBLIC_BATCH, step)
        rows = equation.public.sample(count * PUBLIC_BATCH, generator)
        views = self.method.views.single(Examples(rows.inputs, rows.targets), generator)
        each = [
            self.gradient(self.w, x, y) for x, y in zip(views.inputs, views.targets, strict=True)
        ]
        return list(torch.stack(each).unflatten(0, (count, PUBLIC_BATCH)).mean(1))

    def scale(self, public):
        if not isinstance(self.method.scale, PublicMoments):
            return torch.ones_like(self.w)
        decay, damping = self.method.scale.decay, self.method.scale.damping
        self.v = public**2 if self.v is None else decay * self.v + (1 - decay) * public**2
        s = 1 / (self.v.sqrt() + damping * self.v.mean().sqrt())
        return s * public.norm() / (s * public).norm()

    def origin(self, public):
        origin = self.method.origin
        o = torch.zeros_like(self.w)
        if isinstance(origin, PublicOrigin):
            o = public
        elif isinstance(origin, LastPrivate) and self.last is not None:
            o = self.last
        limit = getattr(origin, "limit", None)
        return o if limit is None else o * min(1.0, limit / float(o.norm().clamp(min=1e-30)))

    def perturbed(self, publics, step):
        perturb = self.method.perturb
        if isinstance(perturb, RandomDirections):
            generator = self.equation.keys.generator(Purpose.PERTURBATION, step)
            found = perturb.perturbed(self.blocks(self.w), (), generator)
            return [flat(each) for each in found]
        if not isinstance(perturb, Ascent):
            return [self.w]
        t = self.w.abs() + 0.01 if perturb.adaptive else torch.ones_like(self.w)
        return [self.w + perturb.radius * t * t * g / (t * g).norm() for g in publics]

    def vectors(self, views, weights, s, o):
        """s ⊙ (1/K) Σ_k ∇ℓ(w + v_k; view_k(x_i)) − o, for every i."""
        num_views = self.method.views.num_views
        group = num_views // len(weights)
        each = [
            self.gradient(weights[number % num_views // group], x, y)
            for number, (x, y) in enumerate(zip(views.inputs, views.targets, strict=True))
        ]
        return s * torch.stack(each).unflatten(0, (-1, num_views)).mean(1) - o

    def clipped_sum(self, vectors):
        return sum(u * min(1.0, CLIP / float(u.norm())) for u in vectors)

    def noise(self, step):
        size = sum(shape.numel() for shape in self.shapes.values())
        return SIGMA * CLIP * Randomness(SEED).noise(0, step, 0, size)

    def step(self, step, total_steps, views):
        """One step; `views` are those of all rows that take part, or none."""
        publics = self.publics(step)
        public = sum(publics) / len(publics) if publics else None
        s = self.scale(public)
        if public is not None:
            public = s * public
        o = self.origin(public)
        total = self.noise(step)
        if views is not None:
            weights = self.perturbed(publics, step)
            total = total + self.clipped_sum(self.vectors(views, weights, s, o))
        g = o + total / DIVISOR
        self.last = g
        self.w = self.w - RATE * self.direction(g, public, step, total_steps)
        return self.w

    def direction(self, g, public, step, total_steps):
        update = self.method.update
        if isinstance(update, Mirror):
            alpha = update.alpha
            if update.schedule == "cosine":
                alpha = 1 - (1 - alpha) * math.cos(math.pi * step / (2 * total_steps))
            g, update = alpha * g + (1 - alpha) * public, update.base
        assert isinstance(update, SGD), "Adam is tested against torch"
        self.momentum = g if self.momentum is None else update.momentum * self.momentum + g
        return self.momentum
