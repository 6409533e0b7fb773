"""Schemas: what they refuse, how they are written, and how cells become numbers."""

import datetime as dt
import decimal
import gc
import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError, SchemaError, SfumatoError
from sfumato.numerics.lattice import InputGrid, Plain
from sfumato.tables import patterns
from sfumato.tables.columns import Category, Flag, Id, Real
from sfumato.tables.schema import Schema

PEOPLE = Schema(
    [
        Id("person"),
        Real("age", 0, 120, weight=2.0),
        Flag("smoker"),
        Category("city", ["Bern", "Basel", "Zürich"], weight=0.5),
        Real("height", -1.5, 2.5, missing=1.0),
    ],
    scale="raw",
)

# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Real("age", None, 1), "low of column 'age' is left to fill in"),
        (lambda: Real("age", 0, None), "high of column 'age' is left to fill in"),
        (lambda: Real("age"), "low of column 'age' is left to fill in"),
        (lambda: Real("age", 0, math.inf), "high of column 'age' must be a finite number"),
        (lambda: Real("age", math.nan, 1), "low of column 'age' must be a finite number"),
        (lambda: Real("age", 0, 10**400), "high of column 'age' must be a finite number"),
        (lambda: Real("age", "0", 1), "low of column 'age' must be a finite number"),
        (lambda: Real("age", False, 1), "low of column 'age' must be a finite number"),
        (lambda: Real("age", 1, 1), "low of column 'age' must lie below"),
        (lambda: Real("age", 2, 1), "low of column 'age' must lie below"),
        (lambda: Real("age", -1e308, 1e308), "low, high and weight of column 'age'"),
        (lambda: Real("age", 0, 1e-200, weight=1e-200), "low, high and weight of column 'age'"),
        (lambda: Real("age", 0, 1, missing=1.5), "missing of column 'age' must lie within"),
        (lambda: Real("age", 0, 1, missing=math.nan), "missing of column 'age' must be a finite"),
        (lambda: Real("age", 0, 1, weight=0), "weight of column 'age' must be positive"),
        (lambda: Real("age", 0, 1, weight=-1), "weight of column 'age' must be positive"),
        (lambda: Real("age", 0, 1, weight=math.inf), "weight of column 'age' must be a finite"),
        (lambda: Flag("smoker", missing=1), "missing of column 'smoker' must be true, false or 'level'"),
        (lambda: Flag("smoker", weight=0), "weight of column 'smoker'"),
        (lambda: Category("city"), "values of column 'city' is left to fill in"),
        (lambda: Category("city", []), "values of column 'city'"),
        (lambda: Category("city", "Bern"), "values of column 'city'"),
        (lambda: Category("city", ["Bern", "Bern"]), "values of column 'city' must be distinct, got 'Bern'"),
        (lambda: Category("city", [1, "1"]), "values of column 'city' must be distinct, got '1'"),
        (lambda: Category("city", [1.5]), "values of column 'city'"),
        (lambda: Category("city", [10**5000]), "values of column 'city' that are whole numbers must fit 64 bits"),
        (lambda: Category("city", [True]), "values of column 'city'"),
        (lambda: Category("city", ["Bern"], missing="Basel"), "missing of column 'city'"),
        (lambda: Category("city", ["Bern"], weight=math.nan), "weight of column 'city'"),
        (lambda: Category("city", ["\ud800"]), "values of column 'city' must be writable"),
        (lambda: Id(""), "name of a column"),
        (lambda: Id(3), "name of a column"),
        (lambda: Id("\udfff"), "writable in UTF-8"),
        (lambda: Schema([]), "at least one column"),
        (lambda: Schema([Id("a")]), "at least one column"),
        (lambda: Schema([Id("a"), Id("b"), Flag("c")]), "at most one column may be an id, got 'a', 'b'"),
        (lambda: Schema([Flag("a"), Real("a", 0, 1)]), "column 'a' is there more than once"),
        (lambda: Schema([Flag("a=1"), Category("a", [1])]), "encoded column 'a=1'"),
        (lambda: Schema(["age"]), "column number 1"),
        (lambda: Schema("age"), "columns must be a list"),
        (lambda: Schema(Flag("a")), "columns must be a list"),
        (lambda: Schema([Flag("a")], norm="l2"), "both norm and bound"),
        (lambda: Schema([Flag("a")], norm_bound=1.0), "both norm and bound"),
        (lambda: Schema([Flag("a")], "l3", 1.0), "norm of the clip must be 'l1' or 'l2', got 'l3'"),
        (lambda: Schema([Flag("a")], "l2", 0.0), "bound of the clip"),
        (lambda: Schema([Flag("a")], "l2", math.inf), "bound of the clip"),
        (lambda: Schema([Flag("a")], "l2", "1"), "bound of the clip"),
        (lambda: Schema([Flag("a")], bounds_from_data=1), "bounds_from_data"),
    ],
)
def test_bad_columns_and_schemas_are_refused_by_name(make, named):
    with pytest.raises(SchemaError) as caught:
        make()
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, SfumatoError)
    assert isinstance(caught.value, ValueError)


