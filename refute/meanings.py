"""What a cell means, as the documentation of its kind says it: numbers, as fractions, and what each of them counts.

Written again here, apart from the package, so that it decides what neighbours are and not the code that is searched.
"""

import hashlib
import math
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from typing import Any

from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema

Numbers = tuple[Fraction, ...]

_TRUTHS = {"no": False, "yes": True}
_UP = 1 + Fraction(1, 2**40)  # a scale by bounds is in doubles, and a neighbour's distance is not said too small


def level(column: DataColumn) -> bool:
    """Whether missingness has an encoded column of its own."""
    return column.missing == "level"


def meaning(column: DataColumn, cell: Any) -> Numbers:
    """The encoded columns of a cell, within the bounds; of a vector before it is shortened."""
    if isinstance(column, Vector):
        return _vector(column, cell)
    if isinstance(column, Set):
        return _set(column, cell)
    if isinstance(column, Category):
        return _one_hot(column, cell)
    low, high = ends(column)
    found = _number(column, cell)
    inside = None if found is None else min(max(found, low), high)
    if level(column):
        return ((low + high) / 2, Fraction(1)) if inside is None else (inside, Fraction(0))
    return (_instead(column) if inside is None else inside,)


def ends(column: Any) -> tuple[Fraction, Fraction]:
    """The ends of a number's encoded column."""
    if isinstance(column, Real | Integer | Vector):
        return Fraction(column.low), Fraction(column.high)
    most = len(column.values) - 1 if isinstance(column, Ordinal) else column.steps if isinstance(column, Date) else 1
    return Fraction(0), Fraction(most)


def _instead(column: Any) -> Fraction:
    """What a missing number becomes."""
    if column.missing is None:
        return ends(column)[0]
    found = _number(column, column.missing)
    assert found is not None
    return found


def _number(column: Any, cell: Any) -> Fraction | None:
    """The number that a cell of a real, integer, flag, ordinal or date writes; None for nothing, or none of them."""
    if isinstance(column, Flag):
        truth = _TRUTHS.get(cell, cell) if isinstance(cell, str) else cell
        known = isinstance(truth, bool | int | float) and truth in (0, 1)
        return Fraction(bool(truth)) if known else None
    if isinstance(column, Ordinal):
        texts = [str(value) for value in column.values]
        return Fraction(texts.index(_written(cell))) if _written(cell) in texts else None
    if isinstance(column, Date):
        return _steps(column, cell)
    number = _finite(cell)
    return Fraction(round(number)) if number is not None and isinstance(column, Integer) else number


def _finite(cell: Any) -> Fraction | None:
    if cell is None or isinstance(cell, str) or math.isnan(cell):
        return None
    return Fraction(cell) if math.isfinite(cell) else Fraction(10**400) * (1 if cell > 0 else -1)


def _steps(column: Date, cell: Any) -> Fraction | None:
    if isinstance(cell, str):
        try:
            cell = datetime.fromisoformat(cell)
        except ValueError:
            return None
    if not isinstance(cell, date):
        return None
    if column.kind == "date":
        day = cell.date() if isinstance(cell, datetime) else cell
        return Fraction(round(Fraction((day - column.low).days, int(column.step))))
    assert isinstance(column.low, datetime)
    point = cell if isinstance(cell, datetime) else datetime.combine(cell, time())
    tick = timedelta(microseconds=1)
    return Fraction(round(Fraction((point - column.low) // tick, column.length // tick)))


def _written(cell: Any) -> str:
    plain = int(cell) if isinstance(cell, float) and cell.is_integer() else cell
    return str(plain)


def _one_hot(column: Category, cell: Any) -> Numbers:
    values = [str(value) for value in column.values] + (["(missing)"] if level(column) else [])
    other = "(missing)" if level(column) else str(column.missing)
    text = _written(cell) if cell is not None and _written(cell) in values else other
    return tuple(Fraction(value == text) for value in values)


def _vector(column: Vector, cell: Any) -> Numbers:
    low, high = ends(column)
    nothing = min(max(Fraction(0), low), high)
    if cell is None or len(cell) != column.size:
        return (nothing,) * column.size
    numbers = [_finite(one) for one in cell]
    return tuple(nothing if one is None else min(max(one, low), high) for one in numbers)


def _set(column: Set, cell: Any) -> Numbers:
    width = column.width
    places = sorted({_place(column, item) for item in cell or () if item is not None} - {-1})[: column.most]
    return tuple(Fraction(j in places) for j in range(width))


def _place(column: Set, item: Any) -> int:
    if column.values is None:
        digest = hashlib.blake2b(_written(item).encode(), digest_size=16).digest()
        return int.from_bytes(digest, "little") % column.width
    texts = [str(value) for value in column.values]
    return texts.index(_written(item)) if _written(item) in texts else -1


def units(schema: Schema, column: DataColumn) -> Numbers:
    """What an encoded unit of each of a column's numbers counts, in weighted units: exact where these are raw."""
    weight, raw = Fraction(column.weight), schema.scale == "raw"
    if isinstance(column, Category | Set):
        most = column.most if isinstance(column, Set) else 1
        far = min(2 * most, column.width)
        return (weight if raw else weight / Fraction(math.sqrt(far)) * _UP,) * column.width
    low, high = ends(column)
    width = high - low
    if isinstance(column, Vector):
        return (weight if raw else weight / _farthest(column, width) * _UP,) * column.size
    one = weight if raw else weight / width * _UP
    return (one, one * width * Fraction(math.sqrt(3) / 2) * _UP) if level(column) else (one,)


def _farthest(column: Vector, width: Fraction) -> Fraction:
    """How far apart two vectors are at most, or two of their numbers where each is a value."""
    if not column.whole:
        return width
    second = Fraction(math.sqrt(column.size)) * width
    if column.bound is None:
        return second
    apart = math.sqrt(2) if column.low >= 0 or column.high <= 0 else 2.0
    return min(second, Fraction(apart) * Fraction(column.bound))
