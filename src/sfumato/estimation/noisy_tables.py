"""Counts of records straight from noisy tables of counts, with intervals of the known law of their noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sfumato.errors import ReleaseError
from sfumato.intervals.additive_noise import summed_law, tallied
from sfumato.intervals.estimate import NOISE_ONLY, Estimate, Quantity
from sfumato.intervals.moments import NoiseKind
from sfumato.marginals.binning import Bins
from sfumato.marginals.questions import TableQuestion
from sfumato.numerics.types import Floats, Integers

_MOST_CELLS = 1500  # whose counts are estimated from all tables; of more, from tables that count each of them


class CountedCells(NamedTuple):
    """Noisy counts of all combinations of fine cells, or bins, of some variables; and the scale of their noise."""

    columns: tuple[int, ...]
    fine: bool
    counts: Integers
    scale: float


class _CellSums(NamedTuple):
    """What one table says of the cells that a question is about: sums of some of them.

    sum_of : for each cell, the sum that it is in.
    counts : the noisy sums; ``together``: how many noisy counts of the table each is made of, of which scale.
    """

    sum_of: Integers
    counts: Floats
    together: Floats
    scale: float

    @property
    def precision(self) -> Floats:
        """Of each sum, but for a factor that all tables of a release share."""
        return np.asarray(1 / (self.together * self.scale**2))

    @property
    def total(self) -> bool:
        """Whether all cells are in one sum."""
        return len(self.counts) == 1

    @property
    def each(self) -> bool:
        """Whether every cell is a sum of its own."""
        return len(self.counts) == len(self.sum_of)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTables:
    """All noisy tables of counts of a release.

    records : how many records there are, where that is public; None where it is protected.
    """

    tables: Sequence[CountedCells]
    bins: Sequence[Bins]
    noise: NoiseKind
    records: int | None

    def count(self, question: TableQuestion) -> Estimate:
        """For how many records a question holds, with error bars.

        Guarantee: post-processing of a release; costs no privacy.
        A question about one column must be true or false on each of its fine cells, one about several on each
        combination of their bins, which a table must count. The answer is the weighted sum of noisy counts of least
        variance (generalised least squares) from all tables that say something about these cells, given the number of
        records where that is public.
        Error: noise only. The law of the noise is known; estimates are unbiased and intervals exact for tables and bins
        that do not depend on the noise. But bins follow from noisy one-way counts, and tables of later rounds are
        chosen by earlier ones. That can bias an answer by a part of its standard error (a third was the most seen in
        80 runs of the mechanism, where 95% intervals held the truth of each question about as often as they say).
        Where there are no such tables, a ReleaseError says so: a model has no error bars.
        """
        quantity = Quantity("records", 0.0, math.inf if self.records is None else float(self.records))
        holds = question.table()
        if not holds.any() or (self.records is not None and holds.all()):
            return _certain(quantity.high if holds.any() else 0.0, quantity)
        fine = len(question.asked) == 1 and self._counts_fine_cells(question)
        own = [asked.of_cells() if fine else asked.of_bins(self.bins[asked.variable]) for asked in question.asked]
        signatures = [cells for cells in own if cells is not None]
        sizes = [len(cells) for cells in signatures]
        seen = self._seen(question.variables, sizes, fine=fine) if len(signatures) == len(own) else []
        if not any(table.each for table in seen):
            raise ReleaseError(
                "no error bars: this question is not a sum of counted cells. One column is counted in fine cells, "
                "several together in bins of the model. probability() gives the model's answer, without error bars"
            )
        return self._estimate(seen, question.table(signatures).ravel().astype(float)).of(quantity)

    def _counts_fine_cells(self, question: TableQuestion) -> bool:
        """Whether a question about one variable is constant on its fine cells, and these were counted."""
        (asked,) = question.asked
        counted = any(table.fine and table.columns == question.variables for table in self.tables)
        return counted and asked.of_cells() is not None

    def _seen(self, variables: Sequence[int], sizes: Sequence[int], *, fine: bool) -> list[_CellSums]:
        """What all tables say of the cells of some variables: fine cells of one, or combinations of bins."""
        cells = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), np.int64)
        found = []
        for table in self.tables:
            shared = [v for v in table.columns if v in variables]
            if (not shared and self.records is not None) or (table.fine and len(table.columns) > 1):
                continue  # it would say how many records there are; and fine cells are those of one variable
            others = tuple(axis for axis, column in enumerate(table.columns) if column not in shared)
            counts = table.counts.sum(axis=others).astype(float)
            together = np.full(counts.shape, table.counts.size / max(counts.size, 1))
            codes = [cells[list(variables).index(v)] for v in shared]
            if fine and not table.fine and shared:
                codes = [self.bins[shared[0]].of_cell[codes[0]]]
            elif table.fine and not fine and shared:
                own = self.bins[shared[0]]
                counts, together = np.bincount(own.of_cell, counts), own.cells.astype(float)
            sum_of = np.ravel_multi_index(codes, counts.shape) if shared else np.zeros(cells.shape[1], np.int64)
            found.append(_CellSums(sum_of, counts.ravel(), together.ravel(), table.scale))
        return found

    def _estimate(self, seen: Sequence[_CellSums], wanted: Floats) -> Estimate:
        """The estimate of least variance of the wanted sum of cells, from what tables say of them."""
        if len(wanted) > _MOST_CELLS:
            seen = [table for table in seen if table.each]
        pulled = _solved(seen, wanted)
        value = 0.0
        if self.records is not None:
            free = _solved(seen, np.ones(len(wanted)))
            part = float(pulled.sum() / free.sum())
            pulled, value = pulled - part * free, part * self.records
        weights = [table.precision * np.bincount(table.sum_of, pulled, len(table.counts)) for table in seen]
        value += math.fsum(float(w @ table.counts) for w, table in zip(weights, seen, strict=True))
        most = 2.0**53 if self.records is None else float(self.records)
        return tallied(value, summed_law(self.noise, _terms(seen, weights)), most)


def _solved(seen: Sequence[_CellSums], wanted: Floats) -> Floats:
    """The inverse of the information that tables have about cells, applied to what is wanted of these."""
    diagonal = np.zeros(len(wanted))
    for table in seen:
        if table.each:
            diagonal += table.precision[table.sum_of]
    if all(table.each for table in seen):
        return np.asarray(wanted / diagonal)
    information = np.diag(diagonal)
    information += math.fsum(float(table.precision[0]) for table in seen if table.total and not table.each)
    for table in seen:
        if not (table.each or table.total):
            for place, precision in enumerate(table.precision):
                inside = np.flatnonzero(table.sum_of == place)
                information[np.ix_(inside, inside)] += precision
    return np.asarray(np.linalg.solve(information, wanted))


def _terms(seen: Sequence[_CellSums], weights: Sequence[Floats]) -> list[tuple[float, int, float]]:
    """The noise in a weighted sum: weights, how many counts have them, and the scale.

    The law of noise is symmetric. Weights are taken together that differ by less than a thousandth of the largest,
    with their root mean square, so that the variance of the sum stays as it is.
    """
    step = max(float(np.abs(w).max()) for w in weights) / 1000
    found: dict[tuple[int, float], tuple[float, int]] = {}
    for table, own in zip(seen, weights, strict=True):
        for weight, count in zip(own.tolist(), table.together.tolist(), strict=True):
            key = round(abs(weight) / step), table.scale
            squares, many = found.get(key, (0.0, 0))
            found[key] = squares + round(count) * weight**2, many + round(count)
    return [(math.sqrt(squares / many), many, scale) for (_, scale), (squares, many) in found.items() if squares]


def _certain(value: float, quantity: Quantity) -> Estimate:
    """A count that is known: of all records, whose number is public, or of none."""
    exact = np.asarray(value)
    return Estimate(value, 0.0, NOISE_ONLY, lambda _: (exact, exact), quantity)
