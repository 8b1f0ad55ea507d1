"""Equation 1: every method against the equation written out, and what privacy rests on."""

import ast
import hashlib
import inspect
import types
import typing
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.errors import ConfigError
from privet.hedge import Randomness
from privet.learn import origins, perturbations, scales, updates
from privet.learn.engine import Engine
from privet.learn.equation import Equation, Method, State
from privet.learn.gradients import PrivateGradient, PublicGradient
from privet.learn.keys import Purpose
from privet.learn.objective import Examples
from privet.learn.origins import PublicOrigin
from privet.learn.perturbations import Ascent
from privet.learn.scales import PublicMoments
from privet.learn.updates import Mirror, Pace
from privet.learn.views import Surroundings
from privet.privacy import Ledger

from .naive import (
    CLASSES,
    CLIP,
    DIVISOR,
    METHODS,
    MIXED,
    RATE,
    SEED,
    FixedViews,
    Naive,
    Remembered,
    columns,
    make_equation,
    make_steps,
    paces,
    public_rows,
    start,
)
from .vectors import flat

ENGINES = {
    "loop": Engine(name="loop"),
    "batched": Engine(name="batched", physical_batch=4),
    "ghost": Engine(name="ghost", physical_batch=6),
}
WRITTEN_OUT = [name for name in METHODS if name != "adam"]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    return Ledger.create(path, epsilon=1e15, delta=1e-5, relation="add-remove")


def listening(method):
    return replace(method, views=Remembered(method.views))


def take(views):
    """All views that were given since last time, in the order of rows."""
    given, views.given[:] = list(views.given), []
    if not given:
        return None
    return Examples(
        torch.cat([each.inputs for each in given]), torch.cat([each.targets for each in given])
    )


def run(equation, steps, count=1):
    """The states after every step."""
    state, found = start(equation), []
    for pace in paces(count):
        state = equation.step(state, steps, pace)
        found.append(state)
    return found


class TestWrittenOut:
    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("name", WRITTEN_OUT)
    def test_steps_are_the_equation_written_out(self, ledger, name, engine):
        """Two steps, with noise: the second one sees what the first one remembered."""
        equation = make_equation(listening(METHODS[name]), ENGINES[engine])
        size = ENGINES[engine].physical_batch
        steps = make_steps(ledger, columns(), physical_batch=size)
        naive, state = Naive(equation), start(equation)
        for step, pace in enumerate(paces(2)):
            state = equation.step(state, steps, pace)
            expected = naive.step(step, 2, take(equation.method.views))
            torch.testing.assert_close(flat(state.weights), expected, rtol=0, atol=1e-6)
            assert state.step == step + 1

    @pytest.mark.parametrize("name", ["dp-sgd", "dp-mix, dope, weight multiplicity"])
    def test_poisson_samples_take_part(self, ledger, name):
        equation = make_equation(listening(METHODS[name]))
        steps = make_steps(ledger, columns(20), rate=0.3, physical_batch=3)
        naive, [state] = Naive(equation), run(equation, steps)
        views = take(equation.method.views)
        count = len(Randomness(SEED).sample(0, 0, 20, 0.3))
        assert len(views) == count * equation.method.views.num_views
        assert count != round(0.3 * 20)
        torch.testing.assert_close(flat(state.weights), naive.step(0, 1, views), rtol=0, atol=1e-6)

    def test_the_clip_and_the_slots_matter_here(self, ledger):
        """Else the comparisons above would show little: every method goes its own way."""
        ends = [
            flat(run(make_equation(method), make_steps(ledger, columns()))[-1].weights)
            for method in METHODS.values()
        ]
        gaps = torch.cdist(torch.stack(ends), torch.stack(ends)) + torch.eye(len(ends))
        assert float(gaps.min()) > 1e-4
        naive = Naive(make_equation(METHODS["dp-sgd"]))
        views = Examples(*(torch.from_numpy(each) for each in columns().values()))
        vectors = naive.vectors(views, [naive.w], 1.0, 0.0)
        assert float(vectors.norm(dim=1).max()) > CLIP


