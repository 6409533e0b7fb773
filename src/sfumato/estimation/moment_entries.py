"""The laws of all entries of a covariance seen through noise, and of all correlations: every pair of columns at once.

An entry is a form l^T C r of ``covariances`` with l and r along two columns. Its few weights on the published numbers
are written out here, so that a matrix of d columns takes d^2 steps.

A correlation t of columns i and j is where C_ij - t (x C_ii + C_jj / x) / 2 = 0, with x = sqrt(C_jj / C_ii). The left
side is linear in the noise, and its derivative in x is 0, so an estimated x enters to the second order only. In units
of the standard deviations found, its variance is a quadratic in t: A - 2 B t + D t^2. All t under which it is within a
quantile of 0 are the interval (Fieller's argument).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sfumato.estimation.covariances import Noisy, Sketched, View, laplace_sum_tail
from sfumato.numerics.types import Floats

_NODES = np.arange(8, 49) / 8  # numbers of draws between which quantiles are interpolated: no entry has more than 6
_MORE_NODES = np.concatenate([_NODES, np.geomspace(6.5, 1e4, 40)])  # in a sum over owners it has


def entry_errors(view: View) -> tuple[Floats, Floats]:
    """Standard errors of all entries of a covariance, and how many equal Laplace draws err alike in each."""
    covariance = view.covariance()
    if isinstance(view, Sketched):
        spread = np.diag(view.ridged)
        variance = (np.outer(spread, spread) + view.ridged**2) / view.draws
        law = view.count[1]
        variance += 0.0 if law is None else covariance**2 * law.variance
        return np.sqrt(variance) / view.records, np.full_like(variance, math.inf)
    mean, same = view.mean / view.anchor, np.eye(view.dim, dtype=bool)
    across = view.across
    moved = across / 2 * np.abs(np.broadcast_to(mean, covariance.shape))  # by the sum of the other column
    corner = (np.outer(mean, mean) - covariance / view.anchor**2) * (view.public_records is None)
    products = np.where(same, 1.0, across / 2), np.where(same, 2 * moved, moved), np.where(same, 0.0, moved.T), corner
    squares = sum(part**2 for part in products)
    fourths = sum((part**2 / squares) ** 2 for part in products)  # over the square of all: no overflow
    second = view.sum_variance**2 * (1.0 + same) / view.records**2
    errors = np.sqrt(squares * view.law.variance + second) / view.records
    return np.asarray(errors), np.asarray(view.each / fourths)


@dataclass(frozen=True, slots=True, eq=False)
class CorrelationLaw:
    """Correlations found from a covariance, with the variance A - 2 B t + D t^2 of each where the truth is t.

    values : the correlations; nan in rows and columns whose variance is not above 0.
    alike  : how many equal Laplace draws err alike in each.
    """

    values: Floats
    moments: tuple[Floats, Floats, Floats]
    alike: Floats

    @property
    def errors(self) -> Floats:
        """Standard errors of the correlations, with the correlations found plugged in."""
        a, b, d = self.moments
        t = np.clip(self.values, -1.0, 1.0)
        return np.sqrt(np.maximum(a - 2 * b * t + d * t**2, 0.0))


def correlation_law(view: View) -> CorrelationLaw:
    """The law of every correlation of a covariance's columns; what stands on the diagonal has no meaning."""
    covariance = view.covariance()
    spread = np.sqrt(np.where(np.diag(covariance) > 0, np.diag(covariance), np.nan))
    values = covariance / np.outer(spread, spread)
    if isinstance(view, Sketched):
        return CorrelationLaw(values, _sketched(view, spread), np.full_like(values, math.inf))
    return _noisy(view, spread, values)


def _sketched(view: Sketched, spread: Floats) -> tuple[Floats, Floats, Floats]:
    """A, B and D of correlations from a sketch of a covariance, by the moments of the Wishart law."""
    scaled = view.ridged / view.records / spread / spread[:, None]
    here, there = np.diag(scaled)[:, None], np.diag(scaled)
    both = here * there + scaled**2
    halves = (here**2 + there**2) / 2 + scaled**2
    return both / view.draws, scaled * (here + there) / view.draws, halves / view.draws


def _noisy(view: Noisy, spread: Floats, values: Floats) -> CorrelationLaw:
    """Correlations from a noisy covariance: each published number has a weight p - q t in what is 0 at the truth t."""
    inverse = 1 / spread
    here, there = (np.broadcast_to(side, values.shape) for side in (inverse[:, None], inverse))
    mean = view.mean / view.anchor * inverse  # in standard deviations and anchors
    own, other = (np.broadcast_to(side, values.shape) for side in (mean[:, None], mean))
    across, counted = view.across, view.public_records is None
    none = np.zeros_like(values)
    parts = [
        (none, here**2 / 2),
        (none, there**2 / 2),
        (across / 2 * here * there, none),
        (across / 2 * here * other, across / 2 * here * own),
        (across / 2 * there * own, across / 2 * there * other),
        (counted * own * other, counted * (own**2 + other**2) / 2),
    ]
    scale = view.law.variance / view.records**2
    second = (view.sum_variance / view.records**2) ** 2
    a = scale * sum((p * p for p, _ in parts), none) + second * (here * there) ** 2
    b = scale * sum((p * q for p, q in parts), none)
    d = scale * sum((q * q for _, q in parts), none) + second * (here**4 + there**4) / 2
    shares = [(p - q * np.clip(values, -1.0, 1.0)) ** 2 for p, q in parts]
    whole = np.maximum(sum(shares, none), np.finfo(float).tiny)
    fourths = sum(((share / whole) ** 2 for share in shares), none)
    alike = view.each / np.maximum(fourths, np.finfo(float).tiny)
    return CorrelationLaw(values, (a, b, d), np.maximum(alike, 1.0))


def quantiles(view: View, tail: float, alike: Floats) -> Floats:
    """Quantiles of the errors of many forms of a covariance, in standard errors, exceeded with this probability."""
    if isinstance(view, Sketched) or view.law.kind == "gaussian":
        return np.full(alike.shape, view.quantile(tail, math.inf))
    finite = np.where(np.isfinite(alike), alike, 1.0)
    nodes = _NODES if finite.max(initial=1.0) <= _NODES[-1] else _MORE_NODES
    return np.interp(finite, nodes, [_at_node(tail, float(count)) for count in nodes])


@lru_cache(maxsize=4096)
def _at_node(tail: float, count: float) -> float:
    """Quantile of the error of a covariance's entry under Laplace noise, for some number of equal draws."""
    return laplace_sum_tail(tail, count)
