"""What a column is, from noisy counts of its cells. Post-processing: only noisy counts and public facts come in."""

import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Literal

from sfumato.mechanisms.schema_learning.bounds import Bounds
from sfumato.mechanisms.schema_learning.cell_kinds import CellKind
from sfumato.numerics.types import Floats
from sfumato.tables.columns import Category, Column, Date, Flag, Integer, Real, Set, Vector
from sfumato.tables.declared import LEVEL

Guess = Literal["real", "integer", "flag", "category", "date", "datetime", "vector", "set"]

GUESSES: tuple[Guess, ...] = ("real", "integer", "flag", "category", "date", "datetime")  # that may be declared
NUMBERS = ("real", "integer", "date", "datetime", "vector")  # whose bounds are learned
TEXTS = ("category", "set")  # whose values are learned
EVIDENCE = 3.5  # standard deviations of noise that are evidence of cells
_MOST_WHOLE = float((1 << 53) - 1)
_EPOCH = date(1970, 1, 1)
_DAYS = ((date.min - _EPOCH).days, (date.max - _EPOCH).days)
_OF: dict[str, tuple[CellKind, ...]] = {
    "number": (CellKind.WHOLE, CellKind.FRACTION),
    "date": (CellKind.DATE, CellKind.MOMENT),
    "text": (CellKind.YES_NO, CellKind.TEXT),
}


@dataclass(frozen=True, slots=True, eq=False)
class NoisyKinds:
    """NoisyCells counts of a column's cells by kind, with the standard deviation of their noise."""

    counts: Floats
    deviation: float

    def sum(self, *kinds: CellKind) -> float:
        """About how many cells are of these kinds."""
        return float(self.counts[list(kinds)].sum())

    def seen(self, *kinds: CellKind) -> bool:
        """Whether there is evidence of cells of these kinds."""
        return self.sum(*kinds) > EVIDENCE * self.deviation * math.sqrt(len(kinds))

    def guess(self) -> Guess:
        """What the column seems to be; a column without evidence of anything is one of numbers."""
        most = max(_OF, key=lambda name: self.sum(*_OF[name]))
        if most == "text" and self.seen(*_OF["text"]):
            return "category" if self.seen(CellKind.TEXT) else "flag"
        if most == "date" and self.seen(*_OF["date"]):
            return "datetime" if self.seen(CellKind.MOMENT) else "date"
        return "real" if self.seen(CellKind.FRACTION) else "integer"

    def lacks(self, guess: Guess) -> bool:
        """Whether there is evidence of cells that a column of this kind cannot read."""
        read = _OF["date"] if guess in ("date", "datetime") else _OF["number"]
        if guess == "flag":
            read = (*read, CellKind.YES_NO)
        others = [kind for kind in CellKind if kind not in read and kind is not CellKind.MOMENT]
        return self.seen(*others) or any(map(self.seen, others))


def is_flag(guess: Guess, bounds: Bounds) -> bool:
    """Whether whole numbers within first bounds are 0 and 1 alone: in those of octaves, 2 is beyond."""
    return guess == "integer" and bounds.low >= 0 and bounds.high <= 2


def number_column(name: str, guess: Guess, bounds: Bounds, *, missing: bool) -> Column:
    """A column of numbers or dates with learned bounds."""
    level = LEVEL if missing else None
    if guess == "flag":
        return Flag(name, missing=level)
    if guess == "integer":
        low, high = (
            int(min(max(x, -_MOST_WHOLE), _MOST_WHOLE)) for x in (math.floor(bounds.low), math.ceil(bounds.high))
        )
        return Integer(name, low, max(high, low + 1), missing=level)
    if guess in ("date", "datetime"):
        return _date_column(name, guess, bounds, level)
    return Real(name, bounds.low, bounds.high, missing=level)


def _date_column(name: str, guess: Guess, bounds: Bounds, level: str | None) -> Date:
    """A column of dates within learned bounds, in days since 1970."""
    days = [int(min(max(x, _DAYS[0]), _DAYS[1] - 1)) for x in (math.floor(bounds.low), math.ceil(bounds.high))]
    low, high = (_EPOCH + timedelta(days=day) for day in (days[0], max(days[1], days[0] + 1)))
    if guess == "date":
        return Date(name, low, high, missing=level)
    first, last = (datetime.combine(day, time()) for day in (low, high + timedelta(days=1)))
    return Date(name, first, last, missing=level)


def vector_column(name: str, size: int, least: Bounds, largest: Bounds) -> Column:
    """A column of vectors: bounds of its least and of its largest numbers."""
    low, high = min(least.low, largest.low), max(least.high, largest.high)
    return Vector(name, size, low, high)


def text_column(name: str, values: tuple[str, ...], most: int | None, *, missing: bool) -> Column | None:
    """A category, or a set of at most ``most`` items, with learned values; None if there are none."""
    if not values:
        return None
    if most is not None:
        return Set(name, values, most=most)
    level: Any = LEVEL if missing and LEVEL not in values else None
    return Category(name, values, missing=level)
