"""The rows of several owners that look nearest to some rows, in one pass over all of them.

Noise lengthens the squared distance of two released rows by dimension * (variance of the one + variance of the other).
Within one release that is the same for all pairs; across owners it is not, and rows of quiet owners would look nearer
than they are. So rows are ranked by estimates that are freed of it.
"""

from collections.abc import Iterable

import numpy as np

from sfumato.numerics.types import Floats, Integers

_SCORES = 1 << 21  # of a block of rows against some queries at a time: 16 MB


def nearest(points: Floats, own: Integers, blocks: Iterable[tuple[int, Floats, float]], k: int) -> Integers:
    """Positions of the k rows nearest to each point by unbiased estimates, nearest first; no row is its own neighbour.

    own    : the position of each point among all rows.
    blocks : rows with the position of the first, and what the owner's noise adds to a squared length.
    """
    scores = np.full((len(points), k), np.inf)
    indices = np.full((len(points), k), -1, np.int64)
    for start, rows, bias in blocks:
        block = np.asarray(rows, np.float64)
        lengths = np.einsum("ij,ij->i", block, block) - bias
        step = max(1, _SCORES // max(len(block), 1))
        for first in range(0, len(points), step):
            some = slice(first, first + step)
            apart = lengths - 2 * points[some] @ block.T
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
