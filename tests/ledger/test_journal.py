"""Ledgers that were changed, cut off or damaged; places that are none; and the whole story on the command line."""

import os
import shutil
import sqlite3

import pytest

import sfumato
from sfumato.cli import main
from sfumato.errors import BudgetError, LedgerError
from sfumato.fileformat.reader import digest
from sfumato.ledger import reservation
from sfumato.ledger.database import LedgerDatabase
from sfumato.ledger.ledger import Ledger
from sfumato.pipeline.release import release_to
from support.spending import ROWS, SCHEMA, SKETCH, made, pure, request

# ---- ledgers that were changed ---------------------------------------------------------------------------------------


def changed(ledger, *statements):
    """Somebody with the file and a will: without the triggers that stand in the way."""
    with sqlite3.connect(ledger.journal.name) as connection:
        connection.execute("DROP TRIGGER IF EXISTS sfumato_no_UPDATE")
        connection.execute("DROP TRIGGER IF EXISTS sfumato_no_DELETE")
        for statement in statements:
            connection.execute(statement)
    connection.close()


CHANGES = {
    "an edited body": ["UPDATE sfumato_entries SET body = replace(body, '1.0', '0.1') WHERE number = 2"],
    "an edited time": ["UPDATE sfumato_entries SET at = '2020-01-01T00:00:00.000+00:00' WHERE number = 3"],
    "another dataset": ["UPDATE sfumato_entries SET dataset = 'others' WHERE number = 2"],
    "a gap": ["DELETE FROM sfumato_entries WHERE number = 3"],
    "a lost end": ["DELETE FROM sfumato_entries WHERE number = 4"],
    "two entries exchanged": [
        "UPDATE sfumato_entries SET number = 99 WHERE number = 2",
        "UPDATE sfumato_entries SET number = 2 WHERE number = 3",
        "UPDATE sfumato_entries SET number = 3 WHERE number = 99",
    ],
    "an entry more": [
        "INSERT INTO sfumato_entries SELECT 5, at, dataset, kind, body, hash FROM sfumato_entries LIMIT 1"
    ],
    "no JSON": ["UPDATE sfumato_entries SET body = '{' WHERE number = 2"],
    "JSON in another spelling": ["UPDATE sfumato_entries SET body = ' ' || body WHERE number = 2"],
}


@pytest.mark.parametrize("how", CHANGES)
def test_changes_are_seen(ledger, how):
    made(ledger)
    assert ledger.verify()[0] == 4
    changed(ledger, *CHANGES[how])
    with pytest.raises(LedgerError, match=r"damaged or was changed|has no"):
        ledger.verify()


def test_an_end_that_was_cut_off_with_care_is_seen_by_a_hash_that_was_kept(ledger):
    made(ledger)
    kept = ledger.verify()[1]
    first = ledger.journal.entries()[0].hash
    mended = "UPDATE sfumato_heading SET entries = 1, last = (SELECT hash FROM sfumato_entries WHERE number = 1)"
    changed(ledger, "DELETE FROM sfumato_entries WHERE number > 1", mended)
    assert ledger.verify() == (1, first)
    assert ledger.verify(first) == (1, first)
    with pytest.raises(LedgerError, match="lost some"):
        ledger.verify(kept)


@pytest.mark.parametrize("kind", ["void", "draw", "commit"])
def test_steps_that_cannot_follow_each_other_are_seen(ledger, kind):
    made(ledger)
    ledger.journal.append("people", kind, {"reservation": 2, "reason": "x", "digest": "x"}, lambda _: None)
    with pytest.raises(LedgerError, match="tamper"):
        ledger.verify()


def test_a_forged_release_is_not_taken_for_the_one_entered(ledger, tmp_path):
    out = tmp_path / "r"
    terms = {"schema": SCHEMA, "mechanism": SKETCH, "ledger": ledger}
    manifest = release_to(out, ROWS, guarantee=pure(1.0), **terms)
    assert ledger.check_release(manifest).number == 2
    softened = manifest | {"guarantee": manifest["guarantee"] | {"epsilon": 0.01}}
    other = manifest | {"files": {"data.parquet": {"sha256": "0" * 64, "bytes": 1}}}
    for forged in (softened, other):
        with pytest.raises(LedgerError, match="do not trust it"):
            ledger.check_release(forged | {"digest": digest(forged)})


def test_a_release_that_was_saved_from_memory_is_the_one_entered(ledger, tmp_path):
    made(ledger).save(tmp_path / "r")
    assert ledger.check_release(sfumato.load(tmp_path / "r").manifest).number == 2


