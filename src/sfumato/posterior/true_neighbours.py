"""How many of the records that are shown as nearest are expected to be among the truly nearest.

Records are drawn from their posterior, the shown ones and those that could take their places, and ranked. Draws are
deterministic. The far ones are a sample that stands for all of them, so the cost does not grow with the number of
records.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sfumato.estimation import neighbours
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.posterior.beliefs import Beliefs
from sfumato.posterior.lengths import LengthCumulants

Spread: TypeAlias = Callable[[Floats, LengthCumulants, np.random.Generator], Floats]

TIMES = (1, 2, 10)  # of the number shown: among how many of the truly nearest
_NEAR, _FAR = 500, 1_500  # candidates at least that are looked at one by one, and those that stand for all others
_DRAWS, _FEWEST_DRAWS = 40, 6
_WORK = 1 << 27  # numbers drawn at most, about


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedHits:
    """Of the k records shown, how many are expected among the true k, 2 k and 10 k nearest; a number for each query."""

    among_k: Floats
    among_2k: Floats
    among_10k: Floats


def expected_hits(beliefs: Beliefs, queries: Integers, shown: Integers, spread: Spread) -> ExpectedHits:
    """For each query, with the indices shown; ``spread`` draws squared distances, given those within the basis."""
    count, k = len(beliefs.means), shown.shape[1]
    near = min(max(_NEAR, 20 * k), count - 1)
    work = len(queries) * min(count, near + _FAR) * beliefs.means.shape[1]
    draws = int(np.clip(_WORK // max(work, 1), _FEWEST_DRAWS, _DRAWS))
    found = neighbours.nearest(beliefs.means, queries, near, NoiseLaw("gaussian", 1.0)).indices
    hits = [
        _one(beliefs, int(query), (mine, close), spread, draws)
        for query, mine, close in zip(queries, shown, found, strict=True)
    ]
    return ExpectedHits(*np.array(hits).reshape(len(hits), len(TIMES)).T)


def _one(
    beliefs: Beliefs,
    query: int,
    given: tuple[Integers, Integers],
    spread: Spread,
    draws: int,
) -> Floats:
    """Expected hits of one query: the shown, and the nearest that are looked at one by one."""
    rng = np.random.default_rng([0, query])
    shown, near = given[0], np.setdiff1d(given[1], given[0])
    others = _others(len(beliefs.means), np.concatenate([[query], shown, near]), rng)
    left = len(beliefs.means) - 1 - len(shown) - len(near)
    weights = np.ones(len(shown) + len(near) + len(others))
    weights[len(shown) + len(near) :] = left / max(len(others), 1)
    records = np.concatenate([[query], shown, near, others])
    shares, hits = beliefs.shares(records), np.zeros(len(TIMES))
    rest = beliefs.rest(np.full(len(weights), query), records[1:])
    for _ in range(draws):
        drawn = beliefs.draws(records, shares, rng)
        squared = spread(np.sum((drawn[1:] - drawn[0]) ** 2, axis=1), rest, rng)
        order = np.argsort(squared, kind="stable")
        closer = np.empty(len(order))
        closer[order] = np.cumsum(weights[order]) - weights[order]
        hits += [np.sum(closer[: len(shown)] < times * len(shown)) for times in TIMES]
    return hits / draws


def _others(count: int, taken: Integers, rng: np.random.Generator) -> Integers:
    """A sample of the records that are not taken."""
    if count <= len(taken) + _FAR:
        return np.setdiff1d(np.arange(count), taken)
    return np.setdiff1d(rng.integers(count, size=_FAR), taken)
