"""Real processes that die at every step of a release, or race for the last of a budget, on SQLite and PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psycopg
import pytest

from processes import CONTEXT, STEPS, release_once, spend_the_last
from sfumato.errors import BudgetError, LedgerError
from sfumato.guarantee import Guarantee
from sfumato.ledger import Ledger
from sfumato.releases.loading import load
from spending import request

RACERS, ROUNDS = 16, 50


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A PostgreSQL server of Debian's package, for this session alone; a socket, no network."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        if os.environ.get("SFUMATO_NEEDS_POSTGRESQL"):
            pytest.fail("PostgreSQL is not installed, and SFUMATO_NEEDS_POSTGRESQL is set: apt-get install postgresql")
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="sfumato-"))  # a short name, or its socket's would be too long
    user = []
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "postgres")
        user = ["runuser", "-u", "postgres", "--"]
    programs, data = found[-1].parent, folder / "data"

    def run(*command):
        with (tmp_path_factory.getbasetemp() / "postgres.log").open("ab") as log:
            subprocess.run([*user, *map(str, command)], check=True, stdout=log, stderr=log, cwd="/")  # noqa: S603

    run(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync")
    options = f"-c listen_addresses='' -k {folder} -c max_connections=100"
    run(programs / "pg_ctl", "-D", data, "-o", options, "-w", "-l", folder / "log", "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """An empty place for a ledger on either database."""
    if request.param == "sqlite":
        yield tmp_path / "budget.db"
        return
    url = request.getfixturevalue("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS sfumato_heading, sfumato_entries")
    yield url


def started(target, *arguments):
    process = CONTEXT.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def state_after(ledger, out, before):
    """Check everything that must hold whenever a process ended; returns the state of its reservation, or None."""
    ledger.verify()
    releases = ledger.dataset("people").releases[before:]
    assert len(releases) <= 1, "one release was charged more than once"
    state = releases[0].state if releases else None
    if Path(f"{out}.drew").exists():
        assert state in ("drawn", "committed"), "noise may have been seen, but is not charged as drawn"
    if out.exists():
        manifest = load(out).manifest
        assert ledger._reservation(manifest).number == releases[0].number
        if state == "committed":
            ledger.check_release(manifest)
    assert (state == "committed") <= out.exists()
    return state


EXPECTED = {
    "before reserving": (None, False),
    "after reserving": ("reserved", False),
    "before drawing": ("reserved", False),
    "during the noise": ("drawn", False),
    "before the manifest": ("drawn", False),
    "before the new name": ("drawn", False),
    "before committing": ("drawn", True),
    "after committing": ("committed", True),
}


def test_a_process_killed_at_any_step_leaves_a_true_ledger(where, tmp_path):
    ledger = Ledger.create(where)
    ledger.add_dataset("people", Guarantee(epsilon=100.0))
    for number, step in enumerate(STEPS):
        out, before = tmp_path / f"{number}.release", len(ledger.dataset("people").releases)
        process = started(release_once, where, out, step)
        process.join(120)
        assert process.exitcode == -9
        assert (state_after(ledger, out, before), out.exists()) == EXPECTED[step]
    for spent in ledger.dataset("people").releases:
        if spent.state == "reserved":
            ledger.void(spent.number, "the process was killed before it drew")
    finished(ledger, where, tmp_path / "last.release")
    assert ledger.dataset("people").total(0).epsilon == 6.0  # five that drew, and the last


def finished(ledger, where, out):
    """A release that nobody disturbs works."""
    before = len(ledger.dataset("people").releases)
    process = started(release_once, where, out)
    process.join(120)
    assert process.exitcode == 0
    assert state_after(ledger, out, before) == "committed"


def killed_at_random(where, tmp_path, times):
    ledger = Ledger.create(where)
    ledger.add_dataset("people", Guarantee(epsilon=1000.0))
    begun = time.monotonic()
    finished(ledger, where, tmp_path / "first.release")
    length, rng, ends = time.monotonic() - begun, np.random.default_rng(3), Counter()
    for number in range(times):
        out, before = tmp_path / f"{number}.release", len(ledger.dataset("people").releases)
        ready = CONTEXT.Event()
        process = started(release_once, where, out, None, ready)
        ready.wait(120)
        process.join(rng.uniform(0, length))
        process.kill()
        process.join(120)
        ends[state_after(ledger, out, before)] += 1
    finished(ledger, where, tmp_path / "last.release")
    return ends


def test_processes_killed_at_random_instants_leave_a_true_ledger(tmp_path):
    assert killed_at_random(tmp_path / "b.db", tmp_path, 12).total() == 12


@pytest.mark.slow
def test_two_hundred_processes_killed_at_random_instants_leave_a_true_ledger(where, tmp_path):
    ends = killed_at_random(where, tmp_path, 200)
    assert ends.total() == 200
    assert len(ends) >= 3  # they died at different steps, or nothing was tried


def race(where, rounds):
    ledger = Ledger.create(where)
    for number in range(rounds):
        ledger.add_dataset(f"round {number}", Guarantee(epsilon=1.5))
    barrier, wins = CONTEXT.Barrier(RACERS), CONTEXT.Queue()
    racers = [started(spend_the_last, where, rounds, barrier, wins) for _ in range(RACERS)]
    found, ended = Counter(), 0
    while ended < RACERS:
        told = wins.get(timeout=300)
        ended += told is None
        found.update([] if told is None else [told[0]])
    for racer in racers:
        racer.join(60)
    ledger.verify()
    for number in range(rounds):
        assert [s.state for s in ledger.dataset(f"round {number}").releases] == ["committed"]
    return found


def test_of_sixteen_processes_exactly_one_spends_the_last_unit(where):
    assert race(where, 3) == dict.fromkeys(range(3), 1)


@pytest.mark.slow
def test_of_sixteen_processes_exactly_one_spends_the_last_unit_in_fifty_rounds(where):
    assert race(where, ROUNDS) == dict.fromkeys(range(ROUNDS), 1)


def interrupted_reservation(ledger, monkeypatch):
    """Somebody spends between the price of a release and its entry."""
    account, append = ledger.account(), ledger.journal.append

    def interrupted(*entry):
        monkeypatch.setattr(ledger.journal, "append", append)
        account.reserve(request())
        return append(*entry)

    monkeypatch.setattr(ledger.journal, "append", interrupted)
    account.reserve(request())


def test_what_was_spent_between_price_and_entry_is_seen(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=1.5))
    with pytest.raises(BudgetError):
        interrupted_reservation(ledger, monkeypatch)
    assert ledger.dataset("people").total(0).epsilon == 1.0


def test_a_ledger_that_does_not_look_again_would_overspend(tmp_path, monkeypatch):
    """The broken twin of the test above: without the second look, two spend the last unit."""
    monkeypatch.setattr("sfumato.ledger._unmoved", lambda *_: lambda _: None)
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=1.5))
    interrupted_reservation(ledger, monkeypatch)
    assert ledger.dataset("people").total(0).epsilon == 2.0


def test_on_postgresql_entries_are_never_changed(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS sfumato_heading, sfumato_entries")
        ledger = Ledger.create(postgres)
        ledger.add_dataset("people", Guarantee(epsilon=1.5))
        for statement in ("UPDATE sfumato_entries SET body = '{}'", "DELETE FROM sfumato_entries"):
            with pytest.raises(psycopg.errors.RaiseException, match="never changed"):
                connection.execute(statement)
        assert ledger.verify()[0] == 1
        connection.execute("ALTER TABLE sfumato_entries DISABLE TRIGGER ALL")
        connection.execute("UPDATE sfumato_entries SET at = 'never'")
    with pytest.raises(LedgerError, match="not what was written"):
        ledger.verify()
