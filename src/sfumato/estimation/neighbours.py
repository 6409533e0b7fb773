"""Neighbours, clusters and low-rank structure of a sketch: free post-processing of its released rows.

Noise lengthens every squared distance between released rows by the same amount on average, so rankings need no
correction; only distances that are reported are freed of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers

_BLOCK = 4096  # rows at a time: a block of distances is at most this squared, 128 MB
_SCORES = 1 << 21  # of rows for queries at a time: 16 MB


@dataclass(frozen=True, slots=True)
class NearestRows:
    """The nearest rows of each query, nearest first: their indices, and unbiased estimates of squared distances.

    Choosing the smallest of many noisy distances makes them look smaller than they are: the estimates are unbiased for
    each pair, not for the winners.
    """

    indices: Integers
    squared: Floats


@dataclass(frozen=True, slots=True)
class Clusters:
    """A label for each row, the centres in sketch space, and the sum of squared distances to them (noise included)."""

    labels: Integers
    centres: Floats
    within: float


@dataclass(frozen=True, slots=True)
class Denoised:
    """Released rows without the directions that noise alone explains; ``rank`` is how many directions are left."""

    rows: Floats
    rank: int


def nearest(rows: ArrayLike, query: ArrayLike, k: int, noise: NoiseLaw, *, block: int = _BLOCK) -> NearestRows:
    """The ``k`` nearest neighbours among the rows of each query, by distance in the sketch.

    ``query``: whole numbers are indices of released rows (a row is not its own neighbour); other numbers are public
    rows, already projected. One query gives one row of answers, many give an array. Memory is bounded by ``block``
    squared.
    Guarantee: post-processing of a release; costs no privacy.
    """
    table = _table(rows)
    asked = np.asarray(query)
    by_index = bool(np.issubdtype(asked.dtype, np.integer))
    single = asked.ndim == (0 if by_index else 1)
    own = np.atleast_1d(asked).astype(np.int64) if by_index else None
    if own is not None and (own.ndim != 1 or bool(np.any((own < 0) | (own >= len(table))))):
        raise ParameterError(f"query must hold indices from 0 to {len(table) - 1}, one or a list of them")
    points = table[own] if own is not None else np.atleast_2d(np.asarray(asked, np.float64))
    if points.ndim != 2 or points.shape[1] != table.shape[1]:
        raise ParameterError(f"query must be projected rows of {table.shape[1]} numbers, got shape {asked.shape}")
    check.whole(1, k=k, block=block)
    if k > len(table) - by_index:
        raise check.fail("k", k, f"at most {len(table) - by_index}, the rows there are to choose from")
    starts = range(0, len(points), block)
    found = [
        _closest(table, points[s : s + block], None if own is None else own[s : s + block], k, block) for s in starts
    ]
    indices = np.concatenate([np.empty((0, k), np.int64), *(chunk[0] for chunk in found)])
    bias = (1 + by_index) * table.shape[1] * noise.variance
    squared = np.concatenate([np.empty((0, k)), *(chunk[1] for chunk in found)]) - bias
    return NearestRows(indices[0], squared[0]) if single else NearestRows(indices, squared)


def _closest(table: Floats, points: Floats, own: Integers | None, k: int, block: int) -> tuple[Integers, Floats]:
    """Indices and raw squared distances of the k nearest neighbours in the table, gathered over blocks of it.

    Ranked by |r|^2 - 2 p.r, one product for each block; after the first, few are below the worst that is kept.
    """
    width = max(k, min(block, _SCORES // len(points)))
    queries = np.column_stack([-2 * points, np.ones(len(points))])
    squared, indices = np.empty((len(points), k)), np.empty((len(points), k), np.int64)
    for start in range(0, len(table), width):
        rows = table[start : start + width]
        scores = queries @ np.vstack([rows.T, np.sum(rows * rows, axis=1)])
        if own is not None:
            (inside,) = np.nonzero((own >= start) & (own < start + width))
            scores[inside, own[inside] - start] = np.inf
        if start == 0:
            indices = np.argpartition(scores, k - 1, axis=1)[:, :k]
            squared = np.take_along_axis(scores, indices, 1)
            continue
        query, place = np.nonzero(scores < squared.max(axis=1)[:, None])
        _keep(squared, indices, (query, scores[query, place], start + place))
    squared = np.maximum(squared + np.sum(points * points, axis=1)[:, None], 0.0)
    order = np.lexsort((indices, squared), axis=1)
    return np.take_along_axis(indices, order, 1), np.take_along_axis(squared, order, 1)


def _keep(squared: Floats, indices: Integers, found: tuple[Integers, Floats, Integers]) -> None:
    """Nearest neighbours so far: found (query, score, index) replace the worst kept for each query, in place."""
    query, score, index = found
    touched, query = np.unique(query, return_inverse=True)
    k = squared.shape[1]
    query = np.concatenate([np.repeat(np.arange(len(touched)), k), query])
    score = np.concatenate([squared[touched].ravel(), score])
    index = np.concatenate([indices[touched].ravel(), index])
    order = np.lexsort((index, score, query))
    least = order[np.searchsorted(query[order], np.arange(len(touched)))[:, None] + np.arange(k)]
    squared[touched], indices[touched] = score[least], index[least]


def _squared_distances(points: Floats, rows: Floats) -> Floats:
    """Squared distances of points to all candidate neighbours, by one matrix product.

    All pairs, by one matrix product; what cancellation takes away is below 1e-15 of the squared norms.
    """
    norms = np.sum(points * points, axis=1)[:, None] + np.sum(rows * rows, axis=1)
    return np.asarray(np.maximum(norms - 2 * points @ rows.T, 0.0))


def cluster(rows: ArrayLike, clusters: int, rng: np.random.Generator, *, restarts: int = 4) -> Clusters:
    """k-means of the released rows: Lloyd's algorithm from k-means++ starts, the best of a few.

    Guarantee: post-processing of a release; costs no privacy. The randomness here is no secret.
    """
    table = _table(rows)
    check.whole(1, clusters=clusters, restarts=restarts)
    if clusters > len(table):
        raise check.fail("clusters", clusters, f"at most {len(table)}, the number of rows")
    runs = [_lloyd(table, _plus_plus(table, clusters, rng)) for _ in range(restarts)]
    return min(runs, key=lambda run: run.within)


def _plus_plus(table: Floats, clusters: int, rng: np.random.Generator) -> Floats:
    """Starting centres of k-means++.

    Starting centres: each next row drawn in proportion to its squared distance to those before (Arthur 2007).
    """
    chosen = [int(rng.integers(len(table)))]
    squared = np.sum((table - table[chosen[0]]) ** 2, axis=1)
    while len(chosen) < clusters:
        total = float(squared.sum())
        weights = squared / total if total > 0 else np.full(len(table), 1 / len(table))
        chosen.append(int(rng.choice(len(table), p=weights)))
        squared = np.minimum(squared, np.sum((table - table[chosen[-1]]) ** 2, axis=1))
    return table[chosen]


def _lloyd(table: Floats, centres: Floats, rounds: int = 100) -> Clusters:
    """Lloyd's rounds of k-means.

    Assign and average until no label changes; a centre that loses all its rows moves to the row served worst.
    """
    labels, squared = assign(table, centres)
    for _ in range(rounds):
        counts = np.bincount(labels, minlength=len(centres))
        sums = np.stack([np.bincount(labels, column, len(centres)) for column in table.T], axis=1)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        for empty, worst in zip(np.flatnonzero(counts == 0), np.argsort(-squared, kind="stable"), strict=False):
            centres[empty] = table[worst]
        before = labels
        labels, squared = assign(table, centres)
        if np.array_equal(before, labels):
            break
    return Clusters(labels, centres, float(squared.sum()))


def assign(table: Floats, centres: Floats) -> tuple[Integers, Floats]:
    """The nearest cluster centre of each row and the squared distance to it, in blocks."""
    labels, squared = np.empty(len(table), np.int64), np.empty(len(table))
    for start in range(0, len(table), _BLOCK):
        here = slice(start, start + _BLOCK)
        distances = _squared_distances(table[here], centres)
        labels[here], squared[here] = distances.argmin(axis=1), distances.min(axis=1)
    return labels, squared


def denoise(rows: ArrayLike, noise: NoiseLaw) -> Denoised:
    """Low-rank denoising of a sketch's rows.

    The released rows, projected on the directions in which they vary more than noise alone would make them.

    Guarantee: post-processing of a release; costs no privacy.
    Error:     singular values below lambda(beta) sqrt(max(n, k)) times the noise's scale are dropped: the hard
               threshold of least asymptotic mean squared error for known noise. Pure noise leaves nothing.
    Reference: Gavish and Donoho 2014, equation 11.
    """
    table = _table(rows)
    small, large = sorted(table.shape)
    beta = small / large
    threshold = np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + np.sqrt(beta**2 + 14 * beta + 1)))
    tall = len(table) == large
    squares, directions = np.linalg.eigh(table.T @ table if tall else table @ table.T)
    kept = directions[:, squares > threshold**2 * large * noise.variance]
    return Denoised(table @ kept @ kept.T if tall else kept @ (kept.T @ table), kept.shape[1])


def _table(rows: ArrayLike) -> Floats:
    table = np.asarray(rows, np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ParameterError(f"rows must be a table of released rows, one row each, got shape {table.shape}")
    return table
