"""Tables in memory: Arrow, pandas, polars, NumPy and SciPy. pandas, polars and SciPy are never imported here."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import SchemaError
from sfumato.files.source import UNREADABLE, Batches, Source, one_array
from sfumato.tables import cells
from sfumato.tables.columns import Real, Set, Vector, source_names
from sfumato.tables.patterns import positions
from sfumato.tables.schema import Schema

_NUMBERS, _ITEMS = pa.large_list(pa.float64()), pa.large_list(pa.large_string())  # of lists that are Python's objects
_PYTHON_TEXTS = pa.string_view()  # as pandas keeps them where Arrow does not: UTF-8 may not be able to write them


def open_arrow(data: pa.Table | pa.RecordBatch, source: str) -> Source:
    """A source of an Arrow table or batch."""
    table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])

    def read(columns: tuple[str, ...], rows: int) -> Batches:
        yield from table.select(list(columns)).to_batches(max_chunksize=rows)

    return Source(table.schema, table.num_rows, source, read)


def open_pandas(frame: Any, schema: Schema | None = None) -> Source:
    """A source of a pandas DataFrame, whose columns are turned into Arrow a block at a time.

    A column of Python objects holds lists where the schema says so, and texts elsewhere.
    """
    names = [str(name) for name in frame.columns]
    lists = {} if schema is None else _list_types(schema)
    kinds = [_pandas_type(frame, place, dtype) for place, dtype in enumerate(frame.dtypes)]
    kinds = [_as_list(lists.get(name), kind) for name, kind in zip(names, kinds, strict=True)]

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
    except (*UNREADABLE, TypeError, OverflowError):
        return None
    return _PYTHON_TEXTS if getattr(dtype, "storage", None) == "python" else kind


def _list_types(schema: Schema) -> dict[str, pa.DataType]:
    """The columns of a source that a schema reads from lists, with the types that Python's objects are given."""
    vectors = [c.name for c in schema.columns if isinstance(c, Vector) and c.columns is None]
    sets = [c.name for c in schema.columns if isinstance(c, Set)]
    return dict.fromkeys(vectors, _NUMBERS) | dict.fromkeys(sets, _ITEMS)


def _as_list(wanted: pa.DataType | None, kind: pa.DataType | None) -> pa.DataType | None:
    """The type of a source's column that a schema reads from lists, if it does: objects, or floats if all are missing.

    Whether a single list is there decides between the two, so neither is refused.
    """
    return wanted if wanted is not None and (kind is None or pa.types.is_floating(kind)) else kind


def _pandas_cells(series: Any, kind: pa.DataType | None) -> pa.Array:
    if isinstance(series.dtype, np.dtype) and kind in (_NUMBERS, _ITEMS):
        return pa.array([_list(cell, kind) for cell in series.tolist()], kind)
    if kind is None or kind == _PYTHON_TEXTS:
        return cells.as_texts(series.tolist())
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        return pa.array(series.to_numpy().astype(series.dtype.newbyteorder("="), copy=False))
    column = pa.array(series, from_pandas=True)
    return one_array(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _list(cell: Any, kind: pa.DataType) -> list[Any] | None:
    """A cell of a source's object column as a list of numbers or of texts, None if it is none. Never raises."""
    if not isinstance(cell, (list, tuple, set, frozenset, np.ndarray)):
        return None
    if kind == _ITEMS:
        return [cells.text_of(item) for item in cell]
    try:
        whole = np.asarray(cell, float)
        return whole.tolist() if whole.ndim == 1 else None
    except Exception:  # noqa: BLE001 - as above
        return [_number(item) for item in cell]


def _number(item: Any) -> float | None:
    """A number of a list in a source's object column, None if it is none. Never raises."""
    try:
        return float(item)
    except Exception:  # noqa: BLE001 - as above
        return None


def open_matrix(matrix: Any, schema: Schema | None) -> Source:
    """A source of a NumPy array or SciPy sparse matrix; its columns are those of the schema in order."""
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
        return [cells.as_texts(block[:, p].tolist()) for p in places]  # a masked cell becomes None
    values = np.ascontiguousarray(np.ma.getdata(block).T, block.dtype.newbyteorder("="))
    masks = np.ascontiguousarray(np.ma.getmaskarray(block).T) if isinstance(block, np.ma.MaskedArray) else None
    return [cells.arrow(values[p]) if masks is None else pa.array(values[p], mask=masks[p]) for p in places]
