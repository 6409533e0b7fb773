"""A release in the analyst's hands: save, load, and questions with error bars. Nothing here costs privacy.

Distances, norms and inner products are in the schema's weighted units: column j counts as weight_j * value_j, a
category as one column per value. Error bars are those of ``estimate``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from sfumato import estimate, neighbourhood, storage
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimate import Estimate
from sfumato.guarantee import Guarantee
from sfumato.manifest import Manifest, read_guarantee
from sfumato.moments import Geometry, NoiseLaw
from sfumato.neighbourhood import Clusters
from sfumato.schema import Schema
from sfumato.tables import open_table

Floats = NDArray[np.float64]
Index = int | Sequence[int] | NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Records in order of apparent nearness; each estimate is unbiased for its pair, not for being a winner."""

    indices: NDArray[np.int64]
    distances: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class SketchRelease:
    """Noisy projected records, with what is needed to read them."""

    manifest: Manifest
    columns: Floats
    projection: Any
    ids: pa.Array | None = None

    def __repr__(self) -> str:
        guarantee = self.guarantee
        promise = f"epsilon={guarantee.epsilon:g}, delta={guarantee.delta:g}, unit={guarantee.unit!r}"
        return f"<sketch of {self.rows} records as {self.dimension} numbers each; {promise}>"

    @property
    def guarantee(self) -> Guarantee:
        """What was promised."""
        return read_guarantee(self.manifest["guarantee"])

    @property
    def schema(self) -> Schema:
        """What the columns were, with their public bounds."""
        return Schema.from_dict(self.manifest["schema"])

    @property
    def rows(self) -> int:
        """The number of records."""
        return int(self.columns.shape[1])

    @property
    def dimension(self) -> int:
        """How many numbers each record became."""
        return int(self.columns.shape[0])

    @property
    def noise(self) -> NoiseLaw:
        """The law of the noise on each number."""
        mechanism = self.manifest["mechanism"]
        return NoiseLaw(mechanism["noise"], mechanism["standard_deviation"])

    @property
    def geometry(self) -> Geometry:
        """What the projection does to lengths."""
        facts = self.manifest["projection"]
        return Geometry(facts["family"], facts["dim_in"], facts["dim_out"])

    def array(self) -> Floats:
        """The released numbers, one row per record."""
        return self.columns.T

    def table(self) -> pa.Table:
        """The released numbers as an Arrow table, with public ids if there are any."""
        names = [f"z{i}" for i in range(self.dimension)]
        table = pa.table(dict(zip(names, self.columns, strict=True)))
        return table if self.ids is None else table.add_column(0, "id", self.ids)

    def transform(self, public_rows: Any) -> Floats:
        """The analyst's own rows, clipped as the released ones were, under the same projection, without noise."""
        schema = self.schema
        names = [column.name for column in schema.data_columns]
        blocks = [schema.encode(b) for b in open_table(public_rows, schema).blocks(names, 1 << 14)]
        encoding = schema.encoding
        encoded = np.concatenate([*blocks, np.empty((encoding.dim, 0))], axis=1)
        return self._project(schema.clip(encoded) * encoding.weights[:, None])

    def _project(self, weighted: Floats) -> Floats:
        if self.projection is None:
            raise ReleaseError("this release keeps its projection, so other rows cannot be brought into its space")
        return np.asarray((self.projection.T @ weighted).T)

    def distance(self, i: int, j: int) -> Estimate:
        """Squared distance between two records."""
        (a,), (b,) = self._rows(i), self._rows(j)
        return estimate.squared_distance(a, b, self.noise, self.geometry)

    def distances(self, first: Index, second: Index) -> Estimate:
        """Squared distances between records, pairwise in step."""
        a, b = self._pairs(first, second)
        return estimate.squared_distance(a, b, self.noise, self.geometry)

    def distances_to(self, records: Index, public_rows: Any) -> Estimate:
        """Squared distances of records to public rows, in step; one public row serves for all."""
        mine, theirs = self._rows(records), self.transform(public_rows)
        mine, theirs = np.broadcast_arrays(mine, theirs) if 1 in (len(mine), len(theirs)) else (mine, theirs)
        if len(mine) != len(theirs):
            raise ParameterError(f"records and public_rows must be as many, got {len(mine)} and {len(theirs)}")
        return estimate.squared_distance_to_public(mine, theirs, self.noise, self.geometry)

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
        return estimate.squared_distance_to_public(mine, theirs, self.noise, self.geometry)

    def inner_product(self, first: Index, second: Index) -> Estimate:
        """Inner products of records, pairwise in step; a record with itself has bias, so use ``norm`` there."""
        a, b = self._pairs(first, second)
        return estimate.inner_product(a, b, self.noise, self.geometry)

    def norm(self, records: Index) -> Estimate:
        """Squared lengths of records."""
        return estimate.squared_norm(self._rows(records), self.noise, self.geometry)

    def cosine(self, first: Index, second: Index) -> Estimate:
        """Cosine similarities of records, pairwise in step."""
        a, b = self._pairs(first, second)
        return estimate.cosine(a, b, self.noise, self.geometry)

    def hamming(self, first: Index, second: Index) -> Estimate:
        """Numbers of flags in which records differ; for schemas of flags of weight 1."""
        self._check_flags()
        a, b = self._pairs(first, second)
        return estimate.hamming(a, b, self.noise, self.geometry)

    def jaccard(self, first: Index, second: Index) -> Estimate:
        """Jaccard similarities of the sets of flags that are true; for schemas of flags of weight 1."""
        self._check_flags()
        a, b = self._pairs(first, second)
        return estimate.jaccard(a, b, self.noise, self.geometry)

    def nearest(self, record: int, k: int = 10) -> Nearest:
        """The k records that look nearest to one, with estimates of their squared distances."""
        (row,) = self._check(record)
        found = neighbourhood.nearest(self.array(), int(row), k, self.noise).indices
        return Nearest(found, self.distances(np.full(k, row), found))

    def cluster(self, clusters: int, *, seed: int = 0) -> Clusters:
        """K-means in the released space."""
        return neighbourhood.cluster(self.array(), clusters, np.random.default_rng(seed))

    def denoised(self) -> Floats:
        """The released numbers with singular values shrunk for the known noise (Gavish and Donoho); free of cost."""
        return neighbourhood.denoise(self.array(), self.noise).rows

    def save(self, path: str | Path) -> None:
        """Write the release folder, whole or not at all."""
        fields = {
            k: v for k, v in self.manifest.items() if k not in ("format", "version", "software", "digest", "files")
        }
        with storage.new_folder(Path(path)) as folder:
            storage.write_numbers(folder, self.dimension, [(self.columns, self.ids)])
            if self.projection is not None:
                storage.write_projection(folder, self.projection)
            storage.finish(folder, fields)

    def _pairs(self, first: Index, second: Index) -> tuple[Floats, Floats]:
        a, b = self._check(first), self._check(second)
        if a.shape != b.shape:
            raise ParameterError(f"pairs go in step: first and second must be as many, got {a.size} and {b.size}")
        return self.array()[a], self.array()[b]

    def _rows(self, records: Index) -> Floats:
        return self.array()[self._check(records)]

    def _check(self, records: ArrayLike) -> NDArray[np.int64]:
        index = np.atleast_1d(np.asarray(records))
        if index.dtype.kind not in "iu" or index.ndim != 1:
            raise ParameterError("records are named by whole numbers, their positions in the release")
        if index.size and (index.min() < 0 or index.max() >= self.rows):
            raise ParameterError(
                f"records are numbered 0 to {self.rows - 1}, got {int(index.min())} to {int(index.max())}"
            )
        return index.astype(np.int64)

    def _check_flags(self) -> None:
        encoding = self.schema.encoding
        if len(encoding.flags) != encoding.dim or (encoding.weights != 1).any():
            raise ReleaseError(
                "Hamming and Jaccard need a schema of flags alone, all of weight 1: use distances instead"
            )


def load(path: str | Path, *, allow_unprotected: bool = False) -> SketchRelease:
    """Open a release folder: checks its form, version and digests first, executes nothing, refuses test noise."""
    folder = Path(path)
    manifest = storage.open_folder(folder, allow_unprotected=allow_unprotected)
    columns, ids = storage.read_numbers(folder, manifest)
    return SketchRelease(manifest, columns, storage.read_projection(folder, manifest), ids)
