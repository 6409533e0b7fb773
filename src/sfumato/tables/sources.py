"""Tables in, blocks of rows out: CSV, Parquet, Arrow, pandas, polars, NumPy and SciPy.

Files are streamed, so memory does not grow with the number of rows. No error quotes a cell: what pyarrow says about
damaged data is replaced, and dropped rather than chained. pandas, polars and SciPy are never imported here.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from sfumato import check
from sfumato.errors import SchemaError
from sfumato.tables import cells, csv_files
from sfumato.tables.columns import Real, Vector, source_names
from sfumato.tables.declared import complaints, gathered
from sfumato.tables.parquet_files import Part, files_of
from sfumato.tables.patterns import positions
from sfumato.tables.schema import Schema, check_type

Batches: TypeAlias = Iterator[pa.RecordBatch]
Result = TypeVar("Result")

_PYTHON_TEXTS = pa.string_view()  # as pandas keeps them where Arrow does not: UTF-8 may not be able to write them
_UNREADABLE = (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError, UnicodeError)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A table that can be read again and again, a block of rows at a time.

    ``schema``: names and types (of a CSV file, as its beginning suggests; of a folder, those of its first file).
    ``kinds``: the types in which cells are handed out, where that is not ``schema``: of a folder, those of every file;
    of a CSV file text, but doubles in columns that were said to be real when it was opened.
    ``rows``: their number, None where it is not known before reading. ``description``: what it is, fit for the public.
    """

    schema: pa.Schema
    rows: int | None
    description: str
    _read: Callable[[tuple[str, ...], int], Batches] = field(repr=False)
    _within: Callable[[int, int], "Source"] | None = field(default=None, repr=False)
    entries: Any = field(default=None, repr=False)  # of a SciPy sparse matrix of numbers: its rows, as they are stored
    kinds: tuple[pa.Schema, ...] = field(default=(), repr=False)
    untyped: frozenset[str] = field(default=frozenset(), repr=False)  # columns of cells of any type (object)

    def within(self, start: int, stop: int) -> "Source":
        """The rows from ``start`` to before ``stop``, without reading the others; only Parquet files allow it."""
        if self._within is None:
            raise SchemaError(f"{self.description}: only Parquet files can be read from the middle")
        return self._within(start, stop)

    @property
    def divisible(self) -> bool:
        """Whether any range of rows can be read by itself."""
        return self._within is not None

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse names that are not there, or there twice, before a row is read."""
        try:
            positions(self.schema.names, columns)
        except SchemaError as error:
            raise SchemaError(f"{self.description}: {error}") from None

    def types_of(self, name: str) -> list[pa.DataType]:
        """The types in which the cells of a column are handed out, which is there once in every file."""
        return list(dict.fromkeys(kinds.field(name).type for kinds in self.kinds or (self.schema,)))

    def check_types(self, schema: Schema) -> None:
        """Refuse all columns that are not there, or of a type that the schema cannot be read from, before a row is."""
        problems = complaints(self.check_columns, schema.source_names)
        count = Counter(self.schema.names)
        pairs = ((c, name) for c in schema.data_columns for name in source_names(c) if count[name] == 1)
        for column, name in pairs:
            for kind in self.types_of(name):
                problems += complaints(check_type, kind, column)
            problems += complaints(cells.check_numbers, column) if name in self.untyped else []
        if problems:
            raise gathered(list(dict.fromkeys(problems)))

    def blocks(self, columns: Sequence[str], rows: int) -> Batches:
        """The named columns in blocks of exactly ``rows`` rows, the last one shorter, however the source is laid out.

        Raises SchemaError, without a cell in it, if a column is not there or the source turns out to be damaged.
        """
        check.whole(1, rows=rows)
        if isinstance(columns, str) or not columns:
            raise check.fail("columns", columns, "a list of at least one column name")
        self.check_columns(columns)
        return _guarded(reblock(self._read(tuple(columns), rows), rows), self.description)


def open_table(data: Any, schema: Schema | None = None) -> Source:
    """Open a table: a path (.csv, .parquet or a folder of .parquet files) or an object in memory.

    In memory: pyarrow tables and batches, pandas and polars frames, two-dimensional NumPy arrays, SciPy sparse
    matrices, and whatever has ``__arrow_c_stream__``. The columns of arrays and matrices are those of the schema in
    order, without its id; c0, c1, ... without a schema. Of a CSV file a schema says which cells to read as numbers.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, (str, Path)):
        return _open_path(Path(data), schema)
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return _open_arrow(data, "arrow table")
    if "pandas" in sys.modules and isinstance(data, sys.modules["pandas"].DataFrame):
        return _open_pandas(data)
    if isinstance(data, np.ndarray) or (hasattr(data, "tocsr") and hasattr(data, "shape")):
        return _open_matrix(data, schema)
    if hasattr(data, "__arrow_c_stream__"):
        source = f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"
        wide = _wide_columns(data)
        plain = data.cast(dict.fromkeys(wide, str)) if wide else data
        table = _attempt(lambda: pa.table(plain), f"{source} cannot be converted to an Arrow table")
        return replace(_open_arrow(table, source), untyped=wide)
    raise SchemaError(
        f"a table cannot be made of an object of type {type(data).__name__}: give a path to a .csv or .parquet file, "
        "an Arrow, pandas or polars table, a NumPy array or a SciPy sparse matrix"
    )


