"""An append-only, hash-chained list of entries in an SQL database: a SQLite file, or PostgreSQL by URL.

Every entry holds the hash of the one before it, and a heading holds how many there are and the last hash. Whatever is
read is checked against that chain, so edits, gaps and reordering show, and a damaged ledger is not spent from. Whoever
can write to the database can also cut off its end and mend the heading, or make a whole new chain: keep a hash
elsewhere (releases carry that of their entry) and ask for it.

A journal remembers the state up to the last entry it has seen (``folding``), and reads and checks what came after. A
new process continues from a snapshot: the state up to some entry, under a digest that is keyed and names the entry's
hash. One that does not agree with its digest or its entry is damage. ``verify`` reads every entry.

Writers exclude each other for the length of a transaction, which is durable once ``append`` returns: SQLite with
synchronous=EXTRA under BEGIN IMMEDIATE, PostgreSQL with synchronous_commit under a table lock.
"""

import datetime as dt
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sfumato.errors import LedgerError
from sfumato.ledger import folding
from sfumato.ledger.database import ENTRIES, HEADING, SNAPSHOTS, LedgerDatabase
from sfumato.ledger.entries import VERSION, BrokenChainError, Entry, canonical, chained, checked, first_hash, sealed
from sfumato.ledger.folding import Folded

_EVERY = 256  # entries from one snapshot to the next


@dataclass(frozen=True, slots=True)
class _Heading:
    """What a ledger says of itself: the key of its fingerprints, how many entries there are, and the last hash."""

    key: str
    entries: int
    last: str

    @classmethod
    def of(cls, row: sa.RowMapping) -> "_Heading":
        found = cls(row["key"], row["entries"], row["last"])
        if type(found.entries) is not int or not isinstance(found.last, str) or not bytes.fromhex(found.key):
            raise ValueError
        return found


