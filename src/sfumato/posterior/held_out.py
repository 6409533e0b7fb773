"""How far a learned prior is right about pairs that look near, by rows and noise that are held out.

A basis is fitted to one half of the rows, so in the other half its coordinates have noise that it knows nothing of. A
coordinate adds the noise of many numbers, so this is taken as normal of variance s^2. With g ~ N(0, s^2), c + a g and
c - g / a are two views of a record's coordinates with independent errors. A prior is learned from the first. The pairs
that look nearest under it are tested on the second, along the basis, and on the released rows across it, which nothing
was chosen by: unbiased estimates of their squared distances, of known variance. What the posterior gets wrong about
selected pairs is corrected by this, for those that it believes near and far apart: means and deviations by factors.

Whether ranking by the prior is any better than ranking by the released numbers is tested by views of whole rows.
Laplace noise is made normal first. Noise of density (1 - b^2 d^2/dx^2) N(0, s^2), added to Laplace noise of scale b,
gives N(0, s^2), because the characteristic function of the latter is 1 / (1 + b^2 t^2). This density is negative far
out, where it is taken as 0; with s^2 = 6 b^2 little is lost. Only the release is used; it costs no privacy.
Reference: Neufeld et al. 2024 and Oliveira, Lei and Tibshirani 2021 for views of normal data.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from sfumato.estimation import neighbours
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.posterior import mixture, prior, spectrum
from sfumato.posterior.beliefs import Beliefs
from sfumato.posterior.lengths import LengthCumulants
from sfumato.posterior.prior import LearnedPrior

_SPLIT = 0.5  # a^2: the first view has noise 1 + a^2 times, the second 1 + 1 / a^2
_ROWS, _QUERIES, _SHOWN = 10_000, 2_000, 10
_NORMAL = 6.0  # variance that Laplace noise is brought to, over b^2
_PARTS = 6  # of pairs, by the squared distance that is believed
_FACTORS = (0.3, 1.5)  # of means that are believed
_DEVIATIONS = (0.5, 3.0)  # factors of deviations
_FEWEST = 50  # pairs
_SHARED = 2.0  # by which errors are larger than of as many pairs that have no record in common
_WORSE = 2.0  # standard errors by which the released numbers must rank better to be used


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors of squared distances that are believed: of what is within the directions that stand out, and across.

    believed          : squared distances, in rising order, at which the factors are known; between them they are
                        interpolated.
    within, deviation : of means and standard deviations within the directions.
    across, spread    : the same across.
    """

    believed: tuple[float, ...] = (0.0,)
    within: tuple[float, ...] = (1.0,)
    deviation: tuple[float, ...] = (1.0,)
    across: tuple[float, ...] = (1.0,)
    spread: tuple[float, ...] = (1.0,)

    def means(self, within: Floats, across: Floats) -> tuple[Floats, Floats]:
        """The factors of means of squared distances of which these are the believed parts."""
        total = within + across
        return self._at(total, self.within), self._at(total, self.across)

    def corrected(self, within: LengthCumulants, across: LengthCumulants) -> LengthCumulants:
        """The law of squared distances of which these are the believed parts."""
        total = within.mean + across.mean
        one, two = self.means(within.mean, across.mean)
        return within.scaled(one, self._at(total, self.deviation)) + across.scaled(two, self._at(total, self.spread))

    def _at(self, total: Floats, factors: tuple[float, ...]) -> Floats:
        return np.asarray(np.interp(total, self.believed, factors))


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """Two views of rows with independent normal errors: a prior is learned from ``one`` and tested on ``two``."""

    one: Floats
    two: Floats
    noise_one: float
    noise_two: float

    @classmethod
    def of(cls, rows: Floats, noise: NoiseLaw, rng: np.random.Generator) -> "Views":
        """Of released rows with this noise."""
        normal, variance = (rows, noise.variance) if noise.kind == "gaussian" else made_normal(rows, noise, rng)
        extra = rng.normal(0.0, math.sqrt(variance), rows.shape)
        one, two = normal + math.sqrt(_SPLIT) * extra, normal - extra / math.sqrt(_SPLIT)
        return cls(one, two, variance * (1 + _SPLIT), variance * (1 + 1 / _SPLIT))


