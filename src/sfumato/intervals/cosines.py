"""Confidence intervals of cosines c = <x, y> / (||x|| ||y||) from noisy images z = xP + e, w = yP + f.

Over a random P: r = <z, w> / (||z|| ||w||) estimates rho = c s, where s^2 is the product of the shares that ||x||^2 and
||y||^2 have in what is published of their rows. The law of r depends on rho alone (gaussian P, Gaussian noise: Fisher
1915; orthonormal P without noise likewise), and with the Cholesky factor l of a standard matrix

    r below r' exactly when rho / sqrt(1 - rho^2) < (r' / sqrt(1 - r'^2) l22 - l21) / l11,

so quantiles of the right hand side at the r seen are exact bounds of rho. Under noise alone rho passes if r - rho is
within its standard error, to first order and as a function of rho, as in Fieller's theorem.

Intervals of s follow from those of the two lengths (``squared_lengths``). The bounds of c are the extremes of rho / s
over the quarter ellipse between the ends of both, as for independent errors (Zou and Donner 2008). Far from the noise s
is known, and what remains is exact, but for c = 1 or -1 itself, which is reached more often.

No interval can be exact near the noise. As a row tends to 0 the law of what is published tends to one that is the same
for all c, so intervals that cover each c in [-1, 1] with probability 95% have a mean length of 95% of the whole, and
those that cannot exclude anything, as they should, cover with probability 1 (Gleser and Hwang 1987).
"""

import math
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
import scipy

from sfumato.intervals import squared_lengths
from sfumato.intervals.estimate import Ends
from sfumato.intervals.inner_products import (
    DIRECTION,
    EXACT,
    TURNS,
    between,
    canonical,
    laplace_scores,
    standing,
)
from sfumato.intervals.moments import Geometry, SketchLaw
from sfumato.intervals.pair_law import Gram
from sfumato.intervals.squared_lengths import LengthLaw
from sfumato.numerics.bisection import bisected
from sfumato.numerics.types import Bools, Floats

_NODES = np.arange(-6.0, 6.3, 0.6)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.sum(np.exp(-(_NODES**2) / 2))
_ARC = np.linspace(0.0, math.pi / 2, 13)
_FULL = 1 - 1e-15
_LOW = 0.5  # of the tail, for low ends of lengths: near 0 they miss twice as often as others

Triple: TypeAlias = tuple[Floats, Floats, Floats]


def bounds(tail: float, pair: Gram, law: SketchLaw) -> Ends:
    """(low, high) for the cosines behind pairs of rows; each end misses with probability at most about ``tail``."""
    seen, standard = pair.over(law.noises), canonical(law)
    size = np.sqrt(seen.squared_z * seen.squared_w)
    r = np.clip(seen.inner / np.where(size > 0, size, 1.0), -_FULL, _FULL)
    if law.fixed:
        low, high = _under_noise(tail, r, seen, standard)
        if tail < EXACT:
            reach = _of_parallel_rows(tail, seen, standard)
            low, high = np.maximum(low - reach, -1.0), np.minimum(high + reach, 1.0)
    else:
        geometry = standard.geometry
        part = _part(r, seen, geometry)
        low, high = _lower(tail, r, part, geometry), -_lower(tail, -r, part, geometry)
    shares = _shares(tail, seen, standard)
    return np.clip(-_extreme(-r, -low, shares), -1.0, 1.0), np.clip(_extreme(r, high, shares), -1.0, 1.0)


