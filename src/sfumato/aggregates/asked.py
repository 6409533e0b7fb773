"""A question that is prepared: the statistics it measures, exact sums of them over rows, and noisy answers.

Formal guarantee: a question prepared for (epsilon, delta) is (epsilon, delta)-differentially private for the unit,
neighbours and group of its guarantee. What is published is post-processing of the statistics with exact noise
(``sharing.Spending``), whose moves ``exposure`` and ``statistics`` prove. Groups, levels and grids come from the
schema, never from the data; under ``replace`` the number of rows is public.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.aggregates.estimates import AggregateAnswer, part_of
from sfumato.aggregates.exposure import Exposure
from sfumato.aggregates.quantile_methods import quantile_statistic
from sfumato.aggregates.sharing import Spending
from sfumato.aggregates.statistics import (
    Counted,
    LevelCounts,
    Measured,
    Moments,
    PublicSpread,
    Statistic,
    Totalled,
    check_extremes,
)
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.questions import Aggregate, AggregateQuestion, Asked
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.columns import DataColumn, Date, Flag, Integer, Ordinal, Real
from sfumato.tables.declared import keeps_missing
from sfumato.tables.schema import Schema

MOST_NUMBERS = 1 << 22  # of all statistics of a question, for all groups
_FEWEST_CELLS = 2  # of a grid of quantiles: one cell has no edge that a rank could be of


@dataclass(frozen=True, slots=True)
class PreparedQuestion:
    """A question with what it measures and the noise that this gets. Made by ``prepare``."""

    question: AggregateQuestion
    exposure: Exposure
    statistics: tuple[Statistic, ...]
    of_aggregate: tuple[Statistic | None, ...]
    spending: Spending

    def sums(self, block: Floats, starts: dict[str, int], schema: Schema) -> Integers:
        """The statistics of a block of encoded rows, one after another, and the number of its rows."""
        rows, groups = self._selected(block, starts, schema)
        found = [np.array([block.shape[1]], np.int64)]
        for statistic in self.statistics:
            cells = _cells(block, starts, statistic.column)[:, rows]
            found.append(statistic.added(cells, groups, self.question.groups).ravel())
        return np.concatenate(found)

    def _selected(self, block: Floats, starts: dict[str, int], schema: Schema) -> tuple[Integers, Integers]:
        """The rows that count, and the group of each of them."""
        where = self.question.where
        kept = np.arange(block.shape[1]) if where is None else np.flatnonzero(where.test(schema)(block))
        groups = np.zeros(len(kept), np.int64)
        for axis in self.question.by:
            groups = groups * axis.size + axis.codes_of(_cells(block, starts, axis.column)[:, kept])
        return kept, groups

    def described(self) -> list[dict[str, object]]:
        """What was measured and the noise on it, for the record of an answer."""
        return [
            {"statistic": type(statistic).__name__, **statistic.described(noise)}
            for statistic, noise in zip(self.statistics, self.spending.scales, strict=True)
        ]

    @property
    def length(self) -> int:
        """How many numbers ``sums`` has."""
        return 1 + sum(statistic.numbers for statistic in self.statistics) * self.question.groups

    def exact(self, sums: Integers) -> list[Integers]:
        """What gets the noise: the statistics, each (groups, numbers); the number of rows counts where it is public."""
        found, at, rows = [], 1, int(sums[0]) if self.exposure.public else 0
        for statistic in self.statistics:
            size = statistic.numbers * self.question.groups
            own = sums[at : at + size].reshape(self.question.groups, statistic.numbers)
            found.append(statistic.finished(own, rows))
            at += size
        return found

    def noisy(self, sums: Integers, secret: Secret, turn: int = 0) -> list[Integers]:
        """The statistics with their noise, each (groups, numbers); ``turn`` tells questions of one batch apart."""
        return [
            statistic.published(exact, noise, secret, turn, place, self.question.text)
            for place, (statistic, exact, noise) in enumerate(
                zip(self.statistics, self.exact(sums), self.spending.scales, strict=True)
            )
        ]

    def answered(self, noisy: Sequence[Integers], rows: int) -> tuple[AggregateAnswer, ...]:
        """The answer of each aggregate, from the noisy statistics; ``rows`` counts where it is public."""
        known = {id(s): (n, noise) for s, n, noise in zip(self.statistics, noisy, self.spending.scales, strict=True)}
        most = float(rows) if self.exposure.neighbours == "replace" else None
        parts = []
        for aggregate, statistic in zip(self.question.aggregates, self.of_aggregate, strict=True):
            seen = None if statistic is None else known[id(statistic)]
            parts.append(part_of(aggregate, statistic, seen, self.question.groups, most))
        return tuple(parts)


def prepare(question: AggregateQuestion, guarantee: Guarantee) -> PreparedQuestion:
    """A question at the (epsilon, delta) of a guarantee; refuses what cannot be measured, before a row is read."""
    exposure = Exposure.of(guarantee, question)
    wanted = [_statistic(aggregate, exposure, question, guarantee.delta > 0) for aggregate in question.aggregates]
    if all(statistic is None for statistic in wanted):
        wanted = [Counted() for _ in wanted]
    distinct = tuple(dict.fromkeys(statistic for statistic in wanted if statistic is not None))
    numbers = sum(statistic.numbers for statistic in distinct) * question.groups
    if numbers > MOST_NUMBERS:
        raise ParameterError(
            f"the answer needs {numbers:,} noisy numbers, and at most {MOST_NUMBERS:,} are possible: use fewer groups, "
            "fewer bins, or fewer aggregates"
        )
    same = {statistic: statistic for statistic in distinct}
    chosen = tuple(None if statistic is None else same[statistic] for statistic in wanted)
    spending = Spending.of(distinct, exposure, guarantee.epsilon, guarantee.delta)
    return PreparedQuestion(question, exposure, distinct, chosen, spending)


def sums_of(rows: Rows, schema: Schema, questions: Sequence[PreparedQuestion]) -> list[Integers]:
    """The exact statistics of several questions in one pass over the rows: the same on every engine."""
    starts, at = {}, 0
    for column in schema.data_columns:
        starts[column.name], at = at, at + column.width

    def of_block(_: int, block: Floats) -> Integers:
        return np.concatenate([question.sums(block, starts, schema) for question in questions])

    found = rows.sum(of_block)
    return np.split(found, np.cumsum([question.length for question in questions])[:-1])


def _statistic(
    aggregate: Aggregate, exposure: Exposure, question: AggregateQuestion, gaussian: bool
) -> Statistic | None:
    """What an aggregate measures; None for a number of records that is public. Equal statistics are measured once."""
    if aggregate.name == "count":
        return None if exposure.public else _counted(exposure, question)
    if aggregate.axis is not None:
        return LevelCounts(aggregate.axis)
    if isinstance(aggregate.column, Real | Integer | Flag) and aggregate.name != "quantile":
        asked = {other.name for other in question.aggregates if other.column == aggregate.column}
        return _moments(aggregate.name, aggregate.column, exposure, asked)
    assert isinstance(aggregate.column, Real | Integer | Ordinal | Date)
    asked_of = {other.column for other in question.aggregates if other.name == "quantile"}
    orders = {q for other in question.aggregates if other.column == aggregate.column for q in other.orders}
    beside = {_statistic(o, exposure, question, gaussian) for o in question.aggregates if o.name != "quantile"}
    taken = sum(statistic.numbers for statistic in beside if statistic is not None)
    most = (MOST_NUMBERS // question.groups - taken) // len(asked_of)
    if most < _FEWEST_CELLS:
        raise ParameterError(
            f"quantiles of {len(asked_of)} columns in {question.groups:,} groups are too many at once, for at most "
            f"{MOST_NUMBERS:,} noisy numbers are possible: use fewer groups, or ask in several questions"
        )
    return quantile_statistic(aggregate.column, sorted(orders), exposure, most, gaussian=gaussian)


def _counted(exposure: Exposure, question: AggregateQuestion) -> Statistic:
    """What a count measures: nothing of its own where the moments of a column without missing cells have it already."""
    for other in question.aggregates:
        column = other.column
        if other.name in ("mean", "variance") and isinstance(column, Measured) and not keeps_missing(column):
            asked = {beside.name for beside in question.aggregates if beside.column == column}
            return _moments(other.name, column, exposure, asked)
    return Counted()


def _moments(name: str, column: Measured, exposure: Exposure, asked: set[Asked]) -> Statistic:
    """What a sum, a mean or a variance measures, beside what else is ``asked`` of its column."""
    check_extremes(column)
    if exposure.public and not keeps_missing(column):
        return PublicSpread(column) if name == "variance" else Totalled(column, from_low=True)
    if "variance" in asked:
        return Moments(column, 2)
    if "mean" in asked:
        return Moments(column, 1, centred=exposure.neighbours == "replace" and not exposure.grouped)
    return Totalled(column, from_low=False)


def _cells(block: Floats, starts: dict[str, int], column: DataColumn | None) -> Floats:
    """The encoded cells of a column; of none, no cells of all rows."""
    if column is None:
        return block[:0]
    start = starts[column.name]
    return block[start : start + column.width]
