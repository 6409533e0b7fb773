"""Real processes race for the last of a budget, on SQLite and PostgreSQL; test_faults has those that die."""

from collections import Counter

import psycopg
import pytest

from faults.context import CONTEXT
from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Guarantee
from support.processes import spend_the_last
from support.spending import request

RACERS, ROUNDS = 16, 50


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """An empty place for a ledger on either database."""
    if request.param == "sqlite":
        yield tmp_path / "budget.db"
        return
    yield request.getfixturevalue("postgres")


def started(target, *arguments):
    process = CONTEXT.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


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
    monkeypatch.setattr("sfumato.ledger.account._unmoved", lambda *_: lambda _: None)
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=1.5))
    interrupted_reservation(ledger, monkeypatch)
    assert ledger.dataset("people").total(0).epsilon == 2.0


def test_on_postgresql_entries_are_never_changed(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
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
