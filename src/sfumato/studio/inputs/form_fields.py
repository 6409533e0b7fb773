"""The fields of forms, as a browser sends them: every text is checked, and what is wrong is said of its field.

``Field`` and its kinds are the fields of a question. ``number_in``, ``whole_in`` and ``guarantee_in`` read those of
plans, releases and budgets: what is not positive is left to the checks of the parameters themselves.
"""

import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from sfumato import untrusted
from sfumato.errors import ParameterError
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.report.numbers import number

Form: TypeAlias = dict[str, str]

_MOST_FIELDS = 40_000  # more than a wide schema's form has
_LONGEST = 20_000  # letters of any field
_SHOWN_CHOICES, _EXAMPLES = 100, 3  # beyond which a list is typed and not chosen
_MOST_POSITIONS = 1_000_000
_RANGES = {"epsilon": (1e-6, 1e6), "delta": (1e-100, 1.0)}
_RANGE = (1e-30, 1e30)  # of every other number: its fourth power is still one
_MOST_WHOLE = 10**12  # of every whole number
_PART = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Field(ABC):
    """A field of a form. What ``read`` cannot take it refuses with a ParameterError that says what it takes."""

    name: str
    label: str
    default: str
    hint: str = ""

    @abstractmethod
    def read(self, text: str) -> Any:
        """The value that the text of the field stands for."""

    def plain(self) -> dict[str, Any]:
        """The field for a template."""
        return {"name": self.name, "label": self.label, "default": self.default, "hint": self.hint, "choices": None}


