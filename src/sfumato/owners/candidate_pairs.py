"""Pairs of records of two owners that are worth a closer look: the best few of each row by a product of features.

All pairs are compared, a block at a time, so time grows as the product of the numbers of records and memory as their
sum. The product of features stands for the likelihood ratio of a pair; it only chooses which pairs are looked at.
"""

from collections.abc import Iterator

import numpy as np

from sfumato.numerics.types import Floats, Integers

_ROWS, _COLUMNS = 512, 1 << 13  # of a block of pairs


def best(rows: Floats, columns: Floats, count: int, *, same: bool = False) -> Integers:
    """For each row the columns of the largest products of features, at most so many: (rows, count).

    same : whether row i and column i are one record, which is no pair.
    """
    count = min(count, len(columns) - same)
    parts = [_best_of(rows[at], columns, count, at.start if same else None) for at in blocks(len(rows), _ROWS)]
    return np.concatenate(parts) if parts else np.empty((0, count), np.int64)


def blocks(count: int, size: int) -> Iterator[slice]:
    """Ranges of so many that together are all."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _best_of(rows: Floats, columns: Floats, count: int, own: int | None) -> Integers:
    score = np.full((len(rows), count), -np.inf, np.float32)
    place = np.zeros((len(rows), count), np.int64)
    for at in blocks(len(columns), _COLUMNS):
        found = rows @ columns[at].T
        if own is not None:
            mine = np.arange(len(rows)) + own - at.start
            inside = (mine >= 0) & (mine < found.shape[1])
            found[np.flatnonzero(inside), mine[inside]] = -np.inf
        most = min(count, found.shape[1])
        here = np.argpartition(found, found.shape[1] - most, axis=1)[:, -most:]
        score = np.concatenate([score, np.take_along_axis(found, here, 1)], axis=1)
        place = np.concatenate([place, here + at.start], axis=1)
        kept = np.argpartition(score, score.shape[1] - count, axis=1)[:, -count:]
        score, place = np.take_along_axis(score, kept, 1), np.take_along_axis(place, kept, 1)
    return place
