"""Arrow files and streams: what is damaged is refused before it is followed, and a stream is asked for once."""

import io
import os

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

from sfumato.errors import SchemaError
from sfumato.files import arrow_files
from sfumato.files.open_table import open_table
from sfumato.files.spool import Spool
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema

SECRET = "4711.0815"  # noqa: S105 - a cell that no message may hold


class Query:
    """A stream that gives other rows each time that it is asked for, as a query may."""

    def __init__(self, batches=5):
        self.asked, self.batches = 0, batches

    def __arrow_c_stream__(self, requested_schema=None):
        self.asked += 1
        rng = np.random.default_rng(self.asked)
        batches = [pa.record_batch({"x": rng.normal(size=100), "t": ["a", "b"] * 50}) for _ in range(self.batches)]
        return pa.RecordBatchReader.from_batches(batches[0].schema, batches).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("in_memory", [0, 2000, 1 << 26])
def test_a_stream_is_asked_for_once_however_often_it_is_read(in_memory, monkeypatch):
    monkeypatch.setattr(arrow_files, "_IN_MEMORY", in_memory)
    query = Query()
    table = open_table(query)
    first, again = ([row for block in table.blocks(["t", "x"], 70) for row in block.to_pylist()] for _ in range(2))
    assert first == again
    assert (query.asked, table.rows, len(first)) == (1, 500, 500)
    assert table.description.endswith("Query")
    both = zip(table.blocks(["x"], 64), table.blocks(["x"], 64), strict=True)  # side by side, as ids are
    assert all(one.equals(other) for one, other in both)


def test_a_large_stream_is_not_held_in_memory(monkeypatch):
    monkeypatch.setattr(arrow_files, "_IN_MEMORY", 1 << 18)
    schema = pa.schema([("x", pa.float64())])
    before, peak = pa.total_allocated_bytes(), 0
    batches = (pa.record_batch([pa.nulls(1 << 14, pa.float64())], schema=schema) for _ in range(100))  # 13 MB
    table = open_table(pa.RecordBatchReader.from_batches(schema, batches))
    for _ in table.blocks(["x"], 1 << 12):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert table.rows == 100 << 14
    assert peak < 2 << 20


def test_a_stream_whose_dictionaries_change_is_kept(monkeypatch):
    monkeypatch.setattr(arrow_files, "_IN_MEMORY", 0)
    parts = [pa.record_batch({"t": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["c"], ["b", "d"])]
    table = open_table(pa.RecordBatchReader.from_batches(parts[0].schema, parts))
    (block,) = table.blocks(["t"], 10)
    assert block.column(0).to_pylist() == ["a", "b", "c", "b", "d"]


def test_a_stream_that_fails_is_refused_without_its_words():
    def failing():
        yield pa.record_batch({"x": [1.0]})
        raise ValueError(SECRET)

    for reader in (pa.RecordBatchReader.from_batches(pa.schema([("x", pa.float64())]), failing()), Failing()):
        with pytest.raises(SchemaError, match="cannot be converted") as caught:
            open_table(reader)
        assert SECRET not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


class Failing:
    def __arrow_c_stream__(self, requested_schema=None):
        raise RuntimeError(SECRET)


def test_a_duckdb_relation_is_read():
    duckdb = pytest.importorskip("duckdb")
    schema = Schema([Real("x", 0, 100_000), Category("t", ["a", "b"])])
    relation = duckdb.connect().sql(
        "select range::double as x, case range % 2 when 0 then 'a' end as t from range(100000)"
    )
    table = open_table(relation, schema)
    read = np.concatenate([schema.encode(block) for block in table.blocks(["x", "t"], 4096)], axis=1)
    assert np.array_equal(read[0], np.arange(100_000))
    assert read[1].sum() == 50_000
    assert "duckdb" in table.description


def test_a_polars_frame_is_not_copied(monkeypatch):
    monkeypatch.setattr("sfumato.files.open_table.kept", None)
    assert open_table(pl.DataFrame({"x": [1.0, 2.0]})).rows == 2


# ---- files ----------------------------------------------------------------------------------------------------------


def stored(table, new=pa.ipc.new_file):
    sink = io.BytesIO()
    with new(sink, table.schema) as file:
        file.write_table(table)
    return bytearray(sink.getvalue())


def refused(tmp_path, content, columns):
    path = tmp_path / "t.arrow"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match="damaged") as caught:
        list(open_table(path).blocks(columns, 5))
    assert caught.value.__context__ is None
    return True


