"""Encoded numbers back in their column's own type: what a person would expect to find in the table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.numerics.types import Floats
from sfumato.tables import dates
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of
from sfumato.tables.schema import Schema


def decoded(column: DataColumn, rows: Floats) -> pa.Array:
    """Encoded cells (encoded columns, rows) in the column's own units as an Arrow array of its own type.

    A category becomes the value whose column is largest, a set those of at least one half, at most as many as it may
    have; a flag is true from one half on; whole numbers, places and dates are rounded. Where missingness is kept, a
    cell is missing if its level is largest, or at least one half beside a number.
    """
    if isinstance(column, Category):
        return chosen(column, rows.argmax(axis=0))
    if isinstance(column, Set):
        return _items(column, rows)
    if isinstance(column, Vector):
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows.T).reshape(-1)), column.size)
    missing = rows[1] >= 0.5 if keeps_missing(column) else np.zeros(rows.shape[1], bool)
    return _number(column, rows[0], missing)


def as_in_table(column: DataColumn, rows: Floats) -> dict[str, pa.Array]:
    """Encoded cells as the columns of the table that they are read from: of a vector's own columns, each by itself."""
    if isinstance(column, Vector) and column.columns is not None:
        return {name: pa.array(numbers) for name, numbers in zip(column.columns, rows, strict=True)}
    return {column.name: decoded(column, rows)}


def arrow_fields(schema: Schema) -> pa.Schema:
    """The names and Arrow types of a decoded table, column by column in the order of the schema, without its ids."""
    empty = (as_in_table(column, np.empty((column.width, 0))) for column in schema.data_columns)
    return pa.schema([(name, cells.type) for columns in empty for name, cells in columns.items()])


def _number(column: Real | Integer | Flag | Ordinal | Date, cells: Floats, missing: NDArray[np.bool_]) -> pa.Array:
    """Encoded numbers, places or steps in their column's own type."""
    low, high = bounds_of(column)
    inside = np.clip(cells, low, high)
    if isinstance(column, Real):
        return pa.array(inside, mask=missing)
    if isinstance(column, Flag):
        return pa.array(inside >= 0.5, mask=missing)
    whole = np.rint(inside).astype(np.int64)
    if isinstance(column, Integer):
        return pa.array(whole, mask=missing)
    if isinstance(column, Ordinal):
        return chosen(column, np.where(missing, len(column.values), whole))
    points = dates.from_steps(whole.astype(float), column)
    return points.take(pa.array(np.arange(len(points)), mask=missing))


def chosen(column: Category | Ordinal, places: NDArray[Any]) -> pa.Array:
    """The values of a column at these places of its list, whole numbers or texts; null one place after the last."""
    return _words([*column.values, None]).take(pa.array(np.asarray(places, np.int64)))


def _words(values: Sequence[str | int | None]) -> pa.Array:
    """Listed values of a column as whole numbers, if all are such that 64 bits with a sign hold, else as texts."""
    whole = all(v is None or (isinstance(v, int) and v.bit_length() < 64) for v in values)
    return pa.array([v if whole or v is None else str(v) for v in values], pa.int64() if whole else pa.string())


def _items(column: Set, rows: Floats) -> pa.Array:
    """The items of each cell of a set: those that are largest, as many as it may have, of at least one half."""
    order = np.argsort(-rows, axis=0, kind="stable")[: column.most]
    kept = np.zeros(rows.shape, bool)
    np.put_along_axis(kept, order, np.take_along_axis(rows, order, axis=0) >= 0.5, axis=0)
    items = np.nonzero(kept.T)[1]
    ends = np.cumsum([0, *kept.sum(axis=0)])
    words = _words(column.values if column.values is not None else range(column.width))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), words.take(pa.array(items)))
