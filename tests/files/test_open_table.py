"""Tables: every kind of input gives the same blocks, in bounded memory, and no error tells about a cell."""

import enum
import gc
import io
import math
import subprocess
import sys
import traceback
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sfumato.errors import ParameterError, SchemaError
from sfumato.fileformat.writer import ParquetSink
from sfumato.files.open_table import open_table
from sfumato.files.source import Source, part_of, reblock
from sfumato.tables.columns import Category, Flag, Id, Real
from sfumato.tables.schema import Schema
from sfumato.tables.schema_draft import draft

SECRET = "4711.0815"  # noqa: S105 - a cell that no message may hold

PEOPLE = Schema([Real("age", 0, 120, missing=40), Flag("smoker"), Category("city", ["Bern", "Zürich", ""]), Id("who")])
NAMES = ["age", "smoker", "city"]
ROWS = 23


def people(rows=ROWS):
    rng = np.random.default_rng(1)
    ages = [None if i % 7 == 3 else float(a) for i, a in enumerate(rng.normal(50, 60, rows))]
    return pa.table(
        {
            "who": [f"p{i}" for i in range(rows)],
            "city": [("Bern", "Zürich", "Chur", None, "")[i % 5] for i in range(rows)],
            "age": ages,
            "smoker": [(True, False, None)[i % 3] for i in range(rows)],
            "born": pa.array([i * 86400 for i in range(rows)], pa.timestamp("s")),
        }
    )


def encoded(table, rows=5, schema=PEOPLE, names=NAMES):
    return np.concatenate([schema.encode(block) for block in table.blocks(names, rows)], axis=1)


def write_csv(path, table=None):
    pv.write_csv(people() if table is None else table, path, pv.WriteOptions(quoting_style="needed"))
    return path


def write_folder(path):
    path.mkdir()
    (path / "_SUCCESS").touch()
    (path / ".part-0.parquet.crc").touch()
    (path / "_metadata.parquet").write_bytes(b"not for us")
    for i, (start, stop) in enumerate([(0, 4), (4, 4), (4, 15), (15, ROWS)]):
        pq.write_table(people().slice(start, stop - start), path / f"part-{i}.parquet", row_group_size=3)
    return path


class Stream:
    """Something with the Arrow stream interface and nothing else."""

    def __arrow_c_stream__(self, requested_schema=None):
        return people().__arrow_c_stream__(requested_schema)


def polars_chunks():
    return pl.concat([pl.from_arrow(people().slice(0, 9)), pl.from_arrow(people().slice(9))], rechunk=False)


def dictionaries(start, stop):
    part = people().slice(start, stop - start)
    return part.set_column(1, "city", part["city"].dictionary_encode())


def write_parquet(path, table=None, **options):
    pq.write_table(people() if table is None else table, path, **options)
    return path


