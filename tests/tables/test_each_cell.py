"""Each cell is read by itself: whatever else is in the table, in whatever type it is stored, and without an error."""

import itertools
from datetime import date, datetime
from operator import attrgetter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import SchemaError
from sfumato.files.open_table import open_table
from sfumato.tables.blocks import Blocks
from sfumato.tables.columns import Date, Integer, Real, Set, Vector
from sfumato.tables.schema import Schema
from tests.support import all_kinds
from tests.support.all_kinds import DAY, NOON, SCHEMAS, corners, random_row, table

at = datetime.fromisoformat


@pytest.mark.parametrize("name", ["plain", "levels", "levels, raw"])
def test_no_cell_changes_how_another_is_encoded(name):
    """Rows one at a time, all together, in another order, in chunks and in slices: to the bit the same."""
    rng, schema = np.random.default_rng(3), SCHEMAS[name]
    rows = [random_row(rng, schema) for _ in range(150)]
    whole = table(schema, rows)
    alone = np.hstack([schema.encode(table(schema, [row])) for row in rows])
    assert not np.isnan(alone).any()
    order = rng.permutation(len(rows))
    chunked = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 0), whole.slice(7, 60), whole.slice(67)])
    for found in (schema.encode(whole), schema.encode(whole.take(order))[:, np.argsort(order)], schema.encode(chunked)):
        np.testing.assert_array_equal(found, alone)
    (batch,) = whole.combine_chunks().to_batches()
    np.testing.assert_array_equal(schema.encode(batch.slice(13, 50)), alone[:, 13:63])
    np.testing.assert_array_equal(schema.clip(alone)[:, 13:63], schema.clip(alone[:, 13:63]))


@pytest.mark.parametrize("column", [*all_kinds.PLAIN, *all_kinds.LEVELS], ids=lambda c: f"{c.name} {c.missing}")
def test_encoded_cells_are_within_their_domain_once_clipped(column):
    """At most as many ones as there may be, each column in its bounds, missing cells at the middle."""
    schema = Schema((column,), scale="bounds")
    rows = schema.clip(schema.encode(table(schema, [(cell,) for cell in corners(column)])))
    assert (rows >= schema.encoding.low[:, None]).all()
    assert (rows <= schema.encoding.high[:, None]).all()
    for group in schema.encoding.groups:
        own = rows[group.start : group.stop]
        if group.most is not None:
            assert set(own.ravel().tolist()) <= {0.0, 1.0}
            assert own.sum(axis=0).max() == group.most
        weighted = own * schema.encoding.weights[group.start : group.stop, None]
        gaps = weighted[:, :, None] - weighted[:, None, :]
        assert np.linalg.norm(gaps, 1, axis=0).max() <= group.reach1
        assert group.reach2 * (1 - 1e-9) <= np.linalg.norm(gaps, axis=0).max() <= group.reach2


# ---- types ----------------------------------------------------------------------------------------------------------

