"""CSV files in pieces: however a file is cut, and whichever way a piece is read, a cell means what its text means."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.files import csv_files
from sfumato.files.open_table import open_table
from sfumato.files.source import part_of
from sfumato.files.table_file import TableFile
from sfumato.pipeline.fitting import compare
from sfumato.tables import cells
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema

X = Real("x", -5, 5, missing=4)
SCHEMA = Schema([X, Category("t", ["a", "1", "", "NA", "a b"])])
NAMES = ["x", "t"]
ODD = [
    *(" 1.5", "+3", ".5", "5.", "1e400", "-1e400", "1e-400", "inf", "-Infinity", "nan", "-nan", "nan(1)", "NA", "null"),
    *("0x10", "0x1p3", "1_000", "\u0661\u0662", "\uff11", "", " ", "\t1", "1 ", "1\x0b", "\x0c1", "1\x00", "1e", "1e+"),
    *("e5", "-", "+", ".", "1.5.5", "1,5", "1d5", "1f", "\ufeff1", "\u00a01", "true", "9007199254740993", "--1", "+-1"),
    *(
        "2.4703282292062328e-324",
        "0" * 400 + "1",
        "1" + "0" * 400,
        "1e99999999999999999999",
        "#N/A",
        "1\n2",
        '"1"',
        "'1'",
    ),
]
NUMBERS = st.floats().map(repr) | st.integers(-(10**20), 10**20).map(str) | st.decimals(allow_nan=False).map(str)
TEXTS = st.sampled_from(ODD) | NUMBERS | st.text("0123456789+-.eEinfaINFNA_ \t\x0b\x00xX\u0661", max_size=8)


@pytest.fixture(autouse=True)
def pieces_of_any_size(monkeypatch):
    monkeypatch.setattr(csv_files, "_CELLS", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("csv")


def read(path, size, schema=SCHEMA, names=NAMES):
    """What a file means when it is cut into pieces of this size: the matrix, or None if it cannot be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "_PIECE", size)
        try:
            blocks = [schema.encode(block) for block in open_table(path, schema).blocks(names, 3)]
        except SchemaError:
            return None
    return np.concatenate([*blocks, np.empty((schema.encoding.dim, 0))], axis=1).tolist()


def in_one_go(path, schema=SCHEMA, names=NAMES, separator=","):
    """The same without pieces, threads and numbers: the whole file as texts, and each cell by ``cells.read``.

    The last line gets its end if it lacks one.
    """
    content = path.read_bytes()
    content += b"\n" * (not content.endswith(b"\n"))
    convert = pv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=names,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        check_utf8=False,
    )
    try:
        table = pv.read_csv(
            pa.BufferReader(content),
            parse_options=pv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=convert,
        )
        return schema.encode(table).tolist()
    except (pa.ArrowInvalid, KeyError, SchemaError):
        return None


def as_read_by_arrow(text):
    """What Arrow makes of one quoted cell: a number (NaN for none), or None if it refuses it."""
    escaped = text.replace('"', '""')
    try:
        content = f'x,t\n"{escaped}",1\n'.encode()
        (batch,) = pv.read_csv(
            pa.BufferReader(content),
            parse_options=pv.ParseOptions(newlines_in_values=True),
            convert_options=csv_files._Reading.of(["x"], {"x": X}, csv_files._parsing(",", empty_rows=False)).quick,
        ).to_batches()
    except pa.ArrowInvalid:
        return None
    return batch.column(0).to_numpy(zero_copy_only=False)[0]


def agree(quick, careful):
    return quick is None or quick == careful or (math.isnan(quick) and math.isnan(careful))


@settings(max_examples=600, deadline=None, derandomize=True)
@given(TEXTS)
def test_a_number_that_arrow_accepts_is_the_number_of_its_text(text):
    assert agree(as_read_by_arrow(text), cells.read(pa.array([text]), X)[0])


@pytest.mark.parametrize("text", ODD)
def test_an_odd_spelling_means_the_same_both_ways(text):
    assert agree(as_read_by_arrow(text), cells.read(pa.array([text]), X)[0])


