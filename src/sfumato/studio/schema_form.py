"""The form of a schema: one line for each column, with the fields that its kind has, and what is wrong with them.

Lines are made from names, types and what is declared; no cell enters them.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from sfumato import defaults
from sfumato.errors import SchemaError
from sfumato.studio.inputs.form_fields import Form
from sfumato.tables.columns import KINDS, Column, source_names
from sfumato.tables.declared import LEVEL
from sfumato.tables.encoding import of_one_range
from sfumato.tables.patterns import exact
from sfumato.tables.schema import Schema
from sfumato.tables.schema_draft import draft

MOST_LINES = 2_000  # columns of a form; wider schemas are edited as text
KIND_WORDS = {
    "real": "number",
    "integer": "whole number",
    "flag": "yes or no",
    "ordinal": "ordered values",
    "category": "category",
    "date": "date",
    "datetime": "date and time",
    "vector": "vector",
    "set": "set of items",
    "id": "row label",
}
PIECES = {  # of a line: the short label, and what is read aloud before the column's name
    "low": ("from", "Low of"),
    "high": ("to", "High of"),
    "values": ("values, one per line", "Values of"),
    "step": ("step", "Step of"),
    "size": ("numbers", "Size of"),
    "columns": ("or columns, one per line", "Columns of"),
    "bound": ("length at most", "Largest length of"),
    "whole": ("protected as", "Protection of"),
    "buckets": ("or buckets", "Buckets of"),
    "most": ("at most", "Most items of"),
    "missing": ("if missing", "Missing value of"),
    "weight": ("weight", "Weight of"),
}
TOGETHER = {  # what many columns can be given alike
    "low": "Low",
    "high": "High",
    "step": "Step",
    "size": "Numbers in each",
    "bound": "Length at most",
    "buckets": "Buckets",
    "most": "Items at most",
    "missing": "If missing",
    "weight": "Weight",
    "values": "Values, one per line",
}
LISTED = ("values", "columns")  # texts of several lines
FIELDS = {kind: tuple(key for key in PIECES if key in {f.name for f in fields(KINDS[kind])}) for kind in KINDS}
NEEDED = {
    **dict.fromkeys(("real", "integer", "date", "datetime"), ("low", "high")),
    **dict.fromkeys(("ordinal", "category"), ("values",)),
    "vector": ("low", "high", "size"),
    "set": ("values", "most"),
}
_INSTEAD = {"size": "columns", "values": "buckets"}  # which of a vector or a set may be given instead
HINTS: Mapping[str, Mapping[str, str]] = {  # what an empty field shows, by key and kind
    "low": {"date": "1950-01-31", "datetime": "1950-01-31 12:00"},
    "high": {"date": "2030-12-31", "datetime": "2030-12-31 12:00"},
    "step": {"date": "1 day", "datetime": "1 second"},
    "missing": {
        **dict.fromkeys(("real", "integer", "date", "datetime"), "the low end"),
        "flag": "no",
        "ordinal": "the first",
        "category": "no value",
    },
    "weight": dict.fromkeys(KINDS, "1"),
    "bound": {"vector": "any"},
}
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class FormRow:
    """One column in the form of a schema: texts, and what is wrong with them. ``kind`` is empty if it is left out."""

    name: str
    kind: str
    texts: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)


def lines_of(names_and_types: pa.Schema, schema: Schema | None) -> list[FormRow]:
    """The lines of a schema's form: the columns of a table, as its schema or else a draft describes them.

    A vector that is read from several columns of the table stands in place of the first of them.
    """
    names = names_and_types.names
    if schema is None:
        return [FormRow(name, _drafted_kind(names_and_types.field(i))) for i, name in enumerate(names)]
    inside, here = set(names), {source: column for column in schema.columns for source in source_names(column)}
    found = {column.name: column for column in schema.columns if inside.issuperset(source_names(column))}
    lines, seen = [], set[str]()
    for name in names:
        column = here.get(name)
        if column is None:
            lines.append(FormRow(name, ""))
        elif column.name in found and not (column.name in seen and len(source_names(column)) > 1):
            lines.append(_line(column))
            seen.add(column.name)
    absent = [column for column in schema.columns if column.name not in found]
    return lines + [replace(_line(c), wrong={"kind": "the data lack this column"}) for c in absent]


def _drafted_kind(of: pa.Field) -> str:
    text = draft(pa.schema([of]))
    return next((kind for kind in KINDS if f'\nkind = "{kind}"\n' in text), "")


def _line(column: Column) -> FormRow:
    usual = {f.name: f.default for f in fields(column)}
    given = {key: getattr(column, key) for key in FIELDS[column.kind]}
    named = {"size"} if given.get("columns") else set()  # it follows from the names
    texts = {key: "" if value == usual[key] or key in named else _text(value) for key, value in given.items()}
    return FormRow(column.name, column.kind, texts)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "\n".join(map(str, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime) and not (value.second or value.microsecond):
        return value.isoformat(sep=" ", timespec="minutes")
    return str(value).lower() if isinstance(value, bool) else str(value)


def lines_from(form: Form) -> list[FormRow]:
    """The lines that a schema's form sends, one for each column."""
    count = form.get("lines", "")
    numbers = range(min(int(count), MOST_LINES) if re.fullmatch("[0-9]{1,9}", count) else 0)
    return [
        FormRow(
            form.get(f"{i}.name", ""), form.get(f"{i}.kind", ""), {key: form.get(f"{i}.{key}", "") for key in PIECES}
        )
        for i in numbers
    ]


