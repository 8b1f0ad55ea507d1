import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privet.errors import ConfigError, DataError
from privet.hedge.units import Rows, Units

CPU = torch.device("cpu")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.data())
def test_batches_hold_exactly_the_rows_of_their_users(users, data):
    rows = Rows({"row": np.arange(len(users))}, np.array(users))
    names = sorted(set(users))
    assert rows.num_units == len(names)
    chosen = data.draw(st.lists(st.integers(0, len(names) - 1), unique=True).map(sorted))
    batch = rows.batch(np.array(chosen, np.int64), CPU)
    assert len(batch) == len(chosen)
    for position, unit in enumerate(chosen):
        start, stop = batch.offsets[position], batch.offsets[position + 1]
        expected = [row for row, user in enumerate(users) if user == names[unit]]
        assert batch["row"][start:stop].tolist() == expected
        assert (batch.owner[start:stop] == position).all()


def test_a_contiguous_batch_of_plain_rows_is_a_view():
    array = np.arange(10.0)
    batch = Rows({"x": array}).batch(slice(2, 5), CPU)
    array[3] = -1
    assert batch["x"].tolist() == [2, -1, 4]
    assert batch.single


def test_mapped_columns_follow_their_units():
    users = np.array([5, 1, 5, 1, 1])
    rows = Rows({"x": np.arange(5)}, users)
    everyone = rows.batch(slice(0, 2), CPU)
    mapped = rows.mapped(lambda units: {"y": units["x"] * 10}, [everyone])
    assert mapped.batch(np.array([1]), CPU)["y"].tolist() == [0, 20]
    assert mapped.batch(slice(0, 1), CPU)["y"].tolist() == [10, 30, 40]


def test_selecting_units_keeps_whole_units():
    batch = Rows({"x": np.arange(5)}, np.array([0, 0, 1, 2, 2])).batch(slice(0, 3), CPU)
    kept = batch.select(torch.tensor([True, False, True]))
    assert kept["x"].tolist() == [0, 1, 3, 4]
    assert kept.offsets.tolist() == [0, 2, 4]


def test_selected_units_remember_which_rows_of_what_batch_they_are():
    batch = Rows({"x": np.arange(5)}, np.array([0, 0, 1, 2, 2])).batch(slice(0, 3), CPU)
    assert batch.parent is None
    kept = batch.select(torch.tensor([True, False, True]))
    assert kept.parent.units is batch
    assert kept.parent.rows.tolist() == [True, True, False, True, True]


def test_read_only_memory_is_copied_without_a_warning(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0))
    rows = Rows({"x": np.load(tmp_path / "x.npy", mmap_mode="r")})
    assert rows.batch(slice(1, 3), CPU)["x"].tolist() == [1, 2]


def test_unequal_columns_and_wrong_user_ids_are_refused():
    with pytest.raises(DataError, match="equally long"):
        Rows({"x": np.zeros(3), "y": np.zeros(4)})
    with pytest.raises(DataError, match="one user id"):
        Rows({"x": np.zeros(3)}, np.zeros(4))
    with pytest.raises(DataError, match="at least one column"):
        Rows({})


@pytest.mark.parametrize(
    "users",
    [[1.0, np.nan, np.nan], ["a", None, None], ["a", np.nan, np.nan], [0.5, 1, 2], ["a", 1, 2]],
)
def test_missing_user_ids_would_merge_strangers_and_are_refused(users):
    for ids in (users, np.array(users, object)):
        with pytest.raises(DataError, match="all whole numbers or all texts"):
            Rows({"x": np.zeros(3)}, ids)


@pytest.mark.parametrize("users", [["b", "a", "b"], np.array(["b", "a", "b"], object), [7, 2, 7]])
def test_user_ids_may_be_numbers_or_texts(users):
    rows = Rows({"x": np.arange(3)}, users)
    assert rows.batch(slice(0, 2), CPU)["x"].tolist() == [1, 0, 2]


@pytest.mark.parametrize("users", [np.array(["a", 1, "b"], object), np.array([0.5, 1, 2])])
def test_ids_that_may_be_read_in_two_ways_are_refused(users):
    with pytest.raises(DataError, match="whole numbers"):
        Rows({"x": np.zeros(3)}, users)


def test_masked_user_ids_are_missing_ones():
    users = np.ma.array([1, 1, 2], mask=[False, True, True])
    with pytest.raises(DataError, match="all whole numbers or all texts"):
        Rows({"x": np.zeros(3)}, users)


def test_units_of_several_rows_are_said_to_be_users():
    with pytest.raises(ConfigError, match="is a user"):
        Units({"x": torch.zeros(3)}, torch.tensor([0, 2, 3]))


def test_a_batch_of_users_is_known_as_one_whatever_their_numbers_of_rows():
    rows = Rows({"x": np.arange(4)}, [0, 1, 2, 2])
    mapped = rows.mapped(lambda units: {"y": units["x"]}, [rows.batch(slice(0, 3), CPU)])
    for each in (rows, mapped):
        one = each.batch(slice(0, 1), CPU)
        assert one.single
        assert one.grouped
        assert one.select(torch.tensor([True])).grouped
    assert not Rows({"x": np.arange(4)}).batch(slice(0, 1), CPU).grouped


def test_an_arrangement_tells_the_same_rows_in_another_order_apart():
    rows = np.random.default_rng(0).random((200, 3))
    assert Rows({"x": rows}).arrangement == Rows({"x": rows.copy()}).arrangement
    assert Rows({"x": rows}).arrangement != Rows({"x": rows[::-1]}).arrangement
    swapped = rows.copy()
    swapped[[5, 7]] = rows[[7, 5]]
    assert Rows({"x": rows}).arrangement != Rows({"x": swapped}).arrangement
    assert Rows({"x": rows[:0]}).arrangement != Rows({"x": rows[:1]}).arrangement
