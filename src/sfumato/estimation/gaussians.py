"""Gaussian models: fitted to noisy second moments whose law of noise is known, freed of noise, and sampled.

All of it is post-processing: it costs no privacy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.numerics.types import Floats

Shrink = Literal["spectrum", "linear", "none"]
_FLOOR = 1e-9  # of variances, where rows have length 1 at most
_LABEL_FLOOR = 0.2  # with a label: slopes divide by variances, and go astray along directions whose variance is noise
_TURNS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One Gaussian of a mixture: the rows of one class, or all of them."""

    weight: float
    mean: Floats
    covariance: Floats

    def to_dict(self) -> dict[str, Any]:
        """The Gaussian as JSON-able values."""
        return {"weight": self.weight, "mean": self.mean.tolist(), "covariance": self.covariance.tolist()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """A Gaussian from JSON values: the inverse of ``to_dict``."""
        return cls(float(values["weight"]), np.array(values["mean"], float), np.array(values["covariance"], float))


@dataclass(frozen=True, slots=True, eq=False)
class Fitting:
    """What makes Gaussians of noisy second moments.

    Everything is in units where rows of length 1 are worth 1 and the noise is the same in all columns; a numeric label
    is put in its own, from -1 to 1, at the end.

    columns      : of a row; the last is a numeric label, if there is one.
    numeric      : whether there is one.
    per_label    : what a numeric label of 1 is in the units of the matrices.
    per_constant : what the constant is that stands behind the columns, where sums and counts are in the matrices.
    noise_energy : the expected squared Frobenius norm of the noise on the columns.
    off_variance : the variance of the noise off the diagonal.
    """

    columns: int
    numeric: bool
    per_label: float
    per_constant: float
    noise_energy: float
    off_variance: float
    shrink: Shrink

    def about(self, matrix: Floats, records: float, label: float) -> Component:
        """One Gaussian for all rows, which were centred; the mean of a numeric label is known from before."""
        mean = np.zeros(self.columns)
        if self.numeric:
            mean[-1] = label * self.per_label
        return self._component(1.0, mean, matrix / records - np.outer(mean, mean), records)

    def everyone(self, matrix: Floats, records: float) -> Component:
        """One Gaussian for all rows, whose sum is in the matrix."""
        return self._component(1.0, *self._moments(matrix, records), records)

    def classes(self, matrices: Floats, counts: Floats) -> list[Component]:
        """One Gaussian for each class, weighted by its count."""
        records = np.maximum(counts, 1.0)
        found = [self._moments(matrix, n) for matrix, n in zip(matrices, records, strict=True)]
        weights = np.maximum(counts, 0.0) / max(1.0, float(np.maximum(counts, 0.0).sum()))
        parts = zip(weights, records, found, strict=True)
        return [self._component(float(w), mean, covariance, n) for w, n, (mean, covariance) in parts]

    def _moments(self, matrix: Floats, records: float) -> tuple[Floats, Floats]:
        """Mean and covariance of a Gaussian from a noisy count, sum and second moment.

        The product of a noisy mean with itself is too large by the variance of its noise, which is added back.
        """
        q, p = self.columns, self.columns - self.numeric
        mean = matrix[:q, q] / self.per_constant / records
        mean[:p] = within_ball(mean[:p])
        mean[p:] = np.clip(mean[p:], -self.per_label, self.per_label)
        variance = self.off_variance / (self.per_constant * records) ** 2
        return mean, matrix[:q, :q] / records - np.outer(mean, mean) + variance * np.eye(q)

    def _component(self, weight: float, mean: Floats, covariance: Floats, records: float) -> Component:
        """A Gaussian whose covariance is freed of noise. No direction varies by more than the longest row's square."""
        found = repaired(
            covariance,
            noise_energy=self.noise_energy / records**2,
            shrink=self.shrink,
            floor=_LABEL_FLOOR if self.numeric and self.shrink == "spectrum" else 0.0,
            most=1 + self.per_label**2,
        )
        units = np.ones(self.columns)
        if self.numeric:
            units[-1] = 1 / self.per_label
        return Component(weight, mean * units, found * np.outer(units, units))


def repaired(noisy: Floats, *, noise_energy: float, shrink: Shrink, floor: float = 0.0, most: float = 1.0) -> Floats:
    """A noisy matrix as the covariance of a Gaussian.

    A matrix with noise as a covariance: symmetric, positive semidefinite, with variances of at most ``most``.

    ``noise_energy`` is the expected squared Frobenius norm of the noise; eigenvalues below ``floor`` times the largest
    that the noise alone would have (``edge``) are raised to that. Cutting negative eigenvalues never leads away from
    the truth.
    """
    matrix = (noisy + noisy.T) / 2
    if shrink == "linear":
        matrix = shrunk(matrix, noise_energy)
    values, vectors = np.linalg.eigh(matrix)
    if shrink == "spectrum":
        values = spectrum(values, noise_energy)
    least = max(_FLOOR, floor * edge(len(matrix), noise_energy))
    whole = (vectors * np.clip(values, least, max(least, most))) @ vectors.T
    return np.asarray((whole + whole.T) / 2)


def shrunk(matrix: Floats, noise_energy: float) -> Floats:
    """Shrinkage of a Gaussian's noisy covariance towards the spherical one.

    A symmetric matrix whose part that is not spherical is multiplied by (1 - noise_energy / its squared norm)+.

    That is what a Wiener filter would do: where all of it may be noise nothing of it is kept.
    """
    sphere = max(float(np.trace(matrix)) / len(matrix), _FLOOR) * np.eye(len(matrix))
    rest = matrix - sphere
    return np.asarray(sphere + max(0.0, 1 - noise_energy / max(float(np.square(rest).sum()), 1e-300)) * rest)


def edge(dim: int, noise_energy: float) -> float:
    """How large eigenvalues of noise alone are in a Gaussian's covariance.

    How large eigenvalues of noise alone are: 2 s sqrt(dim), s being its deviation off the diagonal (Wigner).
    """
    return 2 * math.sqrt(noise_energy / dim)


def spectrum(values: Floats, noise_energy: float) -> Floats:
    """Eigenvalues of a Gaussian's covariance freed of noise.

    Eigenvalues freed of noise: those that noise may have made become one level, the others move towards it.

    About the level, x becomes sign(x) sqrt(x^2 - edge^2)+. In units of s sqrt(dim), an eigenvalue d > 1 that stands
    alone is seen as x = d + 1/d, along a direction of squared cosine 1 - 1/d^2 with its own; the least squared error is
    that of d (1 - 1/d^2) = sqrt(x^2 - 4) (Gavish and Donoho 2017; here for symmetric noise). The level is such that
    the trace, which noise hardly moves, stays as it was. Without noise nothing changes.
    """
    cut, level = edge(len(values), noise_energy) ** 2, float(values.mean())
    apart = values - level
    for _ in range(_TURNS):
        apart = values - level
        apart = np.sign(apart) * np.sqrt(np.maximum(np.square(apart) - cut, 0.0))
        level = float((values - apart).mean())
    return np.asarray(level + apart)


def within_ball(mean: Floats) -> Floats:
    """Mean of a fitted Gaussian, no longer than rows can be.

    A mean of rows of length at most 1 has length at most 1.
    """
    return np.asarray(mean / max(1.0, float(np.linalg.norm(mean))))


def shares(weights: Sequence[float], rows: int) -> NDArray[np.int64]:
    """How many rows each Gaussian of a mixture gets by its weight, by largest remainders.

    How many of the rows fall to each weight, by largest remainders; the same for all if no weight is positive.
    """
    check.whole(1, rows=rows)
    positive = np.maximum(np.asarray(weights, float), 0.0)
    positive = positive if positive.sum() > 0 else np.ones_like(positive)
    exact = positive / positive.sum() * rows
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: rows - int(counts.sum())]] += 1
    return np.asarray(counts)


def sample(components: Sequence[Component], rows: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Rows drawn from a mixture of Gaussians, in random order, (rows, columns), and the component each came from."""
    if len(components) == 1:
        return _normal(components[0], rows, rng), np.zeros(rows, np.int64)
    counts = shares([c.weight for c in components], rows)
    parts = [_normal(c, int(count), rng) for c, count in zip(components, counts, strict=True)]
    order = rng.permutation(rows)
    return np.concatenate(parts)[order], np.repeat(np.arange(len(components)), counts)[order]


def _normal(component: Component, rows: int, rng: np.random.Generator) -> Floats:
    values, vectors = np.linalg.eigh(component.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    columns = root @ rng.standard_normal((len(values), rows))
    columns += component.mean[:, None]
    return np.asarray(columns.T)
