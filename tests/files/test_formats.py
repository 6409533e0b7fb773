"""Every format of a file gives the same numbers as the plain CSV file, or is refused in one line without a cell."""

import gzip
import importlib.util
import io
import re
import sys
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato.errors import MissingDependency, ParameterError, SchemaError, SfumatoError
from sfumato.files import csv_files
from sfumato.files.content import Content
from sfumato.files.dialect import Dialect
from sfumato.files.open_table import open_table
from sfumato.files.table_file import StandardInput, TableFile
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release, source_of
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.studio.inputs.folder import Folder
from sfumato.tables.columns import Category, Flag, Id, Real
from sfumato.tables.schema import Schema

SECRET = "4711.0815"  # noqa: S105 - a cell that no message may hold
SCHEMA = Schema([Real("age", 0, 120, missing=40), Flag("smoker"), Category("city", ["Bern", "Zürich", "a,b;c|d\te"])])
NAMES = ["age", "smoker", "city"]
excel = pytest.mark.skipif(importlib.util.find_spec("openpyxl") is None, reason="needs openpyxl, as sfumato[excel] has")


def people():
    rows = 50
    cities = ("Bern", "Zürich", None, 'qu"oted', "a,b;c|d\te")
    return pa.table(
        {
            "who": [f"p{i}" for i in range(rows)],
            "city": [cities[i % 5] for i in range(rows)],
            "age": [None if i % 7 == 3 else i * 2.5 - 10 for i in range(rows)],
            "smoker": [(True, False, None)[i % 3] for i in range(rows)],
        }
    )


def text(separator=",", end="\n"):
    def cell(value):
        if value is None:
            return ""
        return f'"{value}"'.replace('qu"o', 'qu""o') if isinstance(value, str) else str(value).lower()

    rows = [
        separator.join(people().schema.names),
        *(separator.join(map(cell, r.values())) for r in people().to_pylist()),
    ]
    return end.join(rows) + end


