"""The data folder: what is in it, and no way out of it.

A name from a page is one name, not a path: what it stands for is resolved, links and all, and must lie in the folder.
Hidden files and links that lead out are neither listed nor opened. What is read whole is an ordinary file of bounded
size: others may have left anything here.
"""

import csv
import io
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sfumato import untrusted
from sfumato.errors import SchemaError, SfumatoError
from sfumato.files.content import CODECS, Content
from sfumato.projection.space import Space
from sfumato.tables.schema import Schema

_TEXTS = tuple(text + packed for text in (".csv", ".tsv") for packed in ("", *CODECS))
TABLES = (*_TEXTS, ".parquet", ".arrow", ".feather", ".ipc", ".xlsx")
LARGEST_SCHEMA, LARGEST_MANIFEST = 4 << 20, 16 << 20  # bytes
MOST_COLUMNS = 10_000  # of a CSV file: each takes several kB while it is opened, however short the rows are
_HEADER = 1 << 23  # bytes in which a header ends
_KEYS = re.compile(
    r"""#.*|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|[\w \t+-]+"""
)  # comments, texts, names: leaves a key its dots
_DEEPEST = 4  # dots of a key
_NEW = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class NotHereError(SfumatoError, LookupError):
    """There is no such file in the folder, or none that may be opened."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the data folder as a list shows it."""

    name: str
    size: int
    has_schema: bool


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with data, and the one that releases go to (the same, unless told otherwise). Both are real paths."""

    data: Path
    out: Path

    @classmethod
    def of(cls, data: str | Path, out: str | Path | None = None) -> "Folder":
        """The folders at these places, which must exist."""
        return cls(_real(data), _real(data if out is None else out))

    def tables(self) -> list[Item]:
        """The tables in the folder, by name."""
        found = [(name, path) for name, path in _listed(self.data) if path.is_file() and _is_table(name)]
        return [Item(name, path.stat().st_size, self.has_schema(name)) for name, path in found]

    def releases(self) -> list[str]:
        """The names of the releases that were made, by name."""
        return [name for name, path in _listed(self.out) if path.is_dir() and (path / "manifest.json").is_file()]

    def unnamed(self) -> int:
        """How many files are left out since their names are no text, which a page could not show or send back."""
        return sum(not _is_text(path.name) for folder in {self.data, self.out} for path in folder.iterdir())

    def named(self, suffix: str) -> list[str]:
        """The names of the files in the folder that end so: ``.toml``, ``.space`` or ``.stream``."""
        return [name for name, path in _listed(self.data) if path.is_file() and name.endswith(suffix)]

    def file(self, name: str, suffix: str) -> Path:
        """The path of a file in the folder that ends so."""
        path = _inside(self.data, name)
        if not path.is_file() or not name.endswith(suffix):
            raise NotHereError(f"there is no such {suffix.removeprefix('.')} in the folder")
        return path

    def new_file(self, name: str, suffix: str) -> Path:
        """The path that a new file of the folder would have; the suffix is put behind a name without it."""
        whole = name if name.endswith(suffix) else name + suffix
        if not _NEW.fullmatch(whole) or whole == suffix:
            raise NotHereError("a name has letters, digits, '.', '_' and '-', and does not begin with a '.'")
        if (self.data / whole).exists() or (self.data / whole).is_symlink():
            raise NotHereError(f"{whole} is there already: choose another name")
        return self.data / whole

    def table(self, name: str) -> Path:
        """The path of a table in the folder."""
        path = _inside(self.data, name)
        if not path.is_file() or not _is_table(name):
            raise NotHereError("there is no such table in the folder")
        if name.lower().endswith(_TEXTS) and not _narrow(path):
            raise SchemaError(f"{name} has more than {MOST_COLUMNS:,} columns: too many here, use the command line")
        return path

    def release(self, name: str) -> Path:
        """The path of a release in the folder."""
        path = _inside(self.out, name)
        if not path.is_dir():
            raise NotHereError("there is no such release in the folder")
        if (path / "manifest.json").exists():
            _ordinary((path / "manifest.json").stat(), LARGEST_MANIFEST)
        return path

    def has_schema(self, name: str) -> bool:
        """Whether a schema lies beside a table."""
        try:
            self.schema(name)
        except NotHereError:
            return False
        return True

    def schema(self, name: str) -> Path:
        """The path of the schema of a table; ``read_schema`` reads it."""
        _check(name)
        path = _inside(self.data, schema_name(name))
        _ordinary(path.stat(), LARGEST_SCHEMA)
        return path

    def write_schema(self, name: str, text: str) -> None:
        """Write the schema of a table beside it, whole or not at all; a link in its place is replaced, not followed."""
        place = self.schema_place(name)
        hidden = self.data / f".{place.name}.{secrets.token_hex(8)}"
        try:
            hidden.write_text(text, encoding="utf-8", newline="\n")
            hidden.replace(place)
        finally:
            hidden.unlink(missing_ok=True)

    def schema_place(self, name: str) -> Path:
        """Where the schema of a table is written; refused where something else is there."""
        beside = self.table(name).parent == self.data
        if not beside:
            raise NotHereError("the table is a link into another folder: its schema is kept there, not here")
        place = self.data / schema_name(name)
        if not _replaceable(place):
            raise SchemaError(f"{place.name} beside the table is not a schema and stays as it is: rename one of them")
        return place

    def new_release(self, name: str) -> Path:
        """The path that a release of a new name would have in the folder."""
        if not _NEW.fullmatch(name):
            raise NotHereError("a release's name has letters, digits, '.', '_' and '-', and does not begin with a '.'")
        path = self.out / name
        if path.exists() or path.is_symlink():
            raise NotHereError(f"{name} is there already: choose another name")
        return path


def file_state(path: Path) -> tuple[int, ...]:
    """The identity of a file in the folder: changes if another file takes its place, or if it is written to."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def schema_name(table: str) -> str:
    """The name of the schema file that belongs to a table in the folder."""
    return f"{Path(table).stem}.toml"


