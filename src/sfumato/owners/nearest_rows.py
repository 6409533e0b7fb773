"""The rows of several owners that look nearest to some rows, in one pass over all of them.

Noise lengthens the squared distance of two released rows by dimension * (variance of the one + variance of the other).
Within one release that is the same for all pairs; across owners it is not, and rows of quiet owners would look nearer
than they are. Estimates that are freed of it are unbiased for each pair, but those of a noisy owner scatter more, so
the smallest of all would nearly all be that owner's, by luck. So rows are ranked by estimates that are shrunk towards
what is usual, each by its own owner's noise (``Usual``): d becomes m + t2/(t2 + v) (d - m).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers

_SCORES = 1 << 21  # of a block of rows against some queries at a time: 16 MB
_FEWEST = 3  # rows that what is usual is learned from
_TELLING = 0.05  # the share of what is true in the scatter of an owner's estimates; of less, a sample cannot tell


@dataclass(frozen=True, slots=True, eq=False)
class Usual:
    """Of each point: the mean m of its squared distances, less its own length, their variance t2, and that by noise.

    noise : v, of the estimates with each owner's rows; a column for each owner.
    query : what noise in the point itself makes them vary by, which says nothing of who is near.
    """

    mean: Floats
    spread: Floats
    noise: Floats
    query: Floats

    @classmethod
    def of(
        cls, points: Floats, own: Integers, asking: Floats, sample: tuple[Integers, Floats, Integers], laws: Any
    ) -> "Usual | None":
        """What is usual, by moments over a sample of rows; None if it is too small.

        own    : positions of the points; asking : the variance of noise in each.
        sample : positions of rows, the rows, and the owner of each; of the quieter owners, which tell most.
        laws   : the noise of each owner.
        """
        positions, rows, owners = sample
        if len(rows) - 1 < _FEWEST:
            return None
        dimension = rows.shape[1]
        variances, fourths = np.array([[law.variance, law.fourth] for law in laws]).T
        lengths = np.einsum("ij,ij->i", rows, rows) - dimension * variances[owners]
        squares = np.einsum("ij,ij->i", points, points)
        mean, total, by_noise = (np.empty(len(points)) for _ in range(3))
        noise = np.empty((len(points), len(laws)))
        step = max(1, _SCORES // len(rows))
        for first in range(0, len(points), step):
            some = slice(first, first + step)
            others = (own[some, None] != positions).astype(float)
            apart, count = lengths - 2 * points[some] @ rows.T, others.sum(axis=1)
            mean[some] = np.sum(others * apart, axis=1) / count
            total[some] = np.sum(others * (apart - mean[some, None]) ** 2, axis=1) / (count - 1)
            far = np.maximum(mean[some] + squares[some], 0)[:, None]
            noise[some] = 4 * variances * far + fourths * dimension * variances**2
            by_noise[some] = np.sum(others * noise[some][:, owners], axis=1) / count
        query = 2 * asking * np.maximum(mean + squares - dimension * asking, 0)
        return cls(mean, np.maximum(total - by_noise, 0), noise, query)

    def weights(self, owner: int) -> Floats:
        """By what to multiply what an owner's estimates are from the mean, of each point: t2/(t2 + v), up to a factor.

        The factor is one for all owners, and such that the quietest has 1: so it works where t2 is 0, too.
        """
        least = self.spread + self.noise.min(axis=1)
        return np.asarray(least / (self.spread + self.noise[:, owner]))

    def undecided(self, owners: Sequence[int]) -> list[int]:
        """Owners whose noise hides which of their rows are nearer, for every point."""
        true = np.maximum(self.spread - self.query, 0)[:, None]
        shares = true / (self.spread[:, None] + self.noise[:, list(owners)])
        return [owner for owner, most in zip(owners, shares.max(axis=0), strict=True) if most < _TELLING]


def noise_differs(laws: Sequence[NoiseLaw]) -> bool:
    """Whether rows of some owners are noisier than those of others."""
    return len(set(laws)) > 1


def nearest(
    points: Floats, own: Integers, blocks: Iterable[tuple[int, Floats, float, int]], k: int, usual: Usual | None = None
) -> Integers:
    """Positions of the k rows nearest to each point, nearest first; no row is its own neighbour.

    own    : the position of each point among all rows.
    blocks : rows with the position of the first, what the owner's noise adds to a squared length, and the owner.
    usual  : what estimates are shrunk towards; None ranks by unbiased estimates.
    """
    scores = np.full((len(points), k), np.inf)
    indices = np.full((len(points), k), -1, np.int64)
    for start, rows, bias, owner in blocks:
        block = np.asarray(rows, np.float64)
        lengths = np.einsum("ij,ij->i", block, block) - bias
        weights = None if usual is None else usual.weights(owner)
        step = max(1, _SCORES // max(len(block), 1))
        for first in range(0, len(points), step):
            some = slice(first, first + step)
            apart = lengths - 2 * points[some] @ block.T
            if usual is not None and weights is not None:
                apart = (apart - usual.mean[some, None]) * weights[some, None]
            (inside,) = np.nonzero((own[some] >= start) & (own[some] < start + len(block)))
            apart[inside, own[some][inside] - start] = np.inf
            _keep(scores[some], indices[some], apart, start)
    order = np.lexsort((indices, scores), axis=1)
    return np.take_along_axis(indices, order, 1)


def _keep(scores: Floats, indices: Integers, apart: Floats, start: int) -> None:
    """Put the nearest rows of a block in place of farther ones that were found before, in place."""
    k = scores.shape[1]
    few = min(k, apart.shape[1])
    found = np.argpartition(apart, few - 1, axis=1)[:, :few]
    both = np.concatenate([scores, np.take_along_axis(apart, found, 1)], axis=1)
    named = np.concatenate([indices, found + start], axis=1)
    best = np.argpartition(both, k - 1, axis=1)[:, :k]
    scores[:], indices[:] = np.take_along_axis(both, best, 1), np.take_along_axis(named, best, 1)
