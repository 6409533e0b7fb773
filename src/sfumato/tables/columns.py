"""The kinds of columns a table may have, each with what is declared about it."""

import contextlib
import math
import operator
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, get_args

import numpy as np

from sfumato.errors import SchemaError

_UNFILLED: Any = None  # the default of what has to be given


@dataclass(frozen=True, slots=True)
class Real:
    """Numbers in [low, high]. A cell that is missing or unreadable becomes ``missing``, or ``low`` without one."""

    name: str
    low: float = _UNFILLED
    high: float = _UNFILLED
    missing: float | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "real"
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check_text(self.name, "name of a column")
        for key in ("low", "high", "weight") if self.missing is None else ("low", "high", "weight", "missing"):
            object.__setattr__(self, key, _finite(self, key))
        _check_weight(self, self.high - self.low)
        if not self.low < self.high:
            raise SchemaError(f"low of column {self.name!r} must lie below its high, got {self.low!r}, {self.high!r}")
        if self.missing is not None and not self.low <= self.missing <= self.high:
            raise SchemaError(f"missing of column {self.name!r} must lie within its bounds, got {self.missing!r}")


@dataclass(frozen=True, slots=True)
class Flag:
    """False or true, encoded as 0 or 1. A cell that is missing or unreadable becomes ``missing``, or False."""

    name: str
    missing: bool | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "flag"
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check_text(self.name, "name of a column")
        object.__setattr__(self, "weight", _finite(self, "weight"))
        _check_weight(self, 1.0)
        if self.missing is not None and not isinstance(self.missing, bool):
            raise SchemaError(f"missing of column {self.name!r} must be true or false, got {self.missing!r}")


@dataclass(frozen=True, slots=True)
class Category:
    """One of a few listed values, encoded as one 0/1 column for each.

    A cell that is missing or not listed becomes the value ``missing``, or, without one, no value: zeros throughout.
    """

    name: str
    values: tuple[str | int, ...] = _UNFILLED
    missing: str | int | None = None
    weight: float = 1.0
    kind: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        _check_text(self.name, "name of a column")
        if self.values is None:
            raise _left_to_fill_in(self.name, "values")
        if not isinstance(self.values, (list, tuple)) or not self.values:
            raise SchemaError(f"values of column {self.name!r} must be a list of at least one text or whole number")
        object.__setattr__(self, "values", tuple(_category_value(self.name, v) for v in self.values))
        twice = [text for text, count in Counter(map(str, self.values)).items() if count > 1]
        if twice:
            raise SchemaError(f"values of column {self.name!r} must be distinct, got {twice[0]!r} twice")
        object.__setattr__(self, "weight", _finite(self, "weight"))
        _check_weight(self, 1.0)
        if self.missing is not None:
            object.__setattr__(self, "missing", _category_value(self.name, self.missing))
            if self.missing not in self.values:
                raise SchemaError(f"missing of column {self.name!r} must be one of its values, got {self.missing!r}")

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Id:
    """A label of the row, never encoded."""

    name: str
    kind: ClassVar[str] = "id"

    def __post_init__(self) -> None:
        _check_text(self.name, "name of a column")


Column: TypeAlias = Real | Flag | Category | Id
DataColumn: TypeAlias = Real | Flag | Category
KINDS: dict[str, Any] = {c.kind: c for c in get_args(Column)}


def _left_to_fill_in(name: str, key: str) -> SchemaError:
    what = "the bound" if key in ("low", "high") else "the list"
    return SchemaError(
        f"{key} of column {name!r} is left to fill in: take {what} from what you know about the column, not from data"
    )


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str) or not text:
        raise SchemaError(f"the {what} must be a text of at least one character, got {text!r}")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise SchemaError(f"the {what} must be writable in UTF-8, got {text!r}")


def _finite(column: DataColumn, key: str) -> float:
    value = getattr(column, key)
    if value is None:
        raise _left_to_fill_in(column.name, key)
    number = math.nan
    if hasattr(value, "__float__") and not isinstance(value, (bool, np.bool_)):
        with contextlib.suppress(OverflowError):  # of a whole number beyond all doubles
            number = float(value) + 0.0  # -0.0 is 0
    if not math.isfinite(number):
        raise SchemaError(f"{key} of column {column.name!r} must be a finite number, got {value!r}")
    return number


def _check_weight(column: DataColumn, width: float) -> None:
    if not column.weight > 0:
        raise SchemaError(f"weight of column {column.name!r} must be positive, got {column.weight!r}")
    if not math.isfinite(width * column.weight) or width * column.weight == 0 < width:
        raise SchemaError(f"low, high and weight of column {column.name!r} must give a width that a double can hold")


def _category_value(name: str, value: object) -> str | int:
    if isinstance(value, str):
        if value:
            _check_text(value, f"values of column {name!r}")
        return str(value)
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise SchemaError(f"values of column {name!r} must be texts or whole numbers, got {value!r}")
    if operator.index(value).bit_length() > 64:
        raise SchemaError(f"values of column {name!r} that are whole numbers must fit 64 bits")
    return operator.index(value)
