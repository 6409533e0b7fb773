"""Quantiles from a tree of noisy counts over the public grid of a column (Hay, Rastogi, Miklau and Suciu 2010).

The leaves are the cells of the grid, and every ``branches`` neighbours have a parent, up to the root, which is left
out. The records below an edge are those of the siblings to the left of its path, level by level, and those above it
likewise: few noisy counts for each edge. A single level is a plain histogram, which is best for small grids.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sfumato.aggregates.exposure import Exposure, Norms
from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.aggregates.quantile_grid import CellGrid
from sfumato.aggregates.ranks import RankCurve, exact_order
from sfumato.aggregates.statistics import Statistic, present
from sfumato.intervals.estimate import NOISE_ONLY, Ends, Estimate, Quantity
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.predicates import Ordered
from sfumato.tables.columns import DataColumn, Date, Ordinal
from sfumato.tables.declared import keeps_missing

LARGEST_TREE = 1 << 16  # leaves
_ONE_SIGMA = 0.1587  # the tail beyond a standard deviation
_DEEPEST = 16
_DEEP = 1.5  # how much more variance counts in a tree: its noise at the ends of the grid is that in the middle
_UP = 1 + 2.0**-48


@dataclass(frozen=True, slots=True)
class QuantileStatistic(Statistic):
    """Counts of a column's cells on a public grid, of which quantiles are made.

    orders : all that are asked of the column.
    """

    of_column: Ordered
    orders: tuple[Fraction, ...]
    exposure: Exposure
    grid: CellGrid

    @property
    def numbers(self) -> int:
        """One count for each cell of the grid."""
        return self.grid.cells

    @property
    def column(self) -> DataColumn:
        """The column whose cells are counted."""
        return self.of_column

    def added(self, cells: Floats, groups: Integers, count: int) -> Integers:
        """The number of rows in each cell of the grid, in each group; missing cells are in none."""
        kept = np.flatnonzero(present(self.of_column, cells))
        codes = groups[kept] * self.grid.cells + self.grid.places(cells[0, kept])
        found = np.bincount(codes, minlength=count * self.grid.cells)
        return found.astype(np.int64).reshape(count, self.grid.cells)

    def known(self, most: float | None) -> float | None:
        """The number of records with a value, where it is public: the number of rows."""
        return most if self.exposure.public and not keeps_missing(self.of_column) else None

    @abstractmethod
    def rank_deviation(self, *, gaussian: bool) -> float:
        """The predicted standard error of a rank, times the budget: epsilon, or mu. It follows from public facts."""

    @abstractmethod
    def quantiles(
        self, published: Integers, noise: NoiseScale, orders: Sequence[float], most: float | None
    ) -> Estimate:
        """Quantiles of each group, (groups * orders) in that order, with exact intervals.

        most : the number of rows of the table, where that is public.
        """

    def estimate(self, found: "Sequence[FoundQuantile]") -> Estimate:
        """Quantiles of some orders in all groups as one estimate, orders fastest."""
        cells = np.stack([one.cells for one in found], axis=1).ravel()

        def bounds(tail: float) -> Ends:
            ends = [one.ends(tail) for one in found]
            low, high = (np.stack(list(side), axis=1).ravel() for side in zip(*ends, strict=True))
            return self.grid.first(np.minimum(low, cells)), self.grid.last(np.maximum(high, cells))

        low, high = bounds(_ONE_SIGMA)
        errors = np.stack([one.errors for one in found], axis=1).ravel() * self.grid.step
        quantity = Quantity(_unit(self.of_column), self.grid.low, self.grid.high)
        return Estimate(self.grid.value(cells), np.fmin(errors, (high - low) / 2), NOISE_ONLY, bounds, quantity)


@dataclass(frozen=True, slots=True, eq=False)
class FoundQuantile:
    """The quantile of one order in each group: its cell, rank curves for its interval, and its standard error in cells.

    curves : of each group by itself, or one for all groups.
    errors : NaN where the interval says it.
    """

    order: Fraction
    cells: Integers
    curves: Sequence[RankCurve]
    errors: Floats

    def ends(self, tail: float) -> tuple[Integers, Integers]:
        """The lowest and the highest cell that can hold the quantile of each group."""
        found = [curve.ends(self.order, tail) for curve in self.curves]
        return np.concatenate([low for low, _ in found]), np.concatenate([high for _, high in found])


@dataclass(frozen=True, slots=True)
class CountTree(QuantileStatistic):
    """Noisy counts of all nodes of a tree over the cells."""

    branches: int = field(default=2)
    depth: int = field(default=1)

    @classmethod
    def of(
        cls, column: Ordered, orders: Sequence[float], exposure: Exposure, most: int, *, gaussian: bool
    ) -> "CountTree":
        """The tree for quantiles of a column whose ranks have the least variance, of at most so many leaves."""
        grid = CellGrid.of(column, min(most, LARGEST_TREE))
        shapes = [(_root(grid.cells, depth), depth) for depth in range(1, _DEEPEST)]

        def predicted(shape: tuple[int, int]) -> float:
            return _terms(*shape) * shape[1] ** (1 if gaussian else 2) * (_DEEP if shape[1] > 1 else 1.0)

        branches, depth = min(shapes, key=predicted)
        return cls(column, tuple(map(exact_order, orders)), exposure, grid, branches, depth)

    @property
    def _widths(self) -> list[int]:
        """How many cells a node has, level by level, from the top."""
        return [self.branches ** (self.depth - level) for level in range(1, self.depth + 1)]

    def finished(self, sums: Integers, rows: int) -> Integers:  # noqa: ARG002 - it is not used here
        """The counts of all nodes, level by level, from the top."""
        levels = [np.add.reduceat(sums, np.arange(0, self.grid.cells, width), axis=1) for width in self._widths]
        return np.concatenate(levels, axis=1)

    def moves(self, exposure: Exposure) -> Norms:
        """One record adds 1 to one node of each level."""
        once = exposure.of_shares(1)
        return Norms(once.l1 * self.depth, once.l2 * math.sqrt(self.depth) * _UP)

    @property
    def relative_variance(self) -> float:
        """Of a rank beside the number of records."""
        largest = max(max(q, 1 - q) for q in self.orders)
        spread = 0.25 if self.known(1.0) is not None else float(largest**2 + (1 - largest) ** 2) / 2
        return _terms(self.branches, self.depth) * spread

    def rank_deviation(self, *, gaussian: bool) -> float:
        """The standard error of a rank, times the budget."""
        norms = self.moves(self.exposure)
        move = norms.l2 if gaussian else math.sqrt(2) * norms.l1
        return move * math.sqrt(self.relative_variance)

    def quantiles(
        self, published: Integers, noise: NoiseScale, orders: Sequence[float], most: float | None
    ) -> Estimate:
        """Quantiles where the noisy ranks of all edges, made to rise, change sign."""
        curve = self.curve(published, noise, most)
        unknown = np.full(len(published), np.nan)
        exact = [exact_order(order) for order in orders]
        return self.estimate([FoundQuantile(q, curve.crossing(q), [curve], unknown) for q in exact])

    def curve(self, published: Integers, noise: NoiseScale, most: float | None) -> RankCurve:
        """The noisy numbers of records on both sides of every edge."""
        edges = np.arange(1, self.grid.cells)
        left = np.zeros((len(published), len(edges)), np.int64)
        right, parts = left.copy(), np.zeros(len(edges), np.int64)
        at, parent = 0, np.zeros(len(edges), np.int64)
        for width in self._widths:
            size = -(-self.grid.cells // width)
            sums = np.cumsum(np.pad(published[:, at : at + size], ((0, 0), (1, 0))), axis=1)
            node, first = edges // width, parent * self.branches
            beyond = node if width == 1 else np.minimum(node + 1, size)
            left += sums[:, node] - sums[:, first]
            right += sums[:, np.minimum(first + self.branches, size)] - sums[:, beyond]
            parts += node - first
            at, parent = at + size, node
        whole = _terms(self.branches, self.depth)
        return RankCurve(edges, left, right, parts, whole, noise, self.grid.cells, self.known(most))


def _root(cells: int, depth: int) -> int:
    """The least number of branches with which a tree of a depth has so many leaves."""
    near = max(2, math.floor(cells ** (1 / depth)) - 1)
    return next(branches for branches in range(near, near + 4) if branches**depth >= cells)


def _terms(branches: int, depth: int) -> int:
    """How many noisy counts the two sides of an edge have together."""
    return depth * (branches - 1) + 1


def _unit(column: Ordered) -> str:
    if isinstance(column, Ordinal):
        return "places"
    return "steps" if isinstance(column, Date) else ""
