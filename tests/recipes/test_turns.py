"""Labels in proportion, in every prefix."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privet.recipes.releases import balanced
from privet.recipes.turns import even, in_turn


@pytest.mark.parametrize("classes", [1, 3, 7, 10, 49])
def test_equal_shares_take_turns(classes):
    found = in_turn(even(classes), 30, 100)
    assert torch.equal(found.labels, (30 + torch.arange(100)) % classes)
    assert torch.equal(found.ranks, (30 + torch.arange(100)) // classes)
    assert torch.equal(in_turn(even(classes), 24, 12).labels, balanced(12, classes, 2))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12).filter(any), st.integers(1, 40))
def test_batches_make_one_row_in_which_every_prefix_is_in_proportion(sizes, batch):
    """Webster's seats: no class could take one from another and be nearer to its share."""
    shares = torch.tensor(sizes, dtype=torch.float64)
    shares = shares / shares.sum()
    found = [in_turn(shares, start, batch) for start in range(0, 6 * batch, batch)]
    labels = torch.cat([each.labels for each in found])
    whole = in_turn(shares, 0, 6 * batch)
    assert torch.equal(labels, whole.labels)
    assert torch.equal(torch.cat([each.ranks for each in found]), whole.ranks)
    counts = torch.zeros(len(sizes))
    for place, (label, rank) in enumerate(zip(labels.tolist(), whole.ranks.tolist(), strict=True)):
        assert counts[label] == rank
        counts[label] += 1
        assert (counts[shares == 0] == 0).all()
        some = shares > 0
        next_turn = ((counts[some] + 0.5) / shares[some]).min()
        last_turn = ((counts[some] - 0.5) / shares[some]).max()
        assert last_turn <= next_turn * (1 + 1e-9), place


def test_a_million_images_on():
    shares = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    found = in_turn(shares, 10**6, 1000)
    assert torch.bincount(found.labels).tolist() == [700, 200, 100]
    assert found.ranks[found.labels == 0][0] == 700_000
