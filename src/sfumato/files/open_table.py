"""Tables in, blocks of rows out: CSV, Parquet, Arrow, Excel, standard input, and objects in memory.

Files are streamed, so memory does not grow with the number of rows. No error quotes a cell.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError, SchemaError
from sfumato.files import csv_files
from sfumato.files.arrow_files import ArrowFile, kept
from sfumato.files.content import CODECS, Content
from sfumato.files.dialect import Dialect
from sfumato.files.excel_files import ExcelSheet
from sfumato.files.in_memory import open_arrow, open_matrix, open_pandas
from sfumato.files.parquet_files import Part, files_of
from sfumato.files.source import Batches, Source, attempt
from sfumato.files.table_file import StandardInput, TableFile
from sfumato.tables.schema import Schema

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_ARROW = (".arrow", ".feather", ".ipc")
_EXCEL = (".xlsx", ".xlsm")
_KNOWN = (
    "a table is read from CSV (.csv or .tsv, also with .gz or .zst), Parquet (.parquet, or a folder of such files), "
    "Arrow (.arrow, .feather, .ipc) or Excel (.xlsx)"
)


def open_table(data: Any, schema: Schema | None = None) -> Source:
    """Open a table: a path, a ``TableFile``, standard input or an object in memory.

    Paths: CSV (.csv, .tsv; packed: .csv.gz, .csv.zst), Parquet, also a folder of it, Arrow (.arrow, .feather, .ipc) and
    Excel (.xlsx). In memory: pyarrow tables and batches, pandas and polars frames, two-dimensional NumPy arrays, SciPy
    sparse matrices, and whatever has ``__arrow_c_stream__``, such as a DuckDB relation, which is asked for once. The
    columns of arrays and matrices are those of the schema in order, without its id; c0, c1, ... without a schema. Of a
    CSV file a schema says which cells to read as numbers.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, (str, Path, TableFile, StandardInput)):
        return _open_file(data, schema)
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return open_arrow(data, "arrow table")
    if "pandas" in sys.modules and isinstance(data, sys.modules["pandas"].DataFrame):
        return open_pandas(data, schema)
    if isinstance(data, np.ndarray) or (hasattr(data, "tocsr") and hasattr(data, "shape")):
        return open_matrix(data, schema)
    if hasattr(data, "__arrow_c_stream__"):
        return _open_stream(data)
    raise SchemaError(
        "data must be a path, an Arrow, pandas or polars table, an object with __arrow_c_stream__, a NumPy array or a "
        f"SciPy sparse matrix, got an object of type {type(data).__name__}"
    )


# ---- streams of Arrow -----------------------------------------------------------------------------------------------


def _open_stream(data: Any) -> Source:
    """A source of an object that hands out a stream. It is asked for once: a query may answer otherwise again."""
    name = f"{type(data).__module__.partition('.')[0].lstrip('_')} {type(data).__name__}"
    wide = _wide_columns(data)
    complaint = f"{name} cannot be converted to an Arrow table"

    def table() -> ArrowFile | pa.Table:
        plain = data.cast(dict.fromkeys(wide, str)) if wide else data
        in_memory = name == "polars DataFrame"
        return pa.table(plain) if in_memory else kept(pa.RecordBatchReader.from_stream(plain), name)

    found = attempt(table, complaint, (Exception,))  # of whatever library; its words may quote cells
    opened = open_arrow(found, name) if isinstance(found, pa.Table) else _of_arrow_file(found, name)
    return replace(opened, untyped=wide)


def _wide_columns(data: Any) -> frozenset[str]:
    """Columns of a polars source whose whole numbers Arrow has no type for; one large cell is enough to make one."""
    kinds = getattr(data, "schema", None) if type(data).__module__.startswith("polars.") else None
    return frozenset(name for name, kind in (kinds or {}).items() if str(kind) in ("Int128", "UInt128"))


# ---- files ----------------------------------------------------------------------------------------------------------


def _open_file(place: str | Path | TableFile | StandardInput, schema: Schema | None) -> Source:
    if isinstance(place, StandardInput):
        return _open_input(place, schema)
    if isinstance(place, TableFile):
        return _open_path(Path(place.path), schema, place.dialect)
    return _open_path(Path(place), schema, Dialect())


