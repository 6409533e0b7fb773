"""The file of a stream: a SQLite database of mode 0600 that holds exact sums, so the owner's secret, and measurements.

Everything that a period adds is stored in one transaction, with synchronous=EXTRA, under a lock that is taken before
anything is read: a period is there whole or not at all, no two processes append at once, and a place that has a
measurement never gets another (primary key). What is no longer needed of exact sums is overwritten (secure_delete).

The file may have been damaged or made by a stranger: its tables must be written exactly as here (no views, no
triggers), every row has a digest that is checked when it is read, and whatever SQLite complains of is one line.
"""

import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np

from sfumato.errors import ParameterError, StreamError
from sfumato.fileformat import writer
from sfumato.numerics.types import Floats, Integers
from sfumato.streams.description import StreamDescription
from sfumato.streams.factorisation import Node

_TABLES = {
    "heading": "CREATE TABLE heading (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL, mark BLOB NOT NULL)",
    "periods": "CREATE TABLE periods (number INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, rows INTEGER, "
    "at TEXT NOT NULL, origin TEXT, sources TEXT NOT NULL, mark BLOB NOT NULL)",
    "sums": "CREATE TABLE sums (place INTEGER PRIMARY KEY, body BLOB NOT NULL, mark BLOB NOT NULL)",
    "measurements": "CREATE TABLE measurements (place INTEGER PRIMARY KEY, body BLOB NOT NULL, decoded BLOB NOT NULL, "
    "mark BLOB NOT NULL)",
}
_PERIODS = "SELECT number, label, rows, at, origin, sources, mark FROM periods"
_MEASURED = "SELECT body, decoded, mark FROM measurements WHERE place = ?"
_LEVELS = 64  # places of a period
_LARGEST = 1 << 28  # bytes of anything in it
_WAIT = 30.0  # seconds, for a reader
_BUSY = "another process is using it: one appends at a time"
_COPY = "put a copy back only if nothing was appended since it was made"


@dataclass(frozen=True, slots=True)
class Period:
    """A period of a stream, as its file has it.

    rows    : None where their number is protected.
    origin  : what a ledger is still to be told.
    sources : fingerprints of the files it was read from; they depend on cells, so they are secret as exact sums are.
    """

    number: int
    label: str
    rows: int | None
    at: str
    origin: str | None = None
    sources: tuple[str, ...] = ()


