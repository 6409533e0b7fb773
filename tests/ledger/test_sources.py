"""One table, one budget: the same file under another name, as a copy, and in a folder."""

import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from sfumato.errors import LedgerError
from sfumato.ledger.sources import Origin
from sfumato.pipeline import origins
from sfumato.pipeline.release import price, release, source_of
from support.spending import SCHEMA, SKETCH, pure, request, states

TERMS = {"schema": SCHEMA, "mechanism": SKETCH, "guarantee": pure(0.1)}


def table(seed=1, rows=50):
    return pa.table({f"c{i}": np.random.default_rng([seed, i]).random(rows) for i in range(3)})


def csv(path, **kind):
    pv.write_csv(table(**kind), path)
    return path


def parquet(path, **kind):
    pq.write_table(table(**kind), path)
    return path


def copied(path):
    return shutil.copyfile(path, path.with_name(f"copy{path.suffix}"))


def linked(path):
    other = path.with_name(f"link{path.suffix}")
    os.link(path, other)
    return other


def linked_and_changed(path):
    other = linked(path)
    with other.open("ab") as file:
        file.write(b"0.1,0.2,0.3\n")
    return other


def symbolic(path):
    other = path.with_name(f"symbolic{path.suffix}")
    other.symlink_to(path)
    return other


def renamed(path):
    return path.rename(path.with_name(f"renamed{path.suffix}"))


def folder_of(path):
    return path.parent


WAYS = {
    "a copy": (csv, copied),
    "a hard link": (csv, linked),
    "a hard link to a file that was changed": (csv, linked_and_changed),
    "a symbolic link": (csv, symbolic),
    "another name": (csv, renamed),
    "a copy of Parquet": (parquet, copied),
    "a folder that holds it": (parquet, folder_of),
}


@pytest.fixture
def two(ledger):
    """A ledger with two datasets."""
    ledger.add_dataset("double", pure(3.0))
    return ledger


def place(tmp_path, make):
    home = tmp_path / "data"
    home.mkdir()
    return make(home / f"people.{make.__name__}")


@pytest.mark.parametrize("way", WAYS)
def test_the_same_table_is_recognised_however_it_is_named(way, two, tmp_path):
    make, again = WAYS[way]
    path = place(tmp_path, make)
    release(path, ledger=two.account("people"), **TERMS)
    other = again(path)
    with pytest.raises(LedgerError, match="this file is already accounted for as 'people'"):
        release(other, ledger=two.account("double"), **TERMS)
    with pytest.raises(LedgerError, match="this file is already accounted for as 'people'"):
        price(other, ledger=two.account("double"), **TERMS)
    release(other, ledger=two.account("people"), **TERMS)
    assert states(two) == ["committed"] * 2


def test_a_file_of_a_folder_is_recognised_by_itself(two, tmp_path):
    path = place(tmp_path, parquet)
    parquet(path.with_name("more.parquet"), seed=2)
    release(path.parent, ledger=two.account("people"), **TERMS)
    with pytest.raises(LedgerError, match="already accounted for"):
        release(path, ledger=two.account("double"), **TERMS)
    with pytest.raises(LedgerError, match="already accounted for"):
        release(shutil.copyfile(path, tmp_path / "copy.parquet"), ledger=two.account("double"), **TERMS)


@pytest.mark.parametrize("make", [csv, parquet])
def test_other_tables_are_told_apart(make, two, tmp_path):
    path = place(tmp_path, make)
    release(path, ledger=two.account("people"), **TERMS)
    other = make(path.with_name(f"other.{make.__name__}"), seed=2)
    with pytest.raises(LedgerError, match="another file or schema"):
        release(other, ledger=two.account("people"), **TERMS)
    release(other, ledger=two.account("double"), **TERMS)


