"""Drafts of a schema, from names and types.

A draft looks at names and types alone and holds no value of the data. Of a CSV file the types are guessed from its
first rows, so whether a column is drafted as a flag, an integer, a number or a text depends on cells: the draft is for
the data's owner, who settles each kind before anything is published. ``Draft.bounded_by_data`` reads cells and is NOT
private: what it says is for the data's owner alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from pyarrow import types

from sfumato.errors import SchemaError
from sfumato.tables import cells, declared, lists, patterns, sheet
from sfumato.tables.columns import (
    KINDS,
    NEEDED,
    Category,
    Column,
    Date,
    Flag,
    Integer,
    Real,
    Set,
    Vector,
)
from sfumato.tables.schema_file import toml_value

_HEAD = """\
# A draft from the names and types of the columns; it holds no value of the data.
# Fill in what is commented out from what you know: a questionnaire, a law, a data sheet. Never from the data: a bound
# taken from them is the value of their most extreme row, published without any protection.
# The types of a CSV file are guessed from its first rows. Check each kind against what you know: real, integer, flag,
# ordinal, category, date, datetime, vector, set, or id for a column that only labels the rows.
# A cell that may be missing wants a line such as: missing = 0, or: missing = "level" to keep that as information.
# scale = "bounds": a column counts in units of its range, and a line such as weight = 2 makes it count twice as much.
"""
_MANY = 5  # like-named columns of one kind that a draft describes together
_WIDEST = {
    "date": Date("date", date.min, date.max),
    "datetime": Date("time", datetime.fromisoformat("0001-01-01T00:00"), datetime.fromisoformat("9999-12-31T23:59")),
}


@dataclass(frozen=True, slots=True)
class DraftEntry:
    """One entry of a draft: a name or pattern, a kind, what the type tells (``known``), and the columns it is for."""

    name: str
    kind: str
    columns: tuple[str, ...]
    known: Mapping[str, Any] = field(default_factory=dict)

    @property
    def left(self) -> tuple[str, ...]:
        """The keys that are left to fill in."""
        return tuple(key for key in NEEDED.get(self.kind, ()) if key not in self.known)

    def values(self) -> dict[str, Any]:
        """The draft's entry as a schema file has it."""
        return {"name": self.name, "kind": self.kind, **self.known}


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A schema whose bounds and values are left to fill in; it prints as TOML, and ``fill`` makes it a schema.

    Guarantee: it depends on names and types alone. (With ``categories_from_data``, on categories too, and says so.)
    """

    entries: tuple[DraftEntry, ...]
    left_out: Mapping[str, str]  # columns with types that no kind reads
    from_data: bool
    _make: Callable[..., Any] = field(repr=False)

    @classmethod
    def of(
        cls, kinds: pa.Schema, make: Callable[..., Any], categories: Mapping[str, Sequence[Any]] | None = None
    ) -> "Draft":
        """The draft of a table with these names and types; ``make``: the class of schemas."""
        if not isinstance(kinds, pa.Schema):
            raise SchemaError("a draft is made from a pyarrow.Schema, which holds names and types but no values")
        listed = categories or {}
        single = {f.name: _entry(f, listed.get(f.name)) for f in kinds}
        single |= _adopted({f.name for f in kinds if types.is_null(f.type)}, single)
        left_out = {f.name: str(f.type) for f in kinds if single[f.name] is None}
        entries = [entry for entry in single.values() if entry is not None]
        return cls(tuple(_grouped(entries)), left_out, bool(listed), make)

    def fill(self, given: Mapping[str, Any] | None = None, /, **by_name: Any) -> Any:
        """The schema, once everything that is left is filled in by name, from what you know and never from the data.

        A value is (low, high) for numbers, dates and vectors, a list for categories and sets, a dict of keys as in a
        schema file, the name of a kind that needs nothing more (``"id"``, ``"flag"``), a column, or None to leave the
        column out. A name is one of the draft's entries, one of their columns, or a pattern that matches some of them.
        """
        told = {**(given or {}), **by_name}
        columns: list[Column] = []
        drafted = [(name, entry) for entry in self.entries for name in entry.columns]
        problems = [f"the draft has no column {key!r}" for key in told if not any(_means(key, *d) for d in drafted)]
        for name, entry in drafted:
            try:
                columns += _filled(patterns.exact(name), entry, _told_about(name, entry, told))
            except SchemaError as error:
                problems += declared.told(error)
        if problems:
            raise declared.gathered(list(dict.fromkeys(problems)))
        return self._make(tuple(columns), bounds_from_data=self.from_data)

    def to_toml(self) -> str:
        """The draft as TOML, which cannot be read as a schema before it is filled in."""
        head = [_HEAD + "bounds_from_data = true" if self.from_data else _HEAD.rstrip("\n"), 'scale = "bounds"\n']
        out = [
            f"# left out: {toml_value(name)}, whose type {toml_value(kind)[1:-1]} no kind of column is read from\n"
            for name, kind in self.left_out.items()
        ]
        return "\n".join([*head, *map(_toml, self.entries), *out])

    def rows(self) -> list[list[str]]:
        """The draft as the rows of a sheet, headers first."""
        settings = {"scale": "bounds"} | ({"bounds_from_data": True} if self.from_data else {})
        return sheet.rows_of(settings, [entry.values() for entry in self.entries])

    def write(self, path: str | Path) -> None:
        """Write the draft to a TOML file, or to a sheet (.csv, .xlsx)."""
        sheet.write(Path(path), self)

    def __str__(self) -> str:
        return self.to_toml()

    def bounded_by_data(self, blocks: Iterable[pa.RecordBatch]) -> Any:
        """The schema with bounds and values that are read off the data.

        NOT PRIVATE: its bounds are cells of the data, in the clear. It says so of itself (``bounds_from_data``), and so
        does the manifest of every release made with it.
        """
        kinds = {name: entry for entry in self.entries for name in entry.columns}
        seen: dict[str, set[Any]] = {name: set() for name in kinds}
        for block in blocks:
            for name, entry in kinds.items():
                seen[name] |= _seen(block.column(patterns.positions(block.schema.names, [name])[0]), entry.kind)
        columns = [_column_of(patterns.exact(name), entry, seen[name]) for name, entry in kinds.items()]
        return self._make(tuple(columns), bounds_from_data=True)


def draft(names_and_types: pa.Schema) -> str:
    """A draft of a schema in TOML, from names and types only; unreadable before bounds and values are filled in."""
    return Draft.of(names_and_types, tuple).to_toml()


# ---- names and types ------------------------------------------------------------------------------------------------


def arrow_types(table: Any) -> pa.Schema:
    """Names and types for a draft, of an Arrow table or schema, or of whatever gives one; no value is looked at."""
    if isinstance(table, pa.Schema):
        return table
    if isinstance(getattr(table, "schema", None), pa.Schema):
        return table.schema
    if hasattr(table, "__arrow_c_schema__"):
        return pa.schema(table)
    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table).schema
    raise SchemaError(f"a draft is made from an Arrow table or schema, got an object of type {type(table).__name__}")


def pandas_types(frame: Any) -> pa.Schema:
    """Names and types for a draft, of a pandas frame, from its dtypes alone; columns of objects count as texts."""
    if not hasattr(frame, "dtypes") or not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        raise SchemaError(f"a draft is made from a pandas frame, got an object of type {type(frame).__name__}")
    return pa.schema([(str(name), _pandas_type(frame.iloc[:0, i])) for i, name in enumerate(frame.columns)])


def _pandas_type(nothing: Any) -> pa.DataType:
    try:
        kind = pa.array(nothing, from_pandas=True).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.null()
    return pa.string() if types.is_null(kind) else kind


def pandas_categories(frame: Any) -> dict[str, list[Any]]:
    """The categories of a pandas frame's columns of that dtype, for a draft. NOT PRIVATE: they are facts about it."""
    kinds = {str(name): frame.dtypes.iloc[i] for i, name in enumerate(frame.columns)}
    return {name: list(kind.categories) for name, kind in kinds.items() if hasattr(kind, "categories")}


