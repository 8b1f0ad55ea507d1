"""How sharp a run's loss is: against whole Hessians, and marked as not private."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call

from privet.errors import PrivacyError
from privet.hedge import Hedge, NotPrivate, PoissonSum
from privet.learn.equation import State
from privet.learn.gradients import copied, trainable
from privet.privacy import Plan, certify
from privet.runs import train_diagnostics
from privet.runs.train_diagnostics import curvatures
from tests.learn.naive import CLIP, METHODS, columns, make_equation, make_model, public_rows
from tests.learn.vectors import flat

MECHANISM = PoissonSum(clip_norm=CLIP, noise_multiplier=2.0, sampling_rate=1.0)
COUNT = 150  # rows of more than one batch


@pytest.fixture
def around(ledger):
    """A hedge around so many rows."""
    return lambda count: Hedge(columns(count), ledger.reserve(plan=Plan.of(MECHANISM.event)))


@pytest.fixture
def equation():
    """With views, which must not matter."""
    return make_equation(METHODS["views"])


@pytest.fixture
def state():
    """Other weights than the model's own: it is these that are asked about."""
    return State(weights=copied(trainable(make_model(seed=4))), step=3)


def hessian(weights, images, labels):
    """Of the mean loss, whole."""
    model, sizes = make_model(), [each.numel() for each in weights.values()]

    def loss(vector):
        parts = zip(weights.items(), torch.split(vector, sizes), strict=True)
        named = {name: part.reshape(each.shape) for (name, each), part in parts}
        return F.cross_entropy(functional_call(model, named, torch.as_tensor(images)), labels)

    return torch.autograd.functional.hessian(loss, flat(weights))


def check(found, weights, images, labels):
    expected = hessian(weights, images, torch.as_tensor(labels))
    values = torch.linalg.eigvalsh(expected).flip(0)[:5]
    assert found.rows == len(images)
    assert found.eigenvalues == pytest.approx(values.tolist(), rel=1e-2)
    assert found.ratio == pytest.approx(float(values[0] / values[4]), rel=2e-2)
    assert abs(found.trace - float(expected.trace())) < 4 * found.trace_error


def test_they_are_those_of_the_whole_hessian(around, equation, state):
    public, synthetic = public_rows(70), public_rows(20, seed=9)
    sets = {"public": public, "synthetic": synthetic}
    found = curvatures(around(COUNT), equation, state, public=sets).value.sets
    assert list(found) == ["private", "public", "synthetic"]
    check(found["private"], state.weights, *columns(COUNT).values())
    for name, rows in sets.items():
        check(found[name], state.weights, rows.inputs, rows.targets)


def test_a_few_rows_from_all_over_are_enough(around, equation, state, monkeypatch):
    monkeypatch.setattr(train_diagnostics, "_CURVED_ROWS", 15)
    found = curvatures(around(COUNT), equation, state).value.sets["private"]
    check(found, state.weights, *(each[::10] for each in columns(COUNT).values()))


def test_frozen_layers_are_left_out(around, equation, state):
    equation.model[1].requires_grad_(False)
    head = {name: each for name, each in state.weights.items() if name.startswith("3.")}
    found = curvatures(around(20), equation, State(weights=head)).value.sets["private"]
    whole = {**copied(dict(equation.model.named_parameters())), **head}
    expected = hessian(whole, *map(torch.as_tensor, columns(20).values()))
    size = flat(head).numel()
    values = torch.linalg.eigvalsh(expected[-size:, -size:]).flip(0)[:5]
    assert found.eigenvalues == pytest.approx(values.tolist(), rel=1e-2)


def test_it_is_marked_and_listed(around, equation, state, capsys):
    hedge = around(20)
    found = curvatures(hedge, equation, state)
    assert isinstance(found, NotPrivate)
    assert str(found).startswith("NOT PRIVATE (curvature): ")
    assert certify(hedge.reservation).outside == ("curvature",)
    assert capsys.readouterr() == ("", "")
    hedge.reservation.close()
    with pytest.raises(PrivacyError):
        curvatures(hedge, equation, state)


def test_the_model_is_left_alone(around, equation, state):
    before = flat(trainable(equation.model))
    curvatures(around(20), equation, state)
    assert torch.equal(flat(trainable(equation.model)), before)
    assert all(parameter.grad is None for parameter in equation.model.parameters())


def test_neither_no_rows_nor_lost_weights_end_a_run(around, equation, state):
    weights = {name: each * math.nan for name, each in state.weights.items()}
    for hedge, at in ((around(0), state), (around(20), State(weights=weights))):
        body = curvatures(hedge, equation, at).value.to_json()["sets"]["private"]
        assert json.loads(json.dumps(body, allow_nan=False)) == body
        assert (body["eigenvalues"], body["trace"], body["ratio"]) == ([None] * 5, None, None)
