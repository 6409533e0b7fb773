"""Parquet files: any range of their rows read by itself, and files that are hashed while they are written."""

import contextlib
import hashlib
import io
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import SchemaError

Batches: TypeAlias = Iterator[pa.RecordBatch]

_BUFFER = 1 << 18  # bytes for each column, so that a row group of any size is streamed
_SMALL_GROUP = 1 << 26  # bytes of a row group that is read whole, as it is stored
_SMALL_UNPACKED = 1 << 28  # and unpacked: a few bytes can stand for many equal numbers
_DECODED = 1 << 22  # bytes of it that are decoded at once
_ROW_GROUP = 1 << 24  # bytes of a row group that is written
_GROUPS_WAITING = 1  # to be written
_WRITTEN = 1 << 20  # bytes that are hashed and written at a time
_UNSYNCED = 1 << 26  # bytes that may be on their way to the disk


def files_of(folder: Path) -> list[Path]:
    """The Parquet files of a folder, in order of their names; hidden ones are none of them."""
    found = [p for p in folder.rglob("*") if p.suffix.lower() == ".parquet" and p.is_file()]
    shown = [p for p in found if not any(name.startswith((".", "_")) for name in p.relative_to(folder).parts)]
    if any(p.parent != folder for p in shown):
        raise SchemaError(f"{folder}: Parquet files in folders within it would be left out: put them all in one folder")
    if not shown:
        raise SchemaError(f"{folder}: there is no .parquet file in this folder")
    return sorted(shown)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the Parquet files of a table, as it was when the table was opened."""

    path: Path
    rows: int
    written: tuple[int, int]  # its size, and when it was written

    @classmethod
    def of(cls, path: Path) -> tuple["Part", pa.Schema]:
        """A file with its names and types."""
        written = _written(path)
        with pq.ParquetFile(path) as file:
            return cls(path, file.metadata.num_rows, written), file.schema_arrow

    def within(self, columns: tuple[str, ...], rows: int, start: int, stop: int) -> Batches:
        """The rows from ``start`` to before ``stop``, of the row groups that hold them."""
        # pre_buffer would hold all that is still to come of the file
        with pq.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False) as file:
            if _written(self.path) != self.written or file.metadata.num_rows != self.rows:
                raise SchemaError(f"{self.path} was written anew while it was read: nothing can be said of such rows")
            ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)], dtype=np.int64)
            groups = [i for i, end in enumerate(ends) if end > start and (i == 0 or ends[i - 1] < stop)]
            position = int(ends[groups[0] - 1]) if groups and groups[0] > 0 else 0
            for batch in _groups(file, columns, rows, groups):
                low, high = max(start - position, 0), min(stop - position, batch.num_rows)
                position += batch.num_rows
                if low < high:
                    yield batch.slice(low, high - low).select(list(columns))
                del batch  # here and wherever it goes, so that no row group is held while the next one is read
                if position >= stop:
                    break


def _written(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def _groups(file: pq.ParquetFile, columns: tuple[str, ...], rows: int, groups: list[int]) -> Batches:
    """Batches of row groups; small ones are read whole, which is faster, and large ones streamed."""
    for group in groups:
        stored = file.metadata.row_group(group)
        if stored.total_byte_size <= _SMALL_GROUP and stored.num_rows * len(columns) * 8 <= _SMALL_UNPACKED:
            batches = _whole(file, columns, group).to_batches()
            while batches:
                yield batches.pop(0)
        else:
            yield from file.iter_batches(batch_size=rows, columns=list(columns), row_groups=[group])


def _whole(file: pq.ParquetFile, columns: tuple[str, ...], group: int) -> pa.Table:
    """A row group, a few columns at a time, so that the space where their pages are unpacked is used again at once."""
    size = max(1, file.metadata.row_group(group).total_byte_size)
    together = max(1, _DECODED * file.metadata.num_columns // size)
    read: list[pa.ChunkedArray] = []
    fields: list[pa.Field] = []
    for start in range(0, len(columns), together):
        some = list(columns[start : start + together])
        table = file.read_row_group(group, columns=some).select(some)  # without names that only begin with one of these
        read += table.columns
        fields += table.schema
    return pa.Table.from_arrays(read, schema=pa.schema(fields, table.schema.metadata))


class ParquetSink:
    """A Parquet file written batch by batch: ``with ParquetSink(path, schema) as sink: sink.write(batch)``.

    Without compression (zstd took four times as long to write noisy lattice numbers, and saved about half the room),
    without minima and maxima, and removed again if the block is left by an error. A few batches become a row group,
    which is encoded, hashed and written by a thread of its own, while others are made; what goes wrong there is raised
    by a later call.
    """

    def __init__(self, path: str | Path, schema: pa.Schema) -> None:
        self.path = Path(path)
        texts = [f.name for f in schema if not pa.types.is_floating(f.type)]
        self._file = _Hashed(self.path)
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._file, mode="w"), _WRITTEN)
        self._writer = pq.ParquetWriter(
            self._stream, schema, compression="none", use_dictionary=texts or False, write_statistics=False
        )
        self._thread, self._waiting = ThreadPoolExecutor(1), deque[Future[None]]()
        self._held: list[pa.RecordBatch] = []

    @property
    def written(self) -> dict[str, Any]:
        """Digest and size of the file, once it is closed."""
        return {"sha256": self._file.digest.hexdigest(), "bytes": self._file.size}

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch."""
        self._held.append(batch)
        if sum(held.nbytes for held in self._held) >= _ROW_GROUP:
            self._hand_over()
        if len(self._waiting) > _GROUPS_WAITING:
            self._waiting.popleft().result()

    def _hand_over(self) -> None:
        """What is held becomes a row group."""
        table, self._held = pa.Table.from_batches(self._held), []
        self._waiting.append(self._thread.submit(self._writer.write_table, table, max(1, table.num_rows)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._held:
            self._hand_over()
        self._thread.shutdown()
        try:
            if kind is None:
                for group in self._waiting:
                    group.result()
                self._writer.close()
                self._stream.flush()
                self._file.sync()
        finally:
            self._file.given_up = True  # closed again after an error, Arrow must not come upon another one
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
                self._stream.close()
            self._file.close()
        if kind is not None:
            self.path.unlink(missing_ok=True)


class _Hashed(io.RawIOBase):
    """A new file that hashes what is written to it, while it is at hand."""

    def __init__(self, path: Path) -> None:
        self._raw, self.digest, self.size = path.open("wb"), hashlib.sha256(), 0
        self._synced = 0
        self.given_up = False  # then what is written goes nowhere

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        if self.given_up:
            return len(data)
        self.digest.update(data)
        self.size += len(data)
        count = self._raw.write(data)
        if self.size >= self._synced + _UNSYNCED:  # while others work, instead of all of it in the end
            self.sync()
        return count

    def sync(self) -> None:
        """Wait until all of it is on disk."""
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._synced = self.size

    def flush(self) -> None:
        if not self._raw.closed:
            self._raw.flush()

    def close(self) -> None:
        self._raw.close()
        super().close()
