"""How the text of a CSV file is written: what separates its cells, and in which encoding its letters are.

A file that looks as if it was written otherwise is refused, with the option that would read it. Guarantee: that depends
on the first bytes and the header, which are public, never on a cell.
"""

import codecs
import csv
from dataclasses import dataclass

from sfumato import check
from sfumato.errors import ParameterError, SchemaError
from sfumato.files.content import Content

_NAMED = {"tab": "\t", "\\t": "\t"}
_USUAL = (",", ";", "\t", "|")
_MARKS = {  # of byte order
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# in which one cell may change how the next is read, or which are no encodings of texts
_UNSUITED = ("utf_7", "hz", "idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What was said of the text of a CSV file. ``None``: by its suffix, and UTF-8."""

    separator: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None:
            object.__setattr__(self, "separator", _separator(self.separator))
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _encoding(self.encoding))

    @property
    def stated(self) -> bool:
        """Whether anything was said of the text: only a CSV file has a separator or an encoding."""
        return self.separator is not None or self.encoding is not None

    def text(self, content: Content, separator: str) -> tuple[Content, str]:
        """A CSV file's text in UTF-8 and its separator, ``separator`` if none was stated.

        Raises SchemaError if the file looks as if written otherwise, and nothing stated says that it is not.
        """
        start = content.start()
        self._check_bytes(content, start)
        text = content.in_utf8(self.encoding)
        header = _header(text.start())
        utf8 = self.encoding is None or self.encoding.startswith("utf-8")
        if header is None or (not utf8 and "\ufffd" in header):
            raise SchemaError(
                f"{content.name}: the header is not {self.encoding or 'UTF-8'} text: name the encoding of the file, "
                f"such as {_advice('encoding', 'cp1252')}"
            )
        if self.separator is None or (self.separator != "," and self.separator not in header):
            _check_separator(content.name, header, separator)
        return text, self.separator or separator

    def _check_bytes(self, content: Content, start: bytes) -> None:
        kind = content.magic()
        marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
        if kind is not None and marked is None:
            raise SchemaError(f"{content.name}: the content is {kind}, not CSV text: {_remedy(kind)}")
        wide = b"\0" in next(iter(start.splitlines()), b"")  # of the header alone
        if self.encoding is None and (marked or wide):
            found = marked or ("utf-16-be" if start.startswith(b"\0") else "utf-16-le")
            raise SchemaError(
                f"{content.name}: the text looks like {found}, not UTF-8: use {_advice('encoding', found)}"
            )
        if self.encoding is not None and self.encoding.startswith(("utf-16", "utf-32")) and start and not wide:
            raise SchemaError(
                f"{content.name}: the text is not {self.encoding}: leave the encoding out, or name another"
            )


def _separator(text: str) -> str:
    sign = _NAMED.get(text, text) if isinstance(text, str) else ""
    if len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in '"\r\n\0':
        raise check.fail("separator", text, "one ASCII character such as ';' or '|', or tab; no letter, digit or quote")
    return sign


def _encoding(name: str) -> str:
    try:
        found = codecs.lookup(name).name
        "a".encode(found)  # some codecs are none of texts
    except (LookupError, TypeError, ValueError):
        raise check.fail("encoding", name, "one that Python knows, such as latin-1, cp1252 or utf-16") from None
    if found.replace("-", "_") in _UNSUITED or found.startswith("iso2022"):
        raise ParameterError(f"encoding={name!r}: one cell in it may change how the next is read: convert to UTF-8")
    return found


def _header(start: bytes) -> str | None:
    """The first line of a CSV file that is not blank; None if it is not in UTF-8."""
    lines = (line for line in start.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True) if line.strip())
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(next(lines, b"")).strip("\r\n")
    except UnicodeDecodeError:
        return None


def _check_separator(name: str, header: str, separator: str) -> None:
    """Refuse a header of one column that another separator would cut into several."""
    if header.count('"') % 2:  # a name that goes on in the next line
        return
    try:
        names = next(csv.reader([header], delimiter=separator), [])
    except csv.Error:  # a name longer than Python's limit
        return
    other = max(_USUAL, key=header.count)
    if len(names) == 1 and header.count(other):
        raise SchemaError(
            f"{name}: the header looks separated by {_shown(other)}, not {_shown(separator)}: use "
            f"{_advice('separator', other)}, or --separator ',' if there is one column"
        )


def _shown(separator: str) -> str:
    return "tab" if separator == "\t" else f"'{separator}'"


def _advice(option: str, value: str) -> str:
    """The option that would read a file, on the command line and in Python."""
    named = "tab" if value == "\t" else value
    typed = _shown(value) if option == "separator" else named
    return f"--{option} {typed} (in Python TableFile(path, {option}={named!r}))"


def _remedy(kind: str) -> str:
    suffixes = {
        "gzip": ".csv.gz",
        "zstd": ".csv.zst",
        "Parquet": ".parquet",
        "Arrow": ".arrow",
        "Excel or zip": ".xlsx",
    }
    return f"rename the file to end in {suffixes[kind]}" if kind in suffixes else "convert it to CSV or Parquet"
