"""Reading cells: one number for each, by itself, whatever the type it came in. No cell raises an error.

One cell can change the type of its whole column: with a missing cell among them, most programs store whole numbers as
floating ones, with a text among them as texts. So a cell means the same in every type that it may be stored in:

- a number is the double that is nearest to it, whether it was stored as a whole, floating or decimal number or as text;
  true and false are 1 and 0, as truths or spelled out;
- a category's value that is written as a number (7, 7.0, 2.5, True) stands for that number however it is stored; a text
  is what it is if it is listed, and else the number that it writes, so that 07 and 7.00 are a listed 7;
- floating numbers cannot tell whole ones from 2^53 up apart. A category with such a value is refused from every column
  of numbers, or of no type (``object``), by the type alone, whether or not its cells would have survived; in a column
  of texts each is exact.

``check`` says from types alone, before a row is read, what cannot be read.
"""

import functools
import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from sfumato.errors import SchemaError
from sfumato.numerics.types import Bools, Floats
from sfumato.tables import dates
from sfumato.tables.columns import Category, DataColumn, Date, Ordinal, Real

NUMBERS = (bool, int, float, complex, np.bool_, np.integer, np.inexact, Decimal)  # cells that are numbers, not texts

_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_TRUTHS = {"false": 0, "no": 0, "0": 0, "true": 1, "yes": 1, "1": 1}
_EXACT = 2.0**53  # below it, every whole number is a double of its own
_KNOWN_EXTENSIONS = ("arrow.bool8", "arrow.json")  # whose storage means what they mean


@functools.cache
def compute() -> Any:
    """Arrow's functions to read cells with, loaded late: plain numbers never need them, and start the sooner."""
    return importlib.import_module("pyarrow.compute")


def chunks(array: Any) -> list[Any]:
    """The contiguous pieces of a column's cells."""
    return list(array.chunks) if isinstance(array, pa.ChunkedArray) else [array]


def is_plain(array: Any) -> bool:
    """Whether the cells of a column are floating numbers without gaps, as most are; NaN may still be among them."""
    return isinstance(array, (pa.FloatArray, pa.DoubleArray)) and array.null_count == 0


def copied(array: Any, out: Floats) -> bool:
    """Copy the cells of a column of plain numbers; False if it is not one, or holds NaN."""
    plain = is_plain(array)
    if plain:
        np.copyto(out, numbers(array))
    return plain and not (out.size and math.isnan(out.min()))


def numbers(array: Any) -> NDArray[Any]:
    """Number cells of Arrow as those of NumPy, looked at where they are if none is missing.

    Not by ``to_numpy`` then, which imports pandas if it is there, and that takes longer than many a release.
    """
    return np.from_dlpack(array) if array.null_count == 0 else np.asarray(array.to_numpy(zero_copy_only=False))


def arrow(values: NDArray[Any]) -> Any:
    """Numbers of NumPy as cells of Arrow, where they are; not by ``pa.array``, which may import pandas as well."""
    if values.dtype.kind not in "iuf":
        return pa.array(values)
    held = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(held.dtype), held.size, [None, pa.py_buffer(held)])


def check(kind: pa.DataType, column: DataColumn) -> None:
    """Refuse an Arrow type in which a column's cells cannot be read; depends on the type and the schema alone."""
    if isinstance(column, Category | Ordinal):
        _numbers(column)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        check(kind.value_type, column)
    elif isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _KNOWN_EXTENSIONS:
        check(kind.storage_type, column)
    elif _is_count(kind) and not isinstance(column, Date):
        check_numbers(column)
    elif isinstance(column, Date) and (dates.is_moment(kind) or types.is_floating(kind)):
        return  # floating: as pandas stores a column all of whose cells are missing
    elif not (types.is_null(kind) or is_text(kind) or types.is_fixed_size_binary(kind)):
        raise SchemaError(f"the column {column.name!r} is of type {kind} in the data, which a {column.kind} cannot be")


def check_numbers(column: DataColumn) -> None:
    """Refuse a category whose cells floating numbers may confuse: one missing cell makes whole numbers floating.

    For columns of numbers, and of cells of any type: such a column is one of numbers but for a cell, and a refusal that
    depended on it would tell of that cell. So would one that names the type, whole or floating.
    """
    if isinstance(column, Category | Ordinal) and any(_EXACT <= abs(number) < math.inf for number in _numbers(column)):
        raise SchemaError(
            f"the column {column.name!r} is not one of texts in the data, and a value of the category is 2^53 or more, "
            "which only columns of texts keep whatever cell is missing: store the column as text"
        )


