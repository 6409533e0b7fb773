"""Synthetic tables: the record of their kind, and how the files beside them are laid out.

``model.parquet`` holds, one after the other: of each variable the shares of its fine cells, within the bin that each is
in; then the table of each clique of the model, C-ordered over the bins of its variables; of a copula, whose cliques are
the variables one by one, then the matrix of their correlations, row by row. ``counts.parquet`` holds the noisy counts,
table after table, over fine cells or over bins. A variable is a column, an item of a set, or a number of a vector.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato import untrusted
from sfumato.fileformat.kind import Kind
from sfumato.fileformat.manifest import COUNTS, MODEL, MOST_CORRELATED, TableFacts, TableManifest
from sfumato.numerics.types import Floats, Integers
from sfumato.tables.columns import Set, Vector
from sfumato.tables.schema import Schema

Shape = tuple[int, ...]

MOST_CELLS = 1 << 27  # of the model, and of all tables of counts together: 1 GiB
_CLOSE = 1e-6  # to one: what probabilities may add up to


@dataclass(frozen=True, slots=True)
class Layout:
    """Shapes of what the files beside a synthetic table hold: of shares, cliques and tables of counts, in order.

    correlated : how many variables a copula's correlations are of; 0 where there are none.
    """

    bins: tuple[NDArray[np.int64], ...]
    cliques: tuple[Shape, ...]
    tables: tuple[Shape, ...]
    correlated: int = 0

    @classmethod
    def of(cls, facts: TableFacts) -> Self:
        """The shapes that a manifest states; a ValueError where it states none that can be."""
        bins = tuple(_bins(cells) for cells in facts["bins"])
        fine, binned = [len(cells) for cells in bins], [int(cells.max()) + 1 for cells in bins]
        cliques = tuple(_shape(clique, binned) for clique in facts["cliques"])
        tables = tuple(
            _shape(table["columns"], fine if table["cells"] == "fine" else binned) for table in facts["tables"]
        )
        for shapes in (cliques, tables):
            if sum(map(math.prod, shapes)) > MOST_CELLS:
                raise ValueError("too many cells")
        correlated = len(bins) if facts.get("method") == "copula" else 0
        if correlated > MOST_CORRELATED:
            raise ValueError("too many variables")
        return cls(bins, cliques, tables, correlated)

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many numbers each file beside a synthetic table holds."""
        return {MODEL: self._probabilities + self.correlated**2, COUNTS: sum(map(math.prod, self.tables))}

    @property
    def _probabilities(self) -> int:
        return sum(map(len, self.bins)) + sum(map(math.prod, self.cliques))

    def model(self, values: Floats) -> tuple[list[Floats], list[Floats]]:
        """The shares of fine cells of each variable of a synthetic table's model, and the table of each clique."""
        found = _cut(values[: self._probabilities], [*((len(cells),) for cells in self.bins), *self.cliques])
        return found[: len(self.bins)], found[len(self.bins) :]

    def correlation(self, values: Floats) -> Floats:
        """The correlations of a synthetic table's copula."""
        return values[self._probabilities :].reshape(self.correlated, self.correlated)

    def counts(self, values: Integers) -> list[Integers]:
        """The noisy counts behind a synthetic table, table by table."""
        return _cut(values, self.tables)

    def is_model(self, values: Floats) -> bool:
        """Whether numbers can be a synthetic table's model: probabilities, of each bin and clique, and correlations."""
        if not np.isfinite(values).all() or (values[: self._probabilities] < 0).any():
            return False
        if not _is_correlation(self.correlation(values)):
            return False
        shares, cliques = self.model(values)
        within = (np.bincount(cells, weights=share) for cells, share in zip(self.bins, shares, strict=True))
        return all(bool((abs(total - 1) <= _CLOSE).all()) for total in (*within, *(c.sum() for c in cliques)))


