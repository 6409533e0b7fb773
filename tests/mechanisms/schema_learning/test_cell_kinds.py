"""Every cell is of one kind, by itself, in whatever type its column is stored."""

import datetime as dt
import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato.errors import SchemaError
from sfumato.files.open_table import open_table
from sfumato.files.source import reblock
from sfumato.mechanisms.schema_learning.cell_kinds import (
    CellKind,
    Tally,
    parts,
    scalar_tally,
    set_tally,
    shape_of,
    vector_tally,
)
from sfumato.mechanisms.schema_learning.magnitudes import PARTS, Cells, even, octaves, part_edges, parts_of
from sfumato.mechanisms.schema_learning.text_counts import category_texts
from sfumato.tables import dates

at = dt.datetime.fromisoformat

WORDS = [
    ("12020-01-01", CellKind.DATE), ("-0044-03-15 10:00", CellKind.DATE), ("0000-05-05", CellKind.DATE),
    ("1850-01-01 00:53:28+00:53:28", CellKind.DATE), ("1850-01-01T00:00:00+00:53:28", CellKind.MOMENT),
    (None, CellKind.MISSING), ("", CellKind.MISSING), ("  ", CellKind.MISSING),
    ("5", CellKind.WHOLE), (" 5.0 ", CellKind.WHOLE), ("-3", CellKind.WHOLE), ("TRUE", CellKind.WHOLE),
    ("2.5", CellKind.FRACTION), ("1e300", CellKind.FRACTION), ("inf", CellKind.FRACTION),
    ("2020-12-31", CellKind.DATE), ("2020-12-31T00:00:00Z", CellKind.DATE), ("2020-12-31 10:30", CellKind.MOMENT),
    ("yes", CellKind.YES_NO), (" No", CellKind.YES_NO),
    ("2020-13-31", CellKind.TEXT), ("nan", CellKind.TEXT), ("0x10", CellKind.TEXT), ("word", CellKind.TEXT),
]  # fmt: skip


def kinds(array):
    return scalar_tally(array).kinds.tolist()


@pytest.mark.parametrize(("word", "kind"), WORDS)
def test_a_text_is_of_its_kind_whatever_stands_beside_it(word, kind):
    alone = kinds(pa.array([word], pa.string()))
    assert alone == [int(kind == k) for k in CellKind]
    for beside in ("7", "word", "2020-01-01", None, ""):
        both = np.array(kinds(pa.array([word, beside], pa.string())))
        assert (both - kinds(pa.array([beside], pa.string()))).tolist() == alone


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.float32, np.float64])
def test_numbers_count_the_same_in_every_type(dtype):
    values = np.array([0, 1, 2, 100, 127], dtype)
    seen = scalar_tally(pa.array(values))
    as_text = scalar_tally(pa.array([str(v) for v in values]))
    with_gap = scalar_tally(pa.array([*values.tolist(), None], pa.float64()))
    for other in (as_text, with_gap, scalar_tally(pa.array([*values.tolist(), None]).dictionary_encode())):
        assert other.kinds[1:].tolist() == seen.kinds[1:].tolist()
        assert np.array_equal(other.numbers, seen.numbers)


def test_truths_are_numbers_in_every_type():
    for array in (pa.array([True, False]), pa.array([1, 0]), pa.array(["true", "False"]), pa.array(["1", "0"])):
        assert kinds(array) == [0, 2, 0, 0, 0, 0, 0]


def test_dates_count_the_same_in_every_type():
    days = [dt.date(2020, 2, 29), dt.date(1950, 1, 1)]
    seen = scalar_tally(pa.array(days))
    moments = scalar_tally(pa.array([dt.datetime.combine(d, dt.time()) for d in days]))
    written = scalar_tally(pa.array([d.isoformat() for d in days]))
    pandas = scalar_tally(pa.array(pd.Series(pd.to_datetime(days)).astype(str)))
    for other in (moments, written, pandas):
        assert other.kinds.tolist() == seen.kinds.tolist()
        assert np.array_equal(other.others, seen.others)


FAR = [np.datetime64(t, "s") for t in ("12020-01-01", "2020-01-01", "12020-05-01T10:00", "0000-03-01", "-4400-03-15")]
ZONED = pd.Series(pd.to_datetime(["1850-01-01 00:00", "2020-07-01 10:00"])).dt.tz_localize("Europe/Berlin")


