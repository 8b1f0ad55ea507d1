"""Neighbouring data sets never differ by more than the stated sensitivity."""

import math
from operator import attrgetter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from privet.errors import PrivacyError
from privet.hedge import GaussianSum, PerRow
from privet.hedge.clipping import clip_weights, clipped_sum
from privet.privacy import Relation
from privet.release import Embedding, Part, each_class

from .summands import ALL, CLASSES, FEATURES, flat, rows, units

ROWS = 6
CLIP = 1.3

values = st.one_of(
    st.floats(-3, 3),
    st.floats(-1e30, 1e30),
    st.sampled_from([0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324]),
)
data_sets = st.fixed_dictionaries(
    {
        "x": npst.arrays(np.float64, (ROWS, FEATURES), elements=values),
        "labels": npst.arrays(np.int64, ROWS, elements=st.integers(0, CLASSES - 1)),
    }
)


def distance(name, one, other):
    sums = [flat(clipped_sum([units(data)], ALL[name](), CLIP)) for data in (one, other)]
    assert all(total.isfinite().all() for total in sums)
    return float((sums[0] - sums[1]).norm())


def with_row(data, index, source):
    """A copy in which one row is another data set's."""
    data = {key: value.copy() for key, value in data.items()}
    for key in data:
        data[key][index] = source[key][index]
    return data


def without(data, index):
    return {key: np.delete(value, index, 0) for key, value in data.items()}


@pytest.mark.parametrize("name", ALL)
class TestSensitivity:
    add_remove = GaussianSum(clip_norm=CLIP, noise_multiplier=1).sensitivity(Relation.ADD_REMOVE)
    replace_one = GaussianSum(clip_norm=CLIP, noise_multiplier=1).sensitivity(Relation.REPLACE_ONE)

    @settings(deadline=None, max_examples=60)
    @given(data=data_sets, index=st.integers(0, ROWS - 1))
    def test_add_or_remove(self, name, data, index):
        assert distance(name, data, without(data, index)) <= self.add_remove

    @settings(deadline=None, max_examples=60)
    @given(data=data_sets, other=data_sets, index=st.integers(0, ROWS - 1))
    def test_replace(self, name, data, other, index):
        assert distance(name, data, with_row(data, index, other)) <= self.replace_one

    @settings(deadline=None, max_examples=30)
    @given(data=data_sets, index=st.integers(0, ROWS - 1), label=st.integers(0, CLASSES - 1))
    def test_trap_a_changed_label_is_a_replacement(self, name, data, index, label):
        """Known bug: a changed label moves two class means."""
        changed = {key: value.copy() for key, value in data.items()}
        changed["labels"][index] = label
        assert distance(name, data, changed) <= self.replace_one

    @settings(deadline=None, max_examples=30)
    @given(data=data_sets, index=st.integers(0, ROWS - 1))
    def test_a_duplicated_row_is_an_addition(self, name, data, index):
        twice = {key: np.concatenate([v, v[index : index + 1]]) for key, v in data.items()}
        assert distance(name, data, twice) <= self.add_remove


def test_opposite_rows_reach_the_replace_one_sensitivity():
    """The bound is tight, so a smaller noise would be wrong."""
    plus, minus = np.zeros((1, FEATURES)), np.zeros((1, FEATURES))
    plus[0, 0], minus[0, 0] = 50.0, -50.0
    label = np.zeros(1, np.int64)
    gap = distance("per_row", {"x": plus, "labels": label}, {"x": minus, "labels": label})
    assert 2 * CLIP * (1 - 1e-9) <= gap <= 2 * CLIP


@settings(deadline=None, max_examples=50)
@given(npst.arrays(np.float32, (64,), elements=st.floats(-1, 1, width=32)), st.floats(0.5, 2))
def test_rows_at_the_clip_boundary_in_single_precision(direction, factor):
    vector = direction / max(np.linalg.norm(direction.astype(np.float64)), 1e-3) * CLIP * factor
    summand = PerRow(lambda batch: batch["x"], 64)
    batch = units({"x": vector[None].astype(np.float32)})
    assert float(clipped_sum([batch], summand, CLIP)["sum"].norm()) <= CLIP


