"""What an analyst recovers from randomized answers: distances, norms, inner products, set similarities.

Everything here is post-processing of a release, free of privacy cost. Each estimate is a sum over columns of the only
unbiased choice for the column (``response_law``), so it is unbiased, with a variance known for any pair of true rows.
Errors cover the random answers; there is no projection.

Intervals are Neyman belts. Where all columns are alike and each shows one of two outcomes (flags of one weight, or
categories of one size), the number of hits is a sum of two binomials under any truth, and the belt is exact: it covers
at least what it says, and more only as far as whole numbers force it to. Elsewhere the law is matched by three moments,
which move with the truth along the line of best linear prediction. Simulated coverage of those 95% intervals of
distances, for an epsilon of each value from 0.2 to 6, is 95.2% to 99.1% with 100 mixed columns, 95.5% to 99.2% with 20
and 94.7% to 99.5% where 10 of them carry nearly all of the variance (make figures). Their law is then a coarse lattice,
and the grid is small: other mixtures of few columns, and inner products, were seen to fall a few points short.
"""

import functools
import math
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import scipy

from sfumato.estimation.response_columns import Codes
from sfumato.estimation.response_law import (
    DIFFERENT,
    DISTANCE,
    INNER,
    SAME,
    SECOND,
    UNION,
    Questionnaire,
    SumLaw,
    Ways,
    total,
)
from sfumato.intervals.estimate import Bounds, Ends, Estimate, fieller, in_step, plain
from sfumato.numerics.bisection import bisected
from sfumato.numerics.types import Bools, Floats, Integers

COVERS = "randomized answers"
_NEAR = 4.0  # truths within this many standard errors of an end of the range share their tails unevenly
_COUNTED = 1000  # columns up to which hits are counted exactly
_HALVINGS = 50
_TINY = 1e-280
_SURE = 1e-12  # what Fourier rounding may do to a probability, and more


def squared_distance(a: Codes, b: Codes, questionnaire: Questionnaire) -> Estimate:
    """Squared distances between original rows, from rows of randomized answers ``a`` and ``b``, pairwise in step.

    A flag that differs counts w^2, a category 2 w^2 (w^2 if one of the two has no value), an ordinal or a whole number
    w^2 times the square of the difference, with w the column's weight in the schema's scale.
    Guarantee: post-processing of a release; costs no privacy.
    Assumes:   a and b are different rows of one release.
    Error:     unbiased. Variance for d flags of weight 1: d q(1-q)/(1-2p)^4, q = 2p(1-p), whatever the distance.
    Reference: Kenthapadi et al. 2013, Algorithms 5 and 6, which give only a Hoeffding bound.
    """
    one, two = _rows(questionnaire, a=a, b=b)
    law = questionnaire.law(DISTANCE, 2)
    return _estimate(law, questionnaire.ways(one, two), _Coin.of(questionnaire, law))


def squared_distance_to_public(a: Codes, public: Codes, questionnaire: Questionnaire) -> Estimate:
    """Squared distances between original rows, known by randomized answers, and public rows.

    Squared distances between original rows, answered as ``a``, and public rows of codes; free and unbiased.
    """
    one, two = _rows(questionnaire, a=a, public=public)
    law = questionnaire.law(DISTANCE, 1)
    return _estimate(law, questionnaire.ways(one, two), _Coin.of(questionnaire, law))


def squared_norm(a: Codes, questionnaire: Questionnaire) -> Estimate:
    """Squared norms of original rows, from randomized answers.

    Squared norms of original rows: distances to the origin. A category that always has a value adds exactly w^2.
    """
    (one,) = _rows(questionnaire, a=a)
    law = questionnaire.law(DISTANCE, 1)
    sets = all(answer.values == 1 and not answer.points for answer in questionnaire.columns)
    return _estimate(law, questionnaire.ways(one, questionnaire.origin), _Coin.of(questionnaire, law) if sets else None)


def inner_product(a: Codes, b: Codes, questionnaire: Questionnaire) -> Estimate:
    """Inner products of original rows, from randomized answers.

    Inner products of original rows, pairwise in step, for different rows of one release; free and unbiased.
    """
    one, two = _rows(questionnaire, a=a, b=b)
    return _estimate(questionnaire.law(INNER, 2), questionnaire.ways(one, two))