def completed(lines: Sequence[FormRow], before: Schema | None) -> tuple[list[FormRow], list[Column]]:
    """The columns that the lines of a schema's form describe, and all lines with what is wrong beside each field."""
    known = {c.name: c for c in before.columns} if before is not None else {}
    checked: list[FormRow] = []
    columns: list[Column] = []
    for line in lines:
        empty = [key for key in NEEDED.get(line.kind, ()) if not _given(line, key)]
        if empty:
            checked.append(replace(line, wrong=dict.fromkeys(empty, "to fill in")))
            continue
        try:
            columns += [] if line.kind == "" else [_column(line, known.get(line.name))]
            checked.append(line)
        except SchemaError as error:
            checked.append(replace(line, wrong=_beside(line, str(error))))
    return _together(checked), columns


def _given(line: FormRow, key: str) -> bool:
    keys = [key, _INSTEAD[key]] if key in _INSTEAD and _INSTEAD[key] in FIELDS[line.kind] else [key]
    return any(line.texts.get(each, "").strip() for each in keys)


def _together(lines: list[FormRow]) -> list[FormRow]:
    """The lines of a schema's form, with what is wrong between them: a name that comes twice, a second row label."""
    used = Counter(line.name for line in lines if line.kind)
    labels = sum(line.kind == "id" for line in lines)
    found = []
    for line in lines:
        twice = "this name is there more than once: leave it out, or rename it in the file"
        told = twice if line.kind and used[line.name] > 1 else ""
        told = told or ("only one column may be the row label" if line.kind == "id" and labels > 1 else "")
        found.append(replace(line, wrong={"kind": told, **line.wrong}) if told else line)
    return found


def _beside(line: FormRow, message: str) -> dict[str, str]:
    """A complaint about a column in a schema's form, under the field that it names."""
    key = message.split(" ", maxsplit=1)[0].strip(",")
    place = key if key in FIELDS.get(line.kind, ()) else "kind"
    return {place: message.removeprefix(f"{place} of column {line.name!r} ")}


def _column(line: FormRow, before: Column | None) -> Column:
    if line.kind not in KINDS:
        raise SchemaError(f"kind of column {line.name!r} must be one of {', '.join(KIND_WORDS.values())}")
    given = {key: _value(line, key, before) for key in FIELDS[line.kind] if line.texts.get(key, "").strip()}
    column: Column = KINDS[line.kind](name=exact(line.name), **given)
    if column.kind != line.kind:
        raise SchemaError(f"low of column {line.name!r} must be a date without a time")
    return column


def _value(line: FormRow, key: str, before: Column | None) -> Any:
    """What a field of a schema's form stands for; the column's own checks follow."""
    text = line.texts[key].strip()
    if key == "columns":
        return [exact(name) for name in _parts(text)]
    if "values" in FIELDS[line.kind] and key in ("values", "missing"):
        whole = {str(v): v for v in getattr(before, "values", None) or ()}  # numbers stay numbers
        listed = [whole.get(part, part) for part in _parts(text)]
        return listed if key == "values" else listed[0]
    if key == "missing" and text.lower() == LEVEL:
        return LEVEL
    if key == "whole" or (key, line.kind) == ("missing", "flag"):
        return _TRUTHS.get(text.lower(), text)
    if line.kind in ("date", "datetime") and key in ("low", "high", "missing"):
        return _moment(text, line.kind)
    try:
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else float(text)
    except ValueError:
        raise SchemaError(f"{key} of column {line.name!r} must be a number") from None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.splitlines() if part.strip()]


def _moment(text: str, kind: str) -> str:
    """A date in a schema's form as a column reads it: one with times, where it is given without, is that midnight."""
    if kind == "date":
        return text
    try:
        return f"{date.fromisoformat(text)}T00:00:00"
    except ValueError:
        return text


def scale_in(schema: Schema | None) -> str:
    """The scale that a schema's form shows: where all columns are alike it plays no part, and new ones get the usual.

    Else a column of another range that is added later would count in raw units unasked.
    """
    return defaults.SCALE if schema is None or of_one_range(schema.data_columns) else str(schema.scale)
