"""The state of a ledger: folded once, the same from any snapshot, in threads, in forks, and on PostgreSQL."""

import multiprocessing
import pickle
import stat
import threading

import pytest

from sfumato.ledger import journal as journals
from sfumato.ledger.folding import Folded, from_text, to_text
from sfumato.ledger.ledger import Ledger
from support.processes import ask_once
from support.spending import made, pure, request, states


def life(ledger):
    """Something of everything that a ledger can hold."""
    ledger.add_dataset("people", pure(90.0), parts_by="town")
    ledger.set_cap("people", pure(30.0, unit="attribute"))
    ledger.admit("people", "{}", "file b")
    for epsilon, part in ((1.0, None), (1.0, "Bern"), (0.5, "Bern"), (0.5, "Zug"), (1.0, None)):
        account = ledger.account("people", part=part, convert=True)
        account.reserve(request(epsilon, source="file b")).draw()
        account.reserve(request(epsilon, source="file b")).void("a reason")
        last = account.reserve(request(epsilon, source="file b"))
        last.commit({"digest": "0" * 64})
    ledger.add_dataset("others", pure(3.0))
    ledger.account("others").reserve(request(2.0, source="memory"))


@pytest.fixture(params=["sqlite", "postgresql"])
def alive(request, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "_EVERY", 7)
    ledger = Ledger.create(tmp_path / "b.db" if request.param == "sqlite" else request.getfixturevalue("postgres"))
    life(ledger)
    return ledger


def test_every_way_to_the_state_gives_the_same(alive):
    entries = alive.journal.entries()
    start = Folded(0, "")
    whole = start.after(entries, "a ledger")
    one_by_one = start
    for entry in entries:
        one_by_one = one_by_one.after([entry], "a ledger")
    assert to_text(one_by_one) == to_text(whole)
    for place in range(len(entries) + 1):
        early = start.after(entries[:place], "a ledger")
        before = to_text(early)
        restored = from_text(before, early.number, early.hash)
        assert restored == early
        for state in (early, restored):
            assert to_text(state.after(entries[place:], "a ledger")) == to_text(whole)
        assert to_text(early) == before  # a state never changes
    assert to_text(alive.journal.folded()) == to_text(whole)
    assert to_text(Ledger(alive.journal._database.where).journal.folded()) == to_text(whole)
    assert alive.verify()[0] == len(entries)


def test_the_state_agrees_with_all_releases(alive):
    (people, others), folded = alive.datasets(), alive.journal.folded()
    for dataset in (people, others):
        counted = [s for s in dataset.releases if s.state != "void"]
        for place in range(len(dataset.caps)):
            for part in (None, "Bern", "Zug"):
                mine = [s.charges[place] for s in counted if s.part in (None, part)]
                assert sum(dataset.spent(place, part).counts.values()) == len(mine)
                assert set(dataset.spent(place, part).counts) == set(mine)
        assert folded.datasets[dataset.name].total(0) == dataset.total(0)
        assert folded.datasets[dataset.name].made == len(dataset.releases)
    assert (people.total(0).epsilon, people.total(1).epsilon, others.total(0).epsilon) == (7.0, 7.0, 2.0)
    assert set(people.pending) == {s.number for s in people.releases if s.state in ("reserved", "drawn")}


def test_committed_and_void_reservations_are_found_again(alive):
    for spent in alive.dataset("people").releases:
        (first, *_) = steps = alive.journal.about(spent.number)
        assert first.number == spent.number
        assert [s.kind for s in steps][1:] == {"committed": ["draw", "commit"], "drawn": ["draw"], "void": ["void"]}[
            spent.state
        ]
    assert alive.journal.about(0) == alive.journal.about(10**30) == alive.journal.about("2") == []


def test_threads_share_a_journal(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(1.0))
    account, wins = ledger.account(), []

    def spend():
        for _ in range(5):
            account.reserve(request(0.05)).draw()
            wins.append(ledger.account().dataset.total(0).epsilon)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 20
    assert states(ledger) == ["drawn"] * 20
    assert ledger.account().dataset.total(0).epsilon == 1.0
    assert ledger.verify()[0] == 41


def test_a_fork_goes_on_with_what_its_parent_knew(ledger):
    account = ledger.account()
    account.reserve(request())
    child = multiprocessing.get_context("fork").Process(target=lambda: account.reserve(request(0.5)).draw())
    child.start()
    child.join()
    assert child.exitcode == 0
    assert account.dataset.total(0).epsilon == 1.5
    account.reserve(request(1.5))


def test_a_journal_that_is_sent_elsewhere_reads_anew(ledger):
    made(ledger)
    again = pickle.loads(pickle.dumps(ledger.journal))  # noqa: S301 - our own
    assert again._seen is None
    assert again.folded() == ledger.journal.folded()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_ledger_is_for_its_owner_only(tmp_path, mask, monkeypatch):
    old = journals.os.umask(mask)
    try:
        ledger = Ledger.create(tmp_path / "b.db")
        ledger.add_dataset("people", pure(1.0))
        seen = []
        original = journals.canonical
        monkeypatch.setattr(journals, "canonical", lambda body: seen.extend(modes(tmp_path)) or original(body))
        ledger.account().reserve(request(0.5))
        with ledger.journal._database.writing() as connection:
            connection.exec_driver_sql("UPDATE sfumato_heading SET one = 1")
            seen += modes(tmp_path)
    finally:
        journals.os.umask(old)
    assert len(seen) > 2
    assert set(seen) == {0o600}


def modes(folder):
    return [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()]


def test_an_existing_ledger_keeps_its_mode(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    (tmp_path / "b.db").chmod(0o640)
    Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(1.0))
    assert modes(tmp_path) == [0o640]


def test_a_session_reads_no_entry_twice(ledger, monkeypatch):
    seen = []
    original = journals.chained
    monkeypatch.setattr(journals, "chained", lambda rows, number, last: _counted(original(rows, number, last), seen))
    ask_once(ledger.journal.name)
    assert seen == sorted(set(seen))


def _counted(entries, seen):
    for entry in entries:
        seen.append(entry.number)
        yield entry