def jaccard(a: Codes, b: Codes, questionnaire: Questionnaire) -> Estimate:
    """Jaccard similarity |x and y| / |x or y| of sets of true flags of weight 1, from randomized answers.

    Both counts have unbiased estimates, I and U. The standard error of I/U is of first order. The interval holds the J
    for which I - J U is within its error of 0 (Fieller 1954), cut to [0, 1], and is all of that where U is lost in the
    noise; it is cautious (simulated: 95% to 100%). Where U is not positive the value is nan and its error infinite.
    """
    one, two = _rows(questionnaire, a=a, b=b)
    seen = questionnaire.ways(one, two)
    both, either = (questionnaire.law(units, 2) for units in (INNER, UNION))
    i, u = total(both.estimate, seen), total(either.estimate, seen)
    ii, uu = (_guess(law, law.variance, seen, law.open_groups(seen)) for law in (both, either))
    iu = total(both.unbiased(both.covariance(both.estimate, either.estimate)), seen)
    known = u > 0
    safe = np.where(known, u, 1.0)
    j = np.clip(i / safe, 0.0, 1.0)
    error = np.where(known, np.sqrt(np.maximum(ii - 2 * j * iu + j * j * uu, 0.0)) / safe, np.inf)
    step = _half_jump(both, seen, both.open_groups(seen)) / np.sqrt(ii)

    def bounds(tail: float) -> Ends:
        return fieller(step - scipy.special.ndtri(tail), (i, u), (ii, iu, uu))

    return Estimate(plain(np.where(known, i / safe, np.nan)), plain(error), COVERS, bounds)


def _rows(questionnaire: Questionnaire, **named: Codes) -> list[Codes]:
    arrays = {name: np.asarray(rows) for name, rows in named.items()}
    return in_step(arrays, len(questionnaire.columns), "answers", "release")


def _estimate(law: SumLaw, seen: Ways, coin: "_Coin | None" = None) -> Estimate:
    """Estimate from randomized answers.

    The sum over columns, its error with the unbiased estimate of the variance plugged in, and its belt.
    """
    value, can = total(law.estimate, seen), law.open_groups(seen)
    bounds: Bounds
    if coin is None:
        bounds = partial(_belt, line=_Line.of(law, seen, value, can))
    else:
        bounds = partial(_counted, value=value, coin=coin)
    error = np.sqrt(_guess(law, law.variance, seen, can))
    return Estimate(plain(value), plain(error), COVERS, bounds)


def _guess(law: SumLaw, table: Floats, seen: Ways, can: Bools) -> Floats:
    """Unbiased estimate from randomized answers of a sum over the true ways, cut to what it can be."""
    return np.clip(total(law.unbiased(table), seen), *law.ends(table, can))


# ---- all columns alike ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Coin:
    """``count`` columns; one that adds ``unit`` to the truth hits with probability ``usual``, another with ``rare``."""

    count: int
    rare: float
    usual: float
    unit: float

    @classmethod
    def of(cls, questionnaire: Questionnaire, law: SumLaw) -> Self | None:
        """Randomized answers as tosses of a coin.

        For distances, if all columns are alike and nothing is between equal and different.
        """
        kinds = set(questionnaire.columns)
        answer = next(iter(kinds))
        alike = len(kinds) == 1 and not answer.points and not (answer.values > 1 and answer.none >= 0)
        if not alike or len(questionnaire.columns) > _COUNTED:
            return None
        apart = SECOND if answer.values == 1 else DIFFERENT
        seen_apart = law.expected((law.truth > 0).astype(float))
        return cls(
            len(questionnaire.columns), float(seen_apart[SAME]), float(seen_apart[apart]), float(law.truth[apart])
        )

    def hits(self, value: Floats) -> Integers:
        """How many columns of randomized answers were seen to differ, given the unbiased estimate."""
        return np.rint(self.count * self.rare + value / self.unit * (self.usual - self.rare)).astype(np.int64)


