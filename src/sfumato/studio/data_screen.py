"""The Data screen: tables of the folder, and what is declared about their columns.

A draft comes from names and types alone. Cells are shown only when the owner asks for them, by a POST, and never in an
error.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato import defaults
from sfumato.errors import SchemaError
from sfumato.files.open_table import open_table
from sfumato.report.html import Markup, join, tag
from sfumato.studio import schema_form
from sfumato.studio.frame.pages import page, reading, writing
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import NotHereError, parse_schema, schema_text
from sfumato.studio.inputs.form_fields import Form
from sfumato.studio.inputs.page_words import said
from sfumato.studio.schema_form import KIND_WORDS, MOST_LINES, FormRow, completed, lines_from, lines_of
from sfumato.tables.columns import Column
from sfumato.tables.schema import Schema
from sfumato.tables.schema_draft import draft

_MOST_DRAFTED = 2000  # columns of a draft
_MOST_NAMED = 20  # columns that a complaint about many of them names
_CLEAR = 3  # standard deviations from which a noisy count is told
_MOST_ACROSS = 200  # columns of raw rows
SETTINGS = ("scale", "norm", "norm_bound", "epsilon", "delta", "neighbours", "dataset", "convert")
_ORIGIN = ("bounds_from_data", "learned")  # where bounds come from
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


def headless(names: Sequence[str]) -> bool:
    """For the Data screen: whether a file may lack a header. A column's name looks like a value, or is there twice."""
    return len(set(names)) < len(names) or any(_VALUE.fullmatch(name.strip()) for name in names)


def tables(studio: Studio, request: Request) -> Response:
    """The Data screen: the tables in the folder."""
    del request
    return page(studio, "data_list.html", here="data", tables=studio.folder.tables(), unnamed=studio.folder.unnamed())


def table(studio: Studio, request: Request) -> Response:
    """The Data screen of one table: its columns and its schema."""
    return table_page(
        studio, request.path_params["name"], **{k: k in request.query_params for k in ("saved", "learned")}
    )


def save_form(studio: Studio, request: Request, form: Form) -> Response:
    """Write the schema that the Data screen's form describes, or say beside each field what is wrong."""
    name = request.path_params["name"]
    before = saved_schema(studio, name, open_table(studio.folder.table(name)).schema.names)
    lines, columns = completed(lines_from(form), before)
    facts: dict[str, Any] = {"lines": lines, "settings": {key: form.get(key, "") for key in SETTINGS}}
    if any(line.wrong for line in lines):
        return table_page(studio, name, status=422, **facts)
    try:
        schema = _described(columns, form, before)
    except SchemaError as error:
        return table_page(studio, name, status=422, wrong=said(error), **facts)
    return _write(studio, name, schema.to_toml())


def _described(columns: Sequence[Column], form: Form, before: Schema | None) -> Schema:
    """The schema that the Data screen's form describes; what the one before it says of its origin is kept."""
    made = Schema(tuple(columns))
    origin = {} if before is None else {key: getattr(before, key) for key in _ORIGIN if hasattr(before, key)}
    return with_settings(replace(made, **origin), form)


def with_settings(schema: Schema, settings: Mapping[str, str]) -> Schema:
    """A schema with what the Data screen's form says of it as a whole."""
    norm, scale = settings.get("norm") or None, settings.get("scale") or "bounds"
    bound = None if norm is None else _bound(settings.get("norm_bound", ""))
    return replace(schema, norm=norm, norm_bound=bound, scale=scale)  # type: ignore[arg-type]


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
        return table_page(studio, name, status=422, text=text, wrong_text=said(error))
    return _write(studio, name, text)


def show_rows(studio: Studio, request: Request, form: Form) -> Response:
    """A few raw rows on the Data screen, since the owner asked for them."""
    name = request.path_params["name"]
    if form.get("understood") != "yes":
        return table_page(studio, name, status=422, wrong_rows="Say first that you want to see raw values.")
    opened = open_table(studio.folder.table(name))
    names = list(dict.fromkeys(opened.schema.names))[:_MOST_ACROSS]
    block = next(opened.blocks(names, _MOST_SHOWN), None)
    columns = [] if block is None else block.columns
    return table_page(studio, name, rows=[list(map(_cell, row)) for row in zip(*columns, strict=True)], row_names=names)


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