KINDS = {
    "csv": lambda folder: write_csv(folder / "people.csv"),
    "csv as text path": lambda folder: str(write_csv(folder / "people.CSV")),
    "parquet": lambda folder: write_parquet(folder / "people.parquet", row_group_size=4),
    "one row group": lambda folder: write_parquet(folder / "people.parquet", compression="zstd"),
    "parquet folder": lambda folder: write_folder(folder / "people.parquet"),
    "arrow table": lambda _: people(),
    "arrow chunks": lambda _: pa.concat_tables([people().slice(0, 9), people().slice(9, 0), people().slice(9)]),
    "arrow dictionaries": lambda _: pa.concat_tables([dictionaries(0, 9), dictionaries(9, ROWS)]),
    "arrow batch": lambda _: people().combine_chunks().to_batches()[0],
    "arrow reader": lambda _: people().to_reader(),
    "arrow stream": lambda _: Stream(),
    "pandas": lambda _: people().to_pandas(),
    "pandas objects": lambda _: people().to_pandas().astype(object),
    "pandas nullable": lambda _: people().to_pandas().convert_dtypes(),
    "pandas arrow": lambda _: people().to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categories": lambda _: people().to_pandas().astype({"city": "category"}),
    "pandas reversed index": lambda _: people().to_pandas().set_index(pd.Index(range(ROWS, 0, -1))),
    "polars": lambda _: pl.from_arrow(people()),
    "polars categories": lambda _: pl.from_arrow(people()).with_columns(pl.col("city").cast(pl.Categorical)),
    "polars chunks": lambda _: polars_chunks(),
    "polars category chunks": lambda _: polars_chunks().with_columns(pl.col("city").cast(pl.Categorical)),
    "numpy objects": lambda _: people().select(NAMES).to_pandas().to_numpy(dtype=object),
    "opened already": lambda _: open_table(people()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_gives_the_same_matrix(kind, tmp_path):
    table = open_table(KINDS[kind](tmp_path), PEOPLE)
    assert np.array_equal(encoded(table), PEOPLE.encode(people()))
    assert np.array_equal(encoded(table, rows=1000), PEOPLE.encode(people()))  # again, and whole
    assert table.rows == (None if "csv" in kind else ROWS)
    assert str(ROWS) not in table.description
    assert str(tmp_path) not in table.description


NUMBERS = np.random.default_rng(2).integers(0, 5, (ROWS, 6)).astype(float) * (np.arange(ROWS) % 3 > 0)[:, None]
MATRIX = Schema([Real("a", 0, 4), Id("label"), *(Real(name, 0, 4) for name in "bcdef")])
MATRICES = {
    "rows first": lambda x: x,
    "columns first": np.asfortranarray,
    "single": lambda x: x.astype(np.float32),
    "half": lambda x: x.astype(np.float16),
    "extended": lambda x: x.astype(np.longdouble),
    "swapped bytes": lambda x: x.astype(">f8"),
    "integers": lambda x: x.astype(np.int16),
    "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2],
    "texts": lambda x: x.astype(str),
    "string dtype": lambda x: x.astype(str).astype(np.dtypes.StringDType()),
    "matrix": np.asmatrix,
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "old csr": sparse.csr_matrix,
    "pandas": lambda x: pd.DataFrame(x, columns=list("abcdef")),
    "pandas sparse": lambda x: pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(x), columns=list("abcdef")),
    "polars": lambda x: pl.DataFrame(x, schema=list("abcdef"), orient="row"),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("kind", MATRICES)
def test_every_kind_of_matrix_gives_the_same_matrix(kind):
    table = open_table(MATRICES[kind](NUMBERS), MATRIX)
    assert np.array_equal(encoded(table, 7, MATRIX, list("abcdef")), NUMBERS.T)
    assert table.schema.names == list("abcdef")
    assert table.rows == ROWS
    (block,) = table.blocks(["e", "b"], ROWS)
    assert block.schema.names == ["e", "b"]
    assert np.array_equal(block.column(1).cast(pa.float64()), NUMBERS[:, 1])


def test_matrices_without_a_schema_have_the_names_of_a_plain_one():
    schema = Schema.reals(6, 0, 4)
    names = [f"c{j}" for j in range(6)]
    for matrix in (NUMBERS, sparse.csr_array(NUMBERS)):
        assert np.array_equal(encoded(open_table(matrix), 9, schema, names), NUMBERS.T)


def test_masked_cells_and_booleans_are_read():
    masked = np.ma.MaskedArray(NUMBERS, mask=NUMBERS == 2)
    expected = np.where(NUMBERS == 2, 0, NUMBERS).T
    for matrix in (masked, masked.astype(object)):
        assert np.array_equal(encoded(open_table(matrix, MATRIX), 7, MATRIX, list("abcdef")), expected)
    assert np.array_equal(encoded(open_table(NUMBERS > 1, MATRIX), 7, MATRIX, list("abcdef")), (NUMBERS > 1).T)


@pytest.mark.parametrize(
    ("matrix", "named"),
    [
        (np.zeros((3, 5)), "the numpy array has 5 columns where the schema has 6"),
        (sparse.csr_array((3, 7)), "the sparse matrix has 7 columns where the schema has 6"),
        (np.zeros(6), "two-dimensional"),
        (np.zeros((2, 6, 2)), "3 dimensions"),
        (np.zeros((2, 6), complex), "type complex128"),
        (np.zeros(3, [("a", float)]), "two-dimensional"),
        (sparse.coo_array(np.ones(6)), "two-dimensional"),
    ],
)
def test_matrices_of_the_wrong_form_are_refused(matrix, named):
    with pytest.raises(SchemaError, match=named):
        open_table(matrix, MATRIX)


def test_odd_cells_of_a_pandas_column_do_not_change_the_others():
    cells = [
        1.5,
        "2.5",
        True,
        None,
        float("nan"),
        pd.NA,
        pd.NaT,
        b"3.5",
        b"\xff",
        "\ud800",
        SECRET,
        object(),
        4,
        [5],
        np.int8(6),
    ]
    column = Schema([Real("x", 0, 9, missing=7)])
    read = encoded(open_table(pd.DataFrame({"x": pd.Series(cells, dtype=object)})), 100, column, ["x"])
    assert read.tolist() == [[1.5, 2.5, 1, 7, 7, 7, 7, 3.5, 7, 7, 4711.0815, 7, 4, 7, 6]]
    for i, cell in enumerate(cells):
        frame = pd.DataFrame({"x": pd.Series([cell], dtype=object)})
        assert encoded(open_table(frame), 1, column, ["x"])[0, 0] == read[0, i]


def test_pandas_names_and_mixed_categories():
    frame = pd.DataFrame({0: [1.0, 2.0], "city": pd.Categorical(["Bern", 3]), 1j: [1, 2]})
    schema = Schema([Real("0", 0, 2), Category("city", ["Bern", 3])])
    table = open_table(frame)
    assert table.schema.names == ["0", "city", "1j"]
    assert encoded(table, 1, schema, ["0", "city"]).tolist() == [[1, 2], [1, 0], [0, 1]]


# ---- blocks ---------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12))
def test_reblocking_keeps_rows_and_order(sizes, rows):
    ends = np.cumsum(sizes)
    batches = [pa.record_batch({"x": np.arange(e - s, e), "t": [str(e)] * s}) for s, e in zip(sizes, ends, strict=True)]
    blocks = list(reblock(batches, rows))
    total = sum(sizes)
    assert [b.num_rows for b in blocks] == [min(rows, total - a) for a in range(0, total, rows)]
    assert [x for b in blocks for x in b["x"].to_pylist()] == list(range(total))


def test_reblocking_reads_no_further_than_it_must():
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield pa.record_batch({"x": [len(taken)] * 10})

    blocks = reblock(endless(), 25)
    for count in range(1, 20):
        next(blocks)
        assert len(taken) == math.ceil(25 * count / 10)


@pytest.mark.parametrize("kind", ["csv", "parquet", "parquet folder", "arrow chunks", "arrow dictionaries", "pandas"])
def test_the_layout_of_the_source_does_not_show_in_the_blocks(kind, tmp_path):
    table = open_table(KINDS[kind](tmp_path), PEOPLE)
    for rows in (1, 2, 7, 22, 23, 24):
        sizes = [block.num_rows for block in table.blocks(NAMES, rows)]
        assert sizes == [rows] * (ROWS // rows) + [ROWS % rows] * (ROWS % rows > 0)
        assert np.array_equal(encoded(table, rows), PEOPLE.encode(people()))


def peak_of(batches):
    gc.collect()
    before, peak, count = pa.total_allocated_bytes(), 0, 0
    for batch in batches:
        peak, count = max(peak, pa.total_allocated_bytes() - before), count + batch.num_rows
    return peak, count


@pytest.mark.parametrize("group", [1 << 14, 1 << 20])
def test_memory_does_not_grow_with_the_rows_of_a_parquet_file(tmp_path, group, monkeypatch):
    monkeypatch.setattr("sfumato.files.parquet_files._SMALL_GROUP", 1 << 20)
    path, rows = tmp_path / "long.parquet", 1 << 19
    columns = {name: np.random.default_rng(0).normal(size=rows) for name in "abcdefgh"}  # 32 MB
    write_parquet(path, pa.table(columns), row_group_size=group, use_dictionary=False, compression="none")
    peak, count = peak_of(open_table(path).blocks(list("abcdefgh"), 1 << 12))
    assert count == rows
    assert peak < 6 << 20
    with pq.ParquetFile(path, pre_buffer=True) as careless:
        peak, count = peak_of(careless.iter_batches(batch_size=1 << 12))
    assert count == rows
    assert peak > 30 << 20


def test_memory_does_not_grow_with_the_rows_of_a_csv_file(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.files.csv_files._BLOCK", 1 << 16)
    path = tmp_path / "long.csv"
    with path.open("w") as file:
        file.write("a,b,c\n")
        for _ in range(400):
            file.write("12345.678901,23456.789012,34567.890123\n" * 1000)  # 16 MB
    peak, count = peak_of(open_table(path).blocks(["a", "b"], 1 << 12))
    assert count == 400_000
    assert peak < 6 << 20


def test_damage_at_the_end_of_a_file_is_met_only_at_the_end(tmp_path, monkeypatch):
    """Laziness: the first blocks are there before the last are read."""
    monkeypatch.setattr("sfumato.files.csv_files._BLOCK", 1 << 14)
    columns = {"a": np.arange(200_000.0), "b": np.arange(200_000.0)}
    csv = write_csv(tmp_path / "a.csv", pa.table(columns))
    csv.write_bytes(csv.read_bytes() + f"1,{SECRET},3\n".encode())
    parquet = write_parquet(tmp_path / "a.parquet", pa.table(columns), row_group_size=50_000, compression="zstd")
    damaged = bytearray(parquet.read_bytes())
    start = pq.ParquetFile(parquet).metadata.row_group(3).column(0).file_offset or len(damaged) * 7 // 8
    damaged[start : start + 2000] = bytes(2000)
    parquet.write_bytes(bytes(damaged))
    for path in (csv, parquet):
        blocks = open_table(path).blocks(["a", "b"], 1000)
        assert next(blocks).num_rows == 1000
        with pytest.raises(SchemaError, match="cannot be read to its end"):
            list(blocks)


def test_sparse_matrices_are_made_dense_one_block_at_a_time():
    wide = sparse.csr_array((1_000_000, 1000))  # dense: 8 GB
    blocks = open_table(wide).blocks(["c0", "c999"], 100)
    assert next(blocks).num_rows == 100


@pytest.mark.parametrize("rows", [0, -1, 2.5, True])
def test_blocks_need_a_whole_number_of_rows(rows):
    with pytest.raises(ParameterError, match="rows="):
        open_table(people()).blocks(["age"], rows)


def test_blocks_need_columns_that_are_there():
    table = open_table(people())
    with pytest.raises(ParameterError, match="columns"):
        table.blocks([], 5)
    with pytest.raises(ParameterError, match="columns"):
        table.blocks("age", 5)
    with pytest.raises(SchemaError, match="arrow table: the table has no columns 'aeg', 'who2'"):
        table.blocks(["aeg", "age", "who2"], 5)
    twice = open_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))
    with pytest.raises(SchemaError, match="'a' is there more than once"):
        twice.blocks(["a"], 5)


def test_empty_tables_have_no_blocks(tmp_path):
    empty = people().slice(0, 0)
    sources = [empty, empty.to_pandas(), pl.from_arrow(empty), write_parquet(tmp_path / "e.parquet", empty)]
    for source in [*sources, write_csv(tmp_path / "e.csv", empty)]:
        assert list(open_table(source).blocks(NAMES, 5)) == []
    assert list(open_table(np.zeros((0, 6)), MATRIX).blocks(["a"], 5)) == []


# ---- CSV ------------------------------------------------------------------------------------------------------------


def csv_of(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_table(path)


def test_a_csv_cell_cannot_fail_however_late_it_is_odd(tmp_path):
    body = "age,smoker,city\n" + "30,true,Bern\n" * 200_000 + f'{SECRET}x,maybe,"Zürich"\n'
    read = encoded(csv_of(tmp_path, body), 50_000)
    assert read[:, -1].tolist() == [40, 0, 0, 1, 0]
    assert read[0, :-1].tolist() == [30] * 200_000


def test_csv_quotes_newlines_marks_and_foreign_bytes(tmp_path):
    schema = Schema([Category("a", ["x\ny", 'q"q', "", "NA"]), Real("b", 0, 9, missing=9)])
    body = b'\xef\xbb\xbfa,b\r\n"x\ny",1\r\n"q""q",\r\n"",2\r\n,3\r\nNA,NA\r\n\r\nZ\xfcrich,4\r\n'
    read = encoded(csv_of(tmp_path, body), 2, schema, ["a", "b"])
    assert read.T.tolist() == [
        [1, 0, 0, 0, 1],
        [0, 1, 0, 0, 9],
        [0, 0, 1, 0, 2],
        [0, 0, 0, 0, 3],
        [0, 0, 0, 1, 9],
        [0, 0, 0, 0, 4],
    ]


def test_a_csv_file_of_pandas_is_read_as_the_frame_is(tmp_path):
    schema = Schema([PEOPLE.columns[0], PEOPLE.columns[1], Category("city", ["Bern", "Zürich"])])
    frame = people().to_pandas()  # pandas writes an empty text and a missing one alike
    assert np.array_equal(encoded(csv_of(tmp_path, frame.to_csv()), 5, schema), encoded(open_table(frame), 5, schema))


def test_an_empty_line_is_a_row_where_there_is_one_column(tmp_path):
    assert encoded(csv_of(tmp_path, "a\n1\n\n3\n"), 5, Schema([Real("a", 0, 9, missing=5)]), ["a"]).tolist() == [
        [1, 5, 3]
    ]


def test_the_types_of_a_csv_file_serve_a_draft(tmp_path):
    table = csv_of(tmp_path, f"n,x,f,t\n1,{SECRET},true,a\n")
    text = draft(table.schema)
    assert [line for line in text.splitlines() if line.startswith("kind")] == [
        'kind = "integer"',
        'kind = "real"',
        'kind = "flag"',
        'kind = "category"',
    ]
    assert SECRET not in text


# ---- errors ---------------------------------------------------------------------------------------------------------


def everything_said(error):
    """The whole text of an error, its traceback and what it was chained to."""
    said, seen = "", error
    while seen is not None:
        said += str(seen) + repr(seen.args)
        seen = seen.__cause__ or seen.__context__
    return said + "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "body",
    [
        f"a,b\n1,{SECRET},3\n",
        f"a,b\n{SECRET}\n",
        f"a,b\n1,2\n{SECRET}",
        f"a\xff,b\n1,{SECRET}\n".encode("latin-1"),
        f"a,b\n1,{SECRET}\n".encode("utf-16"),
        b"",
    ],
)
def test_no_error_about_a_csv_file_holds_a_cell(tmp_path, body):
    with pytest.raises(SchemaError) as caught:
        list(csv_of(tmp_path, body).blocks(["a", "b"], 10))
    assert SECRET not in everything_said(caught.value)
    assert "t.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_search_for_cells_in_errors_finds_one_that_is_chained():
    def careless():
        try:
            pv.read_csv(io.BytesIO(f"a,b\n1,{SECRET},3\n".encode()))
        except pa.ArrowInvalid:
            raise SchemaError("harmless") from None

    with pytest.raises(SchemaError) as caught:
        careless()
    assert SECRET in everything_said(caught.value)


def test_objects_that_cannot_be_read_are_refused_without_their_content():
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise pa.ArrowInvalid("cannot convert " + SECRET)

    for thing in (Broken(), [[SECRET]], {"a": [SECRET]}, None, 3.5, io.StringIO(SECRET), pl.Series([SECRET])):
        with pytest.raises(SchemaError) as caught:
            list(open_table(thing).blocks(["a"], 1))
        assert SECRET not in everything_said(caught.value)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("nowhere.csv", "no such file"),
        ("table.doc", r"a table is read from CSV"),
        ("table", r"a table is read from CSV"),
        ("text.parquet", "not a Parquet file"),
        ("empty", r"there is no \.parquet file"),
        ("nested", "put them all in one folder"),
        ("unlike", r"b\.parquet: its columns have other names than"),
        ("broken", "not a Parquet file"),
    ],
)
def test_paths_that_lead_to_no_table_are_refused(tmp_path, name, named):
    for file in ("table.doc", "table", "text.parquet"):
        (tmp_path / file).write_text(SECRET)
    for folder in ("empty", "nested/month=3", "unlike", "broken"):
        (tmp_path / folder).mkdir(parents=True)
    write_parquet(tmp_path / "nested/month=3/a.parquet")
    write_parquet(tmp_path / "unlike/a.parquet")
    write_parquet(tmp_path / "unlike/b.parquet", people().rename_columns(list("abcde")))
    write_parquet(tmp_path / "broken/a.parquet")
    (tmp_path / "broken/b.parquet").write_text(SECRET)
    with pytest.raises(SchemaError, match=named) as caught:
        open_table(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert SECRET not in everything_said(caught.value)


def test_a_table_is_opened_and_drafted_without_its_values(tmp_path):
    """Of a Parquet file only the footer is needed: the pages may as well be noise."""
    path = write_parquet(tmp_path / "people.parquet")
    before = draft(open_table(path).schema)
    content = bytearray(path.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:footer] = np.random.default_rng(0).bytes(footer - 4)
    path.write_bytes(bytes(content))
    assert draft(open_table(path).schema) == before
    with pytest.raises(SchemaError):
        list(open_table(path).blocks(NAMES, 5))


def test_pandas_and_polars_are_not_imported_for_those_who_do_not_use_them():
    code = "import sys, sfumato.files.open_table; print([m for m in ('pandas', 'polars') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
    for path in Path(sys.modules["sfumato.files.open_table"].__file__).parent.glob("*.py"):
        names = ("pandas", "polars") if path.name == "edges.py" else ("pandas", "polars", "scipy")
        assert not any(f"import {name}" in path.read_text() for name in names)


def test_a_table_does_not_show_its_rows():
    table = open_table(pa.table({"a": [SECRET]}))
    assert isinstance(table, Source)
    assert SECRET not in repr(table)
    with pytest.raises(AttributeError):
        table.rows = 3


# ---- writing --------------------------------------------------------------------------------------------------------


def test_a_sink_writes_what_it_is_given_without_minima_and_maxima(tmp_path):
    path = tmp_path / "out.parquet"
    table = people().select(["who", "age"])
    with ParquetSink(path, table.schema) as sink:
        for batch in table.to_batches(max_chunksize=10):
            sink.write(batch)
    assert pq.read_table(path).equals(table)
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [group.column(j).is_stats_set for j in (0, 1)] == [False, False]
    assert [group.column(j).has_dictionary_page for j in (0, 1)] == [True, False]
    assert group.column(1).compression == "UNCOMPRESSED"


def test_a_sink_gathers_batches_into_row_groups(tmp_path, monkeypatch):
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(1000.0))], names=["z"])
    monkeypatch.setattr("sfumato.fileformat.writer._ROW_GROUP", 3 * batch.nbytes)
    with ParquetSink(tmp_path / "out.parquet", batch.schema) as sink:
        for _ in range(8):
            sink.write(batch)
    found = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [3000, 3000, 2000]
    assert pq.read_table(tmp_path / "out.parquet").equals(pa.Table.from_batches([batch] * 8))
    assert sink.written["bytes"] == (tmp_path / "out.parquet").stat().st_size


