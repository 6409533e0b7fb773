"""Covariances seen through noise: what a release holds of a second moment, and variances from it with error bars.

Rows x are taken about a public centre, in weighted units. A constant c, the *anchor*, may stand beside each row; the
sum of (x, c)(x, c)^T then holds the second moment, c times the sum of the rows and c^2 times their number. All that is
said here is about the rows that were released, clipped as they were, and not about a population they may come from.

Rows were rounded to a public grid before anything was summed up (``moment_grid``), each number of column j by at most
t_j. That moves <u, x> by at most <|u|, t>, so the root of the mean square along u, about the centre or about the mean,
by no more (Minkowski), and every singular value of the rows over sqrt(n) by at most ||t|| (Weyl). Intervals allow for
it: they hold the truth of the rows before they were rounded.

Errors are linear in the noise N on that matrix, up to a term of order 1/n. The scatter S about the mean m errs by
<l', N r'> in l^T S r, with l' = (l, -<l, m>/c) and r' likewise: one formula gives the errors of variances, and of
eigenvalues and regression coefficients (``linear_models``).
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from sfumato.estimation.summed_noise import SummedLaw
from sfumato.intervals.estimate import NOISE_ONLY, Ends, Estimate, Number
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Bools, Floats

_MANY = 1e4  # a sum of as many Laplace draws as this is Gaussian for every purpose here
_SMALL = 8  # columns up to which simulating costs next to nothing
_DENSE = 128  # columns from which on norms are found by iteration, and fewer of them are simulated
_COUNT_SHARE = 0.1  # of what an interval may miss, where the number of records has noise of its own


# ---- what is published ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def kept(dim: int, *, centred: bool, counted: bool) -> Bools:
    """Which numbers of a covariance, in the triangle of (x, c)(x, c)^T, are published.

    Sums if centred, the number of rows if counted, and all the others.
    """
    above = np.triu_indices(dim + 1, 1)[1] < dim
    mask = np.concatenate([np.append(np.ones(dim, bool), counted), centred | above])
    mask.setflags(write=False)
    return mask


def square(triangle: Floats, dim: int) -> Floats:
    """A symmetric covariance matrix from its triangle: the diagonal, followed by what lies above it, row by row."""
    above = np.zeros((dim, dim))
    above[np.triu_indices(dim, 1)] = triangle[dim:]
    return np.asarray(above + above.T + np.diag(triangle[:dim]))


def placed(values: Floats, published: Bools) -> Floats:
    """The triangle of a covariance of which these numbers are published; 0 where nothing is."""
    triangle = np.zeros(published.size)
    triangle[published] = values
    return triangle


@lru_cache(maxsize=2)
def places(dim: int) -> NDArray[np.intp]:
    """Rows and columns of the numbers in the triangle of a covariance: the diagonal, then what lies above it."""
    found = np.concatenate([np.diag_indices(dim), np.triu_indices(dim, 1)], axis=1)
    found.setflags(write=False)
    return found


# ---- noise on every number ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Noisy:
    """The published triangle with noise: Laplace of one scale, or Gaussian, less by sqrt(2) off the diagonal.

    values         : the published numbers in weighted units.
    law            : of the noise on the diagonal; of a sum over owners, of all noises in it.
    public_records : the number of rows, or None if it is protected, so published with noise.
    rounding       : by how much a number of each column was moved at most, when rows were rounded.
    """

    values: Floats
    dim: int
    law: NoiseLaw | SummedLaw
    anchor: float
    centred: bool
    public_records: int | None
    rounding: Floats | float = 0.0

    @cached_property
    def published(self) -> Bools:
        """Which numbers of the triangle of the covariance are published."""
        return kept(self.dim, centred=self.centred, counted=self.public_records is None)

    @cached_property
    def matrix(self) -> Floats:
        """The published covariance sums as a symmetric matrix with the anchor last; 0 where nothing is published."""
        return self._square(self.values)

    def _square(self, values: Floats) -> Floats:
        return square(placed(values, self.published), self.dim + 1)

    @property
    def records(self) -> float:
        """The number of rows behind the covariance: public, or an unbiased estimate, but at least 1."""
        if self.public_records is not None:
            return float(self.public_records)
        return max(float(self.matrix[-1, -1]) / self.anchor**2, 1.0)

    @property
    def mean(self) -> Floats:
        """Mean of the rows of a noisy covariance about the public centre; 0 where no sums are published."""
        return np.asarray(self.matrix[:-1, -1] / self.anchor / self.records)

    @property
    def off(self) -> float:
        """Variance of the noise off the diagonal of the covariance, over that on it."""
        if isinstance(self.law, SummedLaw):
            return self.law.off
        return 0.5 if self.law.kind == "gaussian" else 1.0

    @property
    def across(self) -> float:
        """What noise off the diagonal of a covariance counts, over that on it: each number stands for two entries."""
        return 2 * math.sqrt(self.off)

    @property
    def each(self) -> float:
        """How many equal Laplace draws the noise on one number of the covariance is alike."""
        return self.law.alike if isinstance(self.law, SummedLaw) else 1.0

    @property
    def sum_variance(self) -> float:
        """Variance of the noise on each column's sum beside the covariance."""
        return self.law.variance / self.anchor**2 * self.off * self.centred

    def covariance(self) -> Floats:
        """The second moment per row, or the covariance if centred; unbiased where the number of rows is public."""
        sums = self.matrix[:-1, -1] / self.anchor
        squared = np.outer(sums, sums) - self.sum_variance * np.eye(self.dim)
        return np.asarray((self.matrix[:-1, :-1] - squared / self.records) / self.records)

    def form(
        self, left: Floats, right: Floats, value: float | None = None, *, along: float = 0.0
    ) -> tuple[float, float]:
        """Standard error of left^T covariance right + along right^T mean, and how many equal Laplace draws err alike.

        ``value``: of the first form, if the number of rows divides it; without one it is a ratio in which that cancels.
        """
        lifted = [np.append(side, -side @ self.mean / self.anchor) for side in (left, right)]
        lifted[0][-1] += along / self.anchor
        weights = (np.outer(*lifted) + np.outer(*lifted[::-1])) / 2
        if value is not None:
            weights[-1, -1] -= value / self.anchor**2
        place = places(self.dim + 1)
        diagonal = np.arange(self.published.size) <= self.dim
        shares = (weights[place[0], place[1]] * np.where(diagonal, 1.0, self.across))[self.published]
        squares, length = float(shares @ shares), max(float(np.linalg.norm(shares)), np.finfo(float).tiny)
        second = self.sum_variance**2 * float((left @ left) * (right @ right) + (left @ right) ** 2)
        variance = squares * self.law.variance + second / self.records**2
        alike = self.each / max(float(np.sum((shares / length) ** 4)), np.finfo(float).tiny)
        return math.sqrt(variance) / self.records, max(alike, 1.0)

    def quantile(self, tail: float, alike: float) -> float:
        """Quantile of the error of a covariance's form, in standard errors, exceeded with this probability."""
        return laplace_sum_tail(tail, alike) if self.law.kind == "laplace" else -float(scipy.special.ndtri(tail))

    def variance(self, direction: Floats, most: float) -> Estimate:
        """Variance of the rows along a direction, in [0, most], from the noisy covariance."""
        value = float(direction @ self.covariance() @ direction)
        error, alike = self.form(direction, direction, value)

        def bounds(tail: float) -> Ends:
            reach = self.quantile(tail, alike) * error
            return before_rounding((value - reach, value + reach), moved, most)

        moved = float(np.sum(np.abs(direction) * self.rounding))
        return Estimate(value, error, NOISE_ONLY, bounds)

    def eigenvalue_bounds(self, values: Floats, tail: float) -> Ends:
        """Bounds on all eigenvalues of the covariance at once: none is off by more than the norm of the error (Weyl).

        The norm's quantile is an order statistic of simulated errors. Exact where the error's law is known: for second
        moments with a public number of rows; otherwise the mean and the covariance found stand in for the true ones.
        """
        count = _simulations(2 * tail, self.dim)
        rng = np.random.default_rng(0)
        norms = np.sort([_norm(self._simulated(rng)) for _ in range(count)])
        widest = norms[_place(2 * tail, count)]
        return values - widest, values + widest

    def _simulated(self, rng: np.random.Generator) -> Floats:
        """The error of a covariance with new noise."""
        size, diagonal = self.values.size, np.arange(self.published.size)[self.published] <= self.dim
        if isinstance(self.law, SummedLaw):
            noise = self._square(self.law.drawn(rng, diagonal))
        elif self.law.kind == "laplace":
            noise = self._square(rng.laplace(0, self.law.scale / math.sqrt(2), size))
        else:
            noise = self._square(rng.standard_normal(size) * self.law.scale * np.where(diagonal, 1, math.sqrt(0.5)))
        sums, count = noise[:-1, -1] / self.anchor, float(noise[-1, -1]) / self.anchor**2
        mean = self.mean
        crossed = np.outer(mean, sums)
        error = noise[:-1, :-1] - crossed - crossed.T + count * np.outer(mean, mean)
        error -= (np.outer(sums, sums) - self.sum_variance * np.eye(self.dim)) / self.records
        return np.asarray((error - count * self.covariance()) / self.records)


