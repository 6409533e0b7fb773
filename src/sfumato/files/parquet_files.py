"""Parquet files: any range of their rows read by itself."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import SchemaError
from sfumato.files.content import Content

Batches: TypeAlias = Iterator[pa.RecordBatch]

_BUFFER = 1 << 18  # bytes for each column, so that a row group of any size is streamed
_SMALL_GROUP = 1 << 26  # bytes of a row group that is read whole, as it is stored
_SMALL_UNPACKED = 1 << 28  # and unpacked: a few bytes can stand for many equal numbers
_LISTED = 1 << 19  # cells of lists that are read at once
_DECODED = 1 << 22  # bytes of it that are decoded at once


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

    path: Path | Content
    rows: int
    written: tuple[int, int]  # its size, and when it was written

    @classmethod
    def of(cls, path: Path | Content) -> tuple["Part", pa.Schema]:
        """A Parquet file with its names and types."""
        written = _written(path)
        with pq.ParquetFile(_opened(path)) as file:
            return cls(path, file.metadata.num_rows, written), file.schema_arrow

    def within(self, columns: tuple[str, ...], rows: int, start: int, stop: int) -> Batches:
        """The rows of a Parquet file from ``start`` to before ``stop``, of the row groups that hold them."""
        # pre_buffer would hold all that is still to come of the file
        with pq.ParquetFile(_opened(self.path), buffer_size=_BUFFER, pre_buffer=False) as file:
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


def _opened(path: Path | Content) -> Any:
    return path if isinstance(path, Path) else path.open()


def _written(path: Path | Content) -> tuple[int, int]:
    if not isinstance(path, Path):
        return 0, 0  # nobody else can write it
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def _groups(file: pq.ParquetFile, columns: tuple[str, ...], rows: int, groups: list[int]) -> Batches:
    """Batches of row groups of a Parquet file: small ones whole, which is faster; large ones, and lists, streamed."""
    for group in groups:
        stored = file.metadata.row_group(group)
        numbers = _listed_numbers(stored, columns)
        if numbers:  # lists are quickest a few at a time, which stay in the cache
            few = max(1, min(rows, _LISTED * int(stored.num_rows) // numbers))
            yield from _streamed_lists(file, columns, few, group)
        elif stored.total_byte_size <= _SMALL_GROUP and stored.num_rows * len(columns) * 8 <= _SMALL_UNPACKED:
            batches = _whole(file, columns, group).to_batches()
            while batches:
                yield batches.pop(0)
        else:
            yield from file.iter_batches(batch_size=rows, columns=list(columns), row_groups=[group])


def _streamed_lists(file: pq.ParquetFile, columns: tuple[str, ...], few: int, group: int) -> Batches:
    """Lists of a Parquet row group, a few rows at a time; those from which on Arrow cannot read so many, one by one.

    Arrow reads no more than 2^31 - 1 bytes of texts in lists at once. Whether there are more depends on the cells, so
    it is no error here but of a single list.
    """
    done = 0
    with suppress(pa.ArrowNotImplementedError):
        for batch in file.iter_batches(batch_size=few, columns=list(columns), row_groups=[group]):
            done += batch.num_rows
            yield batch
            del batch
        return
    yield from islice(file.iter_batches(batch_size=1, columns=list(columns), row_groups=[group]), done, None)


def _listed_numbers(stored: pq.RowGroupMetaData, columns: tuple[str, ...]) -> int:
    """How many cells the lists among some columns of a Parquet row group have; 0 without lists."""
    chunks, wanted = map(stored.column, range(stored.num_columns)), set(columns)
    return sum(int(c.num_values) for c in chunks if _top(c.path_in_schema, wanted))


def _top(path: str, columns: set[str]) -> bool:
    """Whether the path of a chunk in Parquet is that of a list among these columns; a name may have dots itself."""
    cuts = [place for place, letter in enumerate(path) if letter == "."]
    return any(path[:cut] in columns for cut in cuts)


def _whole(file: pq.ParquetFile, columns: tuple[str, ...], group: int) -> pa.Table:
    """A Parquet row group, a few columns at a time, so that the space where pages are unpacked is soon used again."""
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