@pytest.mark.parametrize("typed", [pd.Series(np.array(FAR)), ZONED], ids=["far", "zoned"])
def test_odd_dates_count_the_same_as_timestamps_and_as_texts(typed):
    seen = scalar_tally(pa.array(typed, from_pandas=True))
    assert seen.kinds[CellKind.DATE] + seen.kinds[CellKind.MOMENT] == len(typed)
    assert same(scalar_tally(pa.array([str(cell) for cell in typed])), seen)
    stamps = dates.stamps(pa.array(typed, from_pandas=True))
    assert same(scalar_tally(dates.written_out(stamps)), seen)


def same(tally, *others):
    """Whether a tally is the sum of others."""
    total = Tally.empty()
    for other in others:
        total.add(other)
    pairs = [(parts(tally.numbers), parts(total.numbers)), (parts(tally.others), parts(total.others))]
    return tally.kinds.tolist() == total.kinds.tolist() and all(np.array_equal(a, b) for a, b in pairs)


FILES = {
    "nothing": pa.nulls(2),
    "whole numbers": pa.array([5, None, 2**53 + 1]),
    "numbers": pa.array([2.5, float("nan"), 7.0]),
    "truths": pa.array([True, None]),
    "texts": pa.array(["word", "7", "2020-01-01", None]),
    "days": pa.array([dt.date(2020, 1, 1), None]),
    "moments": pa.array([at("2020-01-01T10:00:00"), at("2020-01-01"), None]),
    "far": pa.array(FAR),
    "spans": pa.array([dt.timedelta(days=1), None, dt.timedelta(seconds=-0.5)]),
    "times": pa.array([dt.time(10), dt.time(10, 30, 0, 250)]),
    "periods": pa.array(pd.Series(pd.period_range("2020-01", periods=2, freq="M")), from_pandas=True),
}


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(FILES, 2)])
def test_files_of_a_folder_count_alike_whether_a_block_spans_them_or_not(one, other):
    """A cell of one file, which may decide the type of that file, changes no kind of a cell of another."""
    pieces = [FILES[one], FILES[other]]
    (joined,) = reblock([pa.record_batch({"x": piece}) for piece in pieces], 100)
    assert same(scalar_tally(joined["x"]), *map(scalar_tally, pieces))


ODD = {
    "periods": pd.Series([*pd.period_range("2020-01", periods=3, freq="M"), None]),
    "days": pd.Series(pd.period_range("2020-01-01", periods=3, freq="D")),
    "intervals": pd.Series(pd.interval_range(0, 3)),
    "spans": pd.Series(pd.to_timedelta(["1D", "-1s", None, "1.5ms", "1ns"])),
    "long spans": pd.Series(np.array([2**62, -(2**62)], "m8[s]")),
    "spans of Arrow": pd.Series([dt.timedelta(hours=1), None], dtype=pd.ArrowDtype(pa.duration("ns"))),
    "times": pd.Series([dt.time(10), None, dt.time(1, 2, 3, 4)], dtype=pd.ArrowDtype(pa.time64("ns"))),
}


@pytest.mark.parametrize("name", ODD)
def test_types_of_no_kind_are_the_texts_that_their_cells_are_as_objects(name):
    """One text among them makes a column of pandas one of objects."""
    tallies, texts = [], []
    for series in (ODD[name], ODD[name].astype(object)):
        (block,) = open_table(pd.DataFrame({"x": series})).blocks(["x"], 100)
        assert shape_of("x", block.schema.field("x").type) == "scalar"
        tallies.append(scalar_tally(block["x"]))
        words, times = category_texts(block["x"])
        texts.append(dict(zip(words.to_pylist(), times.tolist(), strict=True)))
    assert same(*tallies)
    assert texts[0] == texts[1]
    assert sum(texts[0].values()) == ODD[name].notna().sum()


def test_a_vector_counts_once_by_its_least_and_once_by_its_largest():
    array = pa.array([[1.0, 200.0], None, [float("nan"), -3.0], [float("nan")] * 2], pa.list_(pa.float32(), 2))
    tally = vector_tally(array)
    assert tally.kinds[CellKind.MISSING] == 2
    assert np.flatnonzero(tally.numbers).tolist() == sorted(parts_of(np.array([1.0, -3.0])).tolist())
    assert np.flatnonzero(tally.others).tolist() == sorted(parts_of(np.array([200.0, -3.0])).tolist())
    assert vector_tally(array.slice(1, 2)).kinds.sum() == 2


