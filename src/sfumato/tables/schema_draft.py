"""Drafts of a schema, from names and types or from the data, and a check of data against a schema.

A draft from names and types holds no value of the data. ``bounded_by_data`` and ``compare`` read cells and are NOT
private: what they say is for the data's owner alone.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from pyarrow import types

from sfumato.errors import SchemaError
from sfumato.tables import cells
from sfumato.tables.columns import Category, Column, DataColumn, Flag, Real
from sfumato.tables.schema import Schema, positions, toml_value

Problem = Literal["missing", "unreadable", "below low", "above high", "unlisted"]

_DRAFT_HEAD = """\
# A draft from the names and types of the columns; it holds no value of the data.
# Fill in what is commented out from what you know: a questionnaire, a law, a data sheet. Never from the data: a bound
# taken from them is the value of their most extreme row, published without any protection.
# A cell that may be missing wants a line such as: missing = 0.0
# A column that only labels the rows gets: kind = "id"
"""


def draft(names_and_types: pa.Schema) -> str:
    """A draft of a schema in TOML, from names and types only; unreadable before bounds and values are filled in."""
    if not isinstance(names_and_types, pa.Schema):
        raise SchemaError("a draft is made from a pyarrow.Schema, which holds names and types but no values")
    return "\n".join([_DRAFT_HEAD, *(_draft_column(field) for field in names_and_types)])


def bounded_by_data(names_and_types: pa.Schema, blocks: Iterable[pa.RecordBatch]) -> Schema:
    """A draft of a schema whose bounds and categories are read off the data.

    NOT PRIVATE: its bounds are cells of the data, in the clear. It says so of itself (``bounds_from_data``), and so
    does the manifest of every release made with it.
    """
    readable = [f for f in names_and_types if "kind" in _draft_column(f)]
    kinds = {f.name: tomllib.loads(_draft_column(f))["columns"][0]["kind"] for f in readable}
    seen: dict[str, Any] = {name: set() for name in kinds}
    for block in blocks:
        for name, kind in kinds.items():
            seen[name] |= _seen(block.column(positions(block.schema.names, [name])[0]), kind)
    columns = [_column_of(name, kinds[name], seen[name]) for name in kinds]
    return Schema(tuple(columns), bounds_from_data=True)


def _seen(column: Any, kind: str) -> set[Any]:
    """What a block adds to a drafted schema: extremes of numbers, distinct texts of categories, nothing of flags."""
    if kind == "flag":
        return set()
    if kind == "category":
        return {value for value in column.unique().to_pylist() if value}
    numbers = cells.read(column, Real("number", -1.0, 1.0)).astype(float)
    finite = numbers[np.isfinite(numbers)]
    return {float(finite.min()), float(finite.max())} if finite.size else set()


def _column_of(name: str, kind: str, seen: set[Any]) -> Column:
    if kind == "flag":
        return Flag(name)
    if not seen:
        raise SchemaError(f"the column {name!r} holds nothing to take bounds from: write its schema by hand")
    if kind == "category":
        return Category(name, tuple(sorted(map(str, seen))))
    low, high = min(seen), max(seen)
    return Real(name, low, high if high > low else low + 1.0)


def _draft_column(field: pa.Field) -> str:
    name, kind = toml_value(field.name), field.type
    if types.is_boolean(kind):
        return f'[[columns]]\nname = {name}\nkind = "flag"\n'
    if cells.is_number(kind):
        return f'[[columns]]\nname = {name}\nkind = "real"\n# low = \n# high = \n'
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return f'[[columns]]\nname = {name}\nkind = "category"\n# values = [...]\n'
    return f"# left out: {name}, whose type {toml_value(str(kind))[1:-1]} is neither a number, a truth nor a text\n"


@dataclass(frozen=True, slots=True)
class Misfit:
    """How many cells of a column do not fit the schema, and in what way. Not private."""

    column: str
    problem: Problem
    count: int


def compare(schema: Schema, blocks: Iterable[pa.RecordBatch]) -> list[Misfit]:
    """Check of data against a drafted schema: what of the data does not fit.

    NOT PRIVATE: the counts are exact counts of private cells. They are for the data's owner alone; never publish them,
    and never let them move a bound.
    """
    counts: Counter[tuple[str, Problem]] = Counter()
    columns = schema.data_columns
    for block in blocks:
        places = positions(block.schema.names, [c.name for c in columns])
        for column, place in zip(columns, places, strict=True):
            for chunk in cells.chunks(block.column(place)):
                counts.update({(column.name, problem): n for problem, n in _problems(chunk, column).items()})
    order = [(c.name, problem) for c in columns for problem in get_args(Problem)]
    return [Misfit(name, problem, counts[name, problem]) for name, problem in order if counts[name, problem]]


def _problems(array: Any, column: DataColumn) -> dict[Problem, int]:
    values = cells.read(array, column)
    plain = cells.decoded(array)
    nothing = plain.is_null(nan_is_null=types.is_floating(plain.type))
    missing = int(nothing.to_numpy(zero_copy_only=False).sum())
    found: dict[Problem, int] = {"missing": missing, "unreadable": int(np.isnan(values).sum()) - missing}
    if isinstance(column, Real):
        found |= {"below low": int((values < column.low).sum()), "above high": int((values > column.high).sum())}
    if isinstance(column, Category):
        found["unlisted"] = int((values < 0).sum())
    return found
