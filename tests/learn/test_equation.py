"""Equation 1: every method against the equation written out, noise, origins, joined rows."""

import gc
import weakref
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from privet.augment import CropFlip
from privet.errors import ConfigError
from privet.hedge import Randomness, clipped_sum
from privet.learn.engine import Engine, gradient_sum
from privet.learn.equation import Method, State
from privet.learn.keys import Purpose
from privet.learn.objective import Examples
from privet.learn.origins import PublicOrigin
from privet.learn.perturbations import Ascent
from privet.learn.scales import PublicMoments
from privet.learn.updates import Mirror, Pace
from privet.learn.views import Augmented
from tests.hedge.summands import units

from .naive import (
    CLASSES,
    CLIP,
    DIVISOR,
    ENGINES,
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

WRITTEN_OUT = [name for name in METHODS if name != "adam"]


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
    def test_steps_are_the_equation_written_out(self, roomy, name, engine):
        """Two steps, with noise: the second one sees what the first one remembered."""
        equation = make_equation(listening(METHODS[name]), ENGINES[engine])
        size = ENGINES[engine].physical_batch
        steps = make_steps(roomy, columns(), physical_batch=size)
        naive, state = Naive(equation), start(equation)
        for step, pace in enumerate(paces(2)):
            state = equation.step(state, steps, pace)
            expected = naive.step(step, 2, take(equation.method.views))
            torch.testing.assert_close(flat(state.weights), expected, rtol=0, atol=1e-6)
            assert state.step == step + 1

    @pytest.mark.parametrize("name", ["dp-sgd", "dp-mix, dope, weight multiplicity"])
    def test_poisson_samples_take_part(self, roomy, name):
        equation = make_equation(listening(METHODS[name]))
        steps = make_steps(roomy, columns(20), rate=0.3, physical_batch=3)
        naive, [state] = Naive(equation), run(equation, steps)
        views = take(equation.method.views)
        count = len(Randomness(SEED).sample(0, 0, 20, 0.3))
        assert len(views) == count * equation.method.views.num_views
        assert count != round(0.3 * 20)
        torch.testing.assert_close(flat(state.weights), naive.step(0, 1, views), rtol=0, atol=1e-6)

    def test_the_clip_and_the_slots_matter_here(self, roomy):
        """Else the comparisons above would show little: every method goes its own way."""
        ends = [
            flat(run(make_equation(method), make_steps(roomy, columns()), 2)[-1].weights)
            for method in METHODS.values()
        ]
        gaps = torch.cdist(torch.stack(ends), torch.stack(ends)) + torch.eye(len(ends))
        assert float(gaps.min()) > 1e-4
        naive = Naive(make_equation(METHODS["dp-sgd"]))
        views = Examples(*(torch.from_numpy(each) for each in columns().values()))
        vectors = naive.vectors(views, [naive.w], 1.0, 0.0)
        assert float(vectors.norm(dim=1).max()) > CLIP


class TestOrigin:
    def test_trap_origin_readded_with_the_drawn_batch_size(self, roomy):
        """Known bug: DOPE as printed. An empty batch moves weights by exactly η (o + noise / b)."""
        equation = make_equation(METHODS["dope"])
        naive, before = Naive(equation), start(equation)
        [o] = naive.publics(0)
        steps = make_steps(roomy, columns(), rate=1e-9)
        after = equation.step(before, steps, Pace(RATE, 0, 1))
        expected = flat(before.weights) - RATE * (o + naive.noise(0) / DIVISOR)
        torch.testing.assert_close(flat(after.weights), expected, rtol=0, atol=1e-12)
        assert float(o.norm()) > 0.1

    def test_rows_that_sit_at_the_origin_add_nothing(self, roomy):
        """However many there are: the origin itself is added once."""
        equation = make_equation(METHODS["dope"], public=public_rows(1), public_batch=1)
        at_origin = {
            "images": equation.public.inputs.numpy().repeat(9, 0),
            "labels": equation.public.targets.numpy().repeat(9, 0),
        }
        none = {name: column[:0] for name, column in at_origin.items()}
        many, few = (
            flat(run(equation, make_steps(roomy, rows))[-1].weights) for rows in (at_origin, none)
        )
        torch.testing.assert_close(many, few, rtol=0, atol=1e-12)


class TestNoise:
    @pytest.mark.parametrize("name", ["dp-sgd", "everything"])
    def test_noise_is_added_once_whatever_the_physical_batch(self, roomy, name):
        method = replace(METHODS[name], views=FixedViews())
        ends = [
            flat(
                run(
                    make_equation(method, Engine(name="batched", physical_batch=size)),
                    make_steps(roomy, columns(), physical_batch=size),
                )[-1].weights
            )
            for size in (1, 2, 5, 6, 50)
        ]
        for end in ends[1:]:
            torch.testing.assert_close(end, ends[0], rtol=0, atol=1e-12)

    def test_its_scale_is_the_mechanism_s_over_the_divisor(self, roomy):
        """Right, and neither 2/3 nor 3/2 of it."""
        equation = make_equation(METHODS["dp-sgd"])
        none = {name: column[:0] for name, column in columns().items()}
        steps = make_steps(roomy, none)
        states = run(equation, steps, 40)
        weights = torch.stack([flat(state.weights) for state in states])
        noise = weights.diff(dim=0) / RATE * DIVISOR
        sigma = steps.mechanism.noise_scale
        assert 0.93 * sigma < float(noise.std()) < 1.07 * sigma


class TestExtended:
    def test_joined_rows_are_clipped_like_private_ones(self, roomy):
        """The divisor is the constant b; all join at the rate 1."""
        for name in ("dp-sgd", "dp-mix, dope, weight multiplicity"):
            method = listening(METHODS[name])
            equation = make_equation(method, joined=public_rows(5, seed=8))
            [state] = run(equation, make_steps(roomy, columns()))
            views = take(method.views)
            assert len(views) == (6 + 5) * method.views.num_views
            expected = Naive(equation).step(0, 1, views)
            torch.testing.assert_close(flat(state.weights), expected, rtol=0, atol=1e-6)

    def test_joined_rows_are_as_good_as_private_ones(self, roomy):
        """Moved from one side to the other, a row adds the same."""
        rows, both = public_rows(5, seed=8), columns()
        both = {
            "images": np.concatenate([both["images"], rows.inputs.numpy()]),
            "labels": np.concatenate([both["labels"], rows.targets.numpy()]),
        }
        joined = make_equation(METHODS["views"], joined=rows)
        [one] = run(joined, make_steps(roomy, columns()))
        [other] = run(make_equation(METHODS["views"]), make_steps(roomy, both))
        torch.testing.assert_close(flat(one.weights), flat(other.weights), rtol=0, atol=1e-12)

    def test_they_join_at_the_rate_of_private_rows(self, roomy):
        method = listening(METHODS["dp-sgd"])
        equation = make_equation(method, joined=public_rows(300, seed=8))
        none = {name: column[:0] for name, column in columns().items()}
        run(equation, make_steps(roomy, none, rate=0.3))
        draws = torch.rand(300, generator=equation.keys.generator(Purpose.JOINING, 0))
        assert len(take(method.views)) == int((draws < 0.3).sum())
        assert 60 < int((draws < 0.3).sum()) < 120

    def test_weights_keep_their_precision(self, roomy):
        rows = {name: np.float32(value) for name, value in columns().items()}
        rows["labels"] = columns()["labels"]
        equation = make_equation(METHODS["dp-sgd"], joined=public_rows(5))
        equation.model.float()
        single = replace(
            equation,
            joined=type(equation.joined)(equation.joined.inputs.float(), torch.arange(5) % 3),
        )
        for state in run(single, make_steps(roomy, rows), 2):
            assert {block.dtype for block in state.weights.values()} == {torch.float32}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_trap_one_example_that_is_not_finite_poisons_the_step(roomy, engine, bad):
    rows, rest = columns(), columns()
    rows["images"][2] = bad
    rest = {name: np.delete(column, 2, 0) for name, column in rest.items()}
    size = ENGINES[engine].physical_batch
    poisoned, clean = (
        run(
            make_equation(METHODS["dope with λ"], ENGINES[engine]),
            make_steps(roomy, each, physical_batch=size),
        )[-1]
        for each in (rows, rest)
    )
    assert flat(poisoned.weights).isfinite().all()
    if bad != 1e300:  # which is finite, and saturates
        torch.testing.assert_close(flat(poisoned.weights), flat(clean.weights))


class TestViewsAreDrawnOnce:
    """Whether a unit counts must not depend on whether another, that is not finite, is there."""

    METHOD = Method(views=Augmented(num_views=2, augment=CropFlip(padding=2)))

    def looked_at(self, engine="loop"):
        """An equation, its objective at the first weights and the views that it was given."""
        equation = make_equation(listening(self.METHOD), ENGINES[engine])
        objective = equation.objective((start(equation).weights,))
        return equation, objective, equation.method.views.given

    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("users", [None, [7, 7, 3, 4, 4, 5]], ids=["examples", "users"])
    def test_trap_units_beside_one_that_is_not_finite_keep_their_views(self, engine, users):
        rows = columns()
        rows["images"][2] = np.nan
        rows["images"][4, 0, 0, 0] = np.nan  # some views do not show it
        batch = units(rows, None if users is None else np.array(users))
        equation, objective, given = self.looked_at(engine)
        total = clipped_sum([batch], gradient_sum(objective, equation.engine), CLIP)
        [views] = given
        alone = torch.zeros_like(flat(total))
        for number in range(len(batch)):  # each by itself, of the views that it had
            own = batch.owner == number
            mask = own.repeat_interleave(2)
            of_own = Examples(views.inputs[mask], views.targets[mask])
            summand = gradient_sum(replace(objective, views=lambda _, v=of_own: v), ENGINES["loop"])
            unit = batch.select(torch.arange(len(batch)) == number)
            alone += flat(clipped_sum([unit], summand, CLIP))
        assert alone.abs().sum() > 0
        torch.testing.assert_close(flat(total), alone)

    def test_parts_of_parts_keep_their_views(self):
        _, objective, given = self.looked_at()
        batch = units(columns())
        views = objective.views(batch)
        part = batch.select(torch.tensor([True, False, True, True, False, True]))
        last = part.select(torch.tensor([False, True, False, True]))
        kept = torch.tensor([False, False, True, False, False, True]).repeat_interleave(2)
        assert torch.equal(objective.views(last).inputs, views.inputs[kept])
        assert torch.equal(objective.views(last).targets, views.targets[kept])
        assert len(given) == 1

    def test_parts_of_what_nobody_looked_at_are_drawn_by_themselves(self):
        """Diagnostics go through all rows in parts: views of all at once would fill the memory."""
        _, objective, given = self.looked_at()
        everyone = units(columns())
        first, second = (everyone.select(torch.arange(6) // 3 == half) for half in (0, 1))
        assert len(objective.views(first)) == len(objective.views(second)) == 6
        assert [len(each) for each in given] == [6, 6]

    def test_views_are_forgotten_with_their_batch(self):
        _, objective, given = self.looked_at()
        batch = units(columns())
        inputs = weakref.ref(objective.views(batch).inputs)
        given.clear()
        assert inputs() is not None
        del batch
        gc.collect()
        assert inputs() is None


def leaves(value):
    """Everything in a state, with where it is."""
    if isinstance(value, dict):
        return {f"{k}/{path}": leaf for k, v in value.items() for path, leaf in leaves(v).items()}
    return {"": value}


@pytest.mark.parametrize("name", METHODS)
def test_nothing_that_is_returned_tells_the_size_of_the_batch(roomy, name):
    """Two data sets of very different size leave states that differ in their numbers alone."""
    shapes = []
    for count in (0, 1, 37):
        equation = make_equation(METHODS[name])
        state = run(equation, make_steps(roomy, columns(count)), 2)[-1]
        found = leaves({each.name: getattr(state, each.name) for each in fields(State)})
        assert found.pop("step/") == 2
        assert all(isinstance(leaf, torch.Tensor) for leaf in found.values())
        shapes.append({path: (leaf.shape, leaf.dtype) for path, leaf in found.items()})
    assert shapes[0] == shapes[1] == shapes[2]
    assert {shape for shape, _ in shapes[0].values()} == {
        parameter.shape for parameter in equation.model.parameters()
    }


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


class TestUndeclaredLabels:
    """They are private: none may be named by an error, and each makes its unit count for zero."""

    BAD = ((2, CLASSES), (4, -1), (5, -100))

    def summand(self, name, engine):
        equation = make_equation(METHODS[name], ENGINES[engine])
        slots = equation.slots(start(equation))
        objective = equation.objective(slots.weights, 0, slots.scale, slots.origin)
        return gradient_sum(objective, equation.engine)

    def rows(self):
        rows = columns()
        for row, label in self.BAD:
            rows["labels"][row] = label
        return rows

    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("name", METHODS)
    def test_their_units_count_for_zero(self, name, engine):
        rows, bad = self.rows(), [row for row, _ in self.BAD]
        norms = self.summand(name, engine).norms(units(rows))
        assert norms.isnan().tolist() == [row in bad for row in range(6)]
        total = flat(clipped_sum([units(rows)], self.summand(name, engine), CLIP))
        assert total.isfinite().all()
        if METHODS[name].views is not MIXED:  # whose draws depend on how many rows there are
            kept = {key: np.delete(value, bad, 0) for key, value in rows.items()}
            rest = clipped_sum([units(kept)], self.summand(name, engine), CLIP)
            torch.testing.assert_close(total, flat(rest))

    @pytest.mark.parametrize("engine", ENGINES)
    def test_a_user_with_one_counts_for_zero(self, engine):
        users = np.array([7, 7, 7, 8, 8, 8])
        rows = columns()
        rows["labels"][1] = CLASSES
        total = flat(clipped_sum([units(rows, users)], self.summand("dp-sgd", engine), CLIP))
        kept = {key: value[3:] for key, value in rows.items()}
        rest = clipped_sum([units(kept, users[3:])], self.summand("dp-sgd", engine), CLIP)
        torch.testing.assert_close(total, flat(rest))
