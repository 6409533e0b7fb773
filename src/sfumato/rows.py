"""The engine interface: private rows as lazy blocks, and two things to do with them, ``map`` and ``sum``.

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

from sfumato.lattice import Total
from sfumato.schema import Schema
from sfumato.tables import Table

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Result = TypeVar("Result")
Progress = Callable[[int], None]

_CELLS = 1 << 21  # of one block: 16 MiB of doubles


class Rows(Protocol):
    """What every engine offers to a mechanism."""

    def map(self, function: Callable[[int, Floats], Result]) -> Iterator[Result]:
        """``function(position, block)`` for every block, results in the order of the rows."""
        ...

    def sum(self, function: Callable[[int, Floats], Integers]) -> Integers:
        """The exact sum of ``function(position, block)`` over all blocks: integers, so the order does not matter.

        Without rows, what the function gives for an empty block. Raises OverflowError if the total needs over 64 bits.
        """
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
        for rows, result in self._results(function):
            self.progress(rows)
            yield result

    def sum(self, function: Callable[[int, Floats], Integers]) -> Integers:
        """Add up over the blocks, worked on by a few threads; progress counts rows that are published, so not these."""
        total: Total | None = None
        for _, result in self._results(function):
            total = (Total(result.shape) if total is None else total).add(result)
        return function(0, np.empty((self.schema.encoding.dim, 0))) if total is None else total.int64()

    def _results(self, function: Callable[[int, Floats], Result]) -> Iterator[tuple[int, Result]]:
        """The number of rows and the result of each block, in order."""
        names = [column.name for column in self.schema.data_columns]
        size = max(256, min(1 << 16, _CELLS // self.schema.encoding.dim))
        with ThreadPoolExecutor(self.threads) as pool:
            waiting: deque[tuple[int, Future[Result]]] = deque()
            position = 0
            for batch in self.table.blocks(names, size):
                waiting.append((batch.num_rows, pool.submit(self._one, function, position, batch)))
                position += batch.num_rows
                if len(waiting) > self.threads:
                    yield _finished(*waiting.popleft())
            while waiting:
                yield _finished(*waiting.popleft())

    def _one(self, function: Callable[[int, Floats], Result], position: int, batch: pa.RecordBatch) -> Result:
        return function(position, self.schema.encode(batch))


def _finished(rows: int, future: "Future[Result]") -> tuple[int, Result]:
    return rows, future.result()
