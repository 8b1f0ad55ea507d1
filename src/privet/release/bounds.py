"""How far noise moves a squared MMD, and what it costs a generator (DP-MEPF, Appendix A).

Σ is the noise's covariance, a = μ(private) − μ(synthetic) the difference of mean embeddings, so
MMD = ‖a‖, and ρ the probability with which a bound may fail. For noise of scale s in every
coordinate ‖Σ^½ a‖ = s · MMD; for two blocks it is √(s₁² MMD₁² + s₂² MMD₂²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from privet.errors import ConfigError

_SLACK = 1 + 1e-9  # for what rounding does to norms that are equal


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Gaussian noise on a mean embedding, as far as the bounds see it.

    Args:
        trace: tr Σ, the expected squared length of the noise.
        frobenius: ‖Σ‖_F.
        operator: ‖Σ‖_op, the variance in the noisiest direction.
    """

    trace: float
    frobenius: float
    operator: float

    def __post_init__(self) -> None:
        sizes = (0.0, self.operator, self.frobenius, self.trace)
        if not all(low <= high * _SLACK < math.inf for low, high in pairwise(sizes)):
            raise ConfigError(f"No covariance has 0 ≤ operator ≤ Frobenius ≤ trace = {sizes[1:]}.")

    @classmethod
    def isotropic(cls, scale: float, size: int) -> Self:
        """Noise of one scale in every coordinate (equation 8, where it is 2σ/m)."""
        variance = scale**2
        return cls(trace=variance * size, frobenius=variance * math.sqrt(size), operator=variance)

    @classmethod
    def two_blocks(cls, first: float, second: float, size: int) -> Self:
        """Noise of two scales, in `size` coordinates each (equation 9: C₁ and C₂ times 2σ/m)."""
        variances = first**2, second**2
        # Printed as (C₁² + C₂²) √D, which is larger: bounds with it hold, but are looser.
        frobenius = math.hypot(*variances) * math.sqrt(size)
        return cls(trace=sum(variances) * size, frobenius=frobenius, operator=max(variances))


def mean_error(noise: Noise, distance: float) -> float:
    """Bound E |noised MMD² − MMD²|, the mean error over the noise (Proposition A.1).

    Args:
        noise: on the mean embedding.
        distance: ‖Σ^½ a‖.
    """
    return noise.trace + 2 * math.sqrt(2 / math.pi) * distance


def error(noise: Noise, distance: float, rho: float) -> float:
    """Bound |noised MMD² − MMD²| for one pair of sets, but for probability ρ (Proposition A.2).

    Args:
        noise: on the mean embedding.
        distance: ‖Σ^½ a‖.
        rho: ρ, the probability with which the bound may fail.
    """
    # The printed proof loses a factor 2 on √(2/π). What is printed holds nevertheless: a normal
    # variable exceeds √(2 log(2/ρ)) deviations with probability at most ρ/2 as it is.
    projection = (math.sqrt(2 / math.pi) + 2 * math.sqrt(2 * _log(rho))) * distance
    return _squared_length(noise, rho) + projection


def uniform_error(noise: Noise, norm_bound: float, rho: float) -> float:
    """Bound |noised MMD² − MMD²| for all pairs of sets at once, but for ρ (Proposition A.3).

    Args:
        noise: on the mean embedding.
        norm_bound: B, a bound on the norm of every embedded example.
        rho: ρ, the probability with which the bound may fail.
    """
    return _squared_length(noise, rho) + 4 * norm_bound * _length(noise, rho)


def worst_case_loss(noise: Noise, norm_bound: float, rho: float) -> float:
    """Bound MMD²(private minimiser) − MMD²(minimiser), but for ρ (Proposition A.4).

    Args:
        noise: on the mean embedding.
        norm_bound: B, a bound on the norm of every embedded example.
        rho: ρ, the probability with which the bound may fail.
    """
    # Twice the uniform error of A.3; the printed proof names A.2, which holds for one pair alone.
    return 2 * uniform_error(noise, norm_bound, rho)


def optimistic_loss(noise: Noise, mmd: float, rho: float) -> float:
    """Bound MMD²(private minimiser) − MMD²(minimiser), but for ρ (Proposition A.5).

    It is the smaller, the better a generator can be.

    Args:
        noise: on the mean embedding.
        mmd: the MMD of the generator that is best without noise.
        rho: ρ, the probability with which the bound may fail.
    """
    # 9 is a round number above 6 + 2√2 (printed as 6√2).
    return 9 * _squared_length(noise, rho) + 4 * _length(noise, rho) * mmd


def _squared_length(noise: Noise, rho: float) -> float:
    """A bound on the squared length of the noise, but for probability ρ/2 (equation 14)."""
    log = _log(rho)
    return noise.trace + 2 * noise.frobenius * math.sqrt(log) + 2 * noise.operator * log


def _length(noise: Noise, rho: float) -> float:
    """A bound on the length of the noise, but for probability ρ/2 (A.3's proof).

    A.3 and A.4 as printed lose the √2 here, and fail: in one dimension at ρ = 1e-6, for instance.
    """
    return math.sqrt(noise.trace) + math.sqrt(2 * noise.operator * _log(rho))


def _log(rho: float) -> float:
    if not 0 < rho < 1:
        raise ConfigError(f"A bound fails with a probability between 0 and 1, not {rho:g}.")
    return math.log(2 / rho)
