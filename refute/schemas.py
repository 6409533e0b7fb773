"""Random schemas, promises and cells: mixed columns, odd weights, extreme bounds, cells that are missing or no such."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from numpy.random import Generator

from refute.luck import chance, pick
from sfumato.privacy.guarantee import Change, Guarantee, Neighbours
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema

Row = tuple[Any, ...]
Level = tuple[Any, ...]  # what ``missing`` may be where missing cells are kept as a level

EPSILONS, DELTAS = (0.05, 0.7, 1.0, 5.0, 12.0), (1e-9, 1e-6, 1e-3)
_LEVEL = ("level", "level")
_WEIGHTS = (1.0, 1.0, 0.3, 2.5, 1e-3, 17.0)
_LOWS = (0.0, 0.0, -1.0, -3.7, 5.0, -1e6, 1e-9, 0.1, -1e60)
_WIDTHS = (1.0, 1e-7, 3.3, 1e5, 0.7, 1e60)
_TEXTS = (("a", "b", "c", "d"), ("yes", "no"), ("1", "2", "3"))
_WHOLE = ((1, 2, 3), (0, 1), (-5, 0, 7, 12))
_BEYOND = ((2**53 + 1, 2**53 + 3), (999000011000001104, 999000031000000106, 5), (2**63 - 1, 2**62 + 1), (0, 2**60 + 1))
KINDS = ("real", "integer", "flag", "ordinal", "category", "date", "datetime", "vector", "vector", "set", "set")
_DAYS = date(2020, 1, 1), date(2020, 3, 1)
_TIMES = datetime.combine(_DAYS[0], time()), datetime.combine(_DAYS[1], time(12, 30))
_DATES = ("2020-02-30", "0001-01-01", "9999-12-31T23:59:59", "soon", "2020-02-01 10:30:00.5", None, None)
_ODD = (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What kinds of tables are drawn: of columns (what is there twice comes twice as often), of clips of rows."""

    kinds: tuple[str, ...] = ("real", "real", "flag", "category", *KINDS)
    clips: tuple[str | None, ...] = (None, None, "l1", "l2")
    columns: int = 4
    levels: bool = True  # whether columns may keep missing cells as a level
    scales: tuple[Any, ...] = ("raw", "bounds")


def schema(luck: Generator, terms: Terms) -> Schema:
    """A schema of one to a few columns."""
    count = int(luck.integers(1, terms.columns + 1))
    level = _LEVEL if terms.levels else ()
    columns = tuple(_column(luck, f"c{j}", pick(luck, terms.kinds), level) for j in range(count))
    norm: Any = pick(luck, terms.clips)
    return Schema(columns, norm, pick(luck, (0.5, 1.0, 3.0, 40.0)) if norm else None, scale=pick(luck, terms.scales))


def _column(luck: Generator, name: str, kind: str, level: Level) -> DataColumn:
    weight = pick(luck, _WEIGHTS)
    if kind == "flag":
        return Flag(name, missing=pick(luck, (None, True, False, *level)), weight=weight)
    if kind == "vector":
        return _vector(luck, name, weight)
    if kind in ("category", "ordinal", "set"):
        return _listed(luck, name, kind, weight, level)
    return _bounded(luck, name, kind, weight, level)


def _bounded(luck: Generator, name: str, kind: str, weight: float, level: Level) -> DataColumn:
    if kind == "real":
        low = pick(luck, _LOWS)
        high = low + max(pick(luck, _WIDTHS), abs(low) * 1e-6)
        missing = pick(luck, (None, low, high, low / 2 + high / 2, *level))
        return Real(name, low, high, missing=missing, weight=weight)
    if kind == "integer":
        first, width = pick(luck, (-7, 0, 1000)), pick(luck, (1, 2, 13, 10**6))
        return Integer(name, first, first + width, missing=pick(luck, (None, first, *level)), weight=weight)
    ends: Any = _DAYS if kind == "date" else _TIMES
    step = pick(luck, (1, 7) if kind == "date" else (1, 3600, 0.25))
    return Date(name, *ends, step=step, missing=pick(luck, (None, ends[1], *level)), weight=weight)


def _listed(luck: Generator, name: str, kind: str, weight: float, level: Level) -> DataColumn:
    lists: tuple[tuple[Any, ...], ...] = (*_TEXTS, *_WHOLE, *_WHOLE, *(_BEYOND if kind == "category" else ()))
    values = pick(luck, lists)
    if kind == "set":
        given: Any = {"buckets": int(luck.integers(1, 7))} if chance(luck, 0.4) else {"values": values}
        return Set(name, most=int(luck.integers(1, 4)), weight=weight, **given)
    values = values[: int(luck.integers(2, len(values) + 1))]
    missing = pick(luck, (None, values[0], values[-1], *level))
    return (Ordinal if kind == "ordinal" else Category)(name, values, missing=missing, weight=weight)


