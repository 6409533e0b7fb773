"""The progress line of a command that takes longer than two seconds: on standard error, a terminal, and nowhere else.

It names the stage of the work and the time. Rows are counted on it only where their number is public: what protects the
number of records (``add-remove``), or the edges of a graph, shows stage and time alone.

A timer's signal draws it, not a thread: a release is made by forks where no other thread runs (``engines.processes``),
and a fork inherits no timer. The stage is that of the innermost module on the stack that ``STAGES`` has, so nothing
needs to announce one. Whatever is printed meanwhile goes through ``aside``, which takes the line away first.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

DELAY, EVERY = 2.0, 0.25  # seconds before the line is drawn, and between two drawings
_ERASE = "\r\x1b[K"
_BAR = 24
STAGES = {  # by module or package: the longest name counts
    "importlib": "loading",
    "sfumato.aggregates": "answering",
    "sfumato.answering": "answering",
    "sfumato.attacks": "attacking",
    "sfumato.audit": "auditing",
    "sfumato.comparing": "comparing",
    "sfumato.engines": "working through the rows",
    "sfumato.estimation": "computing estimates",
    "sfumato.fileformat.reader": "loading the release",
    "sfumato.fileformat.writer": "writing the release",
    "sfumato.files": "reading the table",
    "sfumato.intervals": "computing intervals",
    "sfumato.ledger": "at the ledger",
    "sfumato.marginals.fitting": "fitting the model",
    "sfumato.marginals.sampling": "drawing synthetic rows",
    "sfumato.mechanisms": "computing the release",
    "sfumato.mechanisms.schema_learning": "learning the schema",
    "sfumato.mechanisms.table.counting": "counting",
    "sfumato.planning": "predicting errors",
    "sfumato.posterior": "learning the prior",
    "sfumato.privacy": "computing the privacy loss",
    "sfumato.projection": "computing the projection",
    "sfumato.report": "drawing",
}


class CountedRows:
    """How much of the work is done, for the progress line: call it with the number of rows (or ``what``) just done."""

    def __init__(self, total: int | None, what: str = "rows") -> None:
        self._total, self._what, self.done = total, what, 0

    def __call__(self, rows: int) -> None:
        """Count rows."""
        self.done += rows

    def words(self, elapsed: float) -> str:
        """What is done after so many seconds; with what is left, as long as it is the first reading of the rows."""
        rate = self.done / max(elapsed, 1e-3)
        text = f"{self.done:,} {self._what}, {rate:,.0f} {self._what}/s"
        if not self._total or not 0 < self.done <= self._total:
            return text
        share, left = self.done / self._total, (self._total - self.done) / rate
        return f"[{'#' * int(_BAR * share):<{_BAR}}] {share:4.0%}  {text}, {left:.0f} s left"


class ProgressLine:
    """The progress line of this process: at most one, drawn while a command runs."""

    def __init__(self) -> None:
        self._title, self._start = "", 0.0
        self._counted: CountedRows | None = None
        self._drawn = self._kept = False  # whether it is on the screen; whether something else is being written there

    def count(self, total: int | None, what: str = "rows", *, public: bool = True) -> Callable[[int], None]:
        """What to call with every number of rows just done; they are shown only if their number is public."""
        self._counted = CountedRows(total, what) if public else None
        return self._counted or _ignore

    @contextmanager
    def around(self, title: str) -> Iterator[None]:
        """Draw the progress line while a command works, if there is a terminal to draw it on."""
        if not _drawable():
            yield
            return
        self._title, self._start, self._counted = title, time.monotonic(), None
        before = signal.signal(signal.SIGALRM, self._tick)
        try:
            signal.setitimer(signal.ITIMER_REAL, DELAY, EVERY)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            self._erase()

    @contextmanager
    def aside(self, data: Any) -> Iterator[None]:
        """Take the progress line away while bytes are written; it comes back below them, after a whole line."""
        self._kept = True
        self._erase()
        try:
            yield
        finally:
            self._kept = bytes(data[-1:]) not in (b"", b"\n")

    def text(self, elapsed: float, stage: str) -> str:
        """The progress line after so many seconds."""
        minutes, seconds = divmod(int(elapsed), 60)
        taken = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        counted = f"  {self._counted.words(elapsed)}" if self._counted is not None and self._counted.done else ""
        return f"{self._title}: {stage}, {taken}{counted}"

    def _tick(self, _number: int, frame: FrameType | None) -> None:
        if self._kept:
            return
        width = shutil.get_terminal_size().columns - 1
        self._drawn = True
        _write("\r" + self.text(time.monotonic() - self._start, stage_of(frame))[:width] + "\x1b[K")

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = False
            _write(_ERASE)


def stage_of(frame: FrameType | None) -> str:
    """The stage of the work that a progress line names, by the innermost module that stands for one."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        while name:
            if name in STAGES:
                return STAGES[name]
            name = name.rpartition(".")[0]
        frame = frame.f_back
    return "working"


def _drawable() -> bool:
    """Whether there is a terminal for a progress line, which can erase it again, and a timer."""
    dumb = os.environ.get("TERM", "dumb") == "dumb"
    return sys.stderr.isatty() and not dumb and hasattr(signal, "setitimer")


def _write(text: str) -> None:
    """Past all buffers: the signal may come while one of them is being written."""
    try:
        os.write(2, text.encode(errors="replace"))
    except OSError:  # the terminal has gone
        return


def _ignore(_rows: int) -> None:
    pass


LINE = ProgressLine()
