"""Upper triangles of symmetric matrices."""

import pytest
import torch

from privet.release.triangles import pack, packed_dot, packed_size, unpack


def symmetric(size, seed=0, groups=3):
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn(groups, 2, size, size, generator=generator, dtype=torch.float64)
    return found + found.transpose(-2, -1)


def test_a_known_case():
    matrix = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    assert pack(matrix).tolist() == [1, 2, 3, 4, 5, 6]
    assert unpack(pack(matrix), 3).equal(matrix)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_packing_is_undone(size):
    matrices = symmetric(size)
    assert pack(matrices).shape == (3, 2, packed_size(size))
    assert unpack(pack(matrices), size).equal(matrices)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_products_without_packing(size):
    first, second = symmetric(size), symmetric(size, 1)
    torch.testing.assert_close(packed_dot(first, second), (pack(first) * pack(second)).sum(-1))


def test_noise_stays_symmetric():
    """Each number is noised once, and unpacked to both of its places."""
    noised = unpack(torch.randn(4, packed_size(6)), 6)
    assert noised.equal(noised.transpose(1, 2))


def test_gradients():
    triangles = pack(symmetric(4)).requires_grad_()
    assert torch.autograd.gradcheck(lambda each: pack(unpack(each, 4).matrix_exp()), triangles)