def test_the_comparison_of_both_ways_is_not_idle():
    assert sum(as_read_by_arrow(text) is not None for text in ODD) > 15
    assert sum(as_read_by_arrow(text) is None for text in ODD) > 15
    assert not agree(16.0, cells.read(pa.array(["0x10"]), X)[0])
    assert not agree(math.nan, cells.read(pa.array(["1e400"]), X)[0])


def quoted(text, always):
    needed = any(mark in text for mark in ',"\r\n')
    escaped = text.replace('"', '""')
    return f'"{escaped}"' if always or needed else text


ROWS = st.lists(
    st.tuples(TEXTS, st.booleans(), st.sampled_from(["a", "1", "", "a b", "a\nb", 'q"', "\ufeff"])), max_size=9
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(ROWS, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.integers(1, 80))
def test_no_cell_changes_how_another_is_read_in_whatever_piece(folder, rows, end, mark, size):
    path = folder / "t.csv"
    lines = ["x,t", *(f"{quoted(x, always)},{quoted(t, always)}" for x, always, t in rows)]
    path.write_bytes(("\ufeff" * mark + end.join(lines) + end).encode())
    alone = [
        SCHEMA.encode(pa.table({"x": pa.array([x]), "t": pa.array([None if t == "" and not q else t])}))
        for x, q, t in rows
    ]
    expected = np.concatenate([*alone, np.empty((6, 0))], axis=1).tolist()
    assert read(path, size) == expected == in_one_go(path)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.text('0123,"\n\r \ufeffa', max_size=40), st.integers(1, 30))
@example('"1",a\n"2\n",a\n3,a\n', 4)
@example('1"\n",a\n3,"a\n', 1)
@example("1,a\n\n\r\n2,a\n\ufeff3,a\n\ufeff4,a", 5)
@example('1,"a"b\n2,a"b\n3,"a""b"\n4,a\n', 3)
@example("1,a\n2\n", 1)
def test_any_file_however_it_is_cut_is_read_as_in_one_go(folder, body, size):
    path = folder / "t.csv"
    path.write_bytes(f"x,t\n{body}".encode())
    assert read(path, size) == in_one_go(path)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.text('0123;,"\n\r a', max_size=40), st.integers(1, 30))
@example('a,";"\nx"\n2;a\n', 6)  # as if separated by commas, a row would end in the first line
def test_any_file_of_another_separator_is_read_as_in_one_go(folder, body, size):
    path = folder / "t.csv"
    path.write_bytes(f"x;t\n{body}".encode())
    assert read(TableFile(path, separator=";"), size) == in_one_go(path, separator=";")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text('xt,"\n\r\ufeff1', max_size=14), st.integers(1, 30))
@example('"x","t"\n1,a\n2,a\n', 3)
@example('"x\n",x,t\n1,1,a\n', 3)
@example("\n\nx,t\n1,a\n", 3)
@example("x,t\r1,a\r", 3)
def test_any_header_is_read_as_in_one_go(folder, start, size):
    path = folder / "t.csv"
    path.write_bytes(f"{start}\n1,2\n3,a\n".encode())
    assert read(path, size) == in_one_go(path)


def test_a_header_alone_has_no_rows(tmp_path):
    for text in ("x,t", "x,t\n", '"x","t"', "x,t\r\n"):
        (tmp_path / "t.csv").write_text(text)
        assert read(tmp_path / "t.csv", 8) == [[]] * 6


def file_of(tmp_path, body):
    path = tmp_path / "t.csv"
    path.write_text("x,t\n" + body)
    return path


