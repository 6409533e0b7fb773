"""The file of a stream: its mode, its lock, damage, strangers, and that nothing is drawn twice."""

import os
import sqlite3
import stat
import threading
import time

import numpy as np
import pytest

from sfumato.errors import StreamError
from sfumato.pipeline.stream import Stream
from sfumato.streams import running, store
from sfumato.streams.factorisation import Node
from sfumato.streams.store import StreamStore

ROWS = np.random.default_rng(3).random((50, 2))


def filled(made, periods=3, **more):
    stream = made(**more)
    for number in range(periods):
        stream.append(ROWS, period=f"day {number}")
    return stream


def test_the_file_is_for_its_owner_alone(made):
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        stream = made()
    finally:
        os.umask(before)
    assert stat.S_IMODE(stream.path.stat().st_mode) == 0o600
    assert list(stream.path.parent.iterdir()) == [stream.path]


def test_a_second_appender_is_refused_in_one_line(made):
    """While one holds the file; a reader is not."""
    stream = filled(made)
    with StreamStore(stream.path).writing():
        with pytest.raises(StreamError, match="another process is using it") as error:
            stream.append(ROWS, period="next")
        assert len(stream.periods) == 3
    assert "\n" not in str(error.value)
    assert stream.append(ROWS, period="next") == 4


def test_a_reader_does_not_undo_what_is_appended_meanwhile(made):
    """It is waited for when the period is stored, which may be long after its first row was read."""
    stream, reading = filled(made), threading.Event()

    def read():
        with StreamStore(stream.path).reading() as one:
            assert one.last().number == 3
            reading.set()
            time.sleep(0.3)

    thread = threading.Thread(target=read)
    thread.start()
    reading.wait(10)
    try:
        assert stream.append(ROWS, period="next") == 4
    finally:
        thread.join()


def test_a_place_that_has_a_measurement_never_gets_another(made):
    """By the primary key, whoever tries."""
    stream = filled(made)
    with pytest.raises(StreamError, match="UNIQUE"), StreamStore(stream.path).writing() as one:
        one.add_measurement(Node(2), np.zeros(one.size, np.int64), None)


def test_a_label_that_is_there_is_refused_before_anything_is_read(made):
    """So a call can be made again after a crash."""
    stream = filled(made)
    with pytest.raises(StreamError, match="'day 1' already, number 2: nothing was read or drawn"):
        stream.append(object(), period="day 1")


@pytest.mark.parametrize("method", ["square-root", "tree"])
def test_a_period_that_fails_leaves_nothing(made, monkeypatch, method):
    """An error after the exact sums, before the measurement: no period, no sums; the next call succeeds."""
    stream = filled(made, method=method)
    with StreamStore(stream.path).reading() as one:
        before = running.all_measurements(one, 3)
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.streams.store.Transaction.add_measurement", _fails)
        with pytest.raises(ZeroDivisionError):
            stream.append(ROWS, period="next")
    assert len(stream.periods) == 3
    assert stream.append(ROWS, period="next") == 4
    with StreamStore(stream.path).reading() as one:
        after = running.all_measurements(one, 4)
    assert all(np.array_equal(before[node], after[node]) for node in before)


def _fails(*_):
    raise ZeroDivisionError


def test_a_tree_keeps_few_exact_sums(made):
    """As many as t has ones in binary; the others are gone from the file, and overwritten."""
    stream = filled(made, 7, method="tree", horizon=8)
    connection = sqlite3.connect(stream.path)
    assert connection.execute("SELECT count(*) FROM sums").fetchone() == (3,)
    connection.close()
    stream.append(ROWS, period="last")
    connection = sqlite3.connect(stream.path)
    assert connection.execute("SELECT count(*) FROM sums").fetchone() == (1,)
    connection.close()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.77, 0.9, 0.999])
def test_a_file_that_was_cut_is_refused_in_one_line(made, share):
    """Wherever it was cut."""
    stream = filled(made, 8)
    whole = stream.path.read_bytes()
    stream.path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(StreamError) as error:
        stream.append(ROWS, period="next")
    assert "\n" not in str(error.value)


