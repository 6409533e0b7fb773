"""Confidence intervals of squared lengths ||v||^2 from noisy images vP + e.

Neyman's belt over the computed law of the estimate (``length_law``). What that law leaves open is the direction of v.
It matters in two cases, and there the published numbers themselves tell enough of it:

- identity P under Laplace noise: the law depends on the concentration of v, which is estimated;
- sparse P: columns in which two rows differ may fall together. With many of them that is the spread law; with few,
  ||vP||^2 changes in jumps, and images that look concentrated get the law of as many equal columns, worst case.

A sparse image that cannot be told from 0 says little at high levels: two columns cancel with probability 1/(2k). Where
that is more than may be missed, the upper end is infinite.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import scipy

from sfumato.intervals.length_law import LengthLaw
from sfumato.intervals.moments import length_variance
from sfumato.numerics.types import Floats

Ends: TypeAlias = tuple[Floats, Floats]

_NEAR = 4.0  # lengths below this many standard errors of length 0 share their tails unevenly
_EXACT = 0.02  # tails above this are held to their level; smaller ones (simultaneous levels) err on the cautious side
_PARTS = (1.0, 2.0, 6.0)  # entries over which a law is tabulated, besides all k


@dataclass(frozen=True, slots=True)
class Seen:
    """Sums of squares and of fourth powers of the entries of noisy images: all that intervals are made of."""

    squares: Floats
    fourths: Floats

    @classmethod
    def of(cls, image: Floats) -> "Seen":
        """Of images, one in each row."""
        squared = image * image
        return cls(np.asarray(np.sum(squared, axis=-1)), np.einsum("...i,...i->...", squared, squared))


def bounds(tail: float, seen: Seen, law: LengthLaw) -> Ends:
    """(low, high) for the squared lengths behind images; each end misses the truth with probability ``tail``.

    Near 0 the low end misses with more and the high one with less, 2 * tail together.
    """
    if law.geometry.coefficients[0] == 0:  # nothing random about the image but its noise
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
    """Bounds of ||vP||^2, under noise alone, with the concentration of vP that was seen.

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
    """By how many standard errors an image is taken for more concentrated than it looks: half a one at 95%, up to 2.5.

    Half a one makes up for the luck that an image and its concentration share (simulated).
    """
    return float(0.5 + np.clip(-scipy.special.ndtri(tail) - 1.96, 0.0, 2.0))


def concentration_of(seen: Seen, law: LengthLaw) -> tuple[Floats, Floats]:
    """Estimates of sum w_i^4 / (sum w_i^2)^2 of images w, with standard errors; worthless where w is lost in the noise.

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
    least = length_variance(0.0, law.noise, law.geometry, law.copies)
    bottom = np.maximum(value**2, least)
    return top / bottom, np.sqrt(variance) / bottom


# ---- columns that fall together -------------------------------------------------------------------------------------


def _widened(tail: float, seen: Seen, law: LengthLaw, ends: Ends) -> Ends:
    """The bounds for a sparse projection, made to allow for a v of few columns where the image looks like one.

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
    """Quantiles of ||vP||^2 / ||v||^2, the worst for m or more equal columns, indexed by m - 1.

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
    """Exact laws of ||vP||^2 for v of 1, 2, ... ones under one sign per row: the probabilities of 0, 1, 2, ...

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
