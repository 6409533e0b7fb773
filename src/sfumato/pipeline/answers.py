"""Answers to questions: numbers with error bars in a table, and the record that a ledger commits to."""

import html
import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato import untrusted
from sfumato.aggregates.asked import PreparedQuestion
from sfumato.aggregates.estimates import AggregateAnswer
from sfumato.errors import MissingDependency
from sfumato.fileformat.manifest import RANDOMNESS, Facts
from sfumato.fileformat.reader import digest
from sfumato.intervals.estimate import Ends, Estimate, Number, Quantity
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.state import Standing
from sfumato.numerics.types import Bools, Floats
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.axes import Axis
from sfumato.queries.questions import Aggregate
from sfumato.tables import dates
from sfumato.tables.columns import DataColumn, Date, Ordinal
from sfumato.version import __version__

_AGGREGATE, _AT = "aggregate", "at"  # columns of an answer's table; the second has levels of histograms, and orders
_UNBIASED = ("count", "histogram", "top", "sum")  # aggregates that are shown as the noise left them
_WIDEST = 40  # letters of a cell that are printed
_LONGEST = 100  # rows that are printed unless all are asked for
NO_ESTIMATE = "-"
WHY_NO_ESTIMATE = f"{NO_ESTIMATE}: no estimate. The noisy number of records in this group is not above 0."


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The answer to a question: one number, or one for each group, aggregate and level.

    estimate  : all numbers with their standard errors and intervals, in the order of the table.
    keys      : what each number is: its group, the aggregate, and the level of a histogram or order of a quantile.
    unbiased  : which numbers are counts and sums; left out, all.
    groups    : how many of the columns of the keys, the first ones, are groups.
    scales    : of each number that is a quantile of dates or of an ordinal, the column whose steps or places it counts.
    epsilon   : what it cost, by itself, at ``delta``.
    record    : what was committed to the ledger, with its digest, for all questions of a batch together.
    dataset   : what the ledger said once it was committed.
    """

    query: str
    estimate: Estimate
    epsilon: float
    record: Facts = field(repr=False)
    dataset: Standing = field(repr=False)
    delta: float = 0.0
    keys: pa.Table | None = field(default=None, repr=False)
    unbiased: Bools | None = field(default=None, repr=False)
    groups: int = 0
    scales: tuple[DataColumn | None, ...] = field(default=(), repr=False)

    @property
    def value(self) -> Number:
        """The noisy answer: a number, or an array in the order of the table.

        Counts and sums are as the noise left them: unbiased, and below zero at times. Other numbers are cut to the
        range that the schema allows. nan: the noise hides whether a group has any records at all.
        """
        if self.unbiased is None:
            return self.estimate.uncut
        found = np.where(self.unbiased, self.estimate.uncut, self.estimate.value)
        return float(found[0]) if self.single else found

    @property
    def single(self) -> bool:
        """Whether the answer is one number."""
        return np.ndim(self.estimate.uncut) == 0

    @property
    def standard_error(self) -> Number:
        """The standard error of the answer: a number, or an array in the order of the table."""
        return self.estimate.standard_error

    def interval(self, level: float = 0.95) -> tuple[Number, Number]:
        """(low, high) that hold the true answer with probability ``level``: each number by itself."""
        return self.estimate.interval(level)

    @property
    def remaining(self) -> float:
        """The largest epsilon that one more pure answer of a session can have, as ``sfumato ledger show`` says."""
        return self.dataset.remaining_under_every_cap()

    def table(self, level: float = 0.95) -> pa.Table:
        """The answer as an Arrow table: groups, aggregate, at, value, standard_error, and the interval low, high.

        A row for each number. ``at`` is there for histograms (the level) and quantiles (the order). A group is null for
        missing cells, and for values that the schema does not list. A value is null where there is no estimate. A name
        that a column of the groups has already gets an underscore. Quantiles of dates and ordinals are numbers of
        steps and places; what these stand for is in ``value_text``, ``low_text`` and ``high_text``.
        """
        low, high = map(np.atleast_1d, self.interval(level))
        value, error = np.atleast_1d(self.value), np.atleast_1d(self.standard_error)
        unknown = np.isnan(value)
        keys = pa.table({_AGGREGATE: ["count"]}) if self.keys is None else self.keys
        masked = {"value": pa.array(value, mask=unknown), "standard_error": pa.array(error, mask=unknown)}
        columns = masked | {"low": pa.array(low), "high": pa.array(high)}
        if any(self.scales):
            read = [("value_text", value), ("low_text", low), ("high_text", high)]
            columns |= {
                name: pa.array(list(map(_reading, self.scales, numbers)), pa.string()) for name, numbers in read
            }
        for name, column in columns.items():
            keys = keys.append_column(_free(name, keys.column_names), column)
        return keys

    def to_pandas(self, level: float = 0.95) -> Any:
        """The answer's table as a pandas data frame."""
        try:
            return self.table(level).to_pandas()
        except ImportError:
            raise MissingDependency("to_pandas needs pandas: pip install pandas") from None

    def to_polars(self, level: float = 0.95) -> Any:
        """The answer's table as a polars data frame."""
        try:
            polars = importlib.import_module("polars")
        except ImportError:
            raise MissingDependency("to_polars needs polars: pip install polars") from None
        return polars.from_arrow(self.table(level))

    def __repr__(self) -> str:
        return f"<answer to {self.query!r}, epsilon={self.epsilon:g}>\n{self}"

    def __str__(self) -> str:
        return "\n".join(written(self, most=_LONGEST))

    def _repr_html_(self) -> str:
        names, rows, right, notes = texts_of(self, 0.95, _LONGEST)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        sides = ["right" if numeric else "left" for numeric in right]
        body = "".join(f"<tr>{_html_row(row, sides)}</tr>" for row in rows)
        below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
        title = html.escape(untrusted.line(self.query))
        return f"<table><caption>{title}</caption><tr>{head}</tr>{body}</table>{below}"