def test_a_sink_leaves_nothing_behind_an_error(tmp_path):
    def interrupted():
        with ParquetSink(tmp_path / "out.parquet", people().schema) as sink:
            sink.write(people().to_batches()[0])
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def repr_or_type(value):
    return type(value).__name__


class City(str, enum.Enum):  # noqa: UP042 - StrEnum prints otherwise
    BERN = "Bern"


class Unprintable:
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "cell",
    [City.BERN, bytearray(b"Bern"), memoryview(b"Bern"), b"\xff", Decimal("NaN"), Decimal("sNaN"), float("nan"), None,
     np.float32("nan"), np.str_("Bern"), True, np.bool_(True), 5, "\ud800", Unprintable(), (1, 2), pd.NA],
    ids=repr_or_type,
)  # fmt: skip
@pytest.mark.parametrize("company", [5, None, "x", b"y", 1.5, Unprintable()], ids=repr_or_type)
def test_an_odd_cell_does_not_change_how_others_are_read(cell, company):
    """In a column of objects one record's cell must not reach another's: it would move more than its own."""
    schema = Schema([Category("c", ["Bern", "Basel"], missing="Basel")])

    def read(cells):
        column = np.empty((len(cells), 1), object)
        column[:, 0] = cells
        encoded = [schema.encode(b)[:, 0] for b in open_table(column, schema).blocks(["c"], 100)]
        frame = pd.DataFrame({"c": pd.Series(list(cells), dtype=object)})
        encoded += [schema.encode(b)[:, 0] for b in open_table(frame, schema).blocks(["c"], 100)]
        return np.array(encoded)

    assert (read([cell]) == read([cell, company])).all()


