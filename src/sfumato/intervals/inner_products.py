"""Confidence intervals of inner products t = <x, y> from noisy images z = xP + e, w = yP + f.

Let A = ||z||^2, B = ||w||^2, T = <z, w>, r = T / sqrt(AB). For gaussian P under Gaussian noise of variance s^2 the
matrix of A, T, B is Wishart with k degrees of freedom and mean [[||x||^2 + k s^2, t], [t, ||y||^2 + k s^2]], near and
far alike. Its Cholesky factor is that of the mean times one of known law (Bartlett), which solved for t reads

    t = sqrt(AB) (r + sqrt(1 - r^2) Y) / L,     L ~ chi2_k / k,     Y = Student_{k-1} / sqrt(k - 1), independent.

A first interval is the middle of the law of the right hand side, with r as seen (Fisher's fiducial law; the posterior
under the right Haar prior). Its ends miss just as often as they should where z and w have correlation 0 (an end passes
0 when Student's test on r says so) or 1 or -1 (t L = T). Between, the end towards 0 misses less often, by a share that
falls with k. Up to its size the interval is a function of r alone, so the heavy tails of products of Laplace noise
matter little, as A and B share them, and the variance of the noise is not needed.

- rademacher, achlioptas and sparse P: the same, as the limit for rows spread over many columns.
- orthonormal P: without noise the matrix is a matrix beta, and in the same way, exactly,
  t = sqrt(AB) (r + sqrt(1 - r^2) sqrt(1 - S) Y) / L,   S ~ Beta(k/2, (d - k)/2),   L = S d/k.
  With noise, the d that gives T its variance stands for d; it tends to infinity as rows sink into the noise.
- P that is not random: T is normal but for <e, f>, and under Gaussian noise its law depends on t and ||x||^2 + ||y||^2
  alone. A normal interval with the estimated variance, exact far away; under Laplace noise with the score for rows as
  concentrated as they look.

What these first intervals miss their level by, at few columns and near the noise, their arms are then stretched by
(``prepivoting``). That is done by simulation, so for tails down to 0.4%; smaller ones (simultaneous levels) have
cautious ends of their own and never less.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import scipy

from sfumato.intervals import squared_lengths
from sfumato.intervals.estimate import Ends
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.intervals.pair_law import Gram
from sfumato.intervals.prepivoting import Arms, bilinear, stretched
from sfumato.intervals.squared_lengths import LengthLaw, Seen, beta_quantiles, gamma_quantiles
from sfumato.numerics.bisection import bisected
from sfumato.numerics.types import Bools, Floats

_NODES = np.arange(-6.5, 6.55, 0.05)  # normal quantiles over which L is averaged
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.sum(np.exp(-(_NODES**2) / 2))
TURNS = np.linspace(-4.0, 4.0, 65)  # artanh r; beyond, Y hardly matters (k > 3) and the nodes do not resolve it
_PARTS = np.linspace(0.0, 1.0, 5)  # d over the d that stands for it
EXACT, _MOST = 0.004, 0.25  # tails between these are held to their level; smaller ones (simultaneous) err outwards

DIRECTION = 0.1  # by how much, over k, arms are longer for directions that fourth powers do not tell apart


def bounds(tail: float, pair: Gram, law: SketchLaw) -> Ends:
    """(low, high) for the inner products behind pairs of rows; each end misses with probability about ``tail``."""
    standard, (one, two) = canonical(law), law.noises
    seen, unit = pair.over(law.noises), one.scale * two.scale
    if law.geometry.dim_out == 1 or tail > _MOST:
        low, high = rule(tail, seen, standard)
    else:
        low, high = stretched(seen, Arms(rule, max(tail, EXACT), standard))
    if tail < EXACT:
        outer = _outer(tail, seen, standard)
        low, high = np.minimum(low, outer[0]), np.maximum(high, outer[1])
    return low * unit, high * unit


def canonical(law: SketchLaw) -> SketchLaw:
    """The law of inner products in units of the noise's scale, with one geometry for all that share their intervals.

    Each row is in units of its own noise. <x, y> over both scales is the inner product of rows so scaled, so two noises
    of one kind are no new case; only a Gaussian and a Laplace one together are.
    """
    if law.fixed:
        return law.unit.of_image
    if law.geometry.family == "orthonormal":
        return law.unit
    return replace(law.unit, geometry=Geometry("gaussian", 1, law.geometry.dim_out))


def rule(tail: float, pair: Gram, law: SketchLaw) -> Ends:
    """Confidence intervals of inner products before their arms are stretched."""
    return _under_noise(tail, pair, law) if law.fixed else _over_projections(tail, pair, law)


def _under_noise(tail: float, pair: Gram, law: SketchLaw) -> Ends:
    """Interval of the inner product t under noise alone, from T = <z, w>.

    Var T = s^2 (E A + E B) - k s^4; where A + B is less than the noise's, the variance taken falls as its square.

    That keeps it positive and, for rows lost in the noise, free of bias to first order. At small tails, which are not
    stretched, the outer end lies further by s^4 t (score^2 + 1) / Var T, which Cov(T, A + B) = 4 s^2 t and the third
    cumulant 6 s^4 t, under either noise, call for.
    """
    noise, bias, score = law.noise, law.bias, _score(tail, pair, law)
    mean = (pair.squared_z + pair.squared_w) / 2
    variance = noise.variance * np.where(mean < bias, mean**2 / bias, 2 * mean - bias)
    reach = score * np.sqrt(variance)
    most, least = np.maximum(mean - bias, 0.0), np.maximum(variance, bias * noise.variance)
    further = noise.variance**2 * np.clip(pair.inner, -most, most) * (score**2 + 1) / least
    further = further if tail < EXACT else 0 * further
    return pair.inner - reach + np.minimum(further, 0.0), pair.inner + reach + np.maximum(further, 0.0)


def _score(tail: float, pair: Gram, law: SketchLaw) -> Floats:
    """How many standard errors an estimated inner product T may be off, far away.

    There T - t is a sum of 2k independent terms with the entries of x and y for weights. Under Laplace noise its
    quantiles depend on their concentration, the sum of fourth powers over the square of the sum of squares, which is
    estimated; spread rows of equal lengths have 3 / (2k + 4). Only the share of the variance that is not <e, f> counts.
    If one noise is Gaussian, only the entries that Laplace noise is along do: those of the row that has the other.
    """
    k = law.geometry.dim_out
    if not any(law.heavy):
        return np.asarray(-scipy.special.ndtri(tail))
    total = np.maximum(pair.squared_z + pair.squared_w - 2 * k, 0.0)
    share, scores = (total / (total + k)) ** 2, laplace_scores(tail)
    if not np.any(pair.fourth_z):
        return np.asarray(scores(share * _spread(pair, law)))
    fourths = sum(
        along * (row.fourths - 6 * (row.squares - k) - (own.fourth + 1) * k)
        for row, own, along in zip(pair.rows, law.noises, reversed(law.heavy), strict=True)
    )
    least = 1 / (2 * k) if all(law.heavy) else 0.0
    concentration = np.clip(fourths / np.maximum(total**2, 1.0), least, 1.0)
    return np.asarray(scores(share * concentration) * (1 + DIRECTION / k))


def _spread(pair: Gram, law: SketchLaw) -> Floats | float:
    """Concentration of the entries along which Laplace noise moves an inner product, of spread rows.

    3 / (k + 2) for a row of uniform direction; of two, taken as equally long; of the one that has the Gaussian noise,
    times the square of its share.
    """
    k = law.geometry.dim_out
    if all(law.heavy):
        return 3 / (2 * k + 4)
    lengths = [np.maximum(row.squares - k, 0.0) for row in pair.rows]
    return np.asarray((lengths[law.heavy[0]] / np.maximum(lengths[0] + lengths[1], 1e-300)) ** 2 * 3 / (k + 2))


def laplace_scores(tail: float) -> Callable[[Floats], Floats]:
    """Quantiles of the error of an inner product under Laplace noise, a weighted sum of its draws.

    Quantiles of weighted sums of Laplace noise, in standard deviations, by the concentration of the weights.

    Known for 1 and 1/2 (one term, two equal ones) and 0 (normal), quadratic between.
    """
    unit = NoiseLaw("laplace", 1.0)
    one, two, many = unit.tail(tail, 1), unit.tail(tail, 2) / math.sqrt(2), -float(scipy.special.ndtri(tail))
    return np.polynomial.Polynomial.fit([0.0, 0.5, 1.0], [many, two, one], 2)


def _over_projections(tail: float, pair: Gram, law: SketchLaw, power: int = 1) -> Ends:
    size = np.sqrt(pair.squared_z * pair.squared_w)
    with np.errstate(divide="ignore"):
        turn = np.arctanh(np.clip(pair.inner / np.where(size > 0, size, 1.0), -1.0, 1.0))
    geometry, part = law.geometry, _part(pair, law) ** power  # power 0: projection alone
    deviation = np.sqrt((size**2 + pair.inner**2) / geometry.dim_out)
    low = pair.inner + deviation * _standardised(tail, turn, part, geometry)
    high = pair.inner - deviation * _standardised(tail, -turn, part, geometry)
    if geometry.dim_out > 1:
        return low, high
    most = np.maximum(-low, high)  # a single column shows no angle
    return -most, most


# ---- the fiducial law -----------------------------------------------------------------------------------------------


def _part(pair: Gram, law: SketchLaw) -> Floats:
    """d/D for the D whose matrix beta gives the inner product T the variance that noise and projection together do.

    D solves D (D - k) = share (D - 1) (D + 2), share being that variance over the one of a Wishart matrix.
    """
    if law.geometry.family != "orthonormal":
        return np.zeros_like(pair.inner)
    k, bias = law.geometry.dim_out, law.bias
    n, m = (np.maximum(squared - bias, 0.0) for squared in (pair.squared_z, pair.squared_w))
    t = np.clip(pair.inner, -np.sqrt(n * m), np.sqrt(n * m))
    share = k * law.inner_product_variance(n, m, t) / ((n + bias) * (m + bias) + t * t)
    return standing(share, law.geometry)


def standing(share: Floats, geometry: Geometry) -> Floats:
    """Dimension, as d/D, of the matrix beta that stands for noise and orthonormal projection in inner products.

    d/D for the D at which projection of orthonormal rows has this share of the variance of a Wishart matrix.
    """
    k, share = geometry.dim_out, np.clip(share, 0.0, 1.0)
    twice = k + share + np.sqrt(np.maximum((k + share) ** 2 - 8 * share * (1 - share), 0.0))  # 2 (1 - share) D
    return np.asarray(np.clip(2 * (1 - share) * geometry.dim_in / twice, 0.0, 1.0))


def _standardised(tail: float, turn: Floats, part: Floats, geometry: Geometry) -> Floats:
    """Low end of an inner product: how many deviations above <z, w> it lies, from a table over artanh r."""
    return between(partial(_table, tail), np.clip(turn, TURNS[0], TURNS[-1]), part, geometry)


def between(table: Callable[[int, float], Floats], turn: Floats, part: Floats, geometry: Geometry) -> Floats:
    """Interpolation in tables of the ends of inner products and cosines.

    Tables over TURNS, made for the columns and the d that stands for the true one, read between their nodes.
    """
    k = geometry.dim_out
    if geometry.family != "orthonormal":
        return np.asarray(np.interp(turn, TURNS, table(k, math.inf)))
    columns = [table(k, geometry.dim_in / p if p > 0 else math.inf) for p in _PARTS]
    steps = (turn - TURNS[0]) / (TURNS[1] - TURNS[0]), part * (_PARTS.size - 1)
    return bilinear(np.stack(columns, axis=1), *steps)


@lru_cache(maxsize=512)
def _table(tail: float, k: int, dim_in: float) -> Floats:
    """Low ends of inner products over projections, tabulated.

    Solves Pr[(r + sqrt(1 - r^2) sqrt(1 - S) Y) / L <= end] = tail by bisection, at all TURNS at once.
    """
    stretch, left = _stretches(k, dim_in)
    r, across, freedom = np.tanh(TURNS)[:, None], 1 / np.cosh(TURNS)[:, None], max(k - 1, 1)
    unit = np.sqrt((1 + r * r) / k)

    def below(arsinh: Floats) -> Bools:
        student = ((r + np.sinh(arsinh) * unit) * stretch - r) / (across * left) * math.sqrt(freedom)
        found = np.sum(_WEIGHTS * scipy.special.stdtr(freedom, student), axis=1, keepdims=True)
        return np.asarray(found < tail)

    low, high = bisected(below, np.full_like(r, -40.0), np.full_like(r, 40.0), 32)
    return np.asarray(np.sinh((low + high) / 2)[:, 0])


def _stretches(k: int, dim_in: float) -> Ends:
    """Quantiles at _NODES of L in an inner product's fiducial law, with the sqrt(1 - S) that belong to them."""
    if math.isinf(dim_in):
        return gamma_quantiles(k / 2, _NODES) / (k / 2), np.ones_like(_NODES)
    share, rest = beta_quantiles(k, dim_in, _NODES)
    return share * dim_in / k, np.sqrt(np.maximum(rest, 1e-30))