def test_a_file_of_plain_numbers_is_never_read_as_text(tmp_path, monkeypatch):
    def careful(*_):
        raise AssertionError

    monkeypatch.setattr(csv_files._Reading, "_numbers", careful)
    monkeypatch.setattr(csv_files._Reading, "stream", careful)
    path = file_of(tmp_path, '1.5,a\r\n,"a"\n-2e3,"a b"\n' * 100)
    assert read(path, 50)[0] == [1.5, 4, -2000] * 100
    path.write_text('\ufeff"x","t"\n' + '1.5,"a\nb"\n' * 100)
    assert read(path, 50)[0] == [1.5] * 100
    for body in ("1.5,a\nx,a\n", '1.5,a\n2,"q""q"\n', "1.5,a\n2,a"):
        with pytest.raises(AssertionError):
            read(file_of(tmp_path, body), 50)


def test_only_the_piece_with_an_odd_cell_is_read_as_text(tmp_path, monkeypatch):
    seen = []
    plain = csv_files._Reading._numbers
    monkeypatch.setattr(
        csv_files._Reading, "_numbers", lambda self, texts: seen.append(texts.num_rows) or plain(self, texts)
    )
    path = file_of(tmp_path, "1,a\n" * 50 + "NA,a\n" + "1,a\n" * 50)
    assert read(path, 40)[0] == [1] * 50 + [4] + [1] * 50
    assert len(seen) == 1
    assert seen[0] <= 11


def test_a_row_longer_than_a_piece_is_read(tmp_path):
    path = file_of(tmp_path, f"1,{'b' * 10_000}\n2,a\n" * 3)
    assert read(path, 16)[0] == [1, 2] * 3


def test_rows_longer_than_a_block_are_refused_whatever_the_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK", 1 << 12)
    assert read(file_of(tmp_path, f"1,{'b' * 100_000}\n2,a\n" * 3), 64) is None


def test_columns_said_to_be_real_are_doubles_and_the_others_texts(tmp_path):
    path = file_of(tmp_path, "1,7\nNA,8\n")
    told, untold = open_table(path, SCHEMA), open_table(path)
    assert [f.type for f in told.schema] == [pa.float64(), pa.int64()]
    assert [f.type for f in next(told.blocks(NAMES, 9)).schema] == [pa.float64(), pa.string()]
    assert [f.type for f in next(untold.blocks(NAMES, 9)).schema] == [pa.string(), pa.string()]
    (finding,) = compare(Schema([X]), untold.blocks(NAMES, 9))
    assert finding.problem == "unreadable"
    assert sum(b.num_rows for b in part_of(told, "t", "7").blocks(NAMES, 9)) == 1
    with pytest.raises(SchemaError, match="type double"):
        part_of(told, "x", "1")


def test_a_line_end_within_quotes_is_kept_wherever_blocks_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.files.csv_files._BLOCK", 64)
    schema = Schema([Real("x", 0, 9), Category("t", ["a\r\nb"])])
    for before in range(80):
        filler = 'odd"quote,z\n' * 2 + "1," + "y" * before + "\n"
        (tmp_path / "t.csv").write_bytes(f'x,t\n{filler}2,"a\r\nb"\n'.encode())
        blocks = list(open_table(tmp_path / "t.csv", schema).blocks(["x", "t"], 10))
        assert [schema.encode(block)[1].tolist() for block in blocks] == [[0.0, 0.0, 0.0, 1.0]]


def test_quotes_before_it_do_not_change_a_last_cell_without_a_line_end(tmp_path):
    schema = Schema([Real("x", 0, 9), Category("t", ["", "a"])])
    for text in ('x,t\n"1",', "x,t\n1,", 'x,t\n"1",\n'):
        (tmp_path / "t.csv").write_text(text)
        (block,) = open_table(tmp_path / "t.csv", schema).blocks(["x", "t"], 10)
        assert schema.encode(block).tolist() == [[1.0], [0.0], [0.0]]


def test_blank_lines_before_the_header_are_no_rows(tmp_path):
    (tmp_path / "t.csv").write_text("\n\r\nx\n1\n\n3\n")
    schema = Schema([Real("x", 0, 9)])
    (block,) = open_table(tmp_path / "t.csv", schema).blocks(["x"], 10)
    assert schema.encode(block).tolist() == [[1.0, 0.0, 3.0]]