def test_damage_anywhere_is_found_or_harmless(made):
    """A byte changed here and there: publishing and appending refuse in one line, or nothing that matters changed."""
    stream = filled(made, 6)
    whole, good = stream.path.read_bytes(), stream.release().columns
    refused: list[str] = []
    for place in range(100, len(whole), 997):
        stream.path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = stream.release().columns
            stream.append(ROWS, period="next")
        except StreamError as error:
            refused.append(str(error))
        else:
            assert np.array_equal(found, good)
    assert len(refused) > 3
    assert not any("\n" in line for line in refused)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TRIGGER t AFTER INSERT ON periods BEGIN DELETE FROM sums; END",
        "CREATE VIEW v AS SELECT 1",
        "DROP TABLE sums",
        "UPDATE heading SET body = '{}'",
        "UPDATE heading SET body = replace(body, 'tree', 'bush')",
        "UPDATE heading SET body = replace(body, '\"horizon\":8', '\"horizon\":7')",
        'UPDATE heading SET body = replace(body, \'"scale":\', \'"scale":0.1,"was":\')',
        "UPDATE heading SET body = 7",
        "UPDATE sums SET body = x'00'",
        "UPDATE measurements SET body = zeroblob(1000000)",
        "UPDATE measurements SET decoded = x'0000'",
        "DELETE FROM measurements",
        "UPDATE periods SET rows = 'many'",
        "UPDATE periods SET number = -number",
    ],
)
def test_what_a_stranger_wrote_is_refused_in_one_line(made, change):
    """Other tables, triggers, numbers that are none, noise that does not keep the promise."""
    stream = filled(made, method="tree")
    connection = sqlite3.connect(stream.path)
    connection.execute(change)
    for (body,) in connection.execute("SELECT body FROM heading WHERE typeof(body) = 'text'").fetchall():
        connection.execute("UPDATE heading SET mark = ?", (store._digest("heading", body.encode()),))
    connection.commit()
    connection.close()
    with pytest.raises(StreamError) as error:
        _used(stream)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("method", ["square-root", "tree"])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE heading SET body = replace(body, '\"high\":1', '\"high\":3')",
        "UPDATE heading SET body = replace(body, '\"scale\":', '\"scale\":9')",
        "UPDATE periods SET rows = rows + 1 WHERE number = 1",
        "UPDATE periods SET label = 'day X' WHERE number = 4",
        "UPDATE measurements SET body = CAST(x'01' || substr(body, 2) AS BLOB)",
        "UPDATE measurements SET decoded = CAST(x'01' || decoded AS BLOB)",
        "UPDATE measurements SET decoded = CAST(x'01' || coalesce(substr(decoded, 2), '') AS BLOB)",
        "UPDATE measurements SET mark = CAST(x'01' || substr(mark, 2) AS BLOB)",
    ],
)
def test_nothing_is_published_of_what_was_damaged(made, method, change):
    """Whatever a publication says or is decoded from has a digest, what trees were decoded to as well."""
    stream = filled(made, 4, method=method)
    connection = sqlite3.connect(stream.path)
    last = 4 * 64 + (2 if method == "tree" else 0)
    connection.execute(change + (f" WHERE place = {last}" if "measurements" in change else ""))
    connection.commit()
    connection.close()
    with pytest.raises(StreamError, match="put a copy back only if nothing was appended since") as error:
        stream.release()
    assert "\n" not in str(error.value)


def _used(stream):
    stream.append(ROWS, period="next")
    stream.release()
    return stream.periods


def test_links_folders_and_other_files_are_no_streams(made, tmp_path):
    """A symbolic link is not followed."""
    stream = filled(made)
    (tmp_path / "link.stream").symlink_to(stream.path)
    (tmp_path / "text.stream").write_text("no stream " * 1000)
    (tmp_path / "empty.stream").touch()
    (tmp_path / "folder.stream").mkdir()
    for name in ("link", "text", "empty", "folder", "missing"):
        with pytest.raises(StreamError) as error:
            Stream(tmp_path / f"{name}.stream").append(ROWS, period="next")
        assert "\n" not in str(error.value)
    for name in ("link", "text", "folder"):
        with pytest.raises(StreamError, match="already exists"):
            made(f"{name}.stream")
