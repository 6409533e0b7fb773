"""Tables of public cells whose records are counted: one or several columns each, cut before any data is read.

Every record falls into exactly one cell of each table, by itself: a record that comes or goes moves one count of each
table by one, and one that is replaced moves two. Counts of all tables stand one after the other in one vector, whose
length follows from the schema alone.

A table of one column has the fine cells of ``partition``. In a table of several columns a number, a date or an ordinal
with more than ``TOGETHER`` cells is cut into so many equal parts instead. The caller may cut otherwise, publicly.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.marginals.partition import Partition
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.axes import Axis, Bins, Choices, Intervals, axis_of
from sfumato.queries.domain import Domain
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.encoding import bounds_of
from sfumato.tables.schema import Schema

TOGETHER = 32  # cells of an ordered column in a table of several columns, unless told
MOST_CELLS = 1 << 20  # of one table
MOST_IN_ALL = 1 << 22  # of all tables together: 32 MiB of counts
MOST_TABLES = 1 << 12

Cuts = Mapping[str, Sequence[float]]  # of ordered columns, between their bounds, in encoded units


@dataclass(frozen=True, slots=True)
class CellTables:
    """Tables of public cells over a schema's columns, in order; the cells of a table are in C order."""

    schema: Schema
    domains: tuple[Domain, ...]

    @classmethod
    def of(
        cls,
        schema: Schema,
        tables: Sequence[Sequence[str]] | None = None,
        bins: Mapping[str, Bins] | None = None,
    ) -> Self:
        """The tables of some columns each, whose columns stand in the schema's order; left out, of every column alone.

        Sets and vectors have no cells of their own: a table with one is refused, and where tables are left out they
        have none. ``bins``: cells of an ordered column, their number or the cuts between them, in all its tables.
        """
        columns = {column.name: column for column in schema.data_columns}
        if tables is None:
            tables = [(name,) for name, column in columns.items() if not isinstance(column, Set | Vector)]
            if not tables:
                raise ParameterError("no column of this schema has cells to count: sets and vectors have none")
        named = [_named(table, columns) for table in tables]
        if len(set(named)) < len(named) or not named:
            raise ParameterError(f"tables must be one or more, no two of the same columns, got tables={tables!r}")
        check.between(1, MOST_TABLES, tables=len(named))
        _check_bins(bins or {}, named, columns)
        fine = {variable.column.name: variable.axis for variable in Partition.of(schema).variables}
        made = []
        for table in named:
            axes = [_axis(fine[name], (bins or {}).get(name), alone=len(table) == 1) for name in table]
            made.append(Domain(schema, tuple(axes), MOST_CELLS))
        return cls(schema, tuple(made))._checked()

    @classmethod
    def stated(cls, schema: Schema, stated: Sequence[tuple[Sequence[str], Cuts]]) -> Self:
        """The tables that a manifest states, by columns and cuts; a ParameterError where there can be none such."""
        starts = np.cumsum([0, *(column.width for column in schema.data_columns)]).tolist()
        placed = {column.name: (column, at) for column, at in zip(schema.data_columns, starts, strict=False)}
        columns = {name: column for name, (column, _) in placed.items()}
        made = []
        for names, cuts in stated:
            if _named(names, columns) != tuple(names) or not set(cuts) <= set(names):
                raise ParameterError("columns of a table stand in the order of the schema")
            made.append(Domain(schema, tuple(_cut(*placed[name], cuts.get(name)) for name in names), MOST_CELLS))
        return cls(schema, tuple(made))._checked()

    def _checked(self) -> Self:
        if self.size > MOST_IN_ALL:
            raise ParameterError(
                f"these tables have {self.size} cells together, and at most {MOST_IN_ALL} can be counted: name fewer "
                "tables, or cut numbers into fewer bins"
            )
        return self

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each table of cells."""
        return tuple(tuple(axis.name for axis in domain.columns) for domain in self.domains)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each table has."""
        return tuple(domain.size for domain in self.domains)

    @property
    def size(self) -> int:
        """How many cells all tables have together."""
        return sum(self.sizes)

    def cuts(self, place: int) -> dict[str, list[float]]:
        """The cuts of the ordered columns of a table of cells, as a manifest states them.

        A value that has a cell to itself is there twice, or once more than as a bound.
        """
        axes = self.domains[place].columns
        return {axis.name: _doubled(axis.edges) for axis in axes if isinstance(axis, Intervals)}

    def counts(self, block: Floats) -> Integers:
        """How many rows of an encoded block fall into each cell: all tables, one after the other."""
        found = [np.bincount(domain.cells(block), minlength=domain.size) for domain in self.domains]
        return np.concatenate(found).astype(np.int64)

    def split(self, values: Any) -> list[Any]:
        """One vector over all cells, as a vector for each table."""
        return np.split(values, np.cumsum(self.sizes)[:-1])


