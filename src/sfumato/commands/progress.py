"""A progress line for people: what is done, rate and time left on a terminal, nothing anywhere else."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO


class ProgressLine:
    """Call it with the number of rows (or ``what``) just done; it redraws itself at most ten times a second."""

    def __init__(self, total: int | None, stream: TextIO | None = None, *, what: str = "rows") -> None:
        self._total, self._stream, self._what = total, stream or sys.stderr, what
        self._shown = self._stream.isatty()
        self._start = self._last = time.monotonic()
        self._done = 0

    def __call__(self, rows: int) -> None:
        """Count rows, and redraw if it is time."""
        self._done += rows
        now = time.monotonic()
        if self._shown and now - self._last > 0.1:
            self._last = now
            self._stream.write("\r" + self.line(now - self._start) + "\x1b[K")
            self._stream.flush()

    def line(self, elapsed: float) -> str:
        """What is shown after so many seconds."""
        rate = self._done / elapsed if elapsed > 0 else 0.0
        text = f"{self._done:,} {self._what}, {rate:,.0f} {self._what}/s"
        if self._total and rate > 0:
            share, left = self._done / self._total, (self._total - self._done) / rate
            bar = "#" * int(24 * share)
            return f"[{bar:<24}] {share:4.0%}  {text}, {left:.0f} s left"
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the line away, to write another."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
