"""What releases leave that were killed: their hidden folders, found by name, told from those in use, and removed."""

import os
import re
import shutil
import stat
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from sfumato.errors import LeftoverWarning, ParameterError, ReleaseError
from sfumato.fileformat.writer import HiddenKind, held, hidden_in, locked

_WITHIN: dict[HiddenKind, re.Pattern[str]] = {  # all that we ever put into one
    "partial": re.compile(
        r"(data|projection|model|counts|part-\d{6,})\.parquet|manifest\.json|README\.txt|registry\.yaml"
    ),
    "attempts": re.compile(r"\d+-[0-9a-f]{16}\.parquet"),
    "copy": re.compile(r"rows"),
    "stream": re.compile(r"new(-journal)?"),
}


@dataclass(frozen=True, slots=True)
class Leftover:
    """A hidden folder; ``copy`` holds raw rows, ``stream`` a stream without periods, the others noisy numbers at most.

    ``use``: ``left`` by a process that is gone, ``held`` by one that lives, or ``unknown``.
    """

    path: Path
    kind: HiddenKind
    files: int
    bytes: int
    use: Literal["left", "held", "unknown"]


def found(folder: Path) -> list[Leftover]:
    """Hidden folders that killed releases left in a folder, if surely ours, in order of names; nothing is changed."""
    if not folder.is_dir():
        raise ParameterError(f"there is no folder {folder}")
    try:
        looked = [_looked_at(path) for path in hidden_in(folder)]
    except OSError as error:
        raise ReleaseError(f"{folder} cannot be read ({error.strerror or type(error).__name__})") from None
    return [one for one in looked if one is not None]


def remove(left: Leftover) -> bool:
    """Remove a leftover hidden folder that nobody holds; False if it is held by now, or no longer what it was."""
    handle = held(left.path, surely=True)
    if handle is None:
        return False
    try:
        if not _ours(left.path, left.kind):
            return False
        shutil.rmtree(left.path)
    except OSError as error:
        raise ReleaseError(f"{left.path} could not be removed ({error.strerror or type(error).__name__})") from None
    finally:
        os.close(handle)
    return True


def note(folder: Path) -> str | None:
    """One line about the hidden folders that killed releases left in a folder, if any."""
    try:
        left = [one for one in found(folder) if one.use == "left"]
    except (ParameterError, ReleaseError):
        return None
    if not left:
        return None
    several, raw = len(left) > 1, any(one.kind == "copy" for one in left)
    return (
        f"{len(left)} hidden folder{'s' if several else ''} of releases that were killed "
        f"{'are' if several else 'is'} left in {folder}{', with raw rows' if raw else ''}: "
        "`sfumato clean` shows and removes them"
    )


def warn(folder: Path) -> None:
    """A LeftoverWarning about the hidden folders that killed releases left in a folder, if any."""
    told = note(folder)
    if told is not None:
        warnings.warn(told, LeftoverWarning, stacklevel=3)


def _looked_at(path: Path) -> Leftover | None:
    kind = cast("HiddenKind", path.name.rpartition(".")[2].partition("-")[0])
    with suppress(FileNotFoundError):  # renamed, or removed, meanwhile
        if not _ours(path, kind):
            return None
        files = [Path(place) / name for place, _, names in os.walk(path) for name in names]
        size = sum(file.lstat().st_size for file in files)
        return Leftover(path, kind, len(files), size, _use(path))
    return None


def _ours(path: Path, kind: HiddenKind) -> bool:
    """Whether a leftover folder is this user's, writable by nobody else, and holds only what releases put into one."""
    facts = path.lstat()
    mode = stat.S_IMODE(facts.st_mode) & 0o777
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        return False
    if mode != 0o700 and (mode, kind) != (0o755, "partial"):  # which it has for an instant before it is renamed
        return False
    with os.scandir(path) as entries:
        return all(
            _WITHIN[kind].fullmatch(entry.name)
            and (entry.is_dir if kind == "copy" else entry.is_file)(follow_symlinks=False)
            for entry in entries
        )


def _use(path: Path) -> Literal["left", "held", "unknown"]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        free = locked(handle)
        return "unknown" if free is None else "left" if free else "held"
    finally:
        os.close(handle)