LISTS = [[7, 5], [7, 7, 2], None, [], [None], [5, None, 7, 2, 1], [2**53 + 1, 2**53]]
WORDS = [[None if item is None else str(item) for item in cell or []] if cell is not None else None for cell in LISTS]
FORMS = {
    "int64": pa.array(LISTS, pa.list_(pa.int64())),
    "double": pa.array([c and [None if i is None else float(i) for i in c] for c in LISTS], pa.list_(pa.float64())),
    "large": pa.array(LISTS, pa.large_list(pa.int64())),
    "decimal": pa.array(LISTS, pa.list_(pa.int64())).cast(pa.list_(pa.decimal128(38, 0))),
    "sliced": pa.array([[1, 2, 3], *LISTS, [9]], pa.list_(pa.int64())).slice(1, len(LISTS)),
    "under nulls": pa.ListArray.from_arrays(
        pa.array([0, 2, 5, 7, 7, 8, 13, 15]),
        pa.array([7, 5, 7, 7, 2, 5, 5, None, 5, None, 7, 2, 1, 2**53 + 1, 2**53]),
        mask=pa.array([i == 2 for i in range(7)]),
    ),
}
TEXTS = {
    "string": pa.array(WORDS[:-1], pa.list_(pa.string())),
    "large_string": pa.array(WORDS[:-1], pa.large_list(pa.large_string())),
    "binary": pa.array(WORDS[:-1], pa.list_(pa.binary())),
    "view": pa.array(WORDS[:-1], pa.list_(pa.string_view())),
    "dictionary": pa.array(WORDS[:-1], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
}


@pytest.mark.parametrize(
    "column", [Set("s", (7, 2, 1), most=2), Set("s", buckets=50, most=3)], ids=["listed", "hashed"]
)
@pytest.mark.parametrize("form", FORMS | TEXTS)
def test_a_set_is_the_same_in_every_type_that_its_items_are_stored_in(column, form):
    schema, array = Schema((column,)), (FORMS | TEXTS)[form]
    expected = schema.encode(pa.table({"s": FORMS["int64"]}))[:, : len(array)]
    np.testing.assert_array_equal(schema.encode(pa.table({"s": array})), expected)


VECTORS = [[1.0, -2.0], None, [0.5, None], [3.0], [], [1.0, 2.0, 3.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.string()), pa.list_(pa.decimal128(9, 3))],
    ids=str,
)
def test_a_vector_is_the_same_in_every_type_that_its_numbers_are_stored_in(kind):
    schema = Schema((Vector("v", 2, -2.0, 2.0, bound=1.0),))
    expected = schema.encode(pa.table({"v": pa.array(VECTORS, pa.list_(pa.float64()))}))
    cells = pa.array([c and [x if x is None else str(x) for x in c] for c in VECTORS], pa.list_(pa.string())).cast(kind)
    np.testing.assert_array_equal(schema.encode(pa.table({"v": cells})), expected)
    some = [cell for cell in VECTORS if cell is None or len(cell) == 2]
    fixed = pa.array([[9.0, 9.0], *some], pa.list_(pa.float64(), 2)).slice(1)
    places = [i for i, cell in enumerate(VECTORS) if cell is None or len(cell) == 2]
    np.testing.assert_array_equal(schema.encode(pa.table({"v": fixed})), expected[:, places])


MOMENTS = [at("2020-02-29T23:59:59"), None, at("0001-01-01"), at("2020-01-01"), at("9999-12-31T12:00:00")]


@pytest.mark.parametrize("column", [Date("d", *DAY), Date("d", *NOON, step=60, missing="level")], ids=["date", "time"])
def test_a_date_is_the_same_in_every_type_that_it_is_stored_in(column):
    schema = Schema((column,), scale="raw")
    exact = pa.array(MOMENTS, pa.timestamp("us"))
    texts = [None if m is None else m.isoformat(" ") for m in MOMENTS]
    forms = [
        *(
            exact.cast(pa.timestamp(unit, zone))
            for unit in ("s", "ms", "us")
            for zone in (None, "UTC", "Europe/Zurich")
        ),
        pa.array(texts),
        pa.array([t and t.replace(" ", "T") + "Z" for t in texts], pa.large_string()),
        pa.array([t and t + ".000000000" for t in texts]).dictionary_encode(),
        pa.array([t and f" {t}+00:00\n" for t in texts], pa.binary()),
        pa.chunked_array([exact[:2], exact[2:]]),
        pa.concat_arrays([exact, exact]).slice(len(exact)),
    ]
    expected = schema.encode(pa.table({"d": exact}))
    for form in forms:
        np.testing.assert_array_equal(schema.encode(pa.table({"d": form})), expected)
    inside = [m for m in MOMENTS if m is None or 1678 < m.year < 2262]
    kept = [i for i, m in enumerate(MOMENTS) if m is None or 1678 < m.year < 2262]
    np.testing.assert_array_equal(
        schema.encode(pa.table({"d": pa.array(inside, pa.timestamp("ns"))})), expected[:, kept]
    )


