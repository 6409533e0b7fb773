"""Where the work is done: by the threads of this machine, or by another engine that offers the same.

An engine turns blocks into ``Rows`` for a mechanism and writes what comes out of them. Every engine hands out the same
blocks at the same positions, so the noise, which is a function of both, and the release are the same to the bit.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sfumato.fileformat import writer
from sfumato.fileformat.writer import Block, Written
from sfumato.files.source import Source, check_public_column
from sfumato.numerics.lattice import Total
from sfumato.numerics.types import Floats, Integers
from sfumato.tables import cells
from sfumato.tables.blocks import (
    MEMORY,
    Blocks,
    Piecewise,
    Progress,
    Rows,
    ignore,
    in_order,
    memory_size,
    usual_threads,
)
from sfumato.tables.schema import Schema

Result = TypeVar("Result")
Announce: TypeAlias = Callable[[], None]

_IDS_AT_ONCE = 1 << 16
_KEPT = 1 / 8  # of an engine's memory, for codes of tables that are read several times


class Engine(Protocol):
    """What a release asks of an engine."""

    @property
    def memory(self) -> int:
        """Bytes of memory that an engine may take for the blocks at work."""
        ...

    def opened(self, data: Any, beside: Path) -> AbstractContextManager[Any]:
        """Data in a form that ``open_table`` or ``open_edges`` knows; an engine's copy, if any, goes beside a path."""
        ...

    def rows(self, blocks: Blocks, progress: Progress) -> Rows:
        """The blocks of a table as an engine works on them, for a mechanism."""
        ...

    def write(
        self, folder: Path, names: tuple[str, ...], blocks: Iterator[Any], ids: "Ids | None", announce: Announce
    ) -> Written:
        """Engine interface: write published blocks, each with the public ids of its rows.

        ``announce`` tells a ledger that noise is drawn: for engines whose noise is drawn where no ledger can be told.
        """
        ...


class KeptCodes:
    """Codes of the blocks of a table that was read once, for further readings; none if they take too many bytes.

    Only time and memory depend on it: the blocks, their positions and their codes are those of another reading.
    """

    def __init__(self, most: int) -> None:
        self.most, self._held, self._whole, self._lock = most, dict[int, NDArray[Any]](), False, Lock()

    def add(self, position: int, codes: NDArray[Any]) -> None:
        """Keep the codes of a block, unless that would be too much."""
        codes.flags.writeable = False
        with self._lock:
            self._held[position] = codes
            if sum(held.nbytes for held in self._held.values()) > self.most:
                self.most = 0
                self._held.clear()

    def finish(self) -> None:
        """All blocks of the table have been read."""
        self._whole = self.most > 0

    def blocks(self) -> list[NDArray[Any]] | None:
        """The codes of all blocks in order, (rows, codes of a row); None if they are not all kept."""
        return [self._held[position].T for position in sorted(self._held)] if self._whole else None


class LocalRows:
    """Blocks worked on by threads of this process; ``first`` is the position of their first row.

    keep : bytes of codes (of a ``CodeReader``) that are kept for further readings; tables with more are read again.
    """

    def __init__(
        self, blocks: Blocks, *, first: int = 0, progress: Progress = ignore, threads: int | None = None, keep: int = 0
    ) -> None:
        self.blocks, self.first, self.progress = blocks, first, progress
        self.threads = threads or usual_threads()
        size = (blocks.table.rows or 0) * blocks.dim * np.dtype(np.int32).itemsize
        self._kept = KeptCodes(keep if blocks.dtype == np.int32 and size <= keep else 0)

    def map(self, function: Callable[[int, Floats], Result]) -> Iterator[Result]:
        """A function of each block, run by a few threads of this process; NumPy and BLAS release the interpreter."""
        for rows, result in self._results(function):
            self.progress(rows)
            yield result

    def sum(self, function: Callable[[int, Floats], Integers]) -> Integers:
        """Sum of a function over the blocks, by threads; not counted as progress, which is of published rows."""
        total = self.total(function)
        return function(0, self.blocks.empty()) if total is None else total.int64()

    def total(self, function: Callable[[int, Floats], Integers]) -> Total | None:
        """Sum of a function over the blocks by threads, of any size (no limit of 64 bits); None without blocks."""
        total: Total | None = None
        for _, result in self._results(function):
            total = (Total(result.shape) if total is None else total).add(result)
        return total

    def _results(self, function: Callable[[int, Any], Result]) -> Iterator[tuple[int, Result]]:
        """Number of rows and result of each block in order, by our own threads, so BLAS gets one each."""
        blocks, encode = self.blocks.pieces() if isinstance(function, Piecewise) else (self.blocks, self.blocks.encode)
        again = self._kept.blocks()
        if again is not None:
            blocks, encode = again, np.transpose

        def one(position: int, block: Any) -> tuple[int, Result]:
            encoded = encode(block)
            if again is None and self._kept.most:
                self._kept.add(position, encoded)
            return block.shape[0], function(position, encoded)

        def calls() -> Iterator[tuple[int, Any]]:
            position = self.first
            for block in blocks:
                rows = block.shape[0]
                yield position, block
                del block
                position += rows

        with libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
            yield from in_order(one, calls(), self.threads)
        self._kept.finish()


@lru_cache(maxsize=1)
def libraries(_modules: int) -> ThreadpoolController:
    """The libraries that have threads of their own, looked for in a map of all memory: again if modules were loaded."""
    return ThreadpoolController()


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The machine at hand: a few threads over a stream of blocks."""

    memory: int = MEMORY
    threads: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", memory_size(self.memory))

    def opened(self, data: Any, beside: Path) -> AbstractContextManager[Any]:
        """The local engine takes data as they are, and copies nothing."""
        del beside
        return nullcontext(data)

    def rows(self, blocks: Blocks, progress: Progress) -> Rows:
        """Rows whose blocks threads of this machine work on."""
        return LocalRows(blocks, progress=progress, threads=self.threads, keep=int(self.memory * _KEPT))

    def write(
        self, folder: Path, names: tuple[str, ...], blocks: Iterator[Any], ids: "Ids | None", announce: Announce
    ) -> Written:
        """One file, written as threads hand over the blocks; the secret announces itself when the first is drawn."""
        del announce
        return writer.write_numbers(folder, names, with_ids(blocks, ids))


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """The public column that labels the rows of a table."""

    table: Source
    name: str

    @classmethod
    def of(cls, table: Source, schema: Schema) -> "Ids | None":
        """The public ids of a table, for an engine to write beside its blocks, if the schema names an id column."""
        if schema.id_column is None or table.description in ("numpy array", "sparse matrix"):
            return None
        name = schema.id_column.name
        check_public_column(table, name, "the id column", "ids are texts or whole numbers")
        return cls(table, name)

    def within(self, start: int, stop: int) -> "Ids":
        """The public ids of a range of rows, such as one process or task works on."""
        return Ids(self.table.within(start, stop), self.name)

    def __iter__(self) -> Iterator[pa.Array]:
        return (cells.as_text(batch.column(0)) for batch in self.table.blocks([self.name], _IDS_AT_ONCE))


def with_ids(blocks: Iterable[Any], ids: Ids | None) -> Iterator[Block]:
    """What every engine writes: each published block beside the public ids of its rows, read in other pieces."""
    pieces, left = iter(()) if ids is None else iter(ids), pa.nulls(0, pa.string())
    for block in blocks:
        if ids is None:
            yield block, None
            continue
        while len(left) < block.shape[1]:
            left = pa.concat_arrays([left, next(pieces)])
        yield block, left[: block.shape[1]]
        left = left[block.shape[1] :]