def read(array: Any, column: DataColumn) -> NDArray[Any]:
    """Read cells, one number each: number, truth, or place among the values (-1: not listed); NaN: nothing."""
    check(array.type, column)
    array = _stored(array)
    kind = array.type
    if types.is_dictionary(kind):
        if len(array.dictionary) > len(array):
            return read(decoded(array), column)
        meanings = np.append(read(array.dictionary, column), math.nan)
        return np.asarray(meanings[array.indices.cast(pa.int64()).fill_null(len(array.dictionary)).to_numpy()])
    if types.is_null(kind):
        return np.full(len(array), math.nan)
    if is_text(kind) or types.is_fixed_size_binary(kind):
        unchecked = compute().CastOptions(target_type=pa.large_string(), allow_invalid_utf8=True)
        return _FROM_TEXT[column.kind](compute().cast(array, options=unchecked), column)
    if isinstance(column, Date):
        return np.full(len(array), math.nan) if types.is_floating(kind) else dates.from_moments(array, column)
    return _FROM_NUMBERS[column.kind](array, column)


def _stored(array: Any) -> Any:
    """Cells without what Arrow puts around them: an extension, lengths of runs. Those of no known type are texts."""
    if isinstance(array, pa.ExtensionArray):
        return _stored(array.storage) if array.type.extension_name in _KNOWN_EXTENSIONS else as_texts(_objects(array))
    if not types.is_run_end_encoded(array.type):
        return array
    words = _wide(array.values)
    kind, runs = pa.run_end_encoded(array.type.run_end_type, words.type), [array.run_ends, words]
    return compute().run_end_decode(type(array).from_buffers(kind, len(array), [None], 0, array.offset, runs))


def decoded(array: Any) -> Any:
    """Cells without a dictionary, texts with offsets of 64 bits: however many there are, no cell is one too many."""
    array = _stored(array)
    return _wide(array.dictionary).take(array.indices) if types.is_dictionary(array.type) else _wide(array)


def _wide(array: Any) -> Any:
    known = types.is_string(array.type) or types.is_large_string(array.type)  # views may not be UTF-8
    return array.cast(pa.large_string() if known else pa.large_binary()) if is_text(array.type) else array


def as_text(array: Any) -> Any:
    """Cells of whole numbers or texts as texts; bytes that are no UTF-8 are replaced: no file of them could be read."""
    plain = decoded(array)
    if not is_text(plain.type):
        return plain.cast(pa.string())
    raw = plain.cast(pa.large_binary()).to_pylist()
    return pa.array([None if cell is None else cell.decode(errors="replace") for cell in raw], pa.string())


def in_common(array: Any, kinds: Sequence[pa.DataType]) -> Any:
    """Cells in an Arrow type that keeps what cells of all these types mean: doubles, timestamps, or else texts.

    Numbers and dates have no type in common but texts, in which each of them still is what it was.
    """
    numbers, moments = any(map(_is_count, kinds)), any(map(dates.is_moment, kinds))
    texts = (numbers and moments) or any(is_text(k) or types.is_fixed_size_binary(k) or is_other(k) for k in kinds)
    if types.is_null(array.type):
        return pa.nulls(len(array), pa.large_binary() if texts else dates.STAMP if moments else pa.float64())
    if dates.is_moment(array.type):
        return dates.written_out(dates.stamps(array)) if texts else dates.stamps(array)
    if is_other(array.type):
        return (
            dates.spans(array) if types.is_duration(array.type) else as_texts(_objects(array)).cast(pa.large_binary())
        )
    if not texts:
        return pa.array(_real_from_numbers(array, Real("number", 0.0, 1.0)).astype(float), from_pandas=True)
    if _is_count(array.type):
        return pa.array([None if x is None else number_text(x) for x in array.to_pylist()], pa.large_binary())
    return array.cast(pa.large_binary())


