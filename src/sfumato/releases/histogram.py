"""Histograms in the analyst's hands: noisy counts of public cells, with error bars. Nothing here costs privacy.

Everything is about the records that were released, in the cells that the schema cuts: error bars are those of the
noise, without any sampling error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat import kinds
from sfumato.fileformat.histogram_kind import cell_tables, noises
from sfumato.fileformat.manifest import HistogramFacts, HistogramManifest
from sfumato.intervals.additive_noise import Law, mixed_law, tallied
from sfumato.intervals.estimate import NOISE_ONLY, Estimate, Quantity
from sfumato.marginals.cell_tables import CellTables
from sfumato.numerics.types import Bools, Floats
from sfumato.queries.axes import Axis, Level
from sfumato.queries.parser import parse
from sfumato.releases.release import NumbersRelease

_RECORDS = Quantity("records", 0.0)
_SHOWN = 8  # tables that an error names
_ADDED = ("count", "standard_error", "low", "high")  # columns of a table of counts beside its levels


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HistogramRelease(NumbersRelease):
    """Noisy counts of public cells, table after table: ``columns`` has shape (1, cells)."""

    manifest: HistogramManifest

    def __post_init__(self) -> None:
        count = kinds.of(self.manifest).size(self.manifest)
        if self.columns.shape != (1, count):
            raise ReleaseError(f"this release must hold {count} numbers, got shape {self.columns.shape}")

    def __repr__(self) -> str:
        promise = self.guarantee
        what = f"epsilon={promise.epsilon:g}, delta={promise.delta:g}, neighbours={promise.neighbours!r}"
        whose = "about" if self._records is None else "of"
        cells = f"{self.columns.shape[1]} cells in {len(self.tables)} tables"
        return f"<histogram of {cells}, {whose} {self.records:.0f} records; {what}>"

    @property
    def _mechanism(self) -> HistogramFacts:
        return self.manifest["mechanism"]

    @property
    def _records(self) -> int | None:
        """The number of records if it is public."""
        return self.manifest.get("rows")

    @property
    def rows(self) -> int:
        """The number of records, where it is public."""
        if self._records is None:
            raise ReleaseError("the number of records of this release is protected: use ``records``, a noisy estimate")
        return self._records

    @property
    def records(self) -> float:
        """The number of records, public or estimated; at least 1."""
        return max(float(self.total().value), 1.0)

    @property
    def cells(self) -> CellTables:
        """The public cells that were counted."""
        if "cells" not in self._stated:
            self._stated["cells"] = cell_tables(self.manifest, self.schema)
        return cast("CellTables", self._stated["cells"])

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """Which columns were counted together: the columns of each table."""
        return self.cells.names

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that were counted, in the order of the schema."""
        counted = {name for table in self.tables for name in table}
        return tuple(column.name for column in self.schema.data_columns if column.name in counted)

    def array(self) -> Floats:
        """The published counts in one row, table after table, as the file has them."""
        return np.array(self.columns[0], np.float64)

    # ---- questions --------------------------------------------------------------------------------------------------

    def counts(self, *columns: str, level: float = 0.95) -> pa.Table:
        """How many records each cell of some columns holds, as a labelled table with errors and intervals.

        columns : those of a table, or some of them, whose counts are then added up over the others; left out, the
                  columns of the only table.
        level   : of the intervals, each by itself.
        Guarantee: post-processing of a release; costs no privacy.
        Error: unbiased, so that sums of counts are; noise only. Counts may be negative then; intervals are cut at 0.
        """
        place = self._place(columns)
        domain, noisy = self.cells.domains[place], self._noisy[place]
        names = columns or self.tables[place]
        axes = [domain.axis(name) for name in names]
        others = tuple(i for i, axis in enumerate(domain.columns) if axis.name not in names)
        summed = noisy.reshape(domain.shape).sum(axis=others)
        kept = [axis.name for axis in domain.columns if axis.name in names]
        summed = summed.transpose([kept.index(name) for name in names])
        found = tallied(summed.ravel(), self._law(place, domain.size // summed.size), self._most)
        low, high = (np.asarray(end, np.float64) for end in found.interval(level))
        shape = np.indices(summed.shape).reshape(len(axes), -1)
        labels = {axis.name: _labels(axis).take(pa.array(codes)) for axis, codes in zip(axes, shape, strict=True)}
        numbers = (found.uncut, found.standard_error, low, high)
        added = {_free(name, labels): pa.array(np.asarray(n)) for name, n in zip(_ADDED, numbers, strict=True)}
        return pa.table(labels | added)

    def count(self, query: str) -> Estimate:
        """For how many records a question holds, with error bars: ``count("age >= 40 and sex = 'F'")``.

        Guarantee: post-processing of a release; costs no privacy.
        Error: unbiased; noise only, with intervals from its known law. One of the tables must hold all columns of the
        question, in cells that it does not cut; of several such tables, the one with the least noise answers.
        """
        predicate = parse(query, self.schema)
        names = {leaf.column.name for leaf in predicate.leaves}
        holding = [place for place, table in enumerate(self.tables) if names <= set(table)]
        if not holding:
            raise ReleaseError(f"no table of this release holds {_listed(sorted(names))} together: {self._has()}")
        found, refused = [], []
        for place in holding:
            try:
                found.append((place, np.asarray(self.cells.domains[place].mask(predicate))))
            except ParameterError as error:
                refused.append(error)
        if not found:
            raise refused[0]
        return self._summed(found)

    def total(self) -> Estimate:
        """How many records there are: their public number, or an estimate from all tables, each of which adds up to it.

        Guarantee: post-processing of a release; costs no privacy.
        """
        if self._records is not None:
            return _certain(float(self._records))
        variances = np.array([size * self._law(p, 1).scale ** 2 for p, size in enumerate(self.cells.sizes)])
        weights = 1 / variances / np.sum(1 / variances)
        sums = np.array([float(noisy.sum()) for noisy in self._noisy])
        terms: dict[str, list[tuple[float, int, float]]] = {}
        for place, (weight, size) in enumerate(zip(weights.tolist(), self.cells.sizes, strict=True)):
            for noise, scale, many in noises(self._mechanism, place):
                terms.setdefault(noise, []).append((weight, size * many, scale))
        return tallied(float(weights @ sums), mixed_law(terms), self._most)

    def _summed(self, found: Sequence[tuple[int, Bools]]) -> Estimate:
        """The count of some cells, in whichever table and of whichever side has the least noise."""
        best: tuple[float, Estimate] | None = None
        for place, mask in found:
            for inside in (True, False) if self._records is not None else (True,):
                cells = int(np.count_nonzero(mask == inside))
                error = math.sqrt(cells) * self._law(place, 1).scale
                if best is not None and error >= best[0]:
                    continue
                value = float(self._noisy[place][mask == inside].sum())
                value = value if inside else self._most - value
                law = None if cells == 0 else self._law(place, cells)
                best = error, _certain(value) if law is None else tallied(value, law, self._most)
        assert best is not None
        return best[1]

    # ---- what goes along --------------------------------------------------------------------------------------------

    @property
    def _most(self) -> float:
        return 2.0**53 if self._records is None else float(self._records)

    @property
    def _noisy(self) -> list[Floats]:
        """The noisy counts of each table, one after the other."""
        return cast("list[Floats]", self.cells.split(np.asarray(self.columns[0], np.float64)))

    def _law(self, place: int, cells: int) -> Law:
        """The law of the noise in the sum of so many counts of a table."""
        terms: dict[str, list[tuple[float, int, float]]] = {}
        for noise, scale, many in noises(self._mechanism, place):
            terms.setdefault(noise, []).append((1.0, cells * many, scale))
        return mixed_law(terms)

    def _place(self, columns: Sequence[str]) -> int:
        """The table that some columns are counted in: their own, or of those that hold them the one of least noise."""
        if not columns and len(self.tables) == 1:
            return 0
        if not columns or not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
            raise ParameterError(f"name different columns of one table, got {columns!r}: {self._has()}")
        holding = [place for place, table in enumerate(self.tables) if set(columns) <= set(table)]
        if not holding:
            raise ReleaseError(f"no table of this release holds {_listed(columns)} together: {self._has()}")
        own = [place for place in holding if len(self.tables[place]) == len(columns)]
        return own[0] if own else min(holding, key=self._total_noise)

    def _total_noise(self, place: int) -> float:
        return self.cells.sizes[place] * self._law(place, 1).scale ** 2

    def _has(self) -> str:
        """Which tables there are, in words."""
        some = "; ".join(" and ".join(map(repr, table)) for table in self.tables[:_SHOWN])
        more = len(self.tables) - _SHOWN
        return f"it has tables of {some}{f'; and {more} more' if more > 0 else ''}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


def _certain(value: float) -> Estimate:
    """A count of records that is public, or of no cells."""
    exact = np.asarray(value)
    return Estimate(value, 0.0, NOISE_ONLY, lambda _: (exact, exact), _RECORDS)


def _free(name: str, taken: dict[str, Any]) -> str:
    """A name for a column of a table of counts that no column of the data has."""
    while name in taken:
        name = f"_{name}"
    return name


def _labels(axis: Axis) -> pa.Array:
    """What each level of a column of counts means: its values, or texts where some level holds several."""
    levels = axis.levels
    if not any(isinstance(level, tuple) for level in levels):
        return pa.array(levels)
    values = [level for level in levels if level is not None]
    texts = [_shown(level, last=place == len(values) - 1) for place, level in enumerate(values)]
    return pa.array([*texts, *[None] * (len(levels) - len(values))])


def _shown(level: Level, *, last: bool) -> str:
    """A level of a column of counts as text: a value, the first and last of whole numbers, or an interval."""
    if not isinstance(level, tuple):
        return str(level)
    low, high = level
    if not isinstance(low, float) or not isinstance(high, float):
        return f"{low} to {high}"
    if math.nextafter(low, math.inf) >= high:
        return f"{low:g}"  # one value of a continuum
    below = math.nextafter(low, -math.inf)
    opened = "(" if below == 0 else "["  # beside zero itself, which is a level of its own
    return f"{opened}{0.0 if below == 0 else low:g}, {high:g}{']' if last else ')'}"