VECTORS = {
    "doubles": pa.array(
        [[1.0, 200.0], None, [float("nan"), -3.0], [float("nan")] * 2, None], pa.list_(pa.float64(), 2)
    ),
    "floats": pa.array([None, [4.0, 5.0]], pa.list_(pa.float32(), 2)),
    "whole numbers": pa.array([[4, -5], [None, 7]], pa.list_(pa.int64(), 2)),
    "longer": pa.array([[1.0, 2.0, 300.0], None], pa.list_(pa.float64(), 3)),
    "nothing": pa.nulls(3),
    "no list": pa.array([None, None], pa.list_(pa.float64(), 2)),
}


@pytest.mark.parametrize(("one", "other"), [*itertools.permutations(VECTORS, 2)])
def test_vectors_of_a_folder_count_alike_whether_a_block_spans_its_files_or_not(one, other):
    pieces = [VECTORS[one], VECTORS[other]]
    (joined,) = reblock([pa.record_batch({"x": piece}) for piece in pieces], 100)
    apart = [scalar_tally(piece) if pa.types.is_null(piece.type) else vector_tally(piece) for piece in pieces]
    assert same(vector_tally(joined["x"]), *apart)
    kinds = [scalar_tally(piece).kinds if pa.types.is_null(piece.type) else loop(piece) for piece in pieces]
    assert vector_tally(joined["x"]).kinds.tolist() == sum(kinds).tolist()


def loop(vectors):
    """How many vectors are missing, and how many are not, one at a time."""
    some = sum(any(x is not None and not np.isnan(x) for x in cell or ()) for cell in vectors.to_pylist())
    return np.array([len(vectors) - some, 0, some, 0, 0, 0, 0])


def test_sets_are_there_or_missing():
    assert set_tally(pa.array([["a"], None, []])).kinds[[CellKind.MISSING, CellKind.TEXT]].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (pa.null(), "scalar"), (pa.bool_(), "scalar"), (pa.decimal128(9, 2), "scalar"), (pa.timestamp("s"), "scalar"),
        (pa.dictionary(pa.int8(), pa.string()), "scalar"), (pa.list_(pa.float32(), 4), "vector"),
        (pa.list_(pa.string()), "set"), (pa.large_list(pa.int64()), "set"), (pa.list_(pa.float64()), "set"),
        (pa.duration("s"), "scalar"), (pa.time32("s"), "scalar"), (pa.uuid(), "scalar"), (pa.list_(pa.bool_()), "set"),
        (pa.struct([]), None), (pa.list_(pa.date32()), None), (pa.list_(pa.list_(pa.int8())), None),
    ],
)  # fmt: skip
def test_shapes_follow_from_types_alone(kind, shape):
    if shape is None:
        with pytest.raises(SchemaError, match="'x' is of type"):
            shape_of("x", kind)
    else:
        assert shape_of("x", kind) == shape


def test_every_number_is_in_one_part_between_its_ends():
    rng = np.random.default_rng(2)
    numbers = rng.normal(size=50_000) * np.exp(rng.normal(size=50_000) * 12)
    numbers = np.concatenate([numbers, [0.0, -0.0, np.inf, -np.inf, 2.0**64, -(2.0**63), 1.0, -1.0]])
    parts, edges = parts_of(numbers), part_edges()
    inside = np.abs(numbers) < 2.0**64
    assert ((edges[parts] <= numbers) & (numbers <= edges[parts + 1]))[inside].all()
    assert (parts >= 0).all()
    assert (parts < PARTS).all()
    assert (np.diff(parts[np.argsort(numbers)]) >= 0).all()


@pytest.mark.parametrize("cells", [octaves(), even(-3.0, 100.0, 4.0), even(0.0, 1.0, 0.125), even(-8.0, 0.0, 1.0)])
def test_coarser_cells_hold_every_number_once(cells: Cells):
    numbers = np.random.default_rng(3).normal(size=20_000) * 40
    counted = cells.counts(np.bincount(parts_of(numbers), minlength=PARTS))
    assert counted.sum() == numbers.size
    edges = cells.edges
    expected = [((numbers >= a) & (numbers < b)).sum() for a, b in itertools.pairwise(edges[1:-1])]
    assert np.abs(np.array(expected) - counted[1:-1]).max() <= 1  # ends of negative cells belong to the other side


@pytest.mark.parametrize(("low", "high"), [(0.0, 16.0), (-16.0, 0.0), (-16.0, 16.0)])
def test_zero_lies_within_equal_cells_that_begin_or_end_with_it(low, high):
    counts = even(low, high, 4.0).counts(np.bincount(parts_of(np.zeros(5)), minlength=PARTS))
    assert counts[1:-1].sum() == 5
