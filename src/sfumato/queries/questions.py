"""Questions with aggregates, read from a text: what is asked, about which records, and in which groups.

    mean(age)                                     count, mean(age), mean(income) where smoker by sex, region
    quantile(age, 0.25 0.5 0.75) by sex           histogram(age, 10)
    median(income) where age >= 40                top(diagnosis, 5) by sex
    age >= 40 and smoker                          (a condition alone counts records)

Everything is checked against the schema here, so that a text which is no question is refused before anything is read
or charged. Groups are combinations of the schema's own levels: none comes from the data.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from sfumato.errors import ParameterError
from sfumato.queries.axes import Axis, axis_of
from sfumato.queries.parser import LONGEST, QueryParser
from sfumato.queries.predicates import Predicate
from sfumato.queries.tokens import Token, refuse, shown, tokens
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real
from sfumato.tables.schema import Schema

Asked = Literal["count", "sum", "mean", "variance", "quantile", "histogram", "top"]
MOST_GROUPS = 1 << 17
MOST_AGGREGATES = 100
EXTREME = 0.01  # min and max are the quantiles of this order and of 1 minus it
_SPELLED = {name: name for name in get_args(Asked)} | {"avg": "mean", "var": "variance"}
_QUANTILES = {"median": (0.5,), "min": (EXTREME,), "max": (1 - EXTREME,)}
_KNOWN = (*_SPELLED, *_QUANTILES)
_CLAUSES = ("where", "by", "group")  # words that follow aggregates
_ABOUT: dict[str, tuple[type, ...]] = {
    "sum": (Real, Integer, Flag),
    "mean": (Real, Integer, Flag),
    "variance": (Real, Integer, Flag),
    "quantile": (Real, Integer, Ordinal, Date),
    "histogram": (Real, Integer, Ordinal, Date, Flag, Category),
    "top": (Integer, Ordinal, Flag, Category),
}
_BINS, _TOP = 10, 5  # bins of a histogram and values of a top, unless told
_EACH = 100  # so many whole numbers are a bin each
_LONGEST_NUMBER = 9  # digits of a number of bins or values


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What is asked about a column: its name in the language, and the text that labels its answers.

    orders : of quantiles.
    most   : how many values a ``top`` shows.
    axis   : the levels of a ``histogram`` or a ``top``; it stands at the start of the column's own cells.
    """

    name: Asked
    text: str
    column: DataColumn | None = None
    orders: tuple[float, ...] = ()
    most: int = 0
    axis: Axis | None = None


@dataclass(frozen=True, slots=True)
class AggregateQuestion:
    """A question as it was read.

    plain    : a condition alone, whose records are counted.
    headings : names of the groups' columns in the answer; left out, those of the schema.
    """

    text: str
    aggregates: tuple[Aggregate, ...]
    where: Predicate | None = None
    by: tuple[Axis, ...] = ()
    plain: bool = False
    headings: tuple[str, ...] = ()

    @property
    def groups(self) -> int:
        """How many groups there are: all combinations of the levels of the columns that they go by."""
        return math.prod(axis.size for axis in self.by)

    @property
    def columns(self) -> tuple[DataColumn, ...]:
        """The columns that an answer needs, each once."""
        asked = [aggregate.column for aggregate in self.aggregates if aggregate.column is not None]
        leaves = [] if self.where is None else [leaf.column for leaf in self.where.leaves]
        return tuple(dict.fromkeys([*asked, *leaves, *(axis.column for axis in self.by)]))


def parse_question(text: str, schema: Schema) -> AggregateQuestion:
    """The question that a text asks about the records of a schema, or a refusal in one line (ParameterError)."""
    if not isinstance(text, str):
        raise ParameterError(f"a question is a text such as 'mean(age) by sex', got a {type(text).__name__}")
    if len(text) > LONGEST:
        raise ParameterError(f"a query has at most {LONGEST:,} characters, got {len(text):,}: ask several")
    if not text.strip():
        raise ParameterError("the query is empty: ask something such as 'mean(age) by sex', 'age >= 40' or 'count'")
    return _QuestionParser(text, schema).question()


def question_of(asked: str | AggregateQuestion, schema: Schema) -> AggregateQuestion:
    """A question about the records of a schema: from its text, or one that was read for the same columns."""
    if not isinstance(asked, AggregateQuestion):
        return parse_question(asked, schema)
    if not all(column in schema.columns for column in asked.columns):
        raise ParameterError("the question was read for other columns than those of the schema")
    return asked


