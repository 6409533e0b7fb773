"""Noisy distances in the analyst's hands: each published number is a squared distance plus one draw of noise.

Distances are in the schema's weighted units, between records as they were clipped. Nothing here costs privacy.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import distance_matrix, neighbours, quantities
from sfumato.estimation.neighbours import Clusters
from sfumato.fileformat.manifest import NoiseManifest
from sfumato.intervals import additive_noise
from sfumato.intervals.estimate import Estimate
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats
from sfumato.releases.release import Index, Nearest, NumbersRelease


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DistancesRelease(NumbersRelease):
    """Noisy squared distances: ``columns`` has shape (1, pairs), the strict upper triangle in row-major order."""

    manifest: NoiseManifest

    def __post_init__(self) -> None:
        if self.columns.shape != (1, distance_matrix.pairs(self.rows)):
            raise ReleaseError(
                f"{self.rows} records have {distance_matrix.pairs(self.rows)} distances, got shape {self.columns.shape}"
            )

    @property
    def values(self) -> Floats:
        """The published noisy distances: the pairs (0,1), (0,2), ..., (1,2), ..."""
        return np.asarray(self.columns[0])

    @property
    def noise(self) -> NoiseLaw:
        """The law of the noise on each distance."""
        mechanism = self.manifest["mechanism"]
        return NoiseLaw(mechanism["noise"], mechanism["standard_deviation"])

    @property
    def dimension(self) -> int:
        """The most dimensions that points behind the distances can need: the encoded columns, or fewer for few rows."""
        return min(self.schema.encoding.dim, self.rows - 1)

    def array(self) -> Floats:
        """The published numbers as a symmetric matrix, with zeros on the diagonal."""
        return self.matrix()

    def matrix(self) -> Floats:
        """The published numbers as a symmetric matrix, with zeros on the diagonal."""
        return distance_matrix.square(self.values, self.rows)

    def distance(self, i: int, j: int) -> Estimate:
        """Squared distance between two records."""
        if np.ndim(i) or np.ndim(j):
            raise ParameterError("distance takes two records: use distances for many pairs")
        (a,), (b,) = self._check(i), self._check(j)
        return self._between(a, b)

    def distances(self, first: Index, second: Index) -> Estimate:
        """Squared distances between records, pairwise in step."""
        return self._between(*self._pairs(first, second))

    def hamming(self, first: Index, second: Index) -> Estimate:
        """Numbers of flags in which records differ, pairwise in step; for schemas of flags of weight 1."""
        self._check_flags()
        return self.distances(first, second).of(quantities.differing_flags(self.schema))

    def error_at(self, squared: ArrayLike) -> Floats:
        """The standard error of an estimated squared distance, which is the same at all of them."""
        return np.full(np.shape(squared), self.noise.scale)

    def nearest(self, record: int, k: int = 10) -> Nearest:
        """The k records that look nearest to one, with estimates of their squared distances."""
        (row,) = self._check(record)
        check.whole(1, k=k)
        if k >= self.rows:
            raise check.fail("k", k, f"at most {self.rows - 1}, the rows there are to choose from")
        others = np.delete(np.arange(self.rows), row)
        seen = self.values[distance_matrix.place(np.full_like(others, row), others, self.rows)]
        found = others[np.lexsort((others, seen))[:k]]
        return Nearest.among(self.rows - 1, found, self.distances(np.full(k, row), found))

    def cleaned(self, method: Literal["mds", "nearest"] = "nearest", rank: int | None = None) -> Floats:
        """The squared distances of points in space that come near the published numbers, as a matrix.

        ``mds``     : classical scaling to ``rank`` dimensions, or as many as there are encoded columns. Strong where
                      these are few beside the number of rows; biased where the noise is larger than the distances.
        ``nearest`` : the nearest matrix of squared distances, in any number of dimensions. No farther from the truth
                      than the published numbers are, whatever the noise.
        Error: no interval is known for either. Time grows with the cube of the number of rows, for ``nearest`` some
        tens to hundreds of times over.
        """
        check.one_of(("mds", "nearest"), method=method)
        if method == "mds":
            return distance_matrix.between(self.embedding(rank))
        if rank is not None:
            raise ParameterError(f"rank needs method='mds', got rank={rank} with method='nearest'")
        fitted = distance_matrix.nearest_distances(self.matrix())
        if not fitted.converged:
            raise ReleaseError(
                f"the nearest distances were not found in {fitted.rounds} rounds: use method='mds' instead"
            )
        return fitted.matrix

    def embedding(self, rank: int | None = None) -> Floats:
        """Points in ``rank`` dimensions whose squared distances come near the published ones, one row per record."""
        most = self.dimension
        if rank is not None:
            check.whole(1, rank=rank)
            if rank > most:
                raise check.fail("rank", rank, f"at most {most}, the dimensions that these records can need")
        return distance_matrix.points(self.matrix(), most if rank is None else rank)

    def cluster(self, clusters: int, *, rank: int | None = None, seed: int = 0) -> Clusters:
        """K-means of the embedded records."""
        return neighbours.cluster(self.embedding(rank), clusters, np.random.default_rng(seed))

    def _between(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> Estimate:
        """Estimates of squared distances for pairs of records; one with itself is at distance 0 for certain."""
        same = a == b
        seen = self.values[
            np.where(same, 0, distance_matrix.place(a, np.where(same, (b + 1) % self.rows, b), self.rows))
        ]
        return additive_noise.located(seen, self.noise, np.where(same, 0.0, self._apart.high)).of(self._apart)