def _shares(tail: float, pair: Gram, both: SketchLaw) -> Triple:
    """Logarithm of s, by which noise shrinks a cosine, with its interval.

    The log of s, and how far below and above it the ends of its interval are.

    What Laplace noise adds to the variance of a length moves r and s by the same draw. Together it moves rho / s by its
    part of the length without noise; what the intervals of rho (none of it, over projections) and s leave is added. The
    low end of a length near 0 misses with nearly all of 2 * tail (``squared_lengths``). There c is missed if that end
    misses or if that of rho does, so it is taken at half the tail: together 2 * tail.
    """
    fixed = both.fixed
    middle, less, more = np.zeros_like(pair.inner), np.zeros_like(pair.inner), np.zeros_like(pair.inner)
    for one, rows in zip(pair.rows, both.each, strict=True):
        law, squares = LengthLaw(rows, 1), one.squares
        excess = scipy.special.ndtri(tail) ** 2 * (law.noise.fourth - 2) / 4 * law.geometry.dim_out
        low, high = squared_lengths.bounds(_LOW * tail, one, law)[0], squared_lengths.bounds(tail, one, law)[1]
        value = np.maximum(squares - law.bias, law.bias / 10)
        ends = [-np.log1p(law.bias / np.maximum(length, 1e-30 * law.bias)) / 2 for length in (low, value, high)]
        noise = law.bias / np.maximum(squares, law.bias)
        heavy = excess * (2 * noise * (1 - noise) if fixed else 1 - noise**2) / value**2
        middle, less, more = (
            middle + ends[1],
            less + (ends[1] - ends[0]) ** 2 + heavy,
            more + (ends[2] - ends[1]) ** 2 + heavy,
        )
    return middle, np.sqrt(less), np.sqrt(more)


def _extreme(middle: Floats, end: Floats, shares: Triple) -> Floats:
    """End of a cosine's interval.

    The largest rho / s with rho towards ``end`` and s off its middle, on the quarter ellipse between the two.
    """
    share, less, more = shares
    best = np.full(np.shape(middle), -np.inf)
    for angle in _ARC:
        rho = middle + (end - middle) * math.cos(angle)
        best = np.maximum(best, rho * np.exp(math.sin(angle) * np.where(rho > 0, less, -more) - share))
    return best


# ---- bounds of rho --------------------------------------------------------------------------------------------------


def _under_noise(tail: float, r: Floats, pair: Gram, law: SketchLaw) -> Ends:
    """Interval of the sample cosine's mean rho under noise alone.

    All rho with (r - rho)^2 <= score^2 (g + h rho^2), the variance of r to first order: ends of a quadratic.
    """
    a, b, k = pair.squared_z, pair.squared_w, law.geometry.dim_out
    n, m = np.maximum(a - k, 0.0), np.maximum(b - k, 0.0)
    one, two = (noise.fourth / 4 * k for noise in law.noises)
    score: Floats | float = -float(scipy.special.ndtri(tail))
    if any(law.heavy):
        spread = _spread(pair, law)
        score = laplace_scores(tail)(np.minimum(spread if tail >= EXACT else 2 * spread, 1.0)) * (1 + DIRECTION / k)
    g = score**2 * (n + m + k) / (a * b)
    h = score**2 * ((n + one) / a**2 + (m + two) / b**2 - 2 / a - 2 / b)
    root = np.sqrt(np.maximum(r * r - (1 - h) * (r * r - g), 0.0))
    open_ends = 1 - h <= 0
    low, high = (np.where(open_ends, sign, (r + sign * root) / np.where(open_ends, 1.0, 1 - h)) for sign in (-1.0, 1.0))
    return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


def _spread(pair: Gram, law: SketchLaw) -> Floats:
    """Concentration of the noise in a sample cosine r, a weighted sum of its entries.

    The concentration of the weights with which r is a sum of noises: of e those of w over ||z||, of f the others.

    That of a row is 3 / (k + 2) for a random direction, and more where fourth powers show that it lies in few entries.
    Only weights of Laplace noise count.
    """
    k, spread = law.geometry.dim_out, np.zeros_like(pair.inner)
    for row, own, along in zip(pair.rows, law.each, reversed(law.heavy), strict=True):
        if not along:
            continue
        known = np.any(row.fourths)
        most = squared_lengths.concentration_of(row, LengthLaw(own, 1))[0] if known else np.zeros_like(row.squares)
        spread = spread + row.squares**2 * np.clip(most, min(3 / (k + 2), 1.0), 1.0)
    return np.asarray(spread / np.maximum(pair.squared_z + pair.squared_w, 1e-300) ** 2)