def test_a_matrix_needs_a_whole_number_of_columns():
    with pytest.raises(ParameterError, match="dim=0"):
        Schema.reals(0, 0, 1)


def test_columns_are_values_and_numbers_become_plain():
    assert Real("a", np.float32(0), np.int64(1)) == Real("a", 0.0, 1.0)
    assert type(Real("a", 0, 1).low) is float
    assert Category("a", ["x"]).values == ("x",)
    assert type(Category("a", [np.int64(3)]).values[0]) is int
    assert hash(PEOPLE) == hash(Schema(tuple(PEOPLE.columns), scale="raw"))
    with pytest.raises(AttributeError):
        Real("a", 0, 1).low = 3


# ---- the layout -----------------------------------------------------------------------------------------------------


def test_the_encoding_lays_columns_out_in_order():
    e = PEOPLE.encoding
    assert e.names == ("age", "smoker", "city=Bern", "city=Basel", "city=Zürich", "height")
    assert e.low.tolist() == [0, 0, 0, 0, 0, -1.5]
    assert e.high.tolist() == [120, 1, 1, 1, 1, 2.5]
    assert e.weights.tolist() == [2, 1, 0.5, 0.5, 0.5, 1]
    assert e.ranges.tolist() == [240, 1, 0.5, 0.5, 0.5, 4]
    assert ([(g.start, g.stop, g.most) for g in e.groups], e.flags, e.dim) == ([(2, 5, 1)], (1,), 6)
    assert all(a.dtype == np.float64 for a in (e.low, e.high, e.weights, e.ranges))
    assert PEOPLE.id_column == Id("person")
    assert [c.name for c in PEOPLE.data_columns] == ["age", "smoker", "city", "height"]


def test_a_plain_matrix_has_plain_names():
    schema = Schema.reals(3, low=0, high=16)
    assert schema.encoding.names == ("c0", "c1", "c2")
    assert schema.encoding.ranges.tolist() == [16, 16, 16]
    assert schema.id_column is None
    assert schema.encoding.groups == schema.encoding.flags == ()


# ---- on disk --------------------------------------------------------------------------------------------------------

NAMES = st.text(min_size=1, max_size=8).map(patterns.exact)
NUMBERS = st.floats(-1e100, 1e100)
WEIGHTS = st.floats(1e-100, 1e100)


@st.composite
def reals(draw):
    low, high = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique_by=lambda x: x + 0.0)))
    high = high if high - low > 1e-100 else low + abs(low) + 1
    return Real(draw(NAMES), low, high, draw(st.sampled_from([None, low, high])), draw(WEIGHTS))


@st.composite
def categories(draw):
    values = draw(
        st.lists(st.text(max_size=6) | st.integers(-(2**64) + 1, 2**64 - 1), min_size=1, max_size=4, unique_by=str)
    )
    return Category(draw(NAMES), values, draw(st.sampled_from([None, *values])), draw(WEIGHTS))


FLAGS = st.builds(Flag, NAMES, st.sampled_from([None, True, False]), WEIGHTS)


@st.composite
def schemas(draw):
    columns = draw(
        st.lists(reals() | categories() | FLAGS, min_size=1, max_size=4, unique_by=lambda c: c.name.partition("=")[0])
    )
    name = draw(NAMES.filter(lambda n: n not in [c.name for c in columns]) | st.none())
    clip = draw(st.sampled_from([(None, None), ("l1", 0.5), ("l2", 3)]))
    return Schema(columns if name is None else [*columns, Id(name)], *clip, draw(st.booleans()))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(schemas())