@functools.lru_cache(maxsize=16)
def _accepted(coin: _Coin, tail: float) -> tuple[Integers, Integers]:
    """Acceptance region for the number of columns in which randomized answers differ.

    For each number of columns that truly differ, the least and the largest number of hits that do not reject it.

    The hits are a sum of two binomials; its law is found by a Fourier transform, right to about 1e-13. What the lower
    side does not use of its share, because hits are whole numbers, goes to the upper side.
    """
    n, apart = coin.count, np.arange(coin.count + 1)
    turns = np.exp(-2j * np.pi * np.arange(n // 2 + 1) / (n + 1))
    rare, usual = (1 + chance * (turns - 1) for chance in (coin.rare, coin.usual))
    law = np.fft.irfft(rare ** (n - apart)[:, None] * usual ** apart[:, None], n + 1, axis=1)
    up_to = np.cumsum(np.maximum(law, 0.0), axis=1)
    deviation = math.sqrt(n * coin.rare * (1 - coin.rare)) / (coin.usual - coin.rare)
    below = _below(tail, apart / deviation, (n - apart) / deviation)
    least = (up_to <= below[:, None] - _SURE).sum(axis=1)
    spent = np.where(least > 0, up_to[apart, least - 1], 0.0)
    most = (up_to < (1 - 2 * tail + spent)[:, None] + _SURE).sum(axis=1)
    return np.minimum.accumulate(least[::-1])[::-1], np.maximum.accumulate(most)


def _counted(tail: float, value: Floats, coin: _Coin) -> Ends:
    """Exact interval of the number of columns in which rows behind randomized answers differ.

    All numbers of differing columns under which the hits are not among the extreme ones: exact.
    """
    least, most = _accepted(coin, tail)
    hits = coin.hits(value)
    low = np.minimum(np.searchsorted(most, hits), coin.count)
    high = np.maximum(np.searchsorted(least, hits, side="right") - 1, low)
    return low * coin.unit, high * coin.unit


def _below(tail: float, from_low: Floats, from_high: Floats) -> Floats:
    """How an interval from randomized answers splits its tails.

    The share of 2 * tail to leave out below, given the distances from both ends of the range in standard errors.

    Half of it in the middle, nearly none at the low end and nearly all at the high end: an estimate below a truth of 0
    says nothing against it, and an interval cut at 0 would otherwise cover too often. The share is a function of the
    truth alone, so coverage is right at each.
    """
    up, down = (np.clip(distance / _NEAR, 1e-3, 1.0) for distance in (from_low, from_high))
    return np.asarray(2 * tail * up / (up + down))


# ---- columns of several kinds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """Variance and third moment of estimates as the truth moves away from them: (value, slope, least, most) each.

    Both are sums over columns, so they have unbiased estimates; when the truth is put elsewhere, they move along their
    regression on the estimate, within what any truth allows.
    """

    ends: tuple[Floats, Floats]
    variance: tuple[Floats, Floats, float, float]
    third: tuple[Floats, Floats, float, float]
    value: Floats
    step: Floats  # estimates come in jumps: values this far off are counted as no less extreme

    @classmethod
    def of(cls, law: SumLaw, seen: Ways, value: Floats, can: Bools) -> Self:
        least, most = (np.broadcast_to(end, value.shape) for end in law.ends(law.truth, can))
        spread = np.maximum(_guess(law, law.variance, seen, can), _TINY)
        lines = []
        for table in (law.variance, law.third):
            guess = law.unbiased(table)
            shared = total(law.unbiased(law.covariance(law.estimate, guess)), seen)
            lines.append((total(guess, seen), shared / spread, *law.ends(table, can)))
        return cls((least, most), lines[0], lines[1], value, _half_jump(law, seen, can))

    def moments(self, truth: Floats) -> Ends:
        """Variance and third moment of an estimate from randomized answers under a truth."""
        variance, third = (
            np.clip(start + slope * (truth - self.value), least, most)
            for start, slope, least, most in (self.variance, self.third)
        )
        return np.maximum(variance, _TINY), third

    def tails(self, truth: Floats) -> Ends:
        """Probabilities of estimates from randomized answers at most, and at least, as large as the one seen."""
        variance, third = self.moments(truth)
        deviation = np.sqrt(variance)
        above, below = (
            _gamma_tails((self.value + side * self.step - truth) / deviation, third / variance / deviation)
            for side in (-1, 1)
        )
        return below[0], above[1]


def _half_jump(law: SumLaw, seen: Ways, can: Bools) -> Floats:
    """Continuity correction for sums of randomized answers.

    Half the root of fourth moment over variance, summed over columns: for rare errors, half of what one moves.
    """
    fourth, variance = (_guess(law, table, seen, can) for table in (law.fourth, law.variance))
    return np.asarray(np.sqrt(fourth / np.maximum(variance, _TINY)) / 2)


def _gamma_tails(z: Floats, skewness: Floats) -> Ends:
    """Tails of an estimate from randomized answers, by the gamma law of its skewness.

    Lower and upper tail of the standardised gamma law of this skewness (reflected where it is negative).
    """
    shape = 4 / np.maximum(skewness**2, 1e-8)
    x = np.maximum(shape + np.sqrt(shape) * np.where(skewness < 0, -z, z), 0.0)
    lower, upper = scipy.special.gammainc(shape, x), scipy.special.gammaincc(shape, x)
    return np.where(skewness < 0, upper, lower), np.where(skewness < 0, lower, upper)


def _belt(tail: float, line: _Line) -> Ends:
    """Confidence belt from randomized answers.

    All truths under which the value seen is not among the extreme ones, found by halving.
    """
    least, most = line.ends
    deviation = np.sqrt(line.moments(line.value)[0])

    def share(truth: Floats) -> Floats:
        return _below(tail, (truth - least) / deviation, (most - truth) / deviation)

    low, _ = bisected(lambda truth: line.tails(truth)[1] < 2 * tail - share(truth), least, most, _HALVINGS)
    _, high = bisected(lambda truth: ~(line.tails(truth)[0] < share(truth)), least, most, _HALVINGS)
    return low, np.maximum(high, low)
