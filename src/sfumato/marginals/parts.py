"""Parts of a variable for pictures and comparisons: equal parts of a number's bounds, or levels. Public.

Parts follow from the schema, and of a category with many levels from counts of synthetic rows, which are public too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.marginals.partition import Variable
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.axes import Intervals, Level
from sfumato.queries.predicates import is_whole
from sfumato.tables.columns import Ordinal, Set
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of

MOST_PARTS, MOST_PARTS_OF_PAIRS = 32, 8  # of a number's bounds, in a table by itself and in those of pairs
MOST_LEVELS = 64  # of a category in tables of pairs
_TAIL = 0.0005  # of the records on either side, which a picture joins to its ends


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of one variable.

    of_cell : the part of each fine cell.
    names   : of each part, what it holds: a value, or the first and last of several; of missing cells ``missing``.
    starts  : of the parts of a number or a date, the first value of each, for an axis; empty for levels. Of the first
              part of a picture, where that begins; it holds what lies below as well.
    """

    of_cell: Integers
    names: tuple[str, ...]
    starts: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many parts there are."""
        return len(self.names)

    def counts(self, fine: Integers) -> Integers:
        """Counts of the parts from those of fine cells."""
        return np.asarray(np.bincount(self.of_cell, fine, self.size), np.int64)


def title(variable: Variable) -> str:
    """A variable in words: the name of its column and, of a set, the item, of a vector, the place."""
    column = variable.column
    if isinstance(column, Set):
        return f"{column.name}: {column.values[variable.place] if column.values else variable.place}"
    return variable.name


def parts_of(variable: Variable, most: int, levels: int | None = None, common: Integers | None = None) -> Parts:
    """Parts of a variable: at most so many equal ones of numbers and dates, and every level of other columns.

    levels : keep at most so many levels, the commonest by ``common`` (public counts); the others are one part.
    """
    if _is_measured(variable):
        return _equal(variable, most)
    names = [_name(level) for level in variable.axis.levels]
    if levels is None or len(names) <= levels:
        return Parts(np.arange(len(names)), tuple(names))
    often = np.zeros(len(names)) if common is None else common
    kept = np.sort(np.argsort(-often, kind="stable")[: levels - 1])
    of_cell = np.full(len(names), levels - 1)
    of_cell[kept] = np.arange(levels - 1)
    rest = f"{len(names) - levels + 1:,} other levels"
    return Parts(of_cell, (*(names[cell] for cell in kept), rest))


def _is_measured(variable: Variable) -> bool:
    return isinstance(variable.axis, Intervals) and not isinstance(variable.axis.column, Ordinal)


def zoomed(variable: Variable, fine: Floats | Integers) -> Parts:
    """Parts for a picture: of a number or a date, equal ones of where the records are; what lies beyond joins the ends.

    fine : shares of the fine cells, or counts.
    """
    axis = variable.axis
    if not (_is_measured(variable) and isinstance(axis, Intervals)):
        return parts_of(variable, MOST_PARTS)
    reached = np.cumsum(shares(np.maximum(fine[: variable.values], 0)))
    first, last = np.searchsorted(reached, [_TAIL, 1 - _TAIL])
    last = min(int(last), variable.values - 1)
    return _equal(variable, MOST_PARTS, (axis.edges[min(int(first), last)], axis.edges[last + 1]))


def _equal(variable: Variable, most: int, within: tuple[float, float] | None = None) -> Parts:
    """Equal parts of the bounds of a number or a date, or of a range; a fine cell goes with its lower edge."""
    axis = variable.axis
    assert isinstance(axis, Intervals)
    (low, high), whole = within or bounds_of(axis.column), is_whole(axis.column)
    span = high - low + (whole and high == bounds_of(axis.column)[1])
    count = max(1, int(min(most, span)) if whole else most)
    starts = (np.array(axis.edges[:-1]) - low) / (span or 1.0)
    found = np.clip(np.floor(starts * count + 1e-9), 0, count - 1).astype(np.int64)
    _, of_cell = np.unique(found, return_inverse=True)
    levels = axis.levels[: len(of_cell)]
    places = [np.flatnonzero(of_cell == part) for part in range(int(of_cell.max()) + 1)]
    ends = [(_first(levels[cells[0]]), _last(levels[cells[-1]])) for cells in places]
    names = [_name(first) if first == last else f"{_name(first)} to {_name(last)}" for first, last in ends]
    missing = keeps_missing(axis.column)
    cells = np.append(of_cell, [len(names)] * missing).astype(np.int64)
    shown = [max(int(cells[0]), int(np.searchsorted(axis.edges[:-1], low))) for cells in places]
    return Parts(cells, (*names, *["missing"] * missing), tuple(_name(_first(levels[cell])) for cell in shown))


def centres(variable: Variable) -> Floats | None:
    """The middle of each fine cell of a number, a date or an ordinal, in encoded units, without that of missing ones.

    None for variables whose cells have no order.
    """
    if not isinstance(variable.axis, Intervals):
        return None
    edges = np.array(variable.axis.edges)
    if is_whole(variable.axis.column):
        return np.asarray(edges[:-1] + (variable.widths() - 1) / 2)
    return np.asarray((edges[:-1] + edges[1:]) / 2)


def _first(level: Level) -> Any:
    return level[0] if isinstance(level, tuple) else level


def _last(level: Level) -> Any:
    return level[1] if isinstance(level, tuple) else level


def _name(value: Any) -> str:
    """A value of a part in words."""
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def shares(counts: Sequence[int] | Integers | Floats) -> Floats:
    """Counts as shares of their total, for a comparison; none of nothing."""
    found = np.asarray(counts, np.float64)
    return np.asarray(found / max(found.sum(), 1.0))


def total_variation(first: Integers, second: Integers) -> float:
    """The total variation between two tables of counts over the same parts: half the l1 distance of their shares."""
    return float(abs(shares(first) - shares(second)).sum() / 2)