class Transaction:
    """A stream's file while it is read or appended to."""

    __slots__ = ("_connection", "_name", "description")

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection, self._name = connection, name
        text, mark = self._one("SELECT body, mark FROM heading WHERE one = 1") or ("", b"")
        if not isinstance(text, str) or mark != _digest("heading", text.encode()):
            raise self.damaged()
        try:
            self.description = StreamDescription.from_text(text)
        except ParameterError as error:
            raise StreamError(f"{name} cannot be used as a stream: {error}") from None

    def _one(self, query: str, *values: object) -> tuple[object, ...] | None:
        found: tuple[object, ...] | None = self._connection.execute(query, values).fetchone()
        return found

    @property
    def size(self) -> int:
        """How many numbers a measurement of the stream has."""
        return self.description.measuring.statistic.deviations.size

    # ---- periods ----

    def last(self) -> Period | None:
        """The newest period of the stream."""
        return self._period("ORDER BY number DESC LIMIT 1")

    def labelled(self, label: str) -> Period | None:
        """The period of the stream with this label."""
        return self._period("WHERE label = ?", label)

    def numbered(self, number: int) -> Period | None:
        """A period of the stream by its number."""
        return self._period("WHERE number = ?", number)

    def untold(self) -> list[Period]:
        """The periods of the stream that its ledger was not told of."""
        return [self._read(row) for row in self._connection.execute(f"{_PERIODS} WHERE origin IS NOT NULL")]

    def periods(self, until: int | None = None) -> Iterator[Period]:
        """The periods of the stream in order, up to one; every one is checked, and that none is missing."""
        which = "" if until is None else f"WHERE number <= {until:d}"
        found = self._connection.execute(f"{_PERIODS} {which} ORDER BY number")
        number = 0
        for number, row in enumerate(found, start=1):
            period = self._read(row)
            if period.number != number:
                raise self.damaged()
            yield period
        if until is not None and number != until:
            raise self.damaged()

    def read_from(self, sources: Sequence[str]) -> Period | None:
        """The first period of the stream that was read from one of these files, by their fingerprints."""
        sought = frozenset(sources)
        return next((period for period in self.periods() if sought.intersection(period.sources)), None)

    def _period(self, which: str, *values: object) -> Period | None:
        found = self._one(f"{_PERIODS} {which}", *values)
        return None if found is None else self._read(found)

    def _read(self, row: Sequence[object]) -> Period:
        """A period from a row of the stream's file: types and digest are checked."""
        number, label, rows, at, origin, sources, mark = row
        sound = isinstance(number, int) and all(isinstance(text, str) for text in (label, at, sources))
        if not (sound and isinstance(rows, int | None) and isinstance(origin, str | None)):
            raise self.damaged()
        found = Period(number, label, rows, at, origin, tuple(str(sources).split()))  # type: ignore[arg-type]
        if mark != _period_mark(found):
            raise self.damaged()
        return found

    def rows_until(self, number: int) -> int:
        """The number of rows of the stream up to a period, where it is public."""
        return sum(period.rows or 0 for period in self.periods(number))

    # ---- numbers ----

    def sums(self, nodes: Sequence[Node]) -> tuple[Integers, Integers]:
        """Exact sums of a stream, secret: high and low halves, a row each."""
        bodies = [self._blobs("SELECT body, x'', mark FROM sums WHERE place = ?", node, 16)[0] for node in nodes]
        halves = np.frombuffer(b"".join(bodies), "<i8").reshape(len(nodes), 2, self.size).astype(np.int64)
        return halves[:, 0], halves[:, 1]

    def measurements(self, nodes: Sequence[Node]) -> Integers:
        """Noisy measurements of a stream, a row each."""
        found = b"".join(self._blobs(_MEASURED, node, 8)[0] for node in nodes)
        return np.frombuffer(found, "<i8").reshape(len(nodes), self.size).astype(np.int64)

    def decoded(self, nodes: Sequence[Node]) -> Floats:
        """What intervals of a stream's tree were decoded to, a row each."""
        found = [self._blobs(_MEASURED, node, 8)[1] for node in nodes]
        if any(len(body) != 8 * self.size for body in found):
            raise self.damaged()
        return np.frombuffer(b"".join(found), "<f8").reshape(len(nodes), self.size).astype(float)

    def _blobs(self, query: str, node: Node, width: int) -> tuple[bytes, bytes]:
        """Numbers of a place in the stream's file, as they were written: their length and their digest are checked."""
        body, beside, mark = self._one(query, _place(node)) or (b"", b"", b"")
        sound = isinstance(body, bytes) and isinstance(beside, bytes) and len(body) == width * self.size
        if not sound or mark != _mark(node, body + beside):  # type: ignore[operator]
            raise self.damaged()
        return body, beside  # type: ignore[return-value]

    def fingerprint(self, number: int) -> str:
        """What tells the draw for a period of the stream from any other: a digest of its first measurement."""
        return hashlib.blake2b(b"".join(self._blobs(_MEASURED, Node(number), 8)), digest_size=16).hexdigest()

    def damaged(self) -> StreamError:
        """The one error for a stream's file that does not hold what it must."""
        return StreamError(f"{self._name} is damaged: it does not hold what a stream of its periods does; {_COPY}")

    # ---- what is appended ----

    def add_period(self, period: Period) -> None:
        """Enter a period of the stream; its label must be new."""
        sources = " ".join(period.sources)
        row = period.number, period.label, period.rows, period.at, period.origin, sources, _period_mark(period)
        self._connection.execute("INSERT INTO periods VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def add_sums(self, node: Node, high: Integers, low: Integers) -> None:
        """Keep exact sums of the stream, which are secret."""
        body = high.astype("<i8").tobytes() + low.astype("<i8").tobytes()
        self._connection.execute("INSERT INTO sums VALUES (?, ?, ?)", (_place(node), body, _mark(node, body)))

    def drop_sums(self, node: Node) -> None:
        """Forget exact sums of the stream that nothing needs any more."""
        self._connection.execute("DELETE FROM sums WHERE place = ?", (_place(node),))

    def add_measurement(self, node: Node, noisy: Integers, decoded: Floats | None) -> None:
        """Keep a measurement of the stream; there is never a second one in its place."""
        body, known = noisy.astype("<i8").tobytes(), b"" if decoded is None else decoded.astype("<f8").tobytes()
        row = _place(node), body, known, _mark(node, body + known)
        self._connection.execute("INSERT INTO measurements VALUES (?, ?, ?, ?)", row)

    def told(self, number: int) -> None:
        """Note that the ledger of the stream was told of a period."""
        found = self.numbered(number)
        if found is not None:
            mark = _period_mark(replace(found, origin=None))
            self._connection.execute("UPDATE periods SET origin = NULL, mark = ? WHERE number = ?", (mark, number))

    def describe(self, description: StreamDescription) -> None:
        """Change what the stream says of itself: its horizon, and what was charged for it."""
        self._connection.execute("UPDATE heading SET body = ?, mark = ? WHERE one = 1", _heading(description))
        self.description = description


def _place(node: Node) -> int:
    return node.period * _LEVELS + node.level


def _mark(node: Node, body: bytes) -> bytes:
    return _digest(str(_place(node)), body)


def _period_mark(period: Period) -> bytes:
    told = [period.number, period.label, period.rows, period.at, period.origin, *period.sources]
    return _digest("period", json.dumps(told).encode())


def _digest(what: str, body: bytes) -> bytes:
    """What damage to a row of a stream's file is known by."""
    return hashlib.blake2b(body, digest_size=16, key=what.encode()).digest()


def _heading(description: StreamDescription) -> tuple[str, bytes]:
    """What a stream says of itself, as its file has it, and the digest of that."""
    text = json.dumps(description.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text, _digest("heading", text.encode())


@dataclass(frozen=True, slots=True)
class StreamStore:
    """The file of a stream by its path; every transaction has a connection of its own."""

    path: Path

    def make(self, description: StreamDescription) -> None:
        """Make the file of a new stream, for its owner alone; it appears whole or not at all."""
        self.check_free()
        with self._plain_errors(), writer.hidden(self.path, "stream") as folder:
            partial = folder / "new"
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
            connection = _connected(partial, 0.0)
            with _closing(connection):
                connection.execute("BEGIN IMMEDIATE")
                for statement in _TABLES.values():
                    connection.execute(statement)
                connection.execute("INSERT INTO heading VALUES (1, ?, ?)", _heading(description))
                connection.execute("COMMIT")
            os.link(partial, self.path, follow_symlinks=False)
            _sync(self.path.parent)

    def check_free(self) -> None:
        """Refuse a place for a stream's file where something is, or where no file can be made."""
        if self.path.exists() or self.path.is_symlink():
            raise StreamError(f"{self.path} already exists: choose another name. Nothing was written")
        if not self.path.parent.is_dir():
            raise StreamError(f"there is no folder {self.path.parent} to put the stream in; nothing was written")

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction in which all that is read of the stream is of one moment."""
        with self._transaction("BEGIN", _WAIT) as found:
            yield found

    @contextmanager
    def writing(self, *, wait: bool = False) -> Iterator[Transaction]:
        """A transaction that excludes every other appender to the stream, from before its first read to its end.

        Another appender is told at once, unless it is to ``wait``. Readers are waited for at the end, so that what was
        summed up of a period is not lost.
        """
        with self._transaction("BEGIN IMMEDIATE", _WAIT if wait else 0.0) as found:
            yield found

    @contextmanager
    def _transaction(self, begin: str, wait: float) -> Iterator[Transaction]:
        self._check_ordinary()
        with self._plain_errors():
            connection = _connected(self.path, wait)
            with _closing(connection):
                connection.execute(begin)
                connection.execute(f"PRAGMA busy_timeout = {int(1000 * _WAIT)}")
                self._check_form(connection)
                try:
                    yield Transaction(connection, str(self.path))
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise

    def _check_ordinary(self) -> None:
        try:
            found = self.path.lstat()
        except OSError:
            raise StreamError(f"there is no stream at {self.path}: make one with `sfumato stream init`") from None
        if not stat.S_ISREG(found.st_mode):
            raise StreamError(f"{self.path} is not an ordinary file, so no stream can be in it")

    def _check_form(self, connection: sqlite3.Connection) -> None:
        """Refuse a file with other tables than a stream has, and one whose end was cut off within a page."""
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 9").fetchall()
        if dict(found) != _TABLES:
            raise StreamError(f"{self.path} is not the file of a stream")
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if self.path.stat().st_size != page * pages:
            raise StreamError(f"{self.path} is damaged: the end of its file is missing; {_COPY}")

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """One line for whatever SQLite says of the stream's file."""
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise StreamError(f"{self.path} is locked: {_BUSY}; try again when it has ended") from None
            told = " ".join(str(error).split())[:200]
            copy = f"; {_COPY}" if "malformed" in told or "not a database" in told else ""
            raise StreamError(f"the stream {self.path} cannot be used ({told}){copy}") from None
        except (UnicodeError, OverflowError):
            raise StreamError(f"the stream {self.path} cannot be used (it is damaged); {_COPY}") from None
        except FileExistsError:
            raise StreamError(f"{self.path} already exists: choose another name") from None


@contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    finally:
        connection.close()


def _connected(path: Path, wait: float) -> sqlite3.Connection:
    """A connection to a stream's file that believes nothing it says of functions, and overwrites what is deleted."""
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
    for pragma in ("synchronous = EXTRA", "trusted_schema = OFF", "secure_delete = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
