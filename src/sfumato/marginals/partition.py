"""The fine cells of a table's columns: public, from the schema alone, and rows as the cells they fall into.

A variable is a column; of a set, one item (there or not); of a vector, one of its numbers. Every record falls into
exactly one cell of each variable, by itself. Cells are numbered from 0. Where missingness is kept, or a category may
have no value, that is the last cell.

- flag, category, ordinal: one cell for each value;
- whole numbers and dates: one for each value where there are few, otherwise as numbers;
- numbers: equal parts of the bounds, finer towards zero (or the low bound), where many columns of amounts have their
  records; and single values: zero and both bounds, where clipped values pile up.

Cuts that the owner states publicly (``forbid``) are added.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.numerics.types import Floats
from sfumato.queries.axes import Axis, Choices, Intervals
from sfumato.queries.predicates import Ordered, is_whole
from sfumato.tables import cells
from sfumato.tables.columns import Category, DataColumn, Flag, Ordinal, Real, Set, Vector, source_names
from sfumato.tables.declared import keeps_missing
from sfumato.tables.decoding import as_in_table, chosen
from sfumato.tables.encoding import bounds_of, category_codes, missing_value
from sfumato.tables.patterns import positions
from sfumato.tables.schema import Schema, encode_column

Codes = NDArray[np.int32]
EACH = 256  # whole numbers that are cells of their own, at most
PARTS = 128  # equal parts of a number's bounds
_FINER = 48  # cuts towards zero on either side
_PER_OCTAVE = 4


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of a table: a column, or the number at a ``place`` of a vector, or the item there of a set."""

    column: DataColumn
    place: int
    axis: Axis

    @property
    def size(self) -> int:
        """How many fine cells the variable has."""
        return self.axis.size

    @property
    def ordered(self) -> bool:
        """Whether cells that lie side by side are alike: numbers, dates and ordinals."""
        return isinstance(self.axis, Intervals)

    @property
    def values(self) -> int:
        """How many cells hold values, missing cells aside."""
        return self.axis.size - keeps_missing(self.axis.column)

    @property
    def name(self) -> str:
        """The variable in words: its column, and the place within it where there are several."""
        return self.column.name if not isinstance(self.column, Set | Vector) else f"{self.column.name}[{self.place}]"

    def widths(self) -> Floats:
        """The length of each cell of an ordered variable, in encoded units: of whole numbers, how many there are."""
        assert isinstance(self.axis, Intervals)
        edges = np.array(self.axis.edges)
        found = np.diff(edges)
        if is_whole(self.axis.column):
            found[-1] += 1.0  # the high bound itself
        return np.asarray(found)

    def alone(self) -> NDArray[np.bool_]:
        """Which cells of an ordered variable hold one value of a continuum: zero, and the bounds."""
        assert isinstance(self.axis, Intervals)
        if is_whole(self.axis.column):
            return np.zeros(self.values, bool)
        edges = np.array(self.axis.edges)
        return np.asarray(np.nextafter(edges[:-1], math.inf) >= edges[1:])

    def drawn(self, codes: Codes, rng: np.random.Generator) -> Floats:
        """An encoded number for each cell, drawn evenly from it; what missing cells get says nothing."""
        assert isinstance(self.axis, Intervals)
        edges, place = np.array(self.axis.edges), np.minimum(codes, self.values - 1)
        low, high = edges[:-1][place], edges[1:][place]
        if is_whole(self.axis.column):
            return np.asarray(low + np.floor(rng.random(len(codes)) * self.widths()[place]))
        found = low + (high - low) * rng.random(len(codes))
        return np.where(self.alone()[place], low, np.minimum(found, np.nextafter(high, -math.inf)))


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """All variables of a table in the order of its columns, with their fine cells."""

    schema: Schema
    variables: tuple[Variable, ...]
    _first: Mapping[str, int] = field(repr=False)

    @classmethod
    def of(cls, schema: Schema, cuts: Mapping[str, Sequence[float]] | None = None) -> "Partition":
        """The partition that a schema implies; ``cuts``: further ones of columns by name, in encoded units, public."""
        found: list[Variable] = []
        first, start = {}, 0
        for column in schema.data_columns:
            first[column.name] = len(found)
            found += _variables(column, start, (cuts or {}).get(column.name, ()))
            start += column.width
        return cls(schema, tuple(found), first)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many fine cells each variable has."""
        return tuple(variable.size for variable in self.variables)

    def place(self, name: str) -> int:
        """The first variable of a column."""
        return self._first[name]

    def codes(self, block: Floats) -> Codes:
        """The cells of the rows of an encoded block (encoded columns, rows): one row of codes for each variable."""
        found = np.empty((len(self.variables), block.shape[1]), np.int32)
        for row, variable in zip(found, self.variables, strict=True):
            row[:] = variable.axis.codes(block)
        return found

    def read(self, batch: pa.RecordBatch) -> Codes:
        """The cells of the rows of a table, none of which raises an error: ``codes`` of the encoded batch.

        Column by column: of a category, no column of doubles for each level is made.
        """
        found = np.empty((len(self.variables), batch.num_rows), np.int32)
        names = self.schema.source_names
        places = dict(zip(names, positions(batch.schema.names, names), strict=True))
        for column in self.schema.data_columns:
            first = self._first[column.name]
            arrays = [batch.column(places[name]) for name in source_names(column)]
            _read(found[first:], arrays, column, self.variables[first:])
        return found

    def decoded(self, codes: Codes, rng: np.random.Generator) -> pa.RecordBatch:
        """Rows of the table's own columns and types, from the cells of each variable."""
        columns: dict[str, pa.Array] = {}
        for column in self.schema.data_columns:
            columns |= self._column(column, codes, rng)
        return pa.RecordBatch.from_pydict(columns)

    def _column(self, column: DataColumn, codes: Codes, rng: np.random.Generator) -> dict[str, pa.Array]:
        first = self._first[column.name]
        if isinstance(column, Category):
            return {column.name: chosen(column, codes[first])}
        if isinstance(column, Set):
            return as_in_table(column, codes[first : first + column.width].astype(float))
        if isinstance(column, Vector):
            numbers = [self.variables[first + i].drawn(codes[first + i], rng) for i in range(column.size)]
            return as_in_table(column, np.array(numbers).reshape(column.size, codes.shape[1]))
        return as_in_table(column, self._number(self.variables[first], codes[first], rng))

    def _number(self, variable: Variable, codes: Codes, rng: np.random.Generator) -> Floats:
        """The encoded cells of a column that is one number, with a level for missing ones, if they are kept."""
        column, missing = variable.column, codes >= variable.values
        numbers = (codes > 0).astype(float) if isinstance(column, Flag) else variable.drawn(codes, rng)
        numbers = np.where(missing, missing_value(column), numbers)
        return np.array([numbers, missing.astype(float)] if keeps_missing(column) else [numbers])


