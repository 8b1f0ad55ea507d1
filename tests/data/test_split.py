import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.data import ImageSet, load
from privet.data.split import apportion
from privet.errors import ConfigError


def numbered(labels):
    """A set whose pixels say which row they are."""
    count = len(labels)
    images = np.arange(count, dtype="<u4").view(np.uint8).reshape(count, 2, 2, 1)
    names = tuple("abcde")
    return ImageSet(images, np.array(labels), names)


def rows(data):
    if data is None:
        return []
    return np.ascontiguousarray(data.images).reshape(-1, 4).view("<u4").ravel().tolist()


@st.composite
def cases(draw):
    labels = draw(st.lists(st.integers(0, 4), min_size=3, max_size=60))
    public = draw(st.one_of(st.none(), st.integers(1, len(labels))))
    test = draw(st.one_of(st.none(), st.integers(1, len(labels))))
    return labels, public, test


@settings(deadline=None)
@given(cases(), st.integers(0, 2**32))
def test_parts_cover_everything_once_in_order(case, seed):
    labels, public, test = case
    data = numbered(labels)
    if (public or 0) + (test or 0) >= len(labels):
        with pytest.raises(ConfigError):
            data.split(public=public, test=test, seed=seed)
        return
    split = data.split(public=public, test=test, seed=seed)
    parts = [rows(part) for part in (split.private, split.public, split.test)]
    assert sorted(row for part in parts for row in part) == list(range(len(labels)))
    assert [len(part) for part in parts[1:]] == [public or 0, test or 0]
    assert all(part == sorted(part) for part in parts)
    for part in (split.private, split.public, split.test):
        if part is not None:
            assert part.labels.tolist() == [labels[row] for row in rows(part)]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20), st.floats(0, 1))
def test_apportion_is_exact_fair_and_possible(sizes, share):
    sizes = np.array(sizes)
    total = int(share * sizes.sum())
    taken = apportion(total, sizes)
    assert taken.sum() == total
    assert (taken <= sizes).all()
    assert (taken >= 0).all()
    assert np.all(np.abs(taken - total * sizes / max(sizes.sum(), 1)) < 1)


def test_shares_are_stratified():
    split = load("mnist5k").split(public=0.04, test=0.1, seed=0)
    assert split.public.class_counts().tolist() == [20] * 10
    assert split.test.class_counts().tolist() == [50] * 10
    assert split.private.class_counts().tolist() == [430] * 10


def test_a_split_is_the_same_everywhere():
    split = numbered([0, 1, 2] * 8).split(public=3, test=0.25, seed=7)
    assert rows(split.test) == [4, 6, 10, 20, 21, 23]
    assert rows(split.public) == [3, 11, 13]


def test_seeds_differ_and_public_rows_do_not_move_test_rows():
    data = numbered([0] * 30 + [1] * 30)
    first = data.split(test=10, seed=0)
    assert rows(data.split(test=10, seed=1).test) != rows(first.test)
    assert rows(data.split(test=10, public=20, seed=0).test) == rows(first.test)


def test_unlabelled_sets_are_split_at_random(pixels):
    split = ImageSet(pixels(20)).split(public=0.25, seed=3)
    assert (len(split.private), len(split.public), split.test) == (15, 5, None)


def test_nothing_asked_for_leaves_everything_private():
    data = numbered([0, 1])
    split = data.split(seed=0)
    assert split.private is data
    assert (split.public, split.test) == (None, None)


def test_another_set_is_used_as_it_is():
    data, other = numbered([0, 1, 2, 3]), ImageSet(numbered([0, 1]).images)
    split = data.split(public=other, test=data, seed=0)
    assert split.private is data
    assert split.public is other
    assert split.test is data


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"public": 0.6, "test": 0.4}, "add up to 1"),
        ({"public": 1.5}, "add up to 1.5"),
        ({"public": -0.1}, "share between 0 and 1"),
        ({"public": 0.0}, "share between 0 and 1"),
        ({"public": float("nan")}, "share between 0 and 1"),
        ({"test": 11}, "count from 1 to what there are"),
        ({"test": -1}, "count from 1 to what there are"),
        ({"test": 0}, "count from 1 to what there are"),
        ({"test": 5, "public": 5}, "leave none that is private"),
        ({"public": 0.01}, "which is none"),
        ({"public": True}, "public is True"),
        ({"public": "a"}, "public is 'a'"),
    ],
)
def test_refuses_parts_that_cannot_be(parts, message):
    with pytest.raises(ConfigError, match=message):
        numbered([0] * 10).split(**parts, seed=0)


@pytest.mark.parametrize("seed", [None, -1, 0.5])
def test_refuses_a_seed_that_is_none(seed):
    with pytest.raises(ConfigError, match="seed"):
        numbered([0, 1]).split(test=1, seed=seed)


def test_seed_has_no_default():
    with pytest.raises(TypeError):
        numbered([0, 1]).split(test=1)


def test_refuses_a_public_set_of_another_shape(pixels):
    with pytest.raises(ConfigError, match=r"5×7×3 and private ones 2×2×1.*resize"):
        numbered([0, 1]).split(public=ImageSet(pixels()), seed=0)


def test_refuses_a_test_set_of_other_classes():
    data = numbered([0, 1])
    other = ImageSet(data.images, data.labels, ("x", "y"))
    with pytest.raises(ConfigError, match="other classes"):
        data.split(test=other, seed=0)
    assert data.split(public=other, seed=0).public is other
