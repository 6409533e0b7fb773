"""Twenty questions about Adult beside OpenDP, diffprivlib and SmartNoise SQL: errors, coverage of intervals, time.

Ours is what ``Session.ask`` runs between charging and recording: statistics are summed once, and noise is drawn for
every repetition. Its time is that of ``Session.ask`` with a ledger on disk. What rivals answer was scored when they
answered (``question_rivals``): their errors are read from question_rivals.jsonl.
"""

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.stats

from learning import prose
from page import Cell, Experiment, Measured, Paper, Part, Setting, Table
from question_list import QUESTIONS, Asked, Question, errors, held, rank_errors
from question_rivals import AGAIN, RELATIONS, RIVALS, best, kept
from sfumato.aggregates.asked import PreparedQuestion, prepare, sums_of
from sfumato.aggregates.estimates import AggregateAnswer
from sfumato.aggregates.selection import FOR_COUNTS
from sfumato.engines.local import LocalRows
from sfumato.files.open_table import open_table
from sfumato.ledger.ledger import Ledger
from sfumato.numerics.types import Floats, Integers
from sfumato.pipeline.session import Session
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.questions import parse_question
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks
from sfumato.tables.schema import Schema
from table_data import adult

Relation = Literal["add-remove", "replace"]
OFTEN, LEVEL, TIMED = (200, 20), 0.95, 5
MANY = (2000, 20)  # repetitions of a question that lost a comparison
ALLOWED, FALSE = 2.0, 0.05  # standard errors, and the rate of false alarms among all comparisons
SHOWN, OTHER = 0.1, 1.0
NAMES = {"opendp": "OpenDP", "diffprivlib": "diffprivlib", "smartnoise": "SmartNoise"}
FILE = "adult.parquet"


@dataclass(frozen=True, slots=True, eq=False)
class Owned:
    """The table in the owner's hands, and the same as integers for scoring."""

    rows: pd.DataFrame
    schema: Schema
    asked: Asked

    @classmethod
    def of(cls, rows: pd.DataFrame, schema: Schema) -> "Owned":
        """Rows with their public schema."""
        return cls(rows, schema, Asked.of(rows, schema))

    def summed(self, prepared: PreparedQuestion) -> Integers:
        """The exact statistics of a question."""
        names = {column.name for column in prepared.question.columns} or {self.schema.data_columns[0].name}
        schema = Schema(tuple(c for c in self.schema.data_columns if c.name in names))
        blocks = Blocks.of(open_table(self.rows, schema), schema)
        return sums_of(LocalRows(blocks), schema, [prepared])[0]


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """Our answers to one question, and the ends of their intervals; a row for each repetition."""

    answers: Floats
    low: Floats
    high: Floats


def repeated(owned: Owned, question: Question, promise: Guarantee, secrets: Sequence[Secret]) -> Repeated:
    """The question answered once with each secret."""
    prepared = prepare(parse_question(question.text, owned.schema), promise)
    sums = owned.summed(prepared)
    found = [_numbers(prepared, prepared.noisy(sums, secret), int(sums[0])) for secret in secrets]
    answers, low, high = (np.array(part) for part in zip(*found, strict=True))
    return Repeated(answers, low, high)


def _numbers(prepared: PreparedQuestion, noisy: Any, rows: int) -> tuple[Floats, Floats, Floats]:
    """The numbers of an answer in the order of ``question_list``, with their intervals."""
    parts = prepared.answered(noisy, rows)
    ends = [part.estimate.interval(LEVEL) for part in parts]
    low, high = (np.concatenate([np.ravel(e[i]) for e in ends]).astype(float) for i in (0, 1))
    return _values(parts), low, high


def _values(parts: Sequence[AggregateAnswer]) -> Floats:
    """The numbers of an answer, or the places of a top list."""
    if parts[0].places is not None:
        return parts[0].places.ravel().astype(float)
    return np.concatenate([np.ravel(part.estimate.value) for part in parts]).astype(float)


def waited(owned: Owned, question: Question, relation: Relation, epsilon: float, times: int = TIMED) -> float:
    """The median seconds of computing of ``Session.ask``, with a ledger on disk."""
    with TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "ledger.db")
        ledger.add_dataset("adult", Guarantee(epsilon=100.0, neighbours=relation), composition="basic")
        session, found = Session(owned.rows, schema=owned.schema, ledger=ledger), []
        for _ in range(times):
            start = time.process_time()
            session.ask(question.text, epsilon=epsilon)
            found.append(time.process_time() - start)
        return statistics.median(found)


