"""Where the data of a release come from: what can be known of a file without reading it whole, for a ledger.

A file is recognised under another path, as a hard link, as a copy, and within a folder that is read as one table. A
copy is recognised by its size and by its first and last bytes, which hold the footer of a Parquet file. Not recognised:
tables in memory or from a pipe, copies in another format, packed or with rows changed, and of a folder the files after
the first ``_FILES`` in order of their names.

Privacy: what is in the file goes into a digest that leaves this module only to become a keyed hash in the ledger. It
depends on cells, and no noise protects it: whoever can use the ledger can test a guess of these bytes.
"""

import hashlib
import os
import stat
from pathlib import Path

from sfumato.errors import SchemaError
from sfumato.files.parquet_files import files_of
from sfumato.ledger.sources import Origin

_END = 1 << 16  # bytes at each end of a file
_FILES = 256


def origin_of(path: Path) -> Origin:
    """Where the table in a file or a folder of files comes from; no more than its path if nothing is there."""
    whole = path.resolve()
    place = f"file {whole}"
    if not whole.is_dir():
        marks, links, linked = _marks(whole)
        return Origin(place, marks, links, linked)
    try:
        files = files_of(whole)[:_FILES]
    except (SchemaError, OSError):
        return Origin(place)
    found = [((f"file {file.resolve()}",), _marks(file)) for file in files]
    return Origin(
        place,
        tuple(mark for own, (marks, _, _) in found for mark in (*own, *marks)),
        tuple(mark for _, (_, links, _) in found for mark in links),
        tuple(mark for _, (_, _, linked) in found for mark in linked),
    )


def _marks(path: Path) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Of one file: what is in it, its inode, and the inode again if it has other names."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            return (), (), ()
        link = (f"inode {about.st_dev} {about.st_ino}",)
        content = (f"content {about.st_size} {_ends(path, about.st_size)}",) if about.st_size else ()
    except OSError:  # whoever opens it will say so
        return (), (), ()
    return content, link, link if about.st_nlink > 1 else ()


def _ends(path: Path, size: int) -> str:
    """A digest of the first and the last bytes of a file."""
    with path.open("rb") as file:
        first = file.read(_END)
        file.seek(max(len(first), size - _END), os.SEEK_SET)
        return hashlib.sha256(first + file.read(_END)).hexdigest()
