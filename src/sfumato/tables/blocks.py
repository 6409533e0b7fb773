"""Rows in blocks: what an engine offers to a mechanism (``Rows``), how a table is cut (``Blocks``), and in what order.

A mechanism never sees a file or a table, only encoded blocks of shape (columns, rows) and the position of their first
row. Where blocks begin and end depends on the widths of the data and of the release and on a budget of memory, all of
them public, and never on the engine, so every engine hands out the same blocks. Threads that work on them hand results
back in the order of the blocks; at most a handful exist at once, so that memory does not grow with the number of rows.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.lattice import Plain
from sfumato.numerics.types import Floats, Integers
from sfumato.tables.schema import Schema

Result = TypeVar("Result")
Progress = Callable[[int], None]

MEMORY = 1 << 30  # bytes, unless told otherwise
_MOST_ROWS = 1 << 16  # of one block
_CELLS_PER_BYTE = 2.0**-7  # numbers of one block for each byte of memory: 64 MiB of doubles for 1 GiB
_MOST_THREADS = 4
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


class Rows(Protocol):
    """What every engine offers to a mechanism."""

    def map(self, function: Callable[[int, Any], Result]) -> Iterator[Result]:
        """``function(position, block)`` for every block, results in the order of the rows.

        A block is of doubles, or of the codes that a ``CodeReader`` gives.
        """
        ...

    def sum(self, function: Callable[[int, Any], Integers]) -> Integers:
        """The exact sum of ``function(position, block)`` over all blocks: integers, so the order does not matter.

        Without rows, what the function gives for an empty block. Raises RangeError if the total needs over 64 bits.
        """
        ...


@runtime_checkable
class TableBlocks(Protocol):
    """Rows of a table, as engines offer them: they are cut into blocks."""

    @property
    def blocks(self) -> "Blocks":
        """The blocks that the rows are cut into."""
        ...


@dataclass(frozen=True, slots=True)
class CodeReader:
    """How a mechanism reads rows in its own way: a function of a batch that gives int32 codes of shape (dim, rows).

    A category of many levels is then one code for each row, not a number for each level.
    Guarantee: none by itself. ``read`` must read each row by itself, and no cell may raise an error.
    """

    read: Callable[[pa.RecordBatch], NDArray[np.int32]]
    dim: int


@dataclass(frozen=True, slots=True)
class Piecewise(Generic[Result]):
    """A function of blocks that also takes them as ``lattice.Plain``, or sparse, as in ``Blocks.sparse``."""

    function: Callable[[int, Any], Result]

    def __call__(self, position: int, block: Any) -> Result:
        """What the function gives for a block at a position."""
        return self.function(position, block)


def ignore(rows: int) -> None:
    """Progress over blocks of rows that is shown to nobody."""
    del rows


def memory_size(text: str | int) -> int:
    """Memory for blocks of rows: bytes, from a number or a text such as ``512MiB`` or ``2GB``; at least 1 MiB."""
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


class Readable(Protocol):
    """A table that can be read again and again, as ``files.source.Source`` is."""

    @property
    def rows(self) -> int | None:
        """The number of rows to cut into blocks, None where it is not known before reading."""
        ...

    @property
    def description(self) -> str:
        """What kind of table is cut into blocks, in words fit for the public."""
        ...

    @property
    def entries(self) -> Any:
        """The stored rows of a SciPy sparse matrix of numbers, to cut into blocks; None for other tables."""
        ...

    @property
    def divisible(self) -> bool:
        """Whether any range of rows can be read by itself, so that blocks can be worked on apart."""
        ...

    def within(self, start: int, stop: int) -> Self:
        """The rows from ``start`` to before ``stop``, to be cut into blocks, without reading the others."""
        ...

    def check_types(self, schema: Schema) -> None:
        """Refuse columns that are not there, or of a type that cannot be read into blocks as the schema says."""
        ...

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The named columns in blocks of exactly ``rows`` rows, the last one shorter."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A table cut into blocks of ``size`` rows, each encoded by itself to ``dim`` columns: what an engine works on."""

    table: Readable
    columns: tuple[str, ...]
    size: int
    dim: int
    encode: Callable[[pa.RecordBatch], NDArray[Any]] = field(repr=False)
    later: Callable[[pa.RecordBatch], Floats | Plain] | None = field(default=None, repr=False)
    missing: Floats | None = field(default=None, repr=False)  # of a sparse matrix: what NaN means in each column
    width: int = 1  # of the release
    dtype: type[np.generic] = np.float64  # of an encoded block

    @classmethod
    def of(cls, table: Readable, schema: Schema, *, width: int = 1, memory: int = MEMORY) -> "Blocks":
        """Blocks of a table as a schema encodes it, which has all of its columns; ``width``: of the release."""
        table.check_types(schema)
        dim = schema.encoding.dim
        plain = table.entries is not None and not schema.clips
        missing = schema.missing_numbers if plain else None
        size = block_rows(max(dim, width), memory)
        return cls(table, schema.source_names, size, dim, schema.encode, schema.later, missing, width)

    @classmethod
    def read_by(
        cls, reader: CodeReader, table: Readable, schema: Schema, *, width: int = 1, memory: int = MEMORY
    ) -> "Blocks":
        """Blocks of a table as a reader of codes gives them, sized for as many codes as each row has."""
        table.check_types(schema)
        size = block_rows(max(reader.dim, width), memory)
        return cls(table, schema.source_names, size, reader.dim, reader.read, width=width, dtype=np.int32)

    def encoded_by(self, encode: Callable[[pa.RecordBatch], NDArray[Any]]) -> "Blocks":
        """These blocks, encoded by another function, which sees every batch whole."""
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
        """Blocks of rows as they are stored in a sparse matrix of shape (rows, columns): what is not there is 0."""
        entries = self.table.entries
        for start in range(0, entries.shape[0], self.size):
            yield entries[start : start + self.size]

    def plain(self, rows: Any) -> Any:
        """A sparse block of rows in doubles, each entry once, without NaN."""
        assert self.missing is not None
        made = rows.astype(np.float64)
        made.sum_duplicates()
        nothing = np.isnan(made.data)
        made.data[nothing] = self.missing[made.indices[nothing]]
        return made

    def empty(self) -> NDArray[Any]:
        """A block without rows, of the type of the others."""
        return np.empty((self.dim, 0), self.dtype)


# ---- threads ---------------------------------------------------------------------------------------------------------


def cores() -> int:
    """How many cores this process may use to work on blocks of rows."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_threads() -> int:
    """How many threads work on blocks of rows: as many as there are cores, at most four."""
    return min(_MOST_THREADS, cores())


def in_order(function: Callable[..., Result], calls: Iterable[tuple[Any, ...]], threads: int) -> Iterator[Result]:
    """Blocks by threads, results in order: ``function(*call)`` for calls read when needed, two more than threads.

    One thread is this one. Of several, left early, this may be ended by the collector in one of themselves, so they are
    not waited for then.
    """
    if threads == 1:
        for call in calls:
            yield function(*call)
            del call  # what it was about is not needed while the next one is read
        return
    pool = ThreadPoolExecutor(threads)
    try:
        waiting: deque[Future[Result]] = deque()
        for call in calls:
            waiting.append(pool.submit(function, *call))
            if len(waiting) > threads + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        pool.shutdown()  # so that no thread is left, and none is counted, when all is done
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