def test_writing_and_reading_is_the_identity(schema):
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert Schema.from_toml(schema.to_toml()).digest == schema.digest


def test_files_are_read_as_written(tmp_path):
    path = tmp_path / "people.toml"
    schema = Schema(PEOPLE.columns, "l1", 2, bounds_from_data=True)
    schema.write(path)
    assert Schema.read(path) == Schema.read(str(path)) == schema


def test_the_form_of_the_design_is_read():
    text = """
    bounds_from_data = true
    scale = "raw"
    [clip]
    norm = "l2"
    bound = 1.0
    [[columns]]
    name = "age"
    kind = "real"          # real | flag | category | id
    low = 0
    high = 120.0
    missing = 0.0
    weight = 1.0
    [[columns]]
    name = "city"
    kind = "category"
    values = ["Bern", 3]
    """
    expected = Schema([Real("age", 0, 120, 0), Category("city", ["Bern", 3])], "l2", 1, True, "raw")
    assert Schema.from_toml(text) == expected


def test_the_digest_is_that_of_the_meaning_and_moves_with_every_field():
    base = Schema([Real("a", 0, 1)])
    assert base.digest == Schema((Real("a", 0.0, 1.0, None, 1),)).digest
    assert base.digest == Schema([Real("a", -0.0, 1)]).digest
    canonical = b'{"columns":[{"high":1.0,"kind":"real","low":0.0,"name":"a"}]}'
    assert base.digest == hashlib.sha256(canonical).hexdigest()
    others = [
        Schema([Real("b", 0, 1)]),
        Schema([Real("a", 0, 2)]),
        Schema([Real("a", 0, 1, 0)]),
        Schema([Real("a", 0, 1, weight=2)]),
        Schema([Real("a", 0, 1), Id("i")]),
        Schema([Flag("a")]),
        Schema([Real("a", 0, 1)], "l1", 1),
        Schema([Real("a", 0, 1)], "l2", 1),
        Schema([Real("a", 0, 1)], bounds_from_data=True),
    ]
    assert len({s.digest for s in [base, *others]}) == 10


COLUMN = '[[columns]]\nname = "age"\nkind = "real"\n'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (COLUMN + "low = 0\n", "high of column 'age' is left to fill in"),
        (COLUMN + "low = 0\nhigh = 3\nhihg = 3\n", "unknown key 'hihg' in column 'age' of kind real"),
        (COLUMN + "low = 0\nhigh = 3\nvalues = [1]\n", "unknown key 'values' in column 'age' of kind real"),
        (COLUMN + 'low = "x"\nhigh = 3\n', "low of column 'age' must be a finite number"),
        ('[[columns]]\nname = "age"\nkind = "number"\n', "kind of column 'age' must be one of real, integer, flag"),
        ('[[columns]]\nname = "age"\n', "kind of column 'age'"),
        ('[[columns]]\nname = "age"\nkind = ["real"]\n', "kind of column 'age'"),
        ('[[columns]]\nkind = "flag"\n', "column number 1 has no name"),
        ('[[columns]]\nname = ""\nkind = "flag"\n', "name of a column"),
        ('[columns]\nname = "age"\n', "[[columns]]"),
        ("columns = [3]\n", "column number 1 has no name"),
        ('clip = "l2"\n', "[clip]"),
        ('[clip]\nnorm = "l2"\n[[columns]]\nname = "a"\nkind = "flag"\n', "both norm and bound"),
        ('[clip]\nnorm = "l2"\nbound = 1\nradius = 1.0\n', "unknown key 'radius' in clip"),
        ('[clip]\nnorm = ["l2"]\nbound = 1.0\n[[columns]]\nname = "a"\nkind = "flag"\n', "norm of the clip"),
        ("column = 3\n", "unknown key 'column' in the schema"),
        ("low = \n", "not TOML"),
        ("low = " + "[" * 100_000, "nested too deeply"),
        ("low = 1" + "0" * 5000, "not TOML"),
        ("", "at least one column"),
    ],
)
def test_bad_files_are_refused_in_one_line_that_names_the_file(tmp_path, text, named):
    path = tmp_path / "people.toml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_absent_or_not_text_is_refused(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    for name in ("nowhere.toml", "latin.toml", ""):
        with pytest.raises(SchemaError, match="no such schema file, or it is not"):
            Schema.read(tmp_path / name)