def _named(table: Any, columns: Mapping[str, DataColumn]) -> tuple[str, ...]:
    """The columns of a table of cells in the schema's order, checked to have cells."""
    if isinstance(table, str) or not isinstance(table, Sequence):
        raise ParameterError(f"a table is a list of columns, such as ('age', 'sex'), got {table!r}")
    for name in table:
        check.one_of(columns, column=name)
        if isinstance(columns[name], Set | Vector):
            raise ParameterError(
                f"the column {name!r} is a {columns[name].kind}, which has no cells to count: leave it out, or publish "
                "a synthetic table, whose counts know each of its parts"
            )
    if len(set(table)) < len(table) or not table:
        raise ParameterError(f"a table has one or more different columns, got {tuple(table)!r}")
    return tuple(name for name in columns if name in table)


def _check_bins(bins: Mapping[str, Bins], named: Sequence[Sequence[str]], columns: Mapping[str, DataColumn]) -> None:
    """Refuse cuts of columns that no table has, or that have values of their own."""
    for name in bins:
        check.one_of(columns, column=name)
        if not any(name in table for table in named) or isinstance(columns[name], Flag | Category):
            raise ParameterError(f"bins are for numbers, ordinals and dates that a table holds, got bins for {name!r}")


def _axis(fine: Axis, bins: Bins | None, *, alone: bool) -> Axis:
    """The cells of one column in a table."""
    if bins is not None:
        return axis_of(fine.column, fine.start, bins)
    if alone or not isinstance(fine, Intervals) or len(fine.edges) - 1 <= TOGETHER:
        return fine
    return axis_of(fine.column, fine.start, TOGETHER)


def _doubled(edges: Sequence[float]) -> list[float]:
    """The cuts between two bounds, where one at the double after another edge is written as that edge again."""
    pairs = itertools.pairwise(edges[:-1])
    return [below if math.nextafter(below, math.inf) == cut else cut for below, cut in pairs]


def _cut(column: DataColumn, start: int, cuts: Sequence[float] | None) -> Axis:
    """The cells of one column, from the cuts that a manifest states."""
    if isinstance(column, Flag | Category) and cuts is None:
        return Choices(column, start)
    if not isinstance(column, Real | Integer | Ordinal | Date) or cuts is None:
        raise ParameterError(f"cuts are those of numbers, ordinals and dates, and these have some: {column.name!r}")
    low, high = bounds_of(column)
    inside: list[float] = []
    for cut in cuts:
        below = inside[-1] if inside else low
        inside.append(math.nextafter(below, math.inf) if float(cut) == below else float(cut))
    rising = all(one < two for one, two in itertools.pairwise([low, *inside]))
    if not rising or (inside and not (math.isfinite(inside[-1]) and inside[-1] <= high)):
        raise ParameterError(f"cuts of {column.name!r} must rise strictly between its bounds")
    return Intervals(column, start, (low, *inside, high))
