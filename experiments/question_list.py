"""Twenty questions about Adult as its owner would ask them, their true answers, and how far an answer is from them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from sfumato.numerics.types import Floats
from sfumato.tables.columns import Category, Integer
from sfumato.tables.schema import Schema

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {"=": np.equal, ">=": np.greater_equal}
_TINY = 1e-12  # rounding of a true mean


@dataclass(frozen=True, slots=True)
class Part:
    """One aggregate. ``numbers``: probabilities of quantiles, parts of a histogram, places of a top list."""

    kind: str
    column: str = ""
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question in the words of ``ask``, and what it says: aggregates of the rows that are meant, for each group."""

    text: str
    parts: tuple[Part, ...]
    where: tuple[tuple[str, str, Any], ...] = ()
    by: str = ""

    @property
    def relative(self) -> bool:
        """Whether errors are parts of the true answers: aggregates of one ask may have units of their own."""
        return len(self.parts) > 1

    @property
    def ranked(self) -> bool:
        """Whether its answers are quantiles, which have an error in rank too."""
        return self.parts[0].kind == "quantile"


COUNT = Part("count")
QUARTERS = (0.25, 0.5, 0.75)
RICH, WOMEN = ("income_gt50k", "=", 1), ("sex", "=", "Female")
QUESTIONS = (
    Question("count where income_gt50k = 1", (COUNT,), (RICH,)),
    Question("count where age >= 40 and sex = 'Female'", (COUNT,), (("age", ">=", 40), WOMEN)),
    Question("count by sex", (COUNT,), by="sex"),
    Question("count by education", (COUNT,), by="education"),
    Question("histogram(age, 10)", (Part("histogram", "age", (10,)),)),
    Question("sum(hours_per_week)", (Part("sum", "hours_per_week"),)),
    Question("mean(age)", (Part("mean", "age"),)),
    Question("mean(hours_per_week) where sex = 'Female'", (Part("mean", "hours_per_week"),), (WOMEN,)),
    Question("mean(age) by sex", (Part("mean", "age"),), by="sex"),
    Question("mean(hours_per_week) by education", (Part("mean", "hours_per_week"),), by="education"),
    Question("variance(age)", (Part("variance", "age"),)),
    Question("variance(capital_gain)", (Part("variance", "capital_gain"),)),
    Question("median(age)", (Part("quantile", "age", (0.5,)),)),
    Question("quantile(age, 0.25 0.5 0.75)", (Part("quantile", "age", QUARTERS),)),
    Question("median(fnlwgt)", (Part("quantile", "fnlwgt", (0.5,)),)),
    Question("quantile(fnlwgt, 0.25 0.5 0.75)", (Part("quantile", "fnlwgt", QUARTERS),)),
    Question("quantile(age, 0.25 0.5 0.75) by sex", (Part("quantile", "age", QUARTERS),), by="sex"),
    Question("top(occupation, 5)", (Part("top", "occupation", (5,)),)),
    Question(
        "mean(age), mean(hours_per_week), mean(education_num)",
        tuple(Part("mean", c) for c in ("age", "hours_per_week", "education_num")),
    ),
    Question("count, mean(age) where income_gt50k = 1", (COUNT, Part("mean", "age")), (RICH,)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A table as integers, categories as places among their levels, with what is publicly known of its columns."""

    codes: dict[str, Any]
    bounds: dict[str, tuple[int, int]]
    levels: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, rows: pd.DataFrame, schema: Schema) -> "Asked":
        """The columns that the questions name."""
        named = {p.column for q in QUESTIONS for p in q.parts} | {c for q in QUESTIONS for c, _, _ in q.where}
        known = {c.name: c for c in schema.data_columns if c.name in named | {q.by for q in QUESTIONS}}
        numbers = {n: c for n, c in known.items() if isinstance(c, Integer)}
        listed = {n: tuple(c.values) for n, c in known.items() if isinstance(c, Category)}
        codes = {n: rows[n].to_numpy(np.int64).clip(c.low, c.high) for n, c in numbers.items()}
        codes |= {n: pd.Categorical(rows[n], categories=list(v)).codes.astype(np.int64) for n, v in listed.items()}
        return cls(codes, {n: (c.low, c.high) for n, c in numbers.items()}, listed)

    def condition(self, term: tuple[str, str, Any]) -> tuple[str, str, int]:
        """A comparison, with the place of a level instead of the level."""
        name, sign, value = term
        return name, sign, self.levels[name].index(value) if name in self.levels else value

    def meant(self, question: Question) -> Any:
        """Which rows the question is about."""
        found = np.full(len(next(iter(self.codes.values()))), True)
        for name, sign, value in map(self.condition, question.where):
            found &= _SIGNS[sign](self.codes[name], value)
        return found

    def bins(self, part: Part) -> Any:
        """The part of each row in a histogram: parts of whole numbers, as equal as can be."""
        (low, high), parts = self.bounds[part.column], int(part.numbers[0])
        cuts = [low + (high + 1 - low) * i // parts for i in range(1, parts)]
        return np.searchsorted(cuts, self.codes[part.column], "right")

    def groups(self, question: Question) -> list[Any]:
        """Which rows are in each group, in the order of the levels."""
        rows = self.meant(question)
        if not question.by:
            return [rows]
        return [rows & (self.codes[question.by] == level) for level in range(len(self.levels[question.by]))]

    def as_values(self) -> dict[str, Any]:
        """What a rival is told of the columns and questions, for JSON."""
        asked = [asdict(q) | {"where": [self.condition(t) for t in q.where]} for q in QUESTIONS]
        return {"questions": asked, "bounds": self.bounds, "levels": {n: len(v) for n, v in self.levels.items()}}


def truth(asked: Asked, question: Question) -> Floats:
    """The true answer: for each group and aggregate its numbers, in this order. Of a top list, the places of levels."""
    found = [_part(asked, part, rows) for rows in asked.groups(question) for part in question.parts]
    return np.concatenate(found)


def _part(asked: Asked, part: Part, rows: Any) -> Floats:
    if part.kind == "count":
        return np.array([float(rows.sum())])
    if part.kind == "histogram":
        return np.bincount(asked.bins(part)[rows], minlength=int(part.numbers[0])).astype(float)
    values = asked.codes[part.column][rows]
    if part.kind == "top":
        return np.argsort(-np.bincount(values, minlength=len(asked.levels[part.column])))[: int(part.numbers[0])] * 1.0
    if part.kind == "quantile":
        return np.quantile(values, part.numbers, method="inverted_cdf").astype(float)
    return np.array([float({"sum": np.sum, "mean": np.mean, "variance": np.var}[part.kind](values))])


def errors(asked: Asked, question: Question, answers: Any) -> Floats:
    """Of each repetition, the mean absolute error of the numbers of its answer.

    Of a quantile: how far it is from all numbers that are this quantile. Of a top list: by how many records the level
    in each place differs from the one that belongs there. Of several aggregates: in percent of the true answer.
    Answers outside of what the public bounds allow are moved to its edge first, and those that are none to its middle.
    """
    given = _within(asked, question, np.asarray(answers, float))
    if question.ranked:
        return _quantile_errors(asked, question, given, _outside)
    right = truth(asked, question)
    if question.parts[0].kind == "top":
        counts = np.bincount(asked.codes[question.parts[0].column])
        return np.abs(counts[given.astype(int)] - counts[right.astype(int)]).mean(axis=1)
    return np.asarray(np.abs(given - right) / (np.abs(right) / 100 if question.relative else 1.0)).mean(axis=1)


def _within(asked: Asked, question: Question, given: Floats) -> Floats:
    """Answers within what is possible: counts of at least 0, means and quantiles within the bounds."""
    ranges = [r for part in question.parts for r in _ranges(asked, part)]
    low, high = np.array(ranges * (given.shape[1] // len(ranges))).T
    return np.clip(np.where(np.isnan(given), (low + high) / 2, given), low, high)


def _ranges(asked: Asked, part: Part) -> list[tuple[float, float]]:
    if part.kind in ("count", "histogram", "top"):
        return [(0.0, 1e300)] * int(part.numbers[0] if part.numbers else 1)
    low, high = asked.bounds[part.column]
    if part.kind == "sum":
        return [(-1e300, 1e300)]
    return [(0.0, (high - low) ** 2 / 4) if part.kind == "variance" else (low, high)] * max(len(part.numbers), 1)


def held(asked: Asked, question: Question, answers: Floats, low: Floats, high: Floats) -> Any:
    """Of each repetition and number, whether the interval holds the truth.

    Of a quantile, whether it holds a number that is this quantile; of a top list, the true count of the level shown.
    """
    if question.parts[0].kind == "top":
        right = np.bincount(asked.codes[question.parts[0].column])[answers.astype(int)]
        return (low <= right) & (right <= high)
    if not question.ranked:
        right = truth(asked, question)
        return (low - _TINY * np.abs(right) <= right) & (right <= high + _TINY * np.abs(right))
    part = question.parts[0]
    sets = [_all_of(np.sort(asked.codes[part.column][r]), q) for r in asked.groups(question) for q in part.numbers]
    least, most = np.array(sets).T
    return (low <= most) & (least <= high)


def rank_errors(asked: Asked, question: Question, answers: Any) -> Floats:
    """Of each repetition, the mean number of records between an answer and the rank that was asked for."""
    return _quantile_errors(asked, question, np.asarray(answers, float), _ranks_away)


def _quantile_errors(asked: Asked, question: Question, given: Floats, measure: Callable[..., Floats]) -> Floats:
    part, found = question.parts[0], []
    for place, rows in enumerate(asked.groups(question)):
        values = np.sort(asked.codes[part.column][rows])
        own = given[:, place * len(part.numbers) :]
        found += [measure(values, own[:, i], probability) for i, probability in enumerate(part.numbers)]
    return np.mean(found, axis=0)


def _all_of(values: Any, probability: float) -> tuple[int, int]:
    """The least and largest number that is this quantile of sorted values."""
    rank = probability * len(values)
    return values[int(np.ceil(rank)) - 1], values[min(int(np.floor(rank)), len(values) - 1)]


def _outside(values: Any, given: Floats, probability: float) -> Floats:
    low, high = _all_of(values, probability)
    return np.maximum(0.0, np.maximum(low - given, given - high))


def _ranks_away(values: Any, given: Floats, probability: float) -> Floats:
    below, upto = (np.searchsorted(values, given, side) for side in ("left", "right"))
    rank = probability * len(values)
    return np.maximum(0.0, np.maximum(below - rank, rank - upto))


def named(text: str, questions: Sequence[Question] = QUESTIONS) -> Question:
    """The question of this text."""
    return next(q for q in questions if q.text == text)
