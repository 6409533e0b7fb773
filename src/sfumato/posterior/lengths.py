"""Laws of squared distances under a posterior: sums of squares of normal numbers, and what a projection adds.

If y_i - y_j is normal with mean d and covariance W, its squared length has the cumulants
kappa_s = 2^(s-1) (s-1)! (tr W^s + s d' W^(s-1) d), so the mean |d|^2 + tr W. It is a generalised chi-square, whose
quantiles are taken from the shifted gamma law of the same first three cumulants (Pearson's type III; exact for central
chi-squares, near the normal law where many directions count).
"""

from dataclasses import dataclass

import numpy as np
import scipy

from sfumato.intervals.estimate import Ends
from sfumato.numerics.types import Floats

_CAUTION = 1.4  # times the standard deviation, towards 0
_ABOVE = 1.15  # times the distance of the upper end from the mean


@dataclass(frozen=True, slots=True, eq=False)
class LengthCumulants:
    """The first three cumulants of squared lengths."""

    mean: Floats
    variance: Floats
    third: Floats

    @classmethod
    def of(cls, apart: Floats, covariance: Floats) -> "LengthCumulants":
        """Of normal vectors with means ``apart`` (many, width) and covariances (many, width, width)."""
        once = np.einsum("nij,nj->ni", covariance, apart)
        twice = np.einsum("nij,njk->nik", covariance, covariance)
        mean = np.sum(apart**2, axis=1) + np.einsum("nii->n", covariance)
        variance = 2 * np.einsum("nii->n", twice) + 4 * np.sum(apart * once, axis=1)
        third = 8 * np.einsum("nij,nji->n", twice, covariance) + 24 * np.sum(once**2, axis=1)
        return cls(mean, variance, third)

    @classmethod
    def along(cls, apart: Floats, variances: Floats) -> "LengthCumulants":
        """Of normal vectors with means ``apart`` and the same variance of each number in all of them."""
        return cls(
            np.sum(apart**2 + variances, axis=1),
            np.sum(2 * variances**2 + 4 * variances * apart**2, axis=1),
            np.sum(8 * variances**3 + 24 * variances**2 * apart**2, axis=1),
        )

    @classmethod
    def gamma(cls, mean: Floats, variance: Floats) -> "LengthCumulants":
        """Of gamma laws."""
        least = np.maximum(1e-3 * np.sqrt(variance), np.finfo(float).tiny)
        return cls(mean, variance, 2 * variance**2 / np.maximum(mean, least))

    @classmethod
    def joined(cls, parts: "list[LengthCumulants]") -> "LengthCumulants":
        """Several, one after the other."""
        none = np.empty(0)
        return cls(
            np.concatenate([none, *(part.mean for part in parts)]),
            np.concatenate([none, *(part.variance for part in parts)]),
            np.concatenate([none, *(part.third for part in parts)]),
        )

    def __add__(self, other: "LengthCumulants") -> "LengthCumulants":
        return LengthCumulants(self.mean + other.mean, self.variance + other.variance, self.third + other.third)

    def scaled(self, shift: Floats | float, widening: Floats | float = 1.0) -> "LengthCumulants":
        """The law of a multiple, made wider about its mean by a factor."""
        wide = shift * widening
        return LengthCumulants(shift * self.mean, wide**2 * self.variance, wide**3 * self.third)

    def quantile(self, probability: float) -> Floats:
        """What the squared length stays below with this probability; never negative."""
        sd = np.sqrt(self.variance)
        skewness = self.third / np.maximum(sd, np.finfo(float).tiny ** 0.25) ** 3
        shape = 4 / np.clip(skewness, 1e-4, 1e3) ** 2
        drawn = (scipy.special.gammaincinv(shape, probability) - shape) / np.sqrt(shape)
        return np.asarray(np.maximum(self.mean + sd * drawn, 0.0))


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a random projection adds to the law of squared distances in the original space.

    The squared length of an image is that of the original times a number of mean 1 and variance ``noise``, both taken
    as log-normal. Over all pairs the logarithms of original squared distances have mean ``centre`` and variance
    ``spread``. A pair that looks near was likely brought nearer by the projection; the law given the image allows for
    that.
    """

    noise: float
    centre: float
    spread: float

    @property
    def share(self) -> float:
        """How much of a difference between logarithms of squared lengths is due to the originals."""
        return self.spread / (self.spread + self.noise)

    def logarithms(self, lengths: LengthCumulants) -> tuple[Floats, Floats]:
        """Mean and variance of the logarithm of original squared distances, given the law of those of images."""
        blur = np.log1p(lengths.variance / np.maximum(lengths.mean**2, np.finfo(float).tiny))
        middle = np.log(np.maximum(lengths.mean, np.finfo(float).tiny)) - blur / 2 + self.noise / 2
        share = self.share
        return share * middle + (1 - share) * self.centre, share * self.noise + share**2 * blur

    @classmethod
    def learned(cls, noise: float, lengths: LengthCumulants) -> "Stretch":
        """From the laws of squared lengths between images of pairs that were not chosen for anything."""
        kept = lengths.mean > 0
        if not kept.any():
            return cls(noise, 0.0, 0.0)
        logs, blur = np.log(lengths.mean[kept]), np.log1p(lengths.variance[kept] / lengths.mean[kept] ** 2)
        seen = float(np.var(logs) + np.mean(blur))
        return cls(noise, float(np.mean(logs - blur / 2)) + noise / 2, max(seen - noise, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class DistanceLaw:
    """The posterior law of squared distances between records: of images, stretched where the projection is random.

    A prior of smooth laws is never quite right about the shape of this law near 0, where records are alike: of the most
    alike it makes too little. So the lower end of an interval is that of a normal law of the same mean with 1.4 times
    the standard deviation, where this is lower, and the upper end is 1.15 times as far from the mean. Without this,
    intervals of real records that are shown miss more often than they say. The factors were chosen on data sets of
    ``sfumato reproduce similar``.
    """

    lengths: LengthCumulants
    stretch: Stretch | None = None

    @property
    def mean(self) -> Floats:
        """Posterior means."""
        if self.stretch is None:
            return self.lengths.mean
        middle, variance = self.stretch.logarithms(self.lengths)
        return np.asarray(np.exp(middle + variance / 2))

    @property
    def standard_deviation(self) -> Floats:
        """Posterior standard deviations."""
        if self.stretch is None:
            return np.asarray(np.sqrt(self.lengths.variance))
        _, variance = self.stretch.logarithms(self.lengths)
        return np.asarray(self.mean * np.sqrt(np.expm1(variance)))

    def bounds(self, tail: float) -> Ends:
        """Ends of the interval that leaves out ``tail`` on each side."""
        score = -scipy.special.ndtri(tail)
        low, high = self.ends(tail, score)
        above = self.mean + _ABOVE * np.maximum(high - self.mean, 0.0)
        return np.clip(self.mean - _CAUTION * score * self.standard_deviation, 0.0, low), np.maximum(above, high)

    def ends(self, tail: float, score: float) -> Ends:
        """Quantiles of the law as it is."""
        if self.stretch is None:
            return self.lengths.quantile(tail), self.lengths.quantile(1 - tail)
        middle, variance = self.stretch.logarithms(self.lengths)
        return np.exp(middle - score * np.sqrt(variance)), np.exp(middle + score * np.sqrt(variance))