def _simulations(missed: float, dim: int) -> int:
    """How many simulated covariances make an order statistic of their errors a sound bound.

    How many draws of a law make an order statistic a bound that is missed this often, and no wild one.

    Over the draws, that is: they are the same for every release, and with m beyond the bound the share that it misses
    is off by about 1 / sqrt(m) of itself.
    """
    return math.ceil((60 if dim <= _SMALL else 20 if dim <= _DENSE else 2) / missed * (1 - 1e-12)) - 1


def _place(missed: float, count: int) -> int:
    """Which order statistic of simulated covariances' errors is the bound.

    Which order statistic: a further draw exceeds it with at most this probability, all being exchangeable.
    """
    return min(math.ceil((1 - missed) * (count + 1) * (1 - 1e-12)), count) - 1


def before_rounding(ends: tuple[Number, Number], moved: float, most: float) -> Ends:
    """Bounds on variances of the original rows, from a covariance of rows that were rounded.

    Bounds on mean squares in [0, most] of rows whose rounding moved their roots by at most ``moved``.
    """
    low, high = (np.sqrt(np.maximum(end, 0.0)) for end in ends)
    return np.minimum(np.maximum(low - moved, 0.0) ** 2, most), np.minimum((high + moved) ** 2, most)


def _norm(matrix: Floats) -> float:
    """The norm of a covariance's error: its largest absolute eigenvalue."""
    if len(matrix) <= _DENSE:
        return float(np.abs(np.linalg.eigvalsh(matrix)).max())
    start = np.random.default_rng(0).standard_normal(len(matrix))
    (value,) = scipy.sparse.linalg.eigsh(matrix, 1, v0=start, return_eigenvectors=False, tol=1e-6)
    return float(abs(value)) * (1 + 1e-5)


