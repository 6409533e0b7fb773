"""Where the work is done: by the threads of this machine, or by another engine that offers the same (``spark``).

An engine turns blocks into ``Rows`` for a mechanism and writes what comes out of them. Every engine hands out the same
blocks at the same positions, so the noise, which is a function of both, and the release are the same to the bit.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from sfumato.fileformat import writer
from sfumato.fileformat.writer import Block, Written
from sfumato.tables import cells
from sfumato.tables.blocks import MEMORY, Blocks, LocalRows, Progress, Rows, memory_size
from sfumato.tables.schema import Schema
from sfumato.tables.sources import Table, check_labels

Announce: TypeAlias = Callable[[], None]

_IDS_AT_ONCE = 1 << 16


class Engine(Protocol):
    """What a release asks of an engine."""

    @property
    def memory(self) -> int:
        """Bytes that the blocks at work may take."""
        ...

    def opened(self, data: Any, beside: Path) -> AbstractContextManager[Any]:
        """The data in a form that ``open_table`` or ``open_edges`` knows; what it takes goes beside a path."""
        ...

    def rows(self, blocks: Blocks, progress: Progress) -> Rows:
        """The blocks, for a mechanism to work on."""
        ...

    def write(
        self, folder: Path, names: tuple[str, ...], blocks: Iterator[Any], ids: "Ids | None", announce: Announce
    ) -> Written:
        """Write published blocks, each with the public ids of its rows.

        ``announce`` tells a ledger that noise is drawn: for engines whose noise is drawn where no ledger can be told.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The machine at hand: a few threads over a stream of blocks."""

    memory: int = MEMORY
    threads: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", memory_size(self.memory))

    def opened(self, data: Any, beside: Path) -> AbstractContextManager[Any]:
        """The data as they are."""
        del beside
        return nullcontext(data)

    def rows(self, blocks: Blocks, progress: Progress) -> Rows:
        """Rows whose blocks are worked on by threads."""
        return LocalRows(blocks, progress=progress, threads=self.threads)

    def write(
        self, folder: Path, names: tuple[str, ...], blocks: Iterator[Any], ids: "Ids | None", announce: Announce
    ) -> Written:
        """One file, written as the blocks come; the secret announces itself when the first is drawn."""
        del announce
        return writer.write_numbers(folder, names, with_ids(blocks, ids))


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """The public column that labels the rows of a table."""

    table: Table
    name: str

    @classmethod
    def of(cls, table: Table, schema: Schema) -> "Ids | None":
        """The ids of a table, if it has any that its schema names."""
        if schema.id_column is None or table.source in ("numpy array", "sparse matrix"):
            return None
        name = schema.id_column.name
        check_labels(table, name, "the id column", "ids are texts or whole numbers")
        return cls(table, name)

    def within(self, start: int, stop: int) -> "Ids":
        """Those of a range of rows."""
        return Ids(self.table.within(start, stop), self.name)

    def __iter__(self) -> Iterator[pa.Array]:
        return (cells.as_text(batch.column(0)) for batch in self.table.blocks([self.name], _IDS_AT_ONCE))


def with_ids(blocks: Iterable[Any], ids: Ids | None) -> Iterator[Block]:
    """Each block beside the ids of its rows, which are read in pieces of another size."""
    pieces, left = iter(()) if ids is None else iter(ids), pa.nulls(0, pa.string())
    for block in blocks:
        if ids is None:
            yield block, None
            continue
        while len(left) < block.shape[1]:
            left = pa.concat_arrays([left, next(pieces)])
        yield block, left[: block.shape[1]]
        left = left[block.shape[1] :]
