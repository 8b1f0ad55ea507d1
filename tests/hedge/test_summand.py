"""The contract that sensitivity rests on, for every kind of summand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.errors import PrivacyError
from privet.hedge import Count, PerRow, long_norms
from privet.hedge.clipping import clipped_sum
from privet.release import ClassBlocks

from .summands import ALL, CLASSES, FEATURES, flat, reference_vectors, rows, units

USERS = np.array([4, 1, 4, 4, 7, 1, 9, 9, 2, 4, 7, 3])


def by_user(name, columns):
    vectors = reference_vectors(name, columns)
    return torch.stack([vectors[user == USERS].mean(0) for user in np.unique(USERS)])


@pytest.mark.parametrize("name", ALL)
class TestContract:
    def test_norms_are_those_of_the_written_out_vectors(self, name):
        columns = rows(12)
        expected = reference_vectors(name, columns).norm(dim=1)
        torch.testing.assert_close(ALL[name]().norms(units(columns)), expected)

    def test_weighted_sum_is_that_of_the_written_out_vectors(self, name):
        columns, summand = rows(12), ALL[name]()
        batch, weights = units(columns), torch.rand(12, dtype=torch.float64)
        summand.norms(batch)
        expected = weights @ reference_vectors(name, columns)
        torch.testing.assert_close(flat(summand.weighted_sum(batch, weights)), expected)

    def test_zeros_have_the_shapes_of_a_sum(self, name):
        summand, batch = ALL[name](), units(rows(3))
        summand.norms(batch)
        total = summand.weighted_sum(batch, torch.ones(3, dtype=torch.float64))
        assert {k: v.shape for k, v in summand.zeros().items()} == {
            k: v.shape for k, v in total.items()
        }
        assert not flat(summand.zeros()).any()

    @pytest.mark.parametrize("size", [1, 5, 12])
    def test_physical_batches_do_not_change_the_sum(self, name, size):
        columns = rows(12)
        batches = [
            units({key: value[i : i + size] for key, value in columns.items()})
            for i in range(0, 12, size)
        ]
        whole = flat(clipped_sum([units(columns)], ALL[name](), 0.7))
        torch.testing.assert_close(flat(clipped_sum(batches, ALL[name](), 0.7)), whole)


@pytest.mark.parametrize("name", ["per_row", "class_blocks"])
def test_a_user_is_averaged_and_clipped_once(name):
    columns = rows(12)
    vectors = by_user(name, columns)
    batch = units(columns, USERS)
    torch.testing.assert_close(ALL[name]().norms(batch), vectors.norm(dim=1))
    clipped = vectors * (0.5 / vectors.norm(dim=1, keepdim=True)).clamp(max=1)
    torch.testing.assert_close(flat(clipped_sum([batch], ALL[name](), 0.5)), clipped.sum(0))


def test_class_blocks_ignore_undeclared_labels():
    columns = rows(6)
    columns["labels"][2] = 99
    columns["labels"][4] = -1
    kept = {key: np.delete(value, [2, 4], 0) for key, value in columns.items()}
    ours = clipped_sum([units(columns)], ALL["class_blocks"](), 1.0)
    torch.testing.assert_close(
        flat(ours), flat(clipped_sum([units(kept)], ALL["class_blocks"](), 1))
    )


def test_class_blocks_never_form_a_vector_per_unit():
    """100,000 classes × 50 features × 2,000 units would be 80 GB."""
    blocks = ClassBlocks(
        features=lambda batch: batch["x"], size=50, num_classes=100_000, count_scale=0.1
    )
    rng = np.random.default_rng(0)
    columns = {
        "x": rng.standard_normal((2000, 50)).astype(np.float32),
        "labels": rng.integers(0, 100_000, 2000),
    }
    total = clipped_sum([units(columns)], blocks, 10.0)
    assert total["sums"].shape == (100_000, 50)
    assert float(total["counts"].sum()) == pytest.approx(0.1 * 2000, rel=1e-3)


def test_count_counts():
    total = clipped_sum([units(rows(12)), units(rows(3))], Count(), 1.0)
    assert float(total["count"]) == pytest.approx(15.0)


def make(kind, function, size, dtype=torch.float64):
    if kind == "per_row":
        return PerRow(function, size, dtype=dtype)
    return ClassBlocks(
        features=function, size=size, num_classes=CLASSES, count_scale=0.3, dtype=dtype
    )


@pytest.mark.parametrize("kind", ["per_row", "class_blocks"])
class TestFeatures:
    def test_the_vectors_summed_are_the_ones_measured(self, kind):
        """Features that change from call to call, or change the rows, are computed once."""
        generator = torch.Generator().manual_seed(0)

        def random_views(batch):
            scale = torch.rand(1, generator=generator, dtype=torch.float64) * 100
            return batch["x"] * scale

        def in_place(batch):
            return batch["x"].mul_(10)

        for function in (random_views, in_place):
            for seed in range(20):
                batch = units(rows(1, seed))
                total = flat(clipped_sum([batch], make(kind, function, FEATURES), 0.5))
                assert float(total.norm()) <= 0.5

    def test_half_precision_is_raised_before_norms(self, kind):
        columns = {"x": np.ones((400, 8), np.float16), "labels": np.zeros(400, np.int64)}
        summand = make(kind, lambda batch: batch["x"] * 100, 8, torch.float16)
        total = flat(clipped_sum([units(columns)], summand, 300.0))
        assert total.isfinite().all()
        fewer = {key: value[1:] for key, value in columns.items()}
        rest = flat(clipped_sum([units(fewer)], summand, 300.0))
        assert float((total - rest).norm()) <= 300.0

    @pytest.mark.parametrize("value", [0.7, 0.013])
    def test_norms_of_a_million_coordinates_are_accurate(self, kind, value):
        """Single precision loses up to a thousandth there, far more than clipping leaves."""
        columns = {"x": np.full((1, 2_700_001), value, np.float32), "labels": np.zeros(1, int)}
        summand = make(kind, lambda batch: batch["x"], 2_700_001)
        assert float(flat(clipped_sum([units(columns)], summand, 1.0)).norm()) <= 1.0

    def test_functions_with_trainable_parameters_are_fine(self, kind):
        layer = torch.nn.Linear(FEATURES, 4).double()
        total = clipped_sum([units(rows(9))], make(kind, lambda b: layer(b["x"]), 4), 1.0)
        assert not any(block.requires_grad for block in total.values())

    @pytest.mark.parametrize("size", [256, 20_000])
    def test_rounding_of_long_sums_stays_within_the_sensitivity(self, kind, size):
        """Removing the first row moves every batch, and so all rounding."""
        rng = np.random.default_rng(0)
        columns = {
            "x": rng.standard_normal((20_000, 64)).astype(np.float32) + 1,
            "labels": rng.integers(0, CLASSES, 20_000),
        }

        def total(data):
            count = len(data["x"])
            batches = (
                units({key: value[i : i + size] for key, value in data.items()})
                for i in range(0, count, size)
            )
            return flat(clipped_sum(batches, make(kind, lambda batch: batch["x"], 64), 0.5))

        fewer = {key: value[1:] for key, value in columns.items()}
        assert float((total(columns) - total(fewer)).norm()) <= 0.5


def test_norms_do_not_depend_on_how_vectors_lie_in_memory():
    """Along a stride single precision lost three times as much as clipping allows for."""
    vectors = (1 + 1e-3 * torch.rand(4096, 64, generator=torch.Generator().manual_seed(0))).T
    exact = torch.linalg.vector_norm(vectors.double(), dim=1)
    assert not vectors.is_contiguous()
    assert (long_norms(vectors) >= exact * (1 - 5e-6)).all()


def test_vectors_too_long_for_a_weight_in_single_precision_contribute_nothing():
    """A subnormal weight would be rounded, and could carry a vector past the clip norm."""

    class SinglePrecisionEngine(Count):
        def norms(self, batch):
            return batch["x"].double().norm(dim=1)

        def weighted_sum(self, batch, weights):
            return {"count": (weights.float() @ batch["x"]).sum().reshape(1)}

    columns = {"x": np.array([[3e37], [1.0]], np.float32)}
    total = clipped_sum([units(columns)], SinglePrecisionEngine(), 1e-4)
    assert 0 < float(total["count"]) <= 1e-4


def test_norms_below_single_precision_are_refused():
    class Half(Count):
        def norms(self, batch):
            return super().norms(batch).half()

    with pytest.raises(PrivacyError, match="single or double precision"):
        clipped_sum([units(rows(3))], Half(), 1.0)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 5), st.integers(0, 10**6), st.sampled_from(["per_row", "class_blocks"]))
def test_neighbouring_users_move_a_sum_by_no_more_than_the_sensitivity(user, seed, kind):
    """Add or remove a user with all their rows, of several classes."""
    rng = np.random.default_rng(seed)
    users = np.concatenate([np.arange(6), rng.integers(0, 6, 20)])
    columns = rows(26, seed, scale=3.0)
    kept = users != user
    summand = ALL[kind]
    everyone = flat(clipped_sum([units(columns, users)], summand(), 0.8))
    others = {key: value[kept] for key, value in columns.items()}
    rest = flat(clipped_sum([units(others, users[kept])], summand(), 0.8))
    gap = float((everyone - rest).norm())
    assert gap <= 0.8
    own = {key: value[~kept] for key, value in columns.items()}
    alone = flat(clipped_sum([units(own, users[~kept])], summand(), 0.8))
    assert gap == pytest.approx(float(alone.norm()), abs=1e-9)
