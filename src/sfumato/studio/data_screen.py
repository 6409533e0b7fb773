"""The Data screen: tables of the folder, and what is declared about their columns.

A draft comes from names and types alone. Cells are shown only when the owner asks for them, by a POST, and never in an
error.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.errors import SchemaError
from sfumato.files.open_table import open_table
from sfumato.studio.folder import NotHereError, parse_schema, schema_text
from sfumato.studio.form_fields import Form
from sfumato.studio.pages import page, reading, writing
from sfumato.studio.shared_state import Studio
from sfumato.tables.columns import KINDS, Category, Column
from sfumato.tables.schema import Schema
from sfumato.tables.schema_draft import draft

_KEYS = ("low", "high", "missing", "weight", "values")
_FIELDS = {
    "real": ("low", "high", "missing", "weight"),
    "flag": ("missing", "weight"),
    "category": ("values", "missing", "weight"),
    "id": (),
}
_NEEDED = {"real": ("low", "high"), "category": ("values",)}
_MOST_LINES = 200  # columns of a form; wider schemas are edited as text
_MOST_DRAFTED = 2000  # columns of a draft
_VALUE = re.compile(r"|[+-]?[0-9.,]+(e[+-]?[0-9]+)?|[0-9]{1,4}[-/.][0-9]{1,2}[-/.].*|\S+@\S+|true|false", re.IGNORECASE)
_MOST_SHOWN, _LONGEST_CELL = 10, 60


def routes(studio: Studio) -> list[Route]:
    """The routes of the Data screen."""
    return [
        reading(studio, "/data", tables),
        reading(studio, "/data/{name}", table),
        writing(studio, "/data/{name}/form", save_form),
        writing(studio, "/data/{name}/text", save_text),
        writing(studio, "/data/{name}/rows", show_rows),
    ]


# ---- a schema as the lines of a form --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FormRow:
    """One column in the Data screen's form: texts, and what is wrong with them. ``kind`` is empty if it is left out."""

    name: str
    kind: str
    texts: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)


def lines_of(names_and_types: pa.Schema, schema: Schema | None) -> list[FormRow]:
    """The rows of the Data screen's form: the columns of a table, as its schema or else a draft describes them."""
    if schema is None:
        return [FormRow(name, _drafted_kind(names_and_types.field(i))) for i, name in enumerate(names_and_types.names)]
    described = {column.name: column for column in schema.columns}
    inside = [_line(described[n]) if n in described else FormRow(n, "") for n in names_and_types.names]
    absent = [column for name, column in described.items() if name not in names_and_types.names]
    return inside + [replace(_line(c), wrong={"kind": "the data lack this column"}) for c in absent]


def headless(names: Sequence[str]) -> bool:
    """For the Data screen: whether a file may lack a header. A column's name looks like a value, or is there twice."""
    return len(set(names)) < len(names) or any(_VALUE.fullmatch(name.strip()) for name in names)


def _drafted_kind(of: pa.Field) -> str:
    text = draft(pa.schema([of]))
    return next((kind for kind in KINDS if f'\nkind = "{kind}"\n' in text), "")


def _line(column: Column) -> FormRow:
    texts = {key: _text(getattr(column, key, None)) for key in _KEYS}
    return FormRow(column.name, column.kind, texts | ({"weight": ""} if texts["weight"] == "1.0" else {}))


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "\n".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def lines_from(form: Form) -> list[FormRow]:
    """The rows that the Data screen's form sends, one for each column."""
    count = form.get("lines", "")
    numbers = range(min(int(count), _MOST_LINES) if re.fullmatch("[0-9]{1,9}", count) else 0)
    return [
        FormRow(
            form.get(f"{i}.name", ""), form.get(f"{i}.kind", ""), {key: form.get(f"{i}.{key}", "") for key in _KEYS}
        )
        for i in numbers
    ]


def completed(lines: list[FormRow], before: Schema | None) -> tuple[list[FormRow], list[Column]]:
    """The columns that rows of the Data screen's form describe, and the rows with what is wrong beside each field."""
    known = {c.name: c for c in before.columns} if before is not None else {}
    checked, columns = [], []
    for line in lines:
        empty = [key for key in _NEEDED.get(line.kind, ()) if not line.texts[key].strip()]
        if empty:
            checked.append(replace(line, wrong=dict.fromkeys(empty, "to fill in")))
            continue
        try:
            columns += [] if line.kind == "" else [_column(line, known.get(line.name))]
            checked.append(line)
        except SchemaError as error:
            checked.append(replace(line, wrong=_beside(line, str(error))))
    return checked, columns


def _beside(line: FormRow, message: str) -> dict[str, str]:
    """A complaint about a column in the Data screen's form, under the field that it names."""
    key = message.split(" ", maxsplit=1)[0].strip(",")
    place = key if key in _FIELDS.get(line.kind, ()) else "kind"
    return {place: message.removeprefix(f"{place} of column {line.name!r} ")}


def _column(line: FormRow, before: Column | None) -> Column:
    if line.kind not in KINDS:
        raise SchemaError(f"kind of column {line.name!r} must be one of {', '.join(KINDS)}")
    given = {key: _value(line, key, before) for key in _FIELDS[line.kind] if line.texts[key].strip()}
    column: Column = KINDS[line.kind](name=line.name, **given)
    return column


