"""A disk of a few hundred kilobytes that can be filled: a tmpfs that only this process and its children see."""

import ctypes
import os
from pathlib import Path

_NEW_MOUNTS, _PRIVATE, _RECURSIVE, _DETACH = 0x20000, 1 << 18, 1 << 14, 2
_FILLER = "filler"


def small_disk(folder: Path, size: int = 1 << 20) -> bool:
    """Mount a new small disk there; False where that is not allowed. It goes with the last process that sees it."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "unshare") or library.unshare(_NEW_MOUNTS) != 0:
        return False
    if library.mount(b"none", b"/", None, _PRIVATE | _RECURSIVE, None) != 0:
        return False
    folder.mkdir(exist_ok=True)
    return bool(library.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={size}".encode()) == 0)


def give_back(folder: Path) -> None:
    """Take the disk away again, whoever may still look at it."""
    ctypes.CDLL(None).umount2(bytes(folder), _DETACH)


def fill(disk: Path, left: int) -> None:
    """Fill a disk but for so many bytes."""
    free = os.statvfs(disk)
    wanted = free.f_bavail * free.f_frsize - left
    handle = os.open(disk / _FILLER, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        if wanted > 0:
            os.posix_fallocate(handle, 0, wanted)
    finally:
        os.close(handle)


def free(disk: Path) -> None:
    """Undo ``fill``."""
    (disk / _FILLER).unlink(missing_ok=True)
