"""The law of randomized answers, and of what is summed over the columns of two rows of them.

A column has ``values`` values and, for flags (false) and for categories that may have no value, one more answer that
stands for the zero vector: *none*. An answer is the truth with probability p, each other one with q, and g = p - q.
Applied to functions of the answer this is T = g + q J (J all ones), so T^-1 = (1 - q J)/g, which has the same form with
p' = (1 - q)/g and q' = -q/g: whatever is a function of the true cells has one and only one unbiased estimate, T^-1 of
it. Two cells compare in one of five ways (below), and that is all that distances and inner products depend on; T acts
on functions of the way as a 5 x 5 matrix for each of the two sides.

Each formula exists once: error bars and reports all call these.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.tables.columns import Category, Flag
from sfumato.tables.schema import Schema

Codes: TypeAlias = NDArray[Any]  # whole numbers
Ways: TypeAlias = NDArray[np.int8]

# How two cells compare: neither has a value, only the first or the second has one, or both have: the same, or not.
NEITHER, FIRST, SECOND, SAME, DIFFERENT = range(5)
_SWAPPED = [NEITHER, SECOND, FIRST, SAME, DIFFERENT]

# What the two cells add to a sum, for each way, in units of the squared weight.
DISTANCE = (0.0, 1.0, 1.0, 0.0, 2.0)
INNER = (0.0, 0.0, 0.0, 1.0, 0.0)
UNION = (0.0, 1.0, 1.0, 1.0, 2.0)  # of sets of values

_BLOCK = 4096  # pairs of rows at a time


@dataclass(frozen=True, slots=True)
class ResponseColumn:
    """The answers that a column can have: codes 0 .. categories - 1. ``none`` is the code for no value, or -1."""

    values: int
    none: int
    weight: float

    @property
    def categories(self) -> int:
        """How many answers the law of the column has."""
        return self.values + (self.none >= 0)


def answers(schema: Schema) -> tuple[ResponseColumn, ...]:
    """The possible answers of each data column, over which the law of randomized response runs.

    The answers of each data column: 0 and 1 of a flag; the places of a category's values, then no value if allowed.

    A category that declares what a missing cell becomes has no answer for it, and so fewer of them and less noise.
    """
    return tuple(map(_answer, schema.data_columns))


def _answer(column: object) -> ResponseColumn:
    if isinstance(column, Flag):
        return ResponseColumn(1, 0, column.weight)
    if isinstance(column, Category):
        return ResponseColumn(column.width, -1 if column.missing is not None else column.width, column.weight)
    name = getattr(column, "name", "")
    raise ParameterError(
        f"randomized response takes flags and categories, and column {name!r} is real: "
        "leave it out, cut it into a few categories, or use a sketch"
    )


def codes(schema: Schema, block: Floats) -> Integers:
    """Codes of the true answers in an encoded block, before their law randomizes them.

    The true answers of an encoded block (encoded columns, rows), one for every cell whatever the block holds.

    Guarantee: each answer is a function of its own cell; no number, NaN and infinities included, raises or leaves
    0 .. categories - 1. A flag is true from 1/2 on. A category is the place of its largest number if that is at least
    1/2, and otherwise what the schema says of missing cells.
    """
    if block.ndim != 2 or block.shape[0] != schema.encoding.dim:
        raise ParameterError(f"a block must have shape ({schema.encoding.dim}, rows), got {block.shape}")
    out, row = np.empty((len(schema.data_columns), block.shape[1]), np.int64), 0
    for cells, column in zip(out, schema.data_columns, strict=True):
        numbers = np.fmin(np.fmax(block[row : row + column.width], 0.0), 1.0)
        row += column.width
        if isinstance(column, Category):
            default = column.width if column.missing is None else column.values.index(column.missing)
            cells[:] = np.where(numbers.max(axis=0) >= 0.5, numbers.argmax(axis=0), default)
        else:
            cells[:] = numbers[0] >= 0.5
    return out


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


@functools.lru_cache(maxsize=1 << 12)
def _column(answer: ResponseColumn, epsilon: float, sides: int) -> tuple[Floats, Floats, Bools]:
    """Law of a column's randomized answers: transition of the ways, its inverse, and which ways can be true."""
    channel = Channel(epsilon, answer.categories)
    forth = _transition(channel.keep, channel.other, answer, sides)
    back = _transition((1 - channel.other) / channel.gap, -channel.other / channel.gap, answer, sides)
    none, many = answer.none >= 0, answer.values > 1
    # A public row may have no value where a record must have one: the origin of a norm.
    return forth, back, np.array([none, none or sides == 1, none, True, many])