def _value(line: FormRow, key: str, before: Column | None) -> Any:
    text = line.texts[key].strip()
    if line.kind == "category" and key != "weight":
        whole = {str(v): v for v in before.values} if isinstance(before, Category) else {}  # numbers stay numbers
        listed = [whole.get(part.strip(), part.strip()) for part in text.splitlines() if part.strip()]
        return listed if key == "values" else listed[0]
    if line.kind == "flag" and key == "missing":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return float(text)
    except ValueError:
        raise SchemaError(f"{key} of column {line.name!r} must be a number") from None


# ---- pages ----------------------------------------------------------------------------------------------------------


def tables(studio: Studio, request: Request) -> Response:
    """The Data screen: the tables in the folder."""
    del request
    return page(studio, "data_list.html", here="data", tables=studio.folder.tables(), unnamed=studio.folder.unnamed())


def table(studio: Studio, request: Request) -> Response:
    """The Data screen of one table: its columns and its schema."""
    return _table(studio, request.path_params["name"], saved="saved" in request.query_params)


def save_form(studio: Studio, request: Request, form: Form) -> Response:
    """Write the schema that the Data screen's form describes, or say beside each field what is wrong."""
    name = request.path_params["name"]
    _, before = _saved(studio, name)
    lines, columns = completed(lines_from(form), before)
    if any(line.wrong for line in lines):
        return _table(studio, name, status=422, lines=lines, wrong="Some fields are not complete yet.")
    try:
        norm = form.get("norm") or None
        bound = None if norm is None else _bound(form.get("norm_bound", ""))
        schema = Schema(tuple(columns), norm, bound, before is not None and before.bounds_from_data)  # type: ignore[arg-type]
    except SchemaError as error:
        return _table(studio, name, status=422, lines=lines, wrong=str(error))
    return _write(studio, name, schema.to_toml())


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SchemaError("bound of the clip must be a positive finite number") from None


def save_text(studio: Studio, request: Request, form: Form) -> Response:
    """Write the schema that was typed into the Data screen as text, or say what is wrong with it."""
    name, text = request.path_params["name"], form.get("text", "").replace("\r\n", "\n")
    try:
        parse_schema(text)
    except SchemaError as error:
        return _table(studio, name, status=422, text=text, wrong_text=str(error))
    return _write(studio, name, text)


def show_rows(studio: Studio, request: Request, form: Form) -> Response:
    """A few raw rows on the Data screen, since the owner asked for them."""
    name = request.path_params["name"]
    if form.get("understood") != "yes":
        return _table(studio, name, status=422, wrong_rows="Say first that you want to see raw values.")
    opened = open_table(studio.folder.table(name))
    names = list(dict.fromkeys(opened.schema.names))[:_MOST_LINES]
    block = next(opened.blocks(names, _MOST_SHOWN), None)
    columns = [] if block is None else block.columns
    return _table(studio, name, rows=[list(map(_cell, row)) for row in zip(*columns, strict=True)], row_names=names)


def _cell(cell: pa.Scalar) -> str:
    """A raw cell on the Data screen in words, or that there are none: Arrow holds dates that Python does not have."""
    try:
        value = cell.as_py()
    except (ArithmeticError, ValueError, pa.ArrowException):
        return "(cannot be shown)"
    return "" if value is None else str(value)[:_LONGEST_CELL]


def _write(studio: Studio, name: str, text: str) -> Response:
    studio.folder.write_schema(name, text)
    return RedirectResponse(f"/data/{quote(name, safe='')}?saved", 303)


def _saved(studio: Studio, name: str) -> tuple[str | None, Schema | None]:
    """The text of a table's schema for the Data screen, and the schema if it can be read."""
    try:
        text = schema_text(studio.folder.schema(name))
    except (NotHereError, SchemaError):
        return None, None
    try:
        return text, parse_schema(text)
    except SchemaError:
        return text, None


def _table(studio: Studio, name: str, status: int = 200, **facts: Any) -> Response:
    opened = open_table(studio.folder.table(name))
    text, schema = _saved(studio, name)
    width, described = len(opened.schema.names), 0 if schema is None else len(schema.columns)
    shared = {
        "name": name,
        "size": studio.folder.table(name).stat().st_size,
        "types": {f.name: str(f.type) for f in itertools.islice(opened.schema, _MOST_LINES)},
        "width": width,
        "headless": name.lower().endswith(".csv") and headless(opened.schema.names),
        "schema": schema,
        "kinds": {"real": "number", "flag": "yes or no", "category": "category", "id": "row label"},
        "lines": lines_of(opened.schema, schema) if max(width, described) <= _MOST_LINES else [],
        "text": draft(pa.schema(itertools.islice(opened.schema, _MOST_DRAFTED))) if text is None else text,
        "drafted": _MOST_DRAFTED if text is None and width > _MOST_DRAFTED else None,
        "wrong": "" if text is None or schema is not None else "The schema beside the table cannot be read; see below.",
        "wrong_text": "",
        "wrong_rows": "",
        "saved": False,
        "rows": None,
        "row_names": [],
    }
    return page(studio, "data.html", status, here="data", **(shared | facts))
