"""Standard output and error of a process of its own, which somebody may have closed, filled or stopped reading.

A descriptor that is closed at the start is taken, so that no file of ours gets its number: what a library prints there
must not land in a ledger. The first failure of a stream is kept, and whatever comes after it is dropped.
"""

import contextlib
import io
import os
import sys
from typing import Any, TextIO


class Channel(io.FileIO):
    """A descriptor to write to. ``needed``: whether a failure is an error; otherwise it is only kept, in ``lost``."""

    def __init__(self, number: int, *, needed: bool) -> None:
        super().__init__(number, "wb", closefd=False)
        self.needed = needed
        self.lost: OSError | None = None

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        """Write, unless an earlier failure has made it useless."""
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
                if self.needed:
                    raise
        return memoryview(data).nbytes


def install() -> None:
    """Put channels in the place of this process's standard output and error."""
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):  # so that their use fails, as before
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, mode)  # gets the lowest number that is free: this one
    sys.stdout = _stream(1, sys.stdout, needed=True)
    sys.stderr = _stream(2, sys.stderr, needed=False)


def _stream(number: int, before: TextIO | None, *, needed: bool) -> TextIO:
    """A text stream like the one before; letters that it cannot write are escaped."""
    channel = Channel(number, needed=needed)
    at_once = bool(getattr(before, "write_through", False))
    return io.TextIOWrapper(
        channel if at_once else io.BufferedWriter(channel),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=bool(getattr(before, "line_buffering", False)),
        write_through=at_once,
    )


def printed() -> Channel | None:
    """The channel of standard output, where one is installed."""
    layer = getattr(sys.stdout, "buffer", None)
    raw = getattr(layer, "raw", layer)
    return raw if isinstance(raw, Channel) else None
