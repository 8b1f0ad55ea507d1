"""Every engine agrees with a naive reference in double precision, for every layer that it takes."""

import math
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from privet.errors import PrivacyError
from privet.hedge import Units
from privet.hedge.clipping import clipped_sum
from privet.hedge.units import Rows
from privet.learn.gradients import copied, trainable
from privet.learn.layers import underflow
from privet.learn.loop import LoopSum
from privet.learn.objective import Examples, Objective, cross_entropy
from privet.learn.tape import TapeSum
from privet.models import MLP, ConvNet, ResNet9, StandardisedConv2d, WideResNet

from .vectors import flat

CLASSES, UNITS = 3, 5


class Shared(nn.Module):
    """One layer used twice."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(6, 6), nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


class Tied(nn.Module):
    """One parameter in two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Twice(nn.Module):
    """A layer of any kind that is used twice."""

    def __init__(self, before, layer, after):
        super().__init__()
        self.before, self.layer, self.after = before, layer, after

    def forward(self, x):
        once = torch.tanh(self.layer(self.before(x)))
        return self.after(torch.tanh(self.layer(once)))


class TiedTable(nn.Module):
    """A table of tokens that is also the head, of which some rows are classes."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(7, 8), nn.Linear(8, 7)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.table(tokens)).mean(1))[:, :CLASSES]


class Attention(nn.Module):
    """Tokens, a table of them, self-attention, normalisation."""

    def __init__(self, padding_idx=None):
        super().__init__()
        self.table = nn.Embedding(7, 8, padding_idx=padding_idx)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, CLASSES)

    def forward(self, tokens):
        x = self.table(tokens)
        mixed = nn.functional.scaled_dot_product_attention(
            self.query(x), self.key(x), self.value(x)
        )
        return self.head(self.norm(x + mixed).mean(1))


class InPlace(nn.Module):
    """Activations that overwrite what layers returned, the first layer's included."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3), nn.ReLU(inplace=True)
        )
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Unused(nn.Module):
    """A parameter that the loss does not depend on."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(6, CLASSES), nn.Linear(6, CLASSES)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        return self.used(x)


def conv(*layers):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def twice(layer, channels):
    """On images of 2×2 pixels, few enough for ghosts."""
    return Twice(
        nn.Sequential(nn.Conv2d(2, channels, 1), nn.AvgPool2d(4)),
        layer,
        conv(nn.Conv2d(channels, CLASSES, 1)),
    )


def frozen(model, *names):
    """Without the parameters of some names, wherever they are."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.rpartition(".")[2] not in names)
    return model


def standardised_without_bias():
    wide = StandardisedConv2d(48, 48, 3, padding=1, bias=False)
    wide.gain.data.uniform_(0.5, 2)
    model = conv(nn.AvgPool2d(4), nn.Conv2d(2, 48, 1), nn.Tanh(), wide)
    return model.append(nn.Linear(48, CLASSES))


def frozen_batch_norm():
    model = conv(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, CLASSES, 1))
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    return model.eval()


def images(count):
    return torch.randn(count, 2, 8, 8, dtype=torch.float64)


def rows(count):
    return torch.randn(count, 6, dtype=torch.float64)


def tokens(count):
    return torch.randint(0, 7, (count, 5))


