"""Cuts of a private graph: what each mechanism's noise does to them, and estimates with intervals.

A question about a graph is a vector x, one number for each vertex; its answer is the Laplacian quadratic form
q(x) = sum over pairs of a_uv (x_u - x_v)^2. A cut is the form of an indicator, the degree that of a single vertex.
Three releases answer it, with these variances:

- a graph sketch: ||Yx||^2 / r is *exactly* q_H(x) chi^2_r / r, q_H = (w/n) spread + (1 - w/n) q, so the variance is
  (2/r) (q_H / (1 - w/n))^2, with spread(x) = n sum x^2 - (sum x)^2, the form of the complete graph;
- noise on every pair: tau^2 fourth(x), fourth(x) = sum over pairs of (x_u - x_v)^4, tau^2 the noise's variance;
- randomized response on every pair: the same with tau^2 = p (1 - p) / (1 - 2p)^2, p the chance of a flip; and, if
  weights were rounded to bits at random first, sum over pairs of (x_u - x_v)^4 a_uv (1 - a_uv) on top.

For an indicator of s vertices spread = fourth = s (n - s). Planner and error bars call the same functions. Everything
here is post-processing of a release: it costs no privacy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy

from sfumato.intervals.estimate import Ends, Estimate, Number, fieller, plain
from sfumato.numerics.types import Floats

Quantile: TypeAlias = Callable[[float], Number]  # probability left out on one side -> number of standard errors

SKETCH_ROWS = "the random rows of the sketch"  # what makes estimates from a sketch err
_NARROWINGS = 6  # of intervals whose variance depends on what they are for
_MANY = 10.0  # flips, in effect, from which a sum of flips is compared with a normal law at all


# ---- variances ------------------------------------------------------------------------------------------------------


def ridge(ratio: float, vertices: int) -> float:
    """The weight of the complete graph that a sketch of cuts mixes in as its ridge.

    The weight w of the complete graph that keeps v' S^-1 v <= ratio, v an edge: w = 2 / (ratio + 2/n), rounded up.

    S has least eigenvalue w off the constant vectors and |v|^2 = 2 (1 - w/n), and 2 (1 - w/n) / w = ratio solves to
    that. Always below n.
    """
    return 2 / (ratio + 2 / vertices) * (1 + 2.0**-48)


def mixed(form: Number, spread: Number, *, vertices: int, weight: float) -> Number:
    """The cut (a quadratic form) of the mixture (w/n) K_n + (1 - w/n) G, which is what a sketch of the graph shows."""
    return weight / vertices * spread + (1 - weight / vertices) * form


def sketch_variance(form: Number, spread: Number, *, vertices: int, weight: float, rows: int) -> Number:
    """Variance of a cut estimated from a graph sketch of ``rows`` rows and ridge ``weight``; exact."""
    return 2 / rows * (mixed(form, spread, vertices=vertices, weight=weight) / (1 - weight / vertices)) ** 2


def pair_variance(fourth: Number, noise_variance: float) -> Number:
    """Variance of a cut summed over all pairs of vertices, each with independent noise of this variance; exact."""
    return noise_variance * fourth


def response_noise(epsilon: float) -> float:
    """Variance of the noise that randomized response puts on one pair of vertices, so on cuts.

    The variance that randomized response adds to the estimate of one bit: p (1 - p) / (1 - 2p)^2; exact.

    With p = 1 / (1 + e^epsilon) it is 1 / (4 sinh^2(epsilon / 2)), whatever the bit.
    """
    return 0.25 / math.sinh(epsilon / 2) ** 2


def rounding_variance(form: Number, spread: Number, fourth: Number, width: Number) -> Number:
    """Variance that rounding edge weights to 0 or 1 at random can add to a cut of this value, at most.

    With c = (x_u - x_v)^2 <= width^2 it adds sum c^2 a (1 - a). That is at most sum c^2 / 4, and at most width^2 times
    sum c a (1 - a) <= form (1 - form / spread), as a (1 - a) is concave and sum c = spread. For a cut, all weights
    alike attain it.
    """
    form = np.minimum(np.maximum(form, 0.0), spread)
    return np.minimum(fourth / 4, width**2 * form * (1 - form / np.where(spread > 0, spread, 1.0)))


def powers(vectors: Floats) -> tuple[Floats, Floats]:
    """(spread, fourth) of vectors whose cuts are asked: sums over pairs of vertices.

    (spread, fourth) of each row of ``vectors``, which should be centred for accuracy.
    """
    n = vectors.shape[-1]
    sums = [np.sum(vectors**k, axis=-1) for k in (1, 2, 3, 4)]
    spread = n * sums[1] - sums[0] ** 2
    fourth = n * sums[3] - 4 * sums[2] * sums[0] + 3 * sums[1] ** 2
    return np.maximum(spread, 0.0), np.maximum(fourth, 0.0)


# ---- estimates ------------------------------------------------------------------------------------------------------


def from_sketch(squared: Number, spread: Number, *, vertices: int, weight: float, rows: int) -> Estimate:
    """Cuts, as quadratic forms, estimated from a graph sketch: from their mean squares |Yx|^2 / r.

    Error: unbiased over the Gaussian rows. Intervals are exact: they invert the chi-square law of the mean square, and
    are cut to [0, spread], where every form of weights in [0, 1] lies.
    """
    share = 1 - weight / vertices
    squared, spread = np.asarray(squared, float), np.asarray(spread, float)
    shown = weight / vertices * spread

    def bounds(tail: float) -> Ends:
        high, low = (
            rows / 2 / scipy.special.gammaincinv(rows / 2, tail),
            rows / 2 / scipy.special.gammainccinv(rows / 2, tail),
        )
        return _within((squared * low - shown) / share, 0.0, spread), _within(
            (squared * high - shown) / share, 0.0, spread
        )

    value, error = (squared - shown) / share, math.sqrt(2 / rows) * squared / share
    return Estimate(plain(value), plain(error), SKETCH_ROWS, bounds)


@dataclass(frozen=True, slots=True)
class PairNoise:
    """Independent noise on every pair: its variance, its excess kurtosis, and for flips the largest error of a pair.

    ``quantile`` gives interval ends in standard errors. Laplace and Gaussian noise: the Cornish-Fisher quantile of a
    sum with that kurtosis, never below the normal one. Flips: where there are many, that of a sum with the largest
    skewness it can have, to either side, and half a flip more; otherwise Bernstein's inequality, proved and wide.
    ``rounded``: weights were rounded to bits at random, which adds to the variance (``rounding_variance``).
    """

    variance: float
    kurtosis: float = 0.0
    largest: float | None = None
    rounded: bool = False

    @classmethod
    def laplace(cls, standard_deviation: float) -> "PairNoise":
        """Laplace noise on every pair of vertices."""
        return cls(standard_deviation**2, kurtosis=3.0)

    @classmethod
    def gaussian(cls, standard_deviation: float) -> "PairNoise":
        """Gaussian noise on every pair of vertices."""
        return cls(standard_deviation**2)

    @classmethod
    def response(cls, epsilon: float, *, rounded: bool = False) -> "PairNoise":
        """Randomized response on pairs of vertices: its noise in the estimate (z - p) / (1 - 2p) of a bit or weight."""
        return cls(response_noise(epsilon), largest=1 / -math.expm1(-epsilon), rounded=rounded)

    @property
    def covers(self) -> str:
        """The sources of error in estimated cuts, in plain words."""
        return "noise on the pairs" + (", and the random rounding of their weights" if self.rounded else "")

    def quantile(self, concentration: Number) -> Quantile:
        """Interval ends of a cut in standard errors.

        ``concentration``: the largest squared coefficient of a pair over the sum of all of them, 1 for one pair.
        """

        def standard_errors(tail: float) -> Number:
            z = -float(scipy.special.ndtri(tail))
            if self.largest is None:
                return np.maximum(z, z + (z**3 - 3 * z) * self.kurtosis * concentration / 24)
            flip, log = self.largest * np.sqrt(concentration / self.variance), math.log(1 / tail)
            proved = flip * log / 3 + np.sqrt((flip * log / 3) ** 2 + 2 * log)
            close = z + max(z**2 - 1, 0.0) * flip / 6 + flip / 2
            return np.where(flip**2 * _MANY <= 1, np.minimum(close, proved), proved)

        return standard_errors


def from_pairs(form: Number, spread: Number, fourth: Number, width: Number, noise: PairNoise) -> Estimate:
    """Cuts, as quadratic forms, estimated by summing over noisy pairs of vertices.

    Forms that were summed over noisy pairs; ``width`` is max x - min x, whose square is the largest coefficient.

    Error: unbiased, and its variance does not depend on the graph, unless weights were rounded at random: then it is
    the largest that weights with this form can have. Intervals are cut to [0, spread].
    """
    form, spread, fourth, width = (np.asarray(v, float) for v in (form, spread, fourth, width))
    safe = np.where(fourth > 0, fourth, 1.0)
    quantile = noise.quantile(np.minimum(width**4 / safe, 1.0))

    def deviation(low: Floats, high: Floats) -> Floats:
        """The largest standard deviation of the estimates of cuts within these ends."""
        variance = pair_variance(fourth, noise.variance)
        if noise.rounded:
            variance = variance + rounding_variance(_within(spread / 2, low, high), spread, fourth, width)
        return np.asarray(np.sqrt(variance))

    def bounds(tail: float) -> Ends:
        """Interval of the cut, narrowed step by step.

        A truth t with |form - t| <= score * deviation(t, t) is within the first ends, so within the next, and on.
        """
        score, low, high = quantile(tail), np.zeros_like(spread), spread
        for _ in range(_NARROWINGS if noise.rounded else 1):
            reach = score * deviation(low, high)
            low, high = _within(form - reach, 0.0, spread), _within(form + reach, 0.0, spread)
        return low, high

    inside = _within(form, 0.0, spread)
    return Estimate(plain(form), plain(deviation(inside, inside)), noise.covers, bounds)


def ratio(cut: Number, volume: Number, moments: tuple[Number, Number, Number], covers: str, law: Quantile) -> Estimate:
    """Ratio of a cut to a volume of the graph, with its interval.

    A cut over a volume, in [0, 1], from unbiased estimates with (variance, covariance, variance) ``moments``.

    Error: by linearisation. Intervals are Fieller's: all of [0, 1] where the volume is indistinguishable from 0.
    """
    cut, volume = np.asarray(cut, float), np.asarray(volume, float)
    cc, cv, vv = (np.asarray(m, float) for m in moments)
    safe = np.where(volume > 0, volume, np.nan)
    value = cut / safe
    error = np.sqrt(np.maximum(cc - 2 * value * cv + value**2 * vv, 0.0)) / safe

    def bounds(tail: float) -> Ends:
        return fieller(law(tail), (cut, volume), (cc, cv, vv))

    return Estimate(plain(value), plain(error), covers, bounds)


def _within(values: Number, low: Number, high: Number) -> Floats:
    return np.asarray(np.minimum(np.maximum(values, low), high))
