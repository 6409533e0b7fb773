"""The analyst's posterior of a sketch: records as they likely are, and answers that stay right after selection.

A prior of the records is learned from the release, by post-processing, so it costs no privacy. Under the prior,
intervals hold for whichever pairs the analyst selects by looking at the release: the posterior is given all of it. They
are credible intervals, as right as the prior is; ``Estimate.kind`` says so. The prior is tested on noise that is held
out, and intervals are corrected by what this shows (``posterior.held_out``). Tables of flags and categories have a
posterior of their own (``releases.level_posterior``).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.estimation import neighbours, quantities
from sfumato.estimation.neighbours import Clusters
from sfumato.intervals.estimate import Estimate, Quantity, plain
from sfumato.intervals.moments import SketchLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.posterior import prior, true_neighbours
from sfumato.posterior.beliefs import Beliefs
from sfumato.posterior.held_out import Correction, HeldOut
from sfumato.posterior.lengths import DistanceLaw, LengthCumulants, Stretch
from sfumato.posterior.stored import Ranking, StoredLevels, StoredPrior
from sfumato.posterior.true_neighbours import ExpectedHits
from sfumato.releases.release import Index, Nearest, positions
from sfumato.tables.schema import Schema

FEWEST = 30  # records from which a prior is learned
_LARGEST = 1e100  # numbers above have no fourth powers in doubles
_PAIRS = 2_000  # that distances in general are learned from
_COVERS = "posterior under a prior learned from this release; holds after selection as far as the prior is right"
NOT_LEARNED = "no prior was learned: nothing stands out of the noise"


@dataclass(frozen=True, eq=False)
class Posterior:
    """What a sketch tells about its records, given a prior that was learned from it.

    ``rows`` are the released ones, with noise and projection of this ``law``; ``whole`` says whether lengths are those
    of whole records. ``digest`` is that of the release, if it is in a folder; ``stored`` is a prior
    that was learned from it before.
    """

    rows: Floats
    law: SketchLaw
    schema: Schema
    whole: bool = True
    digest: str = ""
    stored: StoredPrior | None = None

    def __repr__(self) -> str:
        if not self.learned:
            return f"<Posterior: {NOT_LEARNED}>"
        found = self.beliefs.prior
        return f"<Posterior: {found.rank} directions of {self.rows.shape[1]}, {found.mixture.count} components>"

    @cached_property
    def beliefs(self) -> Beliefs:
        """The prior, and what is believed of each record; computed once."""
        if self.stored is not None:
            found = self.stored.prior
            return Beliefs.of(found, found.spectrum.coordinates(self.rows), self.rows)
        return Beliefs.of(*prior.learn(self.rows, self.law.noise), self.rows)

    @cached_property
    def learned(self) -> bool:
        """Whether a prior could be learned: not from few records, nor from noise, nor against the bounds of columns."""
        if len(self.rows) < FEWEST or not np.abs(self.rows).max() < _LARGEST:
            return False
        found = self.beliefs.prior.spectrum
        apart = 2 * float(found.variances.sum() + found.rest * found.tail)
        return found.rank > 0 and apart <= quantities.squared_distance(self.schema).high

    @cached_property
    def _held_out(self) -> HeldOut | None:
        self._check_learned()
        return HeldOut.of(self.rows, self.law.noise)

    @cached_property
    def correction(self) -> Correction:
        """How far the prior is wrong about pairs that look near, by noise that was held out; computed once."""
        if self.stored is not None:
            self._check_learned()
            return self.stored.correction
        return Correction() if self._held_out is None else self._held_out.correction()

    @cached_property
    def ranking(self) -> Ranking:
        """What ``release.nearest`` ranks by: "released" where noise that was held out says that the prior ranks worse.

        Computed once; without a learned prior the released numbers are all there is.
        """
        if not self.learned:
            return "released"
        if self.stored is not None:
            return self.stored.ranking
        worse = self._held_out is not None and self._held_out.released_ranks_better()
        return "released" if worse else "learned"

    @cached_property
    def _stretch(self) -> Stretch | None:
        """What the projection adds; None where it is not random."""
        if self.law.fixed:
            return None
        rng = np.random.default_rng(0)
        first, second = rng.integers(len(self.rows), size=(2, _PAIRS))
        apart = first != second
        lengths = self._lengths(first[apart], second[apart])
        return Stretch.learned(float(self.law.geometry.stretch_variance(1.0)), lengths)

    def save(self, path: str | Path) -> None:
        """Keep the prior in a new file, for ``release.posterior(path)``: it is learned once. Costs no privacy.

        The release folder itself never changes. The file holds nothing but what was computed from it.
        """
        if not self.digest:
            raise ParameterError("a posterior is kept for a release folder: save the release, load it and ask that one")
        self._kept().write(Path(path), self.digest)

    def _kept(self) -> StoredPrior | StoredLevels:
        """What ``save`` keeps."""
        return StoredPrior(self._check_learned().beliefs.prior, self.correction, self.ranking)

    # ---- records ----------------------------------------------------------------------------------------------------

    def means(self) -> Floats:
        """Posterior means of records in the directions that stand out: a table to search, cluster or plot."""
        self._check_learned()
        return self.beliefs.means

    def denoised(self) -> Floats:
        """Posterior means of the rows without noise, in the released space."""
        found = self._check_learned().beliefs.prior.spectrum
        return np.asarray(found.mean + self.means() @ found.basis.T)

    def cluster(self, clusters: int, *, seed: int = 0) -> Clusters:
        """K-means of posterior means; centres are in the directions that stand out."""
        return neighbours.cluster(self.means(), clusters, np.random.default_rng(seed))

    # ---- pairs ------------------------------------------------------------------------------------------------------

    def distance(self, i: int, j: int) -> Estimate:
        """Squared distance between two records."""
        law, quantity = self._law(*self._pair([i], [j])), quantities.squared_distance(self.schema)
        return _estimate(float(law.mean[0]), float(law.standard_deviation[0]), _shaped(law.bounds, ()), quantity)

    def distances(self, first: Index, second: Index) -> Estimate:
        """Squared distances between records, pairwise in step.

        Error: the value is the posterior mean, never negative; intervals are those of its posterior.
        """
        return self._distances(*self._pair(first, second))

    def _distances(self, first: Integers, second: Integers, shape: tuple[int, ...] | None = None) -> Estimate:
        law, shape = self._law(first, second), shape or first.shape
        bounds = _shaped(law.bounds, shape)
        quantity = quantities.squared_distance(self.schema)
        return _estimate(law.mean.reshape(shape), law.standard_deviation.reshape(shape), bounds, quantity)

    def _law(self, first: Integers, second: Integers) -> DistanceLaw:
        return DistanceLaw(self._lengths(first, second), self._stretch)

    def _lengths(self, first: Integers, second: Integers) -> LengthCumulants:
        """Squared distances of images, corrected; 0 between a record and itself."""
        beliefs, found = self._check_learned().beliefs, self.correction
        sums = found.corrected(beliefs.lengths(first, second), beliefs.rest(first, second))
        apart = np.where(first == second, 0.0, 1.0)
        return LengthCumulants(apart * sums.mean, apart * sums.variance, apart * sums.third)

    def inner_product(self, first: Index, second: Index) -> Estimate:
        """Inner products of different records, pairwise in step; intervals are those of a normal law."""
        value, error, _ = self._products(*self._pair(first, second))
        return _normal(value, error, quantities.inner_product(self.schema, whole=self.whole))

    def cosine(self, first: Index, second: Index) -> Estimate:
        """Cosine similarities of different records, pairwise in step, to first order in the error of inner products."""
        value, error, lengths = self._products(*self._pair(first, second))
        return _normal(value / lengths, error / lengths, quantities.COSINE)

    def _products(self, first: Integers, second: Integers) -> tuple[Floats, Floats, Floats]:
        """Posterior means of inner products, their deviations, and the products of root mean squared lengths."""
        beliefs = self._check_learned().beliefs
        spectrum = beliefs.prior.spectrum
        along = spectrum.mean @ spectrum.basis
        across = max(float(spectrum.mean @ spectrum.mean - along @ along), 0.0)
        means = [along + beliefs.means[records] for records in (first, second)]
        spreads = [beliefs.covariances(records) for records in (first, second)]
        value = np.sum(means[0] * means[1], axis=1) + across
        variance = np.full(len(value), spectrum.spread + 2 * across * spectrum.tail)
        lengths, m = np.ones(len(value)), beliefs.prior.mixture.leading
        for mean, other, (block, beyond) in zip(means, means[::-1], spreads, strict=True):
            variance += np.einsum("ni,nij,nj->n", other[:, :m], block, other[:, :m])
            variance += np.sum(other[:, m:] ** 2 * beyond, axis=1)
            squares = np.sum(mean**2, axis=1) + across + spectrum.rest * spectrum.tail
            lengths *= squares + np.einsum("nii->n", block) + beyond.sum(axis=1)
        variance += np.einsum("nij,nji->n", spreads[0][0], spreads[1][0]) + np.sum(
            spreads[0][1] * spreads[1][1], axis=1
        )
        variance = variance * self.correction.deviation[-1] ** 2 + self.law.geometry.inner_variance(lengths, 1.0, value)
        return value, np.sqrt(variance), np.sqrt(lengths)

    # ---- neighbours -------------------------------------------------------------------------------------------------

    def nearest(self, record: Index, k: int = 10) -> Nearest:
        """The k records whose posterior means are nearest to that of one; a row for each of many.

        ``expected`` of the answer is how many of them are expected among the truly nearest.
        """
        rows = positions(record, len(self.rows))
        found = self.ranked(rows, k)
        shown = found if np.ndim(record) else found[0]
        distances = self._distances(np.repeat(rows, k), found.ravel(), shown.shape)
        return Nearest(shown, distances, lambda: self._expected(rows, found))

    def ranked(self, rows: Integers, k: int) -> Integers:
        """The k nearest of each record, by posterior means."""
        return neighbours.nearest(self.means(), rows, k, self.law.noise).indices

    def _expected(self, rows: Integers, shown: Integers) -> ExpectedHits:
        return true_neighbours.expected_hits(self.beliefs, rows, shown, self._drawn)

    def _drawn(self, squared: Floats, rest: LengthCumulants, rng: np.random.Generator) -> Floats:
        """Draws of squared distances, given draws of their part along the basis, and the law of the rest."""
        tiny = np.finfo(float).tiny
        shape = np.maximum(rest.mean, tiny) ** 2 / np.maximum(rest.variance, tiny)
        within, across = self.correction.means(squared.mean(axis=0), rest.mean)
        drawn = rng.gamma(np.broadcast_to(shape, squared.shape)) / np.maximum(shape, tiny)
        total = within * squared + across * rest.mean * drawn
        stretch = self._stretch
        if stretch is None:
            return np.asarray(total)
        exact = LengthCumulants(total, np.zeros(total.shape), np.zeros(total.shape))
        middle, spread = stretch.logarithms(exact)
        return np.asarray(np.exp(middle + np.sqrt(spread) * rng.standard_normal(total.shape)))

    def classify(self, records: Index, labelled: Index, labels: ArrayLike, k: int = 10) -> Any:
        """The most frequent label of the k nearest of records whose labels are public; the nearest decides a tie."""
        given, near = np.asarray(labels), self._nearest_labelled(records, labelled, labels, k)
        names, codes = np.unique(given, return_inverse=True)
        votes = np.zeros((len(near), len(names)))
        for place, column in enumerate(codes[near].T):
            votes[np.arange(len(near)), column] += 1 + 2.0 ** -(place + 2) / k
        found = names[votes.argmax(axis=1)]
        return found if np.ndim(records) else found[0]

    def regress(self, records: Index, labelled: Index, labels: ArrayLike, k: int = 10) -> Any:
        """The mean label of the k nearest of records whose labels are public numbers."""
        near = self._nearest_labelled(records, labelled, labels, k)
        found = np.asarray(labels, np.float64)[near].mean(axis=1)
        return found if np.ndim(records) else float(found[0])

    def share_right(self, labelled: Index, labels: ArrayLike, k: int = 10) -> float:
        """How many of the labelled records ``classify`` guesses right by the others, as a share.

        That of all other records is expected to be the same, if the labelled ones are a random sample of all.
        """
        return float(np.mean(self.classify(labelled, labelled, labels, k) == np.asarray(labels)))

    def within(self, labelled: Index, labels: ArrayLike, k: int = 10, level: float = defaults.LEVEL) -> float:
        """How far ``regress`` errs at most, of labelled records guessed by the others, but for a share of 1 - level.

        The error of another record is at most that with probability ``level``, nearly, if the labelled ones are a
        random sample of all (leave-one-out conformal intervals); infinite where they are too few to tell.
        """
        check.between(0.0, 1.0, level=level)
        errors = np.sort(np.abs(self.regress(labelled, labelled, labels, k) - np.asarray(labels, np.float64)))
        place = max(math.ceil((len(errors) + 1) * level), 1)
        return float(errors[place - 1]) if place <= len(errors) else math.inf

    def _nearest_labelled(self, records: Index, labelled: Index, labels: ArrayLike, k: int) -> Integers:
        """Places among the labelled of those nearest to each record, itself left out."""
        asked, known = positions(records, len(self.rows)), positions(labelled, len(self.rows), "labelled")
        if np.shape(labels) != known.shape:
            raise ParameterError(f"labels must be one for each labelled record, got {np.shape(labels)}")
        check.whole(1, k=k)
        if k >= len(known):
            raise check.fail("k", k, f"below {len(known)}, the number of labelled records")
        found = neighbours.nearest(self.means()[known], self.means()[asked], k + 1, self.law.noise).indices
        return without(found, known[found] == asked[:, None])

    def _pair(self, first: Index, second: Index) -> tuple[Integers, Integers]:
        a, b = positions(first, len(self.rows)), positions(second, len(self.rows))
        if a.shape != b.shape:
            raise ParameterError(f"first and second must have the same length, got {a.size} and {b.size}")
        return a, b

    def _check_learned(self) -> "Posterior":
        if not self.learned:
            raise ParameterError(f"{NOT_LEARNED}: use the release itself, or prior='none'")
        return self


def without(found: Integers, own: NDArray[np.bool_]) -> Integers:
    """One less of those found for each query: its own record, or else the last."""
    kept = ~own
    kept[kept.all(axis=1), -1] = False
    return np.asarray(found[kept].reshape(len(found), -1))


def _estimate(value: Any, error: Any, bounds: Callable[[float], Any], quantity: Quantity) -> Estimate:
    return Estimate(value, error, _COVERS, bounds, quantity, "credible")


def _normal(value: Floats, error: Floats, quantity: Quantity) -> Estimate:
    def bounds(tail: float) -> tuple[Floats, Floats]:
        reach = -scipy.special.ndtri(tail) * error
        return value - reach, value + reach

    return _estimate(plain(value), plain(error), bounds, quantity)


def _shaped(bounds: Callable[[float], tuple[Floats, Floats]], shape: tuple[int, ...]) -> Callable[[float], Any]:
    def ends(tail: float) -> tuple[Floats, Floats]:
        low, high = bounds(tail)
        return low.reshape(shape), high.reshape(shape)

    return ends