def standardised():
    model = conv(
        StandardisedConv2d(2, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        StandardisedConv2d(16, 24, 3, 2, 1, gain=False, bias=False),
        nn.AvgPool2d(2),
        StandardisedConv2d(24, CLASSES, 2),
    )
    model[0].gain.data.uniform_(-2, 2)
    model[-3].weight.data[0] *= 1e-4  # at the floor
    return model


LAYERS = {
    "linear": (lambda: nn.Linear(6, CLASSES), rows),
    "linear without bias": (lambda: nn.Linear(6, CLASSES, bias=False), rows),
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, CLASSES)), rows),
    "convolution": (lambda: conv(nn.Conv2d(2, CLASSES, 3, padding=1)), images),
    "odd convolution": (
        lambda: conv(nn.Conv2d(2, CLASSES, (3, 2), (2, 1), (1, 2), (1, 2), bias=False)),
        images,
    ),
    "group norm": (
        lambda: conv(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, CLASSES, 5)),
        images,
    ),
    "standardised": (standardised, images),
    "frozen batch norm": (frozen_batch_norm, images),
    "attention": (Attention, tokens),
    "padded embedding": (lambda: Attention(padding_idx=2), tokens),
    "shared layer": (Shared, rows),
    "tied parameter": (Tied, rows),
    "in place": (InPlace, images),
    "unused": (Unused, rows),
    "shared convolution": (lambda: twice(nn.Conv2d(48, 48, 3, padding=1), 48), images),
    "shared standardised": (
        lambda: twice(StandardisedConv2d(48, 48, 3, padding=1, bias=False), 48),
        images,
    ),
    "shared group norm": (lambda: twice(nn.GroupNorm(2, 4), 4), images),
    "shared layer norm": (
        lambda: Twice(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, CLASSES)),
        rows,
    ),
    "tied table": (TiedTable, tokens),
    "biases of an mlp": (lambda: frozen(MLP(6, (20, 20), CLASSES), "weight"), rows),
    "biases of convolutions": (lambda: frozen(standardised(), "weight", "gain"), images),
    "standardised without bias": (standardised_without_bias, images),
    "frozen gain": (lambda: frozen(standardised_without_bias(), "gain"), images),
    "frozen standardised weight": (
        lambda: frozen(standardised_without_bias(), "weight"),
        images,
    ),
    "mlp": (lambda: MLP(6, (20, 20), CLASSES), rows),
    "conv net": (lambda: ConvNet(CLASSES, channels=2, width=16, image_size=8), images),
    "strided conv net": (
        lambda: ConvNet(CLASSES, channels=2, width=8, image_size=8, strided=True),
        images,
    ),
    "wide resnet": (lambda: WideResNet(10, 1, CLASSES, channels=2), images),
    "affine wide resnet": (
        lambda: WideResNet(10, 1, CLASSES, channels=2, conv_affine=True),
        images,
    ),
    "resnet9": (lambda: ResNet9(CLASSES, channels=2, width=16), images),
}


def batch(make_inputs, num_views=1, seed=0):
    torch.manual_seed(seed)
    labels = torch.randint(0, CLASSES, (UNITS,))
    views = Examples(make_inputs(UNITS * num_views), labels.repeat_interleave(num_views))
    units = Units({"labels": labels}, torch.arange(UNITS + 1))
    return units, views


def objective(name, num_views=1, freeze=0, perturbations=1, scale=False, origin=False):
    make_model, make_inputs = LAYERS[name]
    torch.manual_seed(1)
    model = make_model().double()
    for parameter in list(trainable(model).values())[:freeze]:
        parameter.requires_grad_(False)
    units, views = batch(make_inputs, num_views)
    weights = copied(trainable(model))

    def near():
        return {key: value + 0.1 * torch.randn_like(value) for key, value in weights.items()}

    return units, Objective(
        model=model,
        loss=cross_entropy,
        views=lambda _: views,
        num_views=num_views,
        weights=tuple(near() for _ in range(perturbations)) if perturbations > 1 else (weights,),
        scale={k: torch.rand_like(v) + 0.5 for k, v in weights.items()} if scale else None,
        origin={k: 0.1 * torch.randn_like(v) for k, v in weights.items()} if origin else None,
    )


