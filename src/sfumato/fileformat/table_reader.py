"""Reading a synthetic table and the files beside it, which a stranger may have made.

Texts are unpacked as codes into the list of those that a file holds, so that one that is written once and meant by
every row takes no more room than a number. They become texts only once each is found to be a value of its column, and
their bytes together to be few enough. Every cell must be one that the schema allows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import types

from sfumato.fileformat.manifest import COUNTS, DATA, MODEL, TableManifest
from sfumato.fileformat.reader import Numbers, check_allowed, contradicted
from sfumato.fileformat.table_kind import Layout
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Ordinal, Set, Vector, source_names
from sfumato.tables.declared import keeps_missing
from sfumato.tables.decoding import arrow_fields
from sfumato.tables.encoding import bounds_of
from sfumato.tables.schema import Schema

_NAMED = 128  # letters of a column's name that need as much of a footer as another column, at least


def read_beside(path: Path, manifest: TableManifest) -> dict[str, NDArray[Any]]:
    """Read the model and the noisy counts that go along with a synthetic table; their form and sense are checked."""
    layout, found = Layout.of(manifest["mechanism"]), dict[str, NDArray[Any]]()
    for name, kind in ((MODEL, pa.float64()), (COUNTS, pa.int64())):
        file = Numbers.open(path / name, 1)
        if file.form != [("value", kind)] or file.rows != layout.sizes[name]:
            raise contradicted(path / name)
        check_allowed([file], file.rows)
        found[name] = file.column("value")
    if not layout.is_model(found[MODEL]):
        raise contradicted(path / MODEL)
    return found


def read_table(path: Path, manifest: TableManifest) -> pa.Table:
    """Read the rows of a synthetic table in the columns of its schema; form, size and cells are checked."""
    place, schema = path / DATA, Schema.from_dict(manifest["schema"])
    fields = arrow_fields(schema)
    columns = {name: column for column in schema.data_columns for name in source_names(column)}
    names = sum(len(name.encode()) for name in fields.names)
    file = Numbers.open(place, len(fields) + names // _NAMED, [_most(columns[name]) for name in fields.names])
    if file.form != [(field.name, field.type) for field in fields] or file.rows != manifest["rows"]:
        raise contradicted(place)
    left = check_allowed([file], sum(chunk.num_values for chunk in _chunks(file)))
    found = [fields.empty_table()]
    try:
        packed = _packed(file)
        for number in range(packed.num_row_groups):  # one by one: Arrow puts no packed texts of lists together
            group = packed.read_row_group(number)
            left -= sum(map(_text_bytes, group.itercolumns()))
            if left < 0 or not all(_allowed(columns[name], group.column(i)) for i, name in enumerate(fields.names)):
                raise contradicted(place)
            found.append(group.cast(fields))
            found[-1].validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        raise contradicted(place) from None
    whole = pa.concat_tables(found)
    if whole.num_rows != file.rows:
        raise contradicted(place)
    return whole


def _most(column: DataColumn) -> int:
    """How many values a cell of a synthetic table's column has in its file, at most; no item takes one, too."""
    if isinstance(column, Set):
        return max(1, column.most)
    return column.size if isinstance(column, Vector) and column.columns is None else 1


def _chunks(file: Numbers) -> Iterator[Any]:
    groups = (file.file.metadata.row_group(g) for g in range(file.file.num_row_groups))
    return (group.column(c) for group in groups for c in range(group.num_columns))


def _packed(file: Numbers) -> pq.ParquetFile:
    """The file of a synthetic table, to be read with texts as codes into the list of them."""
    leaves = (file.file.schema.column(place) for place in range(len(file.form)))
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    return pq.ParquetFile(file.path, read_dictionary=texts)


def _leaves(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """The values of a synthetic table's column, chunk by chunk; of lists, those that they hold."""
    for chunk in column.chunks:
        yield chunk.flatten() if types.is_list(chunk.type) or types.is_fixed_size_list(chunk.type) else chunk


def _text_bytes(column: pa.ChunkedArray) -> int:
    """How many bytes the packed texts of a synthetic table's column would take."""
    packed = (leaf for leaf in _leaves(column) if types.is_dictionary(leaf.type))
    return sum(pc.sum(pc.binary_length(leaf.dictionary).take(leaf.indices)).as_py() or 0 for leaf in packed)


def _allowed(column: DataColumn, cells: pa.ChunkedArray) -> bool:
    """Whether all cells of a synthetic table's column are such as the schema declares."""
    gaps = keeps_missing(column) or (isinstance(column, Category) and column.missing is None)
    if not gaps and (cells.null_count or any(leaf.null_count for leaf in _leaves(cells))):
        return False
    if isinstance(column, Category | Ordinal | Set):
        return _listed(column, cells)
    return isinstance(column, Flag) or all(_within(column, leaf) for leaf in _leaves(cells))


def _listed(column: Category | Ordinal | Set, cells: pa.ChunkedArray) -> bool:
    """Whether the cells of a synthetic table's column are listed values; of a set, each once and not too many."""
    values = range(column.width) if isinstance(column, Set) and column.values is None else column.values or ()
    for leaf in _leaves(cells):
        found = leaf.dictionary if types.is_dictionary(leaf.type) else leaf.drop_null()
        known = pa.array(map(str, values), pa.string()) if types.is_string(found.type) else pa.array(values, found.type)
        if not pc.all(pc.is_in(found, value_set=known), min_count=0).as_py():
            return False
    return not isinstance(column, Set) or all(_few(column, chunk) for chunk in cells.chunks)


def _few(column: Set, chunk: pa.Array) -> bool:
    lengths = pc.list_value_length(chunk).to_numpy(zero_copy_only=False)
    return not len(lengths) or int(lengths.max()) <= column.most


def _within(column: DataColumn, cells: pa.Array) -> bool:
    """Whether numbers or dates of a synthetic table are within the bounds of their column."""
    present = cells.drop_null()
    if not len(present):
        return True
    if types.is_floating(present.type) and not pc.all(pc.is_finite(present)).as_py():
        return False
    least, most = pc.min_max(present).as_py().values()
    low, high = (column.low, column.high) if isinstance(column, Date | Vector) else bounds_of(column)
    return bool(low <= least and most <= high)
