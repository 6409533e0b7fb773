"""Cells that are lists: vectors of numbers, sets of items. Each cell is read by itself, and none raises an error."""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from sfumato.errors import SchemaError
from sfumato.numerics.lattice import turn
from sfumato.numerics.types import Floats, Integers
from sfumato.tables import cells
from sfumato.tables.columns import Category, Real, Set, Vector
from sfumato.tables.encoding import missing_value


def is_list(kind: pa.DataType) -> bool:
    """Whether cells of an Arrow type are lists."""
    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def check(kind: pa.DataType, column: Vector | Set) -> None:
    """Refuse an Arrow type in which a column's lists cannot be read; depends on the type and the schema alone."""
    if isinstance(column, Vector) and column.columns is not None:
        cells.check(kind, _number(column))
        return
    if types.is_null(kind):
        return
    if not is_list(kind):
        raise SchemaError(  # without the type, which may depend on whether any cell is there
            f"the column {column.name!r} is no column of lists in the data, and a {column.kind} is read from one: give "
            "the table as Parquet, Arrow or a pandas frame"
        )
    if isinstance(column, Set):
        cells.check(kind.value_type, _item(column))
        return
    cells.check(kind.value_type, _number(column))
    if types.is_fixed_size_list(kind) and kind.list_size != column.size:
        raise SchemaError(
            f"the column {column.name!r} has lists of {kind.list_size} numbers in the data, and size = {column.size}"
        )


def fill(block: Floats, array: Any, column: Vector | Set) -> None:
    """Write lists that were read into the rows of the matrix, (encoded columns, lists), that belong to their column."""
    check(array.type, column)
    if types.is_null(array.type):
        block[...] = missing_value(column) if isinstance(column, Vector) else 0.0
    elif isinstance(column, Vector):
        _fill_vector(block, array, column)
    else:
        _fill_set(block, array, column)


def plain_rows(array: Any, column: Vector) -> NDArray[Any] | None:
    """The vectors as they are stored, (rows, size), where every list is whole; None where that takes more than a look.

    Guarantee: what ``fill`` writes is the same numbers, with a missing one for each NaN.
    """
    if not is_list(array.type):
        return None
    lengths, _, inner = laid_out(array)
    if not cells.is_plain(inner) or (lengths != column.size).any():
        return None
    return cells.numbers(inner).reshape(lengths.size, column.size)


def _fill_vector(block: Floats, array: Any, column: Vector) -> None:
    rows = plain_rows(array, column)
    if rows is None:
        rows = _gathered(array, column)
    turn(rows, block)
    if rows.size and math.isnan(rows.min()):
        np.copyto(block, missing_value(column), where=np.isnan(block))


def _gathered(array: Any, column: Vector) -> NDArray[Any]:
    """The vectors, (rows, size), NaN where a list is missing or of another length."""
    lengths, starts, values = _parts(array)
    kept = np.flatnonzero(lengths == column.size)
    if values.size == kept.size * column.size:
        found = values.reshape(kept.size, column.size)
    else:
        found = values[starts[kept][:, None] + np.arange(column.size)]
    if kept.size == lengths.size:
        return found
    rows = np.full((lengths.size, column.size), math.nan, found.dtype)
    rows[kept] = found
    return rows


def _parts(array: Any) -> tuple[Integers, Integers, NDArray[Any]]:
    """The length of each list, -1 where it is missing, where it starts among the numbers, and the numbers."""
    lengths, starts, inner = laid_out(array)
    if cells.is_plain(inner):
        return lengths, starts, cells.numbers(inner)
    return lengths, starts, cells.read(inner, Real("number", 0.0, 1.0)).astype(float)


def laid_out(array: Any) -> tuple[Integers, Integers, Any]:
    """The length of each list, -1 where it is missing, where it starts, and the cells of all lists."""
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = np.arange(len(array), dtype=np.int64) * size
        inner = array.values.slice(array.offset * size, len(array) * size)
        return np.where(missing, -1, size), starts, inner
    offsets = array.offsets.to_numpy().astype(np.int64)
    inner = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return np.where(missing, -1, np.diff(offsets)), offsets[:-1] - offsets[0], inner