def _read(out: Codes, arrays: Sequence[Any], column: DataColumn, variables: Sequence[Variable]) -> None:
    """Write the cells of one column of the table; ``out`` and ``variables`` begin with its own."""
    if isinstance(column, Category):
        values = [cells.read(chunk, column) for chunk in cells.chunks(arrays[0])]
        codes = category_codes(np.concatenate([*values, np.empty(0)]), column)
        out[0] = np.where(codes < 0, variables[0].size - 1, codes)
        return
    encoded = np.empty((column.width, out.shape[1]))
    encode_column(encoded, arrays, column)
    count = column.width if isinstance(column, Set | Vector) else 1
    for row, variable in zip(out[:count], variables, strict=False):
        row[:] = variable.axis.codes_of(encoded[variable.place :])


def _variables(column: DataColumn, start: int, cuts: Sequence[float]) -> list[Variable]:
    if isinstance(column, Set):
        return [Variable(column, i, Choices(Flag(column.name), start + i)) for i in range(column.width)]
    if isinstance(column, Vector):
        number = Real(column.name, column.low, column.high)
        edges = _edges(number, cuts)
        return [Variable(column, i, Intervals(number, start + i, edges)) for i in range(column.size)]
    if isinstance(column, Flag | Category):
        return [Variable(column, 0, Choices(column, start))]
    return [Variable(column, 0, Intervals(column, start, _edges(column, cuts)))]


def _edges(column: Ordered, cuts: Sequence[float]) -> tuple[float, ...]:
    """Edges of the fine cells of a number, a date or an ordinal, in encoded units, with those that are asked for."""
    low, high = bounds_of(column)
    inside = {float(cut) for cut in cuts if low < cut <= high}
    if isinstance(column, Ordinal) or (is_whole(column) and high - low < EACH):
        return (low, *np.arange(low + 1, high + 1).tolist(), high)
    origin = 0.0 if low <= 0 <= high else low
    steps = (high - low) * 2.0 ** (-np.arange(1, _FINER + 1) / _PER_OCTAVE)
    found = np.concatenate([np.linspace(low, high, PARTS + 1), origin + steps, origin - steps])
    if is_whole(column):
        found = np.ceil(np.append(found, [origin, origin + 1, low + 1, high]))
    else:
        # a value of its own: from it to the next double
        single = np.array([origin, low])
        found = np.concatenate([found, single, np.nextafter(single, math.inf), [high]])
    kept = {float(cut) + 0.0 for cut in found if low < cut <= high} | inside
    return (low, *sorted(kept), high)