class TestOrigin:
    def test_trap_origin_readded_with_the_drawn_batch_size(self, ledger):
        """TRAPS: DOPE as printed. An empty batch moves weights by exactly η (o + noise / b)."""
        equation = make_equation(METHODS["dope"])
        naive, before = Naive(equation), start(equation)
        [o] = naive.publics(0)
        steps = make_steps(ledger, columns(), rate=1e-9)
        after = equation.step(before, steps, Pace(RATE, 0, 1))
        expected = flat(before.weights) - RATE * (o + naive.noise(0) / DIVISOR)
        torch.testing.assert_close(flat(after.weights), expected, rtol=0, atol=1e-12)
        assert float(o.norm()) > 0.1

    def test_rows_that_sit_at_the_origin_add_nothing(self, ledger):
        """However many there are: the origin itself is added once."""
        equation = make_equation(METHODS["dope"], public=public_rows(1), public_batch=1)
        at_origin = {
            "images": equation.public.inputs.numpy().repeat(9, 0),
            "labels": equation.public.targets.numpy().repeat(9, 0),
        }
        none = {name: column[:0] for name, column in at_origin.items()}
        many, few = (
            flat(run(equation, make_steps(ledger, rows))[-1].weights) for rows in (at_origin, none)
        )
        torch.testing.assert_close(many, few, rtol=0, atol=1e-12)


class TestNoise:
    @pytest.mark.parametrize("name", ["dp-sgd", "everything"])
    def test_noise_is_added_once_whatever_the_physical_batch(self, ledger, name):
        method = replace(METHODS[name], views=FixedViews())
        ends = [
            flat(
                run(
                    make_equation(method, Engine(name="batched", physical_batch=size)),
                    make_steps(ledger, columns(), physical_batch=size),
                )[-1].weights
            )
            for size in (1, 2, 5, 6, 50)
        ]
        for end in ends[1:]:
            torch.testing.assert_close(end, ends[0], rtol=0, atol=1e-12)

    def test_its_scale_is_the_mechanism_s_over_the_divisor(self, ledger):
        """Right, and neither 2/3 nor 3/2 of it."""
        equation = make_equation(METHODS["dp-sgd"])
        none = {name: column[:0] for name, column in columns().items()}
        steps = make_steps(ledger, none, count=40)
        states = run(equation, steps, 40)
        weights = torch.stack([flat(state.weights) for state in states])
        noise = weights.diff(dim=0) / RATE * DIVISOR
        sigma = steps.mechanism.noise_scale
        assert 0.93 * sigma < float(noise.std()) < 1.07 * sigma


class TestExtended:
    def test_joined_rows_are_clipped_like_private_ones(self, ledger):
        """The divisor is the constant b; all join at the rate 1."""
        for name in ("dp-sgd", "dp-mix, dope, weight multiplicity"):
            method = listening(METHODS[name])
            equation = make_equation(method, joined=public_rows(5, seed=8))
            [state] = run(equation, make_steps(ledger, columns()))
            views = take(method.views)
            assert len(views) == (6 + 5) * method.views.num_views
            expected = Naive(equation).step(0, 1, views)
            torch.testing.assert_close(flat(state.weights), expected, rtol=0, atol=1e-6)

    def test_joined_rows_are_as_good_as_private_ones(self, ledger):
        """Moved from one side to the other, a row adds the same."""
        rows, both = public_rows(5, seed=8), columns()
        both = {
            "images": np.concatenate([both["images"], rows.inputs.numpy()]),
            "labels": np.concatenate([both["labels"], rows.targets.numpy()]),
        }
        joined = make_equation(METHODS["views"], joined=rows)
        [one] = run(joined, make_steps(ledger, columns()))
        [other] = run(make_equation(METHODS["views"]), make_steps(ledger, both))
        torch.testing.assert_close(flat(one.weights), flat(other.weights), rtol=0, atol=1e-12)

    def test_they_join_at_the_rate_of_private_rows(self, ledger):
        method = listening(METHODS["dp-sgd"])
        equation = make_equation(method, joined=public_rows(300, seed=8))
        none = {name: column[:0] for name, column in columns().items()}
        run(equation, make_steps(ledger, none, rate=0.3))
        draws = torch.rand(300, generator=equation.keys.generator(Purpose.JOINING, 0))
        assert len(take(method.views)) == int((draws < 0.3).sum())
        assert 60 < int((draws < 0.3).sum()) < 120

    def test_weights_keep_their_precision(self, ledger):
        rows = {name: np.float32(value) for name, value in columns().items()}
        rows["labels"] = columns()["labels"]
        equation = make_equation(METHODS["dp-sgd"], joined=public_rows(5))
        equation.model.float()
        single = replace(
            equation,
            joined=type(equation.joined)(equation.joined.inputs.float(), torch.arange(5) % 3),
        )
        for state in run(single, make_steps(ledger, rows), 2):
            assert {block.dtype for block in state.weights.values()} == {torch.float32}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_trap_one_example_that_is_not_finite_poisons_the_step(ledger, engine, bad):
    rows, rest = columns(), columns()
    rows["images"][2] = bad
    rest = {name: np.delete(column, 2, 0) for name, column in rest.items()}
    size = ENGINES[engine].physical_batch
    poisoned, clean = (
        run(
            make_equation(METHODS["dope with λ"], ENGINES[engine]),
            make_steps(ledger, each, physical_batch=size),
        )[-1]
        for each in (rows, rest)
    )
    assert flat(poisoned.weights).isfinite().all()
    if bad != 1e300:  # which is finite, and saturates
        torch.testing.assert_close(flat(poisoned.weights), flat(clean.weights))


