"""What strangers wrote, read with care: ordinary files of bounded size, and JSON that says everything once."""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any


class NotOrdinaryError(ValueError):
    """A file that is not read: the text says why, and whoever asked says which file it is."""


def check_ordinary(state: os.stat_result, most: int) -> None:
    """Refuse what is no ordinary file (a pipe, a device, a folder), or one of more bytes."""
    if not stat.S_ISREG(state.st_mode):
        raise NotOrdinaryError("it is not an ordinary file")
    if state.st_size > most:
        raise NotOrdinaryError(f"it has more than {_size(most)}")


def read(path: Path, most: int, *, follow: bool = True) -> bytes:
    """All of an ordinary file of at most ``most`` bytes; a pipe is not waited for, and no more is read.

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
    """JSON without a key twice in an object, NaN, or a number beyond doubles: ValueError where there is one."""
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
