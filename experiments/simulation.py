"""Squared distances recovered from simulated sketches, with numpy's own noise: quick, never private, for measuring."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def images(family: str, v: Floats, k: int, count: int, rng: np.random.Generator) -> Floats:
    """VP for ``count`` independent projections of a family: shape (count, k)."""
    d, r = v.size, float(np.linalg.norm(v))
    if family == "identity":
        return np.broadcast_to(v, (count, d))
    if family == "gaussian":
        return rng.normal(size=(count, k)) * r / math.sqrt(k)
    if family == "orthonormal":
        ball = rng.normal(size=(count, d))
        return ball[:, :k] / np.linalg.norm(ball, axis=1, keepdims=True) * r * math.sqrt(d / k)
    if family == "sparse":
        places, signs = rng.integers(0, k, (count, d)), rng.choice([-1.0, 1.0], (count, d))
        flat = (np.arange(count)[:, None] * k + places).ravel()
        return np.bincount(flat, (signs * v).ravel(), count * k).reshape(count, k)
    faces = rng.integers(0, 2 if family == "rademacher" else 6, (count, k, d), dtype=np.int8)
    entries: Any = 2.0 * faces - 1 if family == "rademacher" else math.sqrt(3) * ((faces == 0) - 1.0 * (faces == 1))
    return np.asarray(entries @ v / math.sqrt(k))


def noise(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Noise of standard deviation 1."""
    return rng.normal(size=shape) if kind == "gaussian" else rng.laplace(0, 1 / math.sqrt(2), shape)


def standard_error(family: str, v: Floats, k: int, kind: str, scale: float, count: int, seed: int) -> float:
    """Root mean square error of ``count`` recovered squared distances, each with its own projection."""
    rng = np.random.default_rng(seed)
    chunk = max(1, min(count, 4_000_000 // (max(k, 1) * v.size)))
    squares, done = 0.0, 0
    while done < count:
        size = min(chunk, count - done)
        w = images(family, v, k, size, rng)
        z = w + scale * (noise(kind, w.shape, rng) - noise(kind, w.shape, rng))
        found = np.sum(z * z, axis=1) - 2 * w.shape[1] * scale**2
        squares += float(np.sum((found - v @ v) ** 2))
        done += size
    return math.sqrt(squares / count)
