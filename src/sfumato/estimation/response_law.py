"""The law of randomized answers, and of what is summed over the columns of two rows of them.

A column has ``values`` values and, for flags (false) and for categories that may have no value, one more answer that
stands for the zero vector: *none*. An answer is the truth with probability p, each other one with q, and g = p - q.
Applied to functions of the answer this is T = g + q J (J all ones), so T^-1 = (1 - q J)/g, which has the same form with
p' = (1 - q)/g and q' = -q/g: whatever is a function of the true cells has one and only one unbiased estimate, T^-1 of
it. Where all answers are alike, two cells compare in one of five ways (below), and that is all that distances and inner
products depend on; T acts on functions of the way as a 5 x 5 matrix for each of the two sides. Where answers are places
(``points``), every pair of answers is a way of its own, and T acts by its two terms.

Tables over ways are flat: the ways of each different kind of column, one kind after another. A way is its place there.

Each formula exists once: error bars and reports all call these.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.estimation.response_columns import Codes, ResponseColumn
from sfumato.numerics.types import Bools, Floats, Integers

Ways: TypeAlias = NDArray[np.int32]

# How two cells compare: neither has a value, only the first or the second has one, or both have: the same, or not.
NEITHER, FIRST, SECOND, SAME, DIFFERENT = range(5)
_SWAPPED = [NEITHER, SECOND, FIRST, SAME, DIFFERENT]

# What the two cells add to a sum, for each way, in units of the squared weight.
DISTANCE = (0.0, 1.0, 1.0, 0.0, 2.0)
INNER = (0.0, 0.0, 0.0, 1.0, 0.0)
UNION = (0.0, 1.0, 1.0, 1.0, 2.0)  # of sets of values

_BLOCK = 4096  # pairs of rows at a time


@dataclass(frozen=True, slots=True)
class Channel:
    """Randomized response with ``categories`` answers: the truth is e^epsilon times as likely as each other one."""

    epsilon: float
    categories: int

    def __post_init__(self) -> None:
        check.positive(epsilon=self.epsilon)
        check.between(0, 700, epsilon=self.epsilon)
        check.whole(1, categories=self.categories)

    @property
    def gap(self) -> float:
        """Law of a randomized answer: the gap g = p - q, without cancellation."""
        return math.expm1(self.epsilon) / (math.expm1(self.epsilon) + self.categories)

    @property
    def other(self) -> float:
        """Law of a randomized answer: the probability q of each answer that is not the truth."""
        return 1 / (math.expm1(self.epsilon) + self.categories)

    @property
    def keep(self) -> float:
        """Law of a randomized answer: the probability p of the truth."""
        return (1 + math.expm1(self.epsilon)) / (math.expm1(self.epsilon) + self.categories)


def _side(keep: float, other: float, answer: ResponseColumn) -> Floats:
    """Law of how two cells compare when the first of them is answered at random.

    From the true way two cells compare to the way after the first of them was answered at random.
    """
    v, none = answer.values, float(answer.none >= 0)
    out = np.eye(5)
    out[FIRST, [NEITHER, FIRST]] = none * other, keep + (v - 1) * other
    out[SAME, [SECOND, SAME, DIFFERENT]] = none * other, keep, (v - 1) * other
    if none:
        out[NEITHER, [NEITHER, FIRST]] = keep, v * other
        out[SECOND, [SECOND, SAME, DIFFERENT]] = keep, other, (v - 1) * other
    if v > 1:
        out[DIFFERENT, [SECOND, SAME, DIFFERENT]] = none * other, other, keep + (v - 2) * other
    return out


def _transition(keep: float, other: float, answer: ResponseColumn, sides: int) -> Floats:
    first = _side(keep, other, answer)
    return first if sides == 1 else first @ first[np.ix_(_SWAPPED, _SWAPPED)]


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """Law of two answers of a column whose values are all alike: five ways, and matrices between them."""

    answer: ResponseColumn
    forth: Floats
    back: Floats
    possible: Bools  # which ways can be true
    groups: tuple[int, ...] = (0, 2)  # where ways begin in which the second cell is the same: no value, or a value

    @classmethod
    def of(cls, answer: ResponseColumn, epsilon: float, sides: int) -> Self:
        channel = Channel(epsilon, answer.categories)
        forth = _transition(channel.keep, channel.other, answer, sides)
        back = _transition((1 - channel.other) / channel.gap, -channel.other / channel.gap, answer, sides)
        none, many = answer.none >= 0, answer.values > 1
        # A public row may have no value where a record must have one: the origin of a norm.
        return cls(answer, forth, back, np.array([none, none or sides == 1, none, True, many]))

    def truth(self, units: tuple[float, ...]) -> Floats:
        return self.answer.weight**2 * np.array(units)

    def expected(self, table: Floats) -> Floats:
        return np.asarray(np.einsum("st,t->s", self.forth, table))

    def unbiased(self, table: Floats) -> Floats:
        return np.asarray(np.einsum("st,t->s", self.back, table))

    def moment(self, estimate: Floats, truth: Floats, power: int) -> Floats:
        return np.asarray(np.einsum("st,st->s", self.forth, (estimate[None, :] - truth[:, None]) ** power))

    @property
    def ends(self) -> tuple[Integers, Integers]:
        return np.array([SAME]), np.array([DIFFERENT if self.answer.values > 1 else FIRST])


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """Law of two answers of a column that are places: m answers beside each of m, and beside the origin.

    The way of answers a and b is b m + a. With J the sum over one side, T is g + q J there: nothing is inverted.
    """

    points: Floats
    gap: float
    other: float
    sides: int

    @classmethod
    def of(cls, answer: ResponseColumn, epsilon: float, sides: int) -> Self:
        channel = Channel(epsilon, answer.categories)
        return cls(np.array(answer.points), channel.gap, channel.other, sides)

    @property
    def count(self) -> int:
        return len(self.points)

    @property
    def possible(self) -> Bools:
        """Two records are at places; only a public row is at the origin."""
        return np.arange(self.count * (self.count + 1)) < self.count * (self.count + (self.sides == 1))

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(0, self.count * (self.count + 1), self.count))

    def truth(self, units: tuple[float, ...]) -> Floats:
        """What is a sum of squared distances and inner products; their units are those of one value beside others."""
        second = np.vstack([self.points, np.zeros(self.points.shape[1])])
        apart = ((second[:, None] - self.points[None]) ** 2).sum(axis=-1)
        return np.asarray(units[FIRST] * apart + units[SAME] * (second @ self.points.T)).reshape(-1)

    def expected(self, table: Floats) -> Floats:
        return self._applied(table, self.gap, self.other) + self.gap**self.sides * table

    def unbiased(self, table: Floats) -> Floats:
        return self._applied(table, 1 / self.gap, -self.other / self.gap) + self.gap**-self.sides * table

    def _applied(self, table: Floats, gap: float, other: float) -> Floats:
        """All of (gap + other J) applied to the sides of a table but the term without J."""
        pairs = table.reshape(self.count + 1, self.count)
        out = np.zeros(pairs.shape)
        if self.sides == 1:
            out += other * pairs.sum(axis=1, keepdims=True)
        else:
            both = pairs[: self.count]
            rows, columns = both.sum(axis=1, keepdims=True), both.sum(axis=0)
            out[: self.count] = gap * other * (rows + columns) + other**2 * both.sum()
        return out.reshape(-1)

    def moment(self, estimate: Floats, truth: Floats, power: int) -> Floats:
        """The central moment: the term without J by itself, so that nothing is lost where random answers are rare."""
        found = self.gap**self.sides * (estimate - truth) ** power
        for k in range(power + 1):
            rest = self._applied(estimate**k, self.gap, self.other)
            found = found + math.comb(power, k) * (-truth) ** (power - k) * rest
        return np.asarray(np.maximum(found, 0.0) if power % 2 == 0 else found)

    @property
    def ends(self) -> tuple[Integers, Integers]:
        diagonal = np.arange(self.count) * (self.count + 1)
        apart = np.where(self.possible, self.truth(DISTANCE), -1.0)[: self.count**2]
        return diagonal, np.flatnonzero(apart == apart.max())


@functools.lru_cache(maxsize=1 << 12)
def _kind(answer: ResponseColumn, epsilon: float, sides: int) -> _Alike | _Placed:
    """Law of a kind of column's randomized answers."""
    return (_Placed if answer.points else _Alike).of(answer, epsilon, sides)


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Where the ways of each kind of column begin among the flat tables of a law, and of which kind each column is."""

    kinds: tuple[ResponseColumn, ...]
    starts: Integers
    of_column: Integers

    @classmethod
    @functools.lru_cache(maxsize=64)
    def of(cls, columns: tuple[ResponseColumn, ...]) -> "_Layout":
        kinds = tuple(dict.fromkeys(columns))
        place = {answer: i for i, answer in enumerate(kinds)}
        sizes = [answer.values * (answer.values + 1) if answer.points else 5 for answer in kinds]
        starts = np.cumsum([0, *sizes])
        return cls(kinds, starts, np.array([place[answer] for answer in columns], np.int64))

    def parts(self, table: Floats) -> list[Floats]:
        """A flat table of a law, kind by kind."""
        return np.split(table, self.starts[1:-1])


@dataclass(frozen=True, slots=True, eq=False)
class SumLaw:
    """The law of an unbiased estimate that is a sum over columns: flat tables, with one entry for each way.

    ``sides`` is 2 where both rows were answered at random and 1 where the second is public.
    """

    truth: Floats  # what a column adds to the quantity
    estimate: Floats  # what it adds to the estimate when it is seen that way: the only unbiased choice
    variance: Floats  # of that, when the true cells compare that way
    third: Floats  # its third central moment
    fourth: Floats  # and its fourth
    possible: Bools
    kinds: tuple[_Alike | _Placed, ...]
    layout: _Layout
    sides: int

    @classmethod
    def of(cls, columns: tuple[ResponseColumn, ...], epsilon: float, units: tuple[float, ...], sides: int) -> Self:
        """The law of a sum over columns of randomized answers, of ``units`` times squared weights."""
        layout = _Layout.of(columns)
        kinds = tuple(_kind(answer, epsilon, sides) for answer in layout.kinds)
        truths = [kind.truth(units) for kind in kinds]
        estimates = [kind.unbiased(truth) for kind, truth in zip(kinds, truths, strict=True)]
        variance, third, fourth = (
            np.concatenate([k.moment(e, t, power) for k, e, t in zip(kinds, estimates, truths, strict=True)])
            for power in (2, 3, 4)
        )
        possible = np.concatenate([kind.possible for kind in kinds])
        truth, estimate = np.concatenate(truths), np.concatenate(estimates)
        return cls(truth, estimate, variance, third, fourth, possible, kinds, layout, sides)

    def unbiased(self, table: Floats) -> Floats:
        """Inverse of the randomized answers' law, applied to a table.

        The table whose sum over what is seen is unbiased for the sum of a table over what is true.
        """
        return np.concatenate([k.unbiased(t) for k, t in zip(self.kinds, self.layout.parts(table), strict=True)])

    def expected(self, table: Floats) -> Floats:
        """What a table of randomized answers is expected to show, for each true way."""
        return np.concatenate([k.expected(t) for k, t in zip(self.kinds, self.layout.parts(table), strict=True)])

    def covariance(self, one: Floats, two: Floats) -> Floats:
        """Covariance of sums of two tables over randomized answers, for each true way."""
        product, first, second = (self.expected(table) for table in (one * two, one, two))
        return np.asarray(product - first * second)

    def open_groups(self, seen: Ways) -> Bools:
        """Which second cells each column can have, (columns, groups): those of the public rows, or any that can be.

        Groups are ways in which the second cell is the same, for each kind of column of a law of randomized answers.
        """
        sizes = [len(kind.groups) for kind in self.kinds]
        own = np.repeat(np.arange(len(sizes)), sizes) == self.layout.of_column[:, None]
        if self.sides == 2:
            return np.asarray(own)
        found = np.zeros(own.shape, bool)
        flat = seen.reshape(-1, seen.shape[-1])
        found[np.arange(len(own)), np.searchsorted(self._groups, flat, side="right") - 1] = True
        return found

    @property
    def _groups(self) -> Integers:
        begins = [start + np.array(kind.groups) for start, kind in zip(self.layout.starts, self.kinds, strict=False)]
        return np.concatenate(begins)

    def ends(self, table: Floats, can: Bools) -> tuple[float, float]:
        """The least and the largest sum of a table over randomized answers' true ways, with the second cells open."""
        least = np.minimum.reduceat(np.where(self.possible, table, np.inf), self._groups)
        most = np.maximum.reduceat(np.where(self.possible, table, -np.inf), self._groups)
        low, high = np.where(can, least, np.inf).min(axis=1), np.where(can, most, -np.inf).max(axis=1)
        return float(low.sum()), float(high.sum())


