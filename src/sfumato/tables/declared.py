"""Checks of what is declared about a column, shared by its kinds; each refuses with the column's name and the key."""

import contextlib
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from sfumato import untrusted
from sfumato.errors import SchemaError
from sfumato.tables import patterns

LEVEL = "level"  # what ``missing`` says where missingness is kept
_WHOLE = 1 << 53  # below it, doubles hold every whole number
_CLOSEST = 2.0**-30  # of two bounds whose middle is worth a place, over their size
_LONGEST = 1e100  # length of a vector; its square, and that of its reciprocal, are ordinary numbers
_MOST_CODES = 1 << 20  # encoded columns of one vector or set
_MOST_TOLD = 50  # problems in one message


def gathered(problems: Sequence[str]) -> SchemaError:
    """One refusal for every problem of a declared schema or of a table: a numbered line for each, 50 at most."""
    if len(problems) == 1:
        return SchemaError(problems[0])
    shown = [f"  {number}. {untrusted.line(each)}" for number, each in enumerate(problems[:_MOST_TOLD], 1)]
    more = [f"  ... and {len(problems) - _MOST_TOLD} more"] if len(problems) > _MOST_TOLD else []
    return SchemaError("\n".join([f"{len(problems)} problems:", *shown, *more]), problems)


def told(error: SchemaError) -> Sequence[str]:
    """The problems of a declared schema that an error tells, one by one."""
    return error.problems or (str(error),)


def complaints(check: Callable[..., None], *of: Any) -> list[str]:
    """What a check of something declared refuses, if it does."""
    try:
        check(*of)
    except SchemaError as error:
        return list(told(error))
    return []


def repeated(names: Iterable[str], what: str) -> list[str]:
    """Complaints about declared names that are there more than once."""
    return [
        f"the {what} {name!r} is there more than once: names must be unique"
        for name, count in Counter(names).items()
        if count > 1
    ]


def keeps_missing(column: Any) -> bool:
    """Whether missingness is kept as information; a value that is called ``level`` is a value."""
    return column.missing == LEVEL and LEVEL not in (getattr(column, "values", None) or ())


def left_to_fill_in(name: str, key: str) -> SchemaError:
    """The refusal of a declared column where a key has no value yet."""
    what = "the bound" if key in ("low", "high") else "the list" if key == "values" else "it"
    return SchemaError(
        f"{key} of column {name!r} is left to fill in: take {what} from what you know about the column, not from data"
    )


def check_text(text: object, what: str) -> None:
    """Refuse what cannot be the name of a declared column, or one of its values."""
    if not isinstance(text, str) or not text:
        raise SchemaError(f"the {what} must be a text of at least one character, got {text!r}")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise SchemaError(f"the {what} must be writable in UTF-8, got {text!r}")


def finite(column: Any, key: str) -> float:
    """A declared key as a finite number."""
    value = getattr(column, key)
    if value is None:
        raise left_to_fill_in(column.name, key)
    number = math.nan
    if hasattr(value, "__float__") and not isinstance(value, (bool, np.bool_)):
        with contextlib.suppress(OverflowError):  # of a whole number beyond all doubles
            number = float(value) + 0.0  # -0.0 is 0
    if not math.isfinite(number):
        raise SchemaError(f"{key} of column {column.name!r} must be a finite number, got {value!r}")
    return number


def whole(column: Any, key: str) -> int:
    """A declared key as a whole number that a double holds."""
    number = finite(column, key)
    if not number.is_integer() or abs(number) >= _WHOLE:
        raise SchemaError(
            f"{key} of column {column.name!r} must be a whole number below 2^53, got {getattr(column, key)!r}"
        )
    return int(number)


def check_count(column: Any, key: str) -> None:
    """Settle a declared key that counts something."""
    value = getattr(column, key)
    if value is None:
        raise left_to_fill_in(column.name, key)
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__") or not 1 <= value <= _MOST_CODES:
        raise SchemaError(
            f"{key} of column {column.name!r} must be a whole number from 1 to {_MOST_CODES:,}, got {value!r}"
        )
    object.__setattr__(column, key, operator.index(value))


def moment(column: Any, key: str) -> date:
    """A bound of a date, as it is declared: a date, or a time without a zone, which stands for UTC where it had one."""
    value: object = getattr(column, key)
    if value is None:
        raise left_to_fill_in(column.name, key)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = date.fromisoformat(value) if len(value) <= 10 else datetime.fromisoformat(value)
    if not isinstance(value, date):
        raise SchemaError(f"{key} of column {column.name!r} must be a date such as 2020-12-31, got {value!r}")
    if isinstance(value, datetime):
        value = datetime.fromisoformat(value.isoformat())  # of a subclass, as pandas has one
        try:
            return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        except OverflowError:
            raise SchemaError(f"{key} of column {column.name!r} must lie in the years 1 to 9999, in UTC") from None
    return date(value.year, value.month, value.day)