@dataclass(frozen=True, slots=True)
class Line:
    """One question: our error, those of rivals, how often our intervals held the truth, and times."""

    question: Question
    ours: Measured
    rank: Measured | None
    coverage: Measured
    seconds: float
    rivals: dict[str, dict[str, Any]]

    @property
    def best(self) -> float | None:
        """The smallest error of a rival."""
        return min((line["error"] for line in self.rivals.values()), default=None)

    @property
    def ratio(self) -> float | None:
        """Our error over the smallest of a rival; None where there is none, or both are 0."""
        return self.ours.value / self.best if self.best else None

    def behind(self, rival: str) -> float:
        """By how many standard errors of the difference our error is above a rival's."""
        return _apart(self.ours, _error(self.rivals[rival]))

    @property
    def beaten_by(self) -> list[str]:
        """The rivals whose error is smaller by more than two standard errors of the difference."""
        return [name for name in self.rivals if self.behind(name) > ALLOWED]

    @property
    def uncovered(self) -> bool:
        """Whether intervals hold the truth less often than they say, by more than three standard errors."""
        return self.coverage.value < LEVEL - 3 * self.coverage.error


def measured(owned: Owned, setting: Setting, relation: Relation, epsilon: float) -> Iterator[Line]:
    """A line for each question."""
    theirs, runs = best(kept()), setting.often(*OFTEN)
    promise = Guarantee(epsilon=epsilon, neighbours=relation)
    for question in QUESTIONS:
        own = setting.secrets(f"{question.text} {relation} {epsilon}")
        found = repeated(owned, question, promise, [next(own) for _ in range(runs)])
        inside = held(owned.asked, question, found.answers, found.low, found.high)
        rivals = {n: theirs[key] for n in RIVALS if (key := (question.text, relation, epsilon, n)) in theirs}
        rank = Measured.of(rank_errors(owned.asked, question, found.answers)) if question.ranked else None
        error = Measured.of(errors(owned.asked, question, found.answers))
        seconds = waited(owned, question, relation, epsilon)
        yield Line(question, error, rank, _coverage(inside), seconds, rivals)
        setting.told(f"{relation}, epsilon {epsilon:g}: {question.text}")


def asked_again(owned: Owned, setting: Setting, lines: Sequence[tuple[Relation, Line]], epsilon: float) -> Table | None:
    """The comparisons that were lost, with many more repetitions of ours: chance goes away, and a cause stays."""
    rows: list[list[Cell]] = []
    more = best(kept(AGAIN))
    for relation, line in lines:
        for rival in line.beaten_by:
            own = setting.secrets(f"again {line.question.text} {relation} {epsilon}")
            promise = Guarantee(epsilon=epsilon, neighbours=relation)
            prepared = prepare(parse_question(line.question.text, owned.schema), promise)
            sums = owned.summed(prepared)
            noisy = (prepared.noisy(sums, next(own)) for _ in range(setting.often(*MANY)))
            found = np.array([_values(prepared.answered(n, int(sums[0]))) for n in noisy])
            ours = Measured.of(errors(owned.asked, line.question, found))
            theirs = _error(line.rivals[rival])
            again = _error(more.get((line.question.text, relation, epsilon, rival)))
            said: list[Cell] = [line.question.text, relation, NAMES[rival], theirs, line.ours, line.behind(rival)]
            rows.append([*said, again, ours, _apart(ours, again or theirs)])
    head = ("question", "neighbours", "rival", "theirs", "ours", "apart", "theirs again", "ours again", "apart again")
    shown = {"ours": ".3g", "ours again": ".3g", "theirs again": ".3g", "apart": ".1f", "apart again": ".1f"}
    return Table(f"again {epsilon:g}", head, rows, shown) if rows else None


def by_chance(lines: Sequence[Line]) -> str:
    """How many comparisons would be lost between equals, and how likely it is to lose as many."""
    apart = [line.behind(name) for line in lines for name in line.rivals]
    lost, pairs = sum(z > ALLOWED for z in apart), len(apart)
    each = float(scipy.stats.norm.sf(ALLOWED))
    return prose(
        f"Both relations together: {lost} of {pairs} comparisons at this epsilon are lost by more than two standard "
        f"errors. Were all errors equal, chance alone would put {each * pairs:.1f} there, and {lost} or more with "
        f"probability {float(scipy.stats.binom.sf(lost - 1, pairs, each)):.2f} (as if comparisons were independent). "
        f"The largest difference is {max(apart):.1f} standard errors; among {pairs} equals it is above "
        f"{float(scipy.stats.norm.isf(FALSE / pairs)):.1f} with probability {FALSE:.0%} at most (Bonferroni)."
    )


