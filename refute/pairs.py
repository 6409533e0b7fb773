"""Pairs of neighbouring tables: what both have, and the rows of the one unit in which they differ.

Whether two tables are neighbours is decided here, by arithmetic on fractions, and not by the package.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from numpy.random import Generator

from refute import schemas
from refute.luck import chance, pick
from refute.meanings import meaning, units
from refute.schemas import Row
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.tables.columns import Real, Vector
from sfumato.tables.schema import Schema


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tables. ``at``: where the unit's rows stand; ``outcome``: a seed of what earlier draws come out as."""

    common: tuple[Row, ...]
    ones: tuple[Row, ...]
    twos: tuple[Row, ...]
    at: tuple[int, ...]
    outcome: int

    @property
    def tables(self) -> tuple[list[Row], list[Row]]:
        """The two tables, row by row."""
        return self._table(self.ones), self._table(self.twos)

    def _table(self, unit: tuple[Row, ...]) -> list[Row]:
        rows = list(self.common)
        for place, row in zip(self.at, unit, strict=False):
            rows.insert(place, row)
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """All pairs that a guarantee speaks of. ``least``: rows in a table at least; ``kept``: columns that are public."""

    schema: Schema
    guarantee: Guarantee
    least: int = 0
    most: int = 4
    kept: tuple[str, ...] = ()

    def draw(self, luck: Generator) -> Pair:
        """A random pair."""
        ones, twos = self._unit(luck)
        least = max(0, self.least - min(len(ones), len(twos)))
        common = self._common(luck, int(luck.integers(least, max(least, self.most) + 1)), ones + twos)
        return Pair(common, ones, twos, self._places(luck, len(common), ones, twos), int(luck.integers(1 << 30)))

    def _common(self, luck: Generator, count: int, unit: tuple[Row, ...]) -> tuple[Row, ...]:
        if chance(luck, 0.3):
            return (pick(luck, unit),) * count
        if chance(luck, 0.3):
            return (self._row(luck),) * count
        return tuple(self._row(luck) for _ in range(count))

    def _places(self, luck: Generator, count: int, ones: tuple[Row, ...], twos: tuple[Row, ...]) -> tuple[int, ...]:
        return tuple(int(luck.integers(count + i + 1)) for i in range(max(len(ones), len(twos))))

    def changed(self, luck: Generator, pair: Pair) -> Pair:
        """A pair that is another one in one respect: a step of a climb."""
        step = pick(luck, ("unit", "unit", "cell", "cell", "rows", "outcome", "turn", "equal"))
        if step == "unit":
            ones, twos = self._unit(luck)
            if len(ones) == len(pair.ones) and len(twos) == len(pair.twos):
                return replace(pair, ones=ones, twos=twos)
            step = "rows"
        if step == "cell" and pair.common:
            place = int(luck.integers(len(pair.common)))
            return replace(pair, common=_with(pair.common, place, self._recelled(luck, pair.common[place])))
        if step == "equal":
            return replace(pair, common=(pick(luck, pair.ones + pair.twos),) * len(pair.common))
        if step == "turn":
            return replace(pair, ones=pair.twos, twos=pair.ones)
        return self.draw(luck) if step == "rows" else replace(pair, outcome=int(luck.integers(1 << 30)))

    def _row(self, luck: Generator) -> Row:
        return schemas.row(luck, self.schema)

    def _recelled(self, luck: Generator, row: Row) -> Row:
        place = int(luck.integers(len(row)))
        return _with(row, place, schemas.cell(luck, self.schema.data_columns[place]))

    def _unit(self, luck: Generator) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """The rows of one unit, before and after."""
        count = int(luck.integers(1, self.guarantee.group + 1)) if chance(luck, 0.3) else self.guarantee.group
        if self.guarantee.neighbours == "add-remove":
            rows = self._alike(luck, count)
            return (rows, ()) if chance(luck, 0.5) else ((), rows)
        ones = self._alike(luck, count)
        one = self._other(luck, ones[0])
        if len(set(map(repr, ones))) == 1:
            return ones, (one,) * count
        return ones, tuple(self._other(luck, row) for row in ones)

    def _alike(self, luck: Generator, count: int) -> tuple[Row, ...]:
        if chance(luck, 0.6):
            return (self._row(luck),) * count
        return tuple(self._row(luck) for _ in range(count))

    def _other(self, luck: Generator, row: Row) -> Row:
        """What a row may become."""
        kind, target = self.guarantee.allowed_change.kind, self._row(luck)
        if kind == "attribute":
            place = int(luck.integers(len(row)))
            return self._keeping(row, _with(row, place, self._value(luck, place, row[place], target[place])))
        if kind == "box":
            return self._keeping(row, target)
        return self._keeping(row, towards(luck, self.schema, self.guarantee.allowed_change, row, target))

    def _value(self, luck: Generator, place: int, cell: Any, other: Any) -> Any:
        """What a cell becomes where one value of it may change: of a vector by parts, one number."""
        column = self.schema.data_columns[place]
        if not isinstance(column, Vector) or column.whole:
            return other
        if not all(one is not None and len(one) == column.size for one in (cell, other)):
            return cell
        which = int(luck.integers(column.size))
        return [*cell[:which], other[which], *cell[which + 1 :]]

    def _keeping(self, row: Row, other: Row) -> Row:
        """The other row, with the public columns of this one."""
        names = [column.name for column in self.schema.data_columns]
        return tuple(a if name in self.kept else b for name, a, b in zip(names, row, other, strict=True))


