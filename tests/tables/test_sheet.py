"""Schemas as sheets: one line per column, in CSV and Excel."""

import csv
import datetime as dt
import io
import json
import sys
import zipfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.cli import main
from sfumato.errors import MissingDependency, SchemaError
from sfumato.tables import patterns, sheet
from sfumato.tables.columns import Category, Date, Flag, Id, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema

EVERY = Schema(
    [
        Id("id"),
        Real("x", -0.5, 1e9, "level", 2.5),
        Integer("n", -3, 9, 4),
        Flag("b", True),
        Ordinal("o", [3, 1, 2], 1),
        Ordinal("p", ["low", "high"], "level"),
        Category("c", ["Bern", "a|b", " c", '"q"', "=1+1", "", "@x"], "a|b"),
        Category("codes", ["1", "02"], "02"),
        Category("digits", ["1", "2"], "2"),
        Date("d", dt.date(1900, 1, 1), dt.date(2020, 12, 31), 7, dt.date(2000, 1, 1)),
        Date("t", "2020-01-01T00:00:00", "2020-12-31T23:59:59", 0.5, "2020-06-01T00:00:00"),
        Vector("v", 3, -1, 1, bound=1.5),
        Vector("w", low=0, high=1, columns=["e1", "e|2", "e*"], whole=False),
        Set("s", ["a", "b"], 2),
        Set("h", buckets=16, most=3),
        Integer("WAP*", -110, 0),
        Flag(patterns.exact("-odd*")),
    ],
    "l2",
    7.5,
    bounds_from_data=True,
    scale="raw",
)


def test_every_kind_comes_back_from_a_sheet(tmp_path):
    EVERY.write(tmp_path / "every.csv")
    again = Schema.read(tmp_path / "every.csv")
    assert again == EVERY
    assert again.open_patterns == EVERY.open_patterns == ("e*", "WAP*")
    assert len((tmp_path / "every.csv").read_text().splitlines()) == len(EVERY.columns) + 1
    settled = EVERY.matched(["e*", "WAP1", "WAP2"])
    settled.write(tmp_path / "settled.csv")
    assert Schema.read(tmp_path / "settled.csv") == settled


def test_every_kind_comes_back_from_excel(tmp_path):
    pytest.importorskip("openpyxl")
    EVERY.write(tmp_path / "every.xlsx")
    again = Schema.read(tmp_path / "every.xlsx")
    assert again == EVERY


TEXTS = st.text(max_size=6).filter(lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    TEXTS.filter(bool),
    st.lists(TEXTS | st.integers(-99, 99), min_size=1, max_size=4, unique_by=str),
    st.sampled_from([0, None]),
)
def test_texts_come_back_as_they_were(tmp_path_factory, name, values, missing):
    if any(isinstance(v, str) for v in values):
        values = [str(v) for v in values]  # a sheet keeps all of them as whole numbers, or all as texts
    schema = Schema([Category(patterns.exact(name), values, None if missing is None else values[0])])
    path = tmp_path_factory.mktemp("sheet") / "a.csv"
    schema.write(path)
    again = Schema.read(path)
    assert again == schema
    assert [type(v) for v in again.columns[0].values] == [type(v) for v in schema.columns[0].values]


def test_no_cell_begins_like_a_formula():
    odd = ["=1", "+1", "-x", "@a", "\t=1", "|", '"']
    rows = Schema([Category(patterns.exact(text), [text, "b"]) for text in odd]).rows()
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row)


def written(tmp_path, text, name="a.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_sheets_of_other_programs_are_read(tmp_path, separator, line):
    rows = [
        "Name,Kind,Low,High,Values,Missing,,",
        "age,REAL,0,120.0,,,,",
        ",,,,,,,",
        "b,flag,,,,TRUE,,",
        "c,category,,,a | b,,,",
    ]
    path = written(tmp_path, "\ufeff" + line.join(row.replace(",", separator) for row in rows) + line)
    assert Schema.read(path) == Schema([Real("age", 0, 120), Flag("b", True), Category("c", ["a", "b"])])


def test_a_sheet_may_name_files_and_patterns(tmp_path):
    (tmp_path / "cities.txt").write_text("Bern\nBasel\n")
    path = written(
        tmp_path, "name,kind,low,high,values,columns\nc,category,,,@cities.txt,\nx{1..2},real,0,1,,\nv,vector,0,1,,e*\n"
    )
    schema = Schema.read(path)
    assert schema.columns[0] == Category("c", ["Bern", "Basel"])
    assert [c.name for c in schema.columns] == ["c", "x1", "x2", "v"]
    assert schema.open_patterns == ("e*",)


def test_a_day_is_a_bound_of_points_in_time(tmp_path):
    path = written(
        tmp_path, "name,kind,low,high\nt,datetime,2020-01-01,2020-12-31T12:00:00\nd,date,2020-01-01,2020-12-31\n"
    )
    assert [c.kind for c in Schema.read(path).columns] == ["datetime", "date"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begins with a line of headers"),
        ("a,b\n1,2\n", "begins with a line of headers"),
        ("name,kind,hihg\na,flag,\n", "unknown key 'hihg' in the headers"),
        ("name,kind,low,low\na,flag,,\n", "the header 'low' is there more than once"),
        ("name,kind\na,flag,3\n", "line 2 has more cells than there are headers"),
        ("name,kind,low,high\na,real,x,1\n", "low of column 'a' must be a finite number, got 'x'"),
        ("name,kind,low,high\na,real,0,\n", "high of column 'a' is left to fill in"),
        ("name,kind,scale\na,flag,raw\nb,flag,bounds\n", "disagree on scale"),
        ("name,kind,low,high,weight\na,real,0,1,2\n", "can be read in two ways"),
        ("name,kind\n,flag\n", "column number 1 has no name"),
        ("name,kind\na,number\n", "kind of column 'a' must be one of"),
        ('name,kind\na,"flag\n', "not a sheet in CSV"),
        ("name,kind,values\na,category," + "x|" * 70_000 + "\n", "can stand in a file"),
    ],
)
def test_bad_sheets_are_refused_by_what_is_wrong(tmp_path, text, said):
    path = written(tmp_path, text)
    with pytest.raises(SchemaError) as caught:
        Schema.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_every_problem_of_a_sheet_is_told_at_once(tmp_path):
    path = written(tmp_path, "name,kind,low,high,values\na,real,,,\nb,category,,,\nc,integer,0.5,1,\n")
    with pytest.raises(SchemaError, match="4 problems"):
        Schema.read(path)