def reference(objective):
    """s ⊙ (1/K) Σ_k ∇ℓ(w + v_k; view_k) − o, one view at a time."""
    views, num_views = objective.views(None), objective.num_views
    group = num_views // len(objective.weights)
    vectors = []
    for unit in range(UNITS):
        total = {key: torch.zeros_like(value) for key, value in objective.weights[0].items()}
        for view in range(num_views):
            row = slice(unit * num_views + view, unit * num_views + view + 1)
            values = {**objective.weights[view // group]}
            leaves = {key: value.clone().requires_grad_() for key, value in values.items()}
            outputs = torch.func.functional_call(objective.model, leaves, (views.inputs[row],))
            loss = cross_entropy(outputs, views.targets[row]).sum()
            found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            for key, gradient in zip(leaves, found, strict=True):
                total[key] += 0 if gradient is None else gradient / num_views
        for key in total:
            if objective.scale is not None:
                total[key] = total[key] * objective.scale[key]
            if objective.origin is not None:
                total[key] = total[key] - objective.origin[key]
        vectors.append(torch.cat([value.flatten() for value in total.values()]))
    return torch.stack(vectors)


ENGINES = {
    "loop": LoopSum,
    "batched": lambda objective: TapeSum(objective, ghost=False),
    "ghost": lambda objective: TapeSum(objective, ghost=True),
}

GHOSTS = {
    "shared convolution": "layer.weight",
    "shared standardised": "layer.weight",
    "standardised without bias": "3.weight",
    "frozen gain": "3.weight",
    "mlp": "layers.0.weight",
    "padded embedding": "table.weight",
}


@cache
def case(*arguments):
    """An objective and its reference, which three engines share."""
    units, what = objective(*arguments)
    return units, what, reference(what)


def check(engine, units, objective, expected):
    summand = ENGINES[engine](objective)
    torch.testing.assert_close(summand.norms(units), expected.norm(dim=1), rtol=1e-9, atol=1e-9)
    weights = torch.rand(UNITS, dtype=torch.float64)
    found = summand.weighted_sum(units, weights)
    assert list(found) == list(objective.weights[0])
    assert {k: v.shape for k, v in found.items()} == {
        k: v.shape for k, v in summand.zeros().items()
    }
    flat = torch.cat([block.flatten() for block in found.values()])
    torch.testing.assert_close(flat, weights @ expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("freeze", [0, 1], ids=["trainable", "first frozen"])
@pytest.mark.parametrize("num_views", [1, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_engines_agree_with_a_naive_reference(name, num_views, freeze, engine):
    make_model, _ = LAYERS[name]
    if freeze and len(trainable(make_model())) == 1:
        freeze = 0
    check(engine, *case(name, num_views, freeze))


@pytest.mark.parametrize("engine", ["batched", "ghost"])
@pytest.mark.parametrize("name", LAYERS)
def test_engines_agree_around_an_origin(name, engine):
    check(engine, *case(name, 2, 0, 1, False, True))


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("num_views", [1, 4])
@pytest.mark.parametrize("name", GHOSTS)
def test_cases_that_are_meant_for_ghosts_reach_them(name, num_views, origin):
    units, what = objective(name, num_views, origin=origin)
    summand = TapeSum(what, ghost=True)
    summand.norms(units)
    assert GHOSTS[name] not in summand._kept[units].written


@pytest.mark.parametrize("slot", ["scale", "origin"])
@pytest.mark.parametrize("change", [lambda block: block[..., :1], None])
def test_what_would_be_spread_over_weights_is_refused(slot, change):
    """A number for a row of a table would be counted once and subtracted from each."""
    _, what = objective("mlp", 1, origin=True, scale=True)
    blocks = dict(getattr(what, slot))
    name = next(iter(blocks))
    blocks |= {name: change(blocks[name])} if change else {"another": blocks.pop(name)}
    with pytest.raises(PrivacyError, match=f"The {slot} must have the names and shapes"):
        replace(what, **{slot: blocks})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("perturbations", [1, 2, 4])
@pytest.mark.parametrize(("scale", "origin"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", ["standardised", "attention", "tied parameter", "mlp"])
def test_scales_origins_and_perturbations(name, scale, origin, perturbations, engine):
    check(engine, *case(name, 4, 0, perturbations, scale, origin))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_standardised_weight_that_is_used_elsewhere_too(engine):
    """No rule can see that use, so only the loop may take such a model, and must get it right."""

    class Penalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = conv(StandardisedConv2d(2, CLASSES, 3))

        def forward(self, x):
            return self.body(x) * self.body[0].weight.square().sum()

    LAYERS["penalised"] = Penalised, images
    units, what, expected = case("penalised", 2)
    summand = ENGINES[engine](what)
    agrees = torch.allclose(summand.norms(units), expected.norm(dim=1))
    assert agrees == (engine == "loop")


def test_ghost_norms_are_never_below_the_norm_that_is_summed():
    """In single precision, with inputs whose gradients nearly cancel over positions."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 64)

    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x).sum(1)[:, :CLASSES]

    inputs = torch.randn(UNITS, 1, 64).repeat(1, 8, 1)
    inputs[:, 1::2] *= -1 + 1e-4
    labels = torch.randint(0, CLASSES, (UNITS,))
    what = Objective.plain(Tokens(), cross_entropy, lambda _: Examples(inputs, labels), 1)
    units = Units({"labels": labels}, torch.arange(UNITS + 1))
    written, ghost = (ENGINES[name](what) for name in ("batched", "ghost"))
    assert (ghost.norms(units) >= written.norms(units)).all()
    exact = written.norms(units)
    assert (ghost.norms(units) <= exact + 0.02 * inputs.norm(dim=2).sum(1)).all()


def single_precision(model, inputs, origin):
    """Norms of the ghost engine in single precision, and of all written out in double."""
    labels = torch.arange(len(inputs)) % CLASSES
    units = Units({"labels": labels}, torch.arange(len(inputs) + 1))

    def norms(engine, dtype):
        what = Objective(
            model=model.to(dtype),
            loss=cross_entropy,
            views=lambda _: Examples(
                inputs.to(dtype) if inputs.is_floating_point() else inputs, labels
            ),
            num_views=1,
            weights=(copied(trainable(model)),),
            origin={name: block.to(dtype) for name, block in origin.items()},
        )
        return ENGINES[engine](what).norms(units).double()

    return norms("ghost", torch.float32), norms("batched", torch.float64)


@pytest.mark.parametrize("size", [1.0, 100.0])
@pytest.mark.parametrize("name", ["mlp", *GHOSTS])
def test_ghost_norms_around_a_near_origin_are_never_too_small(name, size):
    """An origin that is one unit's own gradient: its difference cancels in all layers."""
    make_model, make_inputs = LAYERS[name]
    torch.manual_seed(0)
    model = make_model()
    inputs = make_inputs(40)
    inputs = size * inputs.float() if inputs.is_floating_point() else inputs
    loss = cross_entropy(model(inputs[:1]), torch.zeros(1, dtype=torch.int64)).sum()
    found = torch.autograd.grad(loss, list(trainable(model).values()))
    ghost, exact = single_precision(model, inputs, dict(zip(trainable(model), found, strict=True)))
    longest = math.sqrt(sum(float(each.square().sum()) for each in found)) + float(exact.max())
    assert float(exact[0]) < 1e-4 * longest  # it does cancel
    assert (ghost >= exact * (1 - 1e-5)).all()
    assert (ghost <= exact + 0.03 * longest).all()


GAINS = [1.0, 0.5, 0.05, 1e-3]
STANDARDISED_UNITS = 60


def standardised_norms(layer, cancelling=False):
    """Norms of the ghost engine in single precision over those in double.

    Errors are constants, so that both precisions have the same.
    """
    inputs, errors = torch.randn(2, STANDARDISED_UNITS, 64, 2, 2)
    if cancelling:  # over positions
        inputs[:, :, 1] = -inputs[:, :, 0] * (1 + 1e-3 * torch.randn(STANDARDISED_UNITS, 1, 1))
        errors[:, :, 1] = errors[:, :, 0]
    units = Units({"rows": inputs}, torch.arange(STANDARDISED_UNITS + 1))

    def norms(engine, layer, dtype):
        views = Examples(inputs.to(dtype), errors.to(dtype))
        what = Objective.plain(
            layer.to(dtype), lambda out, e: (out * e).sum((1, 2, 3)), lambda _: views, 1
        )
        return ENGINES[engine](what).norms(units).double()

    return norms("ghost", layer, torch.float32) / norms("batched", deepcopy(layer), torch.float64)


@pytest.mark.parametrize("train_bias", [False, True])
@pytest.mark.parametrize("bias", [None, 0.0, 1.0, 100.0])
@pytest.mark.parametrize("gain", GAINS)
def test_standardised_ghost_norms_are_not_too_small(gain, bias, train_bias):
    """In single precision, whatever is lost beneath a bias."""
    torch.manual_seed(0)
    layer = StandardisedConv2d(64, 64, 1, bias=bias is not None)
    layer.gain.data.fill_(gain)
    if layer.bias is not None:
        layer.bias.data.fill_(bias)
        layer.bias.requires_grad_(train_bias)
    ratios = standardised_norms(layer)
    assert float(ratios.min()) >= 1 - 1e-6
    assert float(ratios.max()) <= 1 + 1e-3


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("gain", GAINS)
def test_cancelling_gradients_of_a_gain_are_guarded(gain, size):
    """Large filters have small gradients, and leave those of gains alone in the norm."""
    torch.manual_seed(0)
    layer = StandardisedConv2d(64, 64, 1, bias=False)
    layer.gain.data.fill_(gain)
    layer.weight.data *= size
    assert float(standardised_norms(layer, cancelling=True).min()) >= 1 - 1e-6


@pytest.fixture(params=[False, True], ids=["denormal", "flushed"])
def flushed(request):
    """Whether numbers below the smallest normal one become zero."""
    torch.set_flush_denormal(request.param)
    yield request.param
    torch.set_flush_denormal(False)


FAR_APART = {
    "linear": (lambda: nn.Linear(64, 64), (64,)),
    "linear of tokens": (lambda: nn.Linear(64, 64), (4, 64)),
    "convolution": (lambda: nn.Conv2d(64, 64, 3, padding=1), (64, 2, 2)),
    "standardised": (lambda: StandardisedConv2d(64, 64, 3, padding=1, bias=False), (64, 2, 2)),
    "without a gain": (
        lambda: StandardisedConv2d(64, 64, 3, padding=1, bias=False, gain=False),
        (64, 2, 2),
    ),
}


def far_apart(name, sizes, origin):
    """The ghost engine on a layer whose inputs and errors are of very different sizes."""
    torch.manual_seed(0)
    make_layer, shape = FAR_APART[name]
    layer = make_layer()
    inputs, errors = (size * torch.randn(UNITS, *shape) for size in sizes)
    units = Units({"rows": inputs}, torch.arange(UNITS + 1))
    what = Objective.plain(
        layer, lambda out, e: (out * e).flatten(1).sum(1), lambda _: Examples(inputs, errors), 1
    )
    if origin:  # a little beside a unit's gradient
        near = LoopSum(what)
        near.norms(units)
        first = torch.zeros(UNITS, dtype=torch.float64)
        first[0] = 1.01
        blocks = near.weighted_sum(units, first)
        blocks = {key: block.float() for key, block in blocks.items()}
        what = replace(what, origin=blocks)
    return ENGINES["ghost"](what), units


def contributed(summand, units):
    """What the ghost engine says each unit's norm is, and the norms of what it adds up."""
    said, added = summand.norms(units).double(), []
    for number in range(len(units)):
        alone = torch.zeros(len(units), dtype=torch.float64)
        alone[number] = 1
        blocks = summand.weighted_sum(units, alone).values()
        added.append(math.sqrt(sum(float(each.double().square().sum()) for each in blocks)))
        summand.norms(units)
    return said, torch.tensor(added, dtype=torch.float64)


@pytest.mark.usefixtures("flushed")
@pytest.mark.parametrize("origin", [False, True], ids=["plain", "around an origin"])
@pytest.mark.parametrize("sizes", [(1e17, 1e-23), (1e17, 1e-25), (1e-23, 1e17)], ids=str)
@pytest.mark.parametrize("name", FAR_APART)
def test_trap_ghost_norms_do_not_vanish_in_underflow(name, sizes, origin):
    summand, units = far_apart(name, sizes, origin)
    said, added = contributed(summand, units)
    assert summand._kept[units].ghosts
    assert (added > 0).all()
    assert (said >= added * (1 - 1e-5)).all()


@pytest.mark.usefixtures("flushed")
@pytest.mark.parametrize("origin", [False, True], ids=["plain", "around an origin"])
@pytest.mark.parametrize("size", [1e-20, 1e-24])
def test_trap_ghost_norms_of_a_table_do_not_vanish_in_underflow(size, origin):
    torch.manual_seed(0)
    table, numbers = nn.Embedding(300, 40), torch.randint(0, 300, (UNITS, 4))
    errors = size * torch.randn(UNITS, 4, 40)
    what = Objective.plain(
        table, lambda out, e: (out * e).sum((1, 2)), lambda _: Examples(numbers, errors), 1
    )
    if origin:
        what = replace(what, origin={"weight": size * torch.ones(300, 40)})
    units = Units({"rows": numbers}, torch.arange(UNITS + 1))
    said, added = contributed(ENGINES["ghost"](what), units)
    assert (said >= added * (1 - 1e-5)).all()


def test_trap_a_row_that_underflows_moves_a_clipped_sum_by_no_more_than_the_clip_norm():
    """A LayerNorm divides errors by the size of its inputs, until their squares vanish."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 256), nn.LayerNorm(256), nn.ReLU(), nn.Linear(256, 10))
    for layer in model[1:]:
        layer.requires_grad_(False)
    rows, clip = torch.randn(9, 784), 1e-4
    rows[-1] *= 1.5e19 / rows[-1].norm()
    what = Objective.plain(
        model, lambda out, y: 1e-3 * cross_entropy(out, y), lambda u: Examples(u["x"], u["y"]), 1
    )

    def total(count):
        columns = {"x": rows[:count], "y": torch.arange(count) % 10}
        units = Units(columns, torch.arange(count + 1))
        return clipped_sum([units], ENGINES["ghost"](what), clip)

    with_it, without = total(9), total(8)
    moved = math.sqrt(sum(float((with_it[k] - without[k]).square().sum()) for k in with_it))
    assert moved <= clip * (1 + 1e-5)


def test_underflow_takes_nothing_from_ordinary_norms():
    ones = torch.ones(1, 64)
    assert float(underflow(ones, ones, (512, 512)).sqrt()) < 1e-14


class Averaged(nn.Module):
    """A layer over tokens whose gradients nearly cancel, so that ghost norms are guarded ones."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.layer(x).mean(1)


@pytest.mark.parametrize("engine", ["ghost", "batched", "loop"])
def test_trap_how_many_rows_a_user_has_does_not_change_how_others_are_clipped(engine):
    """Ghost norms are longer than exact ones: one user of two rows moved the sum by 14.6 clips."""
    others, tokens, width = 64, 16, 96
    torch.manual_seed(0)
    model = Averaged(width)
    plain = Objective.plain(
        model,
        lambda outputs, targets: 50 * (outputs * targets).sum(1),
        lambda units: Examples(units["rows"], units["targets"]),
        1,
    )
    make = {
        "ghost": lambda: TapeSum(plain, ghost=True),
        "batched": lambda: TapeSum(plain, ghost=False),
        "loop": lambda: LoopSum(plain),
    }[engine]
    sign = torch.tensor([1.0, -1.0] * (tokens // 2))[None, :, None]
    alike = torch.randn(1, 1, width) * sign + 0.003 * torch.randn(1, 1, width)
    rows = {
        "rows": torch.cat([alike.expand(others, -1, -1), torch.randn(2, tokens, width)]),
        "targets": torch.cat([torch.randn(1, width).expand(others, -1), torch.randn(2, width)]),
    }
    users = np.array([*range(others), others, others])

    def total(count):
        everyone = Rows({name: column[:count] for name, column in rows.items()}, users[:count])
        batch = everyone.batch(slice(0, everyone.num_units), torch.device("cpu"))
        return flat(clipped_sum([batch], make(), 1.0))

    assert float((total(others + 2) - total(others)).norm()) <= 1 + 1e-5