def _objects(array: Any) -> Iterable[Any]:
    """Cells of an Arrow type that no column is read from, as what pandas has in a column of objects. Never raises."""
    if types.is_time(array.type):
        array = array.cast(pa.time64("us"), safe=False)
    with suppress(Exception):  # an extension that is not of pandas
        if isinstance(array, pa.ExtensionArray):
            return list(array.type.to_pandas_dtype().__from_arrow__(array))
    return (_object(cell) for cell in array)


def _object(cell: Any) -> Any:
    try:
        return cell.as_py()
    except Exception:  # noqa: BLE001 - there is no such object
        return None


def as_texts(values: Iterable[Any]) -> Any:
    """Cells that are objects of Python as texts, each by itself: no odd cell changes how another is read."""
    return pa.array([text_of(value) for value in values], pa.large_string())


def text_of(cell: Any) -> str | None:
    """A cell that is an object of Python as text, None if there is nothing in it. Never raises."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, (bytes, bytearray, memoryview)):
        return bytes(cell).decode(errors="replace")
    try:
        if isinstance(cell, (date, timedelta, np.datetime64, np.timedelta64)):
            return dates.of_object(cell)
        if isinstance(cell, NUMBERS):
            return number_text(cell)
        text = str.__str__(cell) if isinstance(cell, str) else str(cell)
    except Exception:  # noqa: BLE001 - an object of somebody's making; its failure must not become ours
        return None
    return text.encode(errors="replace").decode()


def number_text(cell: Any) -> str | None:
    """A number cell as the text of the same meaning: whole ones without a point, others as doubles; None if none.

    A complex number is the real one that it equals, or none.
    """
    if isinstance(cell, (complex, np.complexfloating)):
        return number_text(cell.real) if cell.imag == 0 else None
    if not isinstance(cell, (float, np.floating, Decimal)):
        return str(int(cell))
    if isinstance(cell, Decimal) and cell.is_snan():  # float() would raise
        return None
    number = float(cell)
    whole = number.is_integer() and abs(number) < _EXACT
    return None if math.isnan(number) else str(int(number)) if whole else repr(number)


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of an Arrow type are texts or bytes."""
    binary = (types.is_binary, types.is_large_binary, types.is_binary_view)
    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view, *binary))


def is_number(kind: pa.DataType) -> bool:
    """Whether cells of an Arrow type are numbers."""
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def is_other(kind: pa.DataType) -> bool:
    """Whether cells of an Arrow type are neither numbers, dates nor texts: spans and times of day, for example."""
    known = types.is_null(kind) or types.is_fixed_size_binary(kind) or dates.is_moment(kind)
    return not (known or is_text(kind) or _is_count(kind))


