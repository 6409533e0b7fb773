"""k-means over the rows of several owners, in passes over blocks of rows; noisier owners count less.

A released row of owner o lies about its centre with variance t + v_o in each entry: t is how far records themselves
spread about their centre, and v_o the variance of the owner's noise, which is public. Of all weighted means the one
with weights 1 / (t + v_o) has the least variance (Gauss and Markov), so these are the weights of rows in centres. Where
records spread more than any noise, all owners count alike; where noise is larger, they count by the inverse of its
variance. t is estimated in every round from what is left when the noise is taken away: t = mean over rows, so weighted,
of ||z - centre||^2 / dimension - v_o, and at least 0.

A row belongs to the nearest centre, whoever its owner is. Starting centres are found among a sample of rows, of which
owners give more the less noise they have.

Guarantee: post-processing of releases; costs no privacy.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy

from sfumato.estimation import neighbours
from sfumato.estimation.neighbours import Clusters
from sfumato.numerics.types import Floats, Integers

Blocks: TypeAlias = Iterable[tuple[int, int, Floats]]  # owner, position of the first row, rows
_ROUNDS = 50  # passes, at most
_STILL, _GAIN = 1e-3, 1e-4  # shares at the end: of rows that change their label still, or of what a pass gains
_SAMPLE = 1 << 14  # rows among which starting centres are sought
_DISTANCES = 1 << 19  # of rows to centres at a time


@dataclass(frozen=True, slots=True)
class OwnedRows:
    """Rows of several owners to cluster: how many each has, the variance of its noise, and passes over all of them."""

    counts: Integers
    variances: Floats
    passes: Callable[[], Blocks]

    @property
    def total(self) -> int:
        """How many rows all owners have."""
        return int(self.counts.sum())


def cluster(rows: OwnedRows, clusters: int, rng: np.random.Generator) -> Clusters:
    """k-means of the rows of several owners: Lloyd's rounds from the best centres of a sample, weighted by noise."""
    centres = _starts(rows, clusters, rng).astype(np.float64)
    labels = np.full(rows.total, -1, np.int64)
    found = _Pass.of(rows, centres, labels)
    spread = found.spread(rows, np.ones(len(rows.counts)))
    for _ in range(_ROUNDS):
        spread = found.spread(rows, 1 / (spread + rows.variances))
        weights = 1 / (spread + rows.variances)
        centres, before = found.centres(weights, centres), float(weights @ found.within)
        found = _Pass.of(rows, centres, labels)
        if found.changed <= _STILL * rows.total or before - float(weights @ found.within) <= _GAIN * before:
            break
    return Clusters(labels, centres, float(found.within.sum()))


@dataclass(frozen=True, slots=True)
class _Pass:
    """What one pass over all rows found of clusters, owner by owner: sizes, sums of rows, squared distances."""

    sizes: Floats
    sums: Floats
    within: Floats
    changed: int
    worst: Floats

    @classmethod
    def of(cls, rows: OwnedRows, centres: Floats, labels: Integers) -> "_Pass":
        """Label all rows anew, in place, and sum up."""
        owners, (count, k) = len(rows.counts), centres.shape
        sizes, sums, within = np.zeros((owners, count)), np.zeros((owners, count, k)), np.zeros(owners)
        changed, worst = 0, (-np.inf, centres[0])
        for owner, start, block in rows.passes():
            for first in range(0, len(block), max(1, _DISTANCES // count)):
                some = block[first : first + max(1, _DISTANCES // count)]
                place = slice(start + first, start + first + len(some))
                own, squared = _assigned(some, centres)
                changed += int(np.count_nonzero(labels[place] != own))
                labels[place] = own
                chosen = _indicator(own, count)
                sizes[owner] += np.bincount(own, minlength=count)
                sums[owner] += chosen @ some
                within[owner] += squared.sum(dtype=np.float64)
                farthest = int(squared.argmax())
                score = float(squared[farthest]) / rows.variances[owner]
                worst = (score, np.array(some[farthest], np.float64)) if score > worst[0] else worst
        return cls(sizes, sums, within, changed, worst[1])

    def spread(self, rows: OwnedRows, weights: Floats) -> float:
        """How far records spread about their centres without noise, as a variance of each entry."""
        each = self.within / (rows.counts * self.sums.shape[2]) - rows.variances
        return max(float(np.average(each, weights=weights * rows.counts)), 0.0)

    def centres(self, weights: Floats, before: Floats) -> Floats:
        """Weighted means of clusters; one that lost all its rows moves to a row served worst."""
        counted = weights @ self.sizes
        means = np.einsum("o,okd->kd", weights, self.sums) / np.maximum(counted, 1e-300)[:, None]
        found = np.where(counted[:, None] > 0, means, before)
        empty = np.flatnonzero(counted == 0)
        if empty.size:
            found[empty[0]] = self.worst
        return np.asarray(found)


def _assigned(rows: Floats, centres: Floats) -> tuple[Integers, Floats]:
    """The nearest of the clusters' centres to each row, and the squared distance to it, in the rows' precision."""
    own = centres.astype(rows.dtype)
    scores = rows @ (-2 * own.T)
    scores += np.einsum("ij,ij->i", own, own)
    labels = scores.argmin(axis=1)
    least = np.take_along_axis(scores, labels[:, None], 1)[:, 0]
    return labels, np.maximum(least + np.einsum("ij,ij->i", rows, rows), 0.0)


def _indicator(labels: Integers, clusters: int) -> scipy.sparse.csr_array:
    """Which rows are in which cluster, as a matrix that sums them."""
    count = len(labels)
    ones = np.ones(count, np.float64)
    return scipy.sparse.csr_array((ones, (labels, np.arange(count))), shape=(clusters, count))


def _starts(rows: OwnedRows, clusters: int, rng: np.random.Generator) -> Floats:
    """Starting centres: the best clusters of a sample, in which owners with less noise have a larger part."""
    wanted = rows.counts / (rows.variances + rows.variances.min())
    size = max(_SAMPLE, 8 * clusters)
    shares = np.minimum(np.ceil(wanted / wanted.sum() * size).astype(np.int64), rows.counts)
    if shares.sum() < clusters:
        shares = rows.counts
    chosen = [
        np.sort(rng.choice(count, share, replace=False)) for count, share in zip(rows.counts, shares, strict=True)
    ]
    starts = np.cumsum(rows.counts) - rows.counts
    found = []
    for owner, start, block in rows.passes():
        local = chosen[owner] - (start - starts[owner])
        found.append(block[local[(local >= 0) & (local < len(block))]])
    return neighbours.cluster(np.concatenate(found), clusters, rng).centres
