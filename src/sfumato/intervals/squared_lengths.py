"""Squared lengths ||v||^2 from noisy images vP + e: the law of their estimates, and confidence intervals.

The estimate is ||w + e||^2 - E||e||^2, w = vP. Matching a few moments of it will not do: squares of Laplace noise have
tails like exp(-sqrt x), so not even a moment generating function, and ||vP||^2 is far from normal when k is small. So
its law is computed, to tables of quantiles, in two steps.

1. Given w, the squares (w_i + e_i)^2 are independent with a known distribution function; the law of their sum follows
   by Fourier transform on a grid. It depends on w through R^2 = ||w||^2 and hardly else: under Gaussian noise not at
   all; under Laplace noise the first three cumulants not at all, and the fourth through the concentration
   sum w_i^4 / R^4, from 1/k (all entries equal) to 1 (a single one). One w of each concentration stands for all.
2. The law of R^2 / r^2 mixes the first. It is a gamma law (for gaussian P exactly chi^2_k / k; for rademacher,
   achlioptas and sparse P in the limit of v spread over many columns) or a beta law (orthonormal P, exactly).

Everything is in units of the noise, so tables depend on its kind and not on its scale, and are kept.

Intervals are Neyman's belt over that law. What it leaves open is the direction of v. It matters in two cases, and there
the published numbers themselves tell enough of it:

- identity P under Laplace noise: the law depends on the concentration of v, which is estimated;
- sparse P: columns in which two rows differ may fall together. With many of them that is the spread law; with few,
  ||vP||^2 changes in jumps, and images that look concentrated get the law of as many equal columns, worst case.

A sparse image that is indistinguishable from 0 says little at high levels: two columns cancel with probability 1/(2k).
Where that is more than may be missed, the upper end is infinite.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy

from sfumato.intervals.estimate import Ends
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.numerics.types import Floats

_SCORES = np.linspace(-6.0, 6.0, 121)  # probabilities as normal quantiles: from 1e-9 to 1 - 1e-9
_LENGTHS = np.concatenate([[0.0], np.geomspace(1e-2, 1e5, 29)])  # r^2 in units of k times the noise's variance
_NODES = np.arange(-8.0, 8.025, 0.05)  # normal quantiles over which the projection is averaged
_REACH, _BELOW = 85, 15  # standard deviations that a grid spans, and those of them below the mean
_NEAR = 4.0  # lengths below this many standard errors of length 0 share their tails unevenly
_EXACT = 0.02  # tails above this are held to their level; smaller ones (simultaneous levels) err on the cautious side
_PARTS = (1.0, 2.0, 6.0)  # entries over which a law is tabulated, besides all k


# ---- the law of the estimate ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LengthLaw:
    """What the estimate of a squared length depends on; ``copies`` draws of the noise are in each entry."""

    rows: SketchLaw
    copies: int

    @property
    def noise(self) -> NoiseLaw:
        """The law of one draw of the noise under a squared length."""
        return self.rows.noise

    @property
    def geometry(self) -> Geometry:
        """The projection behind the estimated squared lengths."""
        return self.rows.geometry

    @property
    def entry_variance(self) -> float:
        """Variance of the noise in one entry of the image."""
        return self.copies * self.noise.variance

    @property
    def bias(self) -> float:
        """E||e||^2, which the estimate of a squared length subtracts."""
        return self.geometry.dim_out * self.entry_variance

    def deviation(self, squared: Floats) -> Floats:
        """Standard deviation of the estimate at these squared lengths; of ||v||_4^4 it uses that it is >= r^4/d."""
        fourth = squared**2 / self.geometry.dim_in
        return np.asarray(np.sqrt(self.rows.length_variance(squared, self.copies, fourth)))

    @property
    def of_image(self) -> "LengthLaw":
        """The law of the estimate as one of the squared length ||vP||^2: noise alone."""
        return replace(self, rows=self.rows.of_image)

    @property
    def spread(self) -> float:
        """Mean concentration of images of uniform direction, on which the law of squared lengths depends."""
        return 3 / (self.geometry.dim_out + 2)

    def quantiles(self, squared: Floats, tails: tuple[Floats, Floats], concentration: float) -> Ends:
        """Quantiles of estimated squared lengths: below and above which they fall with these probabilities."""
        unit = replace(self, rows=self.rows.unit)
        places = _place(squared / self.noise.variance / self.geometry.dim_out)
        read = scipy.interpolate.RegularGridInterpolator((_place(_LENGTHS), _SCORES), _table(unit, concentration))
        least, reaches = scipy.special.ndtr(_SCORES[0]), []
        for sign, tail in zip((-1, 1), tails, strict=True):
            further = self.noise.tail(np.minimum(tail, least), 1) / self.noise.tail(least, 1)
            scores = np.clip(-sign * scipy.special.ndtri(tail), _SCORES[0], _SCORES[-1])
            reach = read((np.minimum(places, _place(_LENGTHS)[-1]), scores))
            reaches.append(reach * further**2)  # beyond the table as squares grow
        deviation = self.deviation(squared)
        return squared + deviation * reaches[0], squared + deviation * reaches[1]


def _place(lengths: Floats) -> Floats:
    """Where a squared length stands on the axis of the tables: logarithmic, but for the shortest."""
    return np.asarray(np.log(lengths + _LENGTHS[1]))


@lru_cache(maxsize=256)
def _table(unit: LengthLaw, concentration: float) -> Floats:
    """Quantiles of estimated squared lengths, tabulated.

    Standardised quantiles of the estimate under noise of scale 1: a row for each length, a column for each score.
    """
    k = unit.geometry.dim_out
    rows = np.stack([_given_image(unit, k * length, concentration) for length in _LENGTHS])
    stretches = _stretches(unit.geometry)
    return rows if stretches is None else np.stack([_averaged(unit, k * x, stretches, rows) for x in _LENGTHS])


# ---- given the image ------------------------------------------------------------------------------------------------


def _given_image(unit: LengthLaw, squared: float, concentration: float) -> Floats:
    """Quantiles of the squared length ||w + e||^2 for ||w||^2 = squared, standardised."""
    k = unit.geometry.dim_out
    cells = 1 << max(12, 17 - k.bit_length())  # the fewer squares, the less their rounding averages out
    deviation = float(unit.of_image.deviation(np.asarray(squared)))
    step, below = deviation * _REACH / cells, deviation * _BELOW
    transform, start = np.ones(cells // 2 + 1, complex), 0
    for share, count in _shares(k, concentration):
        first = max(0, math.floor((share * squared + unit.entry_variance - below) / step))
        transform *= np.fft.rfft(_on_grid(unit, math.sqrt(share * squared), step, range(first, first + cells))) ** count
        start += first * count
    masses = np.roll(np.fft.irfft(transform, cells), start - math.floor((squared + unit.bias - below) / step))
    return _standardised(masses)


def _on_grid(unit: LengthLaw, centre: float, step: float, cells: range) -> Floats:
    """The law of one entry's square (centre + e)^2 on a grid, of which squared lengths are summed.

    The law of (centre + e)^2, each value shared between its two neighbours on the grid so that the mean is kept.

    A cell's share follows from the integrals of the upper tail over the intervals beside it (Gauss, two points; over
    the root, in which the tail is smooth).
    """
    roots = np.sqrt(np.arange(cells.start, cells.stop + 1) * step)
    middle, half = (roots[1:] + roots[:-1]) / 2, np.diff(roots) / 2
    integral = np.zeros(len(middle))
    for root in (middle - half / math.sqrt(3), middle + half / math.sqrt(3)):
        beyond = unit.noise.exceeding(root - centre, unit.copies) + unit.noise.exceeding(root + centre, unit.copies)
        integral += 2 * root * half * beyond
    return np.asarray(-np.diff(integral, prepend=step) / step)


def _standardised(masses: Floats) -> Floats:
    """Standardised quantiles of an estimated squared length, from its law on a grid.

    Quantiles of a law on a grid, at _SCORES, by its own mean and deviation, which the grid widens a little.
    """
    cells = np.arange(len(masses))
    mean = np.sum(masses * cells)
    deviation = np.sqrt(np.sum(masses * (cells - mean) ** 2))
    lower = np.maximum.accumulate(np.cumsum(masses))
    upper = np.maximum.accumulate(np.cumsum(masses[::-1]))
    low = np.interp(scipy.special.ndtr(_SCORES), lower, cells + 0.5)
    high = np.interp(scipy.special.ndtr(-_SCORES), upper, cells[::-1] - 0.5)
    return np.asarray((np.where(_SCORES <= 0, low, high) - mean) / deviation)


def _shares(k: int, concentration: float) -> list[tuple[float, int]]:
    """Shares of the squared length ||w||^2 in k entries, with how many have each: some equal, one smaller, the rest 0.

    j p + q = 1 and j p^2 + q^2 = concentration, q <= p.
    """
    j = min(math.floor(1 / concentration + 1e-9), k)
    if j == k:
        return [(1 / k, k)]
    p = (1 + math.sqrt(max((j + 1) * concentration - 1, 0.0) / j)) / (j + 1)
    return [(p, j), (max(1 - j * p, 0.0), 1), (0.0, k - j - 1)]


# ---- over the projection --------------------------------------------------------------------------------------------


def _stretches(geometry: Geometry) -> Floats | None:
    """Quantiles of the stretch ||vP||^2 / ||v||^2 of squared lengths at _NODES; None if it is always 1."""
    variance = geometry.stretch_variance(1.0, 1 / geometry.dim_in)
    if variance <= 0:
        return None
    if geometry.family == "orthonormal":
        share, _ = beta_quantiles(geometry.dim_out, geometry.dim_in, _NODES)
        return np.asarray(share * geometry.dim_in / geometry.dim_out)
    shape = 1 / variance
    return np.asarray(gamma_quantiles(shape, _NODES) / shape)


def gamma_quantiles(shape: float, scores: Floats) -> Floats:
    """Quantiles of squared lengths' gamma law of this shape, at normal quantiles; accurate in both tails."""
    tail = scipy.special.ndtr(-np.abs(scores))
    upper, lower = scipy.special.gammainccinv(shape, tail), scipy.special.gammaincinv(shape, tail)
    return np.asarray(np.where(scores > 0, upper, lower))