def drafted_kind(kind: pa.DataType) -> str | None:
    """The kind of column that a draft makes of an Arrow type; None if no kind is read from it."""
    if lists.is_list(kind):
        inner = kind.value_type
        return "vector" if cells.is_number(inner) else "set" if cells.is_text(inner) else None
    tests = {
        "flag": types.is_boolean,
        "integer": types.is_integer,
        "real": cells.is_number,
        "date": types.is_date,
        "datetime": types.is_timestamp,
        "category": lambda kind: types.is_dictionary(kind) or cells.is_text(kind),
    }
    return next((name for name, test in tests.items() if test(kind)), None)


def _entry(column: pa.Field, values: Sequence[Any] | None) -> DraftEntry | None:
    kind = drafted_kind(column.type)
    if kind is None:
        return None
    known: dict[str, Any] = {"size": column.type.list_size} if types.is_fixed_size_list(column.type) else {}
    known |= {} if values is None or kind != "category" else {"values": list(values)}
    return DraftEntry(patterns.escaped(patterns.exact(column.name)), kind, (column.name,), known)


def _adopted(empty: Iterable[str], drafted: Mapping[str, DraftEntry | None]) -> dict[str, DraftEntry | None]:
    """Entries of a draft for columns whose type is not known, as their cells are empty: those of like-named columns."""
    stems = {patterns.stem(name): entry for name, entry in drafted.items() if entry is not None}
    found = {name: stems.get(patterns.stem(name)) for name in empty if patterns.stem(name) is not None}
    return {
        name: None if like is None else replace(like, name=patterns.escaped(patterns.exact(name)), columns=(name,))
        for name, like in found.items()
    }


