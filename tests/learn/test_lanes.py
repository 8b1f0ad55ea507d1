"""Units side by side: the same gradients, in the same order, and only where layers keep nothing."""

import ast
import math
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import privet.models
from privet.learn.engine import _loops
from privet.learn.equation import Method, random_rows, units_of
from privet.learn.gradients import combined, copied, trainable
from privet.learn.lanes import num_lanes, side_by_side
from privet.learn.loop import LoopSum
from privet.learn.objective import Examples
from privet.learn.per_unit import batches
from privet.models import StandardisedConv2d, WideResNet
from privet.public import PublicRows

from .naive import (
    CLASSES,
    ENGINES,
    METHODS,
    FixedViews,
    make_equation,
    make_model,
    public_rows,
    start,
)

LANES = 3


@pytest.fixture(autouse=True)
def several_cores():
    before = torch.get_num_threads()
    torch.set_num_threads(LANES)
    yield
    torch.set_num_threads(before)


def fixed_views(units):
    return FixedViews()(Examples(units["images"], units["labels"]), None)


class Remembers(nn.Module):
    """Reads for one unit what it may have noted of another."""

    def forward(self, x):
        self.seen = x
        return self.seen


def with_hook(kind):
    model = nn.Sequential(nn.Linear(3, CLASSES))
    getattr(model[0], f"register_{kind}_hook")(lambda *_: None)
    return model


class TestHowMany:
    @pytest.mark.parametrize(
        "model", [nn.Sequential(nn.Linear(3, 2), nn.ReLU()), WideResNet(10, 1, CLASSES)]
    )
    def test_as_many_as_cores_for_known_layers(self, model):
        assert num_lanes(model) == LANES

    def test_one_for_a_layer_that_may_remember(self):
        assert num_lanes(nn.Sequential(nn.Linear(3, 2), Remembers())) == 1

    @pytest.mark.parametrize(
        "kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"]
    )
    def test_one_for_layers_with_hooks(self, kind):
        assert num_lanes(with_hook(kind)) == 1

    def test_one_away_from_the_cpu(self):
        assert num_lanes(nn.Linear(3, 2, device="meta")) == 1


def test_our_own_layers_keep_nothing_between_calls():
    """They count as known, so no method of theirs but the first writes to the layer."""
    kept = []
    for path in Path(privet.models.__file__).parent.glob("*.py"):
        for owner in ast.walk(ast.parse(path.read_text())):
            methods = owner.body if isinstance(owner, ast.ClassDef) else []
            kept += [
                f"{path.name}: {ast.unparse(node)}"
                for method in methods
                if isinstance(method, ast.FunctionDef) and method.name != "__init__"
                for node in ast.walk(method)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            ]
    assert kept == []


class TestSideBySide:
    def test_results_are_in_the_order_of_items(self):
        def late_first(number):
            time.sleep(0.02 * (number == 0))
            return number

        assert side_by_side(late_first, range(7), LANES) == list(range(7))

    def test_items_run_at_the_same_time(self):
        met = threading.Barrier(LANES)
        assert side_by_side(lambda _: met.wait(timeout=20) >= 0, range(LANES), LANES)

    def test_a_lane_has_one_core_and_the_caller_keeps_its_own(self):
        found = side_by_side(lambda _: torch.get_num_threads(), range(2 * LANES), LANES)
        assert set(found) == {1}
        assert torch.get_num_threads() == LANES

    def test_threads_that_come_later_have_all_cores(self):
        side_by_side(abs, range(2 * LANES), LANES)
        found = []
        later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        later.start()
        later.join()
        assert found == [LANES]

    def test_an_error_reaches_the_caller(self):
        def fails(number):
            if number == 4:
                raise RuntimeError("unit 4")

        with pytest.raises(RuntimeError, match="unit 4"):
            side_by_side(fails, range(6), LANES)

    def test_one_item_or_one_lane_stays_where_it_is(self):
        def here(_):
            return threading.current_thread() is threading.main_thread()

        assert side_by_side(here, [0], LANES) == [True]
        assert side_by_side(here, range(3), 1) == [True] * 3

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_forked_child_has_lanes_of_its_own(self):
        side_by_side(abs, range(4), LANES)
        child = os.fork()
        if child == 0:
            os._exit(side_by_side(abs, range(4), LANES) != list(range(4)))
        for _ in range(200):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            time.sleep(0.1)
        else:
            os.kill(child, 9)
        assert (ended, status) == (child, 0)


