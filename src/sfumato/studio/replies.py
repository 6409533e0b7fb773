"""Questions of the Explore screen and their answers: what templates show of them, and what several kinds share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sfumato.intervals.estimate import Estimate
from sfumato.releases.release import AnyRelease
from sfumato.report.column_words import listing
from sfumato.report.html import Markup
from sfumato.report.numbers import number, percent
from sfumato.studio.inputs.form_fields import Choice, Field

Values: TypeAlias = dict[str, Any]
Row: TypeAlias = tuple[str | int | float, ...]

SHARE = "share"

LEVEL = Choice("level", "Confidence", "95%", "", ("80%", "90%", "95%", "99%", "99.9%"))


def level_in(values: Values) -> float:
    """The confidence level that a question asks for."""
    return float(values["level"].rstrip("%")) / 100


def bar(name: str, found: Estimate, level: float) -> tuple[str, float, float, float, float]:
    """An estimate as a row of the Explore screen's table, with its error bar."""
    low, high = found.interval(level)
    return name, float(found.value), float(found.standard_error), float(low), float(high)


def between(row: tuple[str, float, float, float, float], values: Values) -> str:
    """The interval of an answer in words."""
    return f"with {values['level']} confidence it lies between {number(row[3])} and {number(row[4])}"


def rows_of(names: Sequence[str], *columns: Any) -> tuple[Row, ...]:
    """The Explore screen's table of estimates, from their names and the columns of their numbers."""
    numbers = [np.atleast_1d(np.asarray(column, np.float64)).tolist() for column in columns]
    return tuple(zip(names, *numbers, strict=True))


def interval_names(values: Values) -> tuple[str, ...]:
    """The heads of an answer's columns: an estimate, its error and its interval."""
    return "estimate", "standard error", f"{values['level']} from", "to"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer on the Explore screen: sentence, table of plain values, the estimates in it, warning and picture."""

    sentence: str
    head: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    found: Estimate | None = None  # whose unit and sources of error are stated
    note: str = ""
    picture: Markup | None = None
    named: bool = True  # the first column names its row

    def plain(self) -> dict[str, Any]:
        """The reply for a template: ``shown`` are the rows in words."""
        shares = [self.named and name == SHARE for name in self.head]
        shown = [[_shown(cell, share=s) for cell, s in zip(row, shares, strict=True)] for row in self.rows]
        facts = {"sentence": self.sentence, "head": list(self.head), "rows": [list(row) for row in self.rows]}
        said = {"note": self.note, "picture": self.picture, "named": self.named}
        unit, covers = ("", "") if self.found is None else (self.found.unit, self.found.covers)
        return facts | {"shown": shown, "unit": unit, "covers": covers} | said


def _shown(cell: str | float, *, share: bool) -> str:
    if isinstance(cell, str):
        return cell
    return percent(cell) if share else f"{cell:,}" if isinstance(cell, int) else number(cell)


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the Explore screen with its fields, and who answers it."""

    name: str
    title: str
    text: str
    fields: tuple[Field, ...]
    ask: Callable[[AnyRelease, Values], Reply]

    def plain(self) -> dict[str, Any]:
        """The question for a template."""
        fields = [field.plain() for field in self.fields]
        return {"name": self.name, "title": self.title, "text": self.text, "fields": fields}


def cell_in_words(value: Any) -> str | int | float:
    """A cell of synthetic rows as an answer's table shows it."""
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return listing(value, 3) if isinstance(value, list) else value if isinstance(value, (int, float)) else str(value)
