"""Drafts: what they say of names and types, how they are filled in, and that they hold no value."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.errors import SchemaError
from sfumato.files.open_table import open_table
from sfumato.tables.columns import Category, Date, Flag, Id, Integer, Real, Set, Vector
from sfumato.tables.schema import Schema
from sfumato.tables.schema_draft import draft

TYPES = pa.schema(
    [
        ("age", pa.int32()),
        ("pay", pa.float64()),
        ("rate", pa.decimal128(5, 2)),
        ("smoker", pa.bool_()),
        ("city", pa.string()),
        ("canton", pa.dictionary(pa.int8(), pa.string())),
        ("born", pa.date32()),
        ("seen", pa.timestamp("us", "UTC")),
        ("face", pa.list_(pa.float32(), 4)),
        ("track", pa.list_(pa.float64())),
        ("tags", pa.large_list(pa.string())),
        ("lasted", pa.duration("s")),
        ('odd"\n[x]', pa.struct([pa.field("\nkind", pa.int8())])),
    ]
)
KINDS = {
    "age": "integer",
    "pay": "real",
    "rate": "real",
    "smoker": "flag",
    "city": "category",
    "canton": "category",
    "born": "date",
    "seen": "datetime",
    "face": "vector",
    "track": "vector",
    "tags": "set",
}

at = dt.datetime.fromisoformat


def kinds(text):
    lines = text.splitlines()
    found = [line.split(" = ", 1)[1].strip('"') for line in lines if line.startswith(("name = ", "kind = "))]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_a_draft_says_what_is_to_fill_in_and_why():
    text = draft(TYPES)
    assert kinds(text) == KINDS
    assert text.count("# low = ") == text.count("# high = ") == 7
    assert text.count("# values = [...]") == 3
    assert text.count("# size = ") == 1
    assert "\nsize = 4\n" in text
    assert text.count("# most = ") == 1
    assert "from what you know" in text
    assert "Never from the data" in text
    assert "guessed from its first rows" in text
    assert '# left out: "lasted"' in text
    assert '\n# left out: "odd\\"\\n[x]", whose type' in text


@pytest.mark.parametrize("name", [name for name in KINDS if name != "smoker"])
def test_a_draft_cannot_be_used_before_it_is_filled_in(name):
    with pytest.raises(SchemaError, match=f"of column '{name}' is left to fill in"):
        Schema.from_toml(draft(pa.schema([TYPES.field(name)])))


def test_a_draft_filled_in_is_a_schema():
    text = draft(pa.schema(list(TYPES)[:6])).replace("# low = ", "low = 0").replace("# high = ", "high = 1")
    schema = Schema.from_toml(text.replace("# values = [...]", 'values = ["x"]'))
    assert [(c.name, c.kind) for c in schema.columns] == list(KINDS.items())[:6]
    assert schema.scale_stated


def test_a_draft_never_reads_values():
    table = pa.table({"age": [8765.0], "city": pa.array(["Secretville"]).dictionary_encode()})
    for values in (table, table.to_batches()[0], table.to_pandas()):
        with pytest.raises(SchemaError, match=r"pyarrow\.Schema"):
            draft(values)
    other = pa.table({"age": [1.0], "city": pa.array(["x"]).dictionary_encode()})
    frames = [(t.to_pandas(), pl.from_arrow(t)) for t in (table, other)]
    for made in (
        (draft(table.schema), draft(other.schema)),
        [str(Schema.from_arrow(t)) for t in (table, other)],
        [str(Schema.from_pandas(pandas)) for pandas, _ in frames],
        [str(Schema.from_arrow(polars)) for _, polars in frames],
    ):
        assert made[0] == made[1]
        assert "8765" not in made[0]
        assert "Secretville" not in made[0]


# ---- like-named columns ---------------------------------------------------------------------------------------------


def floats(*names):
    return pa.schema([(name, pa.float64()) for name in names])


def test_like_named_columns_are_one_entry():
    wifi = [(f"WAP{i:03}", pa.int16()) for i in range(1, 521)]
    others = [("x", pa.float64()), ("y", pa.float64()), ("floor", pa.int8()), ("in", pa.bool_())]
    text = draft(pa.schema([*wifi, *others, ("WHO", pa.string()), ("when", pa.timestamp("s"))]))
    assert kinds(text)["WAP{001..520}"] == "integer"
    assert len(kinds(text)) == 7
    assert "# 520 columns" in text
    assert len(text.splitlines()) < 60


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([f"x{i}" for i in range(9, 15)], ["x{9..14}"]),
        ([f"x{i}" for i in (1, 2, 3, 5, 8)], ["x1", "x2", "x3", "x5", "x8"]),
        ([f"x{i:02}" for i in (*range(1, 7), 9, *range(95, 103))], ["x{01..06}", "x09", "x{95..102}"]),
        ([f"x{i}" for i in range(4)], ["x0", "x1", "x2", "x3"]),
        (["x", *(f"x{i}" for i in range(5))], ["x", "x{0..4}"]),
        ([f"q{i} [m]" for i in range(5)], ["q{0..4} [[]m]"]),
        ([f"a{i}_{j}" for i in range(2) for j in range(5)], ["a0_{0..4}", "a1_{0..4}"]),
        (["x01", "x02", "x03", "x04", "x5"], ["x01", "x02", "x03", "x04", "x5"]),
        (["x9", "x10", "x11", "x12", "x13"], ["x{9..13}"]),
    ],
)
def test_groups_are_ranges_of_numbers_that_follow_each_other(names, expected):
    made = Schema.from_arrow(floats(*names))
    assert [entry.name for entry in made.entries] == expected
    filled = made.fill(dict.fromkeys(expected, (0, 1)))
    assert [c.name for c in filled.columns] == names
    text = made.to_toml().replace("# low = ", "low = 0").replace("# high = ", "high = 1")
    assert [c.name for c in Schema.from_toml(text).columns] == names  # a draft needs no table


def test_a_group_is_of_one_kind():
    kinds = [(f"x{i}", pa.string() if i in (2, 9) else pa.float64()) for i in range(15)]
    made = Schema.from_arrow(pa.schema(kinds))
    assert {entry.name: entry.kind for entry in made.entries} == {
        "x0": "real",
        "x1": "real",
        "x{3..8}": "real",
        "x{10..14}": "real",
        "x2": "category",
        "x9": "category",
    }


def test_a_group_of_whole_numbers_and_fractions_is_one_of_numbers():
    mixed = [(f"x{i}", pa.int64() if i % 2 else pa.float64()) for i in range(8)]
    made = Schema.from_arrow(pa.schema([*mixed, ("x8", pa.null()), ("z", pa.null())]))
    assert [(entry.name, entry.kind) for entry in made.entries] == [("x{0..8}", "real")]
    assert made.left_out == {"z": "null"}


# ---- in Python ------------------------------------------------------------------------------------------------------


def test_a_draft_is_filled_in_by_name():
    made = Schema.from_arrow(pa.schema([*TYPES, *floats(*(f"x{i}" for i in range(6)))]))
    schema = made.fill(
        {"x*": (0, 2), "x3": {"low": 0, "high": 5, "missing": "level"}},
        age=(0, 120),
        pay=Real("pay", 0, 10, weight=2.0),
        rate=None,
        smoker={"missing": True},
        city=["Bern"],
        canton="id",
        born=(dt.date(1900, 1, 1), dt.date(2020, 1, 1)),
        seen=("2020-01-01T00:00", "2021-01-01T00:00"),
        face=(-1, 1),
        track={"size": 3, "low": 0, "high": 1},
        tags={"buckets": 16, "most": 4},
    )
    assert schema.columns == (
        Integer("age", 0, 120),
        Real("pay", 0, 10, weight=2.0),
        Flag("smoker", True),
        Category("city", ["Bern"]),
        Id("canton"),
        Date("born", dt.date(1900, 1, 1), dt.date(2020, 1, 1)),
        Date("seen", at("2020-01-01T00"), at("2021-01-01T00")),
        Vector("face", 4, -1, 1),
        Vector("track", 3, 0, 1),
        Set("tags", most=4, buckets=16),
        *(Real(f"x{i}", 0, 2) if i != 3 else Real("x3", 0, 5, "level") for i in range(6)),
    )
    assert not schema.bounds_from_data


def test_whatever_is_not_filled_in_is_told_at_once():
    made = Schema.from_arrow(pa.schema([*list(TYPES)[:5], *floats(*(f"x{i}" for i in range(6)))]))
    with pytest.raises(SchemaError, match="7 problems") as caught:
        made.fill(age=(0, 1), pay=(0,), rate=(1, 0), nobody=3, smoker={"low": 0})
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "the draft has no column 'nobody'",
        "column 'pay' of kind real is filled in with a pair (low, high)",
        "low of column 'rate' must lie below its high, got 1.0, 0.0",
        "column 'smoker' of kind flag has no 'low'",
        "values of column 'city' is left to fill in",
        "low of column 'x{0..5}' is left to fill in",
        "high of column 'x{0..5}' is left to fill in",
    ]
    with pytest.raises(SchemaError, match="kind of column 'age' must be one of"):
        made.fill(age="number")


def test_pandas_dtypes_become_kinds():
    frame = pd.DataFrame(
        {
            "n": np.array([1], np.int16),
            "m": pd.array([1, None], "Int64")[:1],
            "x": [0.5],
            "b": [True],
            "t": ["a"],
            "o": np.array([object()], object),
            "s": pd.array(["a"], "string"),
            "c": pd.Categorical(["x"]),
            "d": pd.to_datetime(["2020-01-01"]),
            "z": pd.to_timedelta(["1D"]),
            "k": np.array([1j]),
            7: [1],
        }
    )
    made = Schema.from_pandas(frame)
    assert {entry.name: entry.kind for entry in made.entries} == {
        "n": "integer",
        "m": "integer",
        "x": "real",
        "b": "flag",
        "t": "category",
        "o": "category",
        "s": "category",
        "c": "category",
        "d": "datetime",
        "7": "integer",
    }
    assert set(made.left_out) == {"z", "k"}
    for wrong in (3, "people.csv", pa.table({"a": [1]})):
        with pytest.raises(SchemaError, match="pandas frame"):
            Schema.from_pandas(wrong)
    with pytest.raises(SchemaError, match="Arrow table or schema"):
        Schema.from_arrow([1])


def test_categories_of_pandas_are_taken_only_where_asked_and_confessed():
    frame = pd.DataFrame({"c": pd.Categorical(["x", "y"]), "b": [True, False]})
    with pytest.raises(SchemaError, match="values of column 'c' is left to fill in"):
        Schema.from_pandas(frame).fill()
    made = Schema.from_pandas(frame, categories_from_data=True)
    assert made.fill() == Schema([Category("c", ["x", "y"]), Flag("b")], bounds_from_data=True)
    assert Schema.from_toml(made.to_toml()).bounds_from_data
    assert made.fill(c=["z"]).columns[0] == Category("c", ["z"])
    assert not Schema.from_pandas(frame[["b"]], categories_from_data=True).fill().bounds_from_data


# ---- bounds from the data -------------------------------------------------------------------------------------------


def test_every_kind_can_be_bounded_by_data(tmp_path):
    table = pa.table(
        {
            "n": [3, 9, None],
            "x": [0.5, 2.0, 1.0],
            "b": [True, None, False],
            "c": ["b", "a", ""],
            "d": [dt.date(2020, 2, 1), dt.date(2019, 1, 1), None],
            "t": [at("2020-02-01T03"), at("2019-01-01T04"), None],
            "v": [[1.0, 2.0], [0.0, 5.0], None],
            "s": [["q"], ["p", "q"], None],
            "*": [7, 7, 7],
        }
    )
    made = Schema.from_arrow(table).bounded_by_data(table.to_batches())
    expected = (
        Integer("n", 3, 9),
        Real("x", 0.5, 2),
        Flag("b"),
        Category("c", ["a", "b"]),
        Date("d", dt.date(2019, 1, 1), dt.date(2020, 2, 1)),
        Date("t", at("2019-01-01T04"), at("2020-02-01T03")),
        Vector("v", 2, 0, 5),
        Set("s", ["p", "q"], 2),
        Integer("*", 7, 8),
    )
    assert made.columns == expected
    assert made.bounds_from_data
    assert made.open_patterns == ()
    flat = table.drop_columns(["v", "s"])
    flat.to_pandas().to_csv(tmp_path / "people.csv", index=False)
    source = open_table(tmp_path / "people.csv")
    again = Schema.from_arrow(source.schema).bounded_by_data(source.blocks(source.schema.names, 2))
    assert [c.name for c in again.columns] == flat.schema.names
    assert again.columns[4:6] == expected[4:6]
    with pytest.raises(SchemaError, match="'x' holds nothing to take bounds from"):
        Schema.from_arrow(floats("x")).bounded_by_data(pa.table({"x": pa.array([None], pa.float64())}).to_batches())
