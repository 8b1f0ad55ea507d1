"""The Gaussian mechanism at sensitivity 1, exactly, with nothing but `math`.

Kept by hand so that `privet account` for one-shot releases starts in a fraction of a second;
tests hold it to dp_accounting's functions.

References:
    Balle and Wang, Improving the Gaussian Mechanism for Differential Privacy, 2018, Theorem 8.
"""

import math
from collections.abc import Callable

_RELATIVE_TOLERANCE = 1e-12


def delta(sigma: float, epsilon: float) -> float:
    """The smallest δ at which noise of scale σ is (ε, δ)-private."""
    log_gain = _log_normal_cdf(0.5 / sigma - epsilon * sigma)
    log_loss = epsilon + _log_normal_cdf(-0.5 / sigma - epsilon * sigma)
    return -math.exp(log_gain) * math.expm1(min(log_loss - log_gain, 0.0))


def epsilon(sigma: float, target_delta: float) -> float:
    """The smallest ε at which noise of scale σ is (ε, δ)-private, from above."""
    if delta(sigma, 0.0) <= target_delta:
        return 0.0
    return _smallest(lambda value: delta(sigma, value) <= target_delta)


def sigma(target_epsilon: float, target_delta: float) -> float:
    """The smallest noise scale that is (ε, δ)-private, from above."""
    return _smallest(lambda value: delta(value, target_epsilon) <= target_delta)


def _smallest(holds: Callable[[float], bool]) -> float:
    """Bisect for the least positive value where a monotone condition holds; it holds there."""
    high = 1.0
    while not holds(high):
        high *= 2
    low = high / 2
    while holds(low):
        low, high = low / 2, low
    while high - low > _RELATIVE_TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _log_normal_cdf(x: float) -> float:
    if x > -30:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    # Φ(x) ≈ φ(x)/|x| · (1 − 1/x² + 3/x⁴ − 15/x⁶): relative error below 1e-9 from here on.
    series = 1 - x**-2 + 3 * x**-4 - 15 * x**-6
    return -0.5 * x * x - math.log(-x) - 0.5 * math.log(2 * math.pi) + math.log(series)