def made_normal(rows: Floats, noise: NoiseLaw, rng: np.random.Generator) -> tuple[Floats, float]:
    """Rows with Laplace noise of scale b, given more so that it is nearly normal; and its variance, about 6 b^2."""
    b, m = noise.scale / math.sqrt(2), _NORMAL
    grid = np.linspace(-1, 1, 4001) * math.sqrt(m * (m + 1))  # in units of b
    density = np.exp(-(grid**2) / (2 * m)) * (1 + 1 / m - grid**2 / m**2)
    reached = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    more = float(np.sum(density * grid**2) / np.sum(density))
    return rows + b * np.interp(rng.random(rows.shape), reached / reached[-1], grid), (2 + more) * b**2


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Rows that a basis was not fitted to, their coordinates' views, and the prior learned from the first of these."""

    rows: Floats
    noise: NoiseLaw
    prior: LearnedPrior
    views: Views
    queries: Integers
    shown: int

    @classmethod
    def of(cls, rows: Floats, noise: NoiseLaw) -> "HeldOut | None":
        """Of released rows; None where there are too few of them, or nothing stands out."""
        table = np.asarray(rows[:: max(len(rows) // _ROWS, 1)][:_ROWS], np.float64)
        kept, shown = table[1::2], min(_SHOWN, len(table) // 2 - 1)
        queries = np.unique(np.linspace(0, max(len(kept) - 1, 0), _QUERIES).astype(np.int64))
        if shown * len(queries) < _FEWEST:
            return None
        found = spectrum.fit(table[::2], noise)
        if not found.rank:
            return None
        plain = (kept - found.mean) @ found.basis
        views = Views.of(plain, NoiseLaw("gaussian", noise.scale), np.random.default_rng(0))
        seen = replace(found, noise=views.noise_one, shrink=np.ones(found.rank), fitted=found.rest * noise.variance)
        fitted = mixture.fit(views.one, found.variances, views.noise_one)
        shares = fitted.responsibilities(views.one, views.noise_one)
        learned = LearnedPrior(seen, fitted, prior.rest_of(kept, shares, seen, noise))
        return cls(kept, noise, learned, views, queries, shown)

    def correction(self) -> Correction:
        """What the posterior gets wrong about the pairs that look nearest under it."""
        beliefs = Beliefs.of(self.prior, self.views.one, self.rows)
        found = neighbours.nearest(beliefs.means, self.queries, self.shown, self.noise).indices
        first, second = np.repeat(self.queries, self.shown), found.ravel()
        along = np.sum((self.views.two[first] - self.views.two[second]) ** 2, axis=1)
        rank, rest, extra = self.prior.rank, self.prior.spectrum.rest, self.views.noise_two
        apart = self.rows[first] - self.rows[second]
        across = np.sum(apart**2, axis=1) - np.sum((apart @ self.prior.spectrum.basis) ** 2, axis=1)
        kept, noise = 1 - np.sum(self.prior.spectrum.basis**2, axis=1), self.noise
        fourth = (8 * rest + (noise.fourth_of_difference - 8) * float(np.sum(kept**2))) * noise.variance**2
        one = Tested(beliefs.lengths(first, second), along - 2 * rank * extra, 8 * rank * extra**2, 8 * extra)
        two = Tested(beliefs.rest(first, second), across - 2 * rest * noise.variance, fourth, 8 * noise.variance)
        return compared(one, two)

    def released_ranks_better(self) -> bool:
        """Whether pairs that look nearest by the numbers alone are nearer than those that do under the prior."""
        found, views = self.prior.spectrum, Views.of(self.rows, self.noise, np.random.default_rng(1))
        coordinates = (views.one - found.mean) @ found.basis
        noise = NoiseLaw("gaussian", math.sqrt(views.noise_one))
        means = self.prior.mixture.posterior_means(coordinates, noise.variance, self.prior.rest.means)[0]
        means_of, variances = [], []
        for table in (views.one, means):
            near = neighbours.nearest(table, self.queries, self.shown, noise).indices
            squared = np.sum((views.two[near] - views.two[self.queries][:, None]) ** 2, axis=2)
            means_of.append(float(squared.mean()))
            variances.append(_variance(squared, near))
        return means_of[1] - means_of[0] > _WORSE * math.sqrt(sum(variances))


def _variance(squared: Floats, near: Integers) -> float:
    """Of the mean of squared distances: those of one query go together, and so do those to one record."""
    apart = squared - squared.mean()
    shared = np.bincount(near.ravel(), apart.ravel())
    return float(np.sum(apart.sum(axis=1) ** 2) + np.sum(shared**2)) / squared.size**2


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """Squared distances as they are ``believed``, and unbiased estimates of them, ``seen`` apart from the belief.

    An estimate has the variance ``fixed`` plus ``times`` the squared distance.
    """

    believed: LengthCumulants
    seen: Floats
    fixed: float
    times: float

    def factors(self, parts: list[Integers]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Those of means and of deviations, for each part of the pairs."""
        every = np.arange(len(self.seen))
        whole = self._mean(every, 1.0)
        means = [self._mean(part, whole) for part in parts]
        wide = max(_drawn(*self._wide(every, whole), 1.0), 1.0)
        return tuple(means), tuple(self._deviation(part, mean, wide) for part, mean in zip(parts, means, strict=True))

    def _mean(self, part: Integers, towards: float) -> float:
        """The ratio of what is seen to what was believed, drawn towards a number as far as its error allows."""
        said, seen = self.believed.mean[part], self.seen[part]
        total = float(said.sum())
        if total <= 0:
            return towards
        ratio = float(seen.sum()) / total
        error = _SHARED * float((seen - ratio * said).std()) * math.sqrt(len(seen)) / total
        return float(np.clip(_drawn(ratio, error, towards), *_FACTORS))

    def _wide(self, part: Integers, mean: float) -> tuple[float, float]:
        """The ratio of variances, and its error."""
        said = mean * self.believed.mean[part]
        excess = (self.seen[part] - said) ** 2 - self.fixed - self.times * said
        scale = max(mean**2 * float(self.believed.variance[part].mean()), np.finfo(float).tiny)
        return float(excess.mean()) / scale, _SHARED * float(excess.std()) / math.sqrt(len(excess)) / scale

    def _deviation(self, part: Integers, mean: float, towards: float) -> float:
        ratio, error = self._wide(part, mean)
        cautious = _drawn(ratio, error, towards) + min(error, 1.0)
        low, high = _DEVIATIONS
        return math.sqrt(float(np.clip(cautious, low**2, high**2)))


def _drawn(ratio: float, error: float, towards: float) -> float:
    """A ratio, drawn towards a number as far as it does not stand out of its error."""
    apart = ratio - towards
    longest = math.hypot(apart, error)
    return towards if longest == 0 else towards + apart * (apart / longest) ** 2


def correction(rows: Floats, noise: NoiseLaw) -> Correction:
    """What a prior learned from these rows needs; nothing where there are too few of them."""
    found = HeldOut.of(rows, noise)
    return Correction() if found is None else found.correction()


def compared(within: Tested, across: Tested) -> Correction:
    """The factors by which what is seen of pairs differs from what is believed of them."""
    total = within.believed.mean + across.believed.mean
    parts = [part for part in np.array_split(np.argsort(total, kind="stable"), _PARTS) if len(part)]
    believed = tuple(float(total[part].mean()) for part in parts)
    return Correction(believed, *within.factors(parts), *across.factors(parts))