def test_dictionaries_that_outgrow_their_indices_are_read():
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), pa.array([f"{p}{i}" for i in range(100)]))
        for p in "ab"
    ]
    table = pa.table({"c": pa.chunked_array(chunks)})
    schema = Schema([Category("c", ["a0", "b99"])])
    encoded = np.concatenate([schema.encode(b) for b in open_table(table, schema).blocks(["c"], 150)], axis=1)
    assert encoded.sum() == 2
    assert encoded[1, 199] == 1


# ---- ranges of rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [0, 1 << 26])
def test_any_range_of_rows_can_be_read_by_itself(tmp_path, small, monkeypatch):
    monkeypatch.setattr("sfumato.files.parquet_files._SMALL_GROUP", small)
    lengths = [10, 0, 1, 23, 7]
    numbers = np.arange(sum(lengths))
    for i, stop in enumerate(np.cumsum(lengths)):
        part = pa.table({"a": numbers[stop - lengths[i] : stop]})
        write_parquet(tmp_path / f"{i}.parquet", part, row_group_size=4)
    table = open_table(tmp_path)
    for start in range(numbers.size + 1):
        for stop in range(start, numbers.size + 1):
            some = table.within(start, stop)
            found = [number for block in some.blocks(["a"], 3) for number in block.column(0).to_pylist()]
            assert found == list(range(start, stop))
            assert some.rows == stop - start
    again = table.within(5, 30).within(4, 100)
    assert [b.column(0).to_pylist() for b in again.blocks(["a"], 100)] == [list(range(9, 30))]