def test_a_reservation_is_known_by_its_hash_to_its_own_process(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(ledger.journal.name, copy)
    reservation = ledger.account().reserve(request())
    shutil.copy(copy, ledger.journal.name)  # somebody restores an older copy, and somebody else reserves
    ledger.account().reserve(request(0.1))
    with pytest.raises(LedgerError, match="no such reservation"):
        reservation.draw()


def test_one_file_has_no_two_budgets_even_if_two_start_at_once(ledger, monkeypatch):
    ledger.add_dataset("double", pure(3.0))
    append = ledger.journal.append

    def interrupted(*entry):
        monkeypatch.setattr(ledger.journal, "append", append)
        ledger.account("double").reserve(request(source="file a"))
        return append(*entry)

    monkeypatch.setattr(ledger.journal, "append", interrupted)
    with pytest.raises(LedgerError, match="already accounted for as 'double'"):
        ledger.account("people").reserve(request(source="file a"))


def test_a_ledger_that_fails_at_the_last_step_says_that_the_release_is_there(ledger, tmp_path, monkeypatch):
    mark = reservation.mark

    def failing(journal, number, kind, *rest):
        if kind == "commit":
            raise LedgerError("the ledger cannot be used (database is locked)")
        mark(journal, number, kind, *rest)

    monkeypatch.setattr(reservation, "mark", failing)
    with pytest.raises(LedgerError, match=r"the release is written, in .* run `sfumato ledger confirm`"):
        release_to(tmp_path / "r", ROWS, schema=SCHEMA, mechanism=SKETCH, guarantee=pure(1.0), ledger=ledger)
    monkeypatch.undo()
    assert ledger.confirm_release(sfumato.load(tmp_path / "r").manifest) == 2


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2@h:abc/db",
        "postgresql://u:hunter2@ss@localhost:1/db",
        "postgresql://u@localhost:1/db?password=hunter2",
        "postgresql://u:hunter2@localhost:1/db",
    ],
)
def test_no_password_is_ever_printed(url, capsys):
    assert main(["ledger", "show", url]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "hunter2" not in told


def test_a_file_name_that_is_no_text_is_no_trouble(tmp_path):
    ledger = Ledger.create(os.fsdecode(os.fsencode(tmp_path / "x") + b"\xff.db"))
    ledger.add_dataset("people", pure(1.0))
    assert ledger.verify()[0] == 1


def test_the_database_itself_refuses_changes(ledger):
    made(ledger)
    with sqlite3.connect(ledger.journal.name) as connection:
        for statement in ("UPDATE sfumato_entries SET body = '{}'", "DELETE FROM sfumato_entries"):
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                connection.execute(statement)
    connection.close()
    assert ledger.verify()[0] == 4


def test_nothing_is_appended_to_a_ledger_that_lost_its_end(ledger):
    made(ledger)
    changed(ledger, "DELETE FROM sfumato_entries WHERE number = 4")
    with pytest.raises(LedgerError, match="do not agree"):
        made(ledger)


def test_an_older_format_is_refused_and_left_alone(ledger):
    changed(ledger, "UPDATE sfumato_heading SET version = 0")
    with pytest.raises(LedgerError, match="ledger of format 0, and this version of sfumato reads format 1"):
        made(ledger)
    with pytest.raises(LedgerError, match="format 0"):
        Ledger.create(ledger.journal.name)


@pytest.mark.parametrize("how", ["truncated", "overwritten", "no database", "empty", "a folder", "missing"])
def test_a_damaged_file_is_one_clear_line_and_nothing_is_released(tmp_path, how, capsys, ledger):
    made(ledger)
    where = tmp_path / "budget.db"
    raw = where.read_bytes()
    where.unlink()
    if how == "truncated":
        where.write_bytes(raw[: len(raw) // 2])
    elif how == "overwritten":
        where.write_bytes(raw[:4096] + bytes(len(raw) - 8192) + raw[-4096:])
    elif how == "no database":
        where.write_bytes(b"name,age\n" * 1000)
    elif how == "empty":
        where.write_bytes(b"")
    elif how == "a folder":
        where.mkdir()
    (tmp_path / "x.csv").write_text("c0,c1,c2\n" + "0.1,0.2,0.3\n" * 5)
    (tmp_path / "x.toml").write_text(SCHEMA.to_toml())
    common = ["--schema", str(tmp_path / "x.toml"), "--epsilon", "1", "--dimension", "2", "--ledger", str(where)]
    code = main(["release", "sketch", str(tmp_path / "x.csv"), *common, "--out", str(tmp_path / "r")])
    told = capsys.readouterr().err
    assert (code, told.count("\n")) == (2, 1)
    assert "ledger" in told
    assert not (tmp_path / "r").exists()
    assert main(["ledger", "verify", str(where)]) == 2


@pytest.mark.parametrize(
    ("pragma", "told"),
    [("max_page_count = 1", "database or disk is full"), ("query_only = on", "attempt to write a readonly database")],
)
def test_a_full_or_read_only_disk_is_one_line_and_nothing_is_lost(ledger, monkeypatch, pragma, told):
    made(ledger)
    before, connect = ledger.journal.entries(), LedgerDatabase._connect_file

    def limited(self, new):
        connection = connect(self, new)
        connection.execute(f"PRAGMA {pragma}")
        return connection

    def until_the_last_page_is_full():
        for _ in range(100):
            made(ledger, 0.01)

    with monkeypatch.context() as patch:
        patch.setattr(LedgerDatabase, "_connect_file", limited)
        with pytest.raises(LedgerError, match=rf"cannot be used \({told}\)") as caught:
            until_the_last_page_is_full()
    assert "INSERT" not in str(caught.value)
    assert ledger.journal.entries()[: len(before)] == before
    ledger.verify()
    made(ledger)


def test_a_ledger_cut_off_anywhere_is_refused_in_words(ledger, tmp_path):
    made(ledger)
    place, cut = tmp_path / "budget.db", tmp_path / "cut.db"
    for size in range(0, place.stat().st_size - 64, 512):
        shutil.copyfile(place, cut)
        os.truncate(cut, size)
        with pytest.raises(LedgerError):
            Ledger(cut).verify()


def test_urls_that_are_no_ledger_are_refused(tmp_path):
    with pytest.raises(LedgerError, match="SQLite file, or a URL"):
        Ledger("mysql://somebody@host/x").datasets()
    with pytest.raises(LedgerError, match="SQLite file, or a URL"):
        Ledger("post gres://:::").datasets()
    with pytest.raises(LedgerError) as caught:
        Ledger(f"postgresql://me:hunter2@/x?host={tmp_path}").datasets()
    assert "hunter2" not in str(caught.value)


def run(words):
    return main(words.split())


# ---- the command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    (tmp_path / "x.csv").write_text("c0,c1,c2\n" + "0.1,0.2,0.3\n" * 50)
    (tmp_path / "x.toml").write_text(SCHEMA.to_toml())
    return tmp_path


def test_a_whole_story_on_the_command_line(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    sketch = "sketch x.csv --schema x.toml --epsilon 2 --dimension 2 --ledger b.db"
    assert run("ledger init b.db --dataset people --epsilon 3") == 0
    assert run(f"ledger price {sketch}") == 0
    assert "After this release: epsilon 2 (sum of epsilons). Within the cap." in capsys.readouterr().out
    assert run(f"release {sketch} --out r") == 0
    assert "charged to the budget of 'people', entry 2" in capsys.readouterr().out
    assert "charged to the budget of 'people'" in (files / "r" / "README.txt").read_text()
    assert run(f"ledger price {sketch} --dataset people") == 0
    assert "EXCEEDS THE CAP" in capsys.readouterr().out
    assert run(f"release {sketch} --out s") == 2
    assert "the largest epsilon that would still fit is 1" in capsys.readouterr().err
    assert run("ledger show b.db --plot b.svg --dataset people") == 0
    told = capsys.readouterr().out
    assert "Spent:  epsilon 2 (sum of epsilons)" in told
    assert "Left:   epsilon 1 (pure)" in told
    assert "committed" in told
    assert (files / "b.svg").read_text().count("Sketch") >= 1
    assert run("ledger cap b.db --dataset people --epsilon 4") == 0
    assert run("ledger verify b.db --release r") == 0
    assert "Verified entries: 5." in capsys.readouterr().out
    assert run("ledger confirm b.db r") == 2
    assert run("ledger void b.db 2 --reason x") == 2
    assert run("ledger show b.db --json") == 0
    assert run("ledger admit b.db x.csv --schema x.toml --dataset people") == 0
    assert run("release sketch x.csv --schema x.toml --epsilon 2 --dimension 2 --out t --dataset people") == 2
    assert "need --ledger" in capsys.readouterr().err


def test_ledgers_are_public_names():
    assert sfumato.Ledger is Ledger
    assert sfumato.BudgetError is BudgetError