# ---- encoding -------------------------------------------------------------------------------------------------------


def people(**changed):
    columns = {"age": [30.0], "smoker": [True], "city": ["Bern"], "height": [1.8], **changed}
    return pa.table(
        {name: cells if isinstance(cells, pa.Array) else pa.array(cells) for name, cells in columns.items()}
    )


def one(column, cells):
    """The encoding of one column, as a list of rows."""
    array = cells if isinstance(cells, (pa.Array, pa.ChunkedArray)) else pa.array(cells)
    return Schema([column]).encode(pa.table({column.name: array})).tolist()


def test_a_batch_becomes_a_matrix_of_columns():
    table = people(
        age=[30.0, 150.0, -3.0], smoker=[True, False, True], city=["Bern", "Zürich", "Basel"], height=[1, 2, 3]
    )
    expected = [[30, 150, -3], [1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 2, 3]]
    for batch in (table, table.to_batches()[0], table.select(["height", "city", "smoker", "age"])):
        out = PEOPLE.encode(batch)
        assert out.tolist() == expected
        assert out.dtype == np.float64
        assert out.flags["C_CONTIGUOUS"]
        assert out.shape == (PEOPLE.encoding.dim, 3)


def test_extra_columns_are_ignored_and_an_id_is_not_needed():
    table = people()
    more = table.append_column("person", pa.array(["x"])).append_column("other", pa.array([{"a": 1}]))
    assert np.array_equal(PEOPLE.encode(more), PEOPLE.encode(table))


def test_absent_columns_are_named():
    with pytest.raises(SchemaError, match="has no columns 'age', 'city'"):
        PEOPLE.encode(people().drop_columns(["age", "city"]))
    with pytest.raises(SchemaError, match=r"'c4' and 3 more"):
        Schema.reals(8, 0, 1).encode(pa.table({"x": [1]}))


def test_a_column_that_is_there_twice_is_refused():
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with pytest.raises(SchemaError, match="'a' is there more than once"):
        Schema([Real("a", 0, 1)]).encode(table)


def test_types_that_no_cell_could_satisfy_are_refused_by_type_not_by_value():
    for cells in ([dt.date(1987, 6, 5)], [[8765]], [{"x": 8765}]):
        for column in (Real("a", 0, 1), Flag("a"), Category("a", ["x"])):
            with pytest.raises(SchemaError, match="column 'a' is of type") as caught:
                one(column, cells)
            assert "8765" not in str(caught.value)
            assert "1987" not in str(caught.value)


TEXTS = [
    "1.5",
    " 2 ",
    "+3",
    "-4e-1",
    "abc",
    "",
    None,
    "nan",
    "inf",
    "-Infinity",
    "1,5",
    "1_0",
    "0x10",
    "1e999",
    "1e-999",
]
READ = [1.5, 2, 3, -0.4, None, None, None, None, math.inf, -math.inf, None, None, None, math.inf, 0]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()])
@pytest.mark.parametrize(("column", "nothing"), [(Real("a", -7, 7), -7), (Real("a", -7, 7, missing=3), 3)])
def test_texts_in_a_real_column_are_read_or_missing(kind, column, nothing):
    texts = pa.array(TEXTS).cast(kind)
    assert one(column, texts) == [[nothing if r is None else r for r in READ]]
    assert one(column, texts.dictionary_encode() if kind != pa.string_view() else texts) == one(column, texts)