def _wide_columns(data: Any) -> frozenset[str]:
    """Columns of a polars source whose whole numbers Arrow has no type for; one large cell is enough to make one."""
    kinds = getattr(data, "schema", None) if type(data).__module__.startswith("polars.") else None
    return frozenset(name for name, kind in (kinds or {}).items() if str(kind) in ("Int128", "UInt128"))


def part_of(table: Source, column: str, value: str) -> Source:
    """A source of the rows of a table whose (public) value in a column, as text, is this one."""
    check_public_column(table, column, "the column", "parts go by texts or whole numbers")

    def read(columns: tuple[str, ...], rows: int) -> Batches:
        wanted = list(dict.fromkeys((*columns, column)))
        for batch in table.blocks(wanted, rows):
            kept = cells.compute().equal(cells.as_text(batch.column(wanted.index(column))), value).fill_null(False)
            arrays = [cells.filtered(batch.column(wanted.index(name)), kept) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    return Source(table.schema, None, f"part of {table.description}", read, kinds=table.kinds, untyped=table.untyped)


def check_public_column(table: Source, name: str, what: str, rule: str) -> None:
    """Refuse a source whose public column, of ids or parts, is absent, or neither of texts nor of whole numbers."""
    positions(table.schema.names, [name])
    for kind in table.types_of(name):
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_integer(plain) or cells.is_text(plain)):
            raise SchemaError(f"{what} {name!r} is of type {plain} in the data: {rule}")


def reblock(batches: Iterable[pa.RecordBatch], rows: int) -> Batches:
    """Rows of a source in batches of exactly ``rows`` rows, the last one shorter; holds no more than one block."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.num_rows - start >= rows:
            stop = start + rows - count
            yield _joined([*held, batch.slice(start, stop - start)])
            held, count, start = [], 0, stop
        if start < batch.num_rows:
            held.append(batch.slice(start))
            count += batch.num_rows - start
        del batch
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [_one_array(parts) for parts in zip(*(b.columns for b in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batches[0].schema.names)


def _one_array(parts: Sequence[pa.Array]) -> pa.Array:
    """Parts of a source's column joined, in one type that keeps what each cell means: files may differ in types.

    Dictionaries are decoded first, for a joint one may outgrow its indices, depending on the cells.
    """
    plain = [cells.decoded(part) for part in parts]
    if len({part.type for part in plain}) == 1:
        return pa.concat_arrays(plain)
    return pa.concat_arrays([cells.in_common(part, [other.type for other in plain]) for part in plain])


def _attempt(action: Callable[[], Result], complaint: str) -> Result:
    """Result of opening or reading a source, or a SchemaError without pyarrow's words, for they may quote cells."""
    try:
        return action()
    except SchemaError:  # which is ours, and a ValueError
        raise
    except (*_UNREADABLE, ValueError):
        pass  # raised below, outside of this block, so that the error does not carry this one as its context
    raise SchemaError(complaint)


def _guarded(batches: Batches, source: str) -> Batches:
    complaint = f"{source} cannot be read to its end: it is damaged, or its rows do not all have the same columns"
    return iter(lambda: _attempt(lambda: next(batches, None), complaint), None)