def _grouped(entries: Sequence[DraftEntry]) -> Iterable[DraftEntry]:
    """The entries of a draft, like-named ones of one kind together where their numbers follow each other."""
    alike: dict[Any, dict[str, DraftEntry]] = {}
    for entry in entries:
        alike.setdefault(_likeness(entry), {})[entry.columns[0]] = entry
    for group in alike.values():
        kind = "real" if any(entry.kind == "real" for entry in group.values()) else next(iter(group.values())).kind
        for name, names in patterns.runs(list(group)) if len(group) >= _MANY else [("", list(group))]:
            many = len(names) >= _MANY
            yield from (
                [replace(group[names[0]], name=name, kind=kind, columns=tuple(names))]
                if many
                else map(group.get, names)
            )


def _likeness(entry: DraftEntry) -> tuple[Any, ...]:
    """What like-named columns of a draft share; a whole number and a fraction may differ by one cell of a CSV file."""
    stem = patterns.stem(entry.columns[0])
    if stem is None or "values" in entry.known:
        return (entry.columns[0],)
    return stem, "real" if entry.kind == "integer" else entry.kind, tuple(entry.known.items())


# ---- filling in -----------------------------------------------------------------------------------------------------


def _toml(entry: DraftEntry) -> str:
    lines = ["[[columns]]"]
    if len(entry.columns) > 1:
        lines.append(f"# {len(entry.columns)} columns; one that differs gets an entry of its own")
    lines += [f"{key} = {toml_value(value)}" for key, value in entry.values().items()]
    return "\n".join([*lines, *(f"# {key} = {'[...]' * (key == 'values')}" for key in entry.left), ""])


def _means(key: str, name: str, entry: DraftEntry) -> bool:
    """Whether a name given to fill in a draft means a column of one of its entries."""
    if key in (name, entry.name):
        return True
    return patterns.is_pattern(key) and patterns.fits(key, name)