def _fill_set(block: Floats, array: Any, column: Set) -> None:
    lengths, starts, inner = laid_out(array)
    codes = _codes(inner, column)
    present = np.maximum(lengths, 0)
    owners = np.repeat(np.arange(lengths.size), present)
    if owners.size != codes.size:  # a missing list may have items where it is stored
        codes = codes[np.repeat(starts - (np.cumsum(present) - present), present) + np.arange(owners.size)]
    listed = codes >= 0
    block[...] = 0.0
    block[codes[listed].astype(np.intp), owners[listed]] = 1.0
    long = np.flatnonzero(present > column.most)
    if long.size:
        items = block[:, long]
        items[np.cumsum(items, axis=0) > column.most] = 0.0
        block[:, long] = items


def _codes(items: Any, column: Set) -> NDArray[Any]:
    """The encoded column of each item, -1 for none."""
    if types.is_null(items.type):
        return np.full(len(items), -1.0)
    if column.values is not None:
        found = cells.read(items, _item(column)).astype(float)
        return np.where(np.isnan(found), -1.0, found)
    return _by_word(items, lambda word: bucket(word, column.width))


def in_common(array: Any, kinds: Sequence[pa.DataType]) -> Any:
    """Cells, lists or not, in an Arrow type that keeps what cells of all these types mean."""
    inner = [_plain(kind.value_type) for kind in kinds if is_list(kind)]
    if not inner:
        return cells.in_common(array, kinds)
    if not is_list(array.type):
        return pa.nulls(len(array), pa.large_list(cells.in_common(pa.nulls(0), inner).type))
    return _relisted(array, lambda items: cells.in_common(cells.decoded(items), inner))


def wide(array: Any) -> Any:
    """Cells, lists or not, without dictionaries and with offsets of 64 bits, so that any number of them can be joined.

    Guarantee: the type that comes out depends on the type alone. In 32 bits, whether 2^31 bytes or items are passed
    depends on the cells, and one more record could make a table unreadable.
    """
    if not is_list(array.type):
        return cells.decoded(array)
    if types.is_fixed_size_list(array.type) and cells.is_number(array.type.value_type):
        return array  # without offsets
    return _relisted(array, wide)


def _relisted(array: Any, changed: Callable[[Any], Any]) -> Any:
    """Lists whose cells are changed, as many as there were."""
    lengths, starts, inner = laid_out(array)
    ends = np.append(starts, starts[-1] + max(lengths[-1], 0) if len(array) else 0)
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), changed(inner), mask=pa.array(lengths < 0))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if types.is_dictionary(kind) or types.is_run_end_encoded(kind) else kind


def _by_word(items: Any, code: Callable[[bytes], int]) -> NDArray[Any]:
    """The code of each item by its text; each distinct item is looked at once.

    A number is the double that is nearest to it, since one missing item makes whole numbers floating.
    """
    found = cells.decoded(items)
    if cells.is_number(found.type):
        found = cells.in_common(found, [pa.float64()])
    plain = cells.in_common(found, [pa.large_binary()])
    coded = plain.dictionary_encode()
    words = [-1 if word is None else code(word) for word in coded.dictionary.to_pylist()]
    return np.asarray(np.array([*words, -1], float)[coded.indices.fill_null(len(words)).to_numpy()])


def bucket(word: bytes, buckets: int) -> int:
    """The bucket of a set's item by a public hash: the same everywhere, even over the buckets but for 2^-40 of them."""
    return int.from_bytes(hashlib.blake2b(word, digest_size=16).digest(), "little") % buckets


def _number(column: Vector) -> Real:
    return Real(column.name, column.low, column.high)


def _item(column: Set) -> Category | Real:
    """The column that a set's items are read as, one by one."""
    return Category(column.name, column.values) if column.values is not None else Category(column.name, ("",))
