"""The public grid of a column whose quantiles are asked for: equal cells from the low to the high bound."""

import math
from dataclasses import dataclass

import numpy as np

from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.predicates import Ordered, is_whole
from sfumato.tables.encoding import bounds_of

FINEST = 1 << 20  # cells of a column of real numbers
SMALL = 256  # cells of a grid that counts as small
_OUT = 2.0**-50  # of the bounds: more than doubles err in the place of an edge


@dataclass(frozen=True, slots=True)
class CellGrid:
    """``cells`` cells of a column, each ``step`` wide; of whole numbers, ordinals and dates each holds ``step`` values.

    It follows from the schema alone. Every cell of the table has one place, whatever it says: the nearest.
    """

    low: float
    high: float
    step: float
    cells: int
    whole: bool

    @classmethod
    def of(cls, column: Ordered, most: int) -> "CellGrid":
        """The grid of a column with at most so many cells: each value by itself, if there are not too many."""
        low, high = bounds_of(column)
        if is_whole(column):
            values = round(high - low) + 1
            each = -(-values // most)
            return cls(low, high, float(each), -(-values // each), whole=True)
        cells = min(FINEST, most)
        step = (high - low) / cells
        if not math.ulp(0.0) / _OUT < step < math.inf:
            raise ParameterError(
                f"quantiles need bounds that are farther apart than {low:g} and {high:g}, and less far than doubles "
                f"reach: declare column {column.name!r} in another unit"
            )
        return cls(low, high, step, cells, whole=False)

    def places(self, values: Floats) -> Integers:
        """The cell of each value; the lowest for NaN."""
        inside = np.fmin(np.fmax(values, self.low), self.high)
        found = np.floor_divide(inside - self.low, self.step)
        return np.clip(found, 0, self.cells - 1).astype(np.int64)

    def value(self, cell: Integers) -> Floats:
        """What stands for a cell: its middle."""
        return np.asarray((self.first(cell) + self.last(cell)) / 2)

    def first(self, cell: Integers) -> Floats:
        """The least value that a cell can hold; of real numbers a little less, so that rounding is covered."""
        edge = self.low + cell * self.step
        return np.asarray(np.maximum(edge - self._slack, self.low))

    def last(self, cell: Integers) -> Floats:
        """The largest value that a cell can hold; of real numbers a little more."""
        edge = self.low + (cell + 1.0) * self.step - (1.0 if self.whole else 0.0)
        return np.asarray(np.minimum(edge + self._slack, self.high))

    @property
    def _slack(self) -> float:
        return 0.0 if self.whole else _OUT * max(abs(self.low), abs(self.high))
