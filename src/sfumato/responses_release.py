"""Randomized answers in the analyst's hands: questions with error bars. Nothing here costs privacy.

Distances, norms and inner products are in the schema's weighted units: a flag that differs counts w^2, a category
2 w^2. Error bars are those of ``answers``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from sfumato import answers, check, neighbourhood, responding
from sfumato.columns import Category
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimate import Estimate
from sfumato.guarantee import Guarantee
from sfumato.manifest import Manifest, read_guarantee
from sfumato.neighbourhood import Clusters
from sfumato.releases import Nearest
from sfumato.responding import Questionnaire
from sfumato.schema import Schema
from sfumato.tables import open_table

Floats = NDArray[np.float64]
Codes = NDArray[Any]
Index = int | Sequence[int] | NDArray[np.integer]

_BLOCK = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class ResponsesRelease:
    """Random answers of every record, as codes of shape (data columns, rows), with what is needed to read them."""

    manifest: Manifest
    codes: Codes
    ids: pa.Array | None = None

    def __post_init__(self) -> None:
        sizes = np.array([answer.categories for answer in self.questionnaire.columns])
        codes = np.asarray(self.codes)
        if codes.dtype.kind not in "iu" or codes.ndim != 2 or len(codes) != len(sizes):
            raise ReleaseError(f"answers must be whole numbers in {len(sizes)} columns, one for each of the schema")
        if codes.size and ((codes < 0) | (codes >= sizes[:, None])).any():
            raise ReleaseError("answers must be among those that the schema allows: the release is damaged")

    def __repr__(self) -> str:
        guarantee = self.guarantee
        promise = f"epsilon={guarantee.epsilon:g}, delta={guarantee.delta:g}, unit={guarantee.unit!r}"
        return f"<random answers of {self.rows} records in {len(self.codes)} columns; {promise}>"

    @property
    def guarantee(self) -> Guarantee:
        """What was promised."""
        return read_guarantee(self.manifest["guarantee"])

    @property
    def schema(self) -> Schema:
        """What the columns were, with their public values."""
        return Schema.from_dict(self.manifest["schema"])

    @property
    def questionnaire(self) -> Questionnaire:
        """The answers that each column can have, and the epsilon of each value."""
        return Questionnaire(responding.answers(self.schema), float(self.manifest["mechanism"]["epsilon_per_value"]))

    @property
    def rows(self) -> int:
        """The number of records."""
        return int(self.codes.shape[1])

    def array(self) -> Floats:
        """One encoded row for each record, as ``schema.encoding`` names its columns: unbiased for the weighted one."""
        return self.questionnaire.debiased(self.codes.T)

    def table(self) -> pa.Table:
        """The answers in the schema's own values, null for no value, with public ids if there are any."""
        columns = self.schema.data_columns
        named = {column.name: _decoded(column, codes) for column, codes in zip(columns, self.codes, strict=True)}
        table, label = pa.table(named), self.schema.id_column
        return table if self.ids is None else table.add_column(0, "id" if label is None else label.name, self.ids)

    def transform(self, public_rows: Any) -> Codes:
        """The analyst's own rows as true codes, one row each."""
        schema = self.schema
        names = [column.name for column in schema.data_columns]
        blocks = open_table(public_rows, schema).blocks(names, _BLOCK)
        found = [responding.codes(schema, schema.encode(block)).T for block in blocks]
        return np.concatenate([np.empty((0, len(names)), np.int64), *found])

    def distance(self, i: int, j: int) -> Estimate:
        """Squared distance between two records."""
        (a,), (b,) = self._pairs(i, j)
        return answers.squared_distance(a, b, self.questionnaire)

    def distances(self, first: Index, second: Index) -> Estimate:
        """Squared distances between records, pairwise in step."""
        return answers.squared_distance(*self._pairs(first, second), self.questionnaire)

    def distances_to(self, records: Index, public_rows: Any) -> Estimate:
        """Squared distances of records to public rows, in step; one public row serves for all."""
        mine, theirs = self._rows(records), self.transform(public_rows)
        mine, theirs = np.broadcast_arrays(mine, theirs) if 1 in (len(mine), len(theirs)) else (mine, theirs)
        if len(mine) != len(theirs):
            raise ParameterError(f"records and public_rows must be as many, got {len(mine)} and {len(theirs)}")
        return answers.squared_distance_to_public(mine, theirs, self.questionnaire)

    def norm(self, records: Index) -> Estimate:
        """Squared lengths of records."""
        return answers.squared_norm(self._rows(records), self.questionnaire)

    def inner_product(self, first: Index, second: Index) -> Estimate:
        """Inner products of records, pairwise in step; for a record with itself use ``norm``."""
        return answers.inner_product(*self._pairs(first, second), self.questionnaire)

    def hamming(self, first: Index, second: Index) -> Estimate:
        """Numbers of flags in which records differ; for schemas of flags of weight 1."""
        self._check_flags()
        return self.distances(first, second)

    def jaccard(self, first: Index, second: Index) -> Estimate:
        """Jaccard similarities of the sets of flags that are true; for schemas of flags of weight 1."""
        self._check_flags()
        return answers.jaccard(*self._pairs(first, second), self.questionnaire)

    def nearest(self, record: int, k: int = 10) -> Nearest:
        """The k records that look nearest to one, by the unbiased estimate of their squared distances."""
        (row,) = self._check(record)
        check.whole(1, k=k)
        if k > self.rows - 1:
            raise check.fail("k", k, f"at most {self.rows - 1}, the records there are to choose from")
        squared = np.empty(self.rows)
        law = self.questionnaire.law(responding.DISTANCE, 2)
        for start in range(0, self.rows, _BLOCK):
            some = self.codes[:, start : start + _BLOCK].T
            ways = self.questionnaire.ways(some, self.codes[:, row])
            squared[start : start + _BLOCK] = responding.total(law.estimate, ways)
        squared[row] = np.inf
        found = np.lexsort((np.arange(self.rows), squared))[:k]
        return Nearest(found, self.distances(np.full(k, row), found))

    def cluster(self, clusters: int, *, seed: int = 0) -> Clusters:
        """K-means of the unbiased encoded rows."""
        return neighbourhood.cluster(self.array(), clusters, np.random.default_rng(seed))

    def _pairs(self, first: Index, second: Index) -> tuple[Codes, Codes]:
        a, b = self._check(first), self._check(second)
        if a.shape != b.shape:
            raise ParameterError(f"pairs go in step: first and second must be as many, got {a.size} and {b.size}")
        if (a == b).any():
            raise ParameterError("a record shares its answers with itself: ask about two different records")
        return self.codes.T[a], self.codes.T[b]

    def _rows(self, records: Index) -> Codes:
        return self.codes.T[self._check(records)]

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


def _decoded(column: object, codes: Codes) -> pa.Array:
    """Truths of a flag; values of a category, as whole numbers if all are, otherwise as texts."""
    if not isinstance(column, Category):
        return pa.array(codes.astype(bool))
    whole = all(isinstance(value, int) and value.bit_length() < 64 for value in column.values)
    values = [value if whole else str(value) for value in column.values]
    words = pa.array([*values, None], pa.int64() if whole else pa.string())
    return words.take(pa.array(codes.astype(np.int64)))
