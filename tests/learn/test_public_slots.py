"""Perturbations, scales, origins and updates see public data and private gradients alone."""

import ast
import inspect
import types
import typing
from dataclasses import replace

import pytest
import torch

from privet.learn import origins, perturbations, scales, updates
from privet.learn.equation import Equation
from privet.learn.gradients import PrivateGradient, PublicGradient
from privet.learn.updates import Pace

from .naive import METHODS, RATE, columns, make_equation, make_steps, public_rows, start
from .vectors import flat


def seen_by_public_slots(monkeypatch, roomy, name, rows):
    """Weights, scale and origin of every step at the same weights; and what is remembered."""
    asked, objective = [], Equation.objective

    def spy(self, weights, step=0, scale=None, origin=None):
        asked.append(([flat(w) for w in weights], scale, origin))
        return objective(self, weights, step, scale, origin)

    with monkeypatch.context() as patch:
        patch.setattr(Equation, "objective", spy)
        equation = make_equation(METHODS[name])
        steps = make_steps(roomy, rows)
        state = equation.step(start(equation), steps, Pace(RATE, 0, 2))
        equation.step(replace(start(equation), step=1, scale=state.scale), steps, Pace(RATE, 1, 2))
    gradients = [flat(g.blocks) for g in equation.public_gradients(start(equation).weights, 0)]
    return asked, state, gradients


PUBLIC_ONLY = [name for name in METHODS if name != "last private"]


@pytest.mark.parametrize("name", PUBLIC_ONLY)
def test_public_slots_see_public_data_alone(monkeypatch, roomy, name):
    """Other private rows, all of them, at the same weights: nothing but the sum may change."""
    one = seen_by_public_slots(monkeypatch, roomy, name, columns())
    other = seen_by_public_slots(monkeypatch, roomy, name, columns(11, seed=77, scale=9.0))
    torch.testing.assert_close(one[0], other[0], rtol=0, atol=0)
    torch.testing.assert_close(one[2], other[2], rtol=0, atol=0)
    torch.testing.assert_close(one[1].scale, other[1].scale, rtol=0, atol=0)
    assert not torch.equal(flat(one[1].weights), flat(other[1].weights))


@pytest.mark.parametrize("name", ["dope", "adadps", "weight multiplicity", "everything"])
def test_public_slots_do_see_public_data(name):
    """The test above can fail: other public rows change what the slots are asked for."""
    equation = make_equation(METHODS[name])
    weights = start(equation).weights
    other = replace(equation, public=public_rows(7, seed=55))
    for one, another in zip(
        equation.public_gradients(weights, 0), other.public_gradients(weights, 0), strict=True
    ):
        assert not torch.equal(flat(one.blocks), flat(another.blocks))


SLOTS = (perturbations, scales, origins, updates)
HARMLESS = {
    *(dict, str, tuple, bool, int, float, type(None), Ellipsis),
    *(torch.Tensor, torch.Generator, PublicGradient, PrivateGradient, Pace),
    *(typing.get_origin(typing.Sequence[int]), updates.SGD, updates.Adam),
}


def parts(hint):
    """All types that an annotation is made of."""
    if typing.get_origin(hint) is typing.Literal:
        return set()
    arguments = typing.get_args(hint)
    if not arguments:
        return {hint}
    kind = typing.get_origin(hint)
    own = set() if kind in (typing.Union, types.UnionType) else {kind}
    return own.union(*(parts(each) for each in arguments))


def slot_classes():
    for module in SLOTS:
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and kind.__module__ == module.__name__:
                yield pytest.param(kind, id=name)


def slot_methods(kind):
    for _, member in inspect.getmembers(kind):
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function) and function.__module__ == kind.__module__:
            yield function


@pytest.mark.parametrize("kind", list(slot_classes()))
def test_slots_are_given_nothing_that_holds_a_private_row(kind):
    hints = [typing.get_type_hints(kind)] + [typing.get_type_hints(f) for f in slot_methods(kind)]
    found = set().union(*(parts(hint) for each in hints for hint in each.values()))
    assert found <= HARMLESS
    assert hints


def test_the_check_of_annotations_can_fail():
    from privet.hedge import Hedge, Units
    from privet.learn.gradients import PerUnitGradients

    for kind in (Units, Hedge, PerUnitGradients):
        for hint in (kind, kind | None, tuple[kind, ...], dict[str, kind]):
            assert not parts(hint) <= HARMLESS


@pytest.mark.parametrize("module", SLOTS, ids=lambda module: module.__name__)
def test_slots_cannot_even_name_the_hedge(module):
    imported = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert imported
    assert not any(name.startswith("privet.hedge") for name in imported)
