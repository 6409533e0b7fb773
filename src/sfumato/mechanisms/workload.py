"""Questions that are asked together: cells told apart into disjoint parts, and the weights that fit what was measured.

A part is a set of cells; a *partition* has one or more of them, disjoint, and possibly cells in none. A single question
has one part, a marginal has one for each combination of its levels. One record is in at most one part of a partition.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.domain import Domain
from sfumato.errors import ParameterError
from sfumato.guarantee import Guarantee
from sfumato.mechanisms.asked import checked_query, count_move, disjoint_move

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_MOST_UPDATES = 1000  # in one go
_STEEPEST = 1.0  # exponent of one update: what noise makes larger is cut, which is post-processing


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """The part of each cell, 0 .. parts - 1, or -1 for cells in none."""

    name: str
    labels: Integers
    parts: int

    @classmethod
    def question(cls, query: ArrayLike, domain: Domain, name: str = "question") -> Self:
        """One question."""
        return cls(name, np.where(checked_query(query, domain), 0, -1), 1)

    @classmethod
    def marginal(cls, domain: Domain, names: Sequence[str]) -> Self:
        """All combinations of the levels of some columns."""
        sizes = [domain.axis(name).size for name in names]
        labels = np.zeros(domain.size, np.int64)
        for name, size in zip(names, sizes, strict=True):
            labels = labels * size + domain.codes(name)
        return cls(" x ".join(names), labels, math.prod(sizes))

    def exact(self, counts: Integers) -> Integers:
        """The rows in each part; a double holds whole numbers up to 2^53, which histograms are checked for."""
        return np.asarray(self.totals(counts), np.int64)

    def totals(self, weights: ArrayLike) -> Floats:
        """The weight of each part."""
        return np.asarray(np.bincount(self.labels + 1, np.asarray(weights, np.float64), self.parts + 1)[1:])

    def spread(self, values: Floats, outside: float) -> Floats:
        """The value of each cell's part, and what cells in none get."""
        return np.asarray(np.concatenate([[outside], values])[self.labels + 1])

    def move(self, guarantee: Guarantee) -> int:
        """How far one unit moves the counts of the parts, in the l1 norm: see ``asked``."""
        return count_move(guarantee) if self.parts == 1 else disjoint_move(guarantee)


def marginals(domain: Domain, order: int) -> tuple[Partition, ...]:
    """The marginals of all sets of ``order`` columns."""
    names = [axis.name for axis in domain.columns]
    if not 1 <= order <= len(names):
        raise ParameterError(f"order must be between 1 and the {len(names)} columns of the domain, got order={order}")
    return tuple(Partition.marginal(domain, some) for some in itertools.combinations(names, order))


def questions(queries: ArrayLike, domain: Domain) -> tuple[Partition, ...]:
    """Questions one by one, from truths of shape (questions, cells)."""
    return tuple(
        Partition.question(query, domain, f"question {i}") for i, query in enumerate(np.atleast_2d(np.asarray(queries)))
    )


Measurement = tuple[Partition, Floats]


def uniform_weights(domain: Domain, rows: int) -> Floats:
    """Nothing known but the number of rows."""
    return np.full(domain.size, rows / domain.size)


def refitted(weights: Floats, measured: Sequence[Measurement], rows: int, passes: int) -> Floats:
    """Weights after multiplicative updates towards everything measured, over and over, but for long lists less often.

    Guarantee: post-processing of noisy measurements; costs no privacy, however often they are used.
    Each update multiplies the cells of a part by exp((measured - estimated) / (2 rows)) and restores the total (Hardt
    and Rothblum 2010; Hardt, Ligett and McSherry 2012, section 2.1 and its remark on repeated updates).
    """
    for _ in range(max(1, min(passes, _MOST_UPDATES // max(1, len(measured))))):
        for partition, values in measured:
            gap = (values - partition.totals(weights)) / (2 * rows)
            weights = weights * np.exp(partition.spread(np.clip(gap, -_STEEPEST, _STEEPEST), 0.0))
            weights *= rows / weights.sum()
    return weights
