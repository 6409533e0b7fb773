"""Statistical evidence with a fixed, tiny false-alarm rate. Seeds are fixed as well, so a verdict never changes."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

ALPHA = 1e-9


def largest_gap(draws: NDArray[np.int64], cdf: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """Kolmogorov distance between integer draws and a continuous law rounded to the nearest integer."""
    edges = np.unique(np.quantile(draws, np.linspace(0.001, 0.999, 999)).astype(np.int64))
    below = np.searchsorted(np.sort(draws), edges, side="right") / draws.size
    return float(np.abs(below - cdf(edges + 0.5)).max())


def allowed_gap(count: int) -> float:
    """Exceeded with probability at most ALPHA when the law is right (Dvoretzky, Kiefer, Wolfowitz; Massart)."""
    return math.sqrt(math.log(2 / ALPHA) / (2 * count))


def fits(draws: NDArray[np.int64], cdf: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> bool:
    return largest_gap(draws, cdf) <= allowed_gap(draws.size)


def agrees(samples: NDArray[np.float64], expected: float) -> bool:
    """Whether a sample mean is within 6.2 standard errors (two-sided normal tail below ALPHA) of what is expected."""
    error = float(samples.std()) / math.sqrt(samples.size)
    return abs(float(samples.mean()) - expected) <= 6.2 * error