def _coverage(inside: Any) -> Measured:
    """The share of numbers within their intervals; numbers of one repetition may depend on each other."""
    each = Measured.of(inside.mean(axis=1))
    least = math.sqrt(LEVEL * (1 - LEVEL) / inside.size)
    return Measured(each.value, max(each.error, least), each.repetitions)


def table_of(lines: Sequence[Line], relation: Relation, epsilon: float) -> Table:
    """The lines as a table."""
    rows: list[list[Cell]] = []
    for line in lines:
        others: list[Cell] = [_error(line.rivals.get(name)) for name in RIVALS]
        times: list[Cell] = [1000 * r["seconds"] if (r := line.rivals.get(name)) else None for name in RIVALS]
        rows.append([line.question.text, line.ours, *others, line.ratio, line.coverage, 1000 * line.seconds, *times])
    head = (
        "question",
        "ours",
        *NAMES.values(),
        "ratio",
        "coverage",
        "CPU ms",
        *(f"{name} ms" for name in NAMES.values()),
    )
    times_as = {h: ".0f" for h in head if h.endswith("ms")}
    return Table(f"{relation} {epsilon:g}", head, rows, {"coverage": ".3f", "ratio": ".2f", "ours": ".3g"} | times_as)


def _error(line: dict[str, Any] | None) -> Measured | None:
    return None if line is None else Measured(line["error"], line["standard_error"], line["repetitions"])


def _apart(ours: Measured, theirs: Measured | None) -> float:
    """By how many standard errors of the difference our error is above another; 0 where both are exact."""
    assert theirs is not None
    spread = math.hypot(ours.error, theirs.error)
    return (ours.value - theirs.value) / spread if spread else 0.0


def verdict(lines: Sequence[Line]) -> str:
    """How many comparisons ours loses, and how many intervals fail, in words."""
    pairs = sum(len(line.rivals) for line in lines)
    lost = [f"{line.question.text} ({', '.join(NAMES[n] for n in line.beaten_by)})" for line in lines if line.beaten_by]
    wide = [line.question.text for line in lines if line.uncovered]
    said = (
        f"Our error is at most the rival's plus two standard errors in {pairs - sum(len(x.beaten_by) for x in lines)} "
    )
    said += f"of {pairs} comparisons" + (f"; not in: {'; '.join(lost)}. " if lost else ". ")
    said += f"Intervals of {LEVEL:.0%} hold the truth at least as often as they say, within three standard errors, in "
    return prose(
        said + f"{len(lines) - len(wide)} of {len(lines)} lines" + (f"; not in: {'; '.join(wide)}." if wide else ".")
    )


_ABOUT = """Adult, 48,842 rows; bounds and levels as in `experiments/table_data.py`; unit: a record. *ours*: mean
absolute error of the numbers of an answer, over {runs} repetitions, with its standard error. Of a quantile: how far
the answer is from all numbers that are this quantile. Of a top list: by how many records the level in each place
differs from the one that belongs there. Of several aggregates in one ask: in percent of the true answers. *ratio*: to
the smallest error of a rival. *coverage*: how often the {level:.0%} interval of a number holds the truth; intervals
of whole numbers hold it more often at large epsilon. *CPU ms*: of one question; ours with a ledger on disk."""
_RIVALS = """{versions}. Each question is asked of a library in all ways that its documentation has for it, all of
them are run, and the one with the smallest error on this very question is shown, which favours the rivals. A question
has one epsilon: where a library needs several numbers, they share it evenly. Answers are moved into the public bounds
before they are scored. OpenDP: the Polars interface with public groups, or its framework: resized data of known size,
scored candidates for quantiles (every 10, 100 or 1,000 integers of fnlwgt; all of them take seconds for one answer),
a tree of counts, a noisy top k. Its time is that of making a measurement and of one call. diffprivlib takes a record
to be replaced and the number of rows to be public, but for its histogram, count and quantile. SmartNoise SQL takes a
record to be added or removed; it has no quantiles, and refuses the variance of capital_gain. `make rivals
DATA=FOLDER` asks them again."""

