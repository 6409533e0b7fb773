"""A PostgreSQL server of Debian's package, for one run alone: a socket in a folder of its own, no network."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg

CONNECTIONS = 100


def programs() -> Path | None:
    """Where the newest server's programs are, if one is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: a context that stops it and removes all of it. ``log``: where its programs write."""

    folder: Path
    log: Path

    @classmethod
    def start(cls, log: Path) -> Self:
        """A new server with an empty database."""
        made = cls(Path(tempfile.mkdtemp(prefix="sfumato-")), log)  # a short name, or its socket's would be too long
        if os.geteuid() == 0:
            shutil.chown(made.folder, "postgres")
        made._run("initdb", "-D", made._data, "-U", "postgres", "-A", "trust", "--no-sync")
        made._begin()
        return made

    @property
    def url(self) -> str:
        """Where a ledger finds it."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def emptied(self) -> str:
        """Its address, with no ledger there."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS sfumato_heading, sfumato_entries")
        return self.url

    def cut_off(self) -> None:
        """End the connections of everybody else."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def crash(self) -> None:
        """Stop at once, as if its machine had, and start again."""
        self._stop()
        self._begin()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _begin(self) -> None:
        options = f"-c listen_addresses='' -k {self.folder} -c max_connections={CONNECTIONS}"
        self._run("pg_ctl", "-D", self._data, "-o", options, "-w", "-l", self.folder / "log", "start")

    def _stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def _run(self, program: str, *options: object) -> None:
        place = programs()
        assert place is not None, "PostgreSQL is not installed"
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []  # the server refuses to run as root
        with self.log.open("ab") as log:
            command = [*user, str(place / program), *map(str, options)]
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd="/")  # noqa: S603 - our own words
