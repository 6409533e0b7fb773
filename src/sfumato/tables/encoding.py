"""How columns become numbers: the layout of the encoded matrix, in weighted units, and what one value can move in it.

Numbers take one encoded column each, flags 0 or 1, ordinals their place, dates their steps. A category or a set takes a
0/1 column for each of its values, a vector one for each of its numbers. Where missingness is kept, a number has a
second column, 1 where the cell is missing; the number itself is then the middle of its bounds. That column counts
sqrt(3)/2 of the number's width, so that a missing cell is as far from either end as these are from each other.

Scale: by ``bounds`` a column counts in units of its declared range, so that the farthest two of its cells are 1 apart
in the Euclidean norm, whatever its kind; ``raw``, in its own units. Weights multiply either.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.numerics.types import Floats
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.declared import keeps_missing

Scale = Literal["bounds", "raw"]

MISSING = "(missing)"  # what the level for missing cells is called among encoded columns
_BESIDE = math.sqrt(3) / 2  # width of the column for missing cells, over that of its number
_UP = 1 + 2.0**-48


@dataclass(frozen=True, slots=True)
class Group:
    """Encoded columns [start, stop) that one value of the table moves together, in weighted units.

    most   : they are 0/1 columns of one width, of which at most this many are 1 (category: 1); None: numbers.
    reach1 : the l1 distance that two values are apart at most; reach2 : the Euclidean one.
    bound  : the largest Euclidean length of a vector in its own units, which ``Schema.clip`` enforces.
    level  : the second of two columns is 1 where the cell is missing, and the first is then at the middle.
    """

    start: int
    stop: int
    most: int | None
    reach1: float
    reach2: float
    bound: float | None = None
    level: bool = False

    @property
    def choices(self) -> int | None:
        """In how many 0/1 columns two values differ at most; None for numbers."""
        return None if self.most is None else min(2 * self.most, self.stop - self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """The encoded matrix, column by column: what a mechanism has to know about its input.

    groups : the columns of the table that take several encoded columns, or are 0/1 by choice; others are alone.
    flags  : the encoded columns of flags; binary : all that are 0 or 1.
    values : how many values a record has, as the unit ``attribute`` counts them.
    """

    names: tuple[str, ...]
    low: Floats
    high: Floats
    weights: Floats
    groups: tuple[Group, ...]
    flags: tuple[int, ...]
    binary: tuple[int, ...]
    values: int

    @property
    def ranges(self) -> Floats:
        """The widths of the schema's encoded columns, in weighted units."""
        return np.asarray(self.weights * (self.high - self.low))

    @property
    def dim(self) -> int:
        """The number of encoded columns of a schema."""
        return len(self.names)

    @property
    def only_bits(self) -> bool:
        """Whether all encoded columns are flags that count 1."""
        return len(self.flags) == self.dim and bool((self.weights == 1).all())

    @property
    def alone(self) -> np.ndarray:
        """Which encoded columns are a value of their own, in no group."""
        found = np.ones(self.dim, bool)
        for group in self.groups:
            found[group.start : group.stop] = False
        return found

    @classmethod
    def of(cls, columns: Sequence[DataColumn], scale: Scale) -> Self:
        """The encoding of a schema's data columns; a function of what is declared alone."""
        parts = [_Part.of(column) for column in columns]
        widths = [part.low.size for part in parts]
        starts = [0, *np.cumsum(widths).tolist()]
        factors = [part.factor(scale) * c.weight for part, c in zip(parts, columns, strict=True)]
        placed = list(zip(starts, parts, factors, strict=False))
        alone = [p.low.size if p.each else 1 for p in parts]
        low, high = (np.concatenate([getattr(part, end) for part in parts]) for end in ("low", "high"))
        weights = np.concatenate([part.units * factor for _, part, factor in placed])
        for array in (low, high, weights):
            array.flags.writeable = False  # a schema keeps its encoding
        return cls(
            names=tuple(name for column in columns for name in encoded_names(column)),
            low=low,
            high=high,
            weights=weights,
            groups=tuple(part.group(start, factor) for start, part, factor in placed if part.grouped),
            flags=tuple(start for start, part, _ in placed if part.flag),
            binary=tuple(start + j for start, part, _ in placed for j in part.binary),
            values=sum(alone),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The encoded columns of one column of the table, before scale and weight.

    units : what an encoded unit counts, relative to a unit of the column.
    reach : (l1, l2) distance of the farthest two values. each : every encoded column is a value of its own.
    """

    low: Floats
    high: Floats
    units: Floats
    reach: tuple[float, float]
    binary: tuple[int, ...] = ()
    most: int | None = None
    bound: float | None = None
    flag: bool = False
    each: bool = False
    level: bool = False

    @classmethod
    def of(cls, column: DataColumn) -> Self:
        if isinstance(column, Category | Set):
            size, most = column.width, column.most if isinstance(column, Set) else 1
            far = min(2 * most, size)
            binary = tuple(range(size))
            return cls(np.zeros(size), np.ones(size), np.ones(size), (float(far), math.sqrt(far)), binary, most)
        if isinstance(column, Vector):
            return cls._vector(column)
        low, high = bounds_of(column)
        width = high - low
        if keeps_missing(column):
            beside = _BESIDE * width
            reach = (width / 2 + beside) * _UP, max(math.hypot(width / 2, beside) * _UP, width)
            return cls(np.array([low, 0.0]), np.array([high, 1.0]), np.array([1.0, beside]), reach, (1,), level=True)
        flag = isinstance(column, Flag)
        return cls(np.array([low]), np.array([high]), np.ones(1), (width, width), (0,) if flag else (), flag=flag)

    @classmethod
    def _vector(cls, column: Vector) -> Self:
        size, width = column.size, column.high - column.low
        first, second = size * width, math.sqrt(size) * width * _UP
        if column.bound is not None:
            signs = math.sqrt(2) if column.low >= 0 or column.high <= 0 else 2.0
            second = min(second, signs * column.bound * _UP)
            first = min(first, math.sqrt(size) * second * _UP)
        reach = (first, second) if column.whole else (width, width)
        low, high = np.full(size, column.low), np.full(size, column.high)
        return cls(low, high, np.ones(size), reach, bound=column.bound, each=not column.whole)

    @property
    def grouped(self) -> bool:
        return not self.each and (self.most is not None or self.bound is not None or self.low.size > 1)

    def factor(self, scale: Scale) -> float:
        return 1.0 if scale == "raw" else 1 / self.reach[1]

    def group(self, start: int, factor: float) -> Group:
        first, second = (reach * factor * _UP for reach in self.reach)
        return Group(start, start + self.low.size, self.most, first, second, self.bound, self.level)


def bounds_of(column: DataColumn) -> tuple[float, float]:
    """The ends of a number's encoded column: of an ordinal its places, of a date its steps, of a flag 0 and 1."""
    if isinstance(column, Real | Integer | Vector):
        return float(column.low), float(column.high)
    if isinstance(column, Ordinal):
        return 0.0, len(column.values) - 1.0
    return 0.0, float(column.steps) if isinstance(column, Date) else 1.0


def fill(cells: Floats, values: NDArray[Any], column: DataColumn) -> None:
    """Write the cells that were read into the rows of the matrix that belong to their column."""
    if isinstance(column, Category):
        codes = category_codes(values, column)
        listed = np.flatnonzero(codes >= 0)
        cells[...] = 0.0
        cells[codes[listed], listed] = 1.0
        return
    cells[0] = values
    if isinstance(column, Integer | Date):
        np.rint(cells[0], out=cells[0])
    if isinstance(column, Ordinal):
        cells[0, values < 0] = math.nan
    if keeps_missing(column):
        cells[1] = np.isnan(cells[0])
    if values.dtype.kind == "f":
        nothing = np.isnan(cells[0])
        if nothing.any():
            cells[0, nothing] = missing_value(column)


def category_codes(values: NDArray[Any], column: Category) -> NDArray[np.intp]:
    """The place of each cell that was read among a category's encoded columns; -1: none of them."""
    return np.where(values >= 0, values, _code_of_missing(column)).astype(np.intp)


def _code_of_missing(column: Category) -> int:
    """The place among a category's encoded columns of a cell that is missing or not listed; -1: none of them."""
    if keeps_missing(column):
        return len(column.values)
    return -1 if column.missing is None else column.values.index(column.missing)


def missing_value(column: DataColumn) -> float:
    """What the encoded number of a missing or unreadable cell is."""
    low, high = bounds_of(column)
    if keeps_missing(column):
        return low / 2 + high / 2
    if column.missing is None:
        return min(max(low, 0.0), high) if isinstance(column, Vector) else low
    if isinstance(column, Ordinal):
        return float(column.values.index(column.missing))
    if isinstance(column, Date):
        return float(round((column.missing - column.low) / column.length))  # type: ignore[operator]
    return float(column.missing)


def encoded_names(column: DataColumn) -> list[str]:
    """The names of a column's encoded columns."""
    if isinstance(column, Vector):
        return list(column.columns or (f"{column.name}[{i}]" for i in range(column.size)))
    level = [f"{column.name}={MISSING}"] if keeps_missing(column) else []
    if isinstance(column, Category) or (isinstance(column, Set) and column.values is not None):
        return [f"{column.name}={v}" for v in column.values or ()] + level
    if isinstance(column, Set):
        return [f"{column.name}#{i}" for i in range(column.width)]
    return [column.name, *level]


def of_one_range(columns: Sequence[DataColumn]) -> bool:
    """Whether all columns are numbers of one range, so that a scale would only change the unit."""
    if len(columns) == 1 and isinstance(columns[0], Vector):
        return True
    numbers = all(isinstance(c, Real | Integer | Flag) and not keeps_missing(c) for c in columns)
    return numbers and len({high - low for low, high in map(bounds_of, columns)}) == 1
