"""Where the ranks of a column change sign: quantiles and their exact intervals from noisy numbers of records.

The quantile of order q is the first cell of the grid with at least q n of the n records in it or below it. For an edge
e between two cells, with l(e) records below it and r(e) above it,

    t(e) = (1 - q) l(e) - q r(e) = l(e) - q n

is the rank of the edge, less that of the quantile. It rises with e, and the quantile lies below e if and only if t(e)
is at least 0. Where n is known, t(e) = (1 - w) l(e) - w r(e) + (w - q) n for every w; the variance is least where w is
the part of the noisy numbers that is below e.

Interval: t(e) < 0 is rejected at the level of the interval's tail where the noisy rank exceeds what noise does with
that probability. The upper end is the lowest edge from which on all of this is rejected, up to the last. So if the
interval misses a quantile above it, t < 0 was rejected at the edge just below the quantile, or at one before, all with
edges between them: at the last edge below the quantile in any case, which is one fixed edge. So the interval misses on
each side with probability ``tail`` at most, for every table, and without a correction for the number of edges.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.intervals.additive_noise import Law, summed_law
from sfumato.numerics.types import Bools, Floats, Integers

FINEST_ORDER = 1 << 20
_ROUNDED = 0.5  # records: more than steps of a sum of whole numbers can hide
_SPLITS = 3  # places where the law of a rank is computed


def exact_order(order: float) -> Fraction:
    """The order of a quantile as a ratio of small whole numbers, strictly between 0 and 1."""
    near = Fraction(repr(order)).limit_denominator(FINEST_ORDER)
    least = Fraction(1, FINEST_ORDER)
    return min(max(near, least), 1 - least)


@dataclass(frozen=True, slots=True, eq=False)
class RankCurve:
    """Noisy numbers of records on both sides of edges, in each group: ``left`` and ``right`` are (groups, edges).

    edges : e stands between the cells e - 1 and e of the grid's ``cells``; they rise.
    parts : how many noisy numbers are summed on the left of each edge, of ``whole`` at most on both sides together.
    known : the number of records, where it is public.
    """

    edges: Integers
    left: Integers
    right: Integers
    parts: Integers
    whole: int
    noise: NoiseScale
    cells: int
    known: float | None

    def _weight(self, order: Fraction, parts: Integers) -> Floats:
        """The weight of the right side in a rank; the left has 1 minus it."""
        if self.known is None:
            return np.full(parts.shape, float(order))
        return parts / self.whole

    def ranks(self, order: Fraction) -> Floats:
        """The noisy rank of each edge, less that of a quantile."""
        weight = self._weight(order, self.parts)
        found = (1 - weight) * self.left - weight * self.right
        return found if self.known is None else found + (weight - float(order)) * self.known

    def _deviations(self, order: Fraction, parts: Integers) -> Floats:
        """The standard errors of ranks with so many noisy numbers on their left."""
        weight = self._weight(order, parts)
        squares = parts * (1 - weight) ** 2 + (self.whole - parts) * weight**2
        return np.asarray(self.noise.deviation * np.sqrt(squares))

    def margins(self, order: Fraction, tail: float) -> Floats:
        """What the noise of each edge's rank exceeds with a probability of at most ``tail``.

        In standard errors this hardly changes from edge to edge: it is computed at a few, and taken as the larger one
        of the two around an edge.
        """
        splits = np.unique(np.round(np.linspace(1, self.whole - 1, _SPLITS)).astype(np.int64))
        at = np.array([self._law_tail(order, int(parts), tail) for parts in splits])
        at /= self._deviations(order, splits)
        above = np.searchsorted(splits, self.parts)
        wider = np.maximum(at[np.maximum(above - 1, 0)], at[above])
        return np.asarray(wider * self._deviations(order, self.parts) + _ROUNDED)

    def _law_tail(self, order: Fraction, parts: int, tail: float) -> float:
        weight = float(self._weight(order, np.array([parts]))[0])
        return _exceeded(self.noise, 1 - weight, parts, weight, self.whole - parts, tail)

    def ends(self, order: Fraction, tail: float) -> tuple[Integers, Integers]:
        """The lowest and the highest cell that can hold the quantile of each group."""
        ranks, margins = self.ranks(order), self.margins(order, tail)
        open_above, open_below = ~(ranks >= margins), ~(ranks <= -margins)
        edges = np.array([0, *self.edges.tolist(), self.cells], np.int64)
        low, high = edges[_first(open_below)], edges[_last(open_above) + 2] - 1
        return low, np.maximum(low, high)

    def crossing(self, order: Fraction) -> Integers:
        """The cell where ranks that are made to rise, by least squares, change sign; all edges must be there.

        Where the sum of all ranks up to an edge is least: the rising ranks are the slopes of the largest convex curve
        below these sums, and negative up to its lowest point.
        """
        sums = np.cumsum(self.ranks(order), axis=1)
        lowest = np.argmin(sums, axis=1)
        return np.asarray(np.where(np.take_along_axis(sums, lowest[:, None], 1)[:, 0] < 0, lowest + 1, 0))


def _last(found: Bools) -> Integers:
    """The last place that is true in each row; -1 if none is."""
    size = found.shape[1]
    return np.asarray(np.where(found.any(axis=1), size - 1 - np.argmax(found[:, ::-1], axis=1), -1))


def _first(found: Bools) -> Integers:
    """The first place that is true in each row; the number of places if none is."""
    return np.asarray(np.where(found.any(axis=1), np.argmax(found, axis=1), found.shape[1]))


@lru_cache(maxsize=4096)
def _exceeded(noise: NoiseScale, left: float, parts: int, right: float, others: int, tail: float) -> float:
    """What the noise of a rank exceeds with a probability: so many noisy numbers of each of two weights."""
    return float(_summed(noise, left, parts, right, others).tail(np.array(tail), 1))


@lru_cache(maxsize=1024)
def _summed(noise: NoiseScale, left: float, parts: int, right: float, others: int) -> Law:
    return summed_law(noise.kind, [(left, parts, noise.scale), (right, others, noise.scale)])