def _of_parallel_rows(tail: float, pair: Gram, both: SketchLaw) -> Floats:
    """Second-order term of a cosine's interval, for nearly parallel rows.

    What the second order may add, which is all there is where c = 1 or -1: 1 - |r| is then (1/A + 1/B) ||n||^2 / 2.

    n is noise across the rows; its squared length may exceed the mean, which s accounts for, by its quantile (of two
    kinds of noise, the heavier's).
    """
    law = LengthLaw(both.each[both.heavy[1]], 1)
    none = np.zeros(1)
    _, most = law.quantiles(none, (none + tail, none + tail), law.spread)
    squares = (np.maximum(squared, 1e-300) for squared in (pair.squared_z, pair.squared_w))
    return np.asarray(sum(1 / squared for squared in squares) / 2 * most[0])


def _part(r: Floats, pair: Gram, geometry: Geometry) -> Floats:
    """d/D for the D of the matrix beta whose sample cosine varies as r does.

    r varies with what each row has across the other, of which (s^2 - r^2) / (1 - r^2) is projected and the rest noise.
    """
    if geometry.family != "orthonormal":
        return np.zeros_like(r)
    k = geometry.dim_out
    n, m = (np.maximum(1 - k / np.maximum(squared, 1e-300), 0.0) for squared in (pair.squared_z, pair.squared_w))
    projected = np.clip((n * m - r * r) / (1 - r * r), 0.0, 1.0)
    return standing(1 - projected * (1 - k * geometry.coefficients[0]), geometry)


def _lower(tail: float, r: Floats, part: Floats, geometry: Geometry) -> Floats:
    """Lower bounds of a cosine rho from a table over artanh r. Beyond the table both ends move alike."""
    turn = np.arctanh(r)
    within = np.clip(turn, TURNS[0], TURNS[-1])
    return np.asarray(np.tanh(between(partial(_table, tail), within, part, geometry) + turn - within))


@lru_cache(maxsize=512)
def _table(tail: float, k: int, dim_in: float) -> Floats:
    """Lower bounds of cosines over projections, tabulated.

    The artanh of the lower bounds at TURNS, by bisection: Pr[... <= end] = tail, averaged over l11 and l22.
    """
    one, two = (_size(n, k, dim_in) for n in (k, k - 1))
    one, two, weights = one[:, None], two[None, :], _WEIGHTS[:, None] * _WEIGHTS[None, :]

    def below(artanh: Floats) -> Bools:
        edge = np.sinh(TURNS)[:, None, None] * two - np.sinh(artanh)[:, None, None] * one
        if math.isinf(dim_in):
            above = scipy.special.ndtr(-edge)
        else:
            eta = np.clip(edge / np.sqrt((1 - one**2) * (1 - two**2)), -_FULL, _FULL)
            freedom = max(dim_in - k - 1, 0.5)  # eta is a coordinate of a unit vector in d - k dimensions
            above = scipy.special.stdtr(freedom, -eta / np.sqrt(1 - eta**2) * math.sqrt(freedom))
        return np.asarray(np.sum(weights * above, axis=(1, 2)) < tail)

    low, high = bisected(below, np.full(TURNS.shape, -20.0), np.full(TURNS.shape, 20.0), 36)
    return np.asarray((low + high) / 2)


def _size(freedom: int, k: int, dim_in: float) -> Floats:
    """Quantiles at _NODES of l11 or l22 in the law of sample cosines: chi, or the root of a beta variable."""
    shape, beyond = max(freedom, 0.5) / 2, scipy.special.ndtr(_NODES)
    if math.isinf(dim_in):
        return np.asarray(np.sqrt(2 * scipy.special.gammaincinv(shape, beyond)))
    return np.asarray(np.sqrt(np.minimum(scipy.special.betaincinv(shape, (dim_in - k) / 2, beyond), _FULL)))