# ---- small tails ----------------------------------------------------------------------------------------------------


def _outer(tail: float, pair: Gram, law: SketchLaw) -> Ends:
    """Cautious ends of inner products at tails too small to simulate, for noise of scale 1.

    The rule; under Laplace noise at least what single entries can do; under Gaussian noise alone by polarisation. Where
    neither is exact, for orthonormal P with noise and by polarisation near 0, at a third of the tail (simulated).
    """
    if law.fixed and not any(law.heavy):
        return _polarised(tail / 3, pair, law)
    both = law.geometry.family == "orthonormal"
    low, high = _both(tail / 3, pair, law) if both else rule(tail, pair, law)
    least = _reach_of_entries(tail, pair, law)
    return np.minimum(low, pair.inner - least), np.maximum(high, pair.inner + least)


def _both(tail: float, pair: Gram, law: SketchLaw) -> Ends:
    """Cautious ends of inner products over an orthonormal projection with noise.

    For orthonormal P the rule, and at least the arms of projection alone and noise alone, added in squares.

    The matrix beta that stands for both in the rule is bounded, and noise is not.
    """
    low, high = rule(tail, pair, law)
    alone = _over_projections(tail, pair, law, power=0), _under_noise(tail, pair, law)
    down, up = (np.hypot(*(ends[side] - pair.inner for ends in alone)) for side in (0, 1))
    return np.minimum(low, pair.inner - down), np.maximum(high, pair.inner + up)