def leaves(value):
    """Everything in a state, with where it is."""
    if isinstance(value, dict):
        return {f"{k}/{path}": leaf for k, v in value.items() for path, leaf in leaves(v).items()}
    return {"": value}


@pytest.mark.parametrize("name", METHODS)
def test_nothing_that_is_returned_tells_the_size_of_the_batch(ledger, name):
    """Two data sets of very different size leave states that differ in their numbers alone."""
    shapes = []
    for count in (0, 1, 37):
        equation = make_equation(METHODS[name])
        state = run(equation, make_steps(ledger, columns(count)), 2)[-1]
        found = leaves({each.name: getattr(state, each.name) for each in fields(State)})
        assert found.pop("step/") == 2
        assert all(isinstance(leaf, torch.Tensor) for leaf in found.values())
        shapes.append({path: (leaf.shape, leaf.dtype) for path, leaf in found.items()})
    assert shapes[0] == shapes[1] == shapes[2]
    assert {shape for shape, _ in shapes[0].values()} == {
        parameter.shape for parameter in equation.model.parameters()
    }


class Overheard:
    """Steps that keep what left the hedge."""

    def __init__(self, steps):
        self.steps, self.mechanism, self.sums = steps, steps.mechanism, []

    def step(self, summand):
        self.sums.append(self.steps.step(summand))
        return self.sums[-1]


@dataclass(frozen=True)
class Coupled:
    """Views whose draws come with the row, so that they stay when another row leaves.

    The views of a run are drawn independently for every row, so neighbouring data sets may be
    coupled like this.
    """

    views: object
    needs_public: bool = False

    @property
    def num_views(self):
        return self.views.num_views

    def __call__(self, rows, around):
        found = []
        for x, y in zip(rows.inputs, rows.targets, strict=True):
            seed = int.from_bytes(hashlib.sha256(x.numpy().tobytes()).digest()[:4])
            own = Surroundings(CLASSES, torch.Generator().manual_seed(seed), around.public)
            found.append(self.views(Examples(x[None], y[None]), own))
        return Examples(
            torch.cat([each.inputs for each in found]), torch.cat([each.targets for each in found])
        )

    def single(self, rows, generator):
        return self.views.single(rows, generator)


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(sorted(METHODS)),
    engine=st.sampled_from(sorted(ENGINES)),
    leaver=st.integers(0, 5),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
    joined=st.booleans(),
)
def test_a_row_moves_the_sum_by_no_more_than_the_clip_norm(
    ledger, name, engine, leaver, seed, scale, joined
):
    """Add or remove one row: the noise is the same, so the sums differ by what the row added."""
    method = replace(METHODS[name], views=Coupled(METHODS[name].views))
    rows = columns(6, seed, scale)
    fewer = {key: np.delete(column, leaver, 0) for key, column in rows.items()}
    own = {key: column[leaver : leaver + 1] for key, column in rows.items()}
    size = ENGINES[engine].physical_batch
    sums = []
    for each in (rows, fewer, own, {key: column[:0] for key, column in rows.items()}):
        extended = public_rows(3) if joined else None
        equation = make_equation(method, ENGINES[engine], joined=extended)
        steps = Overheard(make_steps(ledger, each, count=1, physical_batch=size))
        equation.step(start(equation), steps, Pace(RATE, 0, 1))
        sums.append(flat(steps.sums[0].blocks))
    gap = float((sums[0] - sums[1]).norm())
    assert gap <= CLIP * (1 + 1e-12)
    # And by just what it adds when it is alone.
    assert gap == pytest.approx(float((sums[2] - sums[3]).norm()), abs=1e-9)