def _with(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


# ---- how far apart two rows are -------------------------------------------------------------------------------------


def distance(schema: Schema, kind: str, one: Row, two: Row) -> Fraction:
    """The l1 distance of two rows in weighted units, or the square of their l2 distance; exact in raw units.

    Scaled by bounds, it is at most 2^-39 of itself too large.
    """
    gaps = [
        abs(a - b) * unit
        for column, x, y in zip(schema.data_columns, one, two, strict=True)
        for a, b, unit in zip(meaning(column, x), meaning(column, y), units(schema, column), strict=True)
    ]
    return sum(gaps, Fraction(0)) if kind == "l1" else sum((gap * gap for gap in gaps), Fraction(0))


def within(schema: Schema, change: Change, one: Row, two: Row) -> bool:
    """Whether a row may become another by a change in a ball; decided exactly."""
    radius = Fraction(change.radius or 0.0)
    return distance(schema, change.kind, one, two) <= (radius if change.kind == "l1" else radius**2)


def towards(luck: Generator, schema: Schema, change: Change, row: Row, target: Row) -> Row:
    """The row moved towards a target, as far as the ball allows: some cells at once, then numbers in proportion."""
    columns, found = schema.data_columns, row
    order = luck.permutation(len(columns)).tolist()
    for place in order[: 1 if chance(luck, 0.3) else len(order)]:
        whole = _with(found, place, target[place])
        if within(schema, change, row, whole):
            found = whole
        elif isinstance(column := columns[place], Real):
            found = _partly(schema, change, row, found, place, float(meaning(column, target[place])[0]))
        elif isinstance(column, Vector):
            found = _along(schema, change, row, found, place, [float(x) for x in meaning(column, target[place])])
    return found


def _partly(schema: Schema, change: Change, row: Row, found: Row, place: int, end: float) -> Row:
    """One number moved towards an end until the row is at the edge of the ball, or a few steps of doubles inside."""
    column = schema.data_columns[place]
    start, unit = float(meaning(column, found[place])[0]), float(units(schema, column)[0])
    spent, radius = float(distance(schema, change.kind, row, found)), change.radius or 0.0
    left = radius - spent if change.kind == "l1" else math.sqrt(max(0.0, radius * radius - spent))
    for slack in (0.0, 2.0**-52, 2.0**-50, 2.0**-46, 2.0**-40, 2.0**-30):
        moved = start + math.copysign(left / unit * (1 - slack), end - start)
        if within(schema, change, row, other := _with(found, place, moved)):
            return other
    return found


def _along(schema: Schema, change: Change, row: Row, found: Row, place: int, end: list[float]) -> Row:
    """A vector moved along the line to an end until the row is at the edge of the ball, or inside."""
    start = [float(x) for x in meaning(schema.data_columns[place], found[place])]
    share = 1.0
    for _ in range(60):
        moved = [a + (b - a) * share for a, b in zip(start, end, strict=True)]
        if within(schema, change, row, other := _with(found, place, moved)):
            return other
        share *= 0.8
    return found
