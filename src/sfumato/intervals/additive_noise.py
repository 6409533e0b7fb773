"""Quantities seen through noise of a known law: value = truth + noise, with the truth in a known range [0, most].

Intervals are exact, not asymptotic: the law of value - truth does not depend on the truth.
"""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from sfumato.intervals.estimate import NOISE_ONLY, Ends, Estimate, Quantity, plain
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.bisection import bisected
from sfumato.numerics.types import Floats

_NEAR = 4.0  # truths within this many standard deviations of an end of the range share their tails unevenly
_LEAST = 1e-3  # the least share of a tail, as a part of its even share
_HALVINGS = 64


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


def _whole_belt(tail: float, value: Floats, noise: NoiseLaw, most: Floats) -> Ends:
    """Confidence belt of a count under additive noise.

    The whole numbers within the belts of all that may have been rounded to a value.
    """
    low = np.ceil(_belt(tail, np.asarray(value - 0.5), noise, most)[0])
    high = np.floor(_belt(tail, np.asarray(value + 0.5), noise, most)[1])
    return np.asarray(low), np.maximum(low, high)


def _belt(tail: float, value: Floats, noise: NoiseLaw, most: Floats) -> Ends:
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


def _exceeded(noise: NoiseLaw, probability: Floats) -> Floats:
    """Quantile of additive noise: the value that the noise exceeds with this probability, of any size."""
    small = noise.tail(np.minimum(probability, 1 - probability), 1)
    return np.asarray(np.where(probability <= 0.5, small, -small))
