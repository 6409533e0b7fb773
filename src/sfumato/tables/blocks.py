"""The engine interface: private rows as lazy blocks, and two things to do with them, ``map`` and ``sum``.

A mechanism never sees a file or a table, only encoded blocks of shape (columns, rows) and the position of their first
row. Where blocks begin and end depends on the widths of the data and of the release and on a budget of memory, all of
them public, and never on the engine, so every engine hands out the same blocks. Here they are worked on by a few
threads and come back in order; at most a handful exist at once, so that memory does not grow with the number of rows.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.lattice import Total
from sfumato.numerics.lazy_columns import Plain
from sfumato.numerics.types import Floats, Integers
from sfumato.tables.columns import Real
from sfumato.tables.schema import Schema, missing_values
from sfumato.tables.sources import Table
from sfumato.threads import in_order, usual

Result = TypeVar("Result")
Progress = Callable[[int], None]

MEMORY = 1 << 30  # bytes, unless told otherwise
_MOST_ROWS = 1 << 16  # of one block
_CELLS_PER_BYTE = 2.0**-7  # numbers of one block for each byte of memory: 64 MiB of doubles for 1 GiB
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


class Rows(Protocol):
    """What every engine offers to a mechanism."""

    def map(self, function: Callable[[int, Floats], Result]) -> Iterator[Result]:
        """``function(position, block)`` for every block, results in the order of the rows."""
        ...

    def sum(self, function: Callable[[int, Floats], Integers]) -> Integers:
        """The exact sum of ``function(position, block)`` over all blocks: integers, so the order does not matter.

        Without rows, what the function gives for an empty block. Raises RangeError if the total needs over 64 bits.
        """
        ...


@dataclass(frozen=True, slots=True)
class Piecewise(Generic[Result]):
    """A function of blocks that also takes them as ``windows.Plain``, or sparse, as in ``Blocks.sparse``."""

    function: Callable[[int, Any], Result]

    def __call__(self, position: int, block: Any) -> Result:
        """What the function gives."""
        return self.function(position, block)


def ignore(rows: int) -> None:
    """No progress to show."""
    del rows


def memory_size(text: str | int) -> int:
    """Bytes, from a number of them or a text such as ``512MiB`` or ``2GB``; at least 1 MiB."""
    found = re.fullmatch(r"\s*([0-9]{1,15})\s*([KMG]?I?)B?\s*", str(text).upper())
    if found is None or found[2] not in _UNITS:
        raise check.fail("memory", text, "a size such as 512MiB or 2GB")
    size = int(found[1]) * _UNITS[found[2]]
    if size < 1 << 20:
        raise check.fail("memory", text, "at least 1MiB")
    return size


def block_rows(dim: int, memory: int = MEMORY) -> int:
    """How many rows a block holds, for the larger of the widths of the data and of the release."""
    return max(1, min(_MOST_ROWS, int(memory * _CELLS_PER_BYTE) // dim))


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A table cut into blocks of ``size`` rows, each encoded by itself to ``dim`` columns: what an engine works on."""

    table: Table
    columns: tuple[str, ...]
    size: int
    dim: int
    encode: Callable[[pa.RecordBatch], Floats] = field(repr=False)
    later: Callable[[pa.RecordBatch], Floats | Plain] | None = field(default=None, repr=False)
    missing: Floats | None = field(default=None, repr=False)  # of a sparse matrix: what NaN means in each column
    width: int = 1  # of the release

    @classmethod
    def of(cls, table: Table, schema: Schema, *, width: int = 1, memory: int = MEMORY) -> "Blocks":
        """Blocks of a table as a schema encodes it, which has all of its columns; ``width``: of the release."""
        dim = schema.encoding.dim
        names = tuple(column.name for column in schema.data_columns)
        table.check_types(schema)
        reals = [c for c in schema.data_columns if isinstance(c, Real)]
        plain = table.entries is not None and schema.norm is None and len(reals) == dim
        missing = missing_values(reals) if plain else None
        size = block_rows(max(dim, width), memory)
        return cls(table, names, size, dim, schema.encode, schema.later, missing, width)

    def encoded_by(self, encode: Callable[[pa.RecordBatch], Floats]) -> "Blocks":
        """The same blocks, encoded by another function, which sees every batch whole."""
        return replace(self, encode=encode, later=None)

    def within(self, start: int, stop: int) -> "Blocks":
        """The blocks from one that begins with row ``start`` to one that ends before row ``stop``."""
        if start % self.size:
            raise ParameterError(f"a range of blocks begins with a block of {self.size} rows, got start={start}")
        return replace(self, table=self.table.within(start, stop))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.table.blocks(self.columns, self.size)

    def pieces(self) -> tuple[Iterable[Any], Callable[[Any], Any]]:
        """The blocks for a ``Piecewise`` function, and what makes each of them ready for it."""
        return (self.sparse(), self.plain) if self.missing is not None else (self, self.later or self.encode)

    def sparse(self) -> Iterator[Any]:
        """The same rows as they are stored in a sparse matrix of shape (rows, columns): what is not there is 0."""
        entries = self.table.entries
        for start in range(0, entries.shape[0], self.size):
            yield entries[start : start + self.size]

    def plain(self, rows: Any) -> Any:
        """Rows of a sparse matrix in doubles, each entry once, without NaN."""
        assert self.missing is not None
        made = rows.astype(np.float64)
        made.sum_duplicates()
        nothing = np.isnan(made.data)
        made.data[nothing] = self.missing[made.indices[nothing]]
        return made

    def empty(self) -> Floats:
        """A block without rows."""
        return np.empty((self.dim, 0))


