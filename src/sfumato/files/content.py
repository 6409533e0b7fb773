"""The bytes of a file: opened from the start as often as needed, unpacked, and in UTF-8; and what their first ones say.

Guarantee: what is said of a file here depends on its name, its first bytes and its header, which are public, never on a
cell. Bytes that are no text in the encoding become U+FFFD, each by itself, and raise nothing.
"""

import codecs
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sfumato.errors import SchemaError

CODECS = {".gz": "gzip", ".zst": "zstd"}  # by suffix
START = 1 << 16  # bytes that a file is judged by
_BUFFER = 1 << 20  # bytes
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1\x15": "Parquet",
    b"ARROW1\0\0": "Arrow",
    b"\xff\xff\xff\xff": "Arrow",
    b"FEA1\0": "Feather version 1",
    b"PK\x03\x04": "Excel or zip",
    b"\xd0\xcf\x11\xe0": "old Excel",
    b"BZh91AY&SY": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"SQLite format 3\0": "SQLite",
}


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file, each time from the start; ``name`` is what errors call it."""

    name: str
    open: Callable[[], BinaryIO]

    @classmethod
    def of(cls, path: Path) -> "Content":
        """The bytes of a file at a path, as they are."""
        return cls(str(path), lambda: path.open("rb"))

    def unpacked(self, codec: str | None) -> "Content":
        """The bytes without compression: ``gzip``, ``zstd``, or None for bytes as they are."""
        if codec is None:
            return self
        if self.magic() != codec:
            raise SchemaError(
                f"{self.name}: the content is not {codec}: rename the file to end without {_suffix_of(codec)}"
            )
        packed = self.open
        return Content(
            self.name,
            lambda: io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(packed(), "r"), codec), _BUFFER),
        )

    def in_utf8(self, encoding: str | None) -> "Content":
        """The text of these bytes in UTF-8; None: they are in UTF-8, or taken for it."""
        if encoding is None or encoding.startswith("utf-8"):
            return self
        written = self.open
        return Content(self.name, lambda: io.BufferedReader(_Recoded(written(), encoding), _BUFFER))

    def start(self, size: int = START) -> bytes:
        """The first bytes."""
        with self.open() as file:
            return file.read(size)

    def magic(self) -> str | None:
        """The kind of file that the first bytes state, with which no header begins; None: none that is known."""
        start = self.start()
        return next((kind for mark, kind in _MAGIC.items() if start.startswith(mark)), None)


def _suffix_of(codec: str) -> str:
    return next(suffix for suffix, name in CODECS.items() if name == codec)


class _Recoded(io.RawIOBase):
    """A file's text in UTF-8, decoded from another encoding as it is read."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file, self._left = file, memoryview(b"")
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def readable(self) -> bool:
        """Always, as of any content."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes of the content in UTF-8."""
        while not self._left:
            more = self._file.read(_BUFFER)
            self._left = memoryview(self._decoder.decode(more, final=not more).encode(errors="replace"))
            if not more:
                break
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def close(self) -> None:
        """Close the content that is read."""
        self._file.close()
        super().close()
