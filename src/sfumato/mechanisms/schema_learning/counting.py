"""One pass over a table for exact counts of all columns, and one for the texts of some. Nothing here is private yet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from sfumato.mechanisms.schema_learning.cell_kinds import TALLIES, Tally
from sfumato.mechanisms.schema_learning.text_counts import TextCounts, category_texts, set_texts
from sfumato.numerics.types import Integers
from sfumato.tables import cells
from sfumato.tables.blocks import MEMORY, Progress, block_rows, ignore, in_order, usual_threads


class BlockTable(Protocol):
    """A table that can be read again and again in blocks of rows, as ``sources.Source`` is."""

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The named columns in blocks of exactly so many rows to count, the last one shorter."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A table to learn a schema from, and how it is read.

    memory : bytes for blocks of rows and for counts of texts. What is counted does not depend on it.
    """

    table: BlockTable
    memory: int = MEMORY
    threads: int | None = None
    progress: Progress = ignore

    def tallies(self, shapes: Mapping[str, str]) -> tuple[dict[str, Tally], int]:
        """Exact counts of all columns, by their shapes, and the number of rows."""
        names = list(shapes)
        totals, rows = {name: Tally.empty() for name in names}, 0

        def one(batch: pa.RecordBatch) -> list[Tally]:
            return [_tally(batch.column(place), shapes[name]) for place, name in enumerate(names)]

        for count, found in self._each(names, one):
            rows += count
            for name, tally in zip(names, found, strict=True):
                totals[name].add(tally)
        return totals, rows

    def texts(self, most: Mapping[str, int | None], stack: ExitStack) -> dict[str, TextCounts]:
        """Exact counts of the texts of categories (None) and of items of sets; they live as long as the stack."""
        names = list(most)
        share = max(1 << 20, self.memory // 4 // max(1, len(names)))
        counts = {name: stack.enter_context(TextCounts(share)) for name in names}

        def one(batch: pa.RecordBatch) -> list[list[tuple[Any, Integers]]]:
            return [_texts(batch.column(place), most[name]) for place, name in enumerate(names)]

        for _, found in self._each(names, one) if names else ():
            for name, pieces in zip(names, found, strict=True):
                for words, times in pieces:
                    counts[name].add(words, times)
        return counts

    def _each(self, names: Sequence[str], function: Callable[[pa.RecordBatch], Any]) -> Iterator[tuple[int, Any]]:
        def call(batch: pa.RecordBatch) -> tuple[int, Any]:
            return batch.num_rows, function(batch)

        blocks = self.table.blocks(names, block_rows(max(1, len(names)), self.memory))
        for count, found in in_order(call, ((block,) for block in blocks), self.threads or usual_threads()):
            self.progress(count)
            yield count, found


def _tally(column: Any, shape: str) -> Tally:
    total = Tally.empty()
    for chunk in cells.chunks(column):
        total.add(TALLIES[shape](chunk) if not pa.types.is_null(chunk.type) else TALLIES["scalar"](chunk))
    return total


def _texts(column: Any, most: int | None) -> list[tuple[Any, Integers]]:
    there = [chunk for chunk in cells.chunks(column) if not pa.types.is_null(chunk.type)]
    return [category_texts(chunk) if most is None else set_texts(chunk, most) for chunk in there]
