"""Standard output and error of a process of its own, which somebody may have closed, filled or stopped reading.

A descriptor that is closed at the start is taken, so that no file of ours gets its number: what a library prints there
must not land in a ledger. The first failure of a stream is kept, and whatever comes after it is dropped. The progress
line makes way for whatever is written.
"""

import contextlib
import errno
import io
import os
import sys
from typing import Any, TextIO

from sfumato.commands.console.progress import LINE


class OutputDescriptor(io.FileIO):
    """A descriptor to write to. ``needed``: whether a failure is an error; otherwise it is only kept, in ``lost``.

    One that is closed is never an error: whoever closed it wants to see nothing, and the exit code all the same.
    """

    def __init__(self, number: int, *, needed: bool) -> None:
        super().__init__(number, "wb", closefd=False)
        self.needed = needed
        self.lost: OSError | None = None

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        """Write, unless an earlier failure has made the descriptor useless."""
        if self.lost is None:
            try:
                with LINE.aside(data):
                    return super().write(data)
            except OSError as error:
                self.lost = error
                if self.needed and error.errno != errno.EBADF:
                    raise
        return memoryview(data).nbytes


def install() -> None:
    """Put descriptors in the place of this process's standard output and error."""
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):  # so that their use fails, as before
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, mode)  # gets the lowest number that is free: this one
    sys.stdout = _stream(1, sys.stdout, needed=True)
    sys.stderr = _stream(2, sys.stderr, needed=False)


def _stream(number: int, before: TextIO | None, *, needed: bool) -> TextIO:
    """A text stream on standard output or error, like the one before; letters that it cannot write are escaped."""
    descriptor = OutputDescriptor(number, needed=needed)
    at_once = bool(getattr(before, "write_through", False))
    return io.TextIOWrapper(
        descriptor if at_once else io.BufferedWriter(descriptor),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=bool(getattr(before, "line_buffering", False)),
        write_through=at_once,
    )


def printed() -> OutputDescriptor | None:
    """The descriptor of standard output, where one is installed."""
    layer = getattr(sys.stdout, "buffer", None)
    raw = getattr(layer, "raw", layer)
    return raw if isinstance(raw, OutputDescriptor) else None


def need_output(*, needed: bool) -> None:
    """Whether a failure of standard output is an error. What lasts is made whether or not anybody reads the output."""
    descriptor = printed()
    if descriptor is not None:
        descriptor.needed = needed


def lost_output() -> OSError | None:
    """The first failure of standard output, after which nothing more is printed; None without one."""
    descriptor = printed()
    return None if descriptor is None else descriptor.lost