# ---- files ----------------------------------------------------------------------------------------------------------


def _open_path(path: Path, schema: Schema | None) -> Source:
    path = path.absolute()  # workers may have another working directory
    if not path.exists():
        raise SchemaError(f"{path}: no such file")
    if not path.is_dir() and not path.is_file():  # a pipe or a device, which would be read more than once, or for ever
        raise SchemaError(f"{path}: not an ordinary file, so no table is read from it")
    if path.is_dir():
        return _open_parquet(files_of(path), f"parquet folder {path.name}")
    if path.suffix.lower() == ".parquet":
        return _open_parquet([path], f"parquet file {path.name}")
    if path.suffix.lower() == ".csv":
        return _open_csv(path, schema)
    raise SchemaError(f"{path}: a table is read from a .csv or .parquet file or from a folder of .parquet files")


def _open_parquet(paths: list[Path], source: str) -> Source:
    """A source of Parquet files with the same columns. Types may differ: a missing cell is enough to change one."""
    parts, kinds = [], dict[pa.Schema, None]()
    for path in paths:
        part, schema = _attempt(lambda p=path: Part.of(p), f"{path}: not a Parquet file that can be read")  # type: ignore[misc]
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


def _open_csv(path: Path, schema: Schema | None) -> Source:
    complaint = f"{path}: not a CSV file with a header in UTF-8 and rows as long as it"
    guessed = _attempt(lambda: csv_files.guess(path), complaint)
    reals = {} if schema is None else schema.number_columns
    told = pa.schema([(f.name, pa.float64() if f.name in reals else f.type) for f in guessed])

    def read(columns: tuple[str, ...], _: int) -> Batches:
        return csv_files.read(path, columns, reals, len(told))

    handed = pa.schema([(name, pa.float64() if name in reals else pa.string()) for name in told.names])
    return Source(told, None, f"csv file {path.name}", read, kinds=(handed,))


# ---- in memory ------------------------------------------------------------------------------------------------------


def _open_arrow(data: pa.Table | pa.RecordBatch, source: str) -> Source:
    table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])

    def read(columns: tuple[str, ...], rows: int) -> Batches:
        yield from table.select(list(columns)).to_batches(max_chunksize=rows)

    return Source(table.schema, table.num_rows, source, read)


def _open_pandas(frame: Any) -> Source:
    names = [str(name) for name in frame.columns]
    kinds = [_pandas_type(frame, place, dtype) for place, dtype in enumerate(frame.dtypes)]

    def read(columns: tuple[str, ...], rows: int) -> Batches:
        places = positions(names, columns)
        for start in range(0, len(frame), rows):
            arrays = [_pandas_cells(frame.iloc[start : start + rows, p], kinds[p]) for p in places]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    schema = pa.schema([(name, kind or pa.large_string()) for name, kind in zip(names, kinds, strict=True)])
    untyped = frozenset(name for name, kind in zip(names, kinds, strict=True) if kind is None)
    return Source(schema, len(frame), "pandas DataFrame", read, untyped=untyped)


def _pandas_type(frame: Any, place: int, dtype: Any) -> pa.DataType | None:
    """The Arrow type of a pandas source's column, from its dtype alone; None if cells are taken one by one."""
    if isinstance(dtype, np.dtype):
        return pa.from_numpy_dtype(dtype.newbyteorder("=")) if dtype.kind in "biufMm" and dtype.itemsize <= 8 else None
    try:
        kind = pa.array(frame.iloc[:0, place], from_pandas=True).type
    except (*_UNREADABLE, TypeError, ValueError, OverflowError):
        return None
    return _PYTHON_TEXTS if getattr(dtype, "storage", None) == "python" else kind


def _pandas_cells(series: Any, kind: pa.DataType | None) -> pa.Array:
    if kind is None or kind == _PYTHON_TEXTS:
        return _texts(series.tolist())
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        return pa.array(series.to_numpy().astype(series.dtype.newbyteorder("="), copy=False))
    column = pa.array(series, from_pandas=True)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _texts(values: list[Any]) -> pa.Array:
    """Cells of a source's object column as text, each by itself: no odd cell changes how another is read."""
    return pa.array([_text(value) for value in values], pa.large_string())


