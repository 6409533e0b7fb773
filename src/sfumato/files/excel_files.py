"""Excel workbooks (.xlsx): the first sheet, whose first row has the names of the columns. Needs openpyxl.

Rows are streamed. Every cell is handed out as a text, by itself, so that no cell changes how another is read: a number
as its text, a truth as 1 or 0, a date as ISO 8601 writes it, a formula as the value that Excel stored with it.

Every row below the header is a record, also an empty one: whether a record has any cell at all is private.
"""

import datetime as dt
import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from sfumato.errors import MissingDependency, SchemaError
from sfumato.files.content import Content
from sfumato.files.source import Batches, attempt
from sfumato.tables.cells import as_texts
from sfumato.tables.patterns import positions

Row: TypeAlias = tuple[Any, ...]
Result = TypeVar("Result")

_AT_ONCE = 1 << 12  # rows
_SEEN = 1000  # rows that a draft's types are taken from


@dataclass(frozen=True, slots=True)
class ExcelSheet:
    """The first sheet of a workbook: names, and types as its beginning suggests."""

    content: Content
    schema: pa.Schema

    @classmethod
    def of(cls, content: Content) -> "ExcelSheet":
        """The first sheet of a workbook."""
        with _rows(content) as rows:
            header = next(iter(_some(rows, 1, content)), ())
            width = max((place + 1 for place, cell in enumerate(header) if cell is not None), default=0)
            if not width:
                raise SchemaError(f"{content.name}: the first row of its first sheet is empty: put the names there")
            seen = [_fitted(row, width) for row in _some(rows, _SEEN, content)]
        names = [name or "" for name in as_texts(list(header[:width])).to_pylist()]
        kinds = [_kind([row[place] for row in seen]) for place in range(width)]
        return cls(content, pa.schema(list(zip(names, kinds, strict=True))))

    def read(self, columns: tuple[str, ...], rows: int) -> Batches:
        """The named columns of the sheet, every cell as a text."""
        places, width = positions(self.schema.names, columns), len(self.schema)
        with _rows(self.content) as stored:
            _some(stored, 1, self.content)
            while some := [_fitted(row, width) for row in _some(stored, min(rows, _AT_ONCE), self.content)]:
                arrays = [as_texts([row[place] for row in some]) for place in places]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


@contextmanager
def _rows(content: Content) -> Iterator[Iterator[Row]]:
    """The rows of the first sheet of a workbook, each as long as it is stored."""
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise MissingDependency("Excel files need openpyxl: pip install 'sfumato[excel]'") from None
    with content.open() as file, ExitStack() as stack:

        def first_sheet() -> Iterator[Row]:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            stack.callback(book.close)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write wrong ones, and rows would be left out
            return iter(sheet.iter_rows(values_only=True))

        yield _quietly(first_sheet, f"{content.name}: not an Excel workbook (.xlsx) with a sheet that can be read")


def _some(rows: Iterator[Row], count: int, content: Content) -> list[Row]:
    """The next rows of a sheet."""
    return _quietly(lambda: list(islice(rows, count)), f"{content.name} cannot be read to its end: it is damaged")


def _quietly(action: Callable[[], Result], complaint: str) -> Result:
    """The result of openpyxl, whose errors and warnings may speak of cells: an error is replaced, a warning dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attempt(action, complaint, (Exception,))


def _fitted(row: Row, width: int) -> Row:
    """A row of a sheet with as many cells as the header."""
    return (*row[:width], *[None] * (width - len(row)))


def _kind(cells: list[Any]) -> pa.DataType:
    """The type of a column of a sheet that its first cells suggest, for a draft."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    if kinds and kinds <= {int, float}:
        return pa.float64()
    if kinds == {dt.datetime}:
        days = all(cell is None or cell.time() == dt.time() for cell in cells)
        return pa.date32() if days else pa.timestamp("s")
    return pa.string()