def _open_path(path: Path, schema: Schema | None, dialect: Dialect) -> Source:
    path = path.absolute()  # workers may have another working directory
    if not path.exists():
        raise SchemaError(f"{path}: no such file")
    if not path.is_dir() and not path.is_file():  # a pipe or a device, which would be read more than once, or for ever
        raise SchemaError(f"{path}: not an ordinary file, so no table is read from it: use - for standard input")
    codec = CODECS.get(path.suffix.lower())
    suffix = (path.with_suffix("") if codec else path).suffix.lower()
    content = Content.of(path)
    if path.is_dir() or (suffix == ".parquet" and not codec):
        _check_no_text(dialect, path)
        folder = path.is_dir()
        return _open_parquet(
            files_of(path) if folder else [path], f"parquet {'folder' if folder else 'file'} {path.name}"
        )
    if suffix in _ARROW and not codec:
        _check_no_text(dialect, path)
        return _open_arrow_file(content, f"arrow file {path.name}")
    if suffix in _EXCEL and not codec:
        _check_no_text(dialect, path)
        return _open_excel(content, f"excel file {path.name}")
    if suffix in _SEPARATORS or dialect.separator is not None:
        unpacked = attempt(lambda: content.unpacked(codec), f"{path}: not a file that can be unpacked")
        return _open_csv(unpacked, dialect, _SEPARATORS.get(suffix, ","), schema, f"csv file {path.name}")
    raise SchemaError(f"{path}: {_KNOWN}; for CSV text with another suffix use --separator")


def _open_input(data: StandardInput, schema: Schema | None) -> Source:
    """A source of standard input, by its first bytes."""
    content, source = data.content(), "standard input"
    kind = content.magic()
    if kind == "Parquet":
        _check_no_text(data.dialect, source)
        part, names_and_types = attempt(lambda: Part.of(content), f"{source}: not a Parquet file that can be read")
        return replace(_of_parts([part], (names_and_types.remove_metadata(),), source, 0, part.rows), _within=None)
    if kind == "Arrow":
        _check_no_text(data.dialect, source)
        return _open_arrow_file(content, source)
    if kind == "Excel or zip":
        _check_no_text(data.dialect, source)
        return _open_excel(content, source)
    unpacked = content.unpacked(kind) if kind in CODECS.values() else content
    return _open_csv(unpacked, data.dialect, ",", schema, source)


def _check_no_text(dialect: Dialect, name: str | Path) -> None:
    if dialect.stated:
        raise ParameterError(f"{name}: only CSV text has a separator or an encoding: leave them out")


def _open_parquet(paths: list[Path], source: str) -> Source:
    """A source of Parquet files with the same columns. Types may differ: a missing cell is enough to change one."""
    parts, kinds = [], dict[pa.Schema, None]()
    for path in paths:
        part, schema = attempt(lambda p=path: Part.of(p), f"{path}: not a Parquet file that can be read")  # type: ignore[misc]
        parts.append(part)
        kinds.setdefault(schema.remove_metadata())
        if sorted(schema.names) != sorted(next(iter(kinds)).names):
            raise SchemaError(f"{path}: its columns have other names than those of {paths[0].name}")
    return _of_parts(parts, tuple(kinds), source, 0, sum(part.rows for part in parts))


def _of_parts(parts: list[Part], kinds: tuple[pa.Schema, ...], source: str, start: int, stop: int) -> Source:
    """Rows of a source of Parquet files, in order, from ``start`` to before ``stop``."""

    def read(columns: tuple[str, ...], rows: int) -> Batches:
        before = 0
        for part in parts:
            if before < stop and before + part.rows > start:
                yield from part.within(columns, rows, max(start - before, 0), min(stop - before, part.rows))
            before += part.rows

    def within(a: int, b: int) -> Source:
        return _of_parts(parts, kinds, source, min(start + a, stop), min(start + b, stop))

    return Source(kinds[0], stop - start, source, read, within, kinds=kinds)


def _open_arrow_file(content: Content, source: str) -> Source:
    complaint = f"{content.name}: not an Arrow file or stream that can be read (Feather version 1 is not)"
    return _of_arrow_file(attempt(lambda: ArrowFile.of(content), complaint), source)


def _of_arrow_file(file: ArrowFile, source: str) -> Source:
    return Source(file.schema, file.rows, source, file.read)


def _open_excel(content: Content, source: str) -> Source:
    sheet = ExcelSheet.of(content)
    handed = pa.schema([(name, pa.large_string()) for name in sheet.schema.names])
    return Source(sheet.schema, None, source, sheet.read, kinds=(handed,), untyped=frozenset(sheet.schema.names))


def _open_csv(content: Content, dialect: Dialect, separator: str, schema: Schema | None, source: str) -> Source:
    complaint = f"{content.name}: not a CSV file with a header in {dialect.encoding or 'UTF-8'} and rows as long as it"
    text, sign = attempt(lambda: dialect.text(content, separator), complaint)
    guessed = attempt(lambda: csv_files.guess(text, sign), complaint)
    numbers = {} if schema is None else schema.number_columns
    told = pa.schema([(f.name, pa.float64() if f.name in numbers else f.type) for f in guessed])

    def read(columns: tuple[str, ...], _: int) -> Batches:
        return csv_files.read(text, sign, columns, numbers, len(told))

    handed = pa.schema([(name, pa.float64() if name in numbers else pa.string()) for name in told.names])
    return Source(told, None, source, read, kinds=(handed,))
