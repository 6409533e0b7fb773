"""Ratios of noisy sums: exact intervals for a mean and a variance from moments that each carry noise (Fieller 1954).

A mean m of records at a_1, ..., a_n solves sum (a_i - m) = 0, which is linear in the moments. With noise of a known law
on each of them, the left side at the true m is a weighted sum of that noise, whose law is known for every m. The
interval is the set of all m whose sum is not among the extreme ones. A variance v about m solves
sum ((a_i - m)^2 - v) = 0; m is not known, so v is tried at the ends and at the middle of an interval for m.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from sfumato.intervals.estimate import Ends
from sfumato.numerics.bisection import bisected
from sfumato.numerics.types import Bools, Floats

_ROUNDED = 1 / 12  # what rounding to a whole number adds to the variance of noise
_APART = 1e-3  # scales of Laplace terms that are nearer than this are moved apart, upwards
_HALVINGS = 50
_FOR_MEAN = 0.02  # the part of what an interval of a variance may miss that its mean may


@dataclass(frozen=True, slots=True)
class MomentNoise:
    """Independent noise on every number: ``laplace`` of scale b or ``gaussian`` of scale sigma, rounded to whole ones.

    Scales are in units of what counts as 1 record.
    """

    kind: Literal["laplace", "gaussian"]
    scale: float
    step: float  # of whole numbers, in the same units

    @property
    def variance(self) -> float:
        """Of the noise on one number, rounding included."""
        return (2.0 if self.kind == "laplace" else 1.0) * self.scale**2 + _ROUNDED * self.step**2

    def exceeds(self, weights: Floats, value: Floats) -> Floats:
        """The probability that the noise, weighted and summed over the last axis, exceeds a value >= 0.

        Rounding moves each number by half a step at most: this much is taken off the value, which is cautious.
        """
        sizes = np.abs(weights)
        beyond = np.maximum(value - self.step / 2 * sizes.sum(axis=-1), 0.0)
        if self.kind == "gaussian":
            deviation = self.scale * np.sqrt((sizes**2).sum(axis=-1))
            return np.asarray(scipy.special.ndtr(-beyond / np.maximum(deviation, 1e-300)))
        return _laplace_tail(sizes * self.scale, beyond)


def _laplace_tail(scales: Floats, value: Floats) -> Floats:
    """P[sum of Laplace numbers > value] for value >= 0, by partial fractions: sum of e^(-value/p_i) / 2, weighted.

    The weight of p_i is the product of p_i^2 / (p_i^2 - p_j^2) over the others.
    """
    rising = np.sort(np.maximum(scales, scales.max(axis=-1, keepdims=True) * _APART + 1e-300), axis=-1)
    for place in range(1, rising.shape[-1]):
        least = rising[..., place - 1] * (1 + _APART)
        rising[..., place] = np.maximum(rising[..., place], least)
    squares = rising**2
    found = np.zeros(np.broadcast_shapes(value.shape, rising.shape[:-1]))
    for place in range(rising.shape[-1]):
        weight = np.ones(rising.shape[:-1])
        for other in range(rising.shape[-1]):
            if other != place:
                weight = weight * squares[..., place] / (squares[..., place] - squares[..., other])
        found += weight * np.exp(-value / rising[..., place])
    return np.clip(found / 2, 0.0, 0.5)


@dataclass(frozen=True, slots=True)
class NoisyMoments:
    """Noisy moments of records that lie at some a in [0, 1]; all in units of what counts as 1 record.

    numbers : shape (groups, k).
    basis   : (k, k), for each number what a record at a adds to it, as coefficients of 1, a, a^2.
    """

    numbers: Floats
    basis: Floats
    noise: MomentNoise

    def weights(self, polynomial: Floats) -> Floats:
        """The weights of the numbers whose weighted sum adds up a polynomial of a (coefficients of 1, a, ...)."""
        return np.asarray(polynomial @ np.linalg.inv(self.basis))

    def total(self, polynomial: Floats) -> Floats:
        """The noisy sum of a polynomial of a over all records."""
        return np.asarray((self.weights(polynomial) * self.numbers).sum(axis=-1))

    def powers(self, *coefficients: Floats | float) -> Floats:
        """Coefficients of 1, a, ... as an array over the groups."""
        shape = self.numbers.shape[:-1]
        columns = [np.broadcast_to(np.asarray(c, np.float64), shape) for c in coefficients]
        columns += [np.zeros(shape)] * (self.basis.shape[0] - len(columns))
        return np.stack(columns, axis=-1)

    @property
    def records(self) -> Floats:
        """The noisy number of records."""
        return self.total(self.powers(1.0))

    @property
    def mean(self) -> Floats:
        """The noisy mean of a, cut to [0, 1]; NaN where the noisy number of records is not above 0."""
        return _ratio(self.total(self.powers(0.0, 1.0)), self.records, 1.0)

    @property
    def variance(self) -> Floats:
        """The noisy variance of a, cut to [0, 1/4]; NaN where the noisy number of records is not above 0."""
        mean = np.nan_to_num(self.mean, nan=0.5)
        return _ratio(self.total(self.powers(mean**2, -2 * mean, 1.0)), self.records, 0.25)

    def error(self, polynomial: Floats) -> Floats:
        """The standard error of the noisy sum of a polynomial."""
        return np.asarray(np.sqrt((self.weights(polynomial) ** 2).sum(axis=-1) * self.noise.variance))

    @property
    def mean_error(self) -> Floats:
        """The standard error of the mean by the delta method; at most the range."""
        mean = np.nan_to_num(self.mean, nan=0.5)
        return self._relative(self.error(self.powers(-mean, 1.0)), 1.0)

    @property
    def variance_error(self) -> Floats:
        """The standard error of the variance by the delta method; at most the range."""
        mean, variance = (np.nan_to_num(value, nan=0.1) for value in (self.mean, self.variance))
        return self._relative(self.error(self.powers(mean**2 - variance, -2 * mean, 1.0)), 0.25)

    def _relative(self, error: Floats, most: float) -> Floats:
        return np.asarray(np.minimum(error / np.maximum(self.records, 1e-300), most))

    def mean_interval(self, tail: float) -> Ends:
        """All means that the noise does not exclude, with probability ``tail`` left out on each side."""
        return self._interval(lambda mean: self.powers(-mean, 1.0), 1.0, tail)

    def variance_interval(self, tail: float) -> Ends:
        """All variances that the noise does not exclude, about any mean that it does not exclude either."""
        ends = self.mean_interval(tail * _FOR_MEAN)
        middle = np.clip(np.nan_to_num(self.mean, nan=0.5), *ends)
        found = [self._about(mean, tail * (1 - _FOR_MEAN)) for mean in (*ends, middle)]
        low = np.minimum.reduce([low for low, _ in found])
        return low, np.maximum.reduce([high for _, high in found])

    def _about(self, mean: Floats, tail: float) -> Ends:
        return self._interval(lambda variance: self.powers(mean**2 - variance, -2 * mean, 1.0), 0.25, tail)

    def _interval(self, polynomial: Callable[[Floats], Floats], most: float, tail: float) -> Ends:
        """Values in [0, most] at which the sum of a polynomial, which falls in the value, is not among the extremes.

        Weights are excluded on one side if their sum of numbers exceeds a quantile of their sum of noise. For noise of
        a symmetric log-concave law that quantile is a norm of the weights (Meyer and Reisner 1991), so excluded weights
        form a convex cone, and excluded values one stretch. It may lie in the middle, where the number of records is
        hardly above 0: then values at either end are possible, and an end of the interval moves only if it is excluded
        itself. Where not even the number of records is above 0, nothing is excluded.
        """

        def excluded(value: Floats, side: float) -> Bools:
            terms = polynomial(value)
            seen = side * self.total(terms)
            return np.asarray((seen > 0) & (self.noise.exceeds(self.weights(terms), np.maximum(seen, 0.0)) < tail))

        shape = self.numbers.shape[:-1]
        ends = np.zeros(shape), np.full(shape, most)
        low, _ = bisected(lambda value: excluded(value, 1.0), *ends, _HALVINGS)
        _, high = bisected(lambda value: ~excluded(value, -1.0), *ends, _HALVINGS)
        known = self.records > 0
        cut = known & excluded(ends[0], 1.0), known & excluded(ends[1], -1.0)
        return np.where(cut[0], low, 0.0), np.where(cut[1], high, most)


def _ratio(top: Floats, bottom: Floats, most: float) -> Floats:
    safe = np.where(bottom > 0, bottom, 1.0)
    return np.asarray(np.where(bottom > 0, np.clip(top / safe, 0.0, most), np.nan))