def _vector(luck: Generator, name: str, weight: float) -> Vector:
    """With a bound or without, from a list or from columns, one value or each of its numbers one."""
    size, (low, high) = int(luck.integers(1, 5)), pick(luck, ((-1.0, 1.0), (0.0, 2.0), (-0.5, 3.0), (-1e-9, 1e-9)))
    whole = chance(luck, 0.7)
    bound = high * pick(luck, (0.3, 0.5, 1.0, 9.0)) if whole and chance(luck, 0.7) else None
    columns = tuple(f"{name}.{i}" for i in range(size)) if chance(luck, 0.4) else None
    return Vector(name, size, low, high, bound=bound, columns=columns, whole=whole, weight=weight)


def cell(luck: Generator, column: DataColumn) -> Any:
    """A cell: at the ends of its bounds more often than not, sometimes missing, out of bounds or unreadable."""
    return _CELLS[type(column)](luck, column)


def _flag(luck: Generator, _: Flag) -> Any:
    return pick(luck, (True, False, True, False, True, False, None, pick(luck, (0, 1, "yes", "no", "maybe", 2.0))))


def _value(luck: Generator, column: Category | Ordinal) -> Any:
    if chance(luck, 0.8):
        return pick(luck, column.values)
    if isinstance(column.values[0], str):
        return pick(luck, (None, None, "unlisted", ""))
    return pick(luck, (None, None, 77, -0.0, float(column.values[0])))


def _moment(luck: Generator, column: Date) -> Any:
    return pick(luck, (column.low, column.high, column.low, column.high, pick(luck, _DATES)))


def _list(luck: Generator, column: Vector) -> Any:
    """Numbers at the ends, along one axis, or anything; from columns, always as many as there are."""
    size, ends = column.size, (column.low, column.high)
    if column.columns is None and chance(luck, 0.1):
        return pick(luck, (None, [], [column.high] * (size + 1)))
    if chance(luck, 0.3):
        place = int(luck.integers(size))
        return [pick(luck, ends) if i == place else 0.0 for i in range(size)]
    return [pick(luck, (*ends, *ends, *ends, 0.0, pick(luck, (None, *_ODD)))) for _ in range(size)]


def _items(luck: Generator, column: Set) -> Any:
    """As many items as there may be, more often than not; more, fewer, some twice, unlisted or missing."""
    if chance(luck, 0.05):
        return None
    values: tuple[Any, ...] = column.values or tuple(f"w{i}" for i in range(9))
    odd = (None, "unlisted") if isinstance(values[0], str) else (None, 77)
    count = column.most if chance(luck, 0.6) else int(luck.integers(0, column.most + 4))
    drawn = [values[i] for i in luck.permutation(len(values))[:count].tolist()]
    return drawn + [pick(luck, (*odd, values[0])) for _ in range(int(luck.integers(3)))] * chance(luck, 0.2)


def _number(luck: Generator, column: Real | Integer) -> Any:
    low, high = column.low, column.high
    kind = luck.random()
    if kind < 0.72:
        return low if kind < 0.36 else high
    if kind < 0.80:
        return pick(luck, _ODD)
    if kind < 0.85:
        return None
    if kind < 0.90:
        return int(luck.integers(-3, 9))
    return "text" if kind < 0.91 else low + (high - low) * float(luck.random())


_CELLS: dict[Any, Callable[[Generator, Any], Any]] = {
    Real: _number,
    Integer: _number,
    Flag: _flag,
    Ordinal: _value,
    Category: _value,
    Date: _moment,
    Vector: _list,
    Set: _items,
}


def row(luck: Generator, of: Schema) -> Row:
    """A row of cells."""
    return tuple(cell(luck, column) for column in of.data_columns)


def promise(
    luck: Generator, of: Schema, noise: str, *, whole: bool = False, comes: bool = False, grouped: bool = True
) -> Guarantee:
    """A guarantee that noise of this law may give; ``whole``: of records alone, ``comes``: perhaps add-remove."""
    delta = pick(luck, DELTAS) if noise != "laplace" else pick(luck, (0.0, 0.0, 0.0, 1e-3))
    unit = "record" if whole or of.norm is not None else pick(luck, ("attribute", "record", "record", "record"))
    epsilon = pick(luck, EPSILONS)
    if unit == "attribute":
        return Guarantee(epsilon=epsilon, delta=delta, unit="attribute")
    group = pick(luck, (1, 1, 2, 3)) if grouped else 1
    neighbours: Neighbours = "add-remove" if comes and chance(luck, 0.5) else "replace"
    change = None if neighbours == "add-remove" else _change(luck, of)
    return Guarantee(epsilon=epsilon, delta=delta, change=change, group=group, neighbours=neighbours)


def _change(luck: Generator, of: Schema) -> Change | None:
    """A ball whose radius has the size of one of the columns, or the whole box."""
    ranges = of.encoding.ranges.tolist()
    radius = pick(luck, (0.01, 0.3, 1.0, 1.5, 2.0)) * float(pick(luck, ranges))
    kinds = ("l1", "l2") if of.norm is None else (of.norm,)
    if any(isinstance(column, Vector) and column.bound is not None for column in of.data_columns):
        kinds = tuple(kind for kind in kinds if kind == "l2")  # shortening vectors may stretch what moves in l1
    if not kinds:
        return None
    return Change(pick(luck, kinds), radius) if chance(luck, 0.5) else None  # type: ignore[arg-type]
