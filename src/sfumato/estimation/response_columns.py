"""The answers that each column of a schema can have under randomized response, and the codes of true cells.

A flag and a category have answers that are all alike: none is nearer to the truth than another. The answers of an
ordinal and of a whole number of few values are places, and so are those of a flag that keeps missing cells: two of them
are as far apart as their encoded cells. Where missingness is kept, missing is one more answer.

With ``levels``, numbers are cut into so many equal parts of their declared range, and the answer is the part, a place
at its middle: with 2 levels the sign of a number about the middle of its range. So are dates, and whole numbers and
ordinals of more values. Bounds are public, so where the cuts are tells nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of, missing_value
from sfumato.tables.schema import Schema

Codes: TypeAlias = NDArray[Any]  # whole numbers

MOST = 256  # answers of an ordinal or a whole number
_INSTEAD = {
    "real": "set levels to cut it into a few parts, leave it out, or use a sketch",
    "date": "set levels to cut it into a few parts, leave it out, or use a sketch",
    "datetime": "set levels to cut it into a few parts, leave it out, or use a sketch",
    "vector": "leave it out, or use a sketch",
    "set": "declare the items that matter as flags of their own, or use a sketch",
}


@dataclass(frozen=True, slots=True)
class ResponseColumn:
    """The answers that a column can have: codes 0 .. categories - 1. ``none`` is the code for no value, or -1.

    points : where each answer lies in weighted units, if answers are places; empty where they are all alike, each value
             at a place of its own at distance ``weight`` from no value.
    """

    values: int
    none: int
    weight: float
    points: tuple[tuple[float, ...], ...] = ()

    @property
    def categories(self) -> int:
        """How many answers the law of the column has."""
        return self.values + (self.none >= 0)


def answers(schema: Schema, levels: int | None = None) -> tuple[ResponseColumn, ...]:
    """The possible answers of each data column, over which the law of randomized response runs.

    The answers of each data column: 0 and 1 of a flag; the places of a category's values, then no value if allowed; the
    places of an ordinal, the numbers of an integer from its low one on; then missing, where that is kept.

    A category that declares what a missing cell becomes has no answer for it, and so fewer of them and less noise.
    """
    weights = schema.encoding.weights
    return tuple(_answer(column, weights[rows], levels) for column, rows in _placed(schema))


def _placed(schema: Schema) -> Iterator[tuple[DataColumn, slice]]:
    """Each data column of answers, and where it is among the encoded columns."""
    row = 0
    for column in schema.data_columns:
        yield column, slice(row, row + column.width)
        row += column.width


def _is_cut(column: DataColumn, levels: int | None) -> bool:
    """Whether the answers of a column are levels: of numbers that would have more answers than there are levels."""
    if levels is None or not isinstance(column, Real | Date | Integer | Ordinal):
        return False
    low, high = bounds_of(column)
    return isinstance(column, Real) or high - low + 1 > levels


def cuts(schema: Schema, levels: int) -> bool:
    """Whether the answers of some column of a table would be levels."""
    return any(_is_cut(column, levels) for column in schema.data_columns)


def _answer(column: DataColumn, weights: Floats, levels: int | None) -> ResponseColumn:
    weight = float(weights[0])
    if isinstance(column, Flag) and not keeps_missing(column):
        return ResponseColumn(1, 0, weight)
    if isinstance(column, Category):
        return ResponseColumn(column.width, -1 if column.missing is not None else column.width, weight)
    if not (isinstance(column, Flag | Ordinal | Integer) or _is_cut(column, levels)):
        raise ParameterError(
            "randomized response takes flags, categories, ordinals and integers of few values, "
            f"and column {column.name!r} is of kind {column.kind}: {_INSTEAD[column.kind]}"
        )
    low, high = bounds_of(column)
    if not _is_cut(column, levels) and high - low + 1 + keeps_missing(column) > MOST:
        raise ParameterError(
            f"randomized response takes at most {MOST} answers a column, and {column.name!r} has "
            f"{int(high - low) + 1 + keeps_missing(column):,}: set levels to cut it into fewer, or use a sketch"
        )
    points = (cells_of(column, levels) * weights[:, None]).T
    return ResponseColumn(len(points), -1, weight, tuple(map(tuple, points.tolist())))


def cells_of(column: DataColumn, levels: int | None = None) -> Floats:
    """The encoded cell of each answer of a column, (encoded columns, answers)."""
    if isinstance(column, Category):
        return np.eye(column.width, column.width + (column.missing is None))
    low, high = bounds_of(column)
    if levels is not None and _is_cut(column, levels):
        numbers = low + (high - low) * ((np.arange(levels) + 0.5) / levels)
    else:
        numbers = np.arange(low, high + 1)
    if not keeps_missing(column):
        return numbers[None]
    return np.array([[*numbers, missing_value(column)], [*np.zeros(numbers.size), 1.0]])


def codes(schema: Schema, block: Floats, levels: int | None = None) -> Integers:
    """Codes of the true answers in an encoded block, before their law randomizes them.

    The true answers of an encoded block (encoded columns, rows), one for every cell whatever the block holds.

    Guarantee: each answer is a function of its own cell; no number, NaN and infinities included, raises or leaves
    0 .. categories - 1. A flag is true from 1/2 on. A category is the place of its largest number if that is at least
    1/2, and otherwise what the schema says of missing cells. Other numbers are rounded within their bounds, or become
    the level that they are in. Where missingness is kept, a cell is missing if its column for that is at least 1/2.
    """
    if block.ndim != 2 or block.shape[0] != schema.encoding.dim:
        raise ParameterError(f"a block must have shape ({schema.encoding.dim}, rows), got {block.shape}")
    out = np.empty((len(schema.data_columns), block.shape[1]), np.int64)
    for cells, (column, rows) in zip(out, _placed(schema), strict=True):
        if isinstance(column, Category):
            cells[:] = _category(column, block[rows])
        else:
            cells[:] = _number(column, block[rows], levels)
    return out


def _category(column: Category, cells: Floats) -> Integers:
    """Codes of the true answers of a category."""
    numbers = np.fmin(np.fmax(cells, 0.0), 1.0)
    if keeps_missing(column):
        default = len(column.values)
    else:
        default = column.width if column.missing is None else column.values.index(column.missing)
    return np.where(numbers.max(axis=0) >= 0.5, numbers.argmax(axis=0), default)


def _number(column: DataColumn, cells: Floats, levels: int | None) -> Integers:
    """Codes of the true answers of a flag, an ordinal or a number."""
    (low, high), last = bounds_of(column), bounds_of(column)[1] - bounds_of(column)[0]
    inside = np.fmin(np.fmax(cells[0], low), high) - low
    places = inside >= 0.5 if isinstance(column, Flag) else np.rint(inside)
    if levels is not None and _is_cut(column, levels):
        last = levels - 1
        places = np.fmin(np.fmax(np.floor(inside / (high - low) * levels), 0.0), last)
    if keeps_missing(column):
        places = np.where(np.fmax(cells[1], 0.0) >= 0.5, last + 1, places)
    return np.asarray(places, np.int64)


def encoded(schema: Schema, found: Codes, levels: int | None = None) -> Floats:
    """Codes of answers (data columns, rows) as an encoded block: the inverse of ``codes``."""
    parts = [cells_of(column, levels)[:, cells] for (column, _), cells in zip(_placed(schema), found, strict=True)]
    return np.concatenate(parts)
