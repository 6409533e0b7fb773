"""Schemas that mix every kind of column, cells at the corners of each kind and far beyond, and neighbouring rows."""

import functools
import itertools
import math
from datetime import date, datetime

import numpy as np
import pyarrow as pa

from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real, Set, Vector, source_names
from sfumato.tables.schema import Schema

DAY = date(2020, 1, 1), date(2020, 12, 31)
NOON = datetime.fromisoformat("2020-01-01"), datetime.fromisoformat("2020-03-01T12:00")

PLAIN = (
    Real("real", -3.0, 5.0),
    Integer("integer", -2, 7, missing=3),
    Flag("flag", missing=True),
    Ordinal("ordinal", ("small", "middle", "large", 7)),
    Category("category", ("x", "y", 3)),
    Date("date", *DAY, step=7),
    Date("datetime", *NOON, step=3600),
    Vector("vector", 4, -1.0, 1.0, bound=1.0),
    Vector("places", low=-2.0, high=6.0, columns=("p0", "p1", "p2"), whole=False),
    Set("words", ("a", "b", "c", "d", 5), most=3),
    Set("hashed", buckets=6, most=1),
)
LEVELS = (
    Real("real", -3.0, 5.0, missing="level", weight=2.0),
    Integer("integer", -2, 7, missing="level", weight=0.3),
    Flag("flag", missing="level"),
    Ordinal("ordinal", ("small", "middle", "large", 7), missing="level", weight=3.0),
    Category("category", ("x", "y", 3), missing="level", weight=0.7),
    Date("date", *DAY, step=7, missing="level"),
    Date("datetime", *NOON, step=3600, missing="level", weight=0.01),
    Vector("vector", 4, 0.0, 1.0, bound=1.2, weight=1.7),
    Vector("places", low=-2.0, high=6.0, columns=("p0", "p1", "p2"), weight=0.4),
    Set("words", ("a", "b", "c", "d", 5), most=1),
    Set("hashed", buckets=6, most=3, weight=2.0),
)
SCHEMAS = {
    "plain": Schema(PLAIN, scale="bounds"),
    "plain, raw": Schema(PLAIN, scale="raw"),
    "levels": Schema(LEVELS, scale="bounds"),
    "levels, raw": Schema(LEVELS, scale="raw"),
    **{f"{column.name} alone": Schema((column,), scale="bounds") for column in (*LEVELS[:2], PLAIN[7], *PLAIN[9:])},
    "a vector of one sign": Schema((LEVELS[7],), scale="bounds"),
    "a vector of one number": Schema((Vector("vector", 1, -3.0, 2.0, bound=0.5),), scale="bounds"),
    "a vector beside": Schema((PLAIN[7], Real("real", -1.0, 1.0)), scale="raw"),
    "sets": Schema((PLAIN[9], LEVELS[10]), scale="bounds"),
}
CLIPPED = {
    norm: Schema((LEVELS[0], PLAIN[7], LEVELS[8], PLAIN[9]), norm=norm, norm_bound=bound, scale="bounds")
    for norm, bound in (("l2", 0.8), ("l1", 1.5))
}

_NUMBERS = (math.nan, math.inf, -math.inf, 1e308, -0.0)
_TEXTS = (None, b"", b"unlisted", b"\xff\xfe", b"7.0", b"NaN", b"2020-02-31", b"0001-01-01T00:00+14:00", b"-5000-01-01")
_WILD = [[b"a", b"a", b"a"], [b"\xff", None, b"zz"], [None], [b"7", b"8", b"9"]]


@functools.cache
def corners(column):
    """Cells of a column: the ends of its domain, missing ones, ones that it cannot have."""
    if isinstance(column, Real | Integer):
        return [column.low, column.high, (column.low + column.high) / 2, None, *_NUMBERS]
    if isinstance(column, Flag):
        return [b"true", b"no", *_TEXTS]
    if isinstance(column, Ordinal | Category):
        return [str(value).encode() for value in column.values] + list(_TEXTS)
    if isinstance(column, Date):
        ends = [column.low.isoformat().encode(), column.high.isoformat().encode()]
        return [*ends, b"2020-02-01T10:00:00.123456789", b"9999-12-31", *_TEXTS]
    return _vectors(column) if isinstance(column, Vector) else _sets(column)