def zstd(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(content)
    return sink.getvalue().to_pybytes()


def arrow(new, table=None, **options):
    sink = io.BytesIO()
    table = people() if table is None else table
    with new(sink, table.schema, **options) as file:
        file.write_table(table, max_chunksize=7)
    return sink.getvalue()


def parquet():
    sink = io.BytesIO()
    pq.write_table(people(), sink)
    return sink.getvalue()


def workbook(rows=None):
    import openpyxl  # noqa: PLC0415 - not everybody has it

    book, sink = openpyxl.Workbook(), io.BytesIO()
    for row in [people().schema.names, *(list(r.values()) for r in people().to_pylist())] if rows is None else rows:
        book.active.append(row)
    book.save(sink)
    return sink.getvalue()


LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
FILES = {  # suffix, content, and what has to be stated
    "csv": ("csv", lambda: text().encode(), {}),
    "gzip": ("csv.gz", lambda: gzip.compress(text().encode()), {}),
    "two gzip members": (
        "CSV.GZ",
        lambda: gzip.compress(text().encode()[:99]) + gzip.compress(text().encode()[99:]),
        {},
    ),
    "zstd": ("csv.zst", lambda: zstd(text().encode()), {}),
    "tabs": ("tsv", lambda: text("\t").encode(), {}),
    "packed tabs": ("tsv.gz", lambda: gzip.compress(text("\t").encode()), {}),
    "semicolons": ("csv", lambda: text(";").encode(), {"separator": ";"}),
    "bars": ("csv", lambda: text("|", "\r\n").encode(), {"separator": "|"}),
    "tabs in csv": ("csv", lambda: text("\t").encode(), {"separator": "\\t"}),
    "carets": ("csv", lambda: text("^").encode(), {"separator": "^"}),
    "another suffix": ("data", lambda: text().encode(), {"separator": ","}),
    "latin-1": ("csv", lambda: text().encode("latin-1"), {"encoding": "latin-1"}),
    "cp1252 and semicolons": ("csv", lambda: text(";").encode("cp1252"), {"separator": ";", "encoding": "cp1252"}),
    "utf-8 stated": ("csv", lambda: text().encode("utf-8-sig"), {"encoding": "utf8"}),
    "utf-16": ("csv", lambda: text().encode("utf-16"), {"encoding": "utf-16"}),
    "utf-16-be": ("csv", lambda: text().encode("utf-16-be"), {"encoding": "UTF-16BE"}),
    "utf-32 packed": ("csv.zst", lambda: zstd(text().encode("utf-32")), {"encoding": "utf-32"}),
    "ebcdic": ("csv", lambda: text().encode("cp037"), {"encoding": "cp037"}),
    "parquet": ("parquet", parquet, {}),
    "arrow": ("arrow", lambda: arrow(pa.ipc.new_file), {}),
    "feather": ("feather", lambda: arrow(pa.ipc.new_file, options=LZ4), {}),
    "arrow stream": ("ipc", lambda: arrow(pa.ipc.new_stream), {}),
    "excel": ("xlsx", workbook, {}),
}
KNOWN_ROWS = ("parquet", "arrow", "feather")
EACH = pytest.mark.parametrize("kind", [pytest.param(k, marks=excel) if k == "excel" else k for k in FILES])


def written(folder, kind):
    suffix, content, stated = FILES[kind]
    path = folder / f"people.{suffix}"
    path.write_bytes(content())
    return TableFile(path, **stated)


def encoded(table, rows=9, names=NAMES, schema=SCHEMA):
    blocks = [schema.encode(block) for block in table.blocks(names, rows)]
    return np.concatenate([*blocks, np.empty((schema.encoding.dim, 0))], axis=1)


def standard_input(monkeypatch, content, **stated):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    return StandardInput(Dialect(**stated))


@EACH
def test_every_format_gives_the_numbers_of_the_plain_file(kind, tmp_path):
    table = open_table(written(tmp_path, kind), SCHEMA)
    assert np.array_equal(encoded(table), SCHEMA.encode(people()))
    assert np.array_equal(encoded(table, 1000), SCHEMA.encode(people()))  # again, and whole
    assert table.rows == (50 if kind in KNOWN_ROWS else None)
    (ids,) = table.blocks(["who"], 1000)
    assert ids.column(0).to_pylist() == people()["who"].to_pylist()


@EACH
def test_every_format_is_read_from_standard_input(kind, monkeypatch):
    _, content, stated = FILES[kind]
    given_separator = {"separator": "tab"} if "tabs" in kind else {}
    table = open_table(standard_input(monkeypatch, content(), **given_separator | stated), SCHEMA)
    assert np.array_equal(encoded(table), SCHEMA.encode(people()))
    assert np.array_equal(encoded(table), SCHEMA.encode(people()))
    assert not table.divisible


@pytest.mark.parametrize("kind", ["gzip", "cp1252 and semicolons", "utf-16", "arrow stream", "tabs"])
@pytest.mark.parametrize("size", [7, 64, 1 << 20])
def test_pieces_of_any_size_give_the_same(kind, size, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_PIECE", size)
    monkeypatch.setattr(csv_files, "_CELLS", 1)
    assert np.array_equal(encoded(open_table(written(tmp_path, kind), SCHEMA)), SCHEMA.encode(people()))


def test_a_release_is_the_same_to_the_bit_from_every_format(tmp_path, monkeypatch):
    schema = Schema([*SCHEMA.columns, Id("who")])
    promise = {"mechanism": Sketch(dimension=2, seed=5), "guarantee": Guarantee(epsilon=1, unit="attribute")}

    def numbers(data):
        made = release(data, schema=schema, secret=Secret.for_testing(3), **promise)
        return made.array().tolist()

    expected = numbers(people())
    for kind in ("csv", "gzip", "semicolons", "utf-16", "feather"):
        assert numbers(written(tmp_path, kind)) == expected
    assert numbers(standard_input(monkeypatch, text().encode())) == expected


def test_a_ledger_knows_a_file_however_it_is_read(tmp_path):
    path = tmp_path / "people.csv"
    assert source_of(TableFile(path, separator=";")) == source_of(path) == source_of(str(path))
    assert source_of(StandardInput(Dialect())).place == "memory StandardInput"


# ---- refusals -------------------------------------------------------------------------------------------------------


REFUSED = {
    "semicolons": ("csv", text(";").encode(), "looks separated by ';', not ',': use --separator ';'"),
    "tabs": ("csv", text("\t").encode(), r"looks separated by tab, not ',': use --separator tab .*separator='tab'"),
    "bars": ("csv.gz", gzip.compress(text("|").encode()), r"use --separator '\|'"),
    "commas in tsv": ("tsv", text().encode(), "looks separated by ',', not tab"),
    "decimal commas": ("csv", f"a;b\n1,5;2,{SECRET}\n".encode(), "--separator ';'"),
    "utf-16": ("csv", text().encode("utf-16"), "looks like utf-16, not UTF-8: use --encoding utf-16 "),
    "utf-16-le": ("csv", text().encode("utf-16-le"), "--encoding utf-16-le"),
    "utf-16-be": ("csv", text().encode("utf-16-be"), "--encoding utf-16-be"),
    "utf-32": ("csv", text().encode("utf-32"), "--encoding utf-32"),
    "latin-1": ("csv", f"größe,b\n1,{SECRET}\n".encode("latin-1"), "header is not UTF-8 text.*--encoding cp1252"),
    "parquet": ("csv", parquet(), "the content is Parquet, not CSV text: rename the file to end in .parquet"),
    "packed": ("csv", gzip.compress(text().encode()), "content is gzip, .* rename the file to end in .csv.gz"),
    "unpacked": ("csv.gz", text().encode(), "the content is not gzip: rename the file to end without .gz"),
    "arrow": ("tsv", arrow(pa.ipc.new_file), "rename the file to end in .arrow"),
    "bzip2": ("csv", b"BZh91AY&SY1234", "convert it to CSV"),
    "packed parquet": ("parquet.gz", gzip.compress(parquet()), "a table is read from CSV"),
    "text as arrow": ("arrow", text().encode(), "not an Arrow file"),
    "text as parquet": ("parquet", text().encode(), "not a Parquet file"),
    "old feather": ("feather", b"FEA1\0\0\0\0abcFEA1", "not an Arrow file"),
    "cut": ("csv.gz", gzip.compress(text().encode())[:-20], "damaged|not a CSV file"),
    "empty": ("csv", b"", "not a CSV file"),
    "empty gzip": ("csv.gz", b"", "the content is not gzip"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_file_that_looks_otherwise_is_refused_in_one_line_that_says_what_to_do(kind, tmp_path):
    suffix, content, named = REFUSED[kind]
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match=named) as caught:
        list(open_table(path).blocks(["a"] if kind == "decimal commas" else NAMES, 5))
    assert_harmless(caught.value)
    assert "t." in str(caught.value)


def assert_harmless(error):
    said = f"{error} {error.args} {error.__cause__} {error.__context__}"
    assert "\n" not in str(error)
    for cell in (SECRET, "Zürich", "Bern", "quoted"):
        assert cell not in said


@pytest.mark.parametrize(("separator", "header"), [(",", "a;b"), ("\t", "a,b"), (",", '"a;b"')])
def test_a_single_column_is_read_if_its_separator_is_stated(separator, header, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n1\n2\n")
    assert open_table(TableFile(path, separator=separator)).schema.names == [header.strip('"')]


@pytest.mark.parametrize("separator", ["", ";;", "a", "1", '"', "\n", "\r", "\0", "é", 3])
def test_what_cannot_separate_is_refused(separator):
    with pytest.raises(ParameterError, match="separator"):
        TableFile("people.csv", separator=separator)


@pytest.mark.parametrize("encoding", ["klingon", "hex", "rot13", "", "a\0b", 3, "undefined"])
def test_what_is_no_encoding_is_refused(encoding):
    with pytest.raises(ParameterError, match="encoding"):
        TableFile("people.csv", encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-7", "iso2022_jp", "hz", "idna", "unicode_escape"])
def test_an_encoding_in_which_a_cell_changes_the_next_is_refused(encoding):
    with pytest.raises(ParameterError, match="convert to UTF-8"):
        TableFile("people.csv", encoding=encoding)


def test_a_wrong_encoding_is_refused_by_the_header(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(text().encode())
    with pytest.raises(SchemaError, match="not utf-16: leave the encoding out") as caught:
        open_table(TableFile(path, encoding="utf-16"))
    assert_harmless(caught.value)
    path.write_bytes(b"a\x81\xff,b\n1,2\n")
    with pytest.raises(SchemaError, match="header is not gbk text"):
        open_table(TableFile(path, encoding="gbk"))


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "xlsx"])
def test_only_text_has_a_separator(suffix, tmp_path):
    path = tmp_path / f"t.{suffix}"
    path.touch()
    with pytest.raises(ParameterError, match="only CSV text"):
        open_table(TableFile(path, encoding="latin-1"))


def test_no_cell_makes_a_file_look_otherwise(tmp_path):
    """Refusals depend on the header alone: each of these cells would be one of another file."""
    path = tmp_path / "t.csv"
    schema = Schema([Real("a", 0, 9, missing=7), Real("b", 0, 9)])
    for end in (b"\n", b"\r\n", b"\r"):
        for cell in (b"\xff\xfe", b"a\0b", b"PAR1\x15\0", b"1;2;3;4", b"Z\xfcrich", b"\x1f\x8b", b"\xed\xa0\x80"):
            path.write_bytes(b"a,b" + end + cell + b",2" + end + b"3,4" + end)
            assert encoded(open_table(path, schema), 5, ["a", "b"], schema).tolist() == [[7, 3], [2, 4]]


# ---- encodings ------------------------------------------------------------------------------------------------------

ENCODINGS = ("cp1252", "ascii", "utf-16-le", "utf-32-be", "gbk", "gb18030", "big5", "big5hkscs", "shift_jis", "cp932")
ENCODINGS += ("shift_jisx0213", "euc_jp", "euc_jis_2004", "euc_kr", "cp949", "johab", "cp950", "gb2312")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_bytes_that_are_no_text_change_no_other_row(encoding, tmp_path):
    path = tmp_path / "t.csv"
    schema = Schema([Category("a", ["x"]), Real("b", 0, 9)])
    width = len("a".encode(encoding))
    odd = [bytes([b]) * width for b in range(128, 256)] + [b"\x00\xd8" * (width // 2), b"\x81\x30" * width]
    rows = [cell + ",1\nx,2\n".encode(encoding) for cell in odd if len(cell) % width == 0]
    path.write_bytes("a,b\n".encode(encoding) + b"".join(rows))
    read = encoded(open_table(TableFile(path, encoding=encoding), schema), 1000, ["a", "b"], schema)
    assert read[1].tolist() == [1, 2] * len(rows)
    assert read[0, 1::2].tolist() == [1] * len(rows)
    assert not read[0, ::2].any()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text('aü,"\n\r€\ufeff', max_size=40), st.sampled_from(["cp1252", "utf-16", "utf-32-le"]), st.integers(1, 9))
def test_text_in_another_encoding_is_the_same_in_utf8(body, encoding, size):
    stored = f"a,b\n{body}".encode(encoding, errors="replace")
    content = Content("t", lambda: io.BytesIO(stored)).in_utf8(encoding)
    with content.open() as file:
        taken = b"".join(iter(lambda: file.read(size), b""))
    assert taken.decode() == stored.decode(encoding)


# ---- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gzip", "zstd", "latin-1"])
def test_memory_does_not_grow_with_the_rows_of_a_packed_file(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK", 1 << 16)
    body = b"a,b,c\n" + b"12345.678901,23456.789012,34567.890123\n" * 400_000  # 16 MB
    suffix, packed = {"gzip": ("csv.gz", gzip.compress), "zstd": ("csv.zst", zstd), "latin-1": ("csv", bytes)}[kind]
    path = tmp_path / f"long.{suffix}"
    path.write_bytes(packed(body))
    del body
    before, peak, count = pa.total_allocated_bytes(), 0, 0
    for batch in open_table(TableFile(path, encoding="latin-1")).blocks(["a", "b"], 1 << 12):
        peak, count = max(peak, pa.total_allocated_bytes() - before), count + batch.num_rows
    assert count == 400_000
    assert peak < 6 << 20


# ---- Excel ----------------------------------------------------------------------------------------------------------


@excel
def test_cells_of_a_workbook_keep_their_meaning(tmp_path):
    import datetime as dt  # noqa: PLC0415

    rows = [
        ["n", "x", "flag", "day", "time", "text", None],
        [1, 0.5, True, dt.date(2020, 1, 31), dt.datetime(2020, 1, 31, 12, 30), "Bern", "beyond"],  # noqa: DTZ001
        [None] * 7,
        [3, -2e300, False, dt.date(1999, 12, 31), dt.datetime(1999, 1, 1, 1), "#N/A"],  # noqa: DTZ001
        ["odd", "1.5", "yes", "never", 7, 8],
    ]
    path = tmp_path / "t.xlsx"
    path.write_bytes(workbook(rows[:-1]))
    table = open_table(path)
    kinds = [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("s"), pa.string()]
    assert table.schema.names == ["n", "x", "flag", "day", "time", "text"]
    assert table.schema.types == kinds
    path.write_bytes(workbook(rows))
    (block,) = open_table(path).blocks(["day", "time", "n", "x", "flag", "text"], 10)
    assert [column.to_pylist() for column in block.columns] == [
        ["2020-01-31", None, "1999-12-31", "never"],
        ["2020-01-31 12:30:00", None, "1999-01-01 01:00:00", "7"],
        ["1", None, "3", "odd"],
        ["0.5", None, "-2e+300", "1.5"],
        ["1", None, "0", "yes"],
        ["Bern", None, "#N/A", "8"],
    ]


@excel
def test_a_workbook_whose_dimensions_are_wrong_is_read_whole(tmp_path):
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook())) as source, zipfile.ZipFile(sink, "w") as target:
        for name in source.namelist():
            changed, count = re.subn(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', source.read(name))
            assert count == ("sheet1" in name)
            target.writestr(name, changed)
    path = tmp_path / "t.xlsx"
    path.write_bytes(sink.getvalue())
    assert np.array_equal(encoded(open_table(path)), SCHEMA.encode(people()))


@excel
@pytest.mark.parametrize(("rows", "named"), [([], "first row"), ([[None, None], ["a"]], "first row")])
def test_a_workbook_without_a_header_is_refused(rows, named, tmp_path):
    path = tmp_path / "t.xlsx"
    path.write_bytes(workbook(rows))
    with pytest.raises(SchemaError, match=named):
        open_table(path)


def test_a_workbook_needs_openpyxl(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(MissingDependency, match=r"sfumato\[excel\]"):
        open_table(tmp_path / "t.xlsx")


# ---- anything -------------------------------------------------------------------------------------------------------

SUFFIXES = ("csv", "tsv", "csv.gz", "csv.zst", "parquet", "arrow", "feather", "ipc", "data")
VALID = [content() for kind, (_, content, _) in FILES.items() if kind != "excel"]
if importlib.util.find_spec("openpyxl") is not None:
    SUFFIXES += ("xlsx",)
    VALID.append(workbook())
ENDS = st.tuples(st.integers(0, 3000), st.integers(0, 3000))
CHANGES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3)


def damaged(content, ends, changes):
    found = bytearray(content[: len(content) - ends[0]] if ends[0] % 3 else content)
    for place, byte in changes:
        if found:
            found[place % len(found)] = byte
    return bytes(found)


CONTENTS = st.binary(max_size=200) | st.builds(damaged, st.sampled_from(VALID), ENDS, CHANGES)
STATED = st.fixed_dictionaries(
    {},
    optional={
        "separator": st.sampled_from([",", ";", "|", "tab"]),
        "encoding": st.sampled_from(["latin-1", "utf-16", "gbk", "utf-8"]),
    },
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("any")


@settings(max_examples=400, deadline=None, derandomize=True)
@given(CONTENTS, st.sampled_from(SUFFIXES), STATED)
@example(b"\xff\xff\xff\xff\xff\xff\xff\x7f", "arrow", {})
@example(b"ARROW1\0\0", "ipc", {})
@example(b"age,smoker,city\n1;2;3\n", "csv", {"separator": ";"})
def test_any_bytes_are_read_or_refused_in_one_line_without_a_cell(folder, content, suffix, stated):
    path = folder / f"t.{suffix}"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            encoded(open_table(TableFile(path, **stated), SCHEMA))
        except SfumatoError as error:
            if "the table has no column" not in str(error):  # names are public, of headers that are none as well
                assert_harmless(error)


def test_the_studio_lists_and_opens_every_format(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "b": ["x", "y"]})
    pv.write_csv(table, tmp_path / "plain.csv")
    text = (tmp_path / "plain.csv").read_bytes()
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "tabs.tsv").write_bytes(text.replace(b",", b"\t"))
    pq.write_table(table, tmp_path / "p.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table)
    folder = Folder.of(tmp_path, tmp_path)
    names = [item.name for item in folder.tables()]
    assert names == ["a.arrow", "p.parquet", "packed.csv.gz", "plain.csv", "tabs.tsv"]
    assert all(open_table(folder.table(name)).schema.names == ["a", "b"] for name in names)
    (tmp_path / "wide.tsv.gz").write_bytes(gzip.compress(b"\t".join(b"c%d" % i for i in range(10_001)) + b"\n"))
    with pytest.raises(SchemaError, match="more than 10,000 columns"):
        folder.table("wide.tsv.gz")
