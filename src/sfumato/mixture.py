"""Gaussian models: covariances freed of noise as far as may be, and samples from them. All of it is post-processing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato import check

Floats = NDArray[np.float64]
_FLOOR = 1e-9  # of variances, where rows have length 1 at most


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One Gaussian of a mixture: the rows of one class, or all of them."""

    weight: float
    mean: Floats
    covariance: Floats

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        return {"weight": self.weight, "mean": self.mean.tolist(), "covariance": self.covariance.tolist()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of ``to_dict``."""
        return cls(float(values["weight"]), np.array(values["mean"], float), np.array(values["covariance"], float))


def repaired(noisy: Floats, *, noise_energy: float, shrink: bool, most: float = 1.0) -> Floats:
    """A matrix with noise as a covariance: symmetric, positive semidefinite, with variances of at most ``most``.

    ``noise_energy`` is the expected squared Frobenius norm of the noise, of use with ``shrink`` (``shrunk``). Cutting
    negative eigenvalues never leads away from the truth.
    """
    matrix = (noisy + noisy.T) / 2
    if shrink:
        matrix = shrunk(matrix, noise_energy)
    values, vectors = np.linalg.eigh(matrix)
    whole = (vectors * np.clip(values, _FLOOR, most)) @ vectors.T
    return np.asarray((whole + whole.T) / 2)


def shrunk(matrix: Floats, noise_energy: float) -> Floats:
    """A symmetric matrix whose part that is not spherical is multiplied by (1 - noise_energy / its squared norm)+.

    That is what a Wiener filter would do: where all of it may be noise nothing of it is kept.
    """
    sphere = max(float(np.trace(matrix)) / len(matrix), _FLOOR) * np.eye(len(matrix))
    rest = matrix - sphere
    return np.asarray(sphere + max(0.0, 1 - noise_energy / max(float(np.square(rest).sum()), 1e-300)) * rest)


def within_ball(mean: Floats) -> Floats:
    """A mean of rows of length at most 1 has length at most 1."""
    return np.asarray(mean / max(1.0, float(np.linalg.norm(mean))))


def shares(weights: Sequence[float], rows: int) -> NDArray[np.int64]:
    """How many of the rows fall to each weight, by largest remainders; the same for all if no weight is positive."""
    check.whole(1, rows=rows)
    positive = np.maximum(np.asarray(weights, float), 0.0)
    positive = positive if positive.sum() > 0 else np.ones_like(positive)
    exact = positive / positive.sum() * rows
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: rows - int(counts.sum())]] += 1
    return np.asarray(counts)


def sample(components: Sequence[Component], rows: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Rows from a mixture, in random order, (rows, columns), and the component each came from."""
    counts = shares([c.weight for c in components], rows)
    parts = [_normal(c, int(count), rng) for c, count in zip(components, counts, strict=True)]
    order = rng.permutation(rows)
    return np.concatenate(parts)[order], np.repeat(np.arange(len(components)), counts)[order]


def _normal(component: Component, rows: int, rng: np.random.Generator) -> Floats:
    values, vectors = np.linalg.eigh(component.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(component.mean + rng.standard_normal((rows, len(values))) @ root.T)
