"""Drawing from a Bingham law by rejection: the chance of acceptance as it should be, and as two libraries have it.

Amin et al. 2019 draw one eigenvector after the other from a Bingham law, density in proportion to exp(-u'Au), by
rejection from an angular Gaussian envelope with matrix W = I + 2A/b. A proposal u should be accepted with probability
exp(-u'Au) (u'Wu)^(d/2) / M, the Bingham density over M times the envelope's (Kent, Ganeiber and Mardia 2018, section
3). diffprivlib and OpenDP divide by (u'Wu)^(d/2) instead, so what they draw has another law, to which the proof does
not apply, and hardly any proposal is accepted on data of many rows.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def shape(matrix: Floats, epsilon: float) -> tuple[Floats, float, Floats]:
    """A, b and W for a law that favours the first eigenvector of a matrix."""
    dim = len(matrix)
    tilted = epsilon * (np.linalg.eigvalsh(matrix).max() * np.eye(dim) - matrix) / 4
    b = root(np.linalg.eigvalsh(tilted), dim)
    return tilted, b, np.eye(dim) + 2 * tilted / b


def envelope(matrix: Floats, epsilon: float, count: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Proposals, and the logarithms of their chances of acceptance: right, and as the peers have them."""
    dim = len(matrix)
    tilted, b, omega = shape(matrix, epsilon)
    z = rng.standard_normal((count, dim)) @ np.linalg.cholesky(np.linalg.inv(omega)).T
    u = z / np.linalg.norm(z, axis=1, keepdims=True)
    bingham = -np.sum((u @ tilted) * u, axis=1) + (dim - b) / 2 - dim / 2 * math.log(dim / b)
    power = dim / 2 * np.log(np.sum((u @ omega) * u, axis=1))
    return u, bingham + power, bingham - power


def root(eigenvalues: Floats, dim: int) -> float:
    """Where the sum of 1 / (b + 2 eigenvalue) is 1."""
    low, high = 0.5, float(dim)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum(1 / (middle + 2 * np.maximum(eigenvalues, 0.0))) >= 1 else (low, middle)
    return high