@pytest.mark.parametrize("decoded", [1, 100, 1 << 22])
def test_however_many_columns_are_decoded_at_once(tmp_path, decoded, monkeypatch):
    """Arrow also gives the columns whose names go on after a dot."""
    monkeypatch.setattr("sfumato.files.parquet_files._DECODED", decoded)
    names = ["x", "x.y", "a", "a.b.c", "x.y.z", "b"]
    rows = np.arange(60).reshape(10, 6)
    write_parquet(tmp_path / "t.parquet", pa.table(dict(zip(names, rows.T, strict=True))), row_group_size=4)
    table = open_table(tmp_path / "t.parquet")
    for wanted in (names, names[::-1], ["x"], ["a", "x", "b"], ["x.y.z", "a.b.c"]):
        blocks = list(table.blocks(wanted, 3))
        assert all(block.schema.names == wanted for block in blocks)
        found = [[number for block in blocks for number in block.column(i).to_pylist()] for i in range(len(wanted))]
        assert found == [rows[:, names.index(name)].tolist() for name in wanted]


@pytest.mark.parametrize("small", [0, 1 << 26])
def test_blocks_are_of_the_types_of_the_file(tmp_path, small, monkeypatch):
    monkeypatch.setattr("sfumato.files.parquet_files._SMALL_GROUP", small)
    monkeypatch.setattr("sfumato.files.parquet_files._DECODED", 1)
    fields = [pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.float32(), metadata={"unit": "m"})]
    said = pa.schema(fields, metadata={"made": "by hand"})
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}, schema=said), tmp_path / "t.parquet")
    (block,) = open_table(tmp_path / "t.parquet").blocks(["a", "b"], 3)
    assert block.schema.equals(pq.read_schema(tmp_path / "t.parquet"), check_metadata=True)


