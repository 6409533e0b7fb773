"""What the columns of a table may look like before any data are read: shares of their cells, from the schema alone.

A category's levels follow Zipf's law. A number is a bell over its bounds; where these begin at zero it may also fall
off from there, or be zero for most records. The weights of these shapes are about those in the two tables that the
constants of plans were chosen on (Adult and Covertype). An owner who knows better says how many records are zero in a
typical number.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.marginals.partition import Variable
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.axes import Intervals
from sfumato.tables.columns import Ordinal
from sfumato.tables.encoding import bounds_of

FINE, COARSE = 32, 8  # equal parts of a number's bounds, in tables of one column and of two
_ZIPF = 1.8
_MISSING = 0.1  # of the records, where missing cells are kept
_CENTRE, _SPREAD = 0.45, 0.16  # of a bell, in units of the bounds
_FALLING = 0.15  # the mean of a number that falls off from zero
_ZERO, _BESIDES = 0.93, 0.08  # how many are zero in a column that mostly is, and the mean of the others
_AMOUNT = 2000  # a number from zero to more than this is an amount
_WEIGHTS = {False: (0.5, 0.5, 0.0), True: (0.4, 0.2, 0.4)}  # of bell, falling and mostly zero, from zero; of amounts
_MOST = 64  # cells that are told apart; more are put together with others of about their share


@dataclass(frozen=True, slots=True, eq=False)
class PriorCells:
    """Cells of a table of one variable: the share of records in each, how many are alike, and fine cells in each."""

    shares: Floats
    alike: Floats
    fine: Floats

    @property
    def diversity(self) -> float:
        """How often two records lie in different cells (the Gini index)."""
        return 1 - float((self.alike * self.shares**2).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One way that a variable may be distributed, and how likely it is: shares of its fine cells, and of its parts."""

    weight: float
    number: bool
    shares: Floats
    one_way: PriorCells
    two_way: PriorCells


def key(variable: Variable) -> tuple[object, ...]:
    """What the shapes of a variable depend on: variables of one key are taken to have the same.

    Large numbers of cells are told apart to a tenth, so that a wide table takes no longer than a narrow one.
    """
    size = variable.size if variable.size <= FINE else round(8 * math.log2(variable.size))
    if not variable.ordered:
        return False, size, variable.size - variable.values
    low, high = bounds_of(variable.axis.column)
    kind = type(variable.column).__name__
    return True, size, variable.size - variable.values, kind, low == 0, low <= 0 <= high, high > _AMOUNT


def shapes(variable: Variable, zeros: float | None = None) -> tuple[Shape, ...]:
    """The shapes that a variable may have; ``zeros``: how many records are zero in a typical number, if it is known."""
    kept = variable.size - variable.values
    found = []
    for weight, values in _densities(variable, zeros):
        shares = np.concatenate([values * (1 - _MISSING * kept), np.full(kept, _MISSING)])
        parts = [_parts(variable, count) for count in (FINE, COARSE)]
        number = variable.ordered and variable.values > 2
        found.append(Shape(weight, number, shares, *(_cells(shares, part) for part in parts)))
    return tuple(found)


def _densities(variable: Variable, zeros: float | None) -> Iterator[tuple[float, Floats]]:
    """Shares of the cells that hold values, with how likely they are."""
    if variable.ordered and variable.values == 2 and zeros is not None:
        yield 1.0, np.array([zeros, 1 - zeros])
        return
    if not variable.ordered or variable.values <= 2:
        levels = np.arange(1, variable.values + 1, dtype=float) ** -_ZIPF
        yield 1.0, levels / levels.sum()
        return
    widths = np.maximum(variable.widths(), 0.0)
    edges = np.concatenate([[0.0], np.cumsum(widths)]) / widths.sum()
    low, high = bounds_of(variable.axis.column)
    zero = low <= 0 <= high and not isinstance(variable.column, Ordinal)
    if low == 0 and zero:
        falling = _falling(edges, 0.0, _FALLING)
        share = _ZERO if zeros is None else zeros
        mostly = (1 - share) * _falling(edges, 0.0, _BESIDES)
        mostly[0] += share
        weights = _WEIGHTS[high > _AMOUNT] if zeros is None else (0.0, 0.0, 1.0)
        yield from ((w, d) for w, d in zip(weights, (_bell(edges), falling, mostly), strict=True) if w)
    else:
        yield 1.0, _bell(edges)


def _bell(edges: Floats) -> Floats:
    below = np.array([math.erf((x - _CENTRE) / (_SPREAD * math.sqrt(2))) for x in edges])
    return np.asarray(np.diff(below) / (below[-1] - below[0]))


def _falling(edges: Floats, origin: float, mean: float) -> Floats:
    """Exponential from the origin to either side, as far as the bounds go."""
    below = np.sign(edges - origin) * -np.expm1(-np.abs(edges - origin) / mean)
    return np.asarray(np.diff(below) / (below[-1] - below[0]))


def _parts(variable: Variable, count: int) -> Integers:
    """The part of the bounds that each fine cell lies in; levels and missing cells are parts of their own."""
    if not isinstance(variable.axis, Intervals) or isinstance(variable.column, Ordinal) or variable.values <= 2:
        return np.arange(variable.size)
    low, high = bounds_of(variable.axis.column)
    place = (np.array(variable.axis.edges[:-1]) - low) / (high - low) * count
    return np.concatenate([np.clip(place.astype(np.int64), 0, count - 1), np.arange(variable.values, variable.size)])


def _cells(shares: Floats, part: Integers) -> PriorCells:
    """Fine cells put together by parts, and parts of about the same share where there are many."""
    _, place, fine = np.unique(part, return_inverse=True, return_counts=True)
    found = np.bincount(place, shares).astype(float)
    order = np.argsort(-found)
    found, counts = found[order], fine[order].astype(float)
    if len(found) <= _MOST:
        return PriorCells(found, np.ones(len(found)), counts)
    starts = np.unique(np.geomspace(1, len(found) + 1, _MOST + 1).astype(np.int64) - 1)[:-1]
    alike = np.diff(np.append(starts, len(found))).astype(float)
    return PriorCells(np.add.reduceat(found, starts) / alike, alike, np.add.reduceat(counts, starts) / alike)
