"""Inside a process that is to be hurt: it tells every step that it passes and, at one of them, may hurt itself.

What is patched here is patched in that process alone, around the package's own functions, none of which is replaced.
"""

import errno
import os
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine.default import DefaultDialect

from faults import disk
from sfumato.fileformat import writer
from sfumato.ledger.account import Account
from sfumato.ledger.journal import Journal
from sfumato.ledger.reservation import Reservation
from sfumato.randomness.secret import Secret

MOMENT, FELT, DREW, ENDED, RESERVED = "the moment", "felt", "drew", "ended", "reserved"
PHASES = ("before reserve", "reserve to draw", "draw to rename", "rename to commit", "after")
_PASSED = {"entry reserve": 1, "entry draw": 2, "renamed": 3, "entry commit": 4}
SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT, "terminate": signal.SIGTERM}
INSIDE = ("full disk", "full ledger", "file limit", "sync fails", "rename fails", "entry fails", "entry doubtful")
HELD = ("rolled back", "rolled back and spent", "cut")  # the process waits at its step until it was done


@dataclass(frozen=True, slots=True)
class Plan:
    """One fault.

    at     : the step at which it begins, by number.
    delay  : seconds from there; 0 is at the step itself.
    amount : how much of it, in [0, 1): what a disk has left, how many entries are lost, whether it happens once.
    disk   : the small disk, for what fills it.
    """

    fault: str
    at: int
    delay: float = 0.0
    amount: float = 0.0
    disk: Path | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What a process told: the name of a step, perhaps a number or a text, and when; ``home``: not by a fork of it."""

    name: str
    detail: Any
    time: float
    home: bool = True


def phase(steps: Sequence[Step]) -> int:
    """How far a release had come, as an index of ``PHASES``: what is durable or visible, not what was about to be."""
    return max((_PASSED.get(step.name, 0) for step in steps), default=0)


class Teller:
    """Tells steps to the process that watches, and begins the fault at its step."""

    def __init__(self, line: Connection, plan: Plan | None) -> None:
        self._line, self._plan = line, plan
        self._lock, self._count, self._home = threading.RLock(), 0, os.getpid()
        self._drew: set[int] = set()
        self.writing = False

    def tell(self, name: str, detail: Any = None) -> None:
        """One step more; those of forks are told, but no fault begins there."""
        home = os.getpid() == self._home
        with self._lock:
            self._line.send(Step(name, detail, time.monotonic(), home))
            mine, self._count = self._count, self._count + 1
        if self._plan is not None and mine == self._plan.at and home:
            self._begin(self._plan)

    def drew(self) -> None:
        """Random words are at hand: told once by each process."""
        if os.getpid() not in self._drew:
            self._drew.add(os.getpid())
            self.tell(DREW)

    def felt(self) -> None:
        """A fault of this process's own was raised."""
        self._line.send(Step(FELT, None, time.monotonic()))

    def _begin(self, plan: Plan) -> None:
        self._line.send(Step(MOMENT, None, time.monotonic()))
        if plan.fault in INSIDE:
            _hurt(plan, self)
        elif plan.fault in SIGNALS and plan.delay == 0:
            os.kill(os.getpid(), SIGNALS[plan.fault])
        elif plan.fault in HELD:
            self._line.recv()
        elif plan.fault in ("pause", "pause and void") and plan.delay == 0:
            os.kill(os.getpid(), signal.SIGSTOP)


def around(
    owner: Any, name: str, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
) -> None:
    """Call something before a function, with its arguments, or after it, with what it returned."""
    original = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before(*args, **kwargs)
        found = original(*args, **kwargs)
        if after is not None:
            after(found)
        return found

    setattr(owner, name, watched)


def watch(teller: Teller) -> None:
    """Tell the steps of every release and answer of this process."""
    tell = teller.tell

    def told(name: str) -> Callable[..., None]:
        return lambda *_, **__: tell(name)

    def drawing(charge: Reservation) -> None:
        if not charge.drawn:
            tell("drawing")

    def writing(_journal: Journal, _dataset: str, kind: str, *_: Any) -> None:
        tell(f"writing {kind}")
        teller.writing = True

    def sealing(*_: Any) -> None:
        if teller.writing:
            tell("sealing")

    def written(entry: Any) -> None:
        teller.writing = False
        tell(f"entry {entry.kind}")

    around(Account, "reserve", told("reserving"), lambda made: tell(RESERVED, (made.number, made.hash)))
    around(Journal, "append", writing, written)
    around(DefaultDialect, "do_commit", sealing)
    around(Reservation, "draw", drawing)
    around(Secret, "words", None, lambda _: teller.drew())
    around(writer, "write_part", told("writing rows"), told("rows written"))
    around(writer, "finish", told("finishing"), told("finished"))
    around(os, "fsync", told("syncing"))
    around(Path, "rename", told("renaming"), told("renamed"))
    around(Reservation, "commit", told("committing"), told("committed"))


def _hurt(plan: Plan, teller: Teller) -> None:
    """Begin a fault of this process's own."""
    if plan.fault in ("full disk", "full ledger"):
        assert plan.disk is not None
        disk.fill(plan.disk, int(plan.amount * (1 << 13)))
    elif plan.fault == "file limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(plan.amount * (1 << 12)), resource.RLIM_INFINITY))
    elif plan.fault == "sync fails":
        _failing(os, "fsync", teller, once=plan.amount < 0.5)
    elif plan.fault == "rename fails":
        _failing(Path, "rename", teller, once=plan.amount < 0.5)
    else:
        _failing_entry(teller, doubtful=plan.fault == "entry doubtful")


def _failing(owner: Any, name: str, teller: Teller, *, once: bool) -> None:
    original, failed = getattr(owner, name), []

    def fails(*args: Any, **kwargs: Any) -> Any:
        if once and failed:
            return original(*args, **kwargs)
        failed.append(True)
        teller.felt()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    setattr(owner, name, fails)


def _failing_entry(teller: Teller, *, doubtful: bool) -> None:
    """The database says that the next entry failed; in doubtful cases after it was written."""
    original, failed = DefaultDialect.do_commit, []

    def fails(self: DefaultDialect, connection: Any) -> None:
        if failed or not teller.writing:
            original(self, connection)
            return
        failed.append(True)
        if doubtful:
            original(self, connection)
        teller.felt()
        raise (sqlite3 if self.name == "sqlite" else psycopg).OperationalError("disk I/O error, made on purpose")

    DefaultDialect.do_commit = fails
