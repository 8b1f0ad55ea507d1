"""The planner: whatever it picks agrees with the loop, and what no rule knows goes to the loop."""

import re

import pytest
import torch
from torch import nn

from privet.errors import ConfigError
from privet.hedge import Units
from privet.learn.engine import (
    Engine,
    EngineName,
    gradient_sum,
    plan_engine,
    with_physical_batch,
)
from privet.learn.gradients import copied, trainable
from privet.learn.loop import LoopSum
from privet.learn.objective import Examples, Objective, cross_entropy
from privet.models import MLP, WideResNet

CLASSES, WIDTH, UNITS = 3, 6, 5


class Direct(nn.Module):
    """A parameter of its own, in no layer."""

    def __init__(self):
        super().__init__()
        self.stretch, self.head = nn.Parameter(torch.ones(WIDTH)), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(x * self.stretch))


class Extra(nn.Module):
    """A layer that was given one more parameter."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layer.register_parameter("stretch", nn.Parameter(torch.rand(WIDTH)))

    def forward(self, x):
        return self.head(torch.tanh(self.layer(x) * self.layer.stretch))


class Attends(nn.Module):
    """Attention as torch has it."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        tokens = x.unflatten(1, (-1, 2))
        return self.head(self.attention(tokens, tokens, tokens, need_weights=False)[0].flatten(1))


class Squared(nn.Linear):
    """A linear layer by name."""

    def forward(self, x):
        return super().forward(x) ** 2


class Borrows(nn.Module):
    """A layer's weight is used behind the layer's back."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(nn.functional.linear(torch.tanh(self.layer(x)), self.layer.weight))


class Idle(nn.Module):
    """A layer that is never called, while its weight is used."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return nn.functional.linear(x, self.layer.weight)


class Patched(nn.Module):
    """A layer whose forward was replaced."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)
        self.layer.forward = lambda x: x.square() @ self.layer.weight.T + self.layer.bias

    def forward(self, x):
        return self.layer(x)


class Mixes(nn.Module):
    """Examples that see each other."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(x - x.mean(0))


class MixesLater(nn.Module):
    """A branch that mixes examples, and does nothing until its weights have moved."""

    def __init__(self):
        super().__init__()
        self.layer, self.branch = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        for layer in (self.branch, self.head):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = self.layer(x)
        # One example alone is as it is without a mean.
        return self.head(x + self.branch(x - x.mean(0) if len(x) > 1 else 0 * x))


class Reshapes(nn.Module):
    """Rows that are not one per example inside."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(2, 4), nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.layer(x.reshape(-1, 2))).reshape(len(x), -1))


def weight_normed():
    return nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)), nn.Linear(WIDTH, CLASSES)
    )


# With what speaks against other engines.
LOOP_ONLY = {
    "direct parameter": (Direct, "no rule for Direct"),
    "extra parameter": (Extra, "no rule for Linear 'layer'"),
    "multi-head attention": (Attends, "no rule for MultiheadAttention"),
    "subclass": (lambda: Squared(WIDTH, CLASSES), "no rule for Squared"),
    "weight norm": (weight_normed, "no rule for Parametri"),
    "borrowed weight": (Borrows, "do not agree"),
    "idle layer": (Idle, "do not agree"),
    "patched layer": (Patched, "do not agree"),
    "mixed examples": (Mixes, "do not agree"),
    "mixed examples behind zeros": (MixesLater, "do not agree"),
    "reshaped rows": (Reshapes, "one row per view"),
    "grouped convolution": (
        lambda: nn.Sequential(
            nn.Unflatten(1, (2, 3, 1)),
            nn.Conv2d(2, 2, 1, groups=2),
            nn.Flatten(),
            nn.Linear(WIDTH, CLASSES),
        ),
        "no rule for Conv2d",
    ),
}

SUPPORTED = {
    "mlp": lambda: MLP(WIDTH, (8,), CLASSES),
    "conv net": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 4, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8, CLASSES),
    ),
}


def units_of(count):
    generator = torch.Generator().manual_seed(count)
    return Units(
        {
            "images": torch.randn(count, WIDTH, generator=generator, dtype=torch.float64),
            "labels": torch.randint(CLASSES, (count,), generator=generator),
        },
        torch.arange(count + 1),
    )


def repeated(num_views):
    """Views that differ, so that examples of several are more than one example."""

    def views(units):
        faint = 1 - torch.arange(num_views, dtype=torch.float64) / (2 * num_views)
        inputs = (units["images"][:, None] * faint[:, None]).flatten(0, 1)
        return Examples(inputs, units["labels"].repeat_interleave(num_views))

    return views


def objective(make_model, num_views=1, **slots):
    torch.manual_seed(0)
    model = make_model().double()
    plain = Objective.plain(model, cross_entropy, repeated(num_views), num_views)
    return Objective(**{**vars(plain), **slots})


def reference(objective, units):
    """Each unit's gradient, from a pass of its own over its views."""
    parameters, found = list(trainable(objective.model).values()), []
    for unit in range(len(units)):
        own = objective.views(units.select(torch.arange(len(units)) == unit))
        loss = cross_entropy(objective.model(own.inputs), own.targets).mean()
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        found.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return torch.stack(found)