def _is_count(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(types.is_boolean(kind))


def _real_from_numbers(array: Any, column: DataColumn) -> NDArray[Any]:
    if types.is_decimal(array.type):  # by their digits: Arrow's own cast depends on how many the type has
        return _real_from_text(array.cast(pa.large_string()), column)
    return numbers(array.cast(pa.int8()) if types.is_boolean(array.type) else array)


def _flag_from_numbers(array: Any, column: DataColumn) -> Floats:
    numbers = _real_from_numbers(array, column).astype(float)
    return np.where((numbers == 0) | (numbers == 1), numbers, math.nan)


def _category_from_numbers(array: Any, column: DataColumn) -> Floats:
    numbers = _real_from_numbers(array, column).astype(float) + 0.0  # -0.0 is 0
    return _look_up(pa.array(numbers, from_pandas=True), _listed_numbers(column), -1.0)


def _real_from_text(text: Any, _: DataColumn) -> Floats:
    """Read text cells as numbers, as people write them. The quick way and the careful one agree on every cell."""
    for careful in (False, True):
        try:
            cells = _only_numbers(text) if careful else text
            return np.asarray(cells.cast(pa.float64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            continue
    return np.array([math.nan if cell is None else float(cell) for cell in _only_numbers(text).to_pylist()])


def _only_numbers(text: Any) -> Any:
    """Text cells that write a number, trimmed; 1 and 0 for those that spell a truth; nothing for any others."""
    trimmed = compute().ascii_trim_whitespace(text)
    numbers = compute().if_else(compute().match_substring_regex(trimmed, _NUMBER), trimmed, None)
    for word, digit in (("true", "1"), ("false", "0")):
        spelled = compute().match_substring_regex(trimmed, f"^(?i:{word})$")
        numbers = compute().if_else(spelled, pa.scalar(digit, numbers.type), numbers)
    return numbers


def _flag_from_text(text: Any, column: DataColumn) -> Floats:
    truths = _listed(_TRUTHS, text.type)
    found = _look_up(compute().ascii_lower(compute().ascii_trim_whitespace(text)), truths, math.nan)
    return _by_number(found, np.isnan(found), text, _listed({0.0: 0, 1.0: 1}, pa.float64()), column)


def _category_from_text(text: Any, column: DataColumn) -> Floats:
    found, exact = _look_up(text, _listed_texts(column), -1.0), _listed_numbers(column, _EXACT)
    return _by_number(found, found < 0, text, exact, column) if len(exact.values) else found


def _by_number(found: Floats, unknown: Bools, text: Any, exact: "_Listed", column: DataColumn) -> Floats:
    """Codes found for text cells and, where a text is not listed as such, the code of the number that it writes."""
    if unknown.any():
        numbers = _real_from_text(text.filter(pa.array(unknown)), column) + 0.0  # -0.0 is 0
        listed = _look_up(pa.array(numbers, from_pandas=True), exact, math.nan)
        found[unknown] = np.where(np.isnan(listed), found[unknown], listed)
    return found


@functools.lru_cache(maxsize=256)
def _numbers(column: DataColumn) -> Mapping[float, int]:
    """The listed values of a category that cells may write as numbers; refuses two that are the same number."""
    assert isinstance(column, Category | Ordinal)
    found: dict[float, int] = {}
    for code, value in enumerate(column.values):
        number = number_of(str(value))
        if number is None:
            continue
        if number in found and abs(number) < _EXACT:
            raise SchemaError(
                f"values of column {column.name!r}: {column.values[found[number]]!r} and {value!r} mean one number, "
                "and which of them a table has may depend on its other cells: list one of them"
            )
        found.setdefault(number, code)
    return found


def number_of(text: str) -> float | None:
    """The number that a cell's text writes as programs do, whole, floating or a truth; None for any other text."""
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        number = float(text) if len(text) <= 32 else math.nan
    except ValueError:
        return None
    whole = text.isascii() and text.removeprefix("-").isdigit() and str(int(text)) == text
    return number + 0.0 if not math.isnan(number) and (whole or repr(number) == text) else None


class _Listed(NamedTuple):
    """Listed values that cells are looked up among, in an array of Arrow, and the code of each."""

    values: Any
    codes: Floats


def _listed(codes: Mapping[Any, int], kind: pa.DataType) -> _Listed:
    return _Listed(pa.array(list(codes), kind), np.array(list(codes.values()), float))


@functools.lru_cache(maxsize=256)
def _listed_texts(column: Any) -> _Listed:
    return _listed({str(value): code for code, value in enumerate(column.values)}, pa.large_string())


@functools.lru_cache(maxsize=256)
def _listed_numbers(column: DataColumn, most: float = math.inf) -> _Listed:
    """The listed values that cells may write as numbers, those from ``most`` up left out unless infinite."""
    return _listed({n: code for n, code in _numbers(column).items() if not most <= abs(n) < math.inf}, pa.float64())


def _look_up(array: Any, listed: _Listed, other: float) -> Floats:
    """The code of each cell among listed values, ``other`` where it has none, NaN where there is no cell."""
    found = compute().index_in(array, value_set=listed.values).fill_null(len(listed.values)).to_numpy()
    looked_up: Floats = np.append(listed.codes, other)[found]
    looked_up[compute().is_null(array).to_numpy(zero_copy_only=False)] = math.nan
    return looked_up


_FROM_TEXT: dict[str, Callable[[Any, DataColumn], NDArray[Any]]] = {
    "real": _real_from_text,
    "integer": _real_from_text,
    "vector": _real_from_text,
    "flag": _flag_from_text,
    "category": _category_from_text,
    "ordinal": _category_from_text,
    "date": dates.from_text,
    "datetime": dates.from_text,
}
_FROM_NUMBERS: dict[str, Callable[[Any, DataColumn], NDArray[Any]]] = {
    "real": _real_from_numbers,
    "integer": _real_from_numbers,
    "vector": _real_from_numbers,
    "flag": _flag_from_numbers,
    "category": _category_from_numbers,
    "ordinal": _category_from_numbers,
}
