"""Small tables and many equal records, as an engine offers them: where an audit's samples come from.

A mechanism that treats rows one by one gives every row its own noise. One run over a million equal records is then a
million independent runs on one record, at the price of one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sfumato.mechanisms.base import Prepared, Recipe
from sfumato.numerics.lattice import Total
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.guarantee import Guarantee

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """``count`` copies of an encoded table (columns, rows), in blocks of at most ``most`` rows."""

    table: Floats
    count: int = 1
    most: int = 1 << 16

    def map(self, function: Callable[[int, Floats], Result]) -> Iterator[Result]:
        """Blocks of many equal records, as an engine offers rows; a block holds whole copies."""
        width = self.table.shape[1]
        together = max(1, self.most // max(1, width))
        for start in range(0, self.count, together):
            yield function(start * width, np.tile(self.table, (1, min(together, self.count - start))))

    def sum(self, function: Callable[[int, Floats], Integers]) -> Integers:
        """Sums over blocks of many equal records, as an engine offers them; exact."""
        total: Total | None = None
        for part in self.map(function):
            total = (Total(part.shape) if total is None else total).add(part)
        assert total is not None
        return total.int64()


@dataclass(frozen=True, slots=True)
class Ready(Recipe):
    """A recipe that is prepared already, so that several runs have the same projection."""

    prepared: Prepared

    def prepare(self, schema: Any, guarantee: Guarantee) -> Prepared:
        """The mechanism that was prepared before, so that an audit's runs share it, whatever is asked for."""
        del schema, guarantee
        return self.prepared