def saved_schema(studio: Studio, name: str, names: Sequence[str]) -> Schema | None:
    """The schema beside a table with these columns on the Data screen, if there is one that can be read."""
    return _saved(studio, name, names)[1]


def _saved(studio: Studio, name: str, names: Sequence[str]) -> tuple[str | None, Schema | None, str]:
    """The text of a table's schema for the Data screen, the schema if it can be read, and else what is wrong."""
    try:
        text = schema_text(studio.folder.schema(name))
    except (NotHereError, SchemaError):
        return None, None, ""
    try:
        return text, parse_schema(text).matched(names), ""
    except SchemaError as error:
        return text, None, f"The schema beside the table cannot be read: {said(error)}"


def table_page(studio: Studio, name: str, status: int = 200, **facts: Any) -> Response:
    """The page of one table on the Data screen, with what is to be shown otherwise than its files say."""
    opened = open_table(studio.folder.table(name))
    text, schema, unread = _saved(studio, name, opened.schema.names)
    width, described = len(opened.schema.names), 0 if schema is None else len(schema.columns)
    shared: dict[str, Any] = {
        "name": name,
        "size": studio.folder.table(name).stat().st_size,
        "types": {f.name: str(f.type) for f in itertools.islice(opened.schema, MOST_LINES)},
        "width": width,
        "headless": name.lower().endswith(".csv") and headless(opened.schema.names),
        "schema": schema,
        "lines": lines_of(opened.schema, schema) if max(width, described) <= MOST_LINES else [],
        "settings": _settings(schema),
        "text": draft(pa.schema(itertools.islice(opened.schema, _MOST_DRAFTED))) if text is None else text,
        "drafted": _MOST_DRAFTED if text is None and width > _MOST_DRAFTED else None,
        "wrong": unread,
        "wrong_text": "",
        "wrong_rows": "",
        "saved": False,
        "learned": False,
        "origin": _origin(schema),
        "refused": False,
        "datasets": studio.payers(name),
        "place": studio.place,
        "rows": None,
        "row_names": [],
    }
    shown = shared | facts
    bad = [(i, line) for i, line in enumerate(shown["lines"]) if line.wrong]
    return page(studio, "data.html", status, here="data", bad=bad, unsaved="lines" in facts, **_form_facts(), **shown)


def _settings(schema: Schema | None) -> dict[str, str]:
    """The fields of the Data screen's form that are about the schema as a whole, or about learning it."""
    clipped = schema is not None and schema.norm is not None
    norm, bound = (schema.norm, schema.norm_bound) if schema is not None and clipped else ("", "")
    about = {"scale": schema_form.scale_in(schema), "norm": str(norm), "norm_bound": str(bound)}
    return dict.fromkeys(SETTINGS, "") | about | defaults.SUGGESTED_LEARNING


def _origin(schema: Schema | None) -> dict[str, Any] | None:
    """What the Data screen says of a schema that was learned: its price, and columns of which many cells are cut."""
    learned = getattr(schema, "learned", None)
    if learned is None:
        return None
    counts = {**learned.cut, **learned.unlisted}
    cut = [(name, count) for name, count in counts.items() if count > _CLEAR * learned.noise.get(name, 0.0)]
    cut.sort(key=lambda found: -found[1])
    return {"epsilon": learned.epsilon, "delta": learned.delta, "cut": cut[:_MOST_NAMED], "of": len(cut)}


def _form_facts() -> dict[str, Any]:
    """What the Data screen's form says of every line: the same whatever the table."""
    words = KIND_WORDS | {"": "leave it out"}
    return {
        "kinds": words,
        "options": {kind: _options(words, kind) for kind in (*words, "*")},
        "blank": FormRow("", ""),
        "pieces": schema_form.PIECES,
        "fields_of": schema_form.FIELDS | {"": ()},
        "together": schema_form.TOGETHER,
        "needed": schema_form.NEEDED,
        "listed": schema_form.LISTED,
        "hints": schema_form.HINTS,
        "most_named": _MOST_NAMED,
    }


def _options(words: Mapping[str, str], chosen: str) -> Markup:
    return join(*(tag("option", text, value=kind, selected=kind == chosen) for kind, text in words.items()))