class Journal:
    """The entries at a place: a path, or a URL such as postgresql://user@host/database.

    ``wait``: seconds for other writers. It may be used from threads and after a fork: what it remembers is a value that
    is replaced and never changed, and every operation has a connection of its own.
    """

    def __init__(self, where: str | os.PathLike[str], wait: int = 60) -> None:
        self._database = LedgerDatabase(os.fspath(where), wait)
        self._seen: tuple[str, Folded] | None = None  # the key of the ledger, and its state as this process knows it
        self._saved = 0  # the entry of the last snapshot that is known of

    def __reduce__(self) -> tuple[type["Journal"], tuple[str, int]]:
        return Journal, (self._database.where, self._database.wait)

    @property
    def name(self) -> str:
        """The place of the journal's database, without whatever a URL may hold of passwords."""
        return self._database.name

    @property
    def file(self) -> Path | None:
        """The file that the journal is kept in, whole path; None if it is in a database of its own."""
        return None if "://" in self._database.where else Path(self._database.where).absolute()

    def create(self) -> None:
        """Make the tables where there are none; a ledger that exists is left as it is."""
        with self._database.writing(new=True) as connection:
            if HEADING.name in self._database.found(connection):
                self._heading(connection)
                return
            self._database.make(connection)
            key = secrets.token_hex(32)
            heading = {"one": 1, "version": VERSION, "key": key, "entries": 0, "last": first_hash(key)}
            connection.execute(HEADING.insert(), heading)

    @cached_property
    def key(self) -> bytes:
        """The key of the fingerprints in this journal."""
        with self._database.reading() as connection:
            return bytes.fromhex(self._heading(connection).key)

    def fingerprint(self, kind: str, text: str) -> str:
        """A keyed hash: whoever has no access to the ledger cannot guess what it stands for."""
        return hmac.new(self.key, f"{kind}\0{text}".encode(), hashlib.sha256).hexdigest()

    def folded(self) -> Folded:
        """What the entries say now. Those that this process has not seen yet are read, checked and folded."""
        with self._database.reading() as connection:
            return self._folded(connection, self._heading(connection))

    def entries(self) -> list[Entry]:
        """All entries in order, each checked."""
        with self._database.reading() as connection:
            heading = self._heading(connection)
            return self._rest(connection, heading, self._start(heading))

    def about(self, number: int) -> list[Entry]:
        """The entry of this number and the steps of the reservation that it made, each checked against its hash."""
        before, step = ENTRIES.alias(), f'"reservation":{number}}}'
        with self._database.reading() as connection:
            heading = self._heading(connection)
            if type(number) is not int or not 0 < number <= heading.entries:
                return []
            later = sa.and_(ENTRIES.c.number > number, ENTRIES.c.body.endswith(step, autoescape=True))
            rows = connection.execute(
                sa.select(ENTRIES, before.c.hash.label("before"))
                .outerjoin(before, before.c.number == ENTRIES.c.number - 1)
                .where(sa.or_(ENTRIES.c.number == number, later))
                .order_by(ENTRIES.c.number)
            )
            first = first_hash(heading.key)
            with self._unbroken():
                return [checked(row, row.number, first if row.number == 1 else row.before) for row in rows]

    def append(self, dataset: str, kind: str, body: dict[str, Any], check: Callable[[Folded], None]) -> Entry:
        """One entry more, durable on return; ``check`` sees the state so far, under the lock, and may refuse."""
        with self._database.writing() as connection:
            heading = self._heading(connection)
            folded = self._folded(connection, heading)
            check(folded)
            now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
            entry = sealed(heading.last, heading.entries + 1, now, (dataset, kind), body)
            connection.execute(
                ENTRIES.insert(),
                {
                    "number": entry.number,
                    "at": entry.at,
                    "dataset": dataset,
                    "kind": kind,
                    "body": canonical(body),
                    "hash": entry.hash,
                },
            )
            connection.execute(HEADING.update().values(entries=entry.number, last=entry.hash))
            if folded.number - self._saved >= _EVERY:
                self._save(connection, heading.key, folded)
        return entry

    def verify(self, expected: str | None = None) -> tuple[int, str]:
        """Recompute every hash, every state and the snapshot; the number of entries and the last hash.

        Raises LedgerError at the first fault. ``expected`` is a hash that was noted earlier: some entry must have it,
        or the ledger lost its end since.
        """
        with self._database.reading() as connection:
            heading = self._heading(connection)
            if connection.dialect.name == "sqlite":
                told = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
                if told != "ok":
                    raise self._damaged("SQLite's own check of the file fails")
            entries = self._rest(connection, heading, self._start(heading))
            saved = self._snapshot(connection, heading)
        place = 0 if saved is None else saved.number
        folded = self._start(heading).after(entries[:place], self.name)
        if saved is not None and folding.to_text(saved) != folding.to_text(folded):
            raise self._damaged("its snapshot is not what its entries say")
        folded.after(entries[place:], self.name)
        if expected is not None and expected not in (heading.last, *(entry.hash for entry in entries)):
            raise self._damaged("it has no entry with the hash that was expected, so it lost some, or is another one")
        return len(entries), heading.last

    # ---- what is remembered, and what is read ------------------------------------------------------------------------

    def _folded(self, connection: sa.Connection, heading: _Heading) -> Folded:
        """The state now: what is remembered, or else the snapshot, and the entries after it."""
        known = self._seen
        if known is None or known[0] != heading.key or not self._holds(connection, known[1]):
            saved = self._snapshot(connection, heading)
            self._saved = 0 if saved is None else saved.number
            known = heading.key, saved or self._start(heading)
        base = known[1]
        folded = base.after(self._rest(connection, heading, base), self.name)
        self._seen = heading.key, folded
        return folded

    def _start(self, heading: _Heading) -> Folded:
        return Folded(0, first_hash(heading.key))

    def _holds(self, connection: sa.Connection, known: Folded) -> bool:
        """Whether the ledger still has the last entry that is known of: not if an older copy took its place."""
        return known.number == 0 or self._hash_at(connection, known.number) == known.hash

    def _hash_at(self, connection: sa.Connection, number: int) -> str | None:
        found: str | None = connection.execute(sa.select(ENTRIES.c.hash).where(ENTRIES.c.number == number)).scalar()
        return found

    def _rest(self, connection: sa.Connection, heading: _Heading, base: Folded) -> list[Entry]:
        """The entries after those of a state, to the last, as the heading has it."""
        query = sa.select(ENTRIES).where(ENTRIES.c.number > base.number).order_by(ENTRIES.c.number)
        with self._unbroken():
            found = list(chained(connection.execute(query), base.number, base.hash))
        last = (found[-1].number, found[-1].hash) if found else (base.number, base.hash)
        if last != (heading.entries, heading.last):
            raise self._damaged("its heading and its entries do not agree")
        return found

    def _snapshot(self, connection: sa.Connection, heading: _Heading) -> Folded | None:
        """The state that was saved last, if there is one in a form that is known; refuses one that was changed."""
        if SNAPSHOTS.name not in self._database.found(connection):
            return None
        query = sa.select(SNAPSHOTS).order_by(SNAPSHOTS.c.number.desc()).limit(1)
        saved = connection.execute(query).first()
        if saved is None:
            return None
        whole = isinstance(saved.body, str) and isinstance(saved.hash, str) and isinstance(saved.digest, str)
        if not whole or saved.digest != _digest(heading.key, saved.number, saved.hash, saved.body):
            raise self._damaged("its snapshot is not what was written")
        if saved.number > heading.entries or self._hash_at(connection, saved.number) != saved.hash:
            raise self._damaged("its snapshot is of other entries")
        return folding.from_text(saved.body, saved.number, saved.hash)

    def _save(self, connection: sa.Connection, key: str, folded: Folded) -> None:
        """Save a state in the place of the one before, and a table for it in a ledger that has none yet."""
        body = folding.to_text(folded)
        row = {"number": folded.number, "hash": folded.hash, "body": body}
        with suppress(sa.exc.ProgrammingError), connection.begin_nested():  # a role that may create no table goes on
            SNAPSHOTS.create(connection, checkfirst=True)
            connection.execute(SNAPSHOTS.delete())
            connection.execute(SNAPSHOTS.insert(), row | {"digest": _digest(key, folded.number, folded.hash, body)})
        self._saved = folded.number

    def _heading(self, connection: sa.Connection) -> _Heading:
        self._database.check_made(connection)
        rows = connection.exec_driver_sql(f"SELECT * FROM {HEADING.name}").mappings().all()  # noqa: S608 - our own name
        if len(rows) != 1:
            raise self._damaged(f"it has {len(rows)} headings")
        version = rows[0].get("version")
        if version != VERSION:
            raise LedgerError(
                f"{self.name} is a ledger of format {version}, and this version of sfumato reads format {VERSION}: "
                "use the version that wrote it; nothing was changed"
            )
        with suppress(KeyError, TypeError, ValueError):
            return _Heading.of(rows[0])
        raise self._damaged("its heading cannot be read")

    @contextmanager
    def _unbroken(self) -> Iterator[None]:
        try:
            yield
        except BrokenChainError as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, how: str) -> LedgerError:
        return LedgerError(
            f"{self.name} is damaged or was changed: {how}; a copy of it is good only if nothing was released since"
        )


def _digest(key: str, number: int, last: str, body: str) -> str:
    told = f"snapshot\0{number}\0{last}\0{body}"
    return hmac.new(bytes.fromhex(key), told.encode(), hashlib.sha256).hexdigest()
