"""Names that stand for many columns: what they match, what they refuse, and how they are written."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.mechanisms.sketch import Sketch
from sfumato.planning.planner import plan
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables import patterns
from sfumato.tables.columns import Category, Flag, Id, Integer, Real, Vector
from sfumato.tables.schema import Schema

WIFI = Schema([Id("id"), Integer("WAP*", -110, 0), Real("x", 0, 1)])
NAMES = ["x", "WAP001", "id", "WAP002", "other"]


def names(schema):
    return [column.name for column in schema.columns]


def test_a_pattern_stands_for_the_columns_that_match_in_the_order_of_the_table():
    found = WIFI.matched(NAMES)
    assert names(found) == ["id", "WAP001", "WAP002", "x"]
    assert found.columns[1] == Integer("WAP001", -110, 0)
    assert found.open_patterns == ()
    assert found.matched(["anything"]) is found
    assert found.to_dict()["columns"][1] == {"name": "WAP001", "kind": "integer", "low": -110, "high": 0}


def test_names_that_are_spelt_out_win_over_patterns_and_earlier_patterns_over_later_ones():
    schema = Schema([Real("a?", 0, 1), Vector("v", low=0, high=1, columns="b[0-4]"), Real("*", 0, 2), Flag("a3")])
    found = schema.matched(["c", "a3", "a2", "a1", "b1", "b4", "b7"])
    assert found.columns == (
        Real("a2", 0, 1),
        Real("a1", 0, 1),
        Vector("v", 2, 0, 1, columns=("b1", "b4")),
        Real("c", 0, 2),
        Real("b7", 0, 2),
        Flag("a3"),
    )


def test_a_pattern_that_is_left_with_no_column_is_refused_and_all_of_them_are_named():
    with pytest.raises(SchemaError, match=r"left for the patterns 'a\*', 'b\*'") as caught:
        Schema([Real("a*", 0, 1), Flag("b*"), Flag("c")]).matched(["c"])
    assert "\n" not in str(caught.value)
    with pytest.raises(SchemaError, match=r"left for the pattern 'a\*'"):
        Schema([Real("*", 0, 1), Flag("a*")]).matched(["a1"])


def test_case_matters_and_names_that_are_there_twice_are_taken_once():
    assert names(Schema([Flag("wap*")]).matched(["WAP1", "wap1"])) == ["wap1"]
    twice = Schema([Flag("a*")]).matched(["a", "a"])
    assert names(twice) == ["a"]
    with pytest.raises(SchemaError, match="more than once"):
        twice.encode(pa.Table.from_arrays([pa.array([True])] * 2, names=["a", "a"]))


def test_a_column_that_is_named_like_a_pattern_is_itself():
    found = Schema([Real("rate [%]", 0, 1), Flag("old?")]).matched(["rate %", "rate [%]", "old?", "olds"])
    assert names(found) == ["rate [%]", "old?"]
    assert found.encode(pa.table({"rate [%]": [0.5], "old?": [True]})).tolist() == [[0.5], [1]]


@pytest.mark.parametrize("name", ["a*", "*", "[x]", "a[*]", "what?", "x{1..3}", "a[[]", "[", "]{", "{1..2}*", "[!a]"])
def test_odd_names_keep_their_meaning_in_files_and_manifests(name):
    literal = Schema([Flag(patterns.exact(name)), Vector("v", low=0, high=1, columns=[patterns.exact(f"{name}2")])])
    assert literal.open_patterns == ()
    for again in (
        Schema.from_dict(literal.to_dict()),
        Schema.from_toml(literal.to_toml()),
        Schema([Flag(patterns.escaped(patterns.exact(name))), literal.columns[1]]),
        pickle.loads(pickle.dumps(literal)),  # noqa: S301 - our own
        literal.matched(["other"]),
        Schema(literal.columns),
    ):
        assert again == literal
        assert again.open_patterns == ()
        assert again.encoding.names == (name, f"{name}2")
    assert literal.to_dict()["columns"][0]["name"] == name


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("ab*?[]{}.!-019"), min_size=1, max_size=9))
def test_an_escaped_name_is_read_as_itself(name):
    written = patterns.escaped(patterns.exact(name))
    assert patterns.numbered(written) == [name]
    assert patterns.open_patterns(patterns.expanded([Flag(written)])) == ()


def test_manifests_hold_no_patterns():
    with pytest.raises(SchemaError, match="must be a list of names"):
        Schema.from_dict({"columns": [{"name": "v", "kind": "vector", "low": 0, "high": 1, "columns": "e*"}]})
    for use in (WIFI.to_dict, lambda: WIFI.digest):
        with pytest.raises(SchemaError, match="give the table"):
            use()


@pytest.mark.parametrize(
    "use",
    [
        lambda schema: schema.encoding,
        lambda schema: schema.data_columns,
        lambda schema: schema.encode(pa.table({"x": [1.0]})),
        lambda schema: Sketch(dimension=2).prepare(schema, Guarantee(epsilon=1.0)),
        lambda schema: plan(schema=schema, guarantee=Guarantee(epsilon=1.0)),
    ],
)
def test_without_a_table_a_pattern_is_refused_in_one_line(use):
    with pytest.raises(SchemaError, match=r"pattern 'WAP\*'.*give the table, or write a numbered range") as caught:
        use(WIFI)
    assert "\n" not in str(caught.value)


# ---- numbered ranges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("WAP{001..003}", ["WAP001", "WAP002", "WAP003"]),
        ("x{9..11}", ["x9", "x10", "x11"]),
        ("x{08..11}y", ["x08y", "x09y", "x10y", "x11y"]),
        ("p{0..1}_{1..2}", ["p0_1", "p0_2", "p1_1", "p1_2"]),
        ("x{5..5}", ["x5"]),
        ("x{1,3}", ["x{1,3}"]),
        ("x[{]1..2}", ["x{1..2}"]),
    ],
)
def test_a_numbered_range_needs_no_table(name, expected):
    schema = Schema([Real(name, 0, 1)])
    assert names(schema) == expected
    assert schema.encoding.dim == len(expected)


def test_a_range_leaves_out_what_other_entries_spell_out():
    schema = Schema(
        [Real("x{1..4}", 0, 1), Flag("x2"), Real("x{3..5}", 0, 9), Vector("v", low=0, high=1, columns=["x4"])]
    )
    assert [(c.name, getattr(c, "high", None)) for c in schema.columns] == [
        ("x1", 1),
        ("x3", 1),
        ("x2", None),
        ("x5", 9),
        ("v", 1),
    ]
    with pytest.raises(SchemaError, match=r"name every column of 'x\{1\.\.2\}'"):
        Schema([Real("x{1..2}", 0, 1), Flag("x1"), Flag("x2")])


def test_a_range_may_hold_a_pattern():
    schema = Schema([Real("x{1..2}*", 0, 1)])
    assert schema.open_patterns == ("x1*", "x2*")
    assert names(schema.matched(["x2b", "x1", "x3"])) == ["x1", "x2b"]


@pytest.mark.parametrize("name", ["x{3..1}", "x{0..1048576}", "x{0..9999}{0..9999}"])
def test_ranges_that_fall_or_are_too_long_are_refused(name):
    with pytest.raises(SchemaError, match=r"must go up|at most 1,048,576"):
        Schema([Real(name, 0, 1)])


# ---- vectors --------------------------------------------------------------------------------------------------------


def test_a_vector_is_read_from_like_named_columns():
    table = pa.table({"e1": [1.0], "k": [7.0], "e0": [2.0], "e2": [3.0]})
    ranged = Schema([Vector("e", low=0, high=9, columns="e{0..2}")])
    assert ranged.columns[0].size == 3
    assert ranged.encode(table).tolist() == [[2], [1], [3]]
    pattern = Schema([Real("k", 0, 9), Vector("e", low=0, high=9, columns="e*")])
    assert pattern.open_patterns == ("e*",)
    assert pattern.matched(table.schema.names).encode(table).tolist() == [[7], [1], [2], [3]]
    assert Vector("e", low=0, high=1, columns=["a*", "b{1..2}"]).columns == ("a*", "b1", "b2")
    sized = Schema([Vector("e", 4, 0, 9, columns="e*")])
    with pytest.raises(SchemaError, match="size of column 'e' is 4, and it names 3 columns"):
        sized.matched(table.schema.names)


def test_a_vectors_own_name_is_no_pattern_where_its_columns_are_listed():
    schema = Schema([Vector("e*", low=0, high=9, columns=["a", "b"])])
    assert schema.open_patterns == ()
    assert Schema.from_toml(schema.to_toml()) == schema
    assert names(Schema([Vector("e*", 2, 0, 1)]).matched(["e1", "e2"])) == ["e1", "e2"]


# ---- what else a schema with patterns says --------------------------------------------------------------------------


def test_scale_and_clip_are_settled_with_the_patterns():
    alike = Schema([Real("a*", 0, 2)]).matched(["a1", "a2"])
    assert (alike.scale, alike.scale_stated) == ("raw", True)
    mixed = Schema([Real("a*", 0, 2), Flag("b")]).matched(["a1", "b"])
    assert (mixed.scale, mixed.scale_stated) == ("bounds", False)
    vectors = Schema([Vector("e*", 2, 0, 1)]).matched(["e1", "e2"])
    assert vectors.scale == "bounds"
    stated = Schema([Real("a*", 0, 2), Flag("b")], "l2", 3.0, scale="raw").matched(["a1", "b"])
    assert (stated.scale, stated.norm_bound) == ("raw", 3.0)


def test_a_schema_with_patterns_is_written_as_it_is():
    schema = Schema([Id("id"), Integer("WAP*", -110, 0, weight=2.0), Category("c?", ["a"])], "l2", 1.0)
    again = Schema.from_toml(schema.to_toml())
    assert again.columns == schema.columns
    assert again.open_patterns == ("WAP*", "c?")
    assert again.matched(["WAP1", "c1"]) == schema.matched(["WAP1", "c1"])


def test_an_id_that_matches_several_columns_is_refused():
    with pytest.raises(SchemaError, match="at most one column may be an id"):
        Schema([Id("id*"), Flag("a")]).matched(["id1", "id2", "a"])


def test_a_table_of_526_columns_is_described_in_under_20_lines():
    text = 'columns = [\n{name = "WAP*", kind = "integer", low = -110, high = 0},\n'
    text += "".join(f'{{name = "f{i}", kind = "flag"}},\n' for i in range(6)) + "]\n"
    found = Schema.from_toml(text).matched([*(f"WAP{i:03}" for i in range(1, 521)), *(f"f{i}" for i in range(6))])
    assert len(found.columns) == 526
    assert found.encoding.dim == 526
    assert len(text.splitlines()) < 20