def test_an_inode_that_is_used_again_proves_nothing():
    """A new file may get the inode of one that was deleted; only a file with other names is looked for by it."""
    one = Origin("file /a", ("content 1 x",), ("inode 1 2",))
    later = Origin("file /b", ("content 1 y",), ("inode 1 2",))
    of_two_names = Origin("file /b", ("content 1 y",), ("inode 1 2",), ("inode 1 2",))
    kept = one.kept(lambda _, text: text).marks
    assert later.kept(lambda _, text: text).sought.isdisjoint(kept)
    assert not of_two_names.kept(lambda _, text: text).sought.isdisjoint(kept)


def test_a_reservation_that_is_void_ties_a_dataset_to_nothing(two):
    first = two.account("people").reserve(request(0.1, source="file a"))
    with pytest.raises(LedgerError, match="another file or schema"):
        two.account("people").reserve(request(0.1, source="file b"))
    first.void("it was the wrong file")
    two.account("double").reserve(request(0.1, source="file a"))
    two.account("people").reserve(request(0.1, source="file b"))
    with pytest.raises(LedgerError, match="another file or schema"):
        two.account("people").reserve(request(0.1, source="file a"))


def test_what_was_admitted_stays_whatever_is_voided(two):
    two.admit("people", "{}", Origin("file a"))
    two.account("people").reserve(request(0.1, source="file a")).void("a reason")
    with pytest.raises(LedgerError, match="another file or schema"):
        two.account("people").reserve(request(0.1, source="file b"))


def test_marks_are_kept_once_and_as_long_as_a_reservation_needs_them(two, tmp_path):
    path = place(tmp_path, csv)
    origin = source_of(path)
    first, second = (two.account("people").reserve(request(0.1, source=origin)) for _ in range(2))
    bodies = [e.body for e in two.journal.entries() if e.kind == "reserve"]
    assert ["marks" in body for body in bodies] == [True, False]
    assert len(bodies[0]["marks"]) == 2
    first.void("a reason")
    with pytest.raises(LedgerError, match="already accounted for"):
        release(copied(path), ledger=two.account("double"), **TERMS)
    second.void("a reason")
    release(copied(path), ledger=two.account("double"), **TERMS)


def test_entries_of_a_version_that_knew_paths_only_are_recognised_by_them(two, tmp_path):
    path = place(tmp_path, csv)
    old = two.account("people").reserve(request(0.1, source=source_of(path).place))
    assert "marks" not in two.journal.about(old.number)[0].body
    with pytest.raises(LedgerError, match="already accounted for"):
        release(path, ledger=two.account("double"), **TERMS)


def test_no_mark_is_in_the_ledger_in_the_clear(two, tmp_path):
    path = place(tmp_path, csv)
    origin = source_of(path)
    release(path, ledger=two.account("people"), **TERMS)
    stored = (tmp_path / "budget.db").read_bytes()
    for text in (origin.place, *origin.marks, *origin.links, origin.marks[0].split()[-1]):
        assert text.encode() not in stored


def test_the_work_for_a_large_folder_is_bounded(tmp_path, monkeypatch):
    path = place(tmp_path, parquet)
    for i in range(5):
        parquet(path.with_name(f"{i}.parquet"), seed=i)
    monkeypatch.setattr(origins, "_FILES", 3)
    assert len(source_of(path.parent).marks) == 6


def test_the_ends_of_a_file_are_read_and_no_more(tmp_path):
    path, found = tmp_path / "large.bin", []
    for middle, end in ((b"x", b"z"), (b"y", b"z"), (b"x", b"y")):
        path.write_bytes(b"a" * (1 << 16) + middle * (1 << 16) + end * (1 << 16))
        found.append(source_of(path).marks)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("what", ["nothing", "empty", "an empty folder", "a pipe"])
def test_what_is_no_table_has_a_path_and_nothing_else(what, tmp_path):
    path = tmp_path / "x.csv"
    if what == "empty":
        path.write_bytes(b"")
    elif what == "an empty folder":
        path.mkdir()
    elif what == "a pipe":
        os.mkfifo(path)
    origin = source_of(path)
    assert origin.place == f"file {path.resolve()}"
    assert origin.marks == ()


def test_tables_in_memory_are_not_recognised(two):
    release(table(), ledger=two.account("people"), **TERMS)
    release(table(), ledger=two.account("double"), **TERMS)
