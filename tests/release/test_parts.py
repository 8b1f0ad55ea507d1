"""Which features go where, and back."""

import math

import pytest
import torch

from privet.errors import ConfigError
from privet.release import Moments, Part, each_class, everyone
from privet.release.triangles import pack

SIZE = 3
GROUPS = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])


def moments(groups, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(groups, 6, SIZE, generator=generator, dtype=torch.float64)
    return Moments(rows.mean(1), rows.transpose(1, 2) @ rows / 6)


def made(groups=GROUPS, **changed):
    return Part(
        **{
            "name": "a",
            "source": "z",
            "size": SIZE,
            "groups": groups,
            "mean_weight": 0.5,
            "second_weight": 2.0,
            **changed,
        }
    )


def test_everyone_and_each_class():
    assert everyone(3).tolist() == [[1.0], [1.0], [1.0]]
    assert each_class(2).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert made(everyone(3)).num_groups == 1
    assert made(each_class(3)).num_groups == 3


def test_blocks_are_those_with_a_weight():
    assert made().sizes == {"mean": 3, "second": 6}
    assert made(second_weight=0.0).weights == {"mean": 0.5}
    assert made(mean_weight=0.0).sizes == {"second": 6}


def test_classes_in_the_same_groups_are_one_kind():
    rows, kind = made().kinds
    assert rows[kind].equal(GROUPS)
    assert len(rows) == 3
    assert kind[0] == kind[2]


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(
    "weights", [{}, {"mean_weight": 0.0}, {"second_weight": 0.0}], ids=["both", "second", "mean"]
)
def test_unpacking_undoes_packing(centred, weights):
    part = made(centre=moments(2, 1) if centred else None, **weights)
    exact, totals = moments(2), torch.tensor([7.0, 0.3]).double()
    sums = Moments(exact.mean * totals[:, None], exact.second * totals[:, None, None])
    found = part.unpacked(part.packed(sums, totals), totals)
    if part.mean_weight:
        torch.testing.assert_close(found.mean, exact.mean)
    else:
        assert not found.mean.any()
    if part.second_weight:
        torch.testing.assert_close(found.second, exact.second)
    else:
        assert found.second is None


def test_packed_sums_are_weighted_and_around_the_centre():
    centre, sums, totals = moments(2, 1), moments(2), torch.tensor([7.0, 0.3]).double()
    found = made(centre=centre).packed(sums, totals)
    mean = 0.5 * (sums.mean - totals[:, None] * centre.mean)
    second = 2.0 * (pack(sums.second) - totals[:, None] * pack(centre.second))
    torch.testing.assert_close(found, {"mean": mean, "second": second})


def test_a_centre_carries_no_gradient():
    """It is the last stage's statistics, of images that were optimised."""
    exact = moments(2)
    part = made(centre=Moments(exact.mean.requires_grad_(), exact.second.requires_grad_()))
    assert not any(each.requires_grad for each in part.centres.values())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"groups": torch.tensor([[0.5]])}, "matrix of 0 and 1"),
        ({"groups": torch.ones(3)}, "matrix of 0 and 1"),
        ({"mean_weight": -1.0}, "needs finite weights from 0"),
        ({"mean_weight": math.nan}, "needs finite weights from 0"),
        ({"second_weight": math.nan}, "needs finite weights from 0"),
        ({"mean_weight": math.inf}, "needs finite weights from 0"),
        ({"second_weight": math.inf}, "needs finite weights from 0"),
        ({"mean_weight": 0.0, "second_weight": 0.0}, "one of them above it"),
        *(
            ({"centre": centre}, "must have finite (mean|second) moments of shape")
            for centre in (
                Moments(torch.zeros(2, 1), torch.zeros(2, SIZE, SIZE)),
                Moments(torch.zeros(1, SIZE), torch.zeros(2, SIZE, SIZE)),
                Moments(torch.zeros(2, SIZE), torch.zeros(2, 1, 1)),
                Moments(torch.zeros(2, SIZE), torch.zeros(1, SIZE, SIZE)),
                Moments(torch.full((2, SIZE), math.inf), torch.zeros(2, SIZE, SIZE)),
            )
        ),
    ],
)
def test_what_makes_no_part_is_refused(changed, message):
    with pytest.raises(ConfigError, match=message):
        made(**changed)
