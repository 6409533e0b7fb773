"""The law of an estimated squared length ||w + e||^2 - E||e||^2, w = vP: its quantiles, computed to a table.

Matching a few moments will not do: squares of Laplace noise have tails like exp(-sqrt x), so not even a moment
generating function, and ||vP||^2 is far from normal when k is small. So the law is computed, in two steps.

1. Given w, the squares (w_i + e_i)^2 are independent with a known distribution function; the law of their sum follows
   by Fourier transform on a grid. It depends on w through R^2 = ||w||^2 and hardly else: under Gaussian noise not at
   all; under Laplace noise the first three cumulants not at all, and the fourth through the concentration
   sum w_i^4 / R^4, from 1/k (all entries equal) to 1 (a single one). One w of each concentration stands for all.
2. The law of R^2 / r^2 mixes the first. It is a gamma law (for gaussian P exactly chi^2_k / k; for rademacher,
   achlioptas and sparse P in the limit of v spread over many columns) or a beta law (orthonormal P, exactly).

Everything is in units of the noise, so tables depend on its kind and not on its scale, and are kept.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy

from sfumato.intervals.moments import Geometry, NoiseLaw, length_variance
from sfumato.numerics.types import Floats

_SCORES = np.linspace(-6.0, 6.0, 121)  # probabilities as normal quantiles: from 1e-9 to 1 - 1e-9
_LENGTHS = np.concatenate([[0.0], np.geomspace(1e-2, 1e5, 29)])  # r^2 in units of k times the noise's variance
_NODES = np.arange(-8.0, 8.025, 0.05)  # normal quantiles over which the projection is averaged
_REACH, _BELOW = 85, 15  # standard deviations that a grid spans, and those of them below the mean


@dataclass(frozen=True, slots=True)
class LengthLaw:
    """What the estimate of a squared length depends on; ``copies`` draws of the noise are in each entry."""

    noise: NoiseLaw
    geometry: Geometry
    copies: int

    @property
    def entry_variance(self) -> float:
        """Of the noise in one entry."""
        return self.copies * self.noise.variance

    @property
    def bias(self) -> float:
        """E||e||^2, which the estimate subtracts."""
        return self.geometry.dim_out * self.entry_variance

    def deviation(self, squared: Floats) -> Floats:
        """Standard deviation of the estimate at these squared lengths; of ||v||_4^4 it uses that it is >= r^4/d."""
        fourth = squared**2 / self.geometry.dim_in
        return np.asarray(np.sqrt(length_variance(squared, self.noise, self.geometry, self.copies, fourth)))

    @property
    def of_image(self) -> "LengthLaw":
        """The law of the estimate as one of ||vP||^2: noise alone."""
        k = self.geometry.dim_out
        return replace(self, geometry=Geometry("identity", k, k))

    @property
    def spread(self) -> float:
        """The mean concentration of a uniform direction."""
        return 3 / (self.geometry.dim_out + 2)

    def quantiles(self, squared: Floats, tails: tuple[Floats, Floats], concentration: float) -> tuple[Floats, Floats]:
        """What the estimate falls below, and above, with these probabilities, at these squared lengths."""
        unit = replace(self, noise=NoiseLaw(self.noise.kind, 1.0))
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
    """Where a length stands on the axis of tables: logarithmic, but for the shortest."""
    return np.asarray(np.log(lengths + _LENGTHS[1]))


@lru_cache(maxsize=256)
def _table(unit: LengthLaw, concentration: float) -> Floats:
    """Standardised quantiles of the estimate under noise of scale 1: a row for each length, a column for each score."""
    k = unit.geometry.dim_out
    rows = np.stack([_given_image(unit, k * length, concentration) for length in _LENGTHS])
    stretches = _stretches(unit.geometry)
    return rows if stretches is None else np.stack([_averaged(unit, k * x, stretches, rows) for x in _LENGTHS])


# ---- given the image ------------------------------------------------------------------------------------------------


def _given_image(unit: LengthLaw, squared: float, concentration: float) -> Floats:
    """Quantiles of ||w + e||^2 for ||w||^2 = squared, standardised."""
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
    """The law of (centre + e)^2, each value shared between its two neighbours on the grid so that the mean is kept.

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
    """Quantiles of a law on a grid, at _SCORES, by its own mean and deviation, which the grid widens a little."""
    cells = np.arange(len(masses))
    mean = np.sum(masses * cells)
    deviation = np.sqrt(np.sum(masses * (cells - mean) ** 2))
    lower = np.maximum.accumulate(np.cumsum(masses))
    upper = np.maximum.accumulate(np.cumsum(masses[::-1]))
    low = np.interp(scipy.special.ndtr(_SCORES), lower, cells + 0.5)
    high = np.interp(scipy.special.ndtr(-_SCORES), upper, cells[::-1] - 0.5)
    return np.asarray((np.where(_SCORES <= 0, low, high) - mean) / deviation)


def _shares(k: int, concentration: float) -> list[tuple[float, int]]:
    """Shares of ||w||^2 in k entries, with how many have each: some equal, one smaller, the rest 0.

    j p + q = 1 and j p^2 + q^2 = concentration, q <= p.
    """
    j = min(math.floor(1 / concentration + 1e-9), k)
    if j == k:
        return [(1 / k, k)]
    p = (1 + math.sqrt(max((j + 1) * concentration - 1, 0.0) / j)) / (j + 1)
    return [(p, j), (max(1 - j * p, 0.0), 1), (0.0, k - j - 1)]


# ---- over the projection --------------------------------------------------------------------------------------------


def _stretches(geometry: Geometry) -> Floats | None:
    """Quantiles of ||vP||^2 / ||v||^2 at _NODES; None if it is always 1."""
    variance = geometry.stretch_variance(1.0, 1 / geometry.dim_in)
    if variance <= 0:
        return None
    tail, upper = scipy.special.ndtr(-np.abs(_NODES)), _NODES > 0
    if geometry.family == "orthonormal":
        a, b = geometry.dim_out / 2, (geometry.dim_in - geometry.dim_out) / 2
        share = np.where(upper, 1 - scipy.special.betaincinv(b, a, tail), scipy.special.betaincinv(a, b, tail))
        return np.asarray(share * geometry.dim_in / geometry.dim_out)
    shape = 1 / variance
    return np.asarray(
        np.where(upper, scipy.special.gammainccinv(shape, tail), scipy.special.gammaincinv(shape, tail)) / shape
    )


def _averaged(unit: LengthLaw, squared: float, stretches: Floats, rows: Floats) -> Floats:
    """Standardised quantiles at one length, from the rows for given images, averaged over the stretches."""
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
    """The part of a distribution function between 0 and 1, made to rise where rounding lets it fall."""
    inside = np.isfinite(scores)
    return np.maximum.accumulate(scores[inside]), points[inside]