def _text(cell: Any) -> str | None:
    """A cell of a source's object column as text, None if there is nothing in it. Never raises."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, (bytes, bytearray, memoryview)):
        return bytes(cell).decode(errors="replace")
    try:
        if isinstance(cell, cells.NUMBERS):
            return cells.number_text(cell)
        text = str.__str__(cell) if isinstance(cell, str) else str(cell)
    except Exception:  # noqa: BLE001 - an object of somebody's making; its failure must not become ours
        return None
    return text.encode(errors="replace").decode()


def _open_matrix(matrix: Any, schema: Schema | None) -> Source:
    sparse = not isinstance(matrix, np.ndarray)
    source = "sparse matrix" if sparse else "numpy array"
    if len(matrix.shape) != 2 or matrix.dtype.kind not in "biufOUST":
        raise SchemaError(
            f"a {source} must be two-dimensional and hold numbers or texts, "
            f"got {len(matrix.shape)} dimensions of type {matrix.dtype}"
        )
    unmasked = not isinstance(matrix, np.ma.MaskedArray)
    stored: Any = matrix.tocsr() if sparse else np.asarray(matrix) if unmasked else matrix
    height, width = matrix.shape
    sizes = {f"c{j}": 1 for j in range(width)} if schema is None else _sizes(schema)
    if sum(sizes.values()) != width:
        raise SchemaError(f"the {source} has {width} columns where the schema has {sum(sizes.values())} besides its id")
    names, ends = list(sizes), np.cumsum(list(sizes.values())).tolist()

    def read(columns: tuple[str, ...], rows: int) -> Batches:
        places = [range(ends[p] - sizes[names[p]], ends[p]) for p in positions(names, columns)]
        for start in range(0, height, rows):
            block = stored[start : min(start + rows, height)]
            arrays = _columns_of(block.toarray() if sparse else block, [place for run in places for place in run])
            lists = _gathered(arrays, [len(run) for run in places])
            yield pa.RecordBatch.from_arrays(lists, names=list(columns))

    kind = _columns_of(np.empty((0, width), matrix.dtype), [0])[0].type if width else pa.null()
    plain = sparse and matrix.dtype.kind in "iuf" and matrix.dtype.itemsize <= 8 and len(names) == width
    numbers = stored if plain else None
    untyped = frozenset(names if cells.is_text(kind) and matrix.dtype.kind not in "UST" else ())
    told = pa.schema([(name, kind if size == 1 else pa.list_(kind, size)) for name, size in sizes.items()])
    return Source(told, height, source, read, entries=numbers, untyped=untyped)


def _sizes(schema: Schema) -> dict[str, int]:
    """How many columns of a matrix each column of a schema's source takes: a vector as many as it has numbers."""
    pairs = [(c, name) for c in schema.data_columns for name in source_names(c)]
    return {name: c.size if isinstance(c, Vector) and c.columns is None else 1 for c, name in pairs}


def _gathered(arrays: list[pa.Array], sizes: Sequence[int]) -> list[pa.Array]:
    """Columns of a matrix source, those of a vector together as one of lists."""
    found, rest = [], iter(arrays)
    for size in sizes:
        some = [next(rest) for _ in range(size)]
        if size == 1:
            found += some
        else:
            rows = np.stack([cells.read(array, Real("number", 0.0, 1.0)) for array in some], axis=1)
            found.append(pa.FixedSizeListArray.from_arrays(cells.arrow(rows.reshape(-1)), size))
    return found


def _columns_of(block: Any, places: Sequence[int]) -> list[pa.Array]:
    """Columns of a block of a NumPy or SciPy source as Arrow arrays, transposed once."""
    if block.dtype.kind not in "biuf" or block.dtype.itemsize > 8:
        return [_texts(block[:, p].tolist()) for p in places]  # a masked cell becomes None
    values = np.ascontiguousarray(np.ma.getdata(block).T, block.dtype.newbyteorder("="))
    masks = np.ascontiguousarray(np.ma.getmaskarray(block).T) if isinstance(block, np.ma.MaskedArray) else None
    return [cells.arrow(values[p]) if masks is None else pa.array(values[p], mask=masks[p]) for p in places]