def _told_about(name: str, entry: DraftEntry, told: Mapping[str, Any]) -> Any:
    """What was told to fill in a column of a draft: under its name, its entry's, or the first pattern that fits."""
    keys = [key for key in (name, entry.name) if key in told]
    keys = keys or [key for key in told if _means(key, name, entry)]
    return told[keys[0]] if keys else {}


def _filled(name: str, entry: DraftEntry, value: Any) -> list[Column]:
    """The column that a draft's entry becomes by what was told about it; none where it is to be left out."""
    if value is None or isinstance(value, get_args(Column)):
        return [] if value is None else [replace(value, name=name) if len(entry.columns) > 1 else value]
    told = dict(value) if isinstance(value, Mapping) else _short(entry, value)
    kind = told.pop("kind", entry.kind)
    if kind not in KINDS:
        raise SchemaError(f"kind of column {name!r} must be one of {', '.join(KINDS)}, got {kind!r}")
    given = (dict(entry.known) if kind == entry.kind else {}) | told
    if odd := [key for key in given if key not in {f.name for f in fields(KINDS[kind])}]:
        raise SchemaError(f"column {name!r} of kind {kind} has no {odd[0]!r}")
    settled = {"values"} if given.get("buckets") else {"size"} if given.get("columns") else set()
    left = [key for key in NEEDED.get(kind, ()) if given.get(key) is None and key not in settled]
    if left:
        raise declared.gathered([str(declared.left_to_fill_in(name if told else entry.name, key)) for key in left])
    return [KINDS[kind](name=name, **given)]


def _short(entry: DraftEntry, value: Any) -> dict[str, Any]:
    """What was told about a draft's entry in short: a kind, (low, high), or a list of values."""
    if isinstance(value, str):
        return {"kind": value}
    if "low" in NEEDED.get(entry.kind, ()):
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise SchemaError(f"column {entry.name!r} of kind {entry.kind} is filled in with a pair (low, high)")
        return {"low": value[0], "high": value[1]}
    return {"values": value}


# ---- looking at the data --------------------------------------------------------------------------------------------


def _seen(column: Any, kind: str) -> set[Any]:
    """What a block adds to a drafted schema that is bounded by data: extremes, distinct values, lengths of lists."""
    if kind == "flag":
        return set()
    if kind == "category":
        return {value for value in column.unique().to_pylist() if value}
    if kind in ("vector", "set"):
        lengths, _, inner = lists.laid_out(column)
        longest = {("length", int(lengths.max()))} if lengths.size else set()
        return longest | {("cell", each) for each in _seen(inner, "real" if kind == "vector" else "category")}
    numbers = cells.read(column, _WIDEST.get(kind, Real("number", -1.0, 1.0))).astype(float)
    finite = numbers[np.isfinite(numbers)]
    return {float(finite.min()), float(finite.max())} if finite.size else set()


def _column_of(name: str, entry: DraftEntry, seen: set[Any]) -> Column:
    """The column of a drafted schema that is bounded by what was seen of the data."""
    kind = entry.kind
    inside = [each for what, each in seen if what == "cell"] if kind in ("vector", "set") else list(seen)
    if not inside and kind != "flag":
        raise SchemaError(f"the column {name!r} holds nothing to take bounds from: write its schema by hand")
    if kind in ("category", "set"):
        values = tuple(sorted(map(str, inside)))
        return Category(name, values) if kind == "category" else Set(name, values, _longest(seen))
    if kind == "flag":
        return Flag(name)
    low, high = min(inside), max(inside)
    if kind in _WIDEST:
        wide = _WIDEST[kind]
        return Date(name, *(wide.low + math.floor(end) * wide.length for end in (low, max(high, low + 1))))
    if kind == "integer":
        return Integer(name, math.floor(low), max(math.ceil(high), math.floor(low) + 1))
    high = high if high > low else low + 1.0
    return Real(name, low, high) if kind == "real" else Vector(name, _longest(seen), low, high)


def _longest(seen: set[Any]) -> int:
    return max(1, *(int(each) for what, each in seen if what == "length"))