@dataclass(frozen=True, slots=True)
class Between:
    """Variance of an estimated squared distance: where no column differs, where all do, and a mix in between."""

    same: float
    different: float
    most: float

    def variance(self, squared: Any) -> Any:
        """Law of distances from randomized answers: the variance at this squared distance.

        At this squared distance, if columns of all kinds differ alike; independent of it for flags.
        """
        return self.same + (self.different - self.same) * np.minimum(1.0, squared / self.most)


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """The columns of a release of answers and the epsilon of each value: all that is needed to read it."""

    columns: tuple[ResponseColumn, ...]
    epsilon: float

    def law(self, units: tuple[float, ...], sides: int) -> SumLaw:
        """The law of a sum over columns of randomized answers, of ``units`` times squared weights."""
        return SumLaw.of(self.columns, self.epsilon, units, sides)

    def between(self) -> Between:
        """The law by which squared distances estimated from randomized answers vary."""
        law = self.law(DISTANCE, 2)
        found = []
        for start, kind in zip(law.layout.starts, law.kinds, strict=False):
            same, apart = (start + places for places in kind.ends)
            found.append((law.variance[same].max(), law.variance[apart].max(), law.truth[apart].max()))
        same, different, most = (float(sum(found[i][part] for i in law.layout.of_column)) for part in range(3))
        return Between(same, different, most)

    @property
    def origin(self) -> Codes:
        """Codes of the zero vector beside randomized answers: no value in any column, whether an answer or not."""
        return np.array([answer.values if answer.points else answer.none for answer in self.columns])

    def ways(self, first: Codes, second: Codes) -> Ways:
        """How two rows of randomized answers (codes) compare, column by column.

        How rows of codes compare, column by column; the last axis runs over columns, the others broadcast.
        """
        layout, none = _Layout.of(self.columns), self.origin
        empty, other_empty = first == none, second == none
        both = np.where(first == second, SAME, DIFFERENT)
        alone = np.where(other_empty, FIRST, both)
        found = np.where(empty, np.where(other_empty, NEITHER, SECOND), alone).astype(np.int32)
        for j, answer in enumerate(self.columns):
            if answer.points:
                found[..., j] = second[..., j].astype(np.int32) * answer.values + first[..., j]
        return found + layout.starts[layout.of_column].astype(np.int32)

    def debiased(self, codes: Codes) -> Floats:
        """Randomized answers freed of the bias of their law.

        Rows of codes (rows, columns) as encoded rows (rows, encoded columns), unbiased for the true weighted ones.

        The column of value c becomes w ([answer is c] - q)/g; a place x, of all places with the sum s, (x - q s)/g.
        """
        parts = [np.empty((len(codes), 0))]
        for answer, cells in zip(self.columns, codes.T, strict=True):
            channel = Channel(self.epsilon, answer.categories)
            if answer.points:
                points = np.array(answer.points)
                parts.append((points[cells] - channel.other * points.sum(axis=0)) / channel.gap)
                continue
            values = np.arange(answer.values) + (answer.none == 0)
            parts.append(answer.weight * ((cells[:, None] == values) - channel.other) / channel.gap)
        return np.concatenate(parts, axis=1)

    @property
    def deviation(self) -> float:
        """The largest standard deviation of a number of the debiased rows of randomized answers."""
        return max(_deviation(answer, Channel(self.epsilon, answer.categories)) for answer in set(self.columns))


def _deviation(answer: ResponseColumn, channel: Channel) -> float:
    """The largest standard deviation of a number that a randomized answer becomes once its law's bias is removed."""
    if not answer.points:
        spread = max(channel.keep * (1 - channel.keep), channel.other * (1 - channel.other))
        return answer.weight * math.sqrt(spread) / channel.gap
    points = np.array(answer.points) - np.mean(answer.points, axis=0)
    square = channel.gap * points**2 + channel.other * (points**2).sum(axis=0)
    return math.sqrt(float((square - (channel.gap * points) ** 2).max())) / channel.gap


def total(table: Floats, seen: Ways) -> Floats:
    """Sum over columns of a law's table, at the ways in which randomized answers were seen to compare."""
    flat = seen.reshape(-1, seen.shape[-1])
    out = np.empty(len(flat))
    for start in range(0, len(flat), _BLOCK):
        out[start : start + _BLOCK] = table[flat[start : start + _BLOCK]].sum(axis=1)
    return out.reshape(seen.shape[:-1])
