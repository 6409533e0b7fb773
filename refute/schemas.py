"""Random schemas, promises and cells: mixed columns, odd weights, extreme bounds, cells that are missing or no such."""

import math
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from refute.luck import chance, pick
from sfumato.privacy.guarantee import Change, Guarantee, Neighbours
from sfumato.tables.columns import Category, DataColumn, Flag, Real
from sfumato.tables.schema import Schema

Row = tuple[Any, ...]

EPSILONS, DELTAS = (0.05, 0.7, 1.0, 5.0, 12.0), (1e-9, 1e-6, 1e-3)
_WEIGHTS = (1.0, 1.0, 0.3, 2.5, 1e-3, 17.0)
_LOWS = (0.0, 0.0, -1.0, -3.7, 5.0, -1e6, 1e-9, 0.1, -1e60)
_WIDTHS = (1.0, 1e-7, 3.3, 1e5, 0.7, 1e60)
_TEXTS = (("a", "b", "c", "d"), ("yes", "no"), ("1", "2", "3"))
_WHOLE = ((1, 2, 3), (0, 1), (-5, 0, 7, 12))
_BEYOND = ((2**53 + 1, 2**53 + 3), (999000011000001104, 999000031000000106, 5), (2**63 - 1, 2**62 + 1), (0, 2**60 + 1))
_ODD = (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What kinds of tables are drawn: of columns (what is there twice comes twice as often), of clips of rows."""

    kinds: tuple[str, ...] = ("real", "real", "flag", "category")
    clips: tuple[str | None, ...] = (None, None, "l1", "l2")
    columns: int = 4


def schema(luck: Generator, terms: Terms) -> Schema:
    """A schema of one to a few columns."""
    count = int(luck.integers(1, terms.columns + 1))
    columns = tuple(_column(luck, f"c{j}", pick(luck, terms.kinds)) for j in range(count))
    norm: Any = pick(luck, terms.clips)
    return Schema(columns, norm, pick(luck, (0.5, 1.0, 3.0, 40.0)) if norm else None)


def _column(luck: Generator, name: str, kind: str) -> DataColumn:
    weight = pick(luck, _WEIGHTS)
    if kind == "real":
        low = pick(luck, _LOWS)
        high = low + max(pick(luck, _WIDTHS), abs(low) * 1e-6)
        return Real(name, low, high, missing=pick(luck, (None, low, high, low / 2 + high / 2)), weight=weight)
    if kind == "flag":
        return Flag(name, missing=pick(luck, (None, True, False)), weight=weight)
    lists: tuple[tuple[Any, ...], ...] = (*_TEXTS, *_WHOLE, *_WHOLE, *_BEYOND)
    values = pick(luck, lists)
    values = values[: int(luck.integers(2, len(values) + 1))]
    return Category(name, values, missing=pick(luck, (None, values[0], values[-1])), weight=weight)


def cell(luck: Generator, column: DataColumn) -> Any:
    """A cell: at the ends of its bounds more often than not, sometimes missing, out of bounds or unreadable."""
    if isinstance(column, Real):
        return _number(luck, column)
    if isinstance(column, Flag):
        return pick(luck, (True, False, True, False, True, False, None, pick(luck, (0, 1, "yes", "no", "maybe", 2.0))))
    if chance(luck, 0.8):
        return pick(luck, column.values)
    if isinstance(column.values[0], str):
        return pick(luck, (None, None, "unlisted", ""))
    return pick(luck, (None, None, 77, -0.0, float(column.values[0])))


def _number(luck: Generator, column: Real) -> Any:
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
    return Change(pick(luck, kinds), radius) if chance(luck, 0.5) else None  # type: ignore[arg-type]
