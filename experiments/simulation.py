"""Squared distances recovered from simulated sketches, with numpy's own noise: quick, never private, for measuring.

With w the image of a unit vector and e the difference of two rows of noise of standard deviation 1, the error of a
recovered squared distance r^2 under noise of scale s is r^2 (|w|^2 - 1) + 2 r s <w, e> + s^2 (|e|^2 - 2k). The three
pieces depend neither on r nor on s, so they are drawn once for all distances and noises.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from page import Measured

Floats = NDArray[np.float64]
_CHUNK = 2_000_000  # numbers drawn at a time


@dataclass(frozen=True, slots=True)
class Pieces:
    """What the errors of many recovered squared distances are made of."""

    stretch: Floats
    cross: Floats
    blur: Floats

    def errors(self, squared: float, scale: float) -> Floats:
        """At this squared distance, under noise of this scale; each with its own projection."""
        cross = 2 * math.sqrt(squared) * scale * self.cross
        return np.asarray(squared * self.stretch + cross + scale**2 * self.blur)


def pieces(shape: tuple[str, int, int], kind: str, count: int, rng: np.random.Generator) -> Pieces:
    """Of ``count`` draws of a d x k projection of a family, and of two rows of noise of a kind, for spread vectors."""
    d, k = shape[1:]
    chunk = max(1, _CHUNK // max(d, k))
    return _joined([_drawn(shape, kind, min(chunk, count - i), rng) for i in range(0, count, chunk)])


def _drawn(shape: tuple[str, int, int], kind: str, count: int, rng: np.random.Generator) -> Pieces:
    family, d, k = shape
    w = images(family, d, k, count, rng)
    e = _noise(kind, w.shape, rng) - _noise(kind, w.shape, rng)
    inner = np.einsum("ij,ij->i", w, e)
    return Pieces(np.einsum("ij,ij->i", w, w) - 1, inner, np.einsum("ij,ij->i", e, e) - 2 * k)


def _joined(parts: list[Pieces]) -> Pieces:
    return Pieces(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("stretch", "cross", "blur")))


def images(family: str, d: int, k: int, count: int, rng: np.random.Generator) -> Floats:
    """VP for ``count`` independent projections, v the vector of d entries 1/sqrt(d): shape (count, k)."""
    if family == "identity":
        return np.broadcast_to(np.full(d, 1 / math.sqrt(d)), (count, d))
    if family == "gaussian":
        return rng.normal(size=(count, k)) / math.sqrt(k)
    if family == "orthonormal":
        ball = rng.normal(size=(count, d))
        return np.asarray(ball[:, :k] / np.linalg.norm(ball, axis=1, keepdims=True) * math.sqrt(d / k))
    if family == "sparse":  # one sign in each row of P: as many rows meet in a place as fall there
        used, weight = rng.multinomial(d, np.full(k, 1 / k), count), 1 / math.sqrt(d)
    elif family == "achlioptas":
        used, weight = rng.binomial(d, 1 / 3, (count, k)), math.sqrt(3 / (d * k))
    else:  # rademacher
        used, weight = np.full((count, k), d), 1 / math.sqrt(d * k)
    return np.asarray((2 * rng.binomial(used, 0.5) - used) * weight)


def _noise(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Noise of standard deviation 1."""
    return rng.normal(size=shape) if kind == "gaussian" else rng.laplace(0, 1 / math.sqrt(2), shape)


def root(square: Measured) -> Measured:
    """The root of a number."""
    value = math.sqrt(square.value)
    return Measured(value, square.error / (2 * value), square.repetitions)


def root_mean_square(errors: Floats) -> Measured:
    """Of independent errors, with its standard error."""
    return root(Measured.of(errors**2))


def spread(values: Sequence[float] | Floats) -> Measured:
    """The standard deviation of independent values, with its standard error."""
    given = np.asarray(values, float)
    return root(Measured.of((given - given.mean()) ** 2 * given.size / (given.size - 1)))


def quantile(values: Floats, probability: float, parts: int = 20) -> Measured:
    """A quantile, with a standard error from the quantiles of parts of the values."""
    own = [float(np.quantile(part, probability)) for part in np.array_split(values, parts)]
    return Measured(float(np.quantile(values, probability)), Measured.of(own).error, values.size)
