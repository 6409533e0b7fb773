"""The kinds of columns a table may have, each with what is declared about it.

A missing or unreadable cell becomes what ``missing`` says. ``missing="level"`` keeps missingness as information: one
more encoded column tells whether the cell was missing (of a category, one more level).
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, TypeAlias

from sfumato.errors import SchemaError
from sfumato.tables.declared import (
    LEVEL,
    check_bounds,
    check_count,
    check_length,
    check_missing_within,
    check_text,
    check_values,
    check_weight,
    finite,
    keeps_missing,
    moment,
    names_of,
    settle_number,
    whole,
)
from sfumato.tables.patterns import open_patterns

_UNFILLED: Any = None  # the default of what has to be given


class _OneNumber:
    """A column that is one number once it is encoded, and one more where missingness is kept."""

    __slots__ = ()

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return 1 + keeps_missing(self)


@dataclass(frozen=True, slots=True)
class Real(_OneNumber):
    """Numbers in [low, high]. A cell that is missing or unreadable becomes ``missing``, or ``low`` without one."""

    name: str
    low: float = _UNFILLED
    high: float = _UNFILLED
    missing: float | str | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        settle_number(self, finite)


@dataclass(frozen=True, slots=True)
class Integer(_OneNumber):
    """Whole numbers from low to high; others are rounded. A missing or unreadable cell becomes ``missing``, or low."""

    name: str
    low: int = _UNFILLED
    high: int = _UNFILLED
    missing: int | str | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        settle_number(self, whole)


@dataclass(frozen=True, slots=True)
class Flag(_OneNumber):
    """False or true, encoded as 0 or 1. A cell that is missing or unreadable becomes ``missing``, or False."""

    name: str
    missing: bool | str | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "flag"

    def __post_init__(self) -> None:
        check_text(self.name, "name of a column")
        check_weight(self, 1.0)
        if self.missing not in (None, LEVEL) and not isinstance(self.missing, bool):
            raise SchemaError(f"missing of column {self.name!r} must be true, false or {LEVEL!r}, got {self.missing!r}")


@dataclass(frozen=True, slots=True)
class Ordinal(_OneNumber):
    """One of a few listed values in their order, encoded as its place: 0 for the first.

    A cell that is missing or not listed becomes the value ``missing``, or, without one, the first.
    """

    name: str
    values: tuple[str | int, ...] = _UNFILLED
    missing: str | int | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "ordinal"

    def __post_init__(self) -> None:
        check_text(self.name, "name of a column")
        check_values(self)
        if len(self.values) < 2:
            raise SchemaError(f"values of column {self.name!r} must be at least two, in their order")
        check_weight(self, len(self.values) - 1.0)


@dataclass(frozen=True, slots=True)
class Category:
    """One of a few listed values, encoded as one 0/1 column for each.

    A cell that is missing or not listed becomes the value ``missing``, or, without one, no value: zeros throughout.
    With ``missing="level"``, where no value is called so, it gets a column of its own.
    """

    name: str
    values: tuple[str | int, ...] = _UNFILLED
    missing: str | int | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        check_text(self.name, "name of a column")
        check_values(self)
        check_weight(self, 1.0)

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.values) + keeps_missing(self)


@dataclass(frozen=True, slots=True)
class Date(_OneNumber):
    """Dates from low to high, or points in time where the bounds are (kind ``datetime``), encoded as steps since low.

    step    : of days, or of seconds; cells are rounded to the nearest.
    missing : what a missing or unreadable cell becomes; without one, ``low``.
    A time with a zone is brought to UTC; one without stays as it is.
    """

    name: str
    low: date = _UNFILLED
    high: date = _UNFILLED
    step: float = 1
    missing: date | str | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_text(self.name, "name of a column")
        keys = ("low", "high") if self.missing in (None, LEVEL) else ("low", "high", "missing")
        for key in keys:
            object.__setattr__(self, key, moment(self, key))
        if len({isinstance(getattr(self, key), datetime) for key in keys}) > 1:
            raise SchemaError(
                f"{', '.join(keys)} of column {self.name!r} must be dates, or all of them dates with times"
            )
        step = finite(self, "step")
        if self.kind == "date" and not step.is_integer():
            raise SchemaError(f"step of column {self.name!r} must be a whole number of days, got {step!r}")
        most = 1e7 if self.kind == "date" else 1e12  # longer than the years that dates have
        if not 1e-6 <= step <= most:
            raise SchemaError(f"step of column {self.name!r} must lie between 1e-6 and {most:g}, got {step!r}")
        object.__setattr__(self, "step", int(step) if step.is_integer() else step)
        check_bounds(self, float(self.steps) if self.low < self.high else -1.0)
        check_missing_within(self)

    @property
    def kind(self) -> str:
        """``datetime`` where the bounds have times, else ``date``."""
        return "datetime" if isinstance(self.low, datetime) else "date"

    @property
    def length(self) -> timedelta:
        """How long one step is."""
        return timedelta(seconds=self.step) if self.kind == "datetime" else timedelta(days=self.step)

    @property
    def steps(self) -> int:
        """How many whole steps there are from low to high."""
        return (self.high - self.low) // self.length


@dataclass(frozen=True, slots=True)
class Vector:
    """``size`` numbers in [low, high] each: an embedding, an image, readings of alike sensors.

    bound   : the largest Euclidean length, if given; longer vectors are shortened to it.
    columns : the columns of the table that hold the numbers, a list or a pattern; without them, one column of lists.
    whole   : the unit ``attribute`` protects the vector as one value; if false, each of its numbers is a value.
    A missing cell, or a list of another length, becomes the numbers nearest to 0 within the bounds; so does a number.
    """

    name: str
    size: int = _UNFILLED
    low: float = _UNFILLED
    high: float = _UNFILLED
    bound: float | None = None
    columns: Any = None  # once made, a tuple of names or None
    whole: bool = True
    weight: float = 1.0
    kind: ClassVar[str] = "vector"
    missing: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_text(self.name, "name of a column")
        if self.columns is not None:
            self._settle_columns(names_of(self, self.columns))
        if self.size is not None or self.columns is None:
            check_count(self, "size")
        for key in ("low", "high") if self.bound is None else ("low", "high", "bound"):
            object.__setattr__(self, key, finite(self, key))
        check_bounds(self, self.high - self.low)
        if self.bound is not None:
            check_length(self)
        if not isinstance(self.whole, bool):
            raise SchemaError(f"whole of column {self.name!r} must be true or false, got {self.whole!r}")
        if self.bound is not None and not self.whole:
            raise SchemaError(
                f"bound of column {self.name!r} lets one number move all the others: leave out bound, or whole = false"
            )
        if self.bound is not None and not self.low <= 0 <= self.high:
            raise SchemaError(f"bound of column {self.name!r} needs low <= 0 <= high: shortened vectors go towards 0")

    def _settle_columns(self, names: tuple[str, ...]) -> None:
        object.__setattr__(self, "columns", names)
        if open_patterns([self]):
            return  # the size is known once a table has settled them
        object.__setattr__(self, "size", len(names) if self.size is None else self.size)
        if len(names) != self.size:
            raise SchemaError(f"size of column {self.name!r} is {self.size}, and it names {len(names)} columns")

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return self.size


@dataclass(frozen=True, slots=True)
class Set:
    """A list of items, encoded as one 0/1 column for each listed value, or for each of ``buckets`` that items hash to.

    most : how many items a record may have at most; of more, those that come first in the encoding are kept.
    A missing cell is the empty set; an item that is not listed, or missing, is none.
    """

    name: str
    values: tuple[str | int, ...] | None = None
    most: int = _UNFILLED
    buckets: int | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "set"
    missing: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_text(self.name, "name of a column")
        if (self.values is None) == (self.buckets is None):
            raise SchemaError(f"column {self.name!r} needs either values, a list of the items, or a number of buckets")
        if self.values is not None:
            check_values(self)
        else:
            check_count(self, "buckets")
        check_count(self, "most")
        object.__setattr__(self, "most", min(self.most, self.width))
        check_weight(self, 1.0)

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.values) if self.values is not None else int(self.buckets or 0)


@dataclass(frozen=True, slots=True)
class Id:
    """A label of the row, never encoded."""

    name: str
    kind: ClassVar[str] = "id"

    def __post_init__(self) -> None:
        check_text(self.name, "name of a column")


Column: TypeAlias = Real | Integer | Flag | Ordinal | Category | Date | Vector | Set | Id
DataColumn: TypeAlias = Real | Integer | Flag | Ordinal | Category | Date | Vector | Set
Number: TypeAlias = Real | Integer
Listed: TypeAlias = Ordinal | Category | Set
KINDS: dict[str, Any] = {
    "real": Real,
    "integer": Integer,
    "flag": Flag,
    "ordinal": Ordinal,
    "category": Category,
    "date": Date,
    "datetime": Date,
    "vector": Vector,
    "set": Set,
    "id": Id,
}
NEEDED: dict[str, tuple[str, ...]] = {
    "real": ("low", "high"),
    "integer": ("low", "high"),
    "ordinal": ("values",),
    "category": ("values",),
    "date": ("low", "high"),
    "datetime": ("low", "high"),
    "vector": ("size", "low", "high"),
    "set": ("values", "most"),
}  # what a draft leaves to fill in; a set may have buckets instead of values, and columns give a vector its size


def source_names(column: Column) -> tuple[str, ...]:
    """The columns of the table that a column is read from: its own name, or those of a vector's numbers."""
    return column.columns or (column.name,) if isinstance(column, Vector) else (column.name,)
