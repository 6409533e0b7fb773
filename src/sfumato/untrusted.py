"""What strangers wrote, read and shown with care: ordinary files of bounded size, JSON that says all once, plain text.

A manifest, a ledger and the names in a table may come from anybody. ``read`` and ``loads`` take no more of a file than
was said, and JSON in one meaning only. A terminal obeys what it is sent, so what is shown of such texts goes through
``line`` and ``lines`` for terminals and files of text, and ``marked`` for pages: then nothing in them moves a cursor,
breaks a line or turns the letters around it.
"""

import json
import math
import os
import stat
import unicodedata
from pathlib import Path
from typing import Any

LONGEST = 2000  # letters of a line that are shown
_JOINING = "\u200c\u200d"  # writing of several languages needs them, and they move nothing


class NotOrdinaryError(ValueError):
    """A file that is not read: the text says why, and whoever asked says which file it is."""


def check_ordinary(state: os.stat_result, most: int) -> None:
    """Refuse an untrusted file that is not ordinary (a pipe, a device, a folder), or has more bytes."""
    if not stat.S_ISREG(state.st_mode):
        raise NotOrdinaryError("it is not an ordinary file")
    if state.st_size > most:
        raise NotOrdinaryError(f"it has more than {_size(most)}")


def read(path: Path, most: int, *, follow: bool = True) -> bytes:
    """Read a stranger's file, ordinary and of at most ``most`` bytes; a pipe is not waited for, and no more is read.

    ``follow``: also where the name is a link. OSError where it cannot be opened, NotOrdinaryError where it is refused.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    with open(handle, "rb") as file:  # noqa: PTH123 - a handle, not a path
        check_ordinary(os.fstat(handle), most)
        found = file.read(most + 1)
    if len(found) > most:  # it grew, or is of a kind that states no size
        raise NotOrdinaryError(f"it has more than {_size(most)}")
    return found


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count} bytes"


class SaidTwiceError(ValueError):
    """JSON in which an object has a key more than once: readers differ in which of the two they believe."""


def loads(text: str | bytes) -> Any:
    """A stranger's JSON, without a key twice in an object, NaN, or a number beyond doubles: otherwise ValueError."""
    return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise SaidTwiceError("a key is there more than once in an object")
    return found


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large for a double")
    return number


def _odd(letter: str) -> bool:
    """Whether an untrusted letter is not plain: a control, direction, line separator, half a letter, or unassigned."""
    return not letter.isprintable() and letter not in _JOINING and unicodedata.category(letter) != "Zs"


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"


def line(text: object, most: int = LONGEST) -> str:
    """An untrusted text as one line of plain letters, odd ones as in JSON and TOML, cut if longer than ``most``."""
    cut = str(text)
    cut = cut if len(cut) <= most else cut[: most - 3] + "..."
    return cut if cut.isprintable() else "".join(_escape(letter) if _odd(letter) else letter for letter in cut)


def lines(text: str) -> str:
    """Each line of our own text made plain, however long: where strangers' texts are in it, none adds a line."""
    return "\n".join(line(each, max(len(each), 1)) for each in text.split("\n"))


def marked(text: object) -> str:
    """An untrusted text for a page, maybe of several lines: a mark (U+FFFD) for odd letters but tabs and line ends."""
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join("\ufffd" if _odd(letter) and letter not in "\n\t" else letter for letter in whole)