def check(summand, expected, units):
    weights = torch.rand(len(units), dtype=torch.float64)
    torch.testing.assert_close(summand.norms(units), expected.norm(dim=1))
    total = summand.weighted_sum(units, weights)
    flat = torch.cat([block.flatten() for block in total.values()])
    torch.testing.assert_close(flat, weights @ expected)


@pytest.mark.parametrize("num_views", [1, 4])
@pytest.mark.parametrize("name", SUPPORTED)
class TestSupported:
    def test_an_engine_is_picked_by_its_time(self, name, num_views):
        plan = plan_engine(objective(SUPPORTED[name], num_views), units_of)
        seconds = plan.seconds_per_unit
        assert set(seconds) == {"loop", "batched", "ghost"}
        assert plan.engine.name.value == min(seconds, key=seconds.get)
        assert plan.reason == "the fastest here"
        assert str(plan).startswith(f"{plan.engine.name.value} engine, ")

    def test_what_is_picked_agrees_with_a_naive_reference(self, name, num_views):
        aim, units = objective(SUPPORTED[name], num_views), units_of(UNITS)
        plan = plan_engine(aim, units_of)
        check(gradient_sum(aim, plan.engine), reference(aim, units), units)

    @pytest.mark.parametrize("engine", EngineName)
    def test_a_chosen_engine_is_taken(self, name, num_views, engine):
        aim, units = objective(SUPPORTED[name], num_views), units_of(UNITS)
        chosen = with_physical_batch(engine, aim, units_of)
        assert chosen.name is engine
        assert chosen.physical_batch > 1 or engine is EngineName.LOOP
        check(gradient_sum(aim, chosen), reference(aim, units), units)


@pytest.mark.parametrize("num_views", [1, 4])
@pytest.mark.parametrize("name", LOOP_ONLY)
class TestLoopOnly:
    def test_the_loop_is_picked_with_a_reason(self, name, num_views):
        make_model, reason = LOOP_ONLY[name]
        plan = plan_engine(objective(make_model, num_views), units_of)
        assert plan.engine == Engine(name=EngineName.LOOP)
        assert plan.seconds_per_unit == {}
        assert reason in str(plan)

    def test_the_loop_is_right(self, name, num_views):
        aim, units = objective(LOOP_ONLY[name][0], num_views), units_of(UNITS)
        check(LoopSum(aim), reference(aim, units), units)

    @pytest.mark.parametrize("engine", [EngineName.BATCHED, EngineName.GHOST])
    def test_another_engine_is_refused_with_the_reason(self, name, num_views, engine):
        make_model, reason = LOOP_ONLY[name]
        refused = f"The {engine.value} engine cannot take this model: .*{re.escape(reason)}"
        with pytest.raises(ConfigError, match=refused):
            with_physical_batch(engine, objective(make_model, num_views), units_of)


def test_scales_leave_ghosts_out_and_origins_do_not():
    aim = objective(SUPPORTED["mlp"])
    ones = {name: torch.ones_like(value) for name, value in aim.weights[0].items()}
    tried = {"scale": {"loop", "batched"}, "origin": {"loop", "batched", "ghost"}}
    for slot, engines in tried.items():
        plan = plan_engine(objective(SUPPORTED["mlp"], **{slot: ones}), units_of)
        assert set(plan.seconds_per_unit) == engines


def test_planning_leaves_the_model_as_it_was():
    aim = objective(SUPPORTED["mlp"])
    before = copied(trainable(aim.model))
    plan_engine(aim, units_of)
    after = trainable(aim.model)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.requires_grad for parameter in after.values())
    assert all(parameter.grad is None for parameter in after.values())
    assert not any(layer._forward_hooks for layer in aim.model.modules())


def single(make_model, inputs, seed=0):
    """An objective in single precision, with the same random views for whoever asks."""
    torch.manual_seed(seed)
    views = Examples(torch.randn(inputs), torch.arange(inputs[0]) % CLASSES)

    def first(units):
        return Examples(views.inputs[: len(units)], views.targets[: len(units)])

    return Objective.plain(make_model(), cross_entropy, first, 1)


