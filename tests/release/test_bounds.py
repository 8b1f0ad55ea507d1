"""DP-MEPF's bounds hold as often as they say, and are not much larger than what happens."""

import math
from functools import cache

import pytest
import torch
from scipy.stats import norm

from privet.errors import ConfigError
from privet.release.bounds import (
    Noise,
    error,
    mean_error,
    optimistic_loss,
    uniform_error,
    worst_case_loss,
)

DRAWS = 3000
ISOTROPIC = (0.03, 0.03, 50)
UNEVEN = (0.1, 0.01, 20)
LONG = (0.002, 0.004, 200)
CASES = pytest.mark.parametrize("scales", [ISOTROPIC, UNEVEN, LONG], ids=str)
RHOS = pytest.mark.parametrize("rho", [0.5, 0.1, 0.01])


@cache
def drawn(scales):
    """Noise vectors, their covariance's square root, and what the bounds know of them."""
    first, second, size = scales
    roots = torch.tensor([first] * size + [second] * size, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, 2 * size, generator=generator, dtype=torch.float64) * roots
    return noise, roots, Noise.two_blocks(*scales)


def apart(roots, mmd):
    """A difference of mean embeddings of this length."""
    a = torch.randn(len(roots), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return a * (mmd / a.norm())


def errors(noise, a):
    return ((a + noise).square().sum(1) - a.square().sum()).abs()


@CASES
def test_noise_knows_the_norms_of_its_covariance(scales):
    _, roots, known = drawn(scales)
    covariance = torch.diag(roots.square())
    assert known.trace == pytest.approx(float(covariance.trace()))
    assert known.frobenius == pytest.approx(float(torch.linalg.matrix_norm(covariance)))
    assert known.operator == pytest.approx(float(torch.linalg.matrix_norm(covariance, 2)))


def test_two_equal_blocks_are_one():
    blocks, whole = Noise.two_blocks(0.3, 0.3, 7), Noise.isotropic(0.3, 14)
    assert vars(blocks) == pytest.approx(vars(whole))
    printed = 2 * 0.3**2 * math.sqrt(7)  # (C₁² + C₂²) √D
    assert blocks.frobenius == pytest.approx(printed / math.sqrt(2))


def test_the_papers_example():
    """DP-MEPF, §4: for m = 50,000 a strong bound as long as D σ² is far below 625 million."""
    small, large = (Noise.isotropic(2 * 1.0 / 50_000, size).trace for size in (10**6, 625 * 10**6))
    assert small < 0.01
    assert large == pytest.approx(1.0)


@CASES
@pytest.mark.parametrize("mmd", [0.0, 0.2, 1.0])
def test_mean_error(scales, mmd):
    noise, roots, known = drawn(scales)
    a = apart(roots, mmd)
    bound = mean_error(known, float((roots * a).norm()))
    found = float(errors(noise, a).mean())
    assert found <= bound * (1 + 3 / math.sqrt(DRAWS))  # with MMD = 0 the two are equal
    assert bound <= 2 * found


@CASES
@RHOS
@pytest.mark.parametrize("mmd", [0.0, 0.2, 1.0])
def test_error_of_one_pair(scales, mmd, rho):
    noise, roots, known = drawn(scales)
    a = apart(roots, mmd)
    found = errors(noise, a)
    bound = error(known, float((roots * a).norm()), rho)
    assert float((found <= bound).double().mean()) >= 1 - rho
    assert bound <= 4 * float(found.quantile(1 - rho))


@CASES
@RHOS
@pytest.mark.parametrize("norm_bound", [0.5, 1.0])
def test_error_of_all_pairs(scales, norm_bound, rho):
    """The worst a points along the noise, as far as two embeddings can be apart."""
    noise, _, known = drawn(scales)
    lengths = noise.norm(dim=1)
    found = lengths.square() + 2 * 2 * norm_bound * lengths
    bound = uniform_error(known, norm_bound, rho)
    assert float((found <= bound).double().mean()) >= 1 - rho
    assert bound <= 3 * float(found.quantile(1 - rho))


def test_the_printed_uniform_bound_fails_where_ours_holds():
    """One dimension, a large B: the error is 4 B |n|, and |n| is normal."""
    rho, scale, norm_bound = 1e-6, 1e-3, 1e3
    noise = Noise.isotropic(scale, 1)
    ours = uniform_error(noise, norm_bound, rho)
    lost = 4 * norm_bound * (math.sqrt(2) - 1) * scale * math.sqrt(math.log(2 / rho))

    def failing(bound):
        length = 2 * norm_bound * (math.sqrt(1 + bound / (2 * norm_bound) ** 2) - 1)
        return 2 * norm.sf(length / scale)

    assert failing(ours) <= rho
    assert failing(ours - lost) > rho


def gaps(noise, roots, best):
    """MMD² lost by choosing among many means with noise; the best has MMD `best`."""
    generator = torch.Generator().manual_seed(2)
    size = len(roots)
    directions = torch.randn(100, size, generator=generator, dtype=torch.float64)
    directions = directions / directions.norm(dim=1, keepdim=True)
    lengths = torch.linspace(best, 1, 100, dtype=torch.float64)[:, None]
    a = directions * lengths
    noised = a.square().sum(1) + 2 * noise @ a.T  # + ‖n‖², the same for all
    return a.square().sum(1)[noised.argmin(1)] - best**2


@CASES
@RHOS
def test_loss_of_the_private_minimiser(scales, rho):
    noise, roots, known = drawn(scales)
    for best in (0.0, 0.3):
        found = gaps(noise, roots, best)
        for bound in (worst_case_loss(known, 0.5, rho), optimistic_loss(known, best, rho)):
            assert float((found <= bound).double().mean()) >= 1 - rho


@CASES
def test_loss_of_a_generator_that_can_do_anything(scales):
    """It matches the noised mean: its loss is the noise's squared length, a ninth of the bound."""
    noise, _, known = drawn(scales)
    found = noise.square().sum(1)
    bound = optimistic_loss(known, 0.0, 0.1)
    assert float((found <= bound).double().mean()) >= 0.9
    assert bound <= 30 * float(found.quantile(0.9))
    assert bound < worst_case_loss(known, 1.0, 0.1)


def test_optimism_pays_with_the_square_of_the_data():
    """Ten times as many examples: A.4 falls to a tenth, A.5 without a gap to a hundredth."""
    few, many = Noise.isotropic(1e-3, 100), Noise.isotropic(1e-4, 100)
    worst = [worst_case_loss(noise, 1.0, 0.05) for noise in (few, many)]
    best = [optimistic_loss(noise, 0.0, 0.05) for noise in (few, many)]
    assert worst[0] / worst[1] == pytest.approx(10, rel=0.05)
    assert best[0] / best[1] == pytest.approx(100)


@pytest.mark.parametrize("rho", [0.0, 1.0, -0.1, math.nan])
def test_probabilities_outside_their_range_are_refused(rho):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        error(Noise.isotropic(1.0, 3), 1.0, rho)


@pytest.mark.parametrize("sizes", [(1.0, 2.0, 1.0), (2.0, 1.0, 1.5), (math.nan, 1.0, 1.0)])
def test_norms_of_no_covariance_are_refused(sizes):
    trace, frobenius, operator = sizes
    with pytest.raises(ConfigError, match="operator ≤ Frobenius ≤ trace"):
        Noise(trace=trace, frobenius=frobenius, operator=operator)
