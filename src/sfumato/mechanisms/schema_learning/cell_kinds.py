"""The public partition of cells by what they are, and exact counts of it: the first thing a learned schema rests on.

Every cell of a scalar column falls into exactly one of seven kinds, by itself: missing, a whole number, another number,
a date, a point in time, yes or no, any other text. Storage types decide nothing. One cell can change the type of its
whole column: a missing one makes whole numbers floating, a text makes all of them texts. So a cell is of the same kind
in every type that it may be stored in, as ``tables.cells`` reads it: 5, 5.0 and "5" are the whole number 5; true and
false are 1 and 0; a timestamp at midnight is a date. Only whether a column holds lists is taken from its type: it is
public, and so are the lengths of lists of a fixed size.

A list of numbers (a vector) is counted by its least and its largest number, so that one record counts once in each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from sfumato.errors import SchemaError
from sfumato.mechanisms.schema_learning.magnitudes import PARTS, parts_of
from sfumato.numerics.types import Floats, Integers
from sfumato.tables import cells, dates, lists
from sfumato.tables.columns import Date, Real

_NUMBER = Real("number", 0.0, 1.0)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone stand for themselves
_MOMENT = Date("moment", _EPOCH, _EPOCH.replace(year=1971))
_DAY = 86_400.0
_EXACT = 2.0**53


class CellKind(IntEnum):
    """What a cell is; of lists, only whether there is one."""

    MISSING = 0
    WHOLE = 1
    FRACTION = 2
    DATE = 3
    MOMENT = 4
    YES_NO = 5
    TEXT = 6


@dataclass(slots=True, eq=False)
class Tally:
    """Exact counts of one column: its cells by kind, its numbers and days by part; of vectors, least and largest."""

    kinds: Integers
    numbers: Integers | None = None
    others: Integers | None = None  # days of dates, or the largest numbers of vectors

    @classmethod
    def empty(cls) -> "Tally":
        """The counts of a column without cells."""
        return cls(np.zeros(len(CellKind), np.int64))

    def add(self, more: "Tally") -> None:
        """Count further cells of the column."""
        self.kinds += more.kinds
        for name in ("numbers", "others"):
            mine, theirs = getattr(self, name), getattr(more, name)
            if theirs is not None:
                setattr(self, name, theirs if mine is None else mine + theirs)


def parts(counted: Integers | None) -> Integers:
    """Counts of all parts, where none of a column may have been seen."""
    return np.zeros(PARTS, np.int64) if counted is None else counted


def shape_of(name: str, kind: pa.DataType) -> str:
    """What the cells of a type are: ``scalar``, ``vector`` or ``set``; refuses those made of cells that are no such.

    A function of the type alone, and of what is public about it: whether there are lists.
    """
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return shape_of(name, kind.value_type)
    if not types.is_nested(kind):
        return "scalar"
    if types.is_fixed_size_list(kind) and cells.is_number(kind.value_type):
        return "vector"
    if lists.is_list(kind):
        inner = kind.value_type
        if types.is_dictionary(inner) or not (cells.is_other(inner) or dates.is_moment(inner)):
            return "set"
        raise SchemaError(
            f"the column {name!r} is of type {kind} in the data: a vector needs lists of a fixed size, and items of a "
            "set are texts or numbers; leave it out, or describe it by hand"
        )
    raise SchemaError(
        f"the column {name!r} is of type {kind} in the data, which no column of a schema can be read from"
    )


def scalar_tally(array: Any) -> Tally:
    """Count a piece of a scalar column, exactly. Each distinct text is looked at once."""
    array = cells.decoded(array)
    if types.is_null(array.type):
        return _tally(np.zeros(0), np.zeros(0, np.int8), None, missing=len(array))
    if dates.is_moment(array.type):
        return _of_moments(array)
    if cells.is_other(array.type):
        array = cells.in_common(array, [array.type])
    if not (cells.is_text(array.type) or types.is_fixed_size_binary(array.type)):
        values = cells.read(array, _NUMBER).astype(np.float64, copy=False)
        return _of_numbers(values, None)
    plain = _only_numbers(array)
    if plain is not None:
        return _of_numbers(plain, None)
    coded = array.cast(pa.large_binary()).dictionary_encode()
    places = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
    return _of_texts(coded.dictionary, np.bincount(places, minlength=len(coded.dictionary) + 1).astype(np.int64))


def _only_numbers(array: Any) -> Floats | None:
    """The numbers of a piece of texts that Arrow reads as such, each to what ``cells`` reads; None if one is not."""
    try:
        found = cells.numbers(array.cast(pa.float64())).astype(np.float64, copy=False)
    except pa.ArrowException:
        return None
    return found if int(np.isnan(found).sum()) == array.null_count else None  # a text that says nan is a text


def vector_tally(array: Any) -> Tally:
    """Count a piece of a column of vectors: the least and the largest number of each; NaN are none of them.

    Lists may be of any length, as where files of a folder differ. One without numbers is missing.
    """
    lengths, starts, inner = lists.laid_out(array)
    values = np.append(cells.read(inner, _NUMBER).astype(np.float64), np.nan)
    filled = lengths > 0
    ends = np.stack([starts, starts + lengths], axis=1)[filled].ravel()
    least, largest = (end.reduceat(values, ends)[::2] if ends.size else values[:0] for end in (np.fmin, np.fmax))
    some = ~np.isnan(least)
    kinds = np.zeros(len(CellKind), np.int64)
    kinds[CellKind.MISSING], kinds[CellKind.FRACTION] = len(lengths) - int(some.sum()), int(some.sum())
    return Tally(kinds, _count(least[some], None), _count(largest[some], None))


def set_tally(array: Any) -> Tally:
    """Count a piece of a column of sets: lists that are there, and those that are missing."""
    kinds = np.zeros(len(CellKind), np.int64)
    kinds[CellKind.MISSING] = array.null_count
    kinds[CellKind.TEXT] = len(array) - array.null_count
    return Tally(kinds)


TALLIES: dict[str, Callable[[Any], Tally]] = {"scalar": scalar_tally, "vector": vector_tally, "set": set_tally}


def _of_numbers(values: Floats, times: Integers | None) -> Tally:
    nothing = np.isnan(values)
    missing = int(nothing.sum() if times is None else times[nothing].sum())
    kept = ~nothing
    values, times = values[kept], None if times is None else times[kept]
    return _tally(values, _number_kinds(values), times, missing=missing)


def _number_kinds(values: Floats) -> Any:
    whole = (np.floor(values) == values) & (np.abs(values) < _EXACT)
    return np.where(whole, np.int8(CellKind.WHOLE), np.int8(CellKind.FRACTION))


def _tally(values: Floats, kinds: Any, times: Integers | None, missing: int) -> Tally:
    counted = np.bincount(kinds, weights=times, minlength=len(CellKind)).astype(np.int64)
    counted[CellKind.MISSING] += missing
    return Tally(counted, _count(values, times) if values.size else None)


def _count(values: Floats, times: Integers | None) -> Integers:
    """How many numbers fall into each part; sums of weights below 2^53 are exact."""
    return np.bincount(parts_of(values), weights=times, minlength=PARTS).astype(np.int64)


def _of_moments(array: Any) -> Tally:
    seconds = cells.read(array, _MOMENT).astype(np.float64)
    kinds = np.zeros(len(CellKind), np.int64)
    there = seconds[~np.isnan(seconds)]
    kinds[CellKind.MISSING] = len(seconds) - len(there)
    return _with_days(Tally(kinds), there, np.ones(len(there), np.int64))


def _with_days(tally: Tally, seconds: Floats, times: Integers) -> Tally:
    """Count points in time by their days. All beyond the years that dates have are one day before them or after."""
    first, behind = dates.FIRST / 10**6, dates.BEHIND / 10**6
    seconds = np.where(seconds < first, first - _DAY, np.minimum(seconds, behind))
    midnight = seconds % _DAY == 0
    tally.kinds[CellKind.DATE] += int(times[midnight].sum())
    tally.kinds[CellKind.MOMENT] += int(times[~midnight].sum())
    if seconds.size:
        tally.others = _count(np.floor(seconds / _DAY), times)
    return tally


def _of_texts(words: Any, times: Integers) -> Tally:
    """Count distinct texts, of which each stands for ``times`` cells; the last entry of these is of missing cells."""
    missing, times = int(times[-1]), times[:-1]
    compute = cells.compute()
    trimmed = compute.ascii_trim_whitespace(compute.cast(words, options=_unchecked()))
    empty = compute.equal(compute.binary_length(trimmed), 0).to_numpy(zero_copy_only=False)
    missing += int(times[empty].sum())
    numbers = cells.read(words, _NUMBER).astype(np.float64)
    tally = _of_numbers(numbers[~np.isnan(numbers)], times[~np.isnan(numbers)])
    tally.kinds[CellKind.MISSING] += missing
    rest = np.flatnonzero(np.isnan(numbers) & ~empty)
    if not rest.size:
        return tally
    texts, left = trimmed.take(pa.array(rest)), times[rest]
    answers = compute.match_substring_regex(texts, "^(?i:yes|no)$").to_numpy(zero_copy_only=False)
    dated = compute.match_substring_regex(texts, dates.LIKE_ONE).to_numpy(zero_copy_only=False)
    seconds = np.full(len(left), np.nan)
    seconds[dated] = cells.read(texts.filter(pa.array(dated)), _MOMENT).astype(np.float64)
    known = ~np.isnan(seconds)
    tally.kinds[CellKind.YES_NO] += int(left[answers].sum())
    tally.kinds[CellKind.TEXT] += int(left[~answers & ~known].sum())
    return _with_days(tally, seconds[known], left[known])


def _unchecked() -> Any:
    return cells.compute().CastOptions(target_type=pa.large_string(), allow_invalid_utf8=True)