def test_a_draft_is_a_sheet_to_fill_in(tmp_path):
    kinds = pa.schema(
        [("age", pa.int8()), ("city", pa.string()), ("tags", pa.list_(pa.string())), ("v", pa.list_(pa.float32(), 4))]
    )
    draft = Schema.from_arrow(kinds)
    draft.write(tmp_path / "draft.csv")
    rows = list(csv.reader(io.StringIO((tmp_path / "draft.csv").read_text())))
    assert rows[0] == ["name", "kind", "low", "high", "values", "missing", "weight", "size", "most", "buckets", "scale"]
    assert rows[4][7] == "4"
    with pytest.raises(SchemaError, match="7 problems"):
        Schema.read(tmp_path / "draft.csv")
    for row, low, high, values, most in (
        (1, "0", "120", "", ""),
        (2, "", "", "a|b", ""),
        (3, "", "", "x", "2"),
        (4, "-1", "1", "", ""),
    ):
        rows[row][2:5], rows[row][8] = [low, high, values], most
    (tmp_path / "filled.csv").write_text(sheet.csv_text(rows))
    assert Schema.read(tmp_path / "filled.csv").columns == (
        Integer("age", 0, 120),
        Category("city", ["a", "b"]),
        Set("tags", ["x"], 2),
        Vector("v", 4, -1, 1),
    )


def test_what_a_sheet_has_no_place_for_is_refused():
    with pytest.raises(SchemaError, match="no place for 'more'"):
        sheet.rows_of({"more": 1}, [{"name": "a", "kind": "flag"}])


# ---- Excel ----------------------------------------------------------------------------------------------------------


def test_excel_needs_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    for use in (Schema.read, EVERY.write):
        with pytest.raises(MissingDependency, match=r"sfumato\[excel\]"):
            use(tmp_path / "a.xlsx")


def test_cells_of_excel_have_types(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (
        ["name", "kind", "low", "high", "values", "missing"],
        ["x", "real", 0, 1.5, None, None],
        ["b", "flag", None, None, None, True],
        ["d", "date", dt.datetime(2020, 1, 1), dt.date(2020, 12, 31), None, None],  # noqa: DTZ001 - as Excel has it
        ["c", "category", None, None, 7, None],
    ):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert Schema.read(tmp_path / "a.xlsx").columns == (
        Real("x", 0, 1.5),
        Flag("b", True),
        Date("d", dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
        Category("c", [7]),
    )


def test_a_workbook_that_is_damaged_absent_or_a_bomb_is_refused(tmp_path):
    pytest.importorskip("openpyxl")
    (tmp_path / "text.xlsx").write_text("name,kind\n")
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/workbook.xml", b"\0" * (1 << 27))
    for name in ("text", "bomb", "nowhere"):
        with pytest.raises(SchemaError, match="not an Excel workbook"):
            Schema.read(tmp_path / f"{name}.xlsx")


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_sheet_and_reads_it_back(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age,city,ok\n1,Bern,true\n")
    assert main(["schema", "people.csv", "--as", "sheet"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines() == [
        "name,kind,low,high,values,missing,weight,scale",
        "age,integer,,,,,,bounds",
        "city,category,,,,,,",
        "ok,flag,,,,,,",
    ]
    assert main(["schema", "people.csv", "--as", "sheet", "--out", "draft.csv"]) == 0
    assert (tmp_path / "draft.csv").read_text() == printed
    filled = printed.replace("integer,,", "integer,0,120").replace("category,,,", "category,,,Bern|Basel")
    (tmp_path / "filled.csv").write_text(filled)
    capsys.readouterr()
    assert main(["check", "people.csv", "--schema", "filled.csv"]) == 0
    assert "All cells fit" in capsys.readouterr().out
    for out, said in (("people.csv", "already exists"), ("draft.txt", "--out must end in .csv, .xlsx")):
        assert main(["schema", "people.csv", "--as", "sheet", "--out", out]) == 2
        assert said in capsys.readouterr().err
    assert (tmp_path / "people.csv").read_text().startswith("age,")
    assert main(["schema", "people.csv", "--out", "people.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": "people.toml"}
    assert main(["schema", "people.csv", "--bounds-from-data", "--out", "taken.csv"]) == 0
    assert Schema.read("taken.csv").bounds_from_data