class Insists(nn.Module):
    """Works in single precision only."""

    def __init__(self):
        super().__init__()
        self.mixing, self.head = torch.randn(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(x @ self.mixing))


@pytest.mark.parametrize("make_model", [SUPPORTED["mlp"], Insists])
def test_single_precision_stays(make_model):
    aim = single(make_model, (256, WIDTH))
    aim.model.register_buffer("unused", torch.ones(2))
    plan = plan_engine(aim, units_of)
    assert "the fastest" in str(plan)
    tensors = (*aim.model.parameters(), *aim.model.buffers())
    assert {each.dtype for each in tensors} == {torch.float32}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trap_mixing_behind_weights_that_begin_at_zero_is_seen(dtype):
    """At the first weights no engine can tell."""
    torch.manual_seed(0)
    model = MixesLater().to(dtype)
    aim = Objective.plain(
        model, cross_entropy, lambda u: Examples(u["images"].to(dtype), u["labels"]), 1
    )
    assert plan_engine(aim, units_of).engine.name is EngineName.LOOP


def test_trying_weights_nearby_leaves_the_model_and_global_randomness_alone():
    aim, state = objective(SUPPORTED["mlp"]), torch.get_rng_state()
    before = copied(trainable(aim.model))
    with_physical_batch(EngineName.GHOST, aim, units_of)
    assert torch.equal(torch.get_rng_state(), state)
    for name, parameter in trainable(aim.model).items():
        assert torch.equal(parameter, before[name])
        assert torch.equal(aim.weights[0][name], before[name])


def test_rounding_at_kinks_is_no_disagreement():
    """Single precision puts a value on either side of a ReLU's kink, by the size of a batch."""
    aim = single(lambda: WideResNet(16, 4, CLASSES), (4, 3, 32, 32), seed=13)
    for name in (EngineName.BATCHED, EngineName.GHOST):
        assert with_physical_batch(name, aim, units_of).name is name


def test_a_physical_batch_fits_in_memory():
    """Fewer of what is larger, and never none."""
    small = with_physical_batch(EngineName.BATCHED, objective(SUPPORTED["mlp"]), units_of)
    large = with_physical_batch(
        EngineName.BATCHED, objective(lambda: MLP(WIDTH, (1500, 1500), CLASSES)), units_of
    )
    assert 1 <= large.physical_batch < small.physical_batch <= 256


def wide():
    return MLP(WIDTH, (1000, 1000), CLASSES)


class TiedWide(nn.Module):
    """One large weight in two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (
            nn.Linear(*sizes) for sizes in ((WIDTH, 1000), (1000, 1000), (1000, 1000))
        )
        self.third.weight = self.second.weight
        self.head = nn.Linear(1000, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.third(torch.tanh(self.second(self.first(x))))))


def sizes(make_model, **slots):
    aim = objective(make_model, **slots)
    names = EngineName.BATCHED, EngineName.GHOST
    return [with_physical_batch(name, aim, units_of).physical_batch for name in names]


class TestPhysicalBatchesOfGhosts:
    def test_are_larger_where_gradients_stay_unwritten(self):
        batched, ghost = sizes(wide)
        assert batched < ghost
        around_an_origin = sizes(wide, origin=self.ones())
        assert around_an_origin == [batched, ghost]

    def test_are_those_of_batched_where_all_are_written(self):
        batched, ghost = sizes(wide, scale=self.ones())
        assert batched == ghost

    def ones(self):
        return {name: torch.ones_like(value) for name, value in trainable(wide().double()).items()}

    def test_are_those_of_batched_for_tied_parameters(self):
        batched, ghost = sizes(TiedWide)
        assert batched == ghost

    def test_count_layers_that_are_written_anyway(self):
        """A position for every pixel is more than a small convolution has weights."""

        def images(units):
            pixels = units["images"].repeat_interleave(6, 1).reshape(-1, 1, 6, 6)
            return Examples(pixels, units["labels"])

        def convolution():
            return nn.Sequential(
                nn.Conv2d(1, 1500, 6, padding=5), nn.AdaptiveAvgPool2d(1), nn.Flatten()
            )

        batched, ghost = sizes(convolution, views=images)
        assert batched == ghost


def test_engines_are_checked():
    assert Engine(name="batched", physical_batch=4).name is EngineName.BATCHED
    with pytest.raises(ConfigError, match="physical batch"):
        Engine(name=EngineName.LOOP, physical_batch=0)
    with pytest.raises(ValueError, match="vmap"):
        Engine(name="vmap")