def _vectors(column):
    size = column.size
    ends = [list(signs) for signs in itertools.product((column.low, column.high), repeat=size)]
    axes = [[end if i == j else 0.0 for i in range(size)] for j in range(size) for end in (column.low, column.high)]
    wild = [[math.nan] * size, [math.inf] + [0.0] * (size - 1), [1e308] * size, [None, *[column.high] * (size - 1)]]
    wrong = [None, [1.0], [1.0] * (size + 1), []] if column.columns is None else []
    return ends + axes + wild + wrong


def _sets(column):
    items = [str(v).encode() for v in column.values or range(12)]
    most = min(column.most + 1, len(items))
    few = [list(some) for size in range(most + 1) for some in itertools.combinations(items, size)]
    return [None, *few[:: max(1, len(few) // 30)], items, *_WILD]


def _kind(column):
    if isinstance(column, Vector | Set):
        return pa.list_(pa.float64() if isinstance(column, Vector) else pa.binary())
    return pa.float64() if isinstance(column, Real | Integer) else pa.binary()


def table(schema, rows):
    """A table of rows of cells, one cell for each data column."""
    found = {}
    for place, column in enumerate(schema.data_columns):
        cells = [row[place] for row in rows]
        if getattr(column, "columns", None):
            numbers = zip(*cells, strict=True)
            found |= {n: pa.array(c, pa.float64()) for n, c in zip(source_names(column), numbers, strict=True)}
        else:
            found[column.name] = pa.array(cells, _kind(column))
    return pa.table(found)


def random_row(rng, schema):
    """A row of cells at corners."""
    return tuple(choice(rng, corners(column)) for column in schema.data_columns)


def choice(rng, some):
    """One of a list of anything."""
    return some[int(rng.integers(len(some)))]


def changed_values(rng, schema, contexts=2, most=150):
    """Pairs of rows that differ in one value: for each, up to so many pairs of its cells, among random others."""
    for place, column in enumerate(schema.data_columns):
        pairs = list(itertools.permutations(_values(column), 2))
        for chosen in rng.permutation(len(pairs))[:most].tolist():
            for _ in range(contexts):
                row = random_row(rng, schema)
                one, two = (change(row[place]) for change in pairs[chosen])
                yield (*row[:place], one, *row[place + 1 :]), (*row[:place], two, *row[place + 1 :])


def _values(column):
    """What one value of a column may become, as functions of the cell before: of a vector by parts, one number."""
    if isinstance(column, Vector) and not column.whole:
        ends = (column.low, column.high, math.nan, math.inf)
        return [lambda cell, end=end: [end, *cell[1:]] for end in ends]
    return [lambda _, cell=cell: cell for cell in corners(column)]


def changed_rows(rng, schema, count=3000):
    """Pairs of rows that differ anywhere."""
    return [(random_row(rng, schema), random_row(rng, schema)) for _ in range(count)]


def encoded(schema, pairs):
    """Both rows of each pair, encoded: two blocks (encoded columns, pairs)."""
    ones, twos = zip(*pairs, strict=True)
    return schema.encode(table(schema, ones)), schema.encode(table(schema, twos))


def within_ball(rng, schema, kind, radius, count=3000):
    """Encoded blocks of pairs within a ball of weighted units: reals and vectors move, as far as it allows."""
    encoding = schema.encoding
    one, two = encoded(schema, changed_rows(rng, schema, count))
    moving = np.zeros(encoding.dim, bool)
    for j, name in enumerate(encoding.names):
        moving[j] = name == "real" or "[" in name or name in ("p0", "p1", "p2")
    one = np.clip(one, encoding.low[:, None] * 1.3 - 0.1, encoding.high[:, None] * 1.3 + 0.1)
    step = np.where(moving[:, None], (two > one) * 2.0 - 1.0, 0.0) * rng.random(one.shape) ** rng.integers(0, 9, count)
    weighted = step * encoding.weights[:, None]
    length = np.linalg.norm(weighted, 1 if kind == "l1" else 2, axis=0)
    return one, one + step * (radius * (1 - 2.0**-40) / np.maximum(length, 1e-300))
