"""A synthetic table in the analyst's hands: rows in the owner's own columns and types. Nothing here costs privacy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from sfumato import check
from sfumato.errors import MissingDependency, ReleaseError
from sfumato.estimation.noisy_tables import CountedCells, NoisyTables
from sfumato.fileformat import table_reader, writer
from sfumato.fileformat.manifest import COUNTS, MODEL, Manifest, TableManifest
from sfumato.fileformat.table_kind import Layout
from sfumato.fileformat.writer import Block, Written
from sfumato.intervals.estimate import Estimate
from sfumato.marginals.binning import Bins
from sfumato.marginals.copula_model import CopulaModel
from sfumato.marginals.junction_tree import JunctionTree
from sfumato.marginals.partition import Partition
from sfumato.marginals.questions import TableQuestion
from sfumato.marginals.table_model import RowModel, TableModel
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.parser import parse
from sfumato.releases.release import Release
from sfumato.tables import cells
from sfumato.tables.decoding import arrow_fields

_MOST_ROWS = 1 << 30


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableRelease(Release):
    """Sampled rows in the columns of the schema, and beside them the model and the noisy counts it was fitted to."""

    manifest: TableManifest
    data: pa.Table
    beside: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        if {name: values.size for name, values in self.beside.items()} != self._layout.sizes:
            raise ReleaseError("a synthetic table has its model and its noisy counts, of the sizes that it states")

    @classmethod
    def read(cls, folder: Path, manifest: Manifest) -> Self:
        """Read a synthetic table, its model and its counts."""
        return cls(manifest, table_reader.read_table(folder, manifest), table_reader.read_beside(folder, manifest))

    @classmethod
    def of_blocks(
        cls, manifest: Manifest, blocks: Sequence[Block], matrix: Any, beside: Mapping[str, pa.Table]
    ) -> Self:
        """A release of record batches, with the files that go along."""
        del matrix
        data = pa.Table.from_batches([block for block, _ in blocks])
        return cls(manifest, data, {name: table.column(0).to_numpy() for name, table in beside.items()})

    def _write(self, folder: Path) -> Written:
        written = writer.write_numbers(folder, self.names, [(batch, None) for batch in self.data.to_batches()])
        values = {name: pa.table({"value": cells.arrow(found)}) for name, found in self.beside.items()}
        writer.write_beside(folder, values)
        return written

    def __repr__(self) -> str:
        promise = self.guarantee
        what = f"epsilon={promise.epsilon:g}, delta={promise.delta:g}, neighbours={promise.neighbours!r}"
        return f"<table of {self.rows} synthetic rows and {len(self.names)} columns; {what}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the synthetic table, as in the table that it was made of."""
        return tuple(self.data.column_names)

    def table(self) -> pa.Table:
        """The synthetic rows as an Arrow table."""
        return self.data

    def to_pandas(self) -> Any:
        """The synthetic rows as a pandas data frame; needs pandas.

        Texts are texts, dates and times are datetime64, sets are lists. Whole numbers and flags stay so: where cells
        are missing, in the types ``Int64`` and ``boolean``.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - an optional dependency
        except ImportError:
            raise MissingDependency("to_pandas() needs pandas: pip install pandas") from None
        gaps = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        return pd.DataFrame({name: _series(self.data.column(name), gaps) for name in self.names})

    # ---- questions --------------------------------------------------------------------------------------------------

    @property
    def records(self) -> float:
        """How many records the table was made of: their public number, or an estimate with noise where it is protected.

        ``rows`` is how many synthetic rows were drawn.
        """
        return self.manifest["mechanism"]["records"]

    def model(self) -> RowModel:
        """The model that the rows were drawn from: a distribution over cells, on a junction tree or by a copula."""
        if "model" not in self._stated:
            self._stated["model"] = self._modelled()
        return cast("RowModel", self._stated["model"])

    def sample(self, n: int, seed: int | None = None) -> pa.Table:
        """More synthetic rows: ``n`` of them, drawn from the model.

        Guarantee: post-processing of a release; costs no privacy.
        seed : for the same rows again; left out, each call draws others.
        """
        check.whole(0, n=n)
        check.between(0, _MOST_ROWS, n=n)
        return pa.Table.from_batches(self.model().sampled(n, np.random.default_rng(seed)), arrow_fields(self.schema))

    def probability(self, query: str) -> float:
        """The probability that a question holds for a record, by the model: ``probability("age > 40 and sex = 'F'")``.

        Guarantee: post-processing of a release; costs no privacy.
        Error: exact for the model (``TableModel.probability``), but for a copula and several columns, where it is
        estimated (``CopulaModel.probability``). The model itself errs by noise, by the pairs that it leaves out and by
        its bins. By how much is not known, so there are no error bars; ``count`` has them.
        """
        return self.model().probability(parse(query, self.schema))

    def count(self, query: str) -> Estimate:
        """For how many records a question holds, with error bars, straight from the noisy counts.

        Guarantee: post-processing of a release; costs no privacy.
        Error: noise only; intervals follow from the known law of the noise (``NoisyTables.count`` says how exact they
        are where bins follow from noisy counts). A question that is not a sum of counted cells is refused:
        ``probability`` gives the model's answer to it.
        """
        facts, known = self.manifest["mechanism"], self.guarantee.neighbours == "replace"
        counted = [
            CountedCells(tuple(table["columns"]), table["cells"] == "fine", counts, table["scale"])
            for table, counts in zip(facts["tables"], self._noisy_counts, strict=True)
        ]
        tables = NoisyTables(counted, self.model().bins, facts["noise"], round(self.records) if known else None)
        return tables.count(TableQuestion.of(self.model().partition, parse(query, self.schema)))

    def _modelled(self) -> RowModel:
        facts, (shares, beliefs) = self.manifest["mechanism"], self._model_tables
        bins = tuple(Bins(c, own) for c, own in zip(self._layout.bins, shares, strict=True))
        partition = Partition.of(self.schema, facts.get("cuts"))
        if self._layout.correlated:
            return CopulaModel(partition, bins, tuple(beliefs), self._layout.correlation(self.beside[MODEL]))
        tree = JunctionTree.of([own.size for own in bins], map(tuple, facts["cliques"]))
        if list(map(list, tree.cliques)) != facts["cliques"]:
            raise ReleaseError("the model of this table is damaged: its cliques form no junction tree")
        return TableModel(partition, bins, tree, tuple(beliefs))

    # ---- what goes along --------------------------------------------------------------------------------------------

    @property
    def _layout(self) -> Layout:
        if "layout" not in self._stated:
            self._stated["layout"] = Layout.of(self.manifest["mechanism"])
        return cast("Layout", self._stated["layout"])

    @property
    def _model_tables(self) -> tuple[list[Floats], list[Floats]]:
        """Of each variable the shares of its fine cells within their bins; and the table of each clique."""
        return self._layout.model(self.beside[MODEL])

    @property
    def _noisy_counts(self) -> list[Integers]:
        """The noisy counts behind a synthetic table, in the order of the manifest's ``tables``."""
        return self._layout.counts(self.beside[COUNTS])


def _series(column: pa.ChunkedArray, gaps: Mapping[pa.DataType, Any]) -> Any:
    """A column of a synthetic table as pandas has it; ``gaps``: the types of those in which cells are missing."""
    if types.is_list(column.type):
        return column.to_pylist()
    return column.to_pandas(types_mapper=gaps.get if column.null_count else None, date_as_object=False)
