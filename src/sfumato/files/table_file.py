"""Where a table is read from, and how: a file with its separator and encoding, or standard input."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.errors import SchemaError
from sfumato.files.content import Content
from sfumato.files.dialect import Dialect
from sfumato.files.spool import Spool

_PIECE = 1 << 20  # bytes
STANDARD_INPUT = "standard input"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table, for ``release``, ``release_to``, ``price`` and ``Session``: read when they need it.

    ``separator``: what separates the cells of a CSV file, one character or ``tab`` (default: tab in .tsv files, comma
    in others). ``encoding``: of a CSV file, such as ``latin-1``, ``cp1252`` or ``utf-16`` (default UTF-8).
    """

    path: str | Path
    separator: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        dialect = Dialect(self.separator, self.encoding)
        object.__setattr__(self, "separator", dialect.separator)
        object.__setattr__(self, "encoding", dialect.encoding)

    @property
    def dialect(self) -> Dialect:
        """How the text of the table's file is written."""
        return Dialect(self.separator, self.encoding)


@dataclass(slots=True, eq=False)
class StandardInput:
    """A table on standard input. It is read when it is first needed, whole, to a spool, for tables are read again."""

    dialect: Dialect
    _spool: Spool | None = field(default=None, repr=False)

    def content(self) -> Content:
        """The bytes of standard input."""
        if self._spool is None:
            self._spool = _spooled()
        return Content(STANDARD_INPUT, self._spool.open)


def _spooled() -> Spool:
    source = getattr(sys.stdin, "buffer", None)
    if source is None:
        raise SchemaError("there is no standard input to read a table from")
    spool = Spool()
    with spool.writing(STANDARD_INPUT) as file:
        while piece := source.read(_PIECE):
            file.write(piece)
    return spool
