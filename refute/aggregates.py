"""Contests of questions with aggregates: random texts, answered on two tables with the same outcomes."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from refute import levels, losses, schemas
from refute.luck import chance, pick
from refute.pairs import Neighbourhood, Pair
from refute.released import Storage, both, fault_of, side_by_side
from refute.schemas import Row, Terms
from refute.search import Measured, terms_of
from refute.steering import Steered
from sfumato.aggregates.asked import PreparedQuestion, prepare, sums_of
from sfumato.audit import recorder
from sfumato.audit.recorder import Draw
from sfumato.pipeline.answers import assembled
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.questions import parse_question
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real
from sfumato.tables.schema import Schema

_KINDS = ("real", "real", "integer", "integer", "flag", "category", "ordinal", "date", "datetime")
_MOST_LEVELS = 20  # of a column that groups go by, or that is counted value by value
_MOST_STEPS = 100
_SELDOM = 20  # of so many pairs, one has its intervals computed, which take most of the time
_MANY = " ".join(f"0.{tenth}" for tenth in range(1, 10))  # orders, for which a tree is best
_PLACE = 4  # where a stream's context says which statistic it is for


@dataclass(frozen=True, slots=True)
class Question:
    """The text of a question, as a recipe."""

    text: str

    def prepare(self, of: Schema, guarantee: Guarantee) -> PreparedQuestion:
        """What it measures, with its noise."""
        return prepare(parse_question(self.text, of), guarantee)


@dataclass(frozen=True, slots=True)
class Answered:
    """A batch of questions that are answered together, prepared."""

    recipe: Question
    batch: tuple[PreparedQuestion, ...]
    storage: Storage
    around: Neighbourhood

    @property
    def settings(self) -> str:
        """In one line."""
        kinds = " ".join(column.kind for column in self.around.schema.data_columns)
        times = f" x {len(self.batch)}" if len(self.batch) > 1 else ""
        return f"{self.recipe.text}{times}; {terms_of(self.around.guarantee)}; {kinds}; {self.storage.form}"

    def draw(self, luck: Generator) -> Pair:
        """A pair of neighbours."""
        return self.around.draw(luck)

    def changed(self, luck: Generator, pair: Pair) -> Pair:
        """Another one, close to it."""
        return self.around.changed(luck, pair)

    def measure(self, pair: Pair) -> Measured:
        """Answer both with the same outcomes, and add up what these tell; all else must be the same."""
        tape = Steered(outcome=pair.outcome, stages=("aggregate",))
        again = tape.replay()
        secrets = iter([recorder.secret(tape, pair.outcome), recorder.secret(again, pair.outcome)])

        def run(table: list[Row], folder: Path) -> str:
            return self._said(table, folder, next(secrets), intervals=pair.outcome % _SELDOM == 0)

        results = both(pair, run)
        if fault := fault_of(results, tape, again):
            return Measured(fault=fault)
        if results[0] != results[1]:
            return Measured(fault="what was answered depends on the data beside the noise")
        draws = side_by_side(tape, again)
        whole = losses.share(losses.of(draws), self.around.guarantee)
        counted = [(one, two) for one, two in draws if one.place[1] == one.law and one.place[_PLACE - 1].isdigit()]
        exact = not any(one.law == "choice" for one, _ in draws)
        return Measured(whole, max((self._stage(*pair) for pair in counted), default=None), exact=exact)

    def _said(self, table: list[Row], folder: Path, secret: Secret, *, intervals: bool) -> str:
        """All that an answer shows: names of groups and levels, numbers, errors and, if wanted, intervals."""
        of = self.around.schema
        sums = sums_of(self.storage.rows(of, table, 1, folder), of, self.batch)
        said = []
        for turn, (question, own) in enumerate(zip(self.batch, sums, strict=True)):
            answered = question.answered(question.noisy(own, secret, turn), int(own[0]))
            estimate, described = assembled(question, answered)
            numbers = (estimate.uncut, estimate.standard_error, *(estimate.interval() if intervals else ()))
            shown = [np.asarray(number).tolist() for number in numbers]
            said.append([described["keys"].to_pydict(), shown, question.described()])
        return json.dumps(said, default=str)

    def _stage(self, one: Draw, two: Draw) -> float:
        """How far a statistic moved, over what it states; selections of quantiles state no move."""
        place = int(one.place[_PLACE])
        gaps = [abs(int(a) - int(b)) for a, b in zip(one.fed.ravel().tolist(), two.fed.ravel().tolist(), strict=True)]
        moved = float(np.sqrt(float(sum(gap**2 for gap in gaps)))) if one.law == "gaussian" else sum(gaps)
        return float(moved / self.batch[0].spending.moves[place])


def contest(luck: Generator, *, noise: str) -> Answered:
    """A random question about a random table; sometimes asked twice at half of epsilon each."""
    of = schemas.schema(luck, Terms(kinds=_KINDS, clips=(None,)))
    return _asked(luck, of, _text(luck, of), noise)


def of_moments(luck: Generator) -> Answered:
    """A sum, a mean or a variance of one column alone: what it moves is not hidden by other aggregates."""
    of = schemas.schema(luck, Terms(kinds=("real", "integer"), clips=(None,), columns=1, levels=chance(luck, 0.3)))
    text = f"{pick(luck, ('sum', 'mean', 'variance', 'variance'))}(c0)"
    if chance(luck, 0.4):
        text += f" where {_condition(luck, of.data_columns[0])}"
    return _asked(luck, of, text, pick(luck, ("laplace", "gaussian")))


def of_quantiles(luck: Generator) -> Answered:
    """Quantiles of a column with so many values that they are selected, or counted in a tree of several levels."""
    column = Integer("c0", 0, pick(luck, (300, 700)), missing=pick(luck, (None, 0, "level")))
    text = pick(luck, ("median(c0)", "quantile(c0, 0.9)", "quantile(c0, 0.25 0.5 0.75)", f"quantile(c0, {_MANY})"))
    return _asked(luck, Schema((column, Flag("c1"))), text + pick(luck, ("", " where c1", " by c1")), "laplace")


def _asked(luck: Generator, of: Schema, text: str, noise: str) -> Answered:
    promise = schemas.promise(luck, of, noise, comes=True)
    promise = replace(promise, change=None, delta=0.0 if noise == "laplace" else promise.delta)
    recipe = Question(text)
    times = 2 if noise == "laplace" and chance(luck, 0.2) else 1
    each = replace(promise, epsilon=promise.epsilon / times)
    batch = tuple(levels.prepared(recipe, of, each) for _ in range(times))
    least = 0 if promise.neighbours == "add-remove" else 1
    around = Neighbourhood(schema=of, guarantee=promise, least=least, most=6)
    return Answered(recipe, batch, Storage.drawn(luck), around)


# ---- texts ----------------------------------------------------------------------------------------------------------


def _text(luck: Generator, of: Schema) -> str:
    columns = of.data_columns
    text = ", ".join(_aggregate(luck, pick(luck, columns)) for _ in range(pick(luck, (1, 1, 1, 2, 4))))
    if chance(luck, 0.4):
        text += f" where {_condition(luck, pick(luck, columns))}"
    groups = [column.name for column in columns if _few(column)]
    if groups and chance(luck, 0.4):
        text += " by " + ", ".join(groups[: int(luck.integers(1, len(groups) + 1))])
    return text


def _few(column: DataColumn) -> bool:
    """Whether groups may go by the values of a column."""
    few = isinstance(column, Integer) and column.high - column.low < _MOST_LEVELS
    return few or isinstance(column, Flag | Category | Ordinal)


def _short(column: DataColumn) -> bool:
    """Whether a date has so few steps that every cell of its grid can be looked at."""
    return isinstance(column, Date) and column.steps <= _MOST_STEPS


def _aggregate(luck: Generator, column: DataColumn) -> str:
    known = ["count"]
    if isinstance(column, Real | Integer | Flag):
        known += [f"{name}({column.name})" for name in ("sum", "sum", "mean", "mean", "variance", "variance")]
    if isinstance(column, Ordinal | Integer | Date) and (_few(column) or _short(column)):
        known += [
            f"median({column.name})",
            f"quantile({column.name}, {pick(luck, ('0.9', '0.01 0.3', '0.25 0.5 0.75'))})",
        ]
    if isinstance(column, Flag | Category):
        known.append(f"histogram({column.name})")
    else:
        known.append(f"histogram({column.name}, {pick(luck, (1, 2, 5))})")
    if _few(column):
        known.append(f"top({column.name}, {pick(luck, (1, 3))})")
    return pick(luck, known)


def _condition(luck: Generator, column: DataColumn) -> str:
    if isinstance(column, Flag):
        return pick(luck, (column.name, f"not {column.name}"))
    if isinstance(column, Real | Integer):
        middle: Any = pick(luck, (column.low, column.high, (column.low + column.high) / 2))
        return f"{column.name} {pick(luck, ('<', '<=', '>', '!='))} {middle!r}"
    if isinstance(column, Category | Ordinal):
        return f"{column.name} {pick(luck, ('==', '!='))} {pick(luck, column.values)!r}"
    return f"{column.name} >= 2020-02-01"