def test_cells_that_lead_out_of_their_buffer_are_refused(tmp_path):
    far = (1 << 30).to_bytes(4, "little")
    texts = stored(pa.table({"t": ["first", "second"]}))
    place = texts.index((5).to_bytes(4, "little") + (11).to_bytes(4, "little"))
    texts[place : place + 4] = far
    assert refused(tmp_path, texts, ["t"])
    words = stored(
        pa.table({"t": pa.DictionaryArray.from_arrays(pa.array([7, 7, 7], pa.int32()), pa.array(["w"] * 8))})
    )
    place = words.index((7).to_bytes(4, "little") * 3)
    words[place : place + 4] = far
    assert refused(tmp_path, words, ["t"])


def test_views_of_missing_cells_are_not_followed(tmp_path):
    """Arrow does not validate them, and ends the process when it casts them."""
    views = stored(pa.table({"t": pa.array(["x", None, "longer than twelve letters"], pa.string_view())}))
    place = views.index(b"\1\0\0\0x" + bytes(11)) + 16
    assert views[place : place + 16] == bytes(16)
    views[place : place + 4] = b"\0\0\0\xdc"
    path = tmp_path / "t.arrow"
    path.write_bytes(views)
    schema = Schema([Category("t", ["x"])])
    (block,) = open_table(path).blocks(["t"], 5)
    assert schema.encode(block).tolist() == [[1, 0, 0]]


def test_a_text_that_is_not_utf8_is_a_cell_like_others(tmp_path):
    content = stored(pa.table({"t": ["Bern", "Zuri"], "d": pa.array(["Bern", "Chur"]).dictionary_encode()}))
    content = content.replace(b"Zuri", b"Z\xfcri").replace(b"Chur", b"C\xff\xffr")
    path = tmp_path / "t.arrow"
    path.write_bytes(content)
    schema = Schema([Category("t", ["Bern"]), Category("d", ["Bern"])])
    (block,) = open_table(path).blocks(["t", "d"], 5)
    assert schema.encode(block).tolist() == [[1, 0], [1, 0]]


def test_types_of_arrow_pass_through(tmp_path):
    import datetime as dt  # noqa: PLC0415

    table = pa.table(
        {
            "day": [dt.date(2020, 1, 31)],
            "time": pa.array([dt.datetime(2020, 1, 31, 12)], pa.timestamp("us", "UTC")),  # noqa: DTZ001
            "list": [[1.0, 2.0]],
            "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "set": [["a", "b"]],
        }
    )
    path = tmp_path / "t.feather"
    path.write_bytes(stored(table))
    for source in (path, table.to_reader()):
        opened = open_table(source)
        assert opened.schema == table.schema
        (block,) = opened.blocks(table.schema.names, 5)
        assert pa.Table.from_batches([block]).equals(table)


# ---- spools ---------------------------------------------------------------------------------------------------------


def test_a_spool_has_no_name_and_is_its_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spool = Spool()
    with spool.writing("a test") as file:
        file.write(b"0123456789")
        assert list(tmp_path.iterdir()) == []
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
        assert os.fstat(file.fileno()).st_dev == tmp_path.stat().st_dev
    first, second = spool.open(), spool.open()
    assert (first.read(4), second.read(2), first.read(), second.read()) == (b"0123", b"01", b"456789", b"23456789")
    assert (first.seek(-3, io.SEEK_END), first.read()) == (7, b"789")
    number = spool.descriptor
    del spool, first, second, file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_full_disk_is_said_in_words():
    spool = Spool()
    with (
        pytest.raises(SchemaError, match=r"standard input cannot be kept in .* set TMPDIR"),
        spool.writing("standard input"),
    ):
        raise OSError(28, "No space left on device")
    with pytest.raises(OSError, match="of Arrow"), spool.writing("standard input"):
        raise OSError("of Arrow")
