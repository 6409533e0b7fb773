"""What a sketch will cost, before it is drawn: noise levels and sensitivities in plain floating point, in microseconds.

The planner compares thousands of configurations, up to millions of columns, so it cannot draw each projection or
calibrate in ball arithmetic. These are the same quantities to about 1%: exact where a family's sensitivity is not
random (identity, sparse, rademacher), an average over draws elsewhere. Nothing here protects anybody: a release
calibrates its own noise on its own integers.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy

from sfumato.intervals.moments import Geometry, NoiseKind
from sfumato.numerics.bisection import crossings
from sfumato.numerics.types import Floats
from sfumato.privacy import profiles
from sfumato.privacy.calibration import least_level, replaced_guess
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import ChiSquare, Gaussian, Laplace
from sfumato.tables.encoding import Group
from sfumato.tables.schema import Schema

_LARGEST_ENUMERATED = 16  # as projection.py: maxima over signs are exact up to here
_MANY = 2000  # the largest of more draws than this hardly varies
_WIDTH = 9.0  # how many standard deviations of a random stretch are integrated
_TRACY_WIDOM = -1.2065, 1.6078  # mean and variance of the largest eigenvalue's law


# ---- the columns ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnWidths:
    """What the sensitivities need to know of a schema: weighted widths c_j of its encoded columns.

    widest, total, length : max c_j, sum c_j, ||c||_2, with a category counted as the two columns one value moves.
    group1, group2        : the widest column that takes several encoded ones, in l1 and l2, or 0.
    squared_typical       : the mean squared distance of two records drawn uniformly within the bounds.
    flags                 : whether all columns are flags of weight 1.
    """

    dim: int
    widest: float
    total: float
    length: float
    group1: float
    group2: float
    squared_typical: float
    flags: bool = False

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """Column widths of a schema, for forecast sensitivities."""
        encoding = schema.encoding
        alone, groups = encoding.alone, encoding.groups
        own = encoding.ranges[alone]
        flags = np.zeros(encoding.dim, bool)
        flags[list(encoding.flags)] = True
        squared = float(np.sum(own**2 * np.where(flags[alone], 1 / 2, 1 / 6)))
        return cls(
            dim=encoding.dim,
            widest=float(own.max(initial=0.0)),
            total=float(own.sum()) + sum(group.reach1 for group in groups),
            length=math.sqrt(float(np.sum(own**2)) + sum(group.reach2**2 for group in groups)),
            group1=max((group.reach1 for group in groups), default=0.0),
            group2=max((group.reach2 for group in groups), default=0.0),
            squared_typical=squared + sum(_typical(group, encoding.ranges) for group in groups),
            flags=bool(flags.all() and (encoding.weights == 1).all()),
        )

    @classmethod
    def flags_of(cls, dim: int) -> Self:
        """Column widths of that many flags, without building a schema."""
        return cls(dim, 1.0, float(dim), math.sqrt(dim), 0.0, 0.0, dim / 2, flags=True)


def _typical(group: Group, ranges: Floats) -> float:
    """Forecast: the mean squared distance that one group adds for two records drawn uniformly among its values."""
    own = ranges[group.start : group.stop]
    if group.most is not None:
        return 2 * group.most * float(own.max()) ** 2 * (1 - group.most / own.size)
    spread = float(np.sum(own**2)) / 6
    return spread if group.bound is None else min(spread, group.reach2**2 / 2)


# ---- how far one unit moves a sketch --------------------------------------------------------------------------------


def reach(shape: Geometry, order: int, change: Change, widths: ColumnWidths) -> float:
    """Forecast sensitivity of a sketch: how far one unit moves its rows in the l1 or l2 norm.

    Section 2 of the mathematics, at a typical P.
    """
    if change.kind == "attribute":
        group = widths.group1 if order == 1 and shape.family in ("identity", "sparse") else widths.group2
        return row_norm(shape, order) * max(widths.widest, group)
    if change.kind == "box":
        return _box(shape, order, widths)
    radius = change.radius or 0.0
    ball = radius * (row_norm(shape, order) if change.kind == "l1" else _spectral(shape, order))
    return min(ball, _box(shape, order, widths)) if radius >= widths.widest else ball


def _box(shape: Geometry, order: int, widths: ColumnWidths) -> float:
    return min(widths.total * row_norm(shape, order), widths.length * _spectral(shape, order))


def _spectral(shape: Geometry, order: int) -> float:
    """Forecast of max ||vP|| over the unit ball, at a typical P.

    Max ||vP|| over the unit ball: sigma_max in the l2 norm; up to sqrt(k) times that in the l1 norm.
    """
    if order == 2:
        return largest_singular(shape)
    if shape.dim_out <= _LARGEST_ENUMERATED and shape.family == "sparse":
        return math.sqrt(shape.dim_in)  # the buckets are orthogonal: sqrt of the sum of their squared lengths
    return math.sqrt(shape.dim_out) * largest_singular(shape)


# Where a sensitivity is random, its fourth power is averaged: that is how noise enters the variance of a distance
# where it matters. Ranks u^(1/d) of one row's law are the quantiles u of the largest of d.
_NODES, _WEIGHTS = (np.asarray(column) for column in np.polynomial.legendre.leggauss(12))


def _of_largest(quantile: Callable[[float], float], count: int) -> float:
    """Forecast of the largest of many random norms.

    The fourth root of the mean fourth power of the largest of ``count`` draws of a law; its median if very many.
    """
    if count > _MANY:
        return quantile(0.5 ** (1 / count))
    values = np.array([quantile(((node + 1) / 2) ** (1 / count)) for node in _NODES])
    return float(np.sum(_WEIGHTS / 2 * values**4) ** 0.25)


@functools.lru_cache(maxsize=1 << 14)
def row_norm(shape: Geometry, order: int) -> float:
    """Forecast of the largest row norm max_j ||P_j|| of a projection not yet drawn.

    max_j ||P_j||: the same for every draw of the first three, averaged over draws for the others.
    """
    d, k = shape.dim_in, shape.dim_out
    fixed = {"identity": 1.0, "sparse": 1.0, "rademacher": math.sqrt(k) if order == 1 else 1.0}
    if shape.family in fixed:
        return fixed[shape.family]
    if shape.family == "orthonormal" and k == d and order == 2:
        return 1.0
    quantile = {"achlioptas": _achlioptas_row, "gaussian": _gaussian_row, "orthonormal": _orthonormal_row}[shape.family]
    return _of_largest(lambda rank: quantile(rank, shape, order), d)


def _achlioptas_row(rank: float, shape: Geometry, order: int) -> float:
    filled = max(1.0, _binomial_quantile(rank, shape.dim_out, 1 / 3))
    return math.sqrt(3 / shape.dim_out) * (filled if order == 1 else math.sqrt(filled))


def _gaussian_row(rank: float, shape: Geometry, order: int) -> float:
    k = shape.dim_out
    return math.sqrt(scipy.special.chdtri(k, 1 - rank) / k) if order == 2 else _sum_quantile(k, rank)


def _orthonormal_row(rank: float, shape: Geometry, order: int) -> float:
    d, k = shape.dim_in, shape.dim_out
    if k == d:
        return _sum_quantile(k, rank)
    length = math.sqrt(d / k * scipy.special.betaincinv(k / 2, (d - k) / 2, rank))
    return length if order == 2 else _sum_quantile(k, rank) * length / _gaussian_row(rank, shape, 2)


def _sum_quantile(k: int, rank: float) -> float:
    """Forecast of a Gaussian row's l1 norm: the quantile of sum |g_i| / sqrt(k), by its first three moments."""
    mean, variance = math.sqrt(2 / math.pi), 1 - 2 / math.pi
    skewness = math.sqrt(2) * (4 - math.pi) / (math.pi - 2) ** 1.5 / math.sqrt(k)
    shape = 4 / skewness**2
    deviate = (scipy.special.gammaincinv(shape, rank) - shape) / math.sqrt(shape)
    return float(math.sqrt(k) * mean + math.sqrt(variance) * deviate)


