"""Cells that are dates or points in time, read as steps since the low bound of their column. No cell raises an error.

A cell is a date or timestamp of Arrow, or a text in the form of ISO 8601: 2020-12-31, with a time after T or a space
(10:30, 10:30:00, 10:30:00.25), with a zone (Z, +02:00, of old also +00:53:28) or without. A time with a zone is brought
to UTC. Parts of a microsecond are cut off: one such cell makes many programs write all others with nine digits. A year
beyond those that Python's dates have is before, or after, all bounds.
"""

import math
import re
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from sfumato.numerics.types import Floats
from sfumato.tables.columns import Date

_DAY = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
_ZONE = r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d|:[0-5]\d:[0-5]\d))"
_FORM = f"^{_DAY}({_TIME}{_ZONE}?)?$"
_BEYOND = rf"^([+-]?\d{{5,9}}|-\d{{4}}|0000)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])({_TIME}{_ZONE}?)?$"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone stand for themselves
STAMP = pa.timestamp("us")
LIKE_ONE = r"^[+-]?\d{4,9}-\d\d-"  # every text that is read as a date begins so
_FARTHEST = 1 << 62  # microseconds, beyond all dates


def is_moment(kind: pa.DataType) -> bool:
    """Whether cells of an Arrow type are dates or timestamps."""
    return bool(types.is_date(kind) or types.is_timestamp(kind))


def from_moments(array: Any, column: Date) -> Floats:
    """Steps since low of Arrow's dates and timestamps, NaN where there is none."""
    return _steps(_ticks(array), array.is_null().to_numpy(zero_copy_only=False), column)


