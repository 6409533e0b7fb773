"""Directions in which released rows vary more than their noise, and how much the records behind them vary there.

Released rows z = y + e have the covariance of y plus that of the noise, which is known. Of n rows of k numbers the
eigenvalues of the sample covariance are too large, by a map that random matrix theory gives: a direction of variance
theta, in units of the noise's, shows up as (1 + theta)(1 + gamma / theta), gamma = k / n, if theta > sqrt(gamma), and
not at all otherwise. The direction itself is found up to an angle whose squared cosine is (1 - gamma / theta^2) over (1
+ gamma / theta). So the records have the variance theta cos^2 along the direction that was found, and the rest of theta
across it. What rows show along it, divided by 1 + gamma / theta, is their records' own coordinate plus uncorrelated
noise of variance 1 again: its variance is (1 + theta) / (1 + gamma / theta) = theta cos^2 + 1. Everything here is
post-processing of a release; it costs no privacy.
"""

from dataclasses import dataclass

import numpy as np

from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats

_EXACT = 2048  # rows or columns up to which all eigenvalues are computed
_WIDEST = 256  # directions at most
_ROUNDS = 4  # of subspace iteration
_BLOCK = 1 << 14  # rows at a time


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Records vary about ``mean`` along the columns of ``basis`` with ``variances``, and by ``tail`` across it.

    noise  : variance of the noise on each released number, and on each coordinate.
    shrink : what rows show along the basis is multiplied by this to become coordinates, because the basis was fitted to
             the same rows.
    fitted : the mean squared length of what rows show across the basis is ``rest * tail`` plus this.
    spread : the sum of squared eigenvalues of the records' covariance across the basis.
    """

    mean: Floats
    basis: Floats
    variances: Floats
    tail: float
    noise: float
    shrink: Floats
    fitted: float
    spread: float

    @property
    def rank(self) -> int:
        """The number of directions that stand out of the noise."""
        return len(self.variances)

    @property
    def rest(self) -> int:
        """The number of directions that do not stand out."""
        return len(self.mean) - self.rank

    def across(self, rows: Floats) -> Floats:
        """Squared lengths of records across the basis, by what rows show there with the noise taken off, unbiased."""
        parts = [np.empty(0)]
        for start in range(0, len(rows), _BLOCK):
            centred = rows[start : start + _BLOCK] - self.mean
            parts.append(np.sum(centred**2, axis=1) - np.sum((centred @ self.basis) ** 2, axis=1))
        return np.concatenate(parts) - self.fitted

    def coordinates(self, rows: Floats) -> Floats:
        """Rows in the basis, about the mean, as records' own coordinates with uncorrelated noise."""
        return np.asarray((rows - self.mean) @ (self.basis * self.shrink))


def inverted(observed: Floats, noise: float, gamma: float) -> Floats:
    """Variances behind eigenvalues of a sample covariance, noise taken off; 0 for those that noise alone can make.

    The inverse of (1 + theta)(1 + gamma / theta) in units of the noise, which rises from the edge (1 + sqrt(gamma))^2.
    Reference: Baik and Silverstein 2006, theorem 1.1; Donoho, Gavish and Johnstone 2018, equation 1.10.
    """
    scaled = observed / noise
    middle = scaled - 1 - gamma
    inside = np.sqrt(np.maximum(middle**2 - 4 * gamma, 0.0))
    return np.asarray(np.where(scaled > (1 + np.sqrt(gamma)) ** 2, noise * (middle + inside) / 2, 0.0))