def beta_quantiles(dim_out: int, dim_in: float, scores: Floats) -> Ends:
    """Quantiles of the share of a squared length in k of d coordinates, Beta(k/2, (d - k)/2), and of the rest."""
    a, b, tail, upper = dim_out / 2, (dim_in - dim_out) / 2, scipy.special.ndtr(-np.abs(scores)), scores > 0
    small, large = scipy.special.betaincinv(a, b, tail), scipy.special.betaincinv(b, a, tail)
    return np.where(upper, 1 - large, small), np.where(upper, large, 1 - small)


def _averaged(unit: LengthLaw, squared: float, stretches: Floats, rows: Floats) -> Floats:
    """Standardised quantiles at one squared length, from the rows for given images, averaged over the stretches."""
    images = squared * stretches
    place = scipy.interpolate.make_interp_spline(_place(_LENGTHS), rows, k=1)
    within = np.minimum(_place(images / unit.geometry.dim_out), _place(_LENGTHS)[-1])
    quantiles = images[:, None] + unit.of_image.deviation(images)[:, None] * place(within)
    deviation = float(unit.deviation(np.asarray(squared)))
    least = -(squared + unit.bias) / deviation  # no estimate is lower; the law may crowd there
    marks = [np.linspace(-8, 8, 129), np.geomspace(8.2, _REACH, 30), least * (1 - np.geomspace(1e-4, 1, 60))]
    points = np.unique(np.concatenate(marks))
    points = points[points > least]
    at = squared + deviation * points
    scores = np.stack([np.interp(at, row, _SCORES, left=-np.inf, right=np.inf) for row in quantiles])
    below, above = (
        np.average(scipy.special.ndtr(x), axis=0, weights=np.exp(-(_NODES**2) / 2)) for x in (scores, -scores)
    )
    mixed = np.where(below < above, scipy.special.ndtri(below), -scipy.special.ndtri(above))
    return np.interp(_SCORES, *_rising(mixed, points))