def _ticks(array: Any) -> NDArray[np.int64]:
    """Microseconds since 1970 of Arrow's dates and timestamps, within 2^62 of it; 0 where there is none."""
    kind = array.type
    whole = array.cast(pa.int32()).cast(pa.int64()) if types.is_date32(kind) else array.cast(pa.int64())
    ticks = whole.fill_null(0).to_numpy()
    if types.is_date32(kind):
        return _scaled(ticks, 86_400 * 10**6)
    per_second = 10**3 if types.is_date64(kind) else _PER_SECOND[kind.unit]
    return np.asarray(ticks // 1000) if per_second == 10**9 else _scaled(ticks, 10**6 // per_second)


def stamps(array: Any) -> Any:
    """Arrow's dates and timestamps of any unit and zone in one type, and of the same meaning."""
    nothing = array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(_ticks(array), pa.int64(), mask=nothing).cast(STAMP)


def written_out(moments: Any) -> Any:
    """What ``stamps`` gives, written out as texts of the same meaning."""
    points, places = np.unique(moments.cast(pa.int64()).fill_null(0).to_numpy(), return_inverse=True)
    texts = np.array([_text(point) for point in points.tolist()], object)[places]
    nothing = moments.is_null().to_numpy(zero_copy_only=False)
    return pa.array(texts, pa.string(), mask=nothing).cast(pa.large_binary())


def of_object(cell: date | timedelta | np.generic) -> str | None:
    """A point or span of time of Python, NumPy or pandas as ``written_out`` or ``spans`` writes it; None if it is none.

    An object of pandas has a value of NumPy, in UTC and in a unit of its own.
    """
    point: Any = getattr(cell, "asm8", cell)
    if isinstance(point, timedelta | np.timedelta64):
        ticks = _of_numpy(point) if isinstance(point, np.timedelta64) else point // timedelta(microseconds=1)
        return None if ticks is None else _span(ticks)
    ticks = _of_numpy(point) if isinstance(point, np.datetime64) else _since_epoch(point) - _ahead(point)
    return None if ticks is None else _text(ticks)


def _of_numpy(point: np.datetime64 | np.timedelta64) -> int | None:
    """Microseconds of a point or span of time, as ``_ticks`` counts them."""
    if np.isnat(point):
        return None
    if np.datetime_data(point.dtype)[0] not in _PER_SECOND:  # longer than seconds, or shorter than any other
        fine = np.datetime_data(point.dtype)[0] in ("ps", "fs", "as")
        point = point.astype(f"{point.dtype.kind}8[{'us' if fine else 's'}]")
    return _microseconds_of(int(point.astype(np.int64)), np.datetime_data(point.dtype)[0])


def _microseconds_of(ticks: int, unit: str) -> int:
    return ticks // 1000 if unit == "ns" else ticks * (10**6 // _PER_SECOND[unit])


def spans(array: Any) -> Any:
    """Arrow's spans of time of any unit, written out: no column is read from them but as texts."""
    found = array.cast(pa.int64()).to_pylist()
    unit = array.type.unit
    return pa.array([None if x is None else _span(_microseconds_of(x, unit)) for x in found], pa.large_binary())


def _span(microseconds: int) -> str:
    """A span of time as pandas writes it, without parts of a microsecond."""
    days, rest = divmod(microseconds, 86_400 * 10**6)
    clock = (_EPOCH + timedelta(microseconds=rest)).time()
    return f"{days} days {'+' if days < 0 else ''}{clock}"


def _text(microseconds: int) -> str:
    """A point in time as text: only its day at midnight, and any other year for those that dates do not have."""
    if not FIRST <= microseconds < BEHIND:
        return "-0001-12-31" if microseconds < FIRST else "10000-01-01"
    point = _EPOCH + timedelta(microseconds=microseconds)
    return str(point if point.time() != time() else point.date())


def from_text(text: Any, column: Any) -> Floats:
    """Steps since low of dates that are written out, NaN for any other text.

    Each distinct text is read once.
    """
    # imported late, as cells' other readers are
    from pyarrow import compute  # noqa: PLC0415

    coded = compute.dictionary_encode(compute.ascii_trim_whitespace(text).cast(pa.large_binary()))
    words = [_microseconds(word) for word in coded.dictionary.to_pylist()]
    found = np.array([0 if word is None else word for word in words] + [0], np.int64)
    nothing = np.array([word is None for word in words] + [True])
    places = coded.indices.fill_null(len(words)).to_numpy()
    return _steps(found[places], nothing[places], column)


def _scaled(ticks: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    limit = _FARTHEST // factor
    return np.asarray(np.clip(ticks, -limit, limit) * factor)


def _steps(microseconds: NDArray[np.int64], nothing: NDArray[np.bool_], column: Date) -> Floats:
    low = _since_epoch(column.low)
    moved = np.clip(microseconds, -_FARTHEST, _FARTHEST) - low
    length = round(column.length.total_seconds() * 10**6)
    if column.kind == "date":  # the day it is, whatever the time
        day = 86_400 * 10**6
        moved = moved // day * day
    return np.asarray(np.where(nothing, math.nan, moved / length))


def _since_epoch(moment: date) -> int:
    point = moment if isinstance(moment, datetime) else datetime.combine(moment, time())
    passed = point.replace(tzinfo=None) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 10**6 + passed.microseconds


FIRST, BEHIND = _since_epoch(date.min), _since_epoch(date.max) + 86_400 * 10**6  # of the years that dates have


def _microseconds(word: bytes | None) -> int | None:
    """Microseconds since 1970 of a written date, None for any other text."""
    if word is None or len(word) > 48:
        return None
    if re.match(_BEYOND.encode(), word):
        return -_FARTHEST if word.startswith((b"-", b"0000-")) else _FARTHEST
    if not re.match(_FORM.encode(), word):
        return None
    try:
        point = datetime.fromisoformat(word.decode())
    except ValueError:
        return None
    return _since_epoch(point) - _ahead(point)


def _ahead(point: date) -> int:
    """How far the zone of a point is ahead of UTC; a whole number, for UTC may be in none of the years of dates."""
    offset = point.utcoffset() if isinstance(point, datetime) else None
    return 0 if offset is None else offset // timedelta(microseconds=1)


def written(text: str, column: Date) -> float | None:
    """Steps since low, or parts of one, of a written date; None for a text that is none, or a time beside dates."""
    found = _microseconds(text.encode()) if text.isascii() else None
    if found is None or (column.kind == "date" and len(text) > len("2020-12-31")):
        return None
    return (found - _since_epoch(column.low)) / round(column.length.total_seconds() * 10**6)


def at_step(step: float, column: Date) -> date:
    """The date or point in time of an encoded number of steps."""
    return column.low + step * column.length


def from_steps(steps: Floats, column: Date) -> Any:
    """Encoded steps as Arrow's dates or timestamps, each rounded to the nearest step within the bounds."""
    whole = np.clip(np.rint(steps), 0, column.steps).astype(np.int64)
    length = round(column.length.total_seconds() * 10**6)
    points = pa.array(_since_epoch(column.low) + whole * length, pa.int64()).cast(pa.timestamp("us"))
    return points.cast(pa.date32()) if column.kind == "date" else points
