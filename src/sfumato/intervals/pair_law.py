"""The Gram matrix of two noisy images z = xP + e, w = yP + f: as released, and simulated under any truth.

Intervals of inner products and cosines are made of ||z||^2, ||w||^2 and <z, w>. Their joint law has no closed form once
noise and projection mix, but it is cheap to draw from: with u, v the images of two orthonormal rows, all three are
polynomials in the ten inner products of u, v, e, f, so one set of draws serves every length and angle.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from sfumato.intervals.moments import Geometry, NoiseKind, NoiseLaw
from sfumato.intervals.squared_lengths import Seen
from sfumato.numerics.types import Floats

_ENTRIES = 1 << 21  # of each kind, that a simulation draws, within these bounds on the number of pairs
_FEWEST, _MOST = 1 << 13, 1 << 14
_BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class Gram:
    """||z||^2, ||w||^2 and <z, w> of released rows, and the sums of fourth powers of both (0: not known)."""

    squared_z: Floats
    squared_w: Floats
    inner: Floats
    fourth_z: Floats | float = 0.0
    fourth_w: Floats | float = 0.0

    @classmethod
    def of(cls, one: Floats, two: Floats) -> Self:
        """The Gram matrices of pairs of released rows, in step."""
        gram = (np.asarray(np.sum(a * b, axis=-1)) for a, b in ((one, one), (two, two), (one, two)))
        return cls(*gram, *(np.einsum("...i,...i->...", row * row, row * row) for row in (one, two)))

    @property
    def rows(self) -> tuple[Seen, Seen]:
        """The two rows z and w of a pair, each seen by itself."""
        return Seen(self.squared_z, np.asarray(self.fourth_z)), Seen(self.squared_w, np.asarray(self.fourth_w))

    def over(self, units: tuple[NoiseLaw, NoiseLaw]) -> Self:
        """The pair's Gram matrix with each row in units of its noise: inner products in units of both scales."""
        one, two = (noise.variance for noise in units)
        inner = self.inner / (one if one == two else math.sqrt(one * two))
        return type(self)(
            self.squared_z / one, self.squared_w / two, inner, self.fourth_z / one**2, self.fourth_w / two**2
        )


@dataclass(frozen=True, slots=True)
class SimulatedPairs:
    """Inner products of simulated u, v, e, f (noise of scale 1): a 4 x 4 matrix for each draw, draws last."""

    products: Floats

    def pair(self, squared_x: float, squared_y: float, cosine: float) -> Gram:
        """Simulated law of a released pair of rows with these true squared lengths and this cosine."""
        x, y = math.sqrt(squared_x), math.sqrt(squared_y)
        one = np.array([x, 0.0, 1.0, 0.0])
        two = np.array([y * cosine, y * math.sqrt(max(1 - cosine**2, 0.0)), 0.0, 1.0])
        return Gram(*(np.einsum("i,ijn,j->n", a, self.products, b) for a, b in ((one, one), (two, two), (one, two))))


@lru_cache(maxsize=4)
def draws(kind: NoiseKind, geometry: Geometry, second: NoiseKind | None = None) -> SimulatedPairs:
    """Simulated pairs of spread rows. The seed is fixed and no secret: tables made from these are the same everywhere.

    gaussian P stands for all random families but orthonormal, whose laws tend to its own as rows spread over many
    columns. Where P is not random, u and v have a uniform direction.
    second : the kind of noise on the second row, where it is another.
    """
    k = geometry.dim_out
    count, some = min(max(_ENTRIES // k, _FEWEST), _MOST), max(_BLOCK // k, 1)
    rng = np.random.default_rng(20_130_719)
    parts = []
    for start in range(0, count, some):
        size = min(some, count - start)
        u, v = _images(geometry, size, rng)
        e, f = (_noise(one, (size, k), rng) for one in (kind, second or kind))
        rows = np.stack([u, v, e, f], axis=1)
        parts.append(rows @ rows.transpose(0, 2, 1))
    return SimulatedPairs(np.ascontiguousarray(np.concatenate(parts).transpose(1, 2, 0)))


def _noise(kind: NoiseKind, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Simulated noise of scale 1 on one row of each pair."""
    return rng.laplace(0.0, math.sqrt(0.5), shape) if kind == "laplace" else rng.normal(size=shape)


def _images(geometry: Geometry, count: int, rng: np.random.Generator) -> Floats:
    """Simulated pair of images: two orthonormal rows under ``count`` projections, shape (2, count, k)."""
    d, k = geometry.dim_in, geometry.dim_out
    one, two = rng.normal(size=(2, count, k))
    fixed = geometry.coefficients[0] == 0
    if not fixed and geometry.family != "orthonormal":
        return np.stack([one, two]) / math.sqrt(k)
    # The first k entries of two uniform orthonormal vectors of R^d, made so by Gram and Schmidt. Of the other entries
    # only the Gram matrix is needed, which is Wishart (Bartlett).
    rest = 0 if fixed else d - k
    long, short = (np.sqrt(rng.chisquare(n, count)) if n > 0 else np.zeros(count) for n in (rest, rest - 1))
    across = rng.normal(size=count) if rest > 0 else np.zeros(count)
    squares = [np.sum(a * b, axis=1) for a, b in ((one, one), (one, two), (two, two))]
    first = np.sqrt(squares[0] + long**2)
    shared = (squares[1] + long * across) / first
    second = np.sqrt(np.maximum(squares[2] + across**2 + short**2 - shared**2, np.finfo(float).tiny))
    u = one / first[:, None]
    v = (two - shared[:, None] * u) / second[:, None]
    return np.stack([u, v]) * math.sqrt((k + rest) / k)
