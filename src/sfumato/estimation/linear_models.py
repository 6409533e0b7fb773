"""Linear models from a covariance seen through noise: principal components and least squares, with error bars.

Errors are those of quadratic forms of the covariance (``View.form``): of eigenvalues along their vectors, and of
regression coefficients by the delta method. All of it is post-processing of a release: it costs no privacy.
"""

import math
from dataclasses import dataclass

import numpy as np

from sfumato import check
from sfumato.estimation.covariances import View, before_rounding
from sfumato.intervals.estimate import NOISE_ONLY, Ends, Estimate, Number, plain
from sfumato.numerics.types import Floats


class Eigenvalues(Estimate):
    """Estimates of eigenvalues whose intervals hold for all of them at once, asked for or not."""

    __slots__ = ()

    def interval(self, level: float = 0.95, *, simultaneous: bool = True) -> tuple[Number, Number]:
        """(low, high) that hold all principal components' eigenvalues with probability ``level``.

        (low, high) that hold all eigenvalues with probability ``level``, however close together they are.
        """
        del simultaneous
        return Estimate.interval(self, level)


@dataclass(frozen=True, slots=True, eq=False)
class PrincipalComponents:
    """Leading eigenvectors as columns, the largest variance first, with the variance along each.

    Noise pushes eigenvalues apart, so the leading ones look larger than they are where noise rivals the gaps between
    them; the intervals allow for that, the standard errors (of the first order) do not.
    """

    variances: Eigenvalues
    vectors: Floats
    total_variance: float


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """Least squares of a target on features. ``intercept`` is None where no mean is published."""

    features: tuple[str, ...]
    target: str
    coefficients: Estimate
    intercept: float | None


def principal_components(view: View, k: int, most: float) -> PrincipalComponents:
    """The k leading principal components of the covariance as it is, not repaired."""
    covariance = view.covariance()
    check.whole(1, k=k)
    if k > len(covariance):
        raise check.fail("k", k, f"at most {len(covariance)}, the number of encoded columns")
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(covariance))
    vectors = vectors[:, :k] * np.where(vectors[np.abs(vectors[:, :k]).argmax(axis=0), np.arange(k)] < 0, -1.0, 1.0)
    errors = np.array([view.form(v, v, x)[0] for v, x in zip(vectors.T, values[:k], strict=True)])
    moved = float(np.linalg.norm(np.broadcast_to(view.rounding, len(covariance))))

    def bounds(tail: float) -> Ends:
        return before_rounding(view.eigenvalue_bounds(values[:k], tail), moved, most)

    return PrincipalComponents(Eigenvalues(values[:k], errors, NOISE_ONLY, bounds), vectors, float(values.sum()))


def coefficients(view: View, columns: tuple[list[int], int], scaling: Floats, ridge: float) -> Estimate | None:
    """Least-squares regression coefficients, times ``scaling``.

    Regression coefficients, times ``scaling``, with errors by the delta method; None without a positive matrix.
    """
    features, target = columns
    covariance = view.covariance()
    inner = covariance[np.ix_(features, features)] + ridge * np.eye(len(features))
    if float(np.linalg.eigvalsh(inner)[0]) <= 0:
        return None
    inverse = np.linalg.inv(inner)
    found = inverse @ covariance[features, target]
    residual = np.zeros(len(covariance))
    residual[features], residual[target] = -found, 1.0
    directions = np.zeros((len(features), len(covariance)))
    directions[:, features] = inverse
    parts = [view.form(direction, residual) for direction in directions]
    errors, alike = (np.array(part) for part in zip(*parts, strict=True))
    value, error = found * scaling, errors * np.abs(scaling)
    rounded = np.array([_rounded(view, covariance, direction, residual) for direction in directions]) * np.abs(scaling)

    def bounds(tail: float) -> Ends:
        reach = error * np.array([view.quantile(tail, count) for count in alike]) + rounded
        return value - reach, value + reach

    return Estimate(plain(value), plain(error), NOISE_ONLY + ", to first order", bounds)


def _rounded(view: View, covariance: Floats, left: Floats, right: Floats) -> float:
    """How much rounding of rows moved a regression's covariance form left^T covariance right at most.

    By Cauchy's inequality, from <Xl, Yr> - <X'l, Y'r>.
    """
    moved = [float(np.sum(np.abs(side) * view.rounding)) for side in (left, right)]
    length = [math.sqrt(max(float(side @ covariance @ side), 0.0)) for side in (left, right)]
    return moved[0] * length[1] + length[0] * moved[1] + moved[0] * moved[1]
