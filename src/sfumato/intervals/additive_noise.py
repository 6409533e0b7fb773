"""Quantities seen through noise of a known law: value = truth + noise, with the truth in a known range [0, most].

Intervals are exact, not asymptotic: the law of value - truth does not depend on the truth.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from sfumato.intervals.estimate import NOISE_ONLY, Ends, Estimate, Quantity, plain
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.bisection import bisected
from sfumato.numerics.types import Floats

_NEAR = 4.0  # truths within this many standard deviations of an end of the range share their tails unevenly
_LEAST = 1e-3  # the least share of a tail, as a part of its even share
_HALVINGS = 64
_ROUNDED = 1 / 12  # what rounding to a whole number adds to the variance of noise
_PERIOD, _HARMONICS = 64.0, 1 << 13  # of the law of a sum, in standard deviations; both far more than it needs
_OVER = 1 + 2.0**-40  # more than the rounding of a logarithm, times a scale
_RARE = 1e-7  # tails below are bounded, not computed
_SLOPES = np.linspace(0.005, 0.995, 199)  # of exponential bounds on tails, as parts of the largest


class Law(Protocol):
    """A law of additive noise, symmetric about 0."""

    @property
    def scale(self) -> float:
        """Its standard deviation."""
        ...

    def tail(self, probability: Floats, copies: int) -> Floats:
        """What one copy exceeds with a probability <= 1/2."""
        ...


@dataclass(frozen=True)
class LaplaceSum:
    """The law of a weighted sum of independent Laplace numbers, each rounded to a whole number.

    terms  : of each kind of term its weight, how many there are, and the Laplace scale b of the number.
    normal : the deviation of a normal number that is added, of other noise in the same sum.
    A rounded number is taken as the number plus one that is uniform on [-1/2, 1/2], which has the same density at whole
    numbers. The law of the sum is computed from its Fourier series; tails below 1e-7 are bounded (Chernoff), so that
    intervals at such levels are a little wide.
    """

    terms: tuple[tuple[float, int, float], ...]
    normal: float = 0.0

    @cached_property
    def scale(self) -> float:
        """The standard deviation of the sum, rounding included."""
        own = math.fsum(count * weight**2 * (2 * b**2 + _ROUNDED) for weight, count, b in self.terms)
        return math.sqrt(own + self.normal**2)

    @cached_property
    def _tails(self) -> tuple[Floats, Floats]:
        """Places in standard deviations, and the negative probabilities that the sum exceeds them, both rising."""
        steps = np.arange(1, _HARMONICS)
        at = 2 * math.pi * steps / _PERIOD
        logs = -((self.normal / self.scale * at) ** 2) / 2
        sign = np.ones(len(at))
        for weight, count, b in self.terms:
            unit = weight / self.scale
            smear = np.sinc(unit * at / (2 * math.pi))
            logs += count * (np.log(np.maximum(np.abs(smear), 1e-300)) - np.log1p((unit * b * at) ** 2))
            sign *= np.where(smear < 0, -1.0, 1.0) ** (count % 2)
        series = np.concatenate([[0.0], 2 / _PERIOD * sign * np.exp(np.maximum(logs, -700)) / at])
        places = np.arange(_HARMONICS, dtype=np.float64) * (_PERIOD / (2 * _HARMONICS))
        inside = places / _PERIOD - np.fft.fft(series, 2 * _HARMONICS)[:_HARMONICS].imag
        return places, np.asarray(np.maximum.accumulate(inside - 0.5))

    def _bounded(self, probability: Floats) -> Floats:
        """Where an exponential bound on the tail of the sum has fallen to a probability."""
        slopes = _SLOPES / max(abs(weight) * b for weight, _, b in self.terms)
        exponents = (self.normal * slopes) ** 2 / 2
        for weight, count, b in self.terms:
            half = np.abs(weight) * slopes / 2
            # log of sinh(h) / h, and of the Laplace law
            smear = half + np.log(-np.expm1(-2 * half) / (2 * half))
            exponents += count * (smear - np.log1p(-((weight * b * slopes) ** 2)))
        return np.asarray(((exponents - np.log(probability)[..., None]) / slopes).min(axis=-1))

    def tail(self, probability: Floats, copies: int) -> Floats:
        """What the sum exceeds with a probability <= 1/2."""
        assert copies == 1
        wanted = np.maximum(np.asarray(probability, np.float64), 1e-300)
        places, below = self._tails
        found = self.scale * np.interp(-wanted, below, places)
        return np.asarray(np.where(wanted >= _RARE, found, self._bounded(wanted)))


@dataclass(frozen=True, slots=True)
class DiscreteLaw:
    """The law of ``weight`` times one whole number k, in proportion to q^|k| with q = e^(-1/b)."""

    weight: float
    b: float

    @property
    def scale(self) -> float:
        """Its standard deviation: sqrt(2 q) / (1 - q) for k."""
        return self.weight / (math.sqrt(2) * math.sinh(1 / (2 * self.b)))

    def tail(self, probability: Floats, copies: int) -> Floats:
        """What it exceeds with at most a probability <= 1/2.

        The least h of the whole numbers from 0 with P[k > h] = q^(h+1) / (1 + q) <= probability, rounded up.
        """
        assert copies == 1
        wanted = np.maximum(np.asarray(probability, np.float64), 1e-300)
        least = -self.b * (np.log(wanted) + math.log1p(math.exp(-1 / self.b)))
        return np.asarray(self.weight * np.maximum(np.ceil(least * _OVER) - 1, 0.0))


def summed_law(kind: str, terms: Sequence[tuple[float, int, float]]) -> Law:
    """The law of a weighted sum of independent noise, each number of it rounded to a whole one, or one discrete number.

    terms : of each kind of term its weight, how many there are, and the scale of the noise: b, or sigma.
    Gaussian noise is taken as normal, with a variance that rounding makes larger by 1/12 in each number. From a scale
    of 1 on, tails differ by less than 0.001; below that, rounded noise varies less than this.
    """
    kept = tuple(term for term in terms if term[0] != 0 and term[1] > 0)
    if kind == "discrete laplace":
        ((weight, count, b),) = kept
        assert count == 1
        return DiscreteLaw(weight, b)
    if kind == "laplace":
        return _laplace_sum(kept)
    variance = math.fsum(count * weight**2 * (scale**2 + _ROUNDED) for weight, count, scale in kept)
    return NoiseLaw("gaussian", math.sqrt(variance))


@lru_cache(maxsize=32)
def _laplace_sum(terms: tuple[tuple[float, int, float], ...], normal: float = 0.0) -> LaplaceSum:
    return LaplaceSum(terms, normal)  # with what was computed of it


def mixed_law(terms: Mapping[str, Sequence[tuple[float, int, float]]]) -> Law:
    """The law of a weighted sum of independent noise of both kinds, each number of it rounded to a whole one.

    terms : of Laplace noise and of Gaussian noise, as ``summed_law`` takes them; one of them may be left out.
    """
    if not terms.get("laplace"):
        return summed_law("gaussian", terms["gaussian"])
    kept = tuple(term for term in terms["laplace"] if term[0] != 0 and term[1] > 0)
    normal = summed_law("gaussian", terms["gaussian"]).scale if terms.get("gaussian") else 0.0
    return _laplace_sum(kept, normal)


def tallied(value: ArrayLike, noise: Law, most: float = 2.0**53) -> Estimate:
    """Estimates of counts in [0, most], each from a sum of noisy whole numbers whose noise has a known law.

    Guarantee: post-processing of a release; costs no privacy.
    Error:     unbiased; the standard error is that of the noise. Intervals are of whole numbers, and half a record
               wider on either side than the law asks for, so that steps of the sum lose no coverage. Of a law of
               whole numbers that is nothing: they are the exact belt.
    """
    seen = np.asarray(value, np.float64)
    bounds = partial(_whole_belt, value=seen, noise=noise, most=np.full(seen.shape, float(most)))
    errors = np.full(seen.shape, noise.scale)
    return Estimate(plain(seen), plain(errors), NOISE_ONLY, bounds, Quantity("records", 0.0, most))


def located(value: ArrayLike, noise: NoiseLaw, most: ArrayLike) -> Estimate:
    """Estimates of quantities in [0, most], each published with additive noise: one draw of a known law.

    Guarantee: post-processing of a release; costs no privacy.
    Error:     unbiased; the standard error is that of the noise. A quantity with ``most`` = 0 is 0 for certain.
    """
    seen, top = np.broadcast_arrays(np.asarray(value, np.float64), np.asarray(most, np.float64))
    seen, error = np.where(top > 0, seen, 0.0), np.where(top > 0, noise.scale, 0.0)
    bounds = partial(_belt, value=seen, noise=noise, most=top)
    return Estimate(plain(seen), plain(error), NOISE_ONLY, bounds)


def counted(value: ArrayLike, laplace_scale: float, most: float = 2.0**53) -> Estimate:
    """Estimates of counts in [0, most], each published with additive noise floor(eta + 1/2), eta ~ Laplace.

    Guarantee: post-processing of a release; costs no privacy.
    Error:     unbiased; P[noise = k] = e^(-|k|/b) sinh(1/2b) for k != 0, so its variance is cosh(h) / (2 sinh(h)^2)
               with h = 1/2b. Intervals are of whole numbers. count + eta lies within 1/2 of the value, and both ends of
               the exact interval that it would have given grow with it: taken at value - 1/2 and value + 1/2 they
               cover at least as often, and by no more than one step each.
    """
    h = 1 / (2 * laplace_scale)
    error = math.sqrt(1 / (math.tanh(h) * 2 * math.sinh(h)))
    noise = NoiseLaw("laplace", math.sqrt(2) * laplace_scale)
    seen = np.asarray(value, np.float64)
    errors = np.full(seen.shape, error if most > 0 else 0.0)
    bounds = partial(_whole_belt, value=seen, noise=noise, most=np.full(seen.shape, float(most)))
    return Estimate(plain(seen), plain(errors), NOISE_ONLY, bounds, Quantity("records"))


def _whole_belt(tail: float, value: Floats, noise: Law, most: Floats) -> Ends:
    """Confidence belt of a count under additive noise.

    The whole numbers within the belts of all that may have been rounded to a value.
    """
    low = np.ceil(_belt(tail, np.asarray(value - 0.5), noise, most)[0])
    high = np.floor(_belt(tail, np.asarray(value + 0.5), noise, most)[1])
    return np.asarray(low), np.maximum(low, high)


def _belt(tail: float, value: Floats, noise: Law, most: Floats) -> Ends:
    """Neyman's confidence belt under additive noise.

    All truths under which the value seen is not among the extreme ones.

    A truth t accepts values from t - down(t) to t + up(t), which are missed with probability 2 * tail * share(t) below
    and 2 * tail * (1 - share(t)) above. The share is a half in the middle of the range, next to nothing at 0 (a value
    below 0 says nothing against 0, and an interval cut at 0 would otherwise cover too often) and nearly all at the
    other end. It is a fixed function of t, so exactly 2 * tail is missed at every t; it grows with t, so both ends of
    what is accepted grow with t, and the truths that accept a value are an interval.
    """
    near = np.maximum(np.minimum(_NEAR * noise.scale, most / 2), np.finfo(float).tiny)

    def share(truth: Floats) -> Floats:
        from_low, from_high = (np.clip(gap / near, _LEAST, 1.0) for gap in (truth, most - truth))
        return np.asarray((1 + from_low - from_high) / 2)

    def accepts_from(truth: Floats) -> Floats:
        return np.asarray(truth - _exceeded(noise, 2 * tail * share(truth)))

    def accepts_to(truth: Floats) -> Floats:
        return np.asarray(truth + _exceeded(noise, 2 * tail * (1 - share(truth))))

    ends = np.zeros(value.shape), most.astype(np.float64)
    low, _ = bisected(lambda truth: accepts_to(truth) < value, *ends, _HALVINGS)
    _, high = bisected(lambda truth: accepts_from(truth) < value, *ends, _HALVINGS)
    return low, high


def _exceeded(noise: Law, probability: Floats) -> Floats:
    """Quantile of additive noise: the value that the noise exceeds with this probability, of any size."""
    small = noise.tail(np.minimum(probability, 1 - probability), 1)
    return np.asarray(np.where(probability <= 0.5, small, -small))