def _rising(scores: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Part of a squared length's distribution function between 0 and 1, made to rise where rounding lets it fall."""
    inside = np.isfinite(scores)
    return np.maximum.accumulate(scores[inside]), points[inside]


# ---- intervals ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """Sums of squares and of fourth powers of the entries of noisy images: all that intervals are made of."""

    squares: Floats
    fourths: Floats

    @classmethod
    def of(cls, image: Floats) -> "Seen":
        """Squared lengths, and sums of fourth powers, of images, one in each row."""
        squared = image * image
        return cls(np.asarray(np.sum(squared, axis=-1)), np.einsum("...i,...i->...", squared, squared))


def bounds(tail: float, seen: Seen, law: LengthLaw) -> Ends:
    """(low, high) for the squared lengths behind images; each end misses the truth with probability ``tail``.

    Near 0 the low end misses with more and the high one with less, 2 * tail together.
    """
    if law.rows.fixed:
        return _of_images(tail, seen, law)
    low, high = _belt(tail, seen.squares - law.bias, law, law.spread)
    return _widened(tail, seen, law, (low, high)) if law.geometry.family == "sparse" else (low, high)


def _belt(tail: float, value: Floats, law: LengthLaw, concentration: float) -> Ends:
    """Neyman's confidence belt: all squared lengths under which the value seen is not among the extreme ones.

    The quantiles depend on the unknown length, so they are tabulated over it and read the other way round. Of what may
    be left out, 2 * tail, long lengths leave half on each side; a length near 0 leaves nearly all above: there a small
    value says nothing against it, and an interval cut at 0 would otherwise cover too often. The share is a fixed
    function of the length, so coverage is right at each, and even a very low value leaves a positive upper end.
    """
    unit = float(law.deviation(np.asarray(0.0)))
    least, top = 1e-4 * unit, 1e4 * max(float(np.max(value, initial=0.0)), unit)
    squared = np.concatenate([[0.0], np.geomspace(least, top, int(60 * math.log10(top / least)))])
    below = tail * np.clip(squared / (_NEAR * unit), 1e-3, 1.0)
    lows, highs = law.quantiles(squared, (below, 2 * tail - below), concentration)
    lows, highs = np.minimum.accumulate(lows[::-1])[::-1], np.maximum.accumulate(highs)
    high = np.interp(value, lows, squared, left=squared[1], right=np.inf)
    return np.interp(value, highs, squared, left=0.0), np.asarray(high)


# ---- concentrated images --------------------------------------------------------------------------------------------


def _of_images(tail: float, seen: Seen, law: LengthLaw) -> Ends:
    """Bounds of the squared length ||vP||^2, under noise alone, with the concentration of vP that was seen.

    Between the concentrations tabulated the ends are interpolated in the square root, which errs outwards.
    """
    image, value = law.of_image, seen.squares - law.bias
    if law.noise.kind == "gaussian":
        return _belt(tail, value, image, law.spread)
    k = law.geometry.dim_out
    grid = [1 / parts for parts in _PARTS if parts < k] + [1 / k]
    middle, error = concentration_of(seen, law)
    estimate = np.clip(middle + _caution(tail) * error, 1 / k, 1.0)
    place = np.interp(-np.sqrt(estimate), -np.sqrt(grid), np.arange(len(grid)))
    ends = np.zeros((2, *np.shape(value)))
    for index, concentration in enumerate(grid):
        weight = np.broadcast_to(np.maximum(1 - np.abs(place - index), 0.0), ends.shape)
        part = np.stack(_belt(tail, value, image, concentration))
        ends += np.multiply(weight, part, out=np.zeros_like(ends), where=weight > 0)  # an end may be infinite
    return ends[0], ends[1]


def _caution(tail: float) -> float:
    """Caution about the concentration behind a squared length.

    By how many standard errors an image is taken for more concentrated than it looks: half a one at 95%, up to 2.5.

    Half a one makes up for the luck that an image and its concentration share (simulated).
    """
    return float(0.5 + np.clip(-scipy.special.ndtri(tail) - 1.96, 0.0, 2.0))


def concentration_of(seen: Seen, law: LengthLaw) -> tuple[Floats, Floats]:
    """Estimated concentration of the images behind squared lengths.

    Estimates of sum w_i^4 / (sum w_i^2)^2 of images w, with standard errors; worthless where w is lost in the noise.

    sum z_i^4 - 6 s^2 sum w_i^2 - k E e^4 is unbiased for the numerator; its variance is bounded with
    sum w_i^6 <= (sum w_i^4)^(3/2).
    """
    k, entry = law.geometry.dim_out, law.entry_variance
    second, fourth, sixth, eighth = (law.noise.moment(power, law.copies) for power in (2, 4, 6, 8))
    value = np.maximum(seen.squares - law.bias, 0.0)
    top = seen.fourths - 6 * entry * (seen.squares - law.bias) - k * fourth
    blur = eighth - fourth**2 - 12 * entry * (sixth - fourth * second) + 36 * entry**2 * (fourth - second**2)
    signal = np.maximum(top, 0.0)
    variance = k * blur + 16 * second * signal**1.5 + 36 * (fourth - second**2) * signal + 16 * sixth * value
    least = law.rows.length_variance(0.0, law.copies)
    bottom = np.maximum(value**2, least)
    return top / bottom, np.sqrt(variance) / bottom


# ---- columns that fall together -------------------------------------------------------------------------------------


def _widened(tail: float, seen: Seen, law: LengthLaw, ends: Ends) -> Ends:
    """Bounds of squared lengths under a sparse projection, widened where few columns may have fallen together.

    The bounds for a sparse projection, made to allow for a v of few columns where the image looks like one.

    An image of n entries comes from n columns or more. For each number of equal columns the law of ||vP||^2 is known;
    half of each tail goes to it and half to the noise. At 95% the image must look concentrated beyond doubt, so that
    spread rows keep their level; at smaller tails it need only be possible.
    """
    k = law.geometry.dim_out
    least, most = _collisions(k, law.geometry.dim_in, tail / 2)
    middle, error = concentration_of(seen, law)
    surely = np.clip(middle + 2 * (_caution(tail) - 1.5) * error, 1 / (2 * k), 1.0)
    columns = np.ceil(1 / surely - 1e-3).astype(np.int64)
    few, index = columns <= len(least), np.minimum(columns, len(least)) - 1
    image_low, image_high = _of_images(tail / 2, seen, law)
    low = np.where(few, np.minimum(ends[0], image_low / most[index]), ends[0])
    high = np.where(few, np.maximum(ends[1], image_high / least[index]), ends[1])
    lost = (image_low <= 0) & (tail < min(1 / (2 * k), _EXACT))
    return low, np.where(lost, np.inf, high)


@lru_cache(maxsize=256)
def _collisions(k: int, dim_in: int, tail: float) -> Ends:
    """Quantiles of squared lengths under a sparse projection in which columns collide.

    Quantiles of ||vP||^2 / ||v||^2, the worst for m or more equal columns, indexed by m - 1.

    Up to about sqrt(2k) columns, when one collision is expected; beyond, collisions add up to the spread law. Images
    that vanish are left out.
    """
    least, most = [], []
    for m, law in enumerate(_collision_laws(k, min(k, dim_in, math.isqrt(2 * k))), start=1):
        law[0] = 0.0
        sums = np.arange(len(law))
        least.append(min(m, sums[np.cumsum(law) > tail].min(initial=m)) / m)
        most.append(max(m, sums[np.cumsum(law[::-1])[::-1] > tail].max(initial=m)) / m)
    return np.minimum.accumulate(least[::-1])[::-1], np.maximum.accumulate(most[::-1])[::-1]


def _collision_laws(k: int, columns: int) -> list[Floats]:
    """Exact laws of the squared length ||vP||^2, v of 1, 2, ... ones, one sign per row: probabilities of 0, 1, 2, ...

    Each column falls into one of k cells with a sign. So the law for m columns is m! times the coefficient of t^m in
    A(t)^k, A = sum_i (t/k)^i / i! E z^(sum of i signs)^2, by the recurrence for powers of series; no term is negative.
    """
    cell = [np.zeros(i * i + 1) for i in range(columns + 1)]
    for i, term in enumerate(cell):
        for minus in range(i + 1):
            term[(i - 2 * minus) ** 2] += math.comb(i, minus) / (2 * k) ** i / math.factorial(i)
    power = [np.ones(1)]
    for m in range(1, columns + 1):
        power.append(np.zeros(m * m + 1))
        for i in range(1, m + 1):
            product = np.convolve(cell[i], power[m - i]) * (i * k - m + i) / m
            power[m][: len(product)] += product
    return [math.factorial(m) * law for m, law in enumerate(power)][1:]
