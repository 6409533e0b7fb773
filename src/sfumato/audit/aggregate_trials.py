"""How questions with aggregates are sampled and scored, each on the worst pair that a search finds.

The exact statistics of both tables get noise through the question's own code, many times at once. A score is the
logarithm of the likelihood ratio of all numbers that one answer publishes, by the law that is claimed: so noise that
groups share, and groups that are missing, show in it as well.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from sfumato.aggregates.asked import PreparedQuestion, prepare
from sfumato.aggregates.selection import QuantileSelection, scores
from sfumato.audit.trials import Trial, log_ratio
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.questions import parse_question
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Integer
from sfumato.tables.schema import Schema

Twin = Callable[[PreparedQuestion], PreparedQuestion]

SCHEMA = Schema((Integer("age", 0, 9), Category("sex", ("f", "m"), "f"), Flag("smoker")))
_STARTS = {"age": 0, "sex": 1, "smoker": 3}
_LOW = (0.0, 0.0, 0.0)  # of age, sex and smoker
_AGES = (9.0, 0.0, 4.0, 500.0, -500.0, np.nan)  # the ends, the middle, and what lies outside
_OTHERS = 400  # records at the low end beside the one that differs
_NUMBERS = 1 << 20  # drawn at a time


def _honest(question: PreparedQuestion) -> PreparedQuestion:
    return question


def answer_trial(text: str, epsilon: float, *, twin: Twin = _honest, **promise: object) -> Trial:
    """The trial of a question about a small table, on the worst pair for it.

    twin    : makes a broken question of the prepared one; what it states is still compared with the promise.
    promise : the other fields of the guarantee.
    """
    guarantee = Guarantee(epsilon=epsilon, **promise)  # type: ignore[arg-type]
    question = twin(prepare(parse_question(text, SCHEMA), guarantee))
    ends = max(_pairs(question, guarantee), key=functools.partial(_apart, question))
    cells = sum(part.size for part in ends[0])

    def sample(side: int, count: int, secret: Secret) -> Floats:
        scores = np.zeros(count)
        for place, noise in enumerate(question.spending.scales):
            one, two = (np.asarray(end[place], float).reshape(-1, 1) for end in ends)
            many = np.repeat(ends[side][place][None], count, axis=0)
            seen = noise.added(many, secret, 0, place, text).reshape(count, -1).T
            scores += log_ratio(noise.kind, seen, [one, two], noise.scale)
        return np.round(scores, 9)

    return Trial(guarantee, "closed", sample, max(1, _NUMBERS // cells))


def _apart(question: PreparedQuestion, pair: tuple[list[Integers], list[Integers]]) -> float:
    """How far apart the statistics of two tables are, in units of their noise."""
    found = 0.0
    for noise, one, two in zip(question.spending.scales, *pair, strict=True):
        gaps = np.abs((one - two) / noise.scale)
        found += float((gaps**2).sum() if noise.kind == "gaussian" else gaps.sum())
    return found


def _pairs(question: PreparedQuestion, guarantee: Guarantee) -> Iterator[tuple[list[Integers], list[Integers]]]:
    """The exact statistics of neighbouring tables: many records at the low end, and up to ``group`` that differ."""
    rows = _encoded(list(itertools.product(_AGES, (1.0, 0.0), (1.0, 0.0))))
    others = np.repeat(_encoded([_LOW]), _OTHERS, axis=1)

    def of(more: Floats) -> list[Integers]:
        return question.exact(question.sums(np.hstack([others, more]), _STARTS, SCHEMA))

    ends = [of(np.repeat(row[:, None], guarantee.group, axis=1)) for row in rows.T]
    if guarantee.neighbours == "add-remove":
        nothing = of(rows[:, :0])
        yield from ((end, nothing) for end in ends)
    else:
        yield from itertools.combinations(ends, 2)


def _encoded(rows: list[tuple[float, float, float]]) -> Floats:
    """Rows of the schema as a block; of the category, one column for each value."""
    age, sex, smoker = np.array(rows).T
    return np.array([age, 1 - sex, sex, smoker])


# ---- quantiles by selection -----------------------------------------------------------------------------------------

_VALUES = 300  # of a column whose quantiles are selected
_LONG = Schema((Integer("v", 0, _VALUES - 1),))
Scores = Callable[[Integers, Integers, int, Fraction], tuple[Integers, Integers]]


def quantile_trial(epsilon: float, *, scored: Scores = scores) -> Trial:
    """The trial of a median that is selected, with and without a record, where a search finds the choice worst.

    The counts for its interval, which cost a sixteenth, are left out. ``scored``: the scores, for a broken twin.
    """
    guarantee = Guarantee(epsilon=epsilon, neighbours="add-remove")
    question = prepare(parse_question("median(v)", _LONG), guarantee)
    (statistic,), (noise,) = question.statistics, question.spending.scales
    assert isinstance(statistic, QuantileSelection)
    (rate,), (order,) = statistic.rates(noise), statistic.orders

    def runs(places: tuple[int, ...]) -> tuple[Integers, Integers]:
        filled, counts = np.unique(np.array(places, np.int64), return_counts=True)
        return scored(filled, counts, _VALUES, order)

    def law(places: tuple[int, ...]) -> Floats:
        weights = rate * np.repeat(*runs(places)).astype(float)
        return np.asarray(weights - np.logaddexp.reduce(weights))

    def reach(pair: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[float, float]:
        both = [law(places) for places in pair]
        return _beyond(epsilon, *both), _beyond(epsilon / 2, *both)

    pair = max(_medians(), key=reach)
    losses = np.round(law(pair[0]) - law(pair[1]), 9)

    def sample(side: int, count: int, secret: Secret) -> Floats:
        words, known = secret.words("audit quantiles"), runs(pair[side])
        return np.asarray(losses[[words.choose_repeated(*known, rate) for _ in range(count)]])

    return Trial(guarantee, "closed", sample, 1000)


def _medians() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of tables, by the places of their records, of which one has a record more."""
    places = *(_VALUES * part // 12 for part in range(12)), _VALUES - 1
    for count, place, more in itertools.product(range(4), places, places):
        others = (place,) * count
        yield (*others, more), others
        yield others, (*others, more)


def _beyond(epsilon: float, one: Floats, two: Floats) -> float:
    """How much of the first law exceeds e^epsilon of the second, both as logarithms."""
    return float(np.maximum(np.exp(one) - np.exp(two + epsilon), 0.0).sum())


_COMES = {"neighbours": "add-remove"}
_SLACK = {"delta": 0.01}

AGGREGATES: dict[str, Callable[[float], Trial]] = {
    name: functools.partial(answer_trial, text, **promise)
    for name, text, promise in (
        ("count, condition, add-remove", "count where smoker", _COMES),
        ("count by group, replace", "count by sex", {}),
        ("count by group, add-remove, Gaussian", "count by sex, smoker", _COMES | _SLACK),
        ("sum, condition", "sum(age) where smoker", {}),
        ("sum by group, Gaussian", "sum(age) by sex", _SLACK),
        ("mean, public number of rows", "mean(age)", {}),
        ("mean, condition", "mean(age) where smoker", {}),
        ("mean, add-remove, group of 2", "mean(age)", _COMES | {"group": 2}),
        ("variance, public number of rows", "variance(age)", {}),
        ("variance by group, Gaussian", "variance(age) by sex", _SLACK),
        ("histogram, add-remove", "histogram(age, 5)", _COMES),
        ("top by group, replace", "top(age, 3) by sex", {}),
        ("top by group, Gaussian", "top(age, 3) by sex", _SLACK),
        ("quantiles, tree", "quantile(age, 0.25 0.5 0.75) by sex", {}),
        ("median, tree, add-remove, Gaussian", "median(age)", _COMES | _SLACK),
        ("several aggregates", "count, mean(age), histogram(smoker) by sex", {}),
    )
} | {"median, selection": quantile_trial}