def seen_by_public_slots(monkeypatch, ledger, name, rows):
    """Weights, scale and origin of every step at the same weights; and what is remembered."""
    asked, objective = [], Equation.objective

    def spy(self, weights, step=0, scale=None, origin=None):
        asked.append(([flat(w) for w in weights], scale, origin))
        return objective(self, weights, step, scale, origin)

    with monkeypatch.context() as patch:
        patch.setattr(Equation, "objective", spy)
        equation = make_equation(METHODS[name])
        steps = make_steps(ledger, rows)
        state = equation.step(start(equation), steps, Pace(RATE, 0, 2))
        equation.step(replace(start(equation), step=1, scale=state.scale), steps, Pace(RATE, 1, 2))
    gradients = [flat(g.blocks) for g in equation.public_gradients(start(equation).weights, 0)]
    return asked, state, gradients


PUBLIC_ONLY = [name for name in METHODS if name != "last private"]


@pytest.mark.parametrize("name", PUBLIC_ONLY)
def test_public_slots_see_public_data_alone(monkeypatch, ledger, name):
    """Other private rows, all of them, at the same weights: nothing but the sum may change."""
    one = seen_by_public_slots(monkeypatch, ledger, name, columns())
    other = seen_by_public_slots(monkeypatch, ledger, name, columns(11, seed=77, scale=9.0))
    torch.testing.assert_close(one[0], other[0], rtol=0, atol=0)
    torch.testing.assert_close(one[2], other[2], rtol=0, atol=0)
    torch.testing.assert_close(one[1].scale, other[1].scale, rtol=0, atol=0)
    assert not torch.equal(flat(one[1].weights), flat(other[1].weights))


@pytest.mark.parametrize("name", ["dope", "adadps", "weight multiplicity", "everything"])
def test_public_slots_do_see_public_data(monkeypatch, ledger, name):
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


class TestSettings:
    def test_a_method_that_needs_public_data_is_refused_without(self):
        for slot in (
            {"origin": PublicOrigin()},
            {"scale": PublicMoments()},
            {"update": Mirror()},
            {"views": MIXED},
            {"perturb": Ascent(count=1)},
        ):
            method = Method(**slot)
            assert method.needs_public
            assert method.needs_public_gradient == ("views" not in slot)
            with pytest.raises(ConfigError, match="needs public data"):
                make_equation(method, public=None)
        assert not Method().needs_public
        assert make_equation(Method(), public=None)

    def test_a_method_without_public_slots_takes_no_public_gradient(self):
        for name in ("dp-sgd", "dp-mix", "last private", "random"):
            equation = make_equation(METHODS[name])
            assert equation.public_gradients(start(equation).weights, 0) == ()

    def test_each_ascent_has_a_public_batch_of_its_own(self):
        equation = make_equation(METHODS["adaptive"])
        found = equation.public_gradients(start(equation).weights, 0)
        assert len(torch.stack([flat(each.blocks) for each in found]).unique(dim=0)) == 4

    @pytest.mark.parametrize("divisor", [0.0, -1.0, np.nan, np.inf])
    def test_a_divisor_that_is_not_above_zero_is_refused(self, divisor):
        with pytest.raises(ConfigError, match="expected batch size"):
            make_equation(Method(), divisor=divisor)

    def test_an_empty_public_batch_is_refused(self):
        with pytest.raises(ConfigError, match="public batch"):
            make_equation(METHODS["dope"], public_batch=0)