@pytest.mark.parametrize(
    "kind",
    [pa.float64(), pa.float32(), pa.float16(), pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.decimal128(21, 2)],
    ids=str,
)
def test_numbers_of_every_type_are_read_as_they_are(kind):
    cells = pa.array([1, None, 3], pa.int64()).cast(kind)
    assert one(Real("a", -1, 2), cells) == [[1, -1, 3]]
    assert one(Real("a", -1, 2, missing=2), cells) == [[1, 2, 3]]
    assert one(Real("a", -1, 2), cells.drop_null()) == [[1, 3]]
    assert one(Flag("a"), cells) == [[1, 0, 0]]
    assert one(Flag("a", missing=True), cells) == [[1, 1, 1]]
    assert one(Category("a", [3, 1]), cells) == [[0, 0, 1], [1, 0, 0]]
    assert one(Category("a", ["3", "1"]), cells) == [[0, 0, 1], [1, 0, 0]]


def test_nan_is_missing_and_infinity_is_a_number():
    cells = [math.nan, math.inf, -math.inf, None, 0.5]
    assert one(Real("a", -1, 2), cells) == [[-1, math.inf, -math.inf, -1, 0.5]]
    assert one(Real("a", -1, 2, missing=1.5), cells) == [[1.5, math.inf, -math.inf, 1.5, 0.5]]
    assert one(Flag("a", missing=True), cells) == [[1, 1, 1, 1, 1]]
    assert one(Category("a", [1], missing=1), cells) == [[1] * 5]
    assert one(Category("a", [1]), cells) == [[0] * 5]


def test_flags_are_truths_bits_and_six_words():
    words = ["true", "FALSE", "Yes", "no", "0", "1", " true ", "maybe", "", None, "2"]
    read = [1, 0, 1, 0, 0, 1, 1, None, None, None, None]
    for missing, nothing in ((None, 0), (False, 0), (True, 1)):
        assert one(Flag("a", missing=missing), words) == [[nothing if r is None else r for r in read]]
        assert one(Flag("a", missing=missing), [True, None, False]) == [[1, nothing, 0]]
        assert one(Flag("a", missing=missing), [0, None, 1, 2, -1]) == [[0, nothing, 1, nothing, nothing]]
        assert one(Flag("a", missing=missing), [0.0, 0.5, 1.0]) == [[0, nothing, 1]]
        assert one(Flag("a", missing=missing), pa.nulls(2)) == [[nothing, nothing]]


def test_categories_without_a_missing_rule_are_zeros_where_nothing_is_listed():
    cells = ["b", "a", "c", None, "", "A"]
    assert one(Category("x", ["a", "b"]), cells) == [[0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
    assert one(Category("x", ["a", "b"], missing="b"), cells) == [[0, 1, 0, 0, 0, 0], [1, 0, 1, 1, 1, 1]]
    assert one(Category("x", ["a", ""]), cells) == [[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]]
    assert one(Category("x", ["a"]), pa.nulls(3)) == [[0, 0, 0]]


def test_whole_numbers_are_one_category_however_they_are_stored():
    codes = Category("x", [10, 2**53 - 1, -3, "7"])
    expected = [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]
    stored = [[10, -3, 7, 8, None], [10.0, -3.0, 7.0, 7.5, math.nan], ["10", "-3", "7", "8", None]]
    stored += [
        ["10.0", "-3.00", "07", "7.5", ""],
        [" 10", "-3", "7e0", "x7", "-"],
        [decimal.Decimal(x) for x in (10, -3, 7, 8)] + [None],
    ]
    for cells in stored:
        assert one(codes, cells) == expected
    for cells in ([2**53 - 1, 2**53], [2.0**53 - 1, 2.0**53], [str(2**53 - 1), str(2**53)]):
        assert one(codes, cells) == [[0, 0], [1, 0], [0, 0], [0, 0]]
    assert one(Category("x", [0, 1]), [-0.0, 1.0]) == [[1, 0], [0, 1]]
    assert one(Category("x", [0, 1]), [False, True]) == [[1, 0], [0, 1]]
    for cells in ([1, 2], [1.0, 2.0], ["1", "2"], ["1.0", "2.0"]):
        assert one(Category("x", ["1.0", "2"]), cells) == [[1, 0], [0, 1]]
    assert one(Category("x", ["07", "7"]), ["07", "7", "7.0", "007"]) == [[1, 0, 0, 0], [0, 1, 1, 1]]
    for twice in (["1.0", 1], ["True", 1], ["false", "False"]):
        for cells in (["1", "1.0"], pa.nulls(2), pa.array([], pa.string())):
            with pytest.raises(SchemaError, match="mean one number"):
                one(Category("x", twice), cells)


def test_truths_are_one_category_and_one_number_however_they_are_stored():
    for cells in ([True, False], ["True", "False"], ["true", "false"], ["TRUE", "0"], [1, 0], [1.0, 0.0], ["1", "0.0"]):
        assert one(Real("x", 0, 1, missing=0.5), cells) == [[1, 0]]
        assert one(Flag("x"), cells) == [[1, 0]]
        for values in ((1, 0), ("1.0", "0"), ("True", "False"), ("true", "false")):
            assert one(Category("x", values), cells) == [[1, 0], [0, 1]]


def test_dictionaries_chunks_runs_and_extensions_mean_what_their_cells_mean():
    texts = pa.array(["a", None, "b", "z", "a", "a"])
    column = Category("x", ["a", "b"], missing="b")
    expected = one(column, texts)
    small = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2, 0, 0], pa.int8()), ["a", "b", "z"])
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 3, 1, 2, 0, 0], pa.int8()), ["a", "b", "z", None])
    large = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2, 0, 0]), ["a", "b", "z", *map(str, range(50))])
    full = pa.DictionaryArray.from_arrays(pa.array([0, None] * 100, pa.int8()), ["a", *map(str, range(127))])
    assert one(column, full) == [[1, 0] * 100, [0, 1] * 100]
    runs = pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4, 6], pa.array(["a", None, "b", "z", "a"]))
    for same in (small, with_null, large, runs, pa.chunked_array([texts[:2], texts[2:2], texts[2:]])):
        assert one(column, same) == expected
    boxed = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1.5", None, "x"]))
    assert one(Real("x", 0, 2), boxed) == [[1.5, 0, 0]]