class _QuestionParser(QueryParser):
    """The rules around a condition: aggregates before it, groups after it."""

    def __init__(self, text: str, schema: Schema) -> None:
        super().__init__(tokens(text), schema)
        self.text = text

    def question(self) -> AggregateQuestion:
        aggregates = self.aggregates()
        plain = not aggregates
        where = None
        if plain or self.word("where"):
            where = self.condition()
        if self.word("group") and not self.next.reads("by"):
            self.unexpected("the by of group by")
        by = self.groups() if self.word("by") else ()
        if self.next.kind != "end":
            self.unexpected("where, by, or the end of the query" if where is None else "and, or, by, or the end")
        text = self.text.strip()
        if plain and not by:
            return AggregateQuestion(text, (Aggregate("count", "count"),), where, plain=True)
        return AggregateQuestion(text, aggregates or (Aggregate("count", "count"),), where, by)

    def condition(self) -> Predicate:
        start = self.next.at
        node = self.either(0)
        return Predicate(self.text[start - 1 : self.next.at - 1].strip(), node)

    def word(self, word: str) -> bool:
        taken = self.next.reads(word)
        self.place += taken
        return taken

    def aggregates(self) -> tuple[Aggregate, ...]:
        found: list[Aggregate] = []
        while self.starts_aggregate():
            found.append(self.aggregate())
            if not self.take(","):
                return tuple(found)
            if not self.starts_aggregate():
                self.unexpected(f"another of {', '.join(_KNOWN)}")
            if len(found) == MOST_AGGREGATES:
                refuse(self.next.at, f"a question has at most {MOST_AGGREGATES} aggregates: ask several")
        return tuple(found)

    def starts_aggregate(self) -> bool:
        token, after = self.next, self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        if token.kind != "name":
            return False
        self.check_start(token, after)
        if after.says("("):
            if token.text.lower() not in _KNOWN and token.text not in self.names.columns:
                known = ", ".join(_KNOWN)
                refuse(
                    token.at, f"the schema has no column {shown(token.text)}, nor is it an aggregate: these are {known}"
                )
            return token.text.lower() in _KNOWN
        ends = after.kind == "end" or after.says(",") or any(map(after.reads, _CLAUSES))
        return token.text.lower() == "count" and ends and "count" not in self.names.columns

    def check_start(self, token: Token, after: Token) -> None:
        """Refuse, with a hint, beginnings of other languages: SQL, aggregates without parentheses, groups alone."""
        word = token.text.lower()
        if token.text in self.names.columns:
            return
        if word == "select" and not after.says("("):
            refuse(token.at, "this looks like SQL, which `sfumato sql` and Session.sql answer")
        if word == "by" and after.kind == "name":
            refuse(token.at, f"nothing is asked of the groups: write 'count by {shown(after.text)[1:-1]}'")
        if word in _KNOWN and after.kind in ("name", "text"):
            column, bare = shown(after.text)[1:-1], not any(map(after.reads, _CLAUSES))
            if word == "count" and bare:
                refuse(after.at, f"count counts records: write 'count where {column}' or 'count by {column}'")
            if word != "count":
                refuse(token.at, f"{word} needs a column in parentheses: {word}({column if bare else 'age'})")

    def aggregate(self) -> Aggregate:
        token = self.next
        self.place += 1
        word = token.text.lower()
        if word == "count":
            if self.take("("):
                self.take("*")
                if self.next.kind in ("name", "text"):
                    refuse(
                        self.next.at,
                        "count takes no column, it counts records: write count, with a condition after where",
                    )
                self.expect(")")
            return Aggregate("count", "count")
        self.expect("(")
        column = self.about(word)
        numbers = self.numbers()
        self.expect(")")
        text = " ".join(self.text[token.at - 1 : self.next.at - 1].split()).rstrip(",").strip()
        end = text.rfind(")") + 1
        return _aggregate(word, text[:end], column, numbers, token.at)

    def about(self, word: str) -> DataColumn:
        token = self.next
        self.place += 1
        column = self.names.column(token)
        wanted = _ABOUT[_SPELLED.get(word, "quantile")]
        if not isinstance(column, wanted):
            kinds = ", ".join(kind.__name__.lower() for kind in wanted)
            refuse(token.at, f"{word} is of columns of kind {kinds}; {shown(column.name)} is of kind {column.kind}")
        return column

    def numbers(self) -> list[Token]:
        found: list[Token] = []
        while self.take(",") or (found and not self.next.says(")")):
            found.append(self.operand())
            if len(found) > 1000:
                refuse(self.next.at, "an aggregate takes at most 1,000 numbers")
        return found

    def groups(self) -> tuple[Axis, ...]:
        axes: list[Axis] = []
        while not axes or self.take(","):
            token = self.next
            self.place += 1
            column = self.names.column(token)
            if any(axis.column == column for axis in axes):
                refuse(token.at, f"groups go by {shown(column.name)} twice")
            axes.append(_group_axis(column, token.at))
            if math.prod(axis.size for axis in axes) > MOST_GROUPS:
                refuse(token.at, f"there would be more than {MOST_GROUPS:,} groups: use fewer columns after 'by'")
        return tuple(axes)


