"""Where a schema meets a table: patterns are settled by the names of its columns, and cells that do not fit counted.

``settled`` looks at names alone. ``compare`` reads cells and is NOT private: its counts are for the data's owner alone.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from pyarrow import types

from sfumato.errors import SchemaError
from sfumato.files.open_table import open_table
from sfumato.files.table_file import StandardInput, TableFile
from sfumato.tables import cells, lists, patterns
from sfumato.tables.columns import Category, DataColumn, Flag, Ordinal, Real, Set, Vector, source_names
from sfumato.tables.encoding import bounds_of
from sfumato.tables.schema import Schema
from sfumato.tables.schema_draft import Draft

Problem = Literal["missing", "unreadable", "below low", "above high", "unlisted"]


def settled(data: Any, schema: Schema | Draft) -> tuple[Any, Schema]:
    """Data and schema as they go together: patterns in the schema are settled by the names of the table's columns.

    Without patterns both are returned as they are; with them the data as a Source. Only names are looked at.
    """
    if isinstance(schema, Draft):
        raise SchemaError("this is the draft of a schema: fill in its bounds and values with draft.fill(...) first")
    if not schema.open_patterns:
        return data, schema
    table = open_table(data)
    if table.description in ("numpy array", "sparse matrix"):
        raise SchemaError(
            f"the pattern {schema.open_patterns[0]!r} has no names to match: the columns of a {table.description} "
            "have none, so write a numbered range such as 'x{1..9}'"
        )
    try:
        found = schema.matched(table.schema.names)
    except SchemaError as error:
        raise SchemaError(f"{table.description}: {error}", error.problems) from None
    again = isinstance(data, str | Path | TableFile | StandardInput) or table.description == "pandas DataFrame"
    return open_table(data, found) if again else table, found


@dataclass(frozen=True, slots=True)
class Misfit:
    """How many cells of a column do not fit the schema, and in what way. Not private."""

    column: str
    problem: Problem
    count: int


def compare(schema: Schema, blocks: Iterable[pa.RecordBatch]) -> list[Misfit]:
    """Check of data against a schema: what of the data does not fit.

    NOT PRIVATE: the counts are exact counts of private cells. They are for the data's owner alone; never publish them,
    and never let them move a bound.
    """
    counts: Counter[tuple[str, Problem]] = Counter()
    pairs = [(column, name) for column in schema.data_columns for name in source_names(column)]
    for block in blocks:
        places = patterns.positions(block.schema.names, [name for _, name in pairs])
        for (column, name), place in zip(pairs, places, strict=True):
            for chunk in cells.chunks(block.column(place)):
                counts.update({(name, problem): n for problem, n in _problems(chunk, column).items()})
    order = [(name, problem) for _, name in pairs for problem in get_args(Problem)]
    return [Misfit(name, problem, counts[name, problem]) for name, problem in order if counts[name, problem]]


def _problems(array: Any, column: DataColumn) -> dict[Problem, int]:
    """How many cells of a block do not fit a column; of lists, their numbers and items, and other lengths."""
    if isinstance(column, Vector | Set) and not getattr(column, "columns", None):
        lengths, _, inner = lists.laid_out(array)
        missing = int((lengths < 0).sum())
        if isinstance(column, Vector):
            odd = int(((lengths != column.size) & (lengths >= 0)).sum())
            return {**_problems(inner, _number(column)), "missing": missing, "unreadable": odd}
        unlisted = (
            0 if column.values is None else _problems(inner, Category(column.name, column.values)).get("unlisted", 0)
        )
        return {"missing": missing, "unlisted": unlisted}
    read_as = _number(column) if isinstance(column, Vector) else column
    values, plain = cells.read(array, read_as), cells.decoded(array)
    nothing = plain.is_null(nan_is_null=types.is_floating(plain.type))
    missing = int(nothing.to_numpy(zero_copy_only=False).sum())
    found: dict[Problem, int] = {"missing": missing, "unreadable": int(np.isnan(values).sum()) - missing}
    if isinstance(read_as, Category | Ordinal):
        return found | {"unlisted": int((values < 0).sum())}
    if not isinstance(read_as, Flag):
        low, high = bounds_of(read_as)
        found |= {"below low": int((values < low).sum()), "above high": int((values > high).sum())}
    return found


def _number(column: Vector) -> Real:
    """The column that the numbers of a vector are, one by one."""
    return Real(column.name, column.low, column.high)
