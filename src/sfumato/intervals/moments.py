"""The two sources of error in a sketch, noise and projection, and the variances that follow from their moments.

Each formula exists once: planner, error bars and reports all call these.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy

from sfumato import check
from sfumato.intervals.estimate import NOISE_ONLY, Number
from sfumato.numerics.bisection import bisected
from sfumato.numerics.types import Floats

NoiseKind = Literal["laplace", "gaussian"]
_SHARES = 32  # of the variance of a difference, into which the noises of two rows are told apart in tables
_FAMILIES = ("identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal", "principal")


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """The noise on each published entry; ``scale`` is its standard deviation (sqrt(2) b for Laplace noise)."""

    kind: NoiseKind
    scale: float

    def __post_init__(self) -> None:
        check.one_of(("laplace", "gaussian"), kind=self.kind)
        check.positive(scale=self.scale)

    @property
    def variance(self) -> float:
        """Second moment of the noise in one entry."""
        return self.scale**2

    @property
    def fourth(self) -> float:
        """Fourth moment of one entry n, as Var(n^2) / variance^2: 2 Gaussian, 5 Laplace."""
        return 5.0 if self.kind == "laplace" else 2.0

    @property
    def fourth_of_difference(self) -> float:
        """Fourth moment of n - m for independent entries, as Var((n - m)^2) / variance^2: 8 Gaussian, 14 Laplace."""
        return _fourth_of_difference(self, self)

    @property
    def unit(self) -> "NoiseLaw":
        """The law with these moments in units of its scale."""
        return NoiseLaw(self.kind, 1.0)

    def tail(self, probability: Number, copies: int) -> Number:
        """Tail of the law with these moments: what n (one copy) or n - m (two) exceeds with a probability <= 1/2."""
        if self.kind == "gaussian":
            return -self.scale * math.sqrt(copies) * scipy.special.ndtri(probability)
        b = self.scale / math.sqrt(2)
        if copies == 1:
            return -b * np.log(2 * np.asarray(probability))
        # Pr[n - m > y b] = (2 + y) e^-y / 4
        return b * (-2 - scipy.special.lambertw(-4 * np.asarray(probability) * math.exp(-2), -1).real)

    def exceeding(self, value: Number, copies: int) -> Number:
        """Tail of the law with these moments: Pr[n (one copy) or n - m (two) exceeds a value, of either sign]."""
        if self.kind == "gaussian":
            return scipy.special.ndtr(-np.asarray(value) / (self.scale * math.sqrt(copies)))
        far = np.abs(value) * math.sqrt(2) / self.scale
        tail = np.exp(-far) / 2 if copies == 1 else _two_laplace(far, 1.0)
        return np.where(np.asarray(value) < 0, 1 - tail, tail)

    def moment(self, power: int, copies: int) -> float:
        """Moment of any even power: E n^power (one copy) or E (n - m)^power (two)."""
        half = power // 2
        if copies > 1:
            return _moment_of_difference(self, self, power)
        over = 2**half if self.kind == "laplace" else 2**half * math.factorial(half)
        return float(math.factorial(power) / over * self.scale**power)


@dataclass(frozen=True, slots=True)
class NoiseDifference(NoiseLaw):
    """The noise n - m in one entry of the difference of two rows, n and m independent and of different laws.

    At least one of them is Laplace, so its ``kind`` is: the law depends on the direction of what it hides. ``scale`` is
    the standard deviation of n - m, of which there is one copy. ``difference`` makes one.
    """

    one: NoiseLaw
    two: NoiseLaw

    @property
    def fourth(self) -> float:
        """Fourth moment of n - m, as Var((n - m)^2) / variance^2: between 2 and 5."""
        return _fourth_of_difference(self.one, self.two) * (self.one.variance / self.variance) ** 2

    @property
    def unit(self) -> "NoiseDifference":
        """The law with these moments in units of its scale, the share of each noise rounded to a few.

        Tables are kept for each. What rounding changes of the fourth moment is below a thirtieth of it.
        """
        share = min(max(round(_SHARES * self.two.variance / self.variance), 1), _SHARES - 1) / _SHARES
        one, two = NoiseLaw(self.one.kind, math.sqrt(1 - share)), NoiseLaw(self.two.kind, math.sqrt(share))
        return NoiseDifference("laplace", 1.0, one, two)

    def tail(self, probability: Number, copies: int = 1) -> Number:
        """Tail of the law with these moments: what n - m exceeds with a probability <= 1/2, by bisection."""
        wanted = np.asarray(probability, np.float64)
        most = self.scale * (10 - 2 * np.log(wanted))  # a Laplace law of the whole variance exceeds half of this less
        low, high = bisected(
            lambda value: np.asarray(self.exceeding(value, copies) > wanted), np.zeros_like(wanted), most, 60
        )
        return (low + high) / 2

    def exceeding(self, value: Number, copies: int = 1) -> Number:
        """Tail of the law with these moments: Pr[n - m exceeds a value, of either sign]."""
        if copies != 1:
            raise check.fail("copies", copies, "1, the difference of two rows")
        far, one, two = np.abs(np.asarray(value, np.float64)), self.one.scale, self.two.scale
        if self.one.kind == "gaussian":
            tail = _laplace_and_normal(far, two / math.sqrt(2), one)
        else:
            tail = _two_laplace(far * math.sqrt(2) / one, two / one)
        return np.where(np.asarray(value) < 0, 1 - tail, tail)

    def moment(self, power: int, copies: int = 1) -> float:
        """Moment of any even power: E (n - m)^power."""
        if copies != 1:
            raise check.fail("copies", copies, "1, the difference of two rows")
        return _moment_of_difference(self.one, self.two, power)


def difference(one: NoiseLaw, two: NoiseLaw) -> NoiseLaw:
    """The law of n - m with the moments of both: Gaussian for two Gaussians; else Gaussian or the larger one first."""
    scale = math.hypot(one.scale, two.scale)
    if one.kind == two.kind == "gaussian":
        return NoiseLaw("gaussian", scale)
    first, second = sorted((one, two), key=lambda noise: (noise.kind, -noise.scale))
    return NoiseDifference("laplace", scale, first, second)


def _fourth_of_difference(one: NoiseLaw, two: NoiseLaw) -> float:
    """Fourth moment of n - m for independent entries, as Var((n - m)^2) / Var(n)^2: of both, and 4 Var n Var m."""
    ratio = two.variance / one.variance
    return one.fourth + two.fourth * ratio**2 + 4 * ratio


def _moment_of_difference(one: NoiseLaw, two: NoiseLaw, power: int) -> float:
    """Moment E (n - m)^power of independent symmetric n and m, for an even power."""
    parts = range(0, power + 1, 2)
    return math.fsum(math.comb(power, i) * one.moment(i, 1) * two.moment(power - i, 1) for i in parts)


def _two_laplace(far: Floats, ratio: float) -> Floats:
    """Tail of two noises' difference: Pr[n - m > a y] for Laplace noise of scales a and b = ratio * a <= a, y >= 0.

    (a^2 e^-y - b^2 e^(-y a/b)) / (2 (a^2 - b^2)), written so that nothing cancels; (2 + y) e^-y / 4 where a = b.
    """
    slower = scipy.special.exprel(far * (1 - 1 / ratio))
    return np.asarray(np.exp(-far) / 2 * (1 + far * (ratio / (1 + ratio)) * slower))


def _laplace_and_normal(value: Floats, b: float, s: float) -> Floats:
    """Tail of two noises' difference: Pr[n - m > y] for Laplace noise of scale b and normal one of deviation s.

    Phi(-u) + e^(s^2/2b^2) (e^(-y/b) Phi(u - s/b) - e^(y/b) Phi(-u - s/b)) / 2 with u = y/s. The last term is less than
    half of the first, as Mills' ratio falls.
    """
    u, ratio = value / s, s / b
    normal, short = np.exp(-(u**2) / 2) / 2, np.maximum(ratio - u, 0.0)  # e^(x^2/2) Phi(-x) = erfcx(x / sqrt 2) / 2
    beyond = np.exp(np.minimum(ratio**2 / 2 - u * ratio, 0.0)) * scipy.special.ndtr(u - ratio)
    up = np.where(short > 0, normal * scipy.special.erfcx(short / math.sqrt(2)), beyond)
    down = normal * scipy.special.erfcx((u + ratio) / math.sqrt(2))
    return np.asarray(scipy.special.ndtr(-u) + (up - down) / 2)


@dataclass(frozen=True, slots=True)
class Geometry:
    """How much a random d x k projection of a family distorts lengths and angles, on average over its draw.

    For vectors a, b, c, e every family has E<aP, bP> = <a, b> and
    Cov(<aP, bP>, <cP, eP>) = p (<a,c><b,e> + <a,e><b,c>) - q <a,b><c,e> + f sum_i a_i b_i c_i e_i,

    - independent entries of kurtosis kappa: p = 1/k, q = 0, f = (kappa - 3)/k; that is f = 0 for gaussian and
      achlioptas (kappa = 3), f = -2/k for rademacher (kappa = 1);
    - sparse, for any number of signs per row: rows have length 1 and <P_i, P_j> are uncorrelated of variance 1/k, which
      gives the same as rademacher;
    - orthonormal: M = (d/k) Q Q^T is invariant under rotations, so E[M_ij M_kl] is a combination of d_ij d_kl and
      d_ik d_jl + d_il d_jk; the traces of Q Q^T and of its square are both k, which settles the two coefficients:
      p = d g, q = 2 g, f = 0 with g = (d - k) / (k (d - 1) (d + 2));
    - identity: no distortion;
    - principal: orthonormal columns that are no draw but settled by the data (privately) before the rows are published.
      They are not random, so nothing is added, but E<aP, bP> = <a, b> does not hold: what is estimated is <aP, bP>
      itself, the part within the subspace, and ||aP||^2 <= ||a||^2.

    f is never positive, so leaving the sum out (it is not estimable from a sketch) errs on the cautious side.
    """

    family: str
    dim_in: int
    dim_out: int

    def __post_init__(self) -> None:
        check.one_of(_FAMILIES, family=self.family)
        check.whole(1, dim_in=self.dim_in, dim_out=self.dim_out)
        if self.family == "identity" and self.dim_in != self.dim_out:
            raise check.fail("dim_out", self.dim_out, f"dim_in={self.dim_in} for family='identity'")
        if self.family in ("orthonormal", "principal") and self.dim_out > self.dim_in:
            raise check.fail("dim_out", self.dim_out, f"at most dim_in={self.dim_in} for family={self.family!r}")

    @property
    def coefficients(self) -> tuple[float, float, float]:
        """Second moments of the projection: (p, q, f) of the covariance above."""
        d, k = self.dim_in, self.dim_out
        if self.family in ("identity", "principal") or (self.family == "orthonormal" and d == k):
            return 0.0, 0.0, 0.0
        if self.family == "orthonormal":
            g = (d - k) / (k * (d - 1) * (d + 2))
            return d * g, 2 * g, 0.0
        return 1 / k, 0.0, -2 / k if self.family in ("rademacher", "sparse") else 0.0

    def stretch_variance(self, squared: Number, fourth: Number = 0.0) -> Number:
        """Variance Var ||vP||^2 for ||v||_2^2 = ``squared`` and ||v||_4^4 = ``fourth`` (left at 0: cautious)."""
        p, q, f = self.coefficients
        return (2 * p - q) * squared**2 + f * fourth

    def inner_variance(self, squared_x: Number, squared_y: Number, inner: Number, shared: Number = 0.0) -> Number:
        """Variance Var <xP, yP>, where ``shared`` = sum_i x_i^2 y_i^2 (left at 0: cautious)."""
        p, q, f = self.coefficients
        return p * squared_x * squared_y + (p - q) * inner**2 + f * shared

    @property
    def covers(self) -> str:
        """Which sources of error the variances cover, in plain words."""
        if self.family == "principal":
            return f"{NOISE_ONLY}; lengths are those within the published subspace, at most those of the whole records"
        if self.coefficients[0] == 0:
            return NOISE_ONLY
        return "noise, and the random projection (shared by all pairs of this release)"


@dataclass(frozen=True, slots=True)
class SketchLaw:
    """What is random about a released row z = xP + e: noise e on each entry, and the projection P.

    Variances are those of unbiased estimates. ``fourth`` is ||v||_4^4 (left at 0: cautious), v the vector whose squared
    length is estimated.
    second : the noise on the second row of a pair, where it comes from another release (None: the same).
    """

    noise: NoiseLaw
    geometry: Geometry
    second: NoiseLaw | None = None

    @property
    def noises(self) -> tuple[NoiseLaw, NoiseLaw]:
        """The noises whose moments count for the two rows of a pair."""
        return self.noise, self.noise if self.second is None else self.second

    @property
    def heavy(self) -> tuple[bool, bool]:
        """Whether the noises on the two rows of a pair have the moments of Laplace noise."""
        one, two = self.noises
        return one.kind == "laplace", two.kind == "laplace"

    @property
    def each(self) -> "tuple[SketchLaw, SketchLaw]":
        """The two rows of a pair, each with the moments of its own noise."""
        one, two = self.noises
        return replace(self, noise=one, second=None), replace(self, noise=two, second=None)

    @property
    def apart(self) -> "tuple[SketchLaw, int]":
        """The moments of the difference of two rows: its law, and how many copies of the noise are in each entry."""
        if self.second is None:
            return self, 2
        return replace(self, noise=difference(self.noise, self.second), second=None), 1

    @property
    def bias(self) -> float:
        """Second moment E||e||^2, what the noise adds to the squared length of a row."""
        return self.geometry.dim_out * self.noise.variance

    @property
    def fixed(self) -> bool:
        """Whether the projection P adds no variance: nothing is random but the noise."""
        return self.geometry.coefficients[0] == 0

    @property
    def unit(self) -> "SketchLaw":
        """The two sources of error, noise and projection, in units of the noise's scale, of each row's its own."""
        one, two = (noise.unit for noise in self.noises)
        return replace(self, noise=one, second=None if one == two else two)

    @property
    def of_image(self) -> "SketchLaw":
        """The law of z as a noisy image of xP itself: variances of noise alone, none of the projection."""
        k = self.geometry.dim_out
        return replace(self, geometry=Geometry("identity", k, k))

    def distance_variance(self, squared: Number, fourth: Number = 0.0) -> Number:
        """Variance of the estimated squared distance of two released rows at true squared distance ``squared``.

        Var||vP||^2 + 8 s^2 r^2 + {8 Gaussian, 14 Laplace} k s^4, s the noise's scale. (Dhaliwal, Claim 7, prints
        4 s^2 r^2 and 2k(7 s^4 - s^2): a slip.)
        """
        law, copies = self.apart
        return law.length_variance(squared, copies, fourth)

    def norm_variance(self, squared: Number, fourth: Number = 0.0) -> Number:
        """Variance of the estimated squared norm of a released row: its distance to a public one, such as 0."""
        return self.length_variance(squared, 1, fourth)

    def length_variance(self, squared: Number, copies: int, fourth: Number = 0.0) -> Number:
        """Variance of the estimate of a squared length under ``copies`` independent noises."""
        noise = self.noise
        own = noise.fourth if copies == 1 else noise.fourth_of_difference
        blur = 4 * copies * noise.variance * squared + own * self.geometry.dim_out * noise.variance**2
        return self.geometry.stretch_variance(squared, fourth) + blur

    def inner_product_variance(
        self, squared_x: Number, squared_y: Number, inner: Number, shared: Number = 0.0
    ) -> Number:
        """Variance of the estimated inner product of two released rows: the noise of each is along the other.

        ``shared`` as in ``Geometry.inner_variance``.
        """
        one, two = (noise.variance for noise in self.noises)
        blur = two * squared_x + one * squared_y + self.geometry.dim_out * one * two
        return self.geometry.inner_variance(squared_x, squared_y, inner, shared) + blur
