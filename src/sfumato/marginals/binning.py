"""Model bins of a variable: fine cells merged by their noisy counts, so that a cell of a pair stands out of its noise.

Everything here is post-processing of noisy counts. Within a bin, values keep the shape of the fine noisy counts: those
that stand out of their noise as spikes stay (a usual number of hours), the others are smoothed as far as noise asks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.marginals.partition import Variable
from sfumato.marginals.smoothing import completed, smoothed
from sfumato.numerics.types import Floats, Integers

_HEAVY = 0.7  # of a bin's usual mass: a cell that is a bin of its own
_FEW = 0.4  # of a bin's usual mass: less at the end goes to the bin before
_ATOM = 5.0  # deviations of noise that a single value must have to be a bin of its own
_LEAST = 4  # bins of what no heavy cell holds, if there is enough of it
_LEVELS = 64  # of a category: of more, the largest noise by chance must not make levels common
_MOST_LEVELS = 1024  # of a label that are kept, each by itself
_MOST_WHOLE = 64  # cells of a label that is a number


@dataclass(frozen=True, slots=True)
class WantedBins:
    """How bins are wanted: ``mass`` of one of them, the least of which ``least``, and what makes a level ``rare``."""

    records: float
    mass: float
    least: float
    rare: float


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Bins of one variable.

    of_cell : the bin of each fine cell.
    shares  : of each fine cell within its bin; they add up to 1 in every bin.
    """

    of_cell: Integers
    shares: Floats

    @property
    def size(self) -> int:
        """How many bins there are."""
        return int(self.of_cell.max()) + 1

    def counts(self, fine: Floats) -> Floats:
        """Counts of the bins from those of the fine cells."""
        return np.asarray(np.bincount(self.of_cell, fine, minlength=self.size), float)

    @property
    def cells(self) -> Integers:
        """How many fine cells each bin has."""
        return np.bincount(self.of_cell, minlength=self.size)

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]], estimates: Floats, floor: float) -> "Bins":
        """Bins that are given as lists of cells; their shares go by estimated counts, none below a floor."""
        of_cell, shares = np.empty(len(estimates), np.int64), np.maximum(estimates, floor)
        for place, group in enumerate(groups):
            of_cell[list(group)] = place
        return cls(of_cell, shares / np.bincount(of_cell, shares)[of_cell])


def bins(
    variable: Variable,
    counts: Floats,
    deviation: float,
    wanted: WantedBins,
    *,
    whole: bool,
    apart: Integers | None = None,
) -> Bins:
    """Bins of a variable from noisy counts of its fine cells.

    whole : keep every level of an unordered variable (a label's).
    apart : for each fine cell a number; cells of different numbers never share a bin (what is forbidden goes by them).
    """
    if not variable.ordered:
        least = max(wanted.rare, deviation * math.sqrt(2 * math.log(max(1.0, variable.size / _LEVELS))))
        return _of_levels(counts, deviation, least, whole=whole and variable.size <= _MOST_LEVELS, apart=apart)
    estimates = completed(variable, counts, smoothed(variable, counts, deviation), deviation, wanted.records)
    if whole and variable.size <= _MOST_WHOLE:
        return Bins.of([[cell] for cell in range(variable.size)], estimates, 1e-9)
    return _of_numbers(variable, counts, estimates, deviation, wanted, apart)


def _of_levels(counts: Floats, deviation: float, rare: float, *, whole: bool, apart: Integers | None) -> Bins:
    """Bins of an unordered variable: common levels by themselves, rare ones together."""
    numbers = np.zeros(len(counts), np.int64) if apart is None else apart
    groups: list[list[int]] = []
    for number in np.unique(numbers):
        cells = np.flatnonzero(numbers == number)
        common = cells if whole else cells[counts[cells] >= rare]
        others = np.setdiff1d(cells, common)
        groups += [[int(cell)] for cell in common]
        groups += [others.tolist()] if len(others) else []
    return Bins.of(groups, counts, 0.1 * deviation)


def _of_numbers(
    variable: Variable, counts: Floats, estimates: Floats, deviation: float, wanted: WantedBins, apart: Integers | None
) -> Bins:
    """Bins of an ordered variable: heavy cells by themselves, the others in runs of about equal mass."""
    numbers = np.zeros(variable.size, np.int64) if apart is None else apart
    single = np.zeros(variable.size, bool)
    single[: variable.values] = variable.alone()
    single[variable.values :] = True  # missing cells
    heavy = (estimates >= _HEAVY * wanted.mass) | (single & (counts >= _ATOM * deviation))
    left = max(wanted.records - float(estimates[heavy].sum()), 0.0)
    target = min(wanted.mass, max(left / _LEAST, wanted.least))
    groups: list[list[int]] = []
    run: list[int] = []

    def close() -> None:
        if run:
            groups.append(run.copy())
            run.clear()

    for cell in range(variable.size):
        if run and numbers[cell] != numbers[run[-1]]:
            close()
        if heavy[cell]:
            close()
            groups.append([cell])
            continue
        run.append(cell)
        if estimates[run].sum() >= target:
            close()
    light = run and estimates[run].sum() < _FEW * target
    if light and groups and not heavy[groups[-1][0]] and numbers[groups[-1][0]] == numbers[run[0]]:
        groups[-1] += run
        run.clear()
    close()
    return Bins.of(groups, estimates, 1e-9 * wanted.records)
