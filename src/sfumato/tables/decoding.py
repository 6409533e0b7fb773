"""Encoded numbers back in their column's own type: what a person would expect to find in the table."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.numerics.types import Floats
from sfumato.tables import dates
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of


def decoded(column: DataColumn, rows: Floats) -> pa.Array:
    """Encoded cells (encoded columns, rows) in the column's own units as an Arrow array of its own type.

    A category becomes the value whose column is largest, a set those of at least one half, at most as many as it may
    have; a flag is true from one half on; whole numbers, places and dates are rounded. Where missingness is kept, a
    cell is missing if its level is largest, or at least one half beside a number.
    """
    if isinstance(column, Category):
        return _chosen(column, rows.argmax(axis=0))
    if isinstance(column, Set):
        return _items(column, rows)
    if isinstance(column, Vector):
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows.T).reshape(-1)), column.size)
    missing = rows[1] >= 0.5 if keeps_missing(column) else np.zeros(rows.shape[1], bool)
    return _number(column, rows[0], missing)


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
        return _chosen(column, np.where(missing, len(column.values), whole))
    points = dates.from_steps(whole.astype(float), column)
    return pa.array([None if gone else p for gone, p in zip(missing, points.to_pylist(), strict=True)], points.type)


def _chosen(column: Category | Ordinal, places: np.ndarray) -> pa.Array:
    values = [*column.values, None]
    kind = pa.int64() if all(isinstance(v, int) for v in column.values) else pa.string()
    words = [v if v is None or kind == pa.int64() else str(v) for v in values]
    return pa.array([words[place] for place in places], kind)


def _items(column: Set, rows: Floats) -> pa.Array:
    names = column.values if column.values is not None else range(column.width)
    kind = pa.int64() if all(isinstance(v, int) for v in names) else pa.string()
    words = [v if kind == pa.int64() else str(v) for v in names]
    order = np.argsort(-rows, axis=0, kind="stable")[: column.most]
    kept = np.take_along_axis(rows, order, axis=0) >= 0.5
    lists = [[words[i] for i in sorted(order[kept[:, j], j])] for j in range(rows.shape[1])]
    return pa.array(lists, pa.list_(kind))
