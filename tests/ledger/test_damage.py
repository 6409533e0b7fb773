"""A damaged ledger is not spent from: whatever is read of it is checked, and a snapshot is no way around."""

import random
import sqlite3
from pathlib import Path

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import journal as journals
from sfumato.ledger.ledger import Ledger
from support.spending import made, pure, request

EVERY = 4


@pytest.fixture
def long(tmp_path, monkeypatch):
    """A ledger with a snapshot, two releases before it, one after it, and one that is drawn; epsilon 3.5 of 4 spent."""
    monkeypatch.setattr(journals, "_EVERY", EVERY)
    ledger = Ledger.create(tmp_path / "budget.db")
    ledger.add_dataset("people", pure(4.0))
    for epsilon in (1.0, 1.0, 1.0):
        charge = ledger.account().reserve(request(epsilon))
        charge.draw()
        charge.commit({"digest": "0" * 64})
    ledger.account().reserve(request(0.5)).draw()
    assert saved(ledger)[0] == 8
    return ledger


def raw(ledger, *statements):
    """Statements of somebody with the file, past the triggers; what the last one finds."""
    with sqlite3.connect(ledger.journal.name) as connection:
        connection.execute("DROP TRIGGER IF EXISTS sfumato_no_UPDATE")
        connection.execute("DROP TRIGGER IF EXISTS sfumato_no_DELETE")
        for statement in statements:
            found = connection.execute(statement).fetchall()
    connection.close()
    return found


def saved(ledger):
    (found,) = raw(ledger, "SELECT number, hash, body, digest FROM sfumato_snapshots")
    return found


def fresh(ledger):
    """The ledger as a new process finds it."""
    return Ledger(ledger.journal.name)


READING = {
    "reserve": lambda ledger: ledger.account("people").reserve(request(0.1)),
    "price": lambda ledger: ledger.account("people").price(request(0.1)),
    "show": lambda ledger: ledger.dataset("people"),
    "void": lambda ledger: ledger.void(11, "a reason"),
    "cap": lambda ledger: ledger.set_cap("people", pure(5.0)),
    "add": lambda ledger: ledger.add_dataset("others", pure(5.0)),
    "verify": lambda ledger: ledger.verify(),
}
SET = "UPDATE sfumato_{} SET {} WHERE {}"
CHANGES = {
    "an entry after the snapshot": SET.format("entries", "body = replace(body, '0.5', '0.1')", "number = 11"),
    "the last entry": SET.format("entries", "body = replace(body, '11', '10')", "number = 12"),
    "a time": SET.format("entries", "at = '2020-01-01T00:00:00.000+00:00'", "number = 10"),
    "a hash": SET.format("entries", "hash = 'x' || substr(hash, 2)", "number = 9"),
    "a kind that is bytes": SET.format("entries", "kind = x'00'", "number = 9"),
    "the entry of the snapshot": SET.format("entries", "hash = 'x' || substr(hash, 2)", "number = 8"),
    "a gap": "DELETE FROM sfumato_entries WHERE number = 10",
    "the number in the heading": SET.format("heading", "entries = entries - 1", "one = 1"),
    "the hash in the heading": SET.format("heading", "last = replace(last, substr(last, 1, 1), 'x')", "one = 1"),
    "the key": SET.format("heading", "key = replace(key, substr(key, 1, 2), '00')", "one = 1"),
    "a key that is none": SET.format("heading", "key = 'x' || key", "one = 1"),
    "the body of the snapshot": SET.format("snapshots", "body = replace(body, '1.0', '0.1')", "true"),
    "the number of the snapshot": SET.format("snapshots", "number = number - 1", "true"),
    "the hash of the snapshot": SET.format("snapshots", "hash = replace(hash, substr(hash, 1, 1), 'x')", "true"),
    "the digest of the snapshot": SET.format(
        "snapshots", "digest = replace(digest, substr(digest, 1, 1), 'x')", "true"
    ),
    "a snapshot of bytes": SET.format("snapshots", "body = x'00'", "true"),
}


@pytest.mark.parametrize("act", READING)
@pytest.mark.parametrize("how", CHANGES)
def test_nothing_is_read_past_a_change(long, how, act):
    raw(long, CHANGES[how])
    with pytest.raises(LedgerError, match="damaged or was changed"):
        READING[act](fresh(long))


@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_what_a_snapshot_stands_for_is_not_read_again_but_where_all_is_shown(long, number):
    """One bit once turned a stored 3.0 into 1.0, and a further 3.0 was answered of a cap of 4."""
    raw(long, SET.format("entries", "body = replace(body, '1.0', '0.1'), at = 'x'", f"number = {number}"))
    for act in ("show", "verify"):
        with pytest.raises(LedgerError, match=f"entry {number} is not what was written"):
            READING[act](fresh(long))
    (quote,) = fresh(long).account().price(request(0.5))
    assert (quote.before.epsilon, quote.fits) == (3.5, True)
    assert not fresh(long).account().price(request(0.6))[0].fits