def test_short_vectors_are_left_alone_and_long_ones_scaled():
    norms = torch.tensor([0.0, 0.5, 1.0, 4.0, math.inf], dtype=torch.float64)
    expected = torch.tensor([1, 1, 1, 0.25, 0], dtype=torch.float64)
    torch.testing.assert_close(clip_weights(norms, 1.0), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("poison", [math.nan, math.inf, 1e200])
def test_trap_one_bad_row_contributes_zero(name, poison):
    """Known bug: one NaN example poisons the model."""
    data = rows(ROWS)
    poisoned = {key: value.copy() for key, value in data.items()}
    poisoned["x"][3, 1] = poison
    total = flat(clipped_sum([units(poisoned)], ALL[name](), CLIP))
    assert total.isfinite().all()
    rest = flat(clipped_sum([units(without(data, 3))], ALL[name](), CLIP))
    if math.isfinite(poison) and name != "ghost":
        assert float((total - rest).norm()) <= CLIP
    else:
        torch.testing.assert_close(total, rest)


def test_a_vector_that_overflows_only_in_the_sum_contributes_zero():
    class Overflowing:
        """Says that every norm is 1, and sums what is not finite."""

        def zeros(self):
            return {"sum": torch.zeros(FEATURES, dtype=torch.float64)}

        def norms(self, batch):
            return torch.ones(len(batch), dtype=torch.float64)

        def weighted_sum(self, batch, weights):
            return {"sum": weights @ batch["x"]}

    data = rows(4)
    data["x"] = data["x"] / np.linalg.norm(data["x"], axis=1, keepdims=True)
    data["x"][1] = math.nan
    total = clipped_sum([units(data)], Overflowing(), 1.0)["sum"]
    torch.testing.assert_close(total, torch.from_numpy(np.delete(data["x"], 1, 0).sum(0)))


@pytest.mark.parametrize("others", [0.0, math.nan])  # a batch as one, and unit by unit
def test_a_sum_of_longer_vectors_than_were_measured_is_refused(others):
    class Lying(PerRow):
        def norms(self, batch):
            return super().norms(batch) / 3

    data = rows(3)
    data["x"][:] = np.array([[2.0], [2.0], [others]])
    with pytest.raises(PrivacyError, match="longer than the norms of its vectors allow"):
        clipped_sum([units(data)], Lying(lambda batch: batch["x"], FEATURES), 1.0)


def test_one_norm_for_all_units_is_refused():
    collapsed = PerRow(lambda batch: batch["x"].mean(0, keepdim=True), FEATURES)
    with pytest.raises(PrivacyError, match=r"norms of shape \(1,\), not one per unit"):
        clipped_sum([units(rows(4))], collapsed, 1.0)


def test_a_clip_norm_near_the_end_of_single_precision_keeps_what_is_there():
    total = clipped_sum([units(rows(4))], projected(), 1e25)["sum"]
    assert total.abs().sum() > 0


def moments():
    """Second moments over positions, by a product in single precision."""
    part = Part(name="p", source="z", size=3, groups=each_class(CLASSES), second_weight=1.0)
    return Embedding(
        features=lambda images: {"z": images.float()},
        parts=(part,),
        num_classes=CLASSES,
        count_weight=0.1,
    )


def projected():
    matrix = torch.eye(FEATURES) + 0.1
    return PerRow(lambda batch: batch["x"].float() @ matrix, FEATURES)


@pytest.mark.parametrize("summand", [moments, projected])
def test_trap_autocast_does_not_shorten_norms(summand):
    images = np.random.default_rng(0).random((ROWS, 9, 3))
    batch, clip = units({**rows(ROWS), "images": images}), 0.01
    expected = flat(clipped_sum([batch], summand(), clip))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = flat(clipped_sum([batch], summand(), clip))
        assert (torch.eye(2) @ torch.eye(2)).dtype == torch.bfloat16  # the caller's own goes on
    assert torch.equal(found, expected)


def test_shorter_floats_are_off_while_norms_are_taken_and_on_again_after():
    seen = []

    def vectors(batch):
        products, convolutions = torch.backends.cuda.matmul, torch.backends.mkldnn.conv
        seen.append((products.fp32_precision, convolutions.fp32_precision))
        return batch["x"]

    torch.set_float32_matmul_precision("medium")
    torch.backends.mkldnn.conv.fp32_precision = "bf16"
    try:
        clipped_sum([units(rows(3))], PerRow(vectors, FEATURES), 1.0)
        assert seen == [("ieee", "ieee")]
        assert torch.backends.mkldnn.conv.fp32_precision == "bf16"
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.mkldnn.conv.fp32_precision = "none"


@pytest.mark.parametrize("owner", ["cuda.matmul", "mkldnn.matmul", "mkldnn.rnn", "cudnn.conv"])
def test_trap_switches_of_single_operations_are_set_and_put_back(owner):
    """PyTorch's older words for the same raise as soon as one of them is used."""
    switch, seen = attrgetter(owner)(torch.backends), []

    def vectors(batch):
        seen.append(switch.fp32_precision)
        return batch["x"]

    before = switch.fp32_precision
    switch.fp32_precision = "tf32"
    try:
        clipped_sum([units(rows(3))], PerRow(vectors, FEATURES), 1.0)
        assert seen == ["ieee"]
        assert switch.fp32_precision == "tf32"
    finally:
        switch.fp32_precision = before


def test_older_switches_can_be_read_while_norms_are_taken():
    seen = []

    def vectors(batch):
        seen.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return batch["x"]

    clipped_sum([units(rows(3))], PerRow(vectors, FEATURES), 1.0)
    assert seen == [("highest", False)]
    assert torch.backends.cudnn.allow_tf32


def test_shapes_that_depend_on_data_are_refused():
    from privet.errors import PrivacyError

    summand = PerRow(lambda batch: batch["x"], FEATURES + 1)
    with pytest.raises(PrivacyError, match="other shapes"):
        clipped_sum([units(rows(3))], summand, 1.0)