def _is_correlation(matrix: Floats) -> bool:
    """Whether a matrix is symmetric and positive definite, with a diagonal of ones; one of no variables is."""
    if (matrix != matrix.T).any() or (np.diag(matrix) != 1).any():
        return False
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def flat(arrays: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Arrays as a file beside a synthetic table holds them, one after the other."""
    return np.concatenate([np.ravel(array) for array in arrays])


def _cut(values: NDArray[Any], shapes: Sequence[Shape]) -> list[NDArray[Any]]:
    ends = np.cumsum([math.prod(shape) for shape in shapes], dtype=np.int64)
    parts = np.split(values, ends[:-1]) if shapes else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _bins(cells: Sequence[int]) -> NDArray[np.int64]:
    """The bin of each fine cell of a variable; a ValueError unless these are whole numbers, with none left out."""
    found = np.asarray(cells)
    if found.dtype != np.int64 or found.max() >= len(found) or not np.bincount(found).all():
        raise ValueError("not bins")
    return found


def _shape(columns: Sequence[int], sizes: Sequence[int]) -> Shape:
    """Sizes of some variables; a ValueError unless these are whole numbers in order, and cells not too many."""
    if any(type(column) is not int for column in columns) or not 0 <= columns[0] <= columns[-1] < len(sizes):
        raise ValueError("not variables")
    if any(one >= two for one, two in itertools.pairwise(columns)):
        raise ValueError("not in order")
    shape, cells = tuple(sizes[column] for column in columns), 1
    for size in shape:
        cells *= size
        if cells > MOST_CELLS:
            raise ValueError("too many cells")
    return shape


# ---- the kind --------------------------------------------------------------------------------------------------------


def fine_cells(schema: Schema, cuts: Mapping[str, Sequence[float]]) -> Sequence[int]:
    """How many fine cells each variable of a synthetic table has, which schema and public cuts settle."""
    from sfumato.marginals.partition import Partition  # noqa: PLC0415 - of this kind alone

    return Partition.of(schema, cuts).sizes


def _variables(schema: Schema) -> int:
    """How many variables a synthetic table has, before anything is made for each of them."""
    return sum(column.width if isinstance(column, Set | Vector) else 1 for column in schema.data_columns)


def _agrees(manifest: TableManifest, schema: Schema) -> bool:
    facts = manifest["mechanism"]
    columns, cuts = {column.name for column in schema.data_columns}, facts.get("cuts", {})
    named = {*cuts, *([facts["label"]] if "label" in facts else [])}
    ordered = all(one < two for places in cuts.values() for one, two in itertools.pairwise(places))
    if not (named <= columns and ordered and len(facts["bins"]) == _variables(schema)):
        return False
    layout, cliques = Layout.of(facts), [tuple(clique) for clique in facts["cliques"]]
    if layout.correlated and (cliques != [(place,) for place in range(len(layout.bins))] or "forbid" in facts):
        return False
    modelled = set().union(*cliques) == set(range(len(layout.bins))) and len(set(cliques)) == len(cliques)
    staged = {table["stage"] for table in facts["tables"]} <= facts["shares"].keys()
    whole = math.fsum(facts["shares"].values()) <= 1 + 1e-9
    return modelled and staged and whole and [len(cells) for cells in layout.bins] == list(fine_cells(schema, cuts))


def _names(manifest: TableManifest) -> tuple[str, ...]:
    return Schema.from_dict(manifest["schema"]).source_names


def _contents(manifest: TableManifest) -> str:
    facts, columns = manifest["mechanism"], [c for c in manifest["schema"]["columns"] if c["kind"] != "id"]
    label = f" (label: {untrusted.line(facts['label'])})" if "label" in facts else ""
    rows = f"{manifest['rows']:,} synthetic rows of {len(columns)} column{'s' if len(columns) > 1 else ''}{label}"
    many = len(facts["tables"])
    moment = " and a second moment" if "moment" in facts else ""
    counts = f"{many:,} table{'s' if many > 1 else ''} of counts{moment} with {facts['noise']} noise"
    return f"{rows}, sampled from a model that was fitted to {counts}"


def _sensitivity(manifest: TableManifest) -> str:
    facts = manifest["mechanism"]
    moment = f", {facts['moment']['sensitivity']:.6g} for the second moment" if "moment" in facts else ""
    return f"Sensitivity: {facts['sensitivity']:.6g} for each table of counts{moment}."


TABLE = Kind(
    title="A private synthetic table",
    product="Synthetic records",
    served_by=("table", "TableRelease"),
    columns=_names,
    agrees=_agrees,
    contents=_contents,
    sensitivity=_sensitivity,
    use=(
        ("release.to_pandas()", "the synthetic rows as a data frame"),
        ("release.sample(1000)", "more of them, at no cost"),
        ('release.probability("age > 40")', "the share of records for which it holds, by the model"),
        ('release.count("age > 40")', "how many records it holds for, with error bars where they were counted"),
    ),
    example=lambda _: None,
    beside=(MODEL, COUNTS),
)