def _group_axis(column: DataColumn, at: int) -> Axis:
    if not isinstance(column, Flag | Category | Ordinal | Integer):
        refuse(
            at,
            f"groups go by columns of kind flag, category, ordinal or integer; {shown(column.name)} is of kind "
            f"{column.kind}: use histogram, or a condition",
        )
    if isinstance(column, Integer) and column.high - column.low >= MOST_GROUPS:
        refuse(at, f"{shown(column.name)} has more than {MOST_GROUPS:,} values: use histogram, or a condition")
    return axis_of(column, 0, None)


def _aggregate(word: str, text: str, column: DataColumn, numbers: list[Token], at: int) -> Aggregate:
    if word in ("sum", "mean", "avg", "variance", "var", *_QUANTILES) and numbers:
        refuse(numbers[0].at, f"{word} takes a column alone")
    if word in _QUANTILES:
        return Aggregate("quantile", text, column, orders=_QUANTILES[word])
    name = _SPELLED[word]
    if name == "quantile":
        return Aggregate("quantile", text, column, orders=_orders(numbers, at))
    if name == "histogram":
        return Aggregate("histogram", text, column, axis=_histogram_axis(column, numbers))
    if name == "top":
        return Aggregate("top", text, column, most=_most(numbers), axis=_histogram_axis(column, [], each=True))
    return Aggregate(name, text, column)


def _orders(numbers: list[Token], at: int) -> tuple[float, ...]:
    if not numbers:
        refuse(at, "quantile takes a column and orders between 0 and 1: quantile(age, 0.25 0.5 0.75)")
    found = [float(token.text) if token.kind == "number" else math.nan for token in numbers]
    for token, order in zip(numbers, found, strict=True):
        if not 0 < order < 1:
            refuse(token.at, f"the order of a quantile is strictly between 0 and 1, got {shown(token.text)}")
    return tuple(found)


def _most(numbers: list[Token]) -> int:
    if not numbers:
        return _TOP
    most = _whole(numbers[0])
    if len(numbers) > 1 or not most:
        refuse(numbers[0].at, "top takes a column and one whole number: top(diagnosis, 5)")
    return most


def _whole(token: Token) -> int | None:
    """The whole number that a token says, if it says one."""
    if token.kind != "number" or not token.text.isdigit():
        return None
    if len(token.text) > _LONGEST_NUMBER:
        refuse(token.at, f"a whole number has at most {_LONGEST_NUMBER} digits here, got {len(token.text):,}")
    return int(token.text)


def _histogram_axis(column: DataColumn, numbers: list[Token], *, each: bool = False) -> Axis:
    """The levels of a histogram: each value, so many equal bins, or bins between cuts."""
    if isinstance(column, Flag | Category):
        if numbers:
            refuse(numbers[0].at, f"{shown(column.name)} has values and not bins: histogram takes it alone")
        return axis_of(column, 0, None)
    if not numbers:
        few = isinstance(column, Ordinal) or (isinstance(column, Integer) and column.high - column.low < _EACH)
        if each and isinstance(column, Integer) and column.high - column.low >= MOST_GROUPS:
            raise ParameterError(f"top is of columns with at most {MOST_GROUPS:,} values: use histogram")
        return axis_of(column, 0, None if few or each else _BINS)
    if len(numbers) == 1 and (bins := _whole(numbers[0])) is not None:
        return axis_of(column, 0, bins)
    return axis_of(column, 0, [float(token.text) if token.kind == "number" else token.text for token in numbers])