def _polarised(tail: float, pair: Gram, law: SketchLaw) -> Ends:
    """Interval of an inner product by polarisation, as a difference of two squared lengths.

    4t = ||x + y||^2 - ||x - y||^2, whose estimates are independent under Gaussian noise.

    Each has its own interval, and their arms add up as independent errors do (Zou and Donner 2008).
    """
    length, both = LengthLaw(law, 2), pair.squared_z + pair.squared_w
    arms = []
    for squares in (both + 2 * pair.inner, both - 2 * pair.inner):
        low, high = squared_lengths.bounds(tail, Seen(squares, np.zeros_like(squares)), length)
        value = squares - length.bias
        arms.append((value - low, high - value))
    down, up = np.hypot(arms[0][0], arms[1][1]) / 4, np.hypot(arms[0][1], arms[1][0]) / 4
    return pair.inner - down, pair.inner + up


def _reach_of_entries(tail: float, pair: Gram, law: SketchLaw) -> Floats:
    """How far Laplace noise in single entries may move an inner product.

    What Laplace noise along one entry, or one product n m <= ((n + m)/2)^2 of k, does; else 0. Where one noise is
    Gaussian, it reaches less far than this.
    """
    noise, k = NoiseLaw("laplace", 1.0), law.geometry.dim_out
    if not any(law.heavy):
        return np.zeros_like(pair.inner)
    total = sum(np.maximum(squared - k * noise.variance, 0.0) for squared in (pair.squared_z, pair.squared_w))
    others = scipy.special.ndtri(tail) ** 2 * k * noise.variance**2
    along = np.sqrt(total * noise.tail(tail, 1) ** 2 + others)
    return np.asarray(np.maximum(along, noise.tail(tail / (2 * k), 2) ** 2 / 4))