def fit(rows: Floats, law: NoiseLaw) -> Spectrum:
    """The spectrum of the records behind released rows with this noise on each number."""
    (count, width), noise = rows.shape, law.variance
    gamma, mean = width / count, np.asarray(rows.mean(axis=0), np.float64)
    total = _total(rows, mean) / count
    observed, basis = _leading(rows, mean)
    theta = inverted(observed, noise, gamma) / noise
    some = basis.shape[1]
    kept = (theta[:some] > 0) & (np.arange(some) < count - 1)
    kept &= observed[:some] > noise * ((1 + np.sqrt(gamma)) ** 2 + _chance(basis, law, count))
    theta, basis, seen = theta[:some][kept], np.asarray(basis[:, kept], np.float64), observed[:some][kept]
    shrink = 1 / (1 + gamma / theta)
    variances = noise * (theta - gamma / theta) * shrink
    left = max(total - width * noise * (1 - 1 / count) - float(variances.sum()), 0.0)
    tail = left / max(width - len(theta), 1)
    missed = float(np.sum((noise * theta - variances) ** 2))
    spread = max(_squared(observed, total, rows.shape, noise) - float(np.sum((noise * theta) ** 2)), 0.0) + missed
    spread = min(max(spread, left * tail), left**2)
    return Spectrum(mean, basis, variances, tail, noise, shrink, total - float(seen.sum()) - left, spread)


def _chance(basis: Floats, law: NoiseLaw, count: int) -> Floats:
    """By how much chance takes the largest eigenvalue of noise past the edge, for directions like these.

    Four times the scale of its law (Johnstone 2001), more where one number of Laplace noise makes up a direction.
    """
    gamma = len(basis) / count
    scale = count ** (-2 / 3) * gamma ** (-1 / 6) * (1 + np.sqrt(gamma)) ** (4 / 3)
    return np.asarray(4 * scale * np.sqrt(1 + (law.fourth - 2) / 2 * np.sum(basis**4, axis=0)))


def _squared(observed: Floats, total: float, shape: tuple[int, int], noise: float) -> float:
    """The sum of squared eigenvalues of the records' covariance, unbiased but for terms of order 1 / rows.

    Of the sample covariance it is too large by total^2 / rows. Unknown (0) where not all eigenvalues are.
    """
    count, width = shape
    if len(observed) < min(count, width):
        return 0.0
    return float(np.sum(observed**2)) - total**2 / count - 2 * noise * total + width * noise**2


def _total(rows: Floats, mean: Floats) -> float:
    return float(sum(np.sum((rows[s : s + _BLOCK] - mean) ** 2) for s in range(0, len(rows), _BLOCK)))


def _leading(rows: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues of the sample covariance, the largest first, and the eigenvectors of some of the largest."""
    count, width = rows.shape
    if min(count, width) > _EXACT:
        return _subspace(rows, mean)
    if width <= count:
        values, vectors = np.linalg.eigh(_product(rows, mean, None) / count)
        return values[::-1], vectors[:, ::-1][:, :_WIDEST]
    centred = rows - mean
    values, vectors = np.linalg.eigh(centred @ centred.T / count)
    values, vectors = values[::-1], vectors[:, ::-1][:, :_WIDEST]
    least = max(1e-12 * float(values[0]), np.finfo(float).tiny)  # centred rows have a direction without variance
    lengths = np.sqrt(np.maximum(values[:_WIDEST], least) * count)
    return values, centred.T @ vectors / lengths


def _product(rows: Floats, mean: Floats, given: Floats | None) -> Floats:
    """The sum of squares and products of centred rows, a block at a time, times given columns if there are any."""
    total: Floats = np.zeros((rows.shape[1], rows.shape[1] if given is None else given.shape[1]))
    for start in range(0, len(rows), _BLOCK):
        centred = np.ascontiguousarray(rows[start : start + _BLOCK] - mean)
        total += centred.T @ (centred if given is None else centred @ given)
    return total


def _subspace(rows: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """The same for large tables, by subspace iteration from a fixed start (Halko, Martinsson and Tropp 2011)."""
    width = rows.shape[1]
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((width, _WIDEST)))[0]
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(_product(rows, mean, basis))[0]
    values, turned = np.linalg.eigh(basis.T @ _product(rows, mean, basis) / len(rows))
    return values[::-1], (basis @ turned)[:, ::-1]
