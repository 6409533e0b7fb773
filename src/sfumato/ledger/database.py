"""Where a ledger is kept: a SQLite file or a PostgreSQL database, its tables, and transactions.

Writers exclude each other for the length of a transaction, which is durable once it has ended: SQLite with
synchronous=EXTRA under BEGIN IMMEDIATE, PostgreSQL with synchronous_commit under a table lock. Every transaction has a
connection of its own, so threads and forks share none.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from sfumato.errors import LedgerError, MissingDependency

_PLACES = "a ledger is a SQLite file, or a URL like postgresql://user@host/database"
_OWNER_ONLY = 0o600

_tables = sa.MetaData()
HEADING = sa.Table(
    "sfumato_heading",
    _tables,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("key", sa.String, nullable=False),
    sa.Column("entries", sa.Integer, nullable=False),
    sa.Column("last", sa.String, nullable=False),
)
ENTRIES = sa.Table(
    "sfumato_entries",
    _tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String, nullable=False),
    sa.Column("dataset", sa.String, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("body", sa.String, nullable=False),
    sa.Column("hash", sa.String, nullable=False),
)
SNAPSHOTS = sa.Table(
    "sfumato_snapshots",
    _tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("hash", sa.String, nullable=False),
    sa.Column("body", sa.String, nullable=False),
    sa.Column("digest", sa.String, nullable=False),
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


_FIND = {
    "sqlite": "SELECT name FROM sqlite_master WHERE name IN ('sfumato_heading', 'sfumato_snapshots')",
    "postgresql": "SELECT name FROM unnest(ARRAY['sfumato_heading', 'sfumato_snapshots']) AS name "
    "WHERE to_regclass(name) IS NOT NULL",
}


class LedgerDatabase:
    """The database at a place: a path, or a URL such as postgresql://user@host/database.

    ``wait``: seconds for other writers.
    """

    def __init__(self, where: str, wait: int) -> None:
        self.where, self.wait = where, wait

    @property
    def name(self) -> str:
        """The place of the database, without whatever a URL may hold of passwords."""
        return _database(self.where) if self._url else self.where

    @property
    def _url(self) -> bool:
        return "://" in self.where

    def found(self, connection: sa.Connection) -> set[str]:
        """Which of the tables of a ledger that not every one has are there."""
        return {row[0] for row in connection.exec_driver_sql(_FIND[connection.dialect.name])}

    def check_made(self, connection: sa.Connection) -> None:
        """Refuse a database without a ledger, and a file whose end was cut off."""
        if HEADING.name not in self.found(connection):
            raise LedgerError(f"{self.name} holds no ledger: make one with `sfumato ledger init`")
        if connection.dialect.name == "sqlite":
            self._check_whole(connection)

    def _check_whole(self, connection: sa.Connection) -> None:
        """Refuse a file that ends within a page: SQLite takes what is missing of its last page for zeros.

        Somebody who has read a table holds a lock, so that no other writer changes the size of the file.
        """
        page = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        if Path(self.where).stat().st_size % page:
            raise LedgerError(
                f"{self.name} is damaged or was changed: the end of its file is missing; a copy of it is good only if "
                "nothing was released since"
            )

    def make(self, connection: sa.Connection) -> None:
        """Make the tables of a ledger, that of snapshots left out, and triggers that refuse changes of its entries."""
        SNAPSHOTS.drop(connection, checkfirst=True)  # of a ledger whose other tables were dropped
        _tables.create_all(connection, tables=[HEADING, ENTRIES])
        for verb in ("UPDATE", "DELETE"):
            for statement in _APPEND_ONLY[connection.dialect.name]:
                connection.exec_driver_sql(statement.replace("{verb}", verb))

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A database transaction in which all that is read is of one moment."""
        engine = self._engine()
        if engine.dialect.name == "postgresql":  # one snapshot for all that is read
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._plain_errors(), engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, *, new: bool = False) -> Iterator[sa.Connection]:
        """A database transaction that excludes every other writer from before its first read."""
        engine = self._engine(new=new).execution_options(writing=True)
        if engine.dialect.name == "postgresql":  # what is read after the lock is what others have committed
            engine = engine.execution_options(isolation_level="READ COMMITTED")
        with self._plain_errors(), engine.connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET LOCAL synchronous_commit TO on")
                connection.exec_driver_sql(f"SET LOCAL lock_timeout TO '{self.wait}s'")
                if new:
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7377660217)")
                else:
                    self.check_made(connection)
                    connection.exec_driver_sql(f"LOCK TABLE {HEADING.name} IN EXCLUSIVE MODE")
            yield connection

    def _engine(self, *, new: bool = False) -> sa.Engine:
        return self._maker if new else self._opener

    @cached_property
    def _maker(self) -> sa.Engine:
        return self._made(new=True)

    @cached_property
    def _opener(self) -> sa.Engine:
        return self._made(new=False)

    def _made(self, *, new: bool) -> sa.Engine:
        """An engine without a pool: it keeps no connection that a thread or a fork could share."""
        if not self._url:
            engine = sa.create_engine("sqlite://", creator=lambda: self._connect_file(new), poolclass=NullPool)
            sa.event.listen(engine, "begin", _begin)
            return engine
        if not self.where.startswith("postgresql"):
            raise LedgerError(_PLACES)
        try:
            url = sa.engine.make_url(self.where).set(drivername="postgresql+psycopg")
            return sa.create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": self.wait})
        except (sa.exc.ArgumentError, ValueError):
            raise LedgerError(_PLACES) from None
        except ImportError:
            raise MissingDependency("a ledger on PostgreSQL needs psycopg: pip install 'sfumato[postgres]'") from None

    def _connect_file(self, new: bool) -> sqlite3.Connection:
        path = Path(self.where)
        if path.exists() and not path.is_file():
            raise LedgerError(f"{self.name} is not an ordinary file, so no ledger can be in it")
        if not new and not path.is_file():
            raise LedgerError(f"there is no ledger at {self.name}: make one with `sfumato ledger init`")
        if new and not path.exists():
            with suppress(OSError):  # SQLite gives the files beside it the same mode, and says what is wrong
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNER_ONLY))
        uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={'rwc' if new else 'rw'}"
        connection = sqlite3.connect(uri, uri=True, timeout=self.wait, isolation_level=None)
        connection.execute("PRAGMA synchronous = EXTRA")
        return connection

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """One line for whatever the database says, without its SQL."""
        try:
            yield
        except UnicodeDecodeError:  # of the database's own words on a damaged table
            raise LedgerError(f"the ledger {self.name} cannot be used (it is damaged)") from None
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