@pytest.mark.parametrize("column", [Date("d", *DAY), Date("d", *NOON)], ids=["date", "time"])
@pytest.mark.parametrize(
    ("cell", "end"),
    [
        ("0001-01-01T00:00+14:00", "low"),
        ("9999-12-31T23:59-14:00", "high"),
        ("20000-01-01", "high"),
        ("+12345-06-07 10:00:00", "high"),
        ("-0044-03-15", "low"),
        ("0000-03-15", "low"),
        ("9999-12-31 23:59:59-00:53:28", "high"),
        ("2020-02-30", None),
        ("2020-13-01", None),
        ("2020-01-01T25:00", None),
        ("٢٠٢٠-01-01", None),
        ("2020-01-01" * 20, None),
        ("99999999999-01-01", None),
    ],
)
def test_no_written_date_raises_an_error(column, cell, end):
    """Nor is one beyond the years that Python's dates have nothing: as a timestamp it would be an end."""
    kept = Date("d", column.low, column.high, missing="level")
    schema = Schema((kept,), scale="raw")
    number, missing = schema.clip(schema.encode(pa.table({"d": [cell]})))[:, 0]
    middle = kept.steps / 2
    assert (number, missing) == {"low": (0, 0), "high": (kept.steps, 0), None: (middle, 1)}[end]


# ---- files whose types differ, since one has no such cell ------------------------------------------------------------


def _encoded(data, schema):
    blocks = Blocks.of(open_table(data, schema), schema)
    return np.hstack([blocks.encode(batch) for batch in blocks])


DATE, TIME = Date("c", *DAY), Date("c", *NOON, step=3600)
VECTOR, WORD, HASHED = Vector("c", 2, -3.0, 3.0), Set("c", ("a", 7), most=2), Set("c", buckets=9, most=2)
FOLDERS = {
    "lists of numbers": (VECTOR, [[1, 2]], [[1.5, None]], [None]),
    "fixed lists": (
        VECTOR,
        pa.array([[1.0, 2.0], None, [2.0, 1.0]], pa.list_(pa.float32(), 2)),
        [[1, 2], None],
        [None],
    ),
    "lists of texts": (WORD, [["a", "7"], None], [[7, None], []], [[None]], [None]),
    "lists of words": (
        HASHED,
        pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        [["b", None]],
        [[7]],
    ),
    "days": (DATE, [date(2020, 3, 1)], [at("2020-03-01T13:00:00")], [None], ["2020-03-01", "x"]),
    "times": (TIME, [date(2020, 2, 1), date(9999, 1, 1)], [at("2020-02-01T05:00:00"), None], [None]),
    "times beside texts": (TIME, pa.array([2**60, -(2**60), None, 0]).cast(pa.timestamp("ms")), ["2020-02-01 05:00"]),
    "no date": (DATE, [date(2020, 3, 1)], pa.array([None, None], pa.float64())),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_files_of_a_folder_are_read_alike_whatever_type_their_cells_gave_them(name, tmp_path):
    column, *parts = FOLDERS[name]
    schema = Schema((column,), scale="raw")
    tables = [pa.table({"c": part}) for part in parts]
    expected = np.hstack([schema.clip(schema.encode(part)) for part in tables])
    orders = list(itertools.permutations(range(len(tables))))
    places = np.split(np.arange(expected.shape[1]), np.cumsum([part.num_rows for part in tables])[:-1])
    for number, order in enumerate(orders):
        folder = tmp_path / str(number)
        folder.mkdir()
        for place, part in enumerate(order):
            pq.write_table(tables[part], folder / f"{place}.parquet")
        found = schema.clip(_encoded(folder, schema))
        np.testing.assert_array_equal(found, expected[:, np.concatenate([places[part] for part in order])])


# ---- objects --------------------------------------------------------------------------------------------------------


def test_polars_lists_and_dates_are_read():
    schema = Schema((Set("s", ("a", "b"), most=1), Vector("v", 2, -1.0, 1.0), Date("d", *DAY)))
    frame = pl.DataFrame(
        {"s": [["b", "a"], None], "v": [[0.5, 1], [1.0, 2.0]], "d": [date(2020, 1, 5), None]},
        schema_overrides={"v": pl.Array(pl.Float32, 2)},
    )
    np.testing.assert_array_equal(_encoded(frame, schema).T, [[1, 0, 0.5, 1, 4], [0, 0, 1, 2, 0]])


def test_python_dates_in_an_object_column_of_pandas_are_read_one_by_one():
    schema = Schema((Date("d", *DAY),))
    cells = [date(2020, 1, 5), at("2020-01-06T07:00:00"), None, "2020-01-07", 7, ["2020-01-07"], pd.NaT, object()]
    np.testing.assert_array_equal(_encoded(pd.DataFrame({"d": cells}), schema), [[4, 5, 0, 6, 0, 0, 0, 0]])
    np.testing.assert_array_equal(_encoded(pd.DataFrame({"d": [np.nan, np.nan]}), schema), [[0, 0]])


def test_a_column_of_dates_from_whole_numbers_is_refused_by_its_type():
    with pytest.raises(SchemaError, match="which a date cannot be"):
        Schema((Date("d", *DAY),)).encode(pa.table({"d": [2020, 2021]}))


# ---- what is declared ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: Real("r", 1.0, 1.0 + 2.0**-40, missing="level"),
        lambda: Integer("i", 2**53 - 3, 2**53 - 1, missing="level"),
        lambda: Vector("v", 3, -1e-160, 1e-160, bound=1e-200),
        lambda: Vector("v", 3, -1e60, 1e60, bound=1e-60),
        lambda: Date("d", *DAY, step=10**11),
        lambda: Date("d", "0001-01-01T00:00+14:00", at("2020-01-01")),
    ],
    ids=["no middle", "no whole middle", "bound of tiny squares", "bound far below its width", "step", "zone"],
)
def test_what_doubles_or_dates_cannot_hold_is_refused(make):
    with pytest.raises(SchemaError):
        make()