@functools.lru_cache(maxsize=1 << 14)
def largest_singular(shape: Geometry) -> float:
    """Forecast of sigma_max(P) of a projection not yet drawn.

    sigma_max(P): exact for identity and orthonormal, averaged over draws for the others.
    """
    d, k = shape.dim_in, shape.dim_out
    if shape.family == "identity":
        return 1.0
    if shape.family == "orthonormal":
        return math.sqrt(d / k)
    if shape.family == "sparse":
        return _of_largest(lambda rank: math.sqrt(max(1.0, _binomial_quantile(rank, d, 1 / k))), k)
    root = math.sqrt(max(d - 1, 0)) + math.sqrt(k)
    spread = root * (1 / math.sqrt(max(d - 1, 1)) + 1 / math.sqrt(k)) ** (1 / 3)
    square = root * root + _TRACY_WIDOM[0] * spread
    return float((square**2 + _TRACY_WIDOM[1] * spread**2) ** 0.25 / math.sqrt(k))


def _binomial_quantile(rank: float, trials: int, chance: float) -> float:
    return float(np.ceil(scipy.special.bdtrik(rank, trials, chance) - 1e-9)) if chance < 1 else float(trials)


def distances_reach(order: int, guarantee: Guarantee, change: Change, widths: ColumnWidths, rows: int) -> float:
    """Forecast sensitivity of noisy distances.

    How far one unit moves all squared distances of n records, in the l1 or l2 norm: see ``mechanisms.distances``.
    """
    if change.kind == "attribute":
        one = both = max(widths.widest**2, widths.group2**2)
    elif change.kind == "box":
        one = both = widths.length**2
    else:
        one, both = (_farther(copies * (change.radius or 0.0), widths.length) for copies in (1, 2))
    group = min(guarantee.group, rows)
    counts = group * (rows - group), group * (group - 1) / 2
    if order == 1:
        return counts[0] * one + counts[1] * both
    return math.hypot(math.sqrt(counts[0]) * one, math.sqrt(counts[1]) * both)


