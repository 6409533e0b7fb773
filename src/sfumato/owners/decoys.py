"""False links counted by decoys: records that cannot be anybody's match, and compete with the other owner's.

An owner's own records, but for the row itself, are different people. Brought to the other owner's noise they look, to
any row, as the other owner's records do that are not its match, if both owners draw from one population. So each row
is linked to the best of both, and as many links go wrong to the other owner's records as go to decoys, but for how
many there are of each. This holds however pairs are scored; the score only decides how many links are found.
Reference: Elias and Gygi 2007 (target-decoy competition); Barber and Candes 2015 for the one that is added.
"""

import math
from dataclasses import dataclass

import numpy as np

from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Bools, Floats, Integers

_SEED = 29  # of the noise that is added to decoys, and of the order of what ties


def noisier(rows: Floats, has: NoiseLaw, wanted: NoiseLaw) -> Floats:
    """Released rows with noise added, so that theirs is of the law that is wanted, which is no quieter.

    Laplace noise of scale b becomes that of scale b' if Laplace noise of scale b' is added to a number with probability
    1 - (b/b')^2: the characteristic functions multiply. Between two kinds of noise only variances can be brought alike.
    """
    missing = wanted.variance - has.variance
    if missing <= 1e-9 * wanted.variance:
        return rows
    rng = np.random.default_rng(_SEED)
    if has.kind == wanted.kind == "laplace":
        some = rng.random(rows.shape) < missing / wanted.variance
        return np.asarray(rows + some * rng.laplace(0.0, wanted.scale / math.sqrt(2), rows.shape))
    return np.asarray(rows + rng.normal(0.0, math.sqrt(missing), rows.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Competition:
    """The best candidate of each row, one row for each candidate: its score, and whether it is a decoy.

    targets, of_decoys : how many of the other owner's records there are, and how many decoys for each row.
    """

    rows: Integers
    others: Integers
    scores: Floats
    decoys: Bools
    targets: int
    of_decoys: int

    @classmethod
    def of(cls, others: Integers, scores: Floats, targets: int, decoys: int) -> "Competition":
        """Of candidates (rows, some) with these scores; those from ``targets`` on are decoys, for each row so many."""
        rng = np.random.default_rng(_SEED)
        mixed = rng.permuted(np.broadcast_to(np.arange(others.shape[1]), others.shape), axis=1)  # ties go anywhere
        found = np.take_along_axis(mixed, np.take_along_axis(scores, mixed, 1).argmax(axis=1)[:, None], 1)
        winner, score = np.take_along_axis(others, found, 1)[:, 0], np.take_along_axis(scores, found, 1)[:, 0]
        order = np.lexsort((rng.random(len(score)), -score))
        kept = order[np.sort(np.unique(winner[order], return_index=True)[1])]  # the best row of each candidate
        return cls(kept, winner[kept], score[kept], winner[kept] >= targets, targets, max(decoys, 1))

    def _wrong(self) -> Floats:
        """How many links up to each are expected to be wrong, best first: as many as decoys, and one more.

        A record whose right link is surer is taken, and no wrong link goes there: with w wrong among T links to m
        records, and D of d decoys taken, w = (m - T + w)(D + 1)/d.
        """
        share = np.minimum((1 + np.cumsum(self.decoys)) / self.of_decoys, 0.5)
        links = np.cumsum(~self.decoys)
        return np.asarray(np.minimum((self.targets - links) * share / (1 - share), links))

    def false_rates(self) -> Floats:
        """The estimated share of false ones among links up to each, best first.

        As a link is never surer than a better one, each has the least of the rates from it on.
        """
        rates = self._wrong() / np.maximum(np.cumsum(~self.decoys), 1)
        return np.asarray(np.minimum.accumulate(rates[::-1])[::-1])

    def probabilities(self) -> Floats:
        """That each link is right: one less the share of false ones about its score, which falls with the score.

        Shares of decoys are pooled until they rise as scores fall; half a decoy stands before the first.
        """
        free = (self.targets - np.cumsum(~self.decoys) + self._wrong()) / self.of_decoys
        share = isotonic(np.append(0.5, self.decoys), np.append(0.5, np.ones(len(self.decoys))))[1:]
        found = 1 - np.minimum(free * share / np.maximum(1 - share, 1e-12), 1.0)
        return np.asarray(np.minimum.accumulate(found))


def isotonic(sums: Floats, weights: Floats) -> Floats:
    """The nearest means of these that never fall (pool adjacent violators)."""
    pools: list[list[float]] = []
    for total, weight in zip(sums.tolist(), weights.tolist(), strict=True):
        pools.append([total, weight, 1])
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] >= pools[-1][0] * pools[-2][1]:
            last = pools.pop()
            pools[-1] = [x + y for x, y in zip(pools[-1], last, strict=True)]
    return np.repeat([total / weight for total, weight, _ in pools], [int(size) for *_, size in pools])
