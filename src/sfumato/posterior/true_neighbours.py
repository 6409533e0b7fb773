"""How many of the records that are shown as nearest are expected to be among the truly nearest.

Records are drawn from their posterior, the shown ones and those that could take their places, and ranked. One that is
as far as the k-th counts as found, so where records tie, more can be found than k. Draws are deterministic. The far
ones are a sample that stands for all of them, so the cost does not grow with the number of records.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from sfumato.estimation import neighbours
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.posterior.lengths import LengthCumulants

Spread: TypeAlias = Callable[[Floats, LengthCumulants, np.random.Generator], Floats]

_ALIKE = 1e-9  # share of a squared distance by which ties may differ in rounding
TIMES = (1, 2, 10)  # of the number shown: among how many of the truly nearest
_NEAR, _FAR = 500, 1_500  # candidates at least that are looked at one by one, and those that stand for all others
_DRAWS, _FEWEST_DRAWS = 40, 6
_WORK = 1 << 27  # numbers drawn at most, about


class Believed(Protocol):
    """What is asked of beliefs: means to search, draws of records, and what these leave out of squared distances."""

    @property
    def means(self) -> Floats:
        """Posterior means of records."""

    def sampler(self, records: Integers) -> Callable[[np.random.Generator], Floats]:
        """Draws of records, in the directions of the means."""

    def rest(self, first: Integers, second: Integers) -> LengthCumulants:
        """What other directions add to squared distances, pairwise in step."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedHits:
    """Of the k records shown, how many are expected among the true k, 2 k and 10 k nearest; a number for each query."""

    among_k: Floats
    among_2k: Floats
    among_10k: Floats


def expected_hits(beliefs: Believed, queries: Integers, shown: Integers, spread: Spread) -> ExpectedHits:
    """For each query, with the indices shown.

    ``spread`` turns draws of squared distances within the basis, (draws, records), into such of whole distances.
    """
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
    beliefs: Believed,
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
    draw, rest = beliefs.sampler(records), beliefs.rest(np.full(len(weights), query), records[1:])
    drawn = (draw(rng) for _ in range(draws))
    squared = np.array([np.sum((rows[1:] - rows[0]) ** 2, axis=1) for rows in drawn])
    counts = [_closer(distances, weights, len(shown)) for distances in spread(squared, rest, rng)]
    return np.array([np.mean([np.sum(closer < times * len(shown)) for closer in counts]) for times in TIMES])


def _closer(squared: Floats, weights: Floats, some: int) -> Floats:
    """How many records are closer than each of the first few; those that tie with one are not."""
    order = np.argsort(squared)
    before = np.concatenate([[0.0], np.cumsum(weights[order])])
    return np.asarray(before[np.searchsorted(squared[order], (1 - _ALIKE) * squared[:some])])


def _others(count: int, taken: Integers, rng: np.random.Generator) -> Integers:
    """A sample of the records that are not taken."""
    if count <= len(taken) + _FAR:
        return np.setdiff1d(np.arange(count), taken)
    return np.setdiff1d(rng.integers(count, size=_FAR), taken)
