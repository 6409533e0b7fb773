"""An audit of a whole release in one run: many canaries, each put in or replaced by the toss of a coin, and guesses.

Steinke, Nasr and Jagielski 2023 (*Privacy auditing with one (1) training run*). Every canary is one of two records, by
a fair coin of its own. Whoever sees the release guesses some of the coins and passes over the others. If the release is
(epsilon, delta)-private for one record, r guesses of m coins are v times right or more with probability at most

    Pr[B >= v] + 2 m delta max over i of Pr[v - i <= B < v] / i,    B ~ Binomial(r, e^epsilon / (1 + e^epsilon))

(their Theorem 5.2). The largest epsilon for which that is below 1 - confidence is a lower bound on the true one.

What is seen is the release that an analyst has, after ``release`` and with its own questions: nothing inside. The share
of coins that are guessed is chosen on one half of the canaries, with their coins known, and the bound is for the other.
"""

import functools
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sfumato import check
from sfumato.audit.block_rows import Ready
from sfumato.audit.bound import Bound
from sfumato.audit.examine import Effort, Finding
from sfumato.audit.worst_pairs import sketch_pair
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Prepared, Recipe
from sfumato.mechanisms.sketch import PreparedSketch
from sfumato.numerics.types import Floats
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.covariance import CovarianceRelease
from sfumato.releases.sketch import SketchRelease
from sfumato.releases.synthetic import SyntheticRelease
from sfumato.tables.columns import Flag, Integer, Real
from sfumato.tables.schema import Schema

_MANY = 20_000
_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02)


def guesses_bound(coins: int, guesses: int, right: int, *, delta: float = 0.0, confidence: float = 0.999) -> float:
    """Epsilon below which so many right guesses of canaries would be too good; 0 where they say nothing."""
    check.whole(0, coins=coins, guesses=guesses, right=right)
    check.probability_below_one(delta=delta, confidence=confidence)
    if not right <= guesses <= coins:
        raise check.fail("right", right, "at most the guesses, and those at most the coins")
    low, high = 0.0, 50.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _chance(coins, guesses, right, middle, delta) < 1 - confidence else (low, middle)
    return low


def _chance(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """At most this often are so many guesses of canaries right, for an (epsilon, delta)-private release."""
    each = 1 / (1 + np.exp(-epsilon))
    beta = float(stats.binom.sf(right - 1, guesses, each))
    if delta == 0 or right == 0:
        return beta
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, each))
    return beta + 2 * coins * delta * float((below / np.arange(1, right + 1)).max())


def one_run(
    mechanism: Recipe,
    *,
    schema: Schema,
    guarantee: Guarantee,
    canaries: int | None = None,
    effort: Effort | None = None,
) -> Finding:
    """Audit a release of canaries, with neighbours that replace: each canary is one of two records, by a coin.

    canaries : how many; left out, many where each record has numbers of its own, and few where all share a sum, in
               which they are noise to each other.
    """
    effort, start = effort or Effort(), time.monotonic()
    if guarantee.neighbours != "replace" or guarantee.group > 1:
        raise ParameterError("a one-run audit replaces records one at a time: use neighbours='replace' and group=1")
    prepared = mechanism.prepare(schema, guarantee)
    canaries = canaries or (_MANY if isinstance(prepared, PreparedSketch) else 4 * schema.encoding.dim)
    check.whole(16, canaries=canaries)
    ends = _canaries(prepared, schema, canaries)
    tosses = effort.secret(0).words("audit coins").draw(2 * canaries) & 1
    coins, others = tosses[:canaries] == 1, tosses[canaries:] == 1
    table = np.where(coins, ends[0], ends[1])
    made = release(
        table.T, schema=schema, mechanism=Ready(prepared), guarantee=guarantee, secret=effort.secret(1).twin()
    )
    scores = _scores(made, *ends)
    found, null = (_bound(scores, truth, guarantee.delta, effort.confidence) for truth in (coins, others))
    return Finding(guarantee.epsilon, guarantee.delta, "one run", found, null, time.monotonic() - start)


def _bound(scores: Floats, coins: NDArray[np.bool_], delta: float, confidence: float) -> Bound:
    half = scores.size // 2
    cut = np.median(scores)
    first, second = ((scores[some] - cut, coins[some]) for some in (slice(half), slice(half, None)))
    share = max(_SHARES, key=lambda s: _guessed(*first, s, delta, confidence))
    return Bound(_guessed(*second, share, delta, confidence), delta, confidence, scores.size)


def _guessed(scores: Floats, coins: NDArray[np.bool_], share: float, delta: float, confidence: float) -> float:
    """Guess the share of the canaries' coins whose scores are farthest out."""
    chosen = np.argsort(-np.abs(scores), kind="stable")[: max(1, int(share * scores.size))]
    right = int(((scores[chosen] > 0) == coins[chosen]).sum())
    return guesses_bound(scores.size, chosen.size, right, delta=delta, confidence=confidence)


def _canaries(prepared: Prepared, schema: Schema, count: int) -> tuple[Floats, Floats]:
    """Both records of every canary (columns, canaries): the worst pair, or corners in all directions for sums."""
    encoding = schema.encoding
    if not all(isinstance(c, Real | Integer | Flag) and c.width == 1 for c in schema.data_columns):
        raise ParameterError(
            "a one-run audit takes real, integer and flag columns only, without a level for missing cells: leave "
            "others out of the schema"
        )
    if isinstance(prepared, PreparedSketch):
        one, two = sketch_pair(prepared)
        return np.repeat(one, count, axis=1), np.repeat(two, count, axis=1)
    signs = np.random.default_rng(1).choice([0.0, 1.0], (2, encoding.dim, count))
    ends = encoding.low[:, None] + signs * (encoding.high - encoding.low)[:, None]
    return ends[0], ends[1]


@functools.singledispatch
def _scores(made: Any, first: Floats, second: Floats) -> Floats:
    """How much more a release looks like the first record of each canary than like the second."""
    del first, second
    raise ParameterError(f"no one-run audit is implemented for {type(made).__name__}: leave method out")


@_scores.register
def _(made: SketchRelease, first: Floats, second: Floats) -> Floats:
    power = 1 if made.manifest["mechanism"]["noise"] == "laplace" else 2
    gaps = [(np.abs(made.array() - made.transform(ends.T)) ** power).sum(axis=1) for ends in (first, second)]
    return np.round(np.asarray(gaps[1] - gaps[0]), 9)


@_scores.register
def _(made: CovarianceRelease, first: Floats, second: Floats) -> Floats:
    matrix = made.second_moments()
    centre = (first + second).mean(axis=1, keepdims=True) / 2
    return _quadratic(matrix, first - centre) - _quadratic(matrix, second - centre)


@_scores.register
def _(made: SyntheticRelease, first: Floats, second: Floats) -> Floats:
    matrix = np.array(made.manifest["mechanism"]["model"][0]["covariance"])  # what the rows were drawn from
    one, two = (np.asarray(made.transform(ends.T)).T for ends in (first, second))
    return _quadratic(matrix, one) - _quadratic(matrix, two)


def _quadratic(matrix: Floats, columns: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ik,kj->j", columns, matrix, columns))
