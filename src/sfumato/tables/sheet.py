"""A schema as a sheet: one line per column of the table, in CSV or Excel, to fill in with a spreadsheet program.

Headers are the keys of a schema file. Values are separated by ``|``, or stand in a file (``@cities.txt``); dates are in
ISO form. ``scale`` and the like, which concern the whole schema, stand in any line. A cell that begins with a quote is
a JSON string: so a name that a spreadsheet program would take for a formula stays a name.
"""

import csv
import importlib
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from sfumato import untrusted
from sfumato.errors import MissingDependency, SchemaError
from sfumato.tables import declared
from sfumato.tables.columns import KINDS, NEEDED
from sfumato.tables.schema_file import LARGEST, WrittenSchema, listed_values, text_of, unknown, written

SUFFIXES = (".csv", ".xlsx")
_FIRST = ("name", "kind", "low", "high", "values", "missing", "weight")
_FURTHER = ("step", "size", "bound", "columns", "whole", "most", "buckets")
_SETTINGS = ("scale", "bounds_from_data", "clip.norm", "clip.bound")
_HEADERS = (*_FIRST, *_FURTHER, *_SETTINGS)
_PART = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^|]*?)\s*(?:\||$)')
_FORMULA = ('"', "=", "+", "-", "@", "\t", "\r")  # what a quote, or a formula in a spreadsheet program, begins with
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 64


class TwoForms(Protocol):
    """A schema or a draft, which is written as TOML or as a sheet."""

    def to_toml(self) -> str:
        """The schema as TOML."""
        ...

    def rows(self) -> list[list[str]]:
        """The schema as the rows of a sheet, headers first."""
        ...


# ---- writing --------------------------------------------------------------------------------------------------------


