"""Parquet files of a release, which a stranger may have made: compared with what they must hold, then unpacked.

A footer can promise anything, and a few bytes can stand for millions of equal numbers. So the footer is read only if it
is no larger than such a file needs; the columns, the rows of every row group and the numbers in every column must be as
many as the release says before one of them is unpacked; and they are counted again when they are there.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import ReleaseError

Form: TypeAlias = list[tuple[str, pa.DataType]]

FREE, MANIFOLD = 1 << 30, 1000  # bytes that any release may unpack to; and how many times the bytes of its files
_TAIL = 8  # bytes: the footer's length and the mark of the format
_FOOTER, _CHUNK, _GROUP = 1 << 20, 512, 1 << 20  # bytes: of a footer, of a column in it, of the least row group
_PAGES = 1 << 16  # bytes of a column beside its numbers
_PER_NUMBER = 32  # bytes of a number with all that may stand beside it
_PACKED = {"UNCOMPRESSED": 1, "SNAPPY": 32}  # how releases are written, and how many times its size a text can become


def contradicted(path: Path) -> ReleaseError:
    """The one complaint about files that are not what they should be."""
    return ReleaseError(f"{path} does not hold what its manifest says: do not trust it")


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A Parquet file whose footer was found to be consistent: names and types, rows, and bytes on disk."""

    path: Path
    file: pq.ParquetFile
    form: Form
    rows: int
    size: int

    @classmethod
    def open(cls, path: Path, columns: int) -> "Numbers":
        """The file at a place, which must have at most so many columns."""
        try:
            size = _check_footer(path, columns)
            file = pq.ParquetFile(path)
            form = [(field.name, field.type) for field in file.schema_arrow]  # gaps are foreseen or not, and refused
            sound = len(form) <= columns and _consistent(file.metadata, len(form))
        except (pa.ArrowException, OSError, ValueError):
            sound = False
        if not sound:
            raise contradicted(path)
        return cls(path, file, form, int(file.metadata.num_rows), size)

    def column(self, name: str) -> pa.Array:
        """A column of numbers, as many as there are rows."""
        try:
            found = self.file.read([name]).column(0).combine_chunks()
        except (pa.ArrowException, OSError, ValueError):
            raise contradicted(self.path) from None
        if len(found) != self.rows or found.null_count:
            raise contradicted(self.path)
        return found

    def texts(self, name: str, most: int) -> pa.Array:
        """A column of texts, as many as there are rows, of at most so many bytes together.

        They are unpacked a few at a time: one that is written once can be meant by every row.
        """
        place = [known for known, _ in self.form].index(name)
        groups = [self.file.metadata.row_group(g).column(place) for g in range(self.file.num_row_groups)]
        longest = max((c.total_compressed_size * _PACKED[c.compression] for c in groups), default=0)
        together = min(max(1, most // max(longest, 1)), 1 << 16)
        found: list[pa.Array] = []
        left = most
        try:
            for batch in self.file.iter_batches(batch_size=together, columns=[name]):
                found.append(batch.column(0))
                left -= batch.nbytes
                if left < 0:
                    raise contradicted(self.path)
            whole = pa.concat_arrays(found) if found else pa.array([], pa.string())
        except (pa.ArrowException, OSError):
            raise contradicted(self.path) from None
        if len(whole) != self.rows:
            raise contradicted(self.path)
        return whole


def allowance(files: Sequence[Numbers]) -> int:
    """How many bytes files may unpack to, together."""
    return max(FREE, MANIFOLD * sum(file.size for file in files))


def check_allowed(files: Sequence[Numbers], numbers: int) -> int:
    """Refuse before so many numbers are unpacked, if their files are far too small; the bytes that are left."""
    most = allowance(files)
    if numbers * 8 > most:
        raise ReleaseError(
            f"{files[0].path.parent} would unpack to {numbers * 8 / (1 << 30):.3g} GiB, more than {MANIFOLD} times the "
            "size of its files, which no release does that has noise in it: it is not read"
        )
    return most - numbers * 8


def _check_footer(path: Path, columns: int) -> int:
    """The size of a file whose footer is no larger than so many columns need."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL, 0))
        tail = file.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > min(size, _FOOTER + _CHUNK * columns * (1 + size // _GROUP)):
        raise contradicted(path)
    return size


def _consistent(footer: pq.FileMetaData, columns: int) -> bool:
    """Whether every row group has a number in each of its columns for each of its rows, stored in a way of ours."""
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    counts = [group.num_rows for group in groups]
    if footer.num_columns != columns or min(counts, default=0) < 0 or sum(counts) != footer.num_rows:
        return False
    chunks = ((group.num_rows, group.column(c)) for group in groups for c in range(columns))
    return all(
        chunk.num_values == rows
        and chunk.compression in _PACKED
        and chunk.total_compressed_size >= 0
        and (chunk.physical_type == "BYTE_ARRAY" or 0 <= chunk.total_uncompressed_size <= _PER_NUMBER * rows + _PAGES)
        for rows, chunk in chunks
    )