def schema_text(path: Path) -> str:
    """The text of a schema file in the folder; it may have changed since it was found: a pipe is not waited for."""
    try:
        return untrusted.read(path, LARGEST_SCHEMA, follow=False).decode().replace("\r\n", "\n")
    except untrusted.NotOrdinaryError:
        raise _not_ordinary(LARGEST_SCHEMA) from None
    except (OSError, UnicodeError):
        raise SchemaError("it cannot be read as UTF-8 text") from None


def read_schema(path: Path) -> Schema:
    """The schema in a file of the folder; errors name the file."""
    try:
        return parse_schema(schema_text(path))
    except SchemaError as error:
        raise SchemaError(f"{path.name}: {error}") from None


def read_space(path: Path) -> Space:
    """The shared space in a file of the folder; errors name the file, and not where it is."""
    try:
        return Space.read(path)
    except SchemaError as error:
        raise SchemaError(str(error).replace(str(path), path.name)) from None


def parse_schema(text: str) -> Schema:
    """The schema in a text that a stranger may have put into the folder.

    The time for a key of TOML grows with the square of its parts: no schema has many.
    """
    chained = "." * _DEEPEST in _KEYS.sub("", text)
    if len(text) > LARGEST_SCHEMA or chained or any(sign * 3 in text for sign in "\"'"):
        raise SchemaError("not the text of a schema: it is too long, or its keys are, or it has texts of several lines")
    return Schema.from_toml(text)


def _replaceable(place: Path) -> bool:
    """Whether a file in the folder may be replaced without loss: a schema or a draft, empty, a link, or not there."""
    if place.is_symlink() or not place.exists():
        return True
    try:
        text = schema_text(place)
        return not text.strip() or "[[columns]]" in text.splitlines() or bool(parse_schema(text))
    except (NotHereError, SchemaError):
        return False


def _ordinary(state: os.stat_result, largest: int) -> None:
    """Refuse what is no ordinary file of the folder, or one of more bytes."""
    try:
        untrusted.check_ordinary(state, largest)
    except untrusted.NotOrdinaryError:
        raise _not_ordinary(largest) from None


def _not_ordinary(largest: int) -> NotHereError:
    return NotHereError(f"a file is not an ordinary one of at most {largest >> 20} MiB: it is not read")


def _is_table(name: str) -> bool:
    return name.lower().endswith(TABLES)


def _narrow(path: Path) -> bool:
    """Whether the header of a CSV file in the folder has a number of columns that can be opened."""
    start = Content.of(path).unpacked(CODECS.get(path.suffix.lower())).start(_HEADER)
    separator = "\t" if ".tsv" in path.name.lower()[-8:] else ","
    head = csv.reader(io.StringIO(start.decode("latin-1"), newline=""), delimiter=separator)
    try:
        return len(next((names for names in head if names), ())) <= MOST_COLUMNS
    except csv.Error:  # a name without an end
        return False


def _real(place: str | Path) -> Path:
    path = Path(place)
    if not path.is_dir():
        raise NotHereError(f"there is no folder {place}")
    found = path.resolve(strict=True)
    if not _is_text(str(found)):
        raise NotHereError("the folder's name, or that of one above it, is not UTF-8 text: rename it")
    return found


def _check(name: str) -> None:
    """Refuse what is no plain name of a file in the folder."""
    signs = ("\0", "/", "\\")
    if not name or name.startswith(".") or any(sign in name for sign in signs) or not _is_text(name):
        raise NotHereError("there is no such file in the folder")


def _is_text(name: str) -> bool:
    """Whether the bytes of a file's name are UTF-8; Python keeps others as surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _inside(folder: Path, name: str) -> Path:
    """The real path of a name, which must lie in the data folder."""
    _check(name)
    try:
        path = (folder / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise NotHereError("there is no such file in the folder") from None
    if not path.is_relative_to(folder) or any(part.startswith(".") for part in path.relative_to(folder).parts):
        raise NotHereError("there is no such file in the folder")
    return path


def _listed(folder: Path) -> Iterator[tuple[str, Path]]:
    for name in sorted(path.name for path in folder.iterdir()):
        try:
            yield name, _inside(folder, name)
        except NotHereError:
            continue