def rows_of(settings: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A schema as the rows of a sheet, headers first; entries may lack what a draft leaves to fill in."""
    flat = {key: value for key, value in settings.items() if key != "clip"}
    flat |= {f"clip.{key}": value for key, value in settings.get("clip", {}).items()}
    odd = [key for key in flat if key not in _SETTINGS]
    if odd:
        raise SchemaError(f"a sheet has no place for {odd[0]!r}: write the schema as TOML")
    used = {key for entry in entries for key in (*entry, *NEEDED.get(entry["kind"], ()))}
    used |= {"buckets"} if any(entry["kind"] == "set" for entry in entries) else set()
    headers = [*_FIRST, *(key for key in _FURTHER if key in used), *(key for key in _SETTINGS if key in flat)]
    first = [{**entry, **(flat if place == 0 else {})} for place, entry in enumerate(entries)]
    return [headers, *([_cell(entry.get(key), key) for key in headers] for entry in first)]


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """The rows of a sheet as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def write(path: Path, made: TwoForms) -> None:
    """Write a schema or a draft to a file: a sheet in CSV or Excel by its suffix, else TOML."""
    if path.suffix.lower() != ".xlsx":
        text = csv_text(made.rows()) if path.suffix.lower() == ".csv" else made.to_toml()
        path.write_text(text, encoding="utf-8", newline="\n")
        return
    book = _openpyxl().Workbook()
    for row in made.rows():
        book.active.append([_number(cell) if _is_number(cell) else cell or None for cell in row])
    book.save(path)


def _cell(value: object, key: str) -> str:
    """A value in a sheet: what a spreadsheet program shows as it is, and ``_value`` reads back."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        like_numbers = key == "values" and any(isinstance(v, str) for v in value) and _are_whole(value)
        return "|".join(_text(v, quoted=like_numbers) if isinstance(v, str) else str(v) for v in value)
    return _text(value, quoted=key == "missing" and _is_number(value)) if isinstance(value, str) else repr(value)


def _are_whole(values: Sequence[object]) -> bool:
    return any(isinstance(v, int) for v in listed_values([str(v) for v in values]))


def _text(text: str, *, quoted: bool = False) -> str:
    plain = text and text == text.strip() and "|" not in text and not text.startswith(_FORMULA) and text.isprintable()
    return text if plain and not quoted else json.dumps(text, ensure_ascii=False)


# ---- reading --------------------------------------------------------------------------------------------------------


def read(path: Path) -> WrittenSchema:
    """The schema in a sheet; problems name columns and headers."""
    rows = _csv_rows(text_of(path)) if path.suffix.lower() == ".csv" else _excel_rows(path)
    filled = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    headers = [header.lower() for header in filled[0]] if filled else []
    if not {"name", "kind"} <= set(headers):
        raise SchemaError("a sheet begins with a line of headers, among them name and kind")
    headers = headers[: max(i for i, header in enumerate(headers, 1) if header)]
    problems = [*unknown(dict.fromkeys(headers), _HEADERS, "the headers"), *declared.repeated(headers, "header")]
    problems += [
        f"line {number} has more cells than there are headers"
        for number, row in enumerate(filled[1:], 2)
        if any(row[len(headers) :])
    ]
    if problems:
        raise declared.gathered(problems)
    lines = [dict(zip(headers, row, strict=False)) for row in filled[1:]]
    settings, disagreeing = _settings(lines)
    columns = [_entry({key: cell for key, cell in line.items() if cell}) for line in lines]
    found = written({**settings, "columns": columns}, exact=False, folder=path.parent)
    return WrittenSchema(found.columns, found.settings, (*disagreeing, *found.problems))


def _settings(lines: Sequence[Mapping[str, str]]) -> tuple[dict[str, Any], list[str]]:
    """What the lines of a sheet say of the whole schema, and complaints where they do not agree."""
    said = {key: list(dict.fromkeys(line[key] for line in lines if line.get(key))) for key in _SETTINGS}
    problems = [f"the lines of the sheet disagree on {key}" for key, cells in said.items() if len(cells) > 1]
    flat = {key: cells[0] for key, cells in said.items() if cells}
    clip = {key.removeprefix("clip."): _number(cell) for key, cell in flat.items() if key.startswith("clip.")}
    plain = {key: _truth(cell) for key, cell in flat.items() if not key.startswith("clip.")}
    return plain | ({"clip": clip} if clip else {}), problems


def _entry(line: Mapping[str, str]) -> dict[str, Any]:
    """A line of a sheet as an entry of a schema file."""
    kind = line.get("kind", "").lower()
    found: dict[str, Any] = {key: _value(kind, key, cell) for key, cell in line.items() if key not in _SETTINGS}
    if kind in ("category", "ordinal") and isinstance(found.get("missing"), str) and "values" in found:
        whole = {str(v): v for v in found["values"] if isinstance(v, int)} if isinstance(found["values"], list) else {}
        found["missing"] = whole.get(found["missing"], found["missing"])
    return found


def _value(kind: str, key: str, cell: str) -> Any:
    if key == "kind":
        return kind if kind in KINDS else cell
    if key in ("values", "columns"):
        return _listed(key, cell)
    if key == "name" or (key == "missing" and kind in ("category", "ordinal", "set")):
        return _unquoted(cell)
    if kind in ("date", "datetime") and key in ("low", "high", "missing"):
        return f"{cell}T00:00:00" if kind == "datetime" and re.fullmatch(r"\d{4}-\d\d-\d\d", cell) else cell
    return _number(cell) if _is_number(cell) else _truth(cell)


def _listed(key: str, cell: str) -> Any:
    """Several values of a sheet in one cell, or the pattern or file that stands for them."""
    parts = [found.group(1) for found in _PART.finditer(cell) if found.end() > found.start()]
    texts = [_unquoted(part) for part in parts]
    if key == "columns":
        return texts[0] if len(texts) == 1 else texts
    if len(parts) == 1 and parts[0].startswith("@"):
        return parts[0]
    return texts if any(part.startswith('"') for part in parts) else listed_values(texts)


def _unquoted(cell: str) -> str:
    if len(cell) > 1 and cell.startswith('"') and cell.endswith('"'):
        try:
            return str(json.loads(cell))
        except ValueError:
            return cell
    return cell


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", cell) is not None


def _number(cell: str) -> Any:
    return int(cell) if re.fullmatch(r"[+-]?[0-9]{1,18}", cell) else float(cell) if _is_number(cell) else cell


def _truth(cell: str) -> Any:
    return {"true": True, "false": False}.get(cell.lower(), cell)


def _csv_rows(text: str) -> list[list[str]]:
    """The rows of a sheet in CSV, separated by comma, semicolon or tab, whichever its first line has most of."""
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    try:
        return list(csv.reader(io.StringIO(text), delimiter=separator, strict=True))
    except csv.Error as error:
        raise SchemaError(f"not a sheet in CSV ({error}): long lists of values can stand in a file, @FILE") from None


def _excel_rows(path: Path) -> list[list[str]]:
    """The rows of the first sheet of an Excel workbook, as texts."""
    import zipfile  # noqa: PLC0415 - takes longer to load than the rest of this module

    openpyxl = _openpyxl()
    try:
        raw = untrusted.read(path, LARGEST)
        size = sum(part.file_size for part in zipfile.ZipFile(io.BytesIO(raw)).infolist())
        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=True) if size <= LARGEST else None
        rows = book and book.worksheets[0].iter_rows(max_row=_MOST_ROWS, max_col=_MOST_COLUMNS, values_only=True)
        found = rows and [[_excel_text(cell) for cell in row] for row in islice(rows, _MOST_ROWS)]
    except Exception:  # noqa: BLE001 - a stranger's file, and whatever openpyxl makes of it
        found = None
    if found is None:
        raise SchemaError("there is no such schema file, or it is not an Excel workbook of at most 64 MiB")
    return found


def _openpyxl() -> Any:
    """What reads and writes a sheet in Excel's form, which is an extra."""
    try:
        return importlib.import_module("openpyxl")
    except ImportError:
        raise MissingDependency("Excel files need openpyxl: pip install 'sfumato[excel]'") from None


def _excel_text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime):
        return (cell.date() if cell.time() == time() else cell).isoformat()
    if isinstance(cell, date):
        return cell.isoformat()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1 << 53 else str(cell)