class TestLoop:
    def test_units_side_by_side_give_what_they_give_alone(self):
        """Also where weights are perturbed: they are swapped in and out for all lanes at once."""
        equation = make_equation(METHODS["everything"])
        weights = copied(trainable(equation.model))
        shifted = [combined(lambda block, shift=shift: block + shift, weights) for shift in (0, 1)]
        rows = units_of(public_rows(count=9))
        objective = replace(equation.objective(tuple(shifted)), views=fixed_views)
        together = LoopSum(objective).norms(rows)
        alone = [float(LoopSum(objective).norms(unit)) for unit in batches(rows, 1)]
        assert together.tolist() == pytest.approx(alone, rel=1e-12)
        assert len(set(alone)) == len(alone)

    def test_a_unit_that_is_not_finite_disturbs_no_neighbour(self):
        objective = make_equation(Method()).objective((copied(trainable(make_model())),))
        rows = public_rows(count=9)
        found = []
        for spoiled in (rows.inputs[4] * math.nan, torch.zeros_like(rows.inputs[4])):
            inputs = rows.inputs.clone()
            inputs[4] = spoiled
            units = units_of(PublicRows(inputs, rows.targets))
            found.append(LoopSum(objective).norms(units).tolist())
        assert math.isnan(found[0][4])
        assert found[0][:4] + found[0][5:] == found[1][:4] + found[1][5:]

    def test_standardised_weights_are_taken_back(self):
        model = WideResNet(10, 1, CLASSES)
        layers = [layer for layer in model.modules() if isinstance(layer, StandardisedConv2d)]
        rows = random_rows((8, 8, 3), CLASSES, 6, pixels=True)
        step = make_equation(Method(), model=model)
        LoopSum(step.objective((copied(trainable(model)),))).norms(units_of(rows))
        assert layers
        assert not any("standardised_weight" in vars(layer) for layer in layers)


class TestPlanner:
    def test_gives_every_core_something_to_do(self):
        sizes = {engine.physical_batch for engine in loops(WideResNet(10, 1, CLASSES))}
        assert sizes == {1, 2 * LANES}

    def test_takes_a_model_that_may_remember_one_by_one(self):
        sizes = [
            engine.physical_batch
            for engine in loops(nn.Sequential(Remembers(), nn.Flatten(), nn.Linear(192, CLASSES)))
        ]
        assert sizes == [1]

    def test_holds_no_more_than_its_share_of_memory(self, monkeypatch):
        model = WideResNet(10, 1, CLASSES)
        monkeypatch.setattr("privet.learn.engine._memory", lambda: 1 << 20)
        assert [engine.physical_batch for engine in loops(model)] == [1]


def loops(model):
    """What is tried of the loop engine."""
    step = make_equation(Method(), model=model)
    aim = step.objective((copied(trainable(model)),))
    return _loops(aim, lambda count: units_of(random_rows((8, 8, 3), CLASSES, count, pixels=True)))


def test_public_gradients_in_parts_are_those_of_the_whole():
    """Parts of other sizes too: each row counts the same."""
    method = METHODS["dope"]
    side, alone = ENGINES["loop side by side"], ENGINES["loop"]
    equations = [make_equation(method, engine, public_batch=7) for engine in (side, alone)]
    found = [each.public_gradients(start(each).weights, 0)[0].blocks for each in equations]
    for name, block in found[0].items():
        torch.testing.assert_close(block, found[1][name], rtol=1e-12, atol=1e-14)