@dataclass(frozen=True, slots=True)
class Whole(Field):
    """A form field for a whole number between two others."""

    low: int = 0
    high: int = 0

    def read(self, text: str) -> int:
        """The whole number that the text of the field stands for."""
        found = int(text) if re.fullmatch(r"[0-9]{1,12}", text) else -1
        if not self.low <= found <= self.high:
            raise ParameterError(f"give a whole number from {self.low:,} to {self.high:,}")
        return found

    def plain(self) -> dict[str, Any]:
        """The field for a template, with its range for the browser."""
        hint = self.hint or f"{self.low:,} to {self.high:,}"
        return Field.plain(self) | {"hint": hint, "kind": "number", "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Number(Field):
    """A form field for a finite number between two others."""

    low: float = 0.0
    high: float = 1.0

    def read(self, text: str) -> float:
        """The number that the text of the field stands for."""
        try:
            found = float(text) if len(text) <= 40 else math.nan
        except ValueError:
            found = math.nan
        if not self.low <= found <= self.high:
            raise ParameterError(f"give a number from {number(self.low)} to {number(self.high)}")
        return found

    def plain(self) -> dict[str, Any]:
        """The field for a template."""
        return Field.plain(self) | {"kind": "text"}


@dataclass(frozen=True, slots=True)
class TextLine(Field):
    """A form field for a line of text, such as a question about a record."""

    def read(self, text: str) -> str:
        """The text itself, which must not be empty."""
        if not text:
            raise ParameterError("give a question")
        return text

    def plain(self) -> dict[str, Any]:
        """The field for a template."""
        return Field.plain(self) | {"kind": "long"}


@dataclass(frozen=True, slots=True)
class Choice(Field):
    """A form field for one of a list of names."""

    choices: tuple[str, ...] = ()

    def read(self, text: str) -> str:
        """The name that was chosen."""
        if text not in self.choices:
            raise ParameterError("give one of the names in the list")
        return text

    def plain(self) -> dict[str, Any]:
        """The field for a template; many names are typed."""
        few = len(self.choices) <= _SHOWN_CHOICES
        some = ", ".join(self.choices[:_EXAMPLES])
        hint = self.hint if few else f"{self.hint} One of {len(self.choices):,} names: {some}, ...".strip()
        return Field.plain(self) | {"kind": "text", "choices": list(self.choices) if few else None, "hint": hint}


@dataclass(frozen=True, slots=True)
class Positions(Field):
    """A form field for a set of whole numbers below ``count``: numbers and ranges, such as 0, 5, 8-12."""

    count: int = 1

    def read(self, text: str) -> list[int]:
        """The ranges of positions that the text of the field stands for."""
        found: list[tuple[int, int]] = []
        for part in re.split(r"[,;]", re.sub(r"(?<=\d)\s+(?=\d)", ",", text)):
            match = _PART.fullmatch(part.strip())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if not first <= last < self.count:
                raise ParameterError(f"give numbers from 0 to {self.count - 1:,}, or ranges of them: 0, 5, 8-12")
            found.append((first, last))
        ranges = _merged(found)
        if sum(map(len, ranges)) > _MOST_POSITIONS:
            raise ParameterError(f"give at most {_MOST_POSITIONS:,} numbers, those in ranges included")
        return list(itertools.chain.from_iterable(ranges))

    def plain(self) -> dict[str, Any]:
        """The field for a template."""
        return Field.plain(self) | {"kind": "long"}


def _merged(pairs: list[tuple[int, int]]) -> list[range]:
    """Ranges typed into a form field, from first to last, as ranges in order that do not meet."""
    made: list[range] = []
    for first, last in sorted(pairs):
        start = max(first, made[-1].stop) if made else first
        made.append(range(start, max(start, last + 1)))
    return made


def read(fields: Sequence[Field], form: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of a form's fields, and what is wrong with those that have none; an empty field has its default."""
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field in fields:
        try:
            values[field.name] = field.read(_text(field, form))
        except ParameterError as error:
            wrong[field.name] = str(error)
    return values, wrong


def _text(field: Field, form: Mapping[str, str]) -> str:
    text = form.get(field.name, "")
    if len(text) > _LONGEST:
        raise ParameterError(f"give at most {_LONGEST:,} letters")
    return (text if isinstance(field, Choice) else text.strip()) or field.default


def fields_in(kind: str, body: bytes) -> Form | None:
    """The fields of a form, or of a flat JSON object, as texts; None where the body of a request is neither."""
    try:
        if kind.startswith("application/json"):
            fields = untrusted.loads(body)
            return {str(k): str(v) for k, v in fields.items()} if isinstance(fields, dict) else None
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
    except (ValueError, RecursionError):
        return None


def number_in(fields: Mapping[str, str], name: str, default: float | None = None) -> float | None:
    """The number in a field of a form, of a size that computations can bear; the default where it is empty."""
    text = fields.get(name, "").strip()
    try:
        found = float(text) if text else default
    except ValueError:
        raise ParameterError(f"{name} must be a number") from None
    low, high = _RANGES.get(name, _RANGE)
    if found is not None and found > 0 and not low <= found <= high:
        raise ParameterError(f"{name} must be between {low:g} and {high:g}")
    return found


def whole_in(fields: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    """The whole number in a field of a form, of a size that computations can bear; the default where it is empty."""
    text = fields.get(name, "").strip()
    try:
        found = int(text) if text else default
    except ValueError:
        raise ParameterError(f"{name} must be a whole number") from None
    if found is not None and found > _MOST_WHOLE:
        raise ParameterError(f"{name} must be at most {_MOST_WHOLE:,}")
    return found


def guarantee_in(fields: Mapping[str, str]) -> Guarantee:
    """The guarantee that the fields of a form state."""
    form = dict(fields)
    epsilon, delta, radius = number_in(form, "epsilon"), number_in(form, "delta", 0.0), number_in(form, "radius")
    if epsilon is None:
        raise ParameterError("epsilon must be a positive number")
    kind = form.get("change", "") if form.get("unit") == "record" else ""
    return Guarantee(
        epsilon=epsilon,
        delta=delta or 0.0,
        unit=form.get("unit", ""),  # type: ignore[arg-type]
        neighbours=form.get("neighbours") or "replace",  # type: ignore[arg-type]
        change=Change(kind, radius) if kind else None,  # type: ignore[arg-type]
        group=whole_in(form, "group", 1) or 1,
    )
