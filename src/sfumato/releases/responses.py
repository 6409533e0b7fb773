"""Randomized answers in the analyst's hands: questions with error bars. Nothing here costs privacy.

Distances, norms and inner products are in the schema's weighted units: a flag that differs counts w^2, a category
2 w^2, an ordinal or a number w^2 times the square of the difference, with w the weight in the schema's scale. A number
that was cut into levels counts as the middle of its level: estimates are unbiased for records so cut.
Error bars are those of ``estimation.responses``.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import neighbours, quantities, response_columns, response_law, responses
from sfumato.estimation.neighbours import Clusters
from sfumato.estimation.response_law import Channel, Questionnaire
from sfumato.fileformat.manifest import ResponsesManifest
from sfumato.files.open_table import open_table
from sfumato.intervals.estimate import Estimate, Quantity
from sfumato.numerics.types import Floats
from sfumato.releases.release import Index, Nearest, NumbersRelease
from sfumato.tables.columns import Category, DataColumn, Flag
from sfumato.tables.decoding import chosen, decoded
from sfumato.tables.encoding import MISSING, encoded_names

Codes = NDArray[Any]

_BLOCK = 1 << 14


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ResponsesRelease(NumbersRelease):
    """Random answers of every record: ``columns`` holds codes, of shape (data columns, records)."""

    manifest: ResponsesManifest

    def __post_init__(self) -> None:
        sizes = np.array([answer.categories for answer in self.questionnaire.columns])
        codes = np.asarray(self.codes)
        if codes.dtype.kind not in "iu" or codes.ndim != 2 or len(codes) != len(sizes):
            raise ReleaseError(f"answers must be whole numbers in {len(sizes)} columns, one for each of the schema")
        if codes.size and ((codes < 0) | (codes >= sizes[:, None])).any():
            raise ReleaseError("answers must be among those that the schema allows: the release is damaged")

    @property
    def codes(self) -> Codes:
        """The published randomized answers, as codes."""
        return self.columns

    @property
    def questionnaire(self) -> Questionnaire:
        """The answers that each column can have, and the epsilon of each value."""
        return Questionnaire(
            response_columns.answers(self.schema, self.levels), float(self.manifest["mechanism"]["epsilon_per_value"])
        )

    @property
    def levels(self) -> int | None:
        """How many equal parts of their bounds numbers were cut into; None where no number was."""
        return self.manifest["mechanism"].get("levels")

    def _stated_as(self, found: Estimate, quantity: Quantity) -> Estimate:
        """An estimate of a quantity; of numbers that were cut it says that they are taken at the middle of a level."""
        cut = "" if self.levels is None else f"; numbers are taken at the middle of one of {self.levels} levels"
        return replace(found.of(quantity), covers=found.covers + cut)

    def array(self) -> Floats:
        """One encoded row for each record, as ``schema.encoding`` names its columns: unbiased for the weighted one."""
        return self.questionnaire.debiased(self.codes.T)

    def shares(self) -> dict[str, float]:
        """The estimated share of records with each value of each column: unbiased, so below 0 or above 1 at times.

        Of a flag, the share of those where it is true.
        """
        found: dict[str, float] = {}
        form = self.questionnaire
        for column, answer, codes in zip(self.schema.data_columns, form.columns, self.codes, strict=True):
            channel = Channel(form.epsilon, answer.categories)
            seen = np.bincount(codes, minlength=answer.categories) / max(1, codes.size)
            shares = (seen - channel.other) / channel.gap
            found |= zip(*_named(column, shares, self.levels), strict=True)
        return found

    def table(self) -> pa.Table:
        """The answers in the schema's own values, null for no value, with public ids if there are any."""
        columns = self.schema.data_columns
        named = {
            column.name: _decoded(column, codes, self.levels) for column, codes in zip(columns, self.codes, strict=True)
        }
        table, label = pa.table(named), self.schema.id_column
        return table if self.ids is None else table.add_column(0, "id" if label is None else label.name, self.ids)

    def transform(self, public_rows: Any) -> Codes:
        """The analyst's own rows as true codes, one row each."""
        schema = self.schema
        names = schema.source_names
        blocks = open_table(public_rows, schema).blocks(names, _BLOCK)
        found = [response_columns.codes(schema, schema.encode(block), self.levels).T for block in blocks]
        return np.concatenate([np.empty((0, len(names)), np.int64), *found])

    def distance(self, i: int, j: int) -> Estimate:
        """Squared distance between two records."""
        (a,), (b,) = self._answers(i, j)
        return self._stated_as(responses.squared_distance(a, b, self.questionnaire), self._apart)

    def distances(self, first: Index, second: Index) -> Estimate:
        """Squared distances between records, pairwise in step."""
        found = responses.squared_distance(*self._answers(first, second), self.questionnaire)
        return self._stated_as(found, self._apart)

    def distances_to(self, records: Index, public_rows: Any) -> Estimate:
        """Squared distances of records to public rows, in step; one public row serves for all."""
        mine, theirs = self._rows(records), self.transform(public_rows)
        mine, theirs = np.broadcast_arrays(mine, theirs) if 1 in (len(mine), len(theirs)) else (mine, theirs)
        if len(mine) != len(theirs):
            raise ParameterError(
                f"records and public_rows must have the same length, got {len(mine)} and {len(theirs)}"
            )
        return self._stated_as(responses.squared_distance_to_public(mine, theirs, self.questionnaire), self._apart)

    def norm(self, records: Index) -> Estimate:
        """Squared lengths of records."""
        found = responses.squared_norm(self._rows(records), self.questionnaire)
        return self._stated_as(found, quantities.squared_norm(self.schema))

    def inner_product(self, first: Index, second: Index) -> Estimate:
        """Inner products of records, pairwise in step; for a record with itself use ``norm``."""
        found = responses.inner_product(*self._answers(first, second), self.questionnaire)
        return self._stated_as(found, quantities.inner_product(self.schema))

    def hamming(self, first: Index, second: Index) -> Estimate:
        """Numbers of flags in which records differ; for schemas of flags of weight 1."""
        self._check_flags()
        return self.distances(first, second).of(quantities.differing_flags(self.schema))

    def jaccard(self, first: Index, second: Index) -> Estimate:
        """Jaccard similarities of the sets of flags that are true; for schemas of flags of weight 1."""
        self._check_flags()
        return responses.jaccard(*self._answers(first, second), self.questionnaire).of(quantities.JACCARD)

    def error_at(self, squared: ArrayLike) -> Floats:
        """The standard error of an estimated squared distance where this is the true one and columns differ alike."""
        return np.asarray(np.sqrt(self.questionnaire.between().variance(np.asarray(squared, np.float64))))

    def nearest(self, record: int, k: int = 10) -> Nearest:
        """The k records that look nearest to one, by the unbiased estimate of their squared distances."""
        (row,) = self._check(record)
        check.whole(1, k=k)
        if k > self.rows - 1:
            raise check.fail("k", k, f"at most {self.rows - 1}, the records there are to choose from")
        squared = np.empty(self.rows)
        law = self.questionnaire.law(response_law.DISTANCE, 2)
        for start in range(0, self.rows, _BLOCK):
            some = self.codes[:, start : start + _BLOCK].T
            ways = self.questionnaire.ways(some, self.codes[:, row])
            squared[start : start + _BLOCK] = response_law.total(law.estimate, ways)
        squared[row] = np.inf
        found = np.lexsort((np.arange(self.rows), squared))[:k]
        return Nearest.among(self.rows - 1, found, self.distances(np.full(k, row), found))

    def cluster(self, clusters: int, *, seed: int = 0) -> Clusters:
        """K-means of the unbiased encoded rows."""
        return neighbours.cluster(self.array(), clusters, np.random.default_rng(seed))

    def _answers(self, first: Index, second: Index) -> tuple[Codes, Codes]:
        a, b = self._pairs(first, second)
        if (a == b).any():
            raise ParameterError("the two records must differ: a record shares its random answers with itself")
        return self.codes.T[a], self.codes.T[b]

    def _rows(self, records: Index) -> Codes:
        return self.codes.T[self._check(records)]


def _named(column: DataColumn, shares: Floats, levels: int | None) -> tuple[list[str], list[float]]:
    """Shares of randomized answers with the names of their values."""
    if isinstance(column, Category):
        names = encoded_names(column)
        return names, shares[: len(names)].tolist()
    if isinstance(column, Flag) and len(shares) == 2:
        return [column.name], [float(shares[1])]
    values = _decoded(column, np.arange(len(shares)), levels).to_pylist()
    return [f"{column.name}={MISSING if value is None else value}" for value in values], shares.tolist()


def _decoded(column: DataColumn, codes: Codes, levels: int | None) -> pa.Array:
    """Codes of randomized answers as values of their column's own type, null for no value."""
    if isinstance(column, Category):
        return chosen(column, codes)
    return decoded(column, response_columns.cells_of(column, levels)[:, codes])
