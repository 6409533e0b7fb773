"""What is done to a process, or to its ledger, from outside."""

import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg

from faults.server import Server
from faults.steps import SIGNALS, Plan
from sfumato.errors import LedgerError
from sfumato.ledger.ledger import Ledger

_PAUSE = 0.3  # seconds, at most
_PATIENCE = 10.0  # for a process to be stopped


def signalled(pid: int, plan: Plan) -> float | None:
    """Send a signal after the plan's delay, unless the process sends it itself; when, or None if it was gone."""
    time.sleep(plan.delay)
    now = time.monotonic()
    if plan.delay > 0:
        with suppress(ProcessLookupError):
            os.kill(pid, SIGNALS[plan.fault])
    return now


def paused(pid: int, plan: Plan, place: str) -> float | None:
    """Stop a process for a while; meanwhile somebody may take it for dead, and void what it reserved."""
    time.sleep(plan.delay)
    now = time.monotonic()
    try:
        if plan.delay > 0:
            os.kill(pid, signal.SIGSTOP)
        if not _stopped(pid):
            return None
        if plan.fault == "pause and void":
            _void_all(place)
        time.sleep(_PAUSE * plan.amount)
    except ProcessLookupError:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return now


def _stopped(pid: int) -> bool:
    """Wait until a process is stopped; False if it ended instead."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state in "TZX":
            return state == "T"
        time.sleep(0.001)
    return False


def _void_all(place: str) -> None:
    ledger = Ledger(place, wait=1)
    with suppress(LedgerError):  # the one that was stopped may hold the lock
        for spent in ledger.datasets()[0].releases:
            if spent.state == "reserved":
                ledger.void(spent.number, "taken for dead")


def helper_killed(pid: int, plan: Plan) -> float | None:
    """Kill a fork of a process, once it has one."""
    deadline = time.monotonic() + 1 + plan.delay
    while time.monotonic() < deadline:
        try:
            forks = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        if forks:
            time.sleep(plan.delay)
            now = time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(int(forks[int(plan.amount * len(forks))]), signal.SIGKILL)
                return now
            return None
        time.sleep(0.001)
    return None


def server_hurt(server: Server, plan: Plan) -> float:
    """Cut the connections of a server, or crash it."""
    time.sleep(plan.delay)
    now = time.monotonic()
    if plan.fault == "connection lost":
        server.cut_off()
    else:
        server.crash()
    return now


def robbed(place: str, plan: Plan, least: int) -> float | None:
    """Take the end of a ledger away, but for ``least`` entries; None if it has no more than these, or is locked."""
    if plan.fault == "cut":
        return _cut(Path(place), plan.amount)
    entries = Ledger(place).journal.entries()
    if len(entries) <= least:
        return None
    keep = least + int(plan.amount * (len(entries) - least))
    if "://" in place:
        with psycopg.connect(place) as connection:
            connection.execute("SET LOCAL lock_timeout TO '1s'")
            connection.execute("ALTER TABLE sfumato_entries DISABLE TRIGGER ALL")
            _forget(connection, keep, entries[keep - 1].hash)
            connection.execute("ALTER TABLE sfumato_entries ENABLE TRIGGER ALL")
    else:
        _restore(Path(place), keep, entries[keep - 1].hash, in_place=plan.amount * 100 % 1 < 0.5)
    if plan.fault == "rolled back and spent":
        ledger = Ledger(place)
        for entry in entries[keep:]:
            if entry.kind == "reserve":
                ledger.journal.append(entry.dataset, "reserve", entry.body, lambda _: None)
    return time.monotonic()


def _forget(connection: Any, keep: int, last: str) -> None:
    """What an older copy would hold."""
    connection.execute(f"DELETE FROM sfumato_entries WHERE number > {keep}")  # noqa: S608 - our own number
    connection.execute(f"UPDATE sfumato_heading SET entries = {keep}, last = '{last}'")  # noqa: S608 - a hash


def _restore(place: Path, keep: int, last: str, *, in_place: bool) -> None:
    """Put an older copy in the place of a ledger: under its name, or over its content."""
    copy = place.with_name("copy.db")
    shutil.copyfile(place, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        _forget(connection, keep, last)
        for _, sql in triggers:
            connection.execute(sql)
    if in_place:
        shutil.copyfile(copy, place)
        copy.unlink()
    else:
        copy.replace(place)


def _cut(place: Path, amount: float) -> float:
    """Cut the end off the log beside a SQLite file, if there is one, or off the file itself."""
    beside = [place.with_name(place.name + end) for end in ("-wal", "-journal")]
    file = next((path for path in beside if path.exists() and path.stat().st_size), place)
    os.truncate(file, int(amount * file.stat().st_size))
    return time.monotonic()
