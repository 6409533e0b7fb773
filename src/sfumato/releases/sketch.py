"""Sketches in the analyst's hands: noisy projected records, and questions about their geometry.

Distances, norms and inner products are in the schema's weighted units: column j counts as weight_j * value_j, a
category as one column per value. Error bars are those of ``estimation.sketches``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from sfumato import check
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import neighbours, quantities, sketches
from sfumato.estimation.neighbours import Clusters
from sfumato.fileformat.manifest import SketchManifest
from sfumato.fileformat.spaces import joint_columns
from sfumato.files.open_table import open_table
from sfumato.intervals.estimate import Estimate
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.numerics.types import Floats
from sfumato.releases.release import Index, Nearest, NumbersRelease

if TYPE_CHECKING:  # loaded when it is asked for: whoever reads distances does not wait for it
    from sfumato.releases.posterior import Posterior

Prior = Literal["learned", "none"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SketchRelease(NumbersRelease):
    """Noisy projected records: ``columns`` has shape (dimension, records)."""

    manifest: SketchManifest

    @property
    def dimension(self) -> int:
        """How many numbers each record became."""
        return int(self.columns.shape[0])

    @property
    def noise(self) -> NoiseLaw:
        """The law of the noise on each number of the sketch."""
        mechanism = self.manifest["mechanism"]
        return NoiseLaw(mechanism["noise"], mechanism["standard_deviation"])

    @property
    def geometry(self) -> Geometry:
        """What the projection does to lengths."""
        facts = self.manifest["projection"]
        if "space" not in self.manifest or facts["family"] not in ("identity", "orthonormal"):
            return Geometry(facts["family"], facts["dim_in"], facts["dim_out"])
        if "joint columns" not in self._stated:  # the law of these families is that of the whole, also for a part of it
            self._stated["joint columns"] = joint_columns(self.manifest)
        return Geometry(facts["family"], self._stated["joint columns"], facts["dim_out"])

    @property
    def law(self) -> SketchLaw:
        """What is random about each released row: the noise and the projection."""
        return SketchLaw(self.noise, self.geometry)

    def array(self) -> Floats:
        """The released numbers of the sketch, one row per record."""
        return self.columns.T

    def transform(self, public_rows: Any) -> Floats:
        """The analyst's own rows, clipped as the released ones were, under the same projection, without noise."""
        schema = self.schema
        names = schema.source_names
        blocks = [schema.encode(b) for b in open_table(public_rows, schema).blocks(names, 1 << 14)]
        encoding = schema.encoding
        encoded = np.concatenate([*blocks, np.empty((encoding.dim, 0))], axis=1)
        inside = np.clip(schema.clip(encoded), encoding.low[:, None], encoding.high[:, None])
        return self._project(inside * encoding.weights[:, None])

    def _project(self, weighted: Floats) -> Floats:
        if self.projection is None:
            raise ReleaseError("the projection of this release is not published, so other rows cannot be projected")
        return np.asarray((self.projection.T @ weighted).T)

    def distance(self, i: int, j: int) -> Estimate:
        """Squared distance between two records."""
        (a,), (b,) = self._rows(i), self._rows(j)
        return sketches.squared_distance(a, b, self.law, self._apart)

    def distances(self, first: Index, second: Index) -> Estimate:
        """Squared distances between records, pairwise in step."""
        a, b = self._images(first, second)
        return sketches.squared_distance(a, b, self.law, self._apart)

    def distances_to(self, records: Index, public_rows: Any) -> Estimate:
        """Squared distances of records to public rows, in step; one public row serves for all."""
        mine, theirs = self._rows(records), self.transform(public_rows)
        mine, theirs = np.broadcast_arrays(mine, theirs) if 1 in (len(mine), len(theirs)) else (mine, theirs)
        if len(mine) != len(theirs):
            raise ParameterError(
                f"records and public_rows must have the same length, got {len(mine)} and {len(theirs)}"
            )
        return sketches.squared_distance_to_public(mine, theirs, self.law, self._apart)

    def attribute_distance(self, records: Index, attributes: Mapping[str, float]) -> Estimate:
        """Squared distance of records to a public vector given by a few encoded columns; all others are 0.

        Kenthapadi et al. 2013, section 3: project the attribute's vector with the public projection.
        """
        encoding = self.schema.encoding
        unknown = sorted(set(attributes) - set(encoding.names))
        if unknown:
            raise ParameterError(f"attributes must name encoded columns, got {unknown[0]!r}: see schema.encoding.names")
        vector = np.zeros((encoding.dim, 1))
        for name, value in attributes.items():
            vector[encoding.names.index(name)] = value * encoding.weights[encoding.names.index(name)]
        mine = self._rows(records)
        theirs = np.broadcast_to(self._project(vector), mine.shape)
        apart = quantities.squared_distance_to(self.schema, vector[:, 0])
        return sketches.squared_distance_to_public(mine, theirs, self.law, apart)

    def inner_product(self, first: Index, second: Index) -> Estimate:
        """Inner products of records, pairwise in step; a record with itself has bias, so use ``norm`` there."""
        a, b = self._images(first, second)
        return sketches.inner_product(a, b, self.law).of(quantities.inner_product(self.schema, whole=self._whole))

    def norm(self, records: Index) -> Estimate:
        """Squared lengths of records."""
        return sketches.squared_norm(self._rows(records), self.law, quantities.squared_norm(self.schema))

    def cosine(self, first: Index, second: Index) -> Estimate:
        """Cosine similarities of records, pairwise in step."""
        a, b = self._images(first, second)
        return sketches.cosine(a, b, self.law).of(quantities.COSINE)

    def hamming(self, first: Index, second: Index) -> Estimate:
        """Numbers of flags in which records differ; for schemas of flags of weight 1."""
        self._check_flags()
        self._check_whole()
        a, b = self._images(first, second)
        return sketches.squared_distance(a, b, self.law, quantities.differing_flags(self.schema))

    def jaccard(self, first: Index, second: Index) -> Estimate:
        """Jaccard similarities of the sets of flags that are true; for schemas of flags of weight 1."""
        self._check_flags()
        self._check_whole()
        a, b = self._images(first, second)
        return sketches.jaccard(a, b, self.law).of(quantities.JACCARD)

    def error_at(self, squared: ArrayLike) -> Floats:
        """The standard error of an estimated squared distance where this is the true one."""
        return np.asarray(np.sqrt(self.law.distance_variance(np.asarray(squared, np.float64))))

    def posterior(self, path: str | Path | None = None) -> "Posterior":
        """What the release tells about its records given a prior that is learned from it, once; costs no privacy.

        path : a file that ``save`` of a posterior of this release wrote; then nothing is learned again.
        """
        if "posterior" not in self._stated or path is not None:
            from sfumato.releases import level_posterior  # noqa: PLC0415 - much to load where nobody asks for it

            digest = self.manifest["digest"] if self.manifest["files"] else ""
            told = (self.array(), self.law, self.schema, self._whole, digest)
            self._stated["posterior"] = level_posterior.posterior_of(*told, None if path is None else Path(path))
        return cast("Posterior", self._stated["posterior"])

    def nearest(self, record: Index, k: int = 10, prior: Prior = "learned") -> Nearest:
        """The k records that look nearest to one, with estimates of their squared distances; a row for each of many.

        prior : "learned" ranks by posterior means, and its intervals are credible ones (``posterior``). Where no prior
                can be learned or noise that was held out says that it ranks worse (``posterior().ranking``), and with
                "none", records are ranked by the released numbers, and intervals are confidence intervals that hold
                for all records to choose from at once.
        """
        check.one_of(get_args(Prior), prior=prior)
        if prior == "learned" and self.posterior().ranking == "learned":
            return self.posterior().nearest(record, k)
        return self._nearest_as_released(record, k)

    def _nearest_as_released(self, record: Index, k: int) -> Nearest:
        """The nearest records by the released numbers alone."""
        rows = self._check(record)
        found = neighbours.nearest(self.array(), rows, k, self.noise).indices
        apart = self.array()[found] - self.array()[rows][:, None]
        found, apart = (found, apart) if np.ndim(record) else (found[0], apart[0])
        return Nearest.among(self.rows - 1, found, sketches.squared_length(apart, self.law, 2, self._apart))

    def cluster(self, clusters: int, *, seed: int = 0) -> Clusters:
        """K-means in the released space."""
        return neighbours.cluster(self.array(), clusters, np.random.default_rng(seed))

    def denoised(self) -> Floats:
        """The released numbers with singular values shrunk for the known noise (Gavish and Donoho); free of cost."""
        return neighbours.denoise(self.array(), self.noise).rows

    def _images(self, first: Index, second: Index) -> tuple[Floats, Floats]:
        a, b = self._pairs(first, second)
        return self.array()[a], self.array()[b]

    def _rows(self, records: Index) -> Floats:
        return self.array()[self._check(records)]

    @property
    def _whole(self) -> bool:
        """Whether lengths are those of whole records, and not of their part within a subspace."""
        return self.geometry.family != "principal" or self.dimension >= self.geometry.dim_in

    def _check_whole(self) -> None:
        if not self._whole:
            raise ReleaseError("components show the part of a record within their subspace, so flags cannot be counted")