class LocalRows:
    """Blocks worked on by threads of this process; ``first`` is the position of their first row."""

    def __init__(
        self, blocks: Blocks, *, first: int = 0, progress: Progress = ignore, threads: int | None = None
    ) -> None:
        self.blocks, self.first, self.progress = blocks, first, progress
        self.threads = threads or usual()

    def map(self, function: Callable[[int, Floats], Result]) -> Iterator[Result]:
        """Run over the blocks with a few threads; NumPy and BLAS release the interpreter while they work."""
        for rows, result in self._results(function):
            self.progress(rows)
            yield result

    def sum(self, function: Callable[[int, Floats], Integers]) -> Integers:
        """Add up over the blocks, worked on by a few threads; progress counts rows that are published, so not these."""
        total = self.total(function)
        return function(0, self.blocks.empty()) if total is None else total.int64()

    def total(self, function: Callable[[int, Floats], Integers]) -> Total | None:
        """The same, however large; None without blocks."""
        total: Total | None = None
        for _, result in self._results(function):
            total = (Total(result.shape) if total is None else total).add(result)
        return total

    def _results(self, function: Callable[[int, Any], Result]) -> Iterator[tuple[int, Result]]:
        """The number of rows and the result of each block, in order; the threads are ours, so BLAS gets one each."""
        blocks, encode = self.blocks.pieces() if isinstance(function, Piecewise) else (self.blocks, self.blocks.encode)

        def one(position: int, block: Any) -> tuple[int, Result]:
            return block.shape[0], function(position, encode(block))

        def calls() -> Iterator[tuple[int, Any]]:
            position = self.first
            for block in blocks:
                rows = block.shape[0]
                yield position, block
                del block
                position += rows

        with threadpool_limits(1, user_api="blas"):
            yield from in_order(one, calls(), self.threads)


class TableRows(LocalRows):
    """Rows of a table on this machine, encoded by a schema."""

    def __init__(
        self, table: Table, schema: Schema, *, progress: Progress = ignore, threads: int | None = None
    ) -> None:
        super().__init__(Blocks.of(table, schema), progress=progress, threads=threads)
