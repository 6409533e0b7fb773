"""The posterior of a sketch whose columns are flags, categories and numbers with a few levels, published as they are.

Cells of such records are levels that the public schema lists, and many records are alike. A mixture of products of laws
over levels is learned from the release (``posterior.products``), with the noise as it is. Records that tie are counted
as ties, and squared distances of flags are whole numbers.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sfumato.estimation import neighbours
from sfumato.intervals.estimate import Ends
from sfumato.intervals.moments import SketchLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.posterior import products, true_neighbours
from sfumato.posterior.lengths import DistanceLaw, LengthCumulants
from sfumato.posterior.level_beliefs import LevelBeliefs
from sfumato.posterior.levels import Levels
from sfumato.posterior.products import FittedProducts
from sfumato.posterior.stored import Ranking, StoredLevels, StoredPrior
from sfumato.posterior.true_neighbours import ExpectedHits
from sfumato.releases.posterior import FEWEST, NOT_LEARNED, Posterior, without
from sfumato.tables.schema import Schema

_UNSURE = 0.25  # of a record's variance, added to its squared distance when it is ranked
_STANDS_OUT = 3.0  # standard errors by which rows that were held out are likelier under what was learned


@dataclass(frozen=True, eq=False)
class LevelLaw(DistanceLaw):
    """The law of squared distances between levels. Where these are multiples of a unit, so are ends of intervals.

    The law is that of a smooth number that is rounded: the probability of a multiple is that of half a unit about it.
    """

    unit: float = 0.0

    def bounds(self, tail: float) -> Ends:
        """Ends of the interval that leaves out ``tail`` on each side."""
        low, high = DistanceLaw.bounds(self, tail)
        if not self.unit:
            return low, high
        return self.unit * np.floor(low / self.unit + 0.5), self.unit * np.ceil(high / self.unit - 0.5)


@dataclass(frozen=True, eq=False)
class LevelPosterior(Posterior):
    """What a sketch tells about records whose cells are levels; ``fitted`` is a prior that was learned before."""

    fitted: FittedProducts | None = None

    @property
    def levels(self) -> Levels:
        """What cells can be, by the schema."""
        found = Levels.of(self.schema, self.law.noise)
        if found is None:
            raise TypeError("the schema has no levels")
        return found

    def __repr__(self) -> str:
        if not self.learned:
            return f"<Posterior: {NOT_LEARNED}>"
        return f"<Posterior: {self._fitted.products.levels.count} levels, {self._fitted.products.count} components>"

    @cached_property
    def _fitted(self) -> FittedProducts:
        return self.fitted or products.fit(self.rows, self.levels, self.law.noise)

    @cached_property
    def known(self) -> LevelBeliefs:
        """The prior, and what is believed of each record; computed once."""
        self._check_learned()
        return LevelBeliefs.of(self._fitted.products, self.rows, self.law.noise)

    @cached_property
    def learned(self) -> bool:
        """Whether a prior could be learned: not from few records, nor where rows held out say nothing for it."""
        return len(self.rows) >= FEWEST and self._fitted.gain > _STANDS_OUT * self._fitted.error

    @cached_property
    def ranking(self) -> Ranking:
        """What ``release.nearest`` ranks by."""
        return "learned" if self.learned else "released"

    def _kept(self) -> StoredLevels:
        self._check_learned()
        return StoredLevels(self._fitted)

    def means(self) -> Floats:
        """Posterior means of records, in encoded columns and weighted units."""
        return self.known.means

    def denoised(self) -> Floats:
        """Posterior means of the rows without noise."""
        return self.means()

    def ranked(self, rows: Integers, k: int) -> Integers:
        """The k nearest of each record, by posterior means; of two as near, the surer one."""
        unsure = np.sqrt(_UNSURE * self.known.variances)[:, None]
        table, asked = np.hstack([self.means(), unsure]), self.means()[rows]
        points = np.hstack([asked, np.zeros((len(rows), 1))])
        if k >= len(table):
            return neighbours.nearest(self.means(), rows, k, self.law.noise).indices
        found = neighbours.nearest(table, points, k + 1, self.law.noise).indices
        return without(found, found == rows[:, None])

    def _expected(self, rows: Integers, shown: Integers) -> ExpectedHits:
        return true_neighbours.expected_hits(self.known, rows, shown, lambda squared, *_: squared)

    def _law(self, first: Integers, second: Integers) -> DistanceLaw:
        found = self.known.lengths(first, second)
        apart = np.where(first == second, 0.0, 1.0)
        exact = LengthCumulants(apart * found.mean, apart * found.variance, apart * found.third)
        return LevelLaw(exact, None, self._fitted.products.levels.unit)

    def _products(self, first: Integers, second: Integers) -> tuple[Floats, Floats, Floats]:
        """Posterior means of inner products, their deviations, and the products of root mean squared lengths."""
        (one, wide), (two, broad) = (self.known.moments(records) for records in (first, second))
        variance = np.sum(one**2 * broad + two**2 * wide + wide * broad, axis=1)
        lengths = np.sum(one**2 + wide, axis=1) * np.sum(two**2 + broad, axis=1)
        return np.sum(one * two, axis=1), np.sqrt(variance), np.sqrt(np.maximum(lengths, np.finfo(float).tiny))


def posterior_of(
    rows: Floats, law: SketchLaw, schema: Schema, whole: bool, digest: str = "", path: Path | None = None
) -> Posterior:
    """The posterior of a sketch, by what its public schema says of cells; from a file that keeps its prior, if any."""
    levels = Levels.of(schema, law.noise) if law.geometry.family == "identity" else None
    if levels is None:
        prior = None if path is None else StoredPrior.read(path, digest, rows.shape[1], law.noise.variance)
        return Posterior(rows, law, schema, whole, digest, prior)
    fitted = None if path is None else StoredLevels.read(path, digest, levels).fitted
    return LevelPosterior(rows, law, schema, whole, digest, None, fitted)