@dataclass(frozen=True, slots=True, eq=False)
class SumLaw:
    """The law of an unbiased estimate that is a sum over columns: tables of shape (columns, 5), one entry for each way.

    ``sides`` is 2 where both rows were answered at random and 1 where the second is public.
    """

    truth: Floats  # what a column adds to the quantity
    estimate: Floats  # what it adds to the estimate when it is seen that way: the only unbiased choice
    variance: Floats  # of that, when the true cells compare that way
    third: Floats  # its third central moment
    fourth: Floats  # and its fourth
    possible: Bools
    forth: Floats  # (columns, 5, 5): probability of each way to be seen
    back: Floats
    sides: int

    @classmethod
    def of(cls, columns: tuple[ResponseColumn, ...], epsilon: float, units: tuple[float, ...], sides: int) -> Self:
        """The law of a sum over columns of randomized answers, of ``units`` times squared weights."""
        parts = [_column(answer, epsilon, sides) for answer in columns]
        forth, back, possible = (np.array([part[i] for part in parts]) for i in range(3))
        truth = np.outer([answer.weight**2 for answer in columns], units)
        estimate = np.einsum("cst,ct->cs", back, truth)
        error = estimate[:, None, :] - truth[:, :, None]
        variance, third, fourth = (np.einsum("cst,cst->cs", forth, error**power) for power in (2, 3, 4))
        return cls(truth, estimate, variance, third, fourth, possible, forth, back, sides)

    def unbiased(self, table: Floats) -> Floats:
        """Inverse of the randomized answers' law, applied to a table.

        The table whose sum over what is seen is unbiased for the sum of a table over what is true.
        """
        return np.asarray(np.einsum("cst,ct->cs", self.back, table))

    def covariance(self, one: Floats, two: Floats) -> Floats:
        """Covariance of sums of two tables over randomized answers, for each true way."""
        product, first, second = (np.einsum("cst,ct->cs", self.forth, table) for table in (one * two, one, two))
        return np.asarray(product - first * second)


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
        ends = [(SAME, DIFFERENT if answer.values > 1 else FIRST) for answer in self.columns]
        same, different = (float(sum(law.variance[i, end[side]] for i, end in enumerate(ends))) for side in (0, 1))
        return Between(same, different, float(sum(law.truth[i, far] for i, (_, far) in enumerate(ends))))

    @property
    def none(self) -> Codes:
        """Codes of the zero vector among randomized answers, no value in any column; -1 where that is no answer."""
        return np.array([answer.none for answer in self.columns])

    def ways(self, first: Codes, second: Codes) -> Ways:
        """How two rows of randomized answers (codes) compare, column by column.

        How rows of codes compare, column by column; the last axis runs over columns, the others broadcast.
        """
        empty, other_empty = first == self.none, second == self.none
        both = np.where(first == second, SAME, DIFFERENT)
        alone = np.where(other_empty, FIRST, both)
        return np.where(empty, np.where(other_empty, NEITHER, SECOND), alone).astype(np.int8)

    def debiased(self, codes: Codes) -> Floats:
        """Randomized answers freed of the bias of their law.

        Rows of codes (rows, columns) as encoded rows (rows, encoded columns), unbiased for the true weighted ones.

        The column of value c becomes w ([answer is c] - q)/g.
        """
        parts = [np.empty((len(codes), 0))]
        for answer, cells in zip(self.columns, codes.T, strict=True):
            channel = Channel(self.epsilon, answer.categories)
            values = np.arange(answer.values) + (answer.none == 0)
            parts.append(answer.weight * ((cells[:, None] == values) - channel.other) / channel.gap)
        return np.concatenate(parts, axis=1)


def total(table: Floats, seen: Ways) -> Floats:
    """Sum over columns of a law's table, at the ways in which randomized answers were seen to compare."""
    columns, flat = np.arange(len(table)), seen.reshape(-1, seen.shape[-1])
    out = np.empty(len(flat))
    for start in range(0, len(flat), _BLOCK):
        out[start : start + _BLOCK] = table[columns, flat[start : start + _BLOCK]].sum(axis=1)
    return out.reshape(seen.shape[:-1])