def _farther(radius: float, diameter: float) -> float:
    return diameter**2 if radius >= diameter else radius * (2 * diameter - radius)


# ---- how much noise a promise asks for ------------------------------------------------------------------------------


def noises(guarantee: Guarantee) -> tuple[NoiseKind, ...]:
    """The kinds of noise that a forecast considers: those that can keep a promise."""
    return ("laplace",) if guarantee.delta == 0 else ("laplace", "gaussian")


def fixed_level(noise: NoiseKind, epsilon: float, delta: float) -> float:
    """Forecast noise level, its standard deviation over the sensitivity, for a fixed projection: exact."""
    if noise == "laplace":
        return math.sqrt(2) * least_level(lambda b: Laplace(1.0, b), epsilon, delta, start=1 / epsilon)
    return least_level(lambda s: Gaussian(1.0, s), epsilon, delta, start=1 / epsilon)


def fresh_levels(shapes: list[Geometry], epsilon: float, delta: float) -> Floats:
    """Forecast levels of Gaussian noise for fresh projections.

    Standard deviation of Gaussian noise over the radius, for fresh gaussian or orthonormal projections.
    """
    stretches, weights = (np.array(column) for column in zip(*map(stretch, shapes), strict=True))

    def excess(scale: Floats) -> Floats:
        found = profiles.gaussian_in_doubles(epsilon, stretches / scale[:, None])
        return np.asarray(np.sum(weights * found, axis=1) - delta)

    return crossings(excess, len(shapes), fixed_level("gaussian", epsilon, delta))


def stretch(shape: Geometry, points: int = 241) -> tuple[Floats, Floats]:
    """Quadrature for forecasts over the stretch of a fresh projection.

    Points and weights for averages over ||vP||/||v|| of a fresh projection; its tail carries delta.
    """
    d, k = shape.dim_in, shape.dim_out
    if shape.family == "orthonormal" and k == d:
        return np.ones(points), np.full(points, 1 / points)
    most = math.sqrt(d / k) if shape.family == "orthonormal" else math.inf
    low, high = max(0.0, 1 - _WIDTH / math.sqrt(2 * k)), min(most, 1 + _WIDTH / math.sqrt(k))
    places = low + (high - low) * (np.arange(points) + 0.5) / points
    if shape.family == "orthonormal":
        inside = np.clip(places**2 * k / d, 1e-300, 1 - 1e-15)
        logs = (k - 1) * np.log(places) + ((d - k) / 2 - 1) * np.log1p(-inside)
    else:
        logs = (k - 1) * np.log(places) - k * places**2 / 2
    density = np.exp(logs - logs.max())
    return places, density / density.sum()


def fresh_laplace_level(epsilon: float, delta: float) -> float:
    """Forecast level of Laplace noise for a fresh Gaussian projection.

    Standard deviation of Laplace noise over the radius, for a fresh gaussian projection to one column: exact.
    """

    def excess(scale: Floats) -> Floats:
        found = profiles.folded_laplace(epsilon, dim_out=1, radius=1.0, laplace_scale=float(scale[0]))
        return np.array([found - delta])

    return math.sqrt(2) * float(crossings(excess, 1, 4 / epsilon, rounds=24)[0])


def ridge_level(rows: int, guarantee: Guarantee) -> float:
    """Forecast level of the ridge of a Gaussian sketch.

    1/s for a Gaussian sketch of so many rows: how many squared lengths of a record its ridge must be.
    """
    if guarantee.neighbours == "replace":
        return replaced_guess(rows, guarantee.epsilon, guarantee.delta)
    return least_level(lambda level: ChiSquare(rows=rows, ratio=1 / level), guarantee.epsilon, guarantee.delta)


def more_columns(dim_out: int) -> float:
    """Forecast of how much more Laplace noise a few columns ask for than one.

    After a fresh Gaussian projection: about 0.6% for each doubling.

    Within 1% of the composed value up to 8 columns, for epsilon from 0.1 to 4 and delta from 1e-6 to 1e-3.
    """
    return 1 + 0.006 * math.log2(dim_out)
