"""A temporary file for bytes that come only once, such as standard input or the result of a query.

The file has no name: it is unlinked as soon as it is made. So nobody else can open it, and nothing of it is left,
however the process ends. It lies in the folder for temporary files (``TMPDIR``).
"""

import io
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from sfumato.errors import SchemaError

_BUFFER = 1 << 18  # bytes


class Spool:
    """Bytes that are written once, then opened from the start as often as needed, by several readers at a time."""

    def __init__(self) -> None:
        self._file: Any = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)

    @contextmanager
    def writing(self, what: str) -> Iterator[BinaryIO]:
        """The file to write ``what`` to; a full disk is refused in words."""
        try:
            yield self._file
            self._file.flush()
        except OSError as error:
            if error.errno is None:  # Arrow's, of what is written
                raise
            full = f"{what} cannot be kept in {tempfile.gettempdir()} ({error.strerror})"
            raise SchemaError(f"{full}: set TMPDIR to a folder with more room") from None

    @property
    def descriptor(self) -> int:
        """The number under which the system knows the file."""
        number: int = self._file.fileno()
        return number

    def open(self) -> BinaryIO:
        """The written bytes, from the start."""
        return io.BufferedReader(_Window(self), _BUFFER)


class _Window(io.RawIOBase):
    """A reader of a spool with a position of its own."""

    def __init__(self, spool: Spool) -> None:
        self._spool, self._position = spool, 0

    def readable(self) -> bool:
        """Always, as of a spool."""
        return True

    def seekable(self) -> bool:
        """Always, as of a spool."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes of the spool."""
        count = os.preadv(self._spool.descriptor, [buffer], self._position)
        self._position += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position of this reader of the spool alone."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: os.fstat(self._spool.descriptor).st_size}
        self._position = max(0, starts[whence] + offset)
        return self._position