@pytest.mark.parametrize("columns", [1, 3, 100_000])
@pytest.mark.parametrize("bound", [1e-90, 0.3, 1.0, 1e80])
def test_vectors_are_no_longer_than_their_bound(columns, bound):
    """Their exact length, by sums of fractions of doubles; the same to the bit in a block of one and of many."""
    schema = Schema((Vector("v", columns, -3 * bound, 3 * bound, bound=bound),))
    rng = np.random.default_rng(columns)
    rows = rng.standard_normal((columns, 9)) * bound * np.array([1e-3, 0.5, 1, 1, 2, 9, 1e30, 1 + 1e-15, 1 - 1e-15])
    rows[:, 2:4] *= 1 / max(np.linalg.norm(rows[:, 2]) / bound, 1e-300)
    found = schema.clip(rows)
    for j in range(9):
        exact = sum(int(x) ** 2 for x in np.rint(found[:, j] / bound * 2.0**200).astype(object))
        assert exact <= 4**200
        np.testing.assert_array_equal(schema.clip(rows[:, j : j + 1]), found[:, j : j + 1])


def test_a_stated_scale_is_kept_where_all_columns_have_one_range():
    """A radius would otherwise protect a hundredth of what it says."""
    columns = (Real("a", 0, 100), Real("b", 0, 100))
    assert (Schema(columns).scale, Schema(columns, scale="bounds").scale) == ("raw", "bounds")
    np.testing.assert_allclose(Schema(columns, scale="bounds").encoding.ranges, 1.0)
    stated = Schema(columns, scale="bounds")
    assert Schema.from_dict(stated.to_dict()) == stated == Schema.from_toml(stated.to_toml())


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_of_all_kinds_come_back_from_json_and_toml(name):
    schema = SCHEMAS[name]
    for back in (Schema.from_dict(schema.to_dict()), Schema.from_toml(schema.to_toml())):
        assert back == schema
        assert back.digest == schema.digest


def test_the_unit_attribute_counts_values():
    found = [attrgetter("values")(SCHEMAS[name].encoding) for name in ("plain", "levels")]
    assert found == [10 + 3, 11]  # a vector that is not whole counts each of its numbers