def test_other_sources_are_not_read_from_the_middle():
    table = open_table(np.zeros((3, 1)))
    assert not table.divisible
    with pytest.raises(SchemaError, match="only Parquet files"):
        table.within(0, 1)


def test_a_file_that_is_written_anew_while_it_is_read_is_refused(tmp_path):
    for name in "ab":
        write_parquet(tmp_path / f"{name}.parquet", pa.table({"a": np.arange(24)}), row_group_size=8)
    table = open_table(tmp_path)
    write_parquet(tmp_path / "b.parquet", pa.table({"a": np.arange(48)}), row_group_size=8)
    with pytest.raises(SchemaError, match="written anew"):
        list(table.blocks(["a"], 8))
    assert [b.num_rows for b in table.within(0, 24).blocks(["a"], 8)] == [8, 8, 8]


def test_files_are_found_whatever_the_case_of_their_suffix_and_hidden_ones_are_not(tmp_path):
    for name in ("b.PARQUET", "a.parquet", ".c.parquet", "_d.parquet"):
        write_parquet(tmp_path / name, pa.table({"a": [1]}))
    (tmp_path / ".out.copy" / "rows").mkdir(parents=True)
    write_parquet(tmp_path / ".out.copy" / "rows" / "e.parquet", pa.table({"a": [1]}))
    assert open_table(tmp_path).rows == 2


def test_a_relative_path_is_that_of_where_the_table_was_opened(tmp_path, monkeypatch):
    write_parquet(tmp_path / "a.parquet", pa.table({"a": [1, 2]}))
    monkeypatch.chdir(tmp_path)
    table = open_table("a.parquet")
    monkeypatch.chdir("/")
    assert [b.num_rows for b in table.blocks(["a"], 8)] == [2]


def test_parts_go_by_views_of_texts_too():
    table = pa.table({"city": pa.array(["Bern", "Basel", "Bern"], pa.string_view()), "a": [1, 2, 3]})
    part = part_of(open_table(table), "city", "Bern")
    assert [b.column(1).to_pylist() for b in part.blocks(["city", "a"], 8)] == [[1, 3]]
