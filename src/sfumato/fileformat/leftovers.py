"""The hidden folders in which releases come into being: held while in use, found and removed when one was killed.

``.NAME.partial-...`` becomes the release NAME, ``.NAME.attempts-...`` beside it takes what tasks of Spark write, and
``.NAME.copy-...`` is a Spark DataFrame on disk, which holds raw rows. Each is of mode 0700, and is removed when its
process ends in any way that lets it; one that is killed outright leaves it.

Whoever makes such a folder holds a lock on it (flock, on the folder itself, so that there is no file to forget), which
forks that write parts inherit, and which the system drops with the last of them, however they end. So a folder without
a lock is one that nobody writes to: on this machine, or on any where the file system shares locks. Where it has none,
nobody can tell, and the folder is left alone.
"""

import os
import re
import secrets
import shutil
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from sfumato.errors import LeftoverWarning, ParameterError, ReleaseError

Kind: TypeAlias = Literal["partial", "attempts", "copy"]

_NAME = re.compile(r"\..+\.(partial|attempts|copy)-[0-9a-f]{16}", re.DOTALL)
_WITHIN: dict[Kind, re.Pattern[str]] = {  # all that we ever put into one
    "partial": re.compile(r"(data|projection|part-\d{6,})\.parquet|manifest\.json|README\.txt|registry\.yaml"),
    "attempts": re.compile(r"\d+-[0-9a-f]{16}\.parquet"),
    "copy": re.compile(r"rows"),
}


@dataclass(frozen=True, slots=True)
class Leftover:
    """A hidden folder of a release; ``copy`` holds raw rows, the others noisy numbers at most.

    ``use``: ``left`` by a process that is gone, ``held`` by one that lives, or ``unknown``.
    """

    path: Path
    kind: Kind
    files: int
    bytes: int
    use: Literal["left", "held", "unknown"]


@contextmanager
def hidden(path: Path, kind: Kind) -> Iterator[Path]:
    """A new folder beside a path, for this process and its forks alone; removed in the end, unless renamed by then."""
    place, handle = _named(path, kind), None  # named first, so that it is always removed
    try:
        place.mkdir(mode=0o700)
        while (handle := _held(place)) is None:  # somebody looked at it in this very instant
            shutil.rmtree(place, ignore_errors=True)
            place = _named(path, kind)
            place.mkdir(mode=0o700)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def found(folder: Path) -> list[Leftover]:
    """The hidden folders of releases in a folder that are surely ours, in order of their names; nothing is changed."""
    if not folder.is_dir():
        raise ParameterError(f"there is no folder {folder}")
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if _NAME.fullmatch(entry.name))
        looked = [_looked_at(folder / name) for name in names]
    except OSError as error:
        raise ReleaseError(f"{folder} cannot be read ({error.strerror or type(error).__name__})") from None
    return [one for one in looked if one is not None]


def remove(left: Leftover) -> bool:
    """Remove one that nobody holds; False if somebody does by now, or if it is no longer what it was."""
    handle = _held(left.path, surely=True)
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
    """One line about what killed releases left in a folder, if anything."""
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
    """The same as a warning."""
    told = note(folder)
    if told is not None:
        warnings.warn(told, LeftoverWarning, stacklevel=3)


def _named(path: Path, kind: Kind) -> Path:
    return path.parent / f"{'' if path.name.startswith('.') else '.'}{path.name}.{kind}-{secrets.token_hex(8)}"


def _looked_at(path: Path) -> Leftover | None:
    kind = cast("Kind", path.name.rpartition(".")[2].partition("-")[0])
    with suppress(FileNotFoundError):  # renamed, or removed, meanwhile
        if not _ours(path, kind):
            return None
        files = [Path(place) / name for place, _, names in os.walk(path) for name in names]
        size = sum(file.lstat().st_size for file in files)
        return Leftover(path, kind, len(files), size, _use(path))
    return None


def _ours(path: Path, kind: Kind) -> bool:
    """Whether a folder is this user's, nobody else's to write to, and holds nothing but what we put into such a one."""
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
        locked = _locked(handle)
        return "unknown" if locked is None else "left" if locked else "held"
    finally:
        os.close(handle)


def _held(place: Path, *, surely: bool = False) -> int | None:
    """A descriptor with the lock of a folder; None if another has it, or if the folder is not there any more.

    Where the file system has no locks: one without, or None if it must be sure.
    """
    try:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    locked = _locked(handle)
    if locked or (locked is None and not surely):
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), place.lstat()):
                return handle
    os.close(handle)
    return None


def _locked(handle: int) -> bool | None:
    """Take the lock of a folder until its descriptor is closed; False if another has it, None if there are no locks."""
    try:
        import fcntl  # noqa: PLC0415 - not on every system that can read a release

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True
