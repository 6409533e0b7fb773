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
from numpy.typing import ArrayLike

from sfumato import check
from sfumato.answering.base import checked_query, count_move, disjoint_move
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain

MOST = 1 << 27  # labels of a workload, partitions times cells: a gigabyte
_MOST_UPDATES = 1000  # in one go
_STEEPEST = 1.0  # exponent of one update: what noise makes larger is cut, which is post-processing


@dataclass(frozen=True, slots=True, eq=False)
class DisjointParts:
    """The part of each cell, 0 .. parts - 1, or -1 for cells in none: a cell has one label, so parts are disjoint."""

    name: str
    labels: Integers
    parts: int

    def __post_init__(self) -> None:
        check.whole(1, parts=self.parts)
        labels = np.asarray(self.labels)
        if labels.dtype.kind not in "iu" or labels.ndim != 1 or not labels.size:
            raise ParameterError(
                f"labels must be whole numbers, one for each cell, got shape {labels.shape} of {labels.dtype}"
            )
        if labels.min() < -1 or labels.max() >= self.parts:
            raise ParameterError(f"labels must lie between -1 (in no part) and {self.parts - 1}, the last of the parts")
        frozen = np.array(labels, np.int64)
        frozen.setflags(write=False)
        object.__setattr__(self, "labels", frozen)

    @classmethod
    def question(cls, query: ArrayLike, domain: Domain, name: str = "question") -> Self:
        """One question of a workload, as a partition with one part."""
        return cls(name, np.where(checked_query(query, domain), 0, -1), 1)

    @classmethod
    def marginal(cls, domain: Domain, names: Sequence[str]) -> Self:
        """The marginal of some columns, as a partition: all combinations of their levels."""
        sizes = [domain.axis(name).size for name in names]
        labels = np.zeros(domain.size, np.int64)
        for name, size in zip(names, sizes, strict=True):
            labels = labels * size + domain.codes(name)
        return cls(" x ".join(names), labels, math.prod(sizes))

    def exact(self, counts: Integers) -> Integers:
        """The rows in each part; a double holds whole numbers up to 2^53, which histograms are checked for."""
        return np.asarray(self.totals(counts), np.int64)

    def totals(self, weights: ArrayLike) -> Floats:
        """The weight of each part of the cells."""
        return np.asarray(np.bincount(self.labels + 1, np.asarray(weights, np.float64), self.parts + 1)[1:])

    def spread(self, values: Floats, outside: float) -> Floats:
        """The value of the part that each cell is in, and ``outside`` for cells in none."""
        return np.asarray(np.concatenate([[outside], values])[self.labels + 1])

    def move(self, guarantee: Guarantee) -> int:
        """How far one unit moves the counts of the parts, in the l1 norm: see ``base``."""
        return count_move(guarantee) if self.parts == 1 else disjoint_move(guarantee)


def marginals(domain: Domain, order: int) -> tuple[DisjointParts, ...]:
    """A workload of marginals: those of all sets of ``order`` columns."""
    names = [axis.name for axis in domain.columns]
    if not 1 <= order <= len(names):
        raise ParameterError(f"order must be between 1 and the {len(names)} columns of the domain, got order={order}")
    check_room(math.comb(len(names), order), domain)
    return tuple(DisjointParts.marginal(domain, some) for some in itertools.combinations(names, order))


def questions(queries: ArrayLike, domain: Domain) -> tuple[DisjointParts, ...]:
    """A workload of questions one by one, from truths of shape (questions, cells)."""
    truths = np.atleast_2d(np.asarray(queries))
    check_room(len(truths), domain)
    return tuple(DisjointParts.question(query, domain, f"question {i}") for i, query in enumerate(truths))


def check_room(count: int, domain: Domain) -> None:
    """Refuse a workload that memory may not hold, before it is made."""
    if count * domain.size > MOST:
        raise ParameterError(
            f"{count:,} questions or marginals of {domain.size:,} cells are too many for a workload: "
            f"of so many cells at most {MOST // domain.size:,} can be asked, and so many of at most "
            f"{MOST // count:,} cells; ask fewer, of fewer columns or with fewer cuts, or use weights"
        )


Measurement = tuple[DisjointParts, Floats]


def uniform_weights(domain: Domain, rows: int) -> Floats:
    """The weights of cells before a workload is measured: nothing known but the number of rows."""
    return np.full(domain.size, rows / domain.size)


def refitted(weights: Floats, measured: Sequence[Measurement], rows: int, passes: int) -> Floats:
    """Weights of cells refitted to all that was measured of a workload, by repeated multiplicative updates.

    Long lists are gone through less often.

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