def test_bytes_that_are_no_text_are_unreadable_not_an_error():
    cells = pa.array([b"\xff\xfe", b"1", b"true", b"a\xff"])
    for kind in (pa.binary(), pa.large_binary()):
        assert one(Real("x", 0, 2, missing=2), cells.cast(kind)) == [[2, 1, 1, 2]]
        assert one(Flag("x", missing=False), cells.cast(kind)) == [[0, 1, 1, 0]]
        assert one(Category("x", ["1", "a"]), cells.cast(kind)) == [[0, 1, 1, 0], [0] * 4]
    fixed = pa.array([b"1 ", b"\xff\xff"], pa.binary(2))
    assert one(Real("x", 0, 2, missing=2), fixed) == [[1, 2]]


ODD_TEXTS = st.text(alphabet="0123456789+-.eEinfaINFNAty_ \t\n\x0b\x00()xX,²\u00a0\u0661", max_size=8)
COLUMNS = [Real("x", -5, 5, missing=4), Flag("x", missing=True), Category("x", ["a", 1, "", "1e1"], missing=1)]


def read_by_itself(read, column, cells):
    together = read(column, pa.array(cells, pa.string()))
    alone = [read(column, pa.array([cell], pa.string())) for cell in cells]
    assert not np.isnan(np.array(alone)).any()
    return all([row[i] for row in together] == [row[0] for row in rows] for i, rows in enumerate(alone))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(ODD_TEXTS | st.text(max_size=4) | st.none(), min_size=1, max_size=6))
def test_each_cell_is_read_by_itself(cells):
    """A contract of privacy at the level of attributes: no cell may change how another is read."""
    assert all(read_by_itself(one, column, cells) for column in COLUMNS)


def test_a_reader_that_gives_up_on_a_whole_column_is_caught():
    def careless(column, cells):
        try:
            return [cells.cast(pa.float64()).fill_null(column.missing).to_pylist()]
        except pa.ArrowInvalid:
            return [[column.missing] * len(cells)]

    assert read_by_itself(careless, COLUMNS[0], ["1", "2", None])
    assert not read_by_itself(careless, COLUMNS[0], ["1", "x"])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(allow_nan=False))
def test_a_number_written_as_text_is_the_same_number(number):
    assert one(Real("x", -5, 5), [repr(number), "x"]) == [[number, -5]]
    assert one(Real("x", -5, 5), [repr(number)]) == one(Real("x", -5, 5), [number])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.binary(max_size=5) | st.none(), max_size=5))
