"""The engine interface: private rows as lazy blocks, and one thing to do with them, ``map``.

A mechanism never sees a file or a table, only encoded blocks of shape (columns, rows) and the position of their first
row. Blocks are worked on by a few threads and come back in order; at most a handful exist at once, so that memory does
not grow with the number of rows.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.schema import Schema
from sfumato.tables import Table

Floats = NDArray[np.float64]
Result = TypeVar("Result")
Progress = Callable[[int], None]

_CELLS = 1 << 21  # of one block: 16 MiB of doubles


class Rows(Protocol):
    """What every engine offers to a mechanism."""

    def map(self, function: Callable[[int, Floats], Result]) -> Iterator[Result]:
        """``function(position, block)`` for every block, results in the order of the rows."""
        ...


def ignore(rows: int) -> None:
    """No progress to show."""
    del rows


class TableRows:
    """Rows of a table on this machine, encoded by a schema."""

    def __init__(
        self, table: Table, schema: Schema, *, progress: Progress = ignore, threads: int | None = None
    ) -> None:
        self.table, self.schema, self.progress = table, schema, progress
        self.threads = threads or min(4, os.cpu_count() or 1)

    def map(self, function: Callable[[int, Floats], Result]) -> Iterator[Result]:
        """Run over the blocks with a few threads; NumPy and BLAS release the interpreter while they work."""
        names = [column.name for column in self.schema.data_columns]
        size = max(256, min(1 << 16, _CELLS // self.schema.encoding.dim))
        with ThreadPoolExecutor(self.threads) as pool:
            waiting: deque[tuple[int, Future[Result]]] = deque()
            position = 0
            for batch in self.table.blocks(names, size):
                waiting.append((batch.num_rows, pool.submit(self._one, function, position, batch)))
                position += batch.num_rows
                if len(waiting) > self.threads:
                    yield self._finish(*waiting.popleft())
            while waiting:
                yield self._finish(*waiting.popleft())

    def _one(self, function: Callable[[int, Floats], Result], position: int, batch: pa.RecordBatch) -> Result:
        return function(position, self.schema.encode(batch))

    def _finish(self, rows: int, future: "Future[Result]") -> Result:
        result = future.result()
        self.progress(rows)
        return result