def _html_row(cells: Sequence[str], sides: Sequence[str]) -> str:
    """The cells of a row of an answer's table, as HTML."""
    pairs = zip(cells, sides, strict=True)
    return "".join(f'<td style="text-align: {side}">{html.escape(cell)}</td>' for cell, side in pairs)


def written(answer: Answer, level: float = 0.95, most: int | None = None) -> list[str]:
    """An answer as lines of text: names, one line for each number, and notes below. ``most``: rows to write."""
    names, rows, right, notes = texts_of(answer, level, most)
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        done = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
        return "  ".join(done).rstrip()

    return [line(names), *map(line, rows), *notes]


def summary(answer: Answer, level: float = 0.95) -> str:
    """An answer that is one number as a line: value, standard error and interval."""
    ((*_, value, error, low, high),) = texts_of(answer, level, None)[1]
    known = "no estimate" if value == NO_ESTIMATE else f"{value} +- {error}"
    return f"{known} ({level:.0%}: {low} to {high})"


def texts_of(
    answer: Answer, level: float, most: int | None
) -> tuple[list[str], list[list[str]], list[bool], list[str]]:
    """The names and rows of an answer's table as plain texts, which columns are numbers, and notes on the rows."""
    table, places = answer.table(level), _decimals(answer)
    keys = table.select(range(1 if answer.keys is None else answer.keys.num_columns))
    scales = answer.scales or [None] * len(places)
    rows = []
    for row, digits, scale in zip(table.slice(0, most).to_pylist(), places, scales, strict=False):
        *own, value, error, low, high = list(row.values())[: keys.num_columns + 4]
        ends = [_reading(scale, end) or _rounded(end, digits) for end in (value, low, high)]
        spread = _significant(error) + _unit_of(scale)
        rows.append([*_labels(own, answer.groups), ends[0], spread, ends[1], ends[2]])
    names = [_shown(name) for name in keys.column_names]
    right = [pa.types.is_integer(kind) for kind in keys.schema.types] + [True] * 4
    notes = [WHY_NO_ESTIMATE] * any(row[-4] == NO_ESTIMATE for row in rows)
    if len(rows) < table.num_rows:
        notes.append(f"... {table.num_rows - len(rows):,} more rows: table() has all of them")
    return [*names, "value", "+-", f"low ({level:.0%})", f"high ({level:.0%})"], rows, right, notes


def _decimals(answer: Answer) -> list[int]:
    """How many decimals each number of an answer is shown with: two digits of the least error of its aggregate."""
    values, errors = np.atleast_1d(answer.value), np.atleast_1d(answer.standard_error)
    asked = ["count"] * len(values) if answer.keys is None else answer.keys.column(answer.groups).to_pylist()
    found = {}
    for name in dict.fromkeys(asked):
        own = np.array([other == name for other in asked])
        found[name] = _places(values[own], errors[own])
    return [found[name] for name in asked]


def _places(values: Floats, errors: Floats) -> int:
    known = errors[np.isfinite(values) & np.isfinite(errors) & (errors > 0)]
    if not known.size or np.all(values[np.isfinite(values)] % 1 == 0):
        return 0
    return _after_point(float(known.min()), 2)


def _after_point(number: float, digits: int) -> int:
    """How many decimals show so many digits of a number."""
    return min(max(digits - 1 - math.floor(math.log10(number)), 0), 15)


def _rounded(value: float | None, decimals: int) -> str:
    if value is None:
        return NO_ESTIMATE
    shown = f"{value:,.{decimals}f}" if abs(value) < 1e15 else f"{value:.6g}"
    return shown.removeprefix("-") if float(shown.replace(",", "")) == 0 else shown


def _significant(error: float | None) -> str:
    """A standard error with three digits."""
    if error is None:
        return NO_ESTIMATE
    if not 0 < error < 1e15:
        return f"{error:g}"
    return f"{error:,.{_after_point(error, 3)}f}"


def _reading(scale: DataColumn | None, number: float | None) -> str | None:
    """The date, or the value of an ordinal, that a number of steps or places stands for."""
    if number is None or math.isnan(number):
        return None
    if isinstance(scale, Ordinal):
        return _shown(scale.values[round(number)])
    return str(dates.at_step(round(number), scale)) if isinstance(scale, Date) else None


