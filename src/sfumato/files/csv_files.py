"""CSV files, read in pieces by a few threads: numbers where a schema wants numbers, texts elsewhere.

What a cell means is what ``cells.read`` says of its text. Arrow's own reading of numbers is quicker and agrees with it
on every cell that Arrow accepts; a piece with a cell that Arrow does not accept is read as text. So neither the piece a
cell is in nor the cells beside it change what it means, and no cell raises an error.

Pieces end where a row ends for certain: at a line end with no quotes before it in the piece but the first and last
characters of cells. Where there are others for longer than a block, the rest of the file is read in one go.
"""

import codecs
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.csv as pv

from sfumato.files.content import Content
from sfumato.tables import cells
from sfumato.tables.blocks import in_order, usual_threads
from sfumato.tables.columns import DataColumn

Batches: TypeAlias = Iterator[pa.RecordBatch]

_BLOCK = 1 << 23  # bytes; a row has to fit
_PIECE = 1 << 20  # bytes at least, small enough for a cache
_CELLS = 1 << 13  # bytes of a piece for each column, so that columns are long enough


def guess(content: Content, separator: str) -> pa.Schema:
    """Names and types of columns as the beginning of a CSV file suggests: its first block, of two that are taken."""
    parsing = _parsing(separator, empty_rows=False)
    for size in (_PIECE, _BLOCK):
        start = content.start(2 * size)
        whole = start + b"\n" if len(start) < 2 * size and not start.endswith(b"\n") else start
        try:
            with pv.open_csv(pa.BufferReader(whole), pv.ReadOptions(block_size=size), parsing) as reader:
                return pa.schema(zip(reader.schema.names, reader.schema.types, strict=True))  # names are decoded here
        except pa.ArrowInvalid:  # a row may need the larger block
            if size == _BLOCK:
                raise
    raise AssertionError


def read(
    content: Content, separator: str, columns: Sequence[str], numbers: Mapping[str, DataColumn], width: int
) -> Batches:
    """Read named columns of a CSV file, ``width`` columns wide: those in ``numbers`` as numbers, others as texts.

    A cell that is no number is null or NaN. Memory is bounded whatever the number of rows.
    """
    how = _Reading.of(columns, numbers, _parsing(separator, empty_rows=width == 1))
    with content.open() as file:
        pieces = _Pieces(file, min(_BLOCK, max(_PIECE, _CELLS * width)), separator)
        for batches in in_order(how.piece, ((pieces.header, piece) for piece in pieces), usual_threads()):
            yield from batches
        if pieces.rest:
            yield from how.stream(_Joined(pieces.header + pieces.rest, file))


def _parsing(separator: str, *, empty_rows: bool) -> pv.ParseOptions:
    return pv.ParseOptions(delimiter=separator, newlines_in_values=True, ignore_empty_lines=not empty_rows)


@functools.cache
def _quoted(separator: str) -> re.Pattern[bytes]:
    """A cell of a CSV file in quotes, with no quote within it."""
    sign = re.escape(separator).encode()
    return re.compile(rb'(?:^|(?<=%b))"[^"]*"(?=[%b\r\n])' % (sign, sign), re.MULTILINE)


def _certain(lines: bytes, separator: str) -> bool:
    """Whether every quote in these CSV lines opens or closes a cell: then they end with a row, if they begin with one.

    By induction: the first quote opens a cell, as it stands where one begins; the cell ends at the next, as there is
    no other within it and a separator behind it; and so on.
    """
    return b'"' not in lines or lines.count(b'"') == 2 * len(_quoted(separator).findall(lines))


class _Pieces:
    """Pieces of whole rows of a file below its ``header``, as long as row ends are certain; then ``rest`` is left."""

    def __init__(self, file: BinaryIO, size: int, separator: str) -> None:
        self._file, self._size, self._separator = file, size, separator
        first = file.readline(_BLOCK)
        while first in (b"\n", b"\r\n"):  # blank lines before a header are no rows, even of a single column
            first = file.readline(_BLOCK)
        header = first.endswith(b"\n") and first.strip() and b"\r" not in first[:-2]
        self._cut = bool(header and _certain(first.removeprefix(codecs.BOM_UTF8), separator))
        self.header, self.rest = (first, b"") if self._cut else (b"", first)
        if len(first) < _BLOCK and b"\n" not in first and b"\r" not in first:
            self.rest = b""  # a header alone

    def __iter__(self) -> Iterator[bytes]:
        while self._cut and len(self.rest) < _BLOCK and (more := self._file.read(self._size)):
            end = more.rfind(b"\n") + 1
            lines = self.rest + more[:end]
            if end and _certain(lines, self._separator):
                self.rest = more[end:]
                yield lines
            else:
                self.rest += more


class _Joined:
    """What was taken of a file and the rest of it, as one file."""

    closed = False

    def __init__(self, start: bytes, file: BinaryIO) -> None:
        self._start, self._file, self._ended = start, file, False

    def read(self, size: int) -> bytes:
        """The next bytes of the CSV file, with a line end after the last ones.

        A line end of two characters is never torn: Arrow would drop the second, within quotes too.
        """
        taken, self._start = self._start[:size], self._start[size:]
        taken += self._file.read(size - len(taken))
        if len(taken) < size and not self._ended:
            taken, self._ended = taken + b"\n" * (not taken.endswith(b"\n")), True
        if len(taken) > 1 and taken.endswith(b"\r"):
            taken, self._start = taken[:-1], b"\r" + self._start
        return taken

    def close(self) -> None:
        """Does nothing: closing the CSV file is left to whoever opened it."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """How cells are read: quickly, numbers by Arrow; carefully, numbers from their texts."""

    quick: pv.ConvertOptions
    careful: pv.ConvertOptions
    parsing: pv.ParseOptions
    numbers: tuple[DataColumn | None, ...]

    @classmethod
    def of(cls, columns: Sequence[str], numbers: Mapping[str, DataColumn], parsing: pv.ParseOptions) -> "_Reading":
        quick, careful = (
            pv.ConvertOptions(
                column_types={name: number if name in numbers else pa.string() for name in columns},
                include_columns=list(columns),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                check_utf8=False,
            )
            for number in (pa.float64(), pa.string())
        )
        return cls(quick, careful, parsing, tuple(numbers.get(name) for name in columns))

    def piece(self, header: bytes, lines: bytes) -> list[pa.RecordBatch]:
        """The rows of a piece of a CSV file; below its header, a mark of byte order in a cell is not taken for one."""
        content = header + lines
        options = pv.ReadOptions(use_threads=False, block_size=len(content) + 1)
        try:
            return list(pv.read_csv(pa.BufferReader(content), options, self.parsing, self.quick).to_batches())
        except pa.ArrowInvalid:
            pass  # a cell that is no number, perhaps: what it says is forgotten
        texts = pv.read_csv(pa.BufferReader(content), options, self.parsing, self.careful)
        return [self._numbers(batch) for batch in texts.to_batches()]

    def stream(self, file: _Joined) -> Batches:
        """The rows of a CSV file, one block after the other."""
        with pv.open_csv(file, pv.ReadOptions(block_size=_BLOCK), self.parsing, self.careful) as reader:
            for batch in reader:
                yield self._numbers(batch)

    def _numbers(self, texts: pa.RecordBatch) -> pa.RecordBatch:
        pairs = zip(texts.columns, self.numbers, strict=True)
        arrays = [text if column is None else cells.arrow(cells.read(text, column)) for text, column in pairs]
        return pa.RecordBatch.from_arrays(arrays, names=texts.schema.names)
