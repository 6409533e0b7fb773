"""An append-only, hash-chained list of entries in an SQL database: a SQLite file, or PostgreSQL by URL.

Every entry holds the hash of the one before it, and a heading holds how many there are and the last hash; ``verify``
recomputes them all, so edits, gaps and reordering show. Whoever can write to the database can also cut off its end and
mend the heading, or make a whole new chain: keep a hash elsewhere (releases carry that of their entry) and ask for it.

Writers exclude each other for the length of a transaction, which is durable once ``append`` returns: SQLite with
synchronous=EXTRA under BEGIN IMMEDIATE, PostgreSQL with synchronous_commit under a table lock.
"""

import datetime as dt
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from sfumato.errors import LedgerError, MissingDependency

VERSION = 1
_PLACES = "a ledger is a SQLite file, or a URL like postgresql://user@host/database"

_tables = sa.MetaData()
_HEADING = sa.Table(
    "sfumato_heading",
    _tables,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("key", sa.String, nullable=False),
    sa.Column("entries", sa.Integer, nullable=False),
    sa.Column("last", sa.String, nullable=False),
)
_ENTRIES = sa.Table(
    "sfumato_entries",
    _tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String, nullable=False),
    sa.Column("dataset", sa.String, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("body", sa.String, nullable=False),
    sa.Column("hash", sa.String, nullable=False),
)
_REFUSE = "entries of a ledger are never changed"
_ON_SQLITE = (
    f"CREATE TRIGGER sfumato_no_{{verb}} BEFORE {{verb}} ON sfumato_entries BEGIN SELECT RAISE(ABORT, '{_REFUSE}'); END"
)
_FUNCTION = (
    "CREATE OR REPLACE FUNCTION sfumato_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_REFUSE}'; END $$"
)
_ON_POSTGRESQL = (
    "CREATE TRIGGER sfumato_no_{verb} BEFORE {verb} ON sfumato_entries FOR EACH ROW EXECUTE FUNCTION sfumato_refuse()"
)
_APPEND_ONLY = {"sqlite": [_ON_SQLITE], "postgresql": [_FUNCTION, _ON_POSTGRESQL]}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal. ``body`` is JSON."""

    number: int
    at: str
    dataset: str
    kind: str
    body: dict[str, Any]
    hash: str


class Journal:
    """The entries at a place: a path, or a URL such as postgresql://user@host/database.

    ``wait``: seconds for other writers.
    """

    def __init__(self, where: str | os.PathLike[str], wait: int = 60) -> None:
        self._where, self._wait = os.fspath(where), wait

    @property
    def name(self) -> str:
        """The place of the journal's database, without whatever a URL may hold of passwords."""
        return _database(self._where) if self._url else self._where

    @property
    def _url(self) -> bool:
        return "://" in self._where

    def create(self) -> None:
        """Make the tables where there are none; a ledger that exists is left as it is."""
        with self._writing(new=True) as connection:
            if self._exists(connection):
                self._heading(connection)
                return
            _tables.create_all(connection)
            for verb in ("UPDATE", "DELETE"):
                for statement in _APPEND_ONLY[connection.dialect.name]:
                    connection.exec_driver_sql(statement.replace("{verb}", verb))
            key = secrets.token_hex(32)
            heading = {"one": 1, "version": VERSION, "key": key, "entries": 0, "last": _first_hash(key)}
            connection.execute(_HEADING.insert(), heading)

    @cached_property
    def key(self) -> bytes:
        """The key of the fingerprints in this journal."""
        with self._reading() as connection:
            return bytes.fromhex(self._heading(connection).key)

    def fingerprint(self, kind: str, text: str) -> str:
        """A keyed hash: whoever has no access to the ledger cannot guess what it stands for."""
        return hmac.new(self.key, f"{kind}\0{text}".encode(), hashlib.sha256).hexdigest()

    def entries(self) -> list[Entry]:
        """All entries in order; a body that is no JSON object is refused."""
        with self._reading() as connection:
            self._heading(connection)
            return self._entries(connection)

    def append(self, dataset: str, kind: str, body: dict[str, Any], check: Callable[[list[Entry]], None]) -> Entry:
        """One entry more, durable on return; ``check`` sees all entries so far, under the lock, and may refuse."""
        with self._writing() as connection:
            heading = self._heading(connection)
            entries = self._entries(connection)
            if len(entries) != heading.entries or (entries and entries[-1].hash != heading.last):
                raise self._damaged("its heading and its entries do not agree")
            check(entries)
            now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
            entry = _sealed(heading.last, heading.entries + 1, now, (dataset, kind), body)
            connection.execute(
                _ENTRIES.insert(),
                {
                    "number": entry.number,
                    "at": entry.at,
                    "dataset": dataset,
                    "kind": kind,
                    "body": _canonical(body),
                    "hash": entry.hash,
                },
            )
            connection.execute(_HEADING.update().values(entries=entry.number, last=entry.hash))
        return entry

    def verify(self, expected: str | None = None) -> tuple[int, str]:
        """Recompute every hash; the number of entries and the last hash. Raises LedgerError at the first fault.

        ``expected`` is a hash that was noted earlier: some entry must have it, or the ledger lost its end since.
        """
        with self._reading() as connection:
            heading, entries = self._heading(connection), self._entries(connection)
            if connection.dialect.name == "sqlite":
                told = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
                if told != "ok":
                    raise self._damaged("SQLite's own check of the file fails")
        last = _first_hash(heading.key)
        for number, entry in enumerate(entries, 1):
            if entry.number != number:
                raise self._damaged(f"entry {number} is missing")
            if _sealed(last, entry.number, entry.at, (entry.dataset, entry.kind), entry.body).hash != entry.hash:
                raise self._damaged(f"entry {entry.number} is not what was written, or not in its place")
            last = entry.hash
        if (len(entries), last) != (heading.entries, heading.last):
            raise self._damaged(f"it had {heading.entries} entries, and {len(entries)} are there")
        if expected is not None and expected not in (last, *(entry.hash for entry in entries)):
            raise self._damaged("it has no entry with the hash that was expected, so it lost some, or is another one")
        return len(entries), last

    def _exists(self, connection: sa.Connection) -> bool:
        return bool(sa.inspect(connection).has_table(_HEADING.name))

    def _heading(self, connection: sa.Connection) -> Any:
        if not self._exists(connection):
            raise LedgerError(f"{self.name} holds no ledger: make one with `sfumato ledger init`")
        version = connection.execute(sa.select(_HEADING.c.version)).scalar()
        if version != VERSION:
            raise LedgerError(
                f"{self.name} is a ledger of format {version}, and this version of sfumato reads format {VERSION}: "
                "use the version that wrote it; nothing was changed"
            )
        return connection.execute(sa.select(_HEADING)).one()

    def _entries(self, connection: sa.Connection) -> list[Entry]:
        rows = connection.execute(sa.select(_ENTRIES).order_by(_ENTRIES.c.number))
        try:
            return [Entry(r.number, r.at, r.dataset, r.kind, _object(r.body), r.hash) for r in rows]
        except ValueError:
            raise self._damaged("an entry is no JSON object") from None

    def _damaged(self, how: str) -> LedgerError:
        return LedgerError(
            f"{self.name} is damaged or was changed: {how}; a copy of it is good only if nothing was released since"
        )

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        engine = self._engine()
        if engine.dialect.name == "postgresql":  # one snapshot for all that is read
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._plain_errors(), engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _writing(self, *, new: bool = False) -> Iterator[sa.Connection]:
        """A database transaction that excludes every other writer from before its first read."""
        engine = self._engine(new=new).execution_options(writing=True)
        if engine.dialect.name == "postgresql":  # what is read after the lock is what others have committed
            engine = engine.execution_options(isolation_level="READ COMMITTED")
        with self._plain_errors(), engine.connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET LOCAL synchronous_commit TO on")
                connection.exec_driver_sql(f"SET LOCAL lock_timeout TO '{self._wait}s'")
                if new:
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7377660217)")
                else:
                    self._heading(connection)
                    connection.exec_driver_sql(f"LOCK TABLE {_HEADING.name} IN EXCLUSIVE MODE")
            yield connection

    def _engine(self, *, new: bool = False) -> sa.Engine:
        if not self._url:
            engine = sa.create_engine("sqlite://", creator=lambda: self._connect_file(new), poolclass=NullPool)
            sa.event.listen(engine, "begin", _begin)
            return engine
        if not self._where.startswith("postgresql"):
            raise LedgerError(_PLACES)
        try:
            url = sa.engine.make_url(self._where).set(drivername="postgresql+psycopg")
            return sa.create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": self._wait})
        except (sa.exc.ArgumentError, ValueError):
            raise LedgerError(_PLACES) from None
        except ImportError:
            raise MissingDependency("a ledger on PostgreSQL needs psycopg: pip install 'sfumato[postgres]'") from None

    def _connect_file(self, new: bool) -> sqlite3.Connection:
        path = Path(self._where)
        if path.exists() and not path.is_file():
            raise LedgerError(f"{self.name} is not an ordinary file, so no ledger can be in it")
        if not new and not path.is_file():
            raise LedgerError(f"there is no ledger at {self.name}: make one with `sfumato ledger init`")
        uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={'rwc' if new else 'rw'}"
        connection = sqlite3.connect(uri, uri=True, timeout=self._wait, isolation_level=None)
        connection.execute("PRAGMA synchronous = EXTRA")
        return connection

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """One line for whatever the database says, without its SQL."""
        try:
            yield
        except (sa.exc.DBAPIError, sqlite3.Error) as error:
            told = " ".join(str(getattr(error, "orig", error)).split())[:200]
            raise LedgerError(f"the ledger {self.name} cannot be used ({told})") from None


def _database(url: str) -> str:
    try:
        return f"database {sa.engine.make_url(url).database!r} on PostgreSQL"
    except (sa.exc.ArgumentError, ValueError):
        return "database on PostgreSQL"


def _begin(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _canonical(body: dict[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _object(text: object) -> dict[str, Any]:
    found = json.loads(text) if isinstance(text, str) else None  # a page of zeros has neither text nor number
    if not isinstance(found, dict) or _canonical(found) != text:
        raise ValueError
    return found


def _sealed(last: str, number: int, at: str, what: tuple[str, str], body: dict[str, Any]) -> Entry:
    sealed = json.dumps([last, number, at, *what, _canonical(body)])
    return Entry(number, at, what[0], what[1], body, hashlib.sha256(sealed.encode()).hexdigest())


def _first_hash(key: str) -> str:
    return hashlib.sha256(f"sfumato ledger {VERSION} {key}".encode()).hexdigest()