def _unit_of(scale: DataColumn | None) -> str:
    return {Ordinal: " places", Date: " steps"}.get(type(scale), "")


def _labels(keys: Sequence[object], groups: int) -> list[str]:
    """What a number is, as texts: of its group, its aggregate, and its level or order, if it has one."""
    return [_shown(key) if key is not None or place < groups else "" for place, key in enumerate(keys)]


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "missing", True: "true", False: "false"}[value]
    return untrusted.line(value, _WIDEST)


def _free(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else _free(name + "_", taken)


def assembled(prepared: PreparedQuestion, parts: Sequence[AggregateAnswer]) -> tuple[Estimate, Facts]:
    """All numbers of an answer as one estimate, aggregate by aggregate and group by group, and what each of them is."""
    names = _headings(prepared)
    named = {new: _free(new, names) for new in (_AGGREGATE, _AT)}
    tables = [_keys(prepared, part, named) for part in parts]
    keys = pa.concat_tables(tables)
    if keys[named[_AT]].null_count == len(keys):
        keys = keys.drop_columns([named[_AT]])
    unbiased = [np.full(len(t), p.aggregate.name in _UNBIASED) for t, p in zip(tables, parts, strict=True)]
    scales = [_scale(part.aggregate) for part, table in zip(parts, tables, strict=True) for _ in range(len(table))]
    described = {"keys": keys, "unbiased": np.concatenate(unbiased), "groups": len(names), "scales": tuple(scales)}
    return _joined([part.estimate for part in parts]), described


def _scale(aggregate: Aggregate) -> DataColumn | None:
    """The column whose steps or places an aggregate's numbers count, if they do."""
    of_values = aggregate.name == "quantile" and isinstance(aggregate.column, Ordinal | Date)
    return aggregate.column if of_values else None


def _keys(prepared: PreparedQuestion, part: AggregateAnswer, named: dict[str, str]) -> pa.Table:
    groups, count = prepared.question.groups, len(part.labels)
    shown = np.tile(np.arange(count), (groups, 1)) if part.places is None else part.places
    of_group = np.repeat(np.arange(groups), shown.shape[1])
    columns: dict[str, pa.Array] = {}
    after = groups
    for name, axis in zip(_headings(prepared), prepared.question.by, strict=True):
        after //= axis.size
        columns[name] = _levels(axis).take(pa.array(of_group // after % axis.size))
    columns[named[_AGGREGATE]] = pa.array([part.aggregate.text] * len(of_group))
    columns[named[_AT]] = pa.array(part.labels, pa.string()).take(pa.array(shown.ravel()))
    return pa.table(columns)


def _headings(prepared: PreparedQuestion) -> tuple[str, ...]:
    """The names of the groups' columns in an answer."""
    return prepared.question.headings or tuple(axis.name for axis in prepared.question.by)


def _levels(axis: Axis) -> pa.Array:
    """The levels of a group's column in one type: as texts where the schema lists numbers beside texts."""
    levels = list(axis.levels)
    kinds = {type(level) for level in levels if level is not None}
    return pa.array(levels if len(kinds) < 2 else [None if level is None else str(level) for level in levels])


def _joined(estimates: Sequence[Estimate]) -> Estimate:
    """Several estimates as one, number after number."""

    def together(pieces: Sequence[Number]) -> Any:
        return np.concatenate([np.atleast_1d(np.asarray(piece, np.float64)) for piece in pieces])

    def bounds(tail: float) -> Ends:
        ends = [estimate.bounds(tail) for estimate in estimates]
        return together([low for low, _ in ends]), together([high for _, high in ends])

    sizes = [np.size(estimate.uncut) for estimate in estimates]
    limits = [together([np.full(n, e.limits[i]) for n, e in zip(sizes, estimates, strict=True)]) for i in (0, 1)]
    units = {estimate.unit for estimate in estimates}
    value, error = together([e.uncut for e in estimates]), together([e.standard_error for e in estimates])
    if len(value) == 1:
        return Estimate(
            float(value[0]),
            float(error[0]),
            estimates[0].covers,
            lambda tail: tuple(np.asarray(end[0]) for end in bounds(tail)),  # type: ignore[arg-type,return-value]
            estimates[0].quantity,
        )
    return Estimate(
        value, error, estimates[0].covers, bounds, Quantity(units.pop() if len(units) == 1 else "", *limits)
    )


def sealed(guarantee: Guarantee, mechanism: Facts, answers: Sequence[tuple[str, Any]], charge: Reservation) -> Facts:
    """Record of answers that the ledger commits to: the questions and what was published; nothing else of the data."""
    body = {
        "format": "sfumato-answer",
        "version": 1,
        "software": {"sfumato": __version__},
        "kind": "answer",
        "guarantee": guarantee.to_dict(),
        "mechanism": mechanism,
        "answers": [{"query": query, "value": value} for query, value in answers],
        "ledger": {"dataset": charge.name, "entry": charge.number, "hash": charge.hash},
        "numerics": "exact",
        "randomness": RANDOMNESS,
    }
    return body | {"digest": digest(body)}