_AGAIN = """Lines that lost a comparison, with {runs} repetitions of ours, and of the rival where it was asked again (a
dash: it was not, and its first error stands for it). *apart*: by how many standard errors ours is above the rival's.
Where this falls, chance had put it there."""
_WHY = """Counts at epsilon 1: the noise of OpenDP, diffprivlib and ours is the discrete Laplace law, of mean size
{discrete:.2f}; rounded Laplace noise would be of mean size {rounded:.2f}. Sums, means and variances of a public number
of rows have the same noise, too, but for rounding, and top lists are those of the same noisy counts: what differs there
is chance. Quantiles of age by sex: OpenDP scores a candidate as if the part p of the records equal to it lay below the
quantile of order p, and the upper quartiles of both sexes lie near that part of their year; where the quantile lies
elsewhere in it, this score misses it. Quantiles of fnlwgt: {counts} of our epsilon buys the counts that intervals need,
which the rivals do not have, so that our ranks err by {more:.1%} more."""


def compared(setting: Setting, epsilon: float = SHOWN) -> Iterator[Part]:
    """Both relations at one epsilon."""
    assert setting.data is not None
    whole = adult(setting.data)
    owned = Owned.of(pd.concat([whole.train, whole.test], ignore_index=True), whole.schema)
    if epsilon == SHOWN:
        yield prose(_ABOUT.format(runs=setting.often(*OFTEN), level=LEVEL))
        yield prose(_RIVALS.format(versions=_versions()))
    every: list[tuple[Relation, Line]] = []
    for relation in RELATIONS:
        lines = list(measured(owned, setting, relation, epsilon))
        every += [(relation, line) for line in lines]
        yield f"**Epsilon {epsilon:g}, a record {_RELATION[relation]}**"
        yield table_of(lines, relation, epsilon)
        if any(line.rank for line in lines):
            yield "Quantiles, in ranks: how many records lie between an answer and the rank that was asked for."
            yield rank_table(lines, relation, epsilon)
        yield verdict(lines)
    yield by_chance([line for _, line in every])
    if (again := asked_again(owned, setting, every, epsilon)) is not None:
        yield prose(_AGAIN.format(runs=f"{setting.often(*MANY):,}"))
        yield again


def compared_at_one(setting: Setting) -> Iterator[Part]:
    """The same at the other epsilon."""
    yield from compared(setting, OTHER)
    terms = {"rounded": _rounded(OTHER), "discrete": _discrete(OTHER)}
    yield prose(_WHY.format(**terms, counts=Fraction(FOR_COUNTS), more=FOR_COUNTS / (1 - FOR_COUNTS)))


def _rounded(epsilon: float) -> float:
    """The mean size of rounded Laplace noise on a count: the sum over k >= 1 of P[|x| > k - 1/2]."""
    return math.exp(-epsilon / 2) / (1 - math.exp(-epsilon))


def _discrete(epsilon: float) -> float:
    """The mean size of discrete Laplace noise on a count: k with probability in proportion to e^(-epsilon |k|)."""
    return 1 / math.sinh(epsilon)


def _versions() -> str:
    found = {line["rival"]: line["version"] for line in kept()}
    return ", ".join(f"{name} {found[rival]}" for rival, name in NAMES.items() if rival in found)


def rank_table(lines: Sequence[Line], relation: Relation, epsilon: float) -> Table:
    """Errors in rank of the questions about quantiles."""
    rows: list[list[Cell]] = []
    for line in lines:
        if line.rank is not None:
            others: list[Cell] = [r["rank_error"] if (r := line.rivals.get(name)) else None for name in RIVALS]
            rows.append([line.question.text, line.rank, *others])
    return Table(f"ranks {relation} {epsilon:g}", ("question", "ours", *NAMES.values()), rows, {"ours": ".3g"})


_RELATION = {"add-remove": "added or removed", "replace": "replaced"}

PAPER = Paper(
    "questions",
    "Questions beside OpenDP, diffprivlib and SmartNoise SQL",
    (
        Experiment("questions-adult", "Twenty questions about Adult", compared, (FILE,)),
        Experiment("questions-adult-1", "The same at epsilon 1", compared_at_one, (FILE,)),
    ),
    "What `ask` answers, beside three libraries that answer the same questions.",
)