def laplace_sum_tail(probability: float, alike: float) -> float:
    """Quantile of a covariance's error under Laplace noise, a sum of equal draws.

    The value that a sum of ``alike`` equal Laplace draws, scaled to variance 1, exceeds with this probability.

    Such a sum is sqrt(W / alike) Z with W of the gamma law of shape ``alike`` and Z standard normal. An uneven sum of
    Laplace draws is taken for the even one of the same variance and kurtosis: exact if all weights that matter are
    equal, or one.
    """
    if alike >= _MANY:
        return -float(scipy.special.ndtri(probability))
    ends = scipy.special.gammaincinv(alike, 1e-15), scipy.special.gammainccinv(alike, 1e-18)
    log_w = np.linspace(math.log(max(ends[0], 1e-30)), math.log(ends[1]), 1001)
    density = np.exp(alike * log_w - np.exp(log_w) - scipy.special.gammaln(alike))
    weights, spread = density / density.sum(), np.exp(log_w / 2) / math.sqrt(alike)

    def excess(x: float) -> float:
        return float(np.log(weights @ scipy.special.ndtr(-x / spread)) - math.log(probability))

    return float(scipy.optimize.brentq(excess, 0.0, 5 - 2 * math.log(probability))) if probability < 0.5 else 0.0


# ---- sketches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sketched:
    """Draws of N(0, S + ridge I), S the scatter of the rows: ``rows`` has shape (draws, columns).

    count    : the number of records with Laplace noise of this law on it, or the public number and None.
    rounding : by how much a number of each column was moved at most, when records were rounded.
    """

    rows: Floats
    ridge: float
    count: tuple[float, NoiseLaw | None]
    rounding: Floats | float = 0.0

    @property
    def records(self) -> float:
        """The number of records behind the covariance: public, or an estimate, but at least 1."""
        return max(self.count[0], 1.0)

    @property
    def draws(self) -> int:
        """How many Gaussian rows were drawn for the sketch of the covariance."""
        return len(self.rows)

    @cached_property
    def ridged(self) -> Floats:
        """An unbiased estimate of the ridged covariance sum S + ridge I; never negative."""
        return np.asarray(self.rows.T @ self.rows / self.draws)

    def covariance(self) -> Floats:
        """The covariance S per record from draws that are unbiased for S.

        S per record; the draws are unbiased for S, and negative eigenvalues can come from the ridge taken off.
        """
        return np.asarray((self.ridged - self.ridge * np.eye(self.rows.shape[1])) / self.records)

    def form(
        self, left: Floats, right: Floats, value: float | None = None, *, along: float = 0.0
    ) -> tuple[float, float]:
        """Standard error of left^T covariance right, by the moments of the Wishart law; no mean, no Laplace draws."""
        del along
        here, there, across = (float(a @ self.ridged @ b) for a, b in ((left, left), (right, right), (left, right)))
        variance = (here * there + across**2) / self.draws
        law = self.count[1]
        if value is not None and law is not None:
            variance += value**2 * law.variance
        return math.sqrt(variance) / self.records, math.inf

    def quantile(self, tail: float, alike: float) -> float:
        """Quantile of the error of a covariance's form, in standard errors: Student's, for the draws are few."""
        del alike
        return -float(scipy.special.stdtrit(self.draws, tail))

    def variance(self, direction: Floats, most: float) -> Estimate:
        """Variance of the records along a direction, in [0, most], from a sketched covariance.

        Of the records along a direction, in [0, most]; intervals are exact, since draws . direction is Gaussian.
        """
        squares = float(np.sum((self.rows @ direction) ** 2))
        ridge = self.ridge * float(direction @ direction)
        value = (squares / self.draws - ridge) / self.records
        moved = float(np.sum(np.abs(direction) * self.rounding))

        def bounds(tail: float) -> Ends:
            return before_rounding(self._variance_bounds(squares, ridge, tail), moved, most)

        return Estimate(value, self.form(direction, direction, value)[0], NOISE_ONLY, bounds)

    def _variance_bounds(self, squares: float, ridge: float, tail: float) -> tuple[float, float]:
        (least, largest), left = self._count_bounds(tail)
        low = squares / float(scipy.special.chdtri(self.draws, left)) - ridge
        high = squares / float(scipy.special.chdtri(self.draws, 1 - left)) - ridge
        return low / largest, high / least

    def _count_bounds(self, tail: float) -> tuple[tuple[float, float], float]:
        """Bounds on the number of records, which divides the covariance, and the tail left for other things to miss."""
        law = self.count[1]
        if law is None:
            return (self.records, self.records), tail
        reach = float(law.tail(tail * _COUNT_SHARE, 1))
        return (max(self.count[0] - reach, 1.0), max(self.count[0] + reach, 1.0)), tail * (1 - _COUNT_SHARE)

    def eigenvalue_bounds(self, values: Floats, tail: float) -> Ends:
        """Bounds on all eigenvalues of the covariance at once.

        The ridged estimate is A W A with A^2 = S + ridge I and W a Wishart matrix over the number of draws, so each of
        its eigenvalues is that of S + ridge I times a number between those of W (Ostrowski), whose law is known:
        quantiles are order statistics of simulated ones. With no more draws than columns there is no upper bound.
        """
        (least, largest), left = self._count_bounds(tail)
        dim, rng = self.rows.shape[1], np.random.default_rng(0)
        count = _simulations(left, dim)
        ends = np.array([_extremes(rng, self.draws, dim) for _ in range(count)])
        place = _place(left, count)
        small, big = np.sort(ends[:, 0])[::-1][place], np.sort(ends[:, 1])[place]
        ridged = values * self.records + self.ridge
        low = (ridged / big - self.ridge) / largest
        high = (ridged / small - self.ridge) / least if small > 0 else np.full_like(values, np.inf)
        return low, high


def _extremes(rng: np.random.Generator, draws: int, dim: int) -> tuple[float, float]:
    """Least and largest eigenvalue of a Wishart matrix over its draws, the error of a sketched covariance.

    By Bartlett's triangle if it has one.
    """
    if draws <= dim:
        return 0.0, float(np.linalg.norm(rng.standard_normal((draws, dim)), 2)) ** 2 / draws
    root = np.tril(rng.standard_normal((dim, dim)), -1) + np.diag(np.sqrt(rng.chisquare(draws - np.arange(dim))))
    singular = np.linalg.svd(root, compute_uv=False)
    return float(singular[-1]) ** 2 / draws, float(singular[0]) ** 2 / draws


View: TypeAlias = Noisy | Sketched


def nearest_semidefinite(matrix: Floats) -> Floats:
    """The covariance matrix without negative eigenvalues that is nearest in the Frobenius norm.

    As an estimate no longer unbiased. The matrix itself, if it has none.
    """
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= 0:
        return matrix
    found = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((found + found.T) / 2)