def names_of(column: Any, names: Iterable[str]) -> tuple[str, ...]:
    """The declared names of the columns that hold the numbers of a vector: a list, a pattern or a numbered range."""
    if not isinstance(names, Iterable):
        raise SchemaError(
            f"columns of the vector {column.name!r} must be a list of names or a pattern such as 'e*', got {names!r}"
        )
    listed = (names,) if isinstance(names, str) else tuple(names)
    for name in listed:
        check_text(name, f"name of a column of the vector {column.name!r}")
    return tuple(each for name in listed for each in patterns.numbered(name))


def check_bounds(column: Any, width: float) -> None:
    """Refuse declared bounds that leave no width, and the weight with them."""
    check_weight(column, width)
    if not width > 0:
        low, high = (_shown(getattr(column, key)) for key in ("low", "high"))
        raise SchemaError(f"low of column {column.name!r} must lie below its high, got {low}, {high}")


def _shown(bound: object) -> str:
    return str(bound) if isinstance(bound, date) else repr(bound)


def check_middle(column: Any) -> None:
    """Refuse declared bounds so close, for their size, that doubles have no middle for missing cells to stand at."""
    if keeps_missing(column) and column.high - column.low < _CLOSEST * max(abs(column.low), abs(column.high)):
        raise SchemaError(
            f"missing of column {column.name!r} cannot be {LEVEL!r}: its bounds are too close to each other for their "
            "size; declare the column as a difference from its low bound"
        )


def check_length(column: Any) -> None:
    """Refuse a declared bound on the length of a vector whose squares doubles could not tell from 0 or infinity."""
    width = column.high - column.low
    if not 0 < 1 / _LONGEST <= column.bound <= _LONGEST or width / column.bound > _LONGEST:
        raise SchemaError(
            f"bound of column {column.name!r} must lie between {1 / _LONGEST:g} and {_LONGEST:g}, and not be smaller "
            f"than its high - low by more than a factor of {_LONGEST:g}, got {column.bound!r}"
        )


def settle_number(column: Any, read: Callable[[Any, str], float]) -> None:
    """Settle a declared column of numbers: bounds, weight, and what a missing cell becomes, each as ``read`` has it."""
    check_text(column.name, "name of a column")
    for key in ("low", "high"):
        object.__setattr__(column, key, read(column, key))
    check_bounds(column, float(column.high - column.low))
    if column.missing not in (None, LEVEL):
        object.__setattr__(column, "missing", read(column, "missing"))
    check_missing_within(column)
    check_middle(column)


def check_missing_within(column: Any) -> None:
    """Refuse a declared value for missing cells that lies outside the bounds."""
    if column.missing not in (None, LEVEL) and not column.low <= column.missing <= column.high:
        raise SchemaError(f"missing of column {column.name!r} must lie within its bounds, got {_shown(column.missing)}")


def check_weight(column: Any, width: float) -> None:
    """Settle the declared weight of a column of this width."""
    object.__setattr__(column, "weight", finite(column, "weight"))
    if not column.weight > 0:
        raise SchemaError(f"weight of column {column.name!r} must be positive, got {column.weight!r}")
    if not math.isfinite(width * column.weight) or width * column.weight == 0 < width:
        raise SchemaError(f"low, high and weight of column {column.name!r} must give a width that a double can hold")


def check_values(column: Any) -> None:
    """Settle the listed values of a column, and what a missing cell becomes, if that is a value."""
    if column.values is None:
        raise left_to_fill_in(column.name, "values")
    if not isinstance(column.values, (list, tuple)) or not column.values:
        raise SchemaError(f"values of column {column.name!r} must be a list of at least one text or whole number")
    object.__setattr__(column, "values", tuple(_listed_value(column.name, v) for v in column.values))
    twice = [text for text, count in Counter(map(str, column.values)).items() if count > 1]
    if twice:
        raise SchemaError(f"values of column {column.name!r} must be distinct, got {twice[0]!r} twice")
    if column.missing is None or keeps_missing(column):
        return
    object.__setattr__(column, "missing", _listed_value(column.name, column.missing))
    if column.missing not in column.values:
        raise SchemaError(f"missing of column {column.name!r} must be one of its values, got {column.missing!r}")


def _listed_value(name: str, value: object) -> str | int:
    if isinstance(value, str):
        if value:
            check_text(value, f"values of column {name!r}")
        return str(value)
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise SchemaError(f"values of column {name!r} must be texts or whole numbers, got {value!r}")
    if operator.index(value).bit_length() > 64:
        raise SchemaError(f"values of column {name!r} that are whole numbers must fit 64 bits")
    return operator.index(value)