def test_a_short_ledger_is_checked_from_its_first_entry(ledger):
    made(ledger, 3.0)
    raw(ledger, "UPDATE sfumato_entries SET body = replace(body, '3.0', '1.0') WHERE number = 2")
    for act in ("reserve", "price", "show", "verify"):
        with pytest.raises(LedgerError, match="entry 2 is not what was written"):
            READING[act](fresh(ledger))


@pytest.mark.parametrize("step", ["draw", "commit", "ready", "state", "void"])
def test_steps_of_a_reservation_check_what_others_wrote_meanwhile(long, step):
    charge = long.account().reserve(request(0.1))
    if step in ("commit", "ready"):
        charge.draw()
    fresh(long).account().reserve(request(0.1))
    raw(
        long,
        SET.format("entries", "body = replace(body, '0.1', '0.3')", "number = (SELECT entries FROM sfumato_heading)"),
    )
    given = {"commit": [{"digest": "0" * 64}], "void": ["a reason"]}.get(step, [])
    with pytest.raises(LedgerError, match="is not what was written"):
        getattr(charge, step)(*given)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_the_release_of_a_changed_entry_is_not_vouched_for(ledger, number):
    manifest = made(ledger).manifest
    assert ledger.check_release(manifest).number == 2
    raw(ledger, SET.format("entries", "at = '2020'", f"number = {number}"))
    with pytest.raises(LedgerError, match=f"entry {number} is not what was written"):
        fresh(ledger).check_release(manifest)


def test_any_flipped_bit_is_refused_or_changes_nothing(long):
    """Bits of the file itself: of entries, heading, snapshot, headers of pages, and what SQLite leaves unused."""
    place, choose = long.journal.name, random.Random(1)  # noqa: S311 - which bits are tried
    with open(place, "rb") as file:  # noqa: PTH123 - bytes
        whole = bytearray(file.read())
    refused = 0
    for place_of_bit in choose.sample(range(8 * len(whole)), 150):
        hurt = bytearray(whole)
        hurt[place_of_bit // 8] ^= 1 << place_of_bit % 8
        with open(place, "wb") as file:  # noqa: PTH123 - bytes
            file.write(hurt)
        try:
            (quote,) = fresh(long).account("people").price(request(0.5))
            assert (quote.before.epsilon, quote.after.epsilon, quote.fits) == (3.5, 4.0, True)
            assert fresh(long).dataset("people").total(0).epsilon == 3.5
        except LedgerError:
            refused += 1
    assert 30 < refused < 150


# ---- snapshots -------------------------------------------------------------------------------------------------------


def test_a_snapshot_that_says_something_else_than_the_entries_is_seen_by_verify(long):
    """Whoever has the key can forge one; ``verify`` folds every entry again."""
    number, last, body, _ = saved(long)
    forged = body.replace('"made":3', '"made":2')
    assert forged != body
    key = raw(long, "SELECT key FROM sfumato_heading")[0][0]
    digest = journals._digest(key, number, last, forged)
    raw(long, SET.format("snapshots", f"body = '{forged}', digest = '{digest}'", "true"))
    with pytest.raises(LedgerError, match="its snapshot is not what its entries say"):
        fresh(long).verify()


def test_a_new_process_reads_the_snapshot_and_what_came_after_only(long, monkeypatch):
    seen = []
    original = journals.chained
    monkeypatch.setattr(journals, "chained", lambda *given: seen.append(given[1]) or original(*given))
    assert fresh(long).account().dataset.total(0).epsilon == 3.5
    known = fresh(long)
    known.account()
    known.account()
    assert seen == [8, 12, 8, 12]  # an account looks its dataset up twice


def test_a_ledger_of_a_version_without_snapshots_gets_one(long):
    raw(long, "DROP TABLE sfumato_snapshots")
    assert fresh(long).verify()[0] == 12
    fresh(long).account().reserve(request(0.25))
    assert saved(long)[0] == 12
    assert fresh(long).account().dataset.total(0).epsilon == 3.75
    assert fresh(long).verify()[0] == 13


def test_a_snapshot_of_a_later_form_is_left_unread(long, monkeypatch):
    monkeypatch.setattr(journals.folding, "FORMAT", 99)
    assert fresh(long).account().dataset.total(0).epsilon == 3.5
    assert fresh(long).verify()[0] == 12


def test_an_older_copy_that_was_put_back_is_read_anew(long, tmp_path):
    old = (tmp_path / "budget.db").read_bytes()
    long.account().reserve(request(0.5))
    assert long.account().dataset.total(0).epsilon == 4.0
    (tmp_path / "budget.db").write_bytes(old)
    assert long.account().dataset.total(0).epsilon == 3.5
    with pytest.raises(LedgerError, match="no such reservation"):
        long.void(13, "a reason")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", READING)
def test_a_file_that_lost_a_part_of_its_last_page_is_not_spent_from(long, name, known):
    """SQLite would read zeros there, and a process that remembers the state would not look."""
    ledger = long if known else fresh(long)
    if known:
        ledger.dataset("people")
    path = Path(ledger.journal.name)
    content = path.read_bytes()
    path.write_bytes(content[:-200])
    with pytest.raises(LedgerError, match="the end of its file is missing"):
        READING[name](ledger)
    assert path.read_bytes() == content[:-200]
    path.write_bytes(content)
    ledger.verify()