def test_no_bytes_whatever_raise_an_error(cells):
    for column in COLUMNS:
        assert np.isfinite(one(column, pa.array(cells, pa.binary()))).all()


def test_empty_batches_have_columns_and_no_rows():
    assert PEOPLE.encode(people().slice(0, 0)).shape == (6, 0)
    assert PEOPLE.encode(people().schema.empty_table()).shape == (6, 0)


def test_encoding_float_columns_costs_little_more_than_copying_them():
    numbers = np.random.default_rng(0).normal(size=(20, 50_000))
    table = pa.table({f"c{j}": numbers[j] for j in range(20)})
    gc.collect()  # what other tests left
    before = pa.total_allocated_bytes()
    assert np.array_equal(Schema.reals(20, -1, 1).encode(table), numbers)
    assert pa.total_allocated_bytes() <= before  # Arrow's cells are looked at where they are


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("dim", [1, 8, 50, 300])
def test_a_row_is_clipped_alike_to_the_bit_alone_and_in_a_block(dim, norm):
    """Where the number of rows is protected, a record that comes or goes may leave another alone in its block."""
    schema = replace(Schema.reals(dim, low=-100.0, high=100.0), norm=norm, norm_bound=1.0)
    block = np.random.default_rng(dim).normal(size=(dim, 40)) * np.geomspace(1e-3, 1e3, 40)
    whole = schema.clip(block)
    for i in range(40):
        assert (schema.clip(block[:, i : i + 1]) == whole[:, i : i + 1]).all()
    assert (np.linalg.norm(whole, 1 if norm == "l1" else 2, axis=0) <= 1).all()


# ---- plain numbers, encoded later -----------------------------------------------------------------------------------

MEASURED = Schema([Id("who"), Real("a", -1, 1), Real("b", 0, 2, missing=1.5), Real("c", -3, 0)])


def numbers_batch(kind, rng, rows=50):
    held = rng.normal(0, 2, (3, rows))
    held[rng.random(held.shape) < 0.2] = np.nan
    held[0, :4] = [np.inf, -np.inf, 1e30, -0.0]
    kinds = {"float32": ["f4"] * 3, "float64": ["f8"] * 3, "both": ["f4", "f8", "f4"]}[kind]
    arrays = [pa.array(column.astype(k)) for column, k in zip(held[::-1], kinds, strict=True)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(["x"] * rows)], ["c", "b", "a", "who"])


@pytest.mark.parametrize("kind", ["float32", "float64", "both"])
def test_numbers_encoded_later_are_those_encoded_at_once(kind):
    batch = numbers_batch(kind, np.random.default_rng(4))
    whole, later = MEASURED.encode(batch), MEASURED.later(batch)
    assert isinstance(later, Plain)
    assert later.shape == whole.shape
    assert np.array_equal(later.doubles(), whole)
    for start, stop in ((0, 50), (7, 20), (49, 50), (20, 20)):
        assert np.array_equal(later[:, start:stop].doubles(), whole[:, start:stop])
        out = np.full((3, stop - start), 9.0)
        assert later[:, start:stop].doubles(out) is out
        assert np.array_equal(out, whole[:, start:stop])


@pytest.mark.parametrize(
    "change",
    [
        lambda batch: batch.set_column(0, "c", pa.array([None] + [0.5] * 49)),
        lambda batch: batch.set_column(0, "c", pa.array([1] * 50)),
        lambda batch: batch.set_column(0, "c", pa.array(["0.5"] * 50)),
    ],
    ids=["gap", "integers", "texts"],
)
def test_other_columns_are_encoded_at_once(change):
    batch = change(numbers_batch("float64", np.random.default_rng(5)))
    assert np.array_equal(MEASURED.later(batch), MEASURED.encode(batch))


def test_rounding_to_the_grid_is_the_same_for_numbers_encoded_later():
    batch = numbers_batch("both", np.random.default_rng(6))
    grid = InputGrid(MEASURED.encoding.low, MEASURED.encoding.high)
    whole = grid.round(MEASURED.encode(batch))
    assert np.array_equal(grid.round(MEASURED.later(batch)), whole)
    assert np.array_equal(grid.round(MEASURED.later(batch)[:, 3:9], np.empty((3, 6))), whole[:, 3:9])
