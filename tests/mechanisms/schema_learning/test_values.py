"""Which texts become values, and what a column is taken for."""

import numpy as np
import pytest

from sfumato.mechanisms.schema_learning.bounds import Bounds
from sfumato.mechanisms.schema_learning.budget import Threshold
from sfumato.mechanisms.schema_learning.cell_kinds import CellKind
from sfumato.mechanisms.schema_learning.decisions import NoisyKinds, is_flag, number_column, text_column
from sfumato.mechanisms.schema_learning.values import apart, published
from sfumato.tables.columns import Category, Flag, Integer, Real, Set
from sfumato.tables.schema import Schema


def values(pairs, limit=10):
    words, counts = [w for w, _ in pairs], np.array([n for _, n in pairs], np.int64)
    return published([(words, counts)], Threshold(limit, 2.0), lambda _, exact: exact.astype(float))


def test_a_noisy_count_must_exceed_the_threshold():
    found = values([(b"a", 10), (b"b", 11), (b"c", 200)])
    assert found.texts == ("b", "c")
    assert found.kept == 211
    assert found.spread == pytest.approx(2 * 2**0.5)


def test_texts_that_no_category_could_tell_apart_are_one_value():
    found = values([(b"1.0", 99), (b"1", 99), (b"true", 99), (b"x", 99), (b"\xff", 99), (str(2**60).encode(), 99)])
    assert found.texts == ("1", "x")
    Schema((Category("c", found.texts),))


def test_values_that_would_encode_to_another_column_are_left_out():
    columns = apart(
        [Category("a", ("b", "c", "(missing)"), missing="level"), Real("a=b", 0.0, 1.0), Set("s", ("t",), most=1),
         Flag("s=t"), Integer("n", 0, 1, missing="level"), Flag("n=(missing)")]
    )  # fmt: skip
    by_name = {column.name: column for column in columns}
    assert list(by_name["a"].values) == ["c"]
    assert "s" not in by_name
    assert by_name["n"].missing is None
    Schema(columns)


def kinds(**counts):
    cells = np.zeros(len(CellKind))
    for name, count in counts.items():
        cells[CellKind[name.upper()]] = count
    return NoisyKinds(cells, 10.0)


@pytest.mark.parametrize(
    ("counts", "guess"),
    [
        ({"whole": 900, "fraction": 30}, "integer"), ({"whole": 500, "fraction": 400}, "real"),
        ({"date": 900, "moment": 20}, "date"), ({"date": 100, "moment": 200}, "datetime"),
        ({"yes_no": 900, "text": 30}, "flag"), ({"yes_no": 500, "text": 100}, "category"), ({"text": 900}, "category"),
        ({"whole": 500, "text": 400}, "integer"), ({"missing": 900}, "integer"), ({}, "integer"),
    ],
)  # fmt: skip
def test_a_column_is_what_most_of_its_cells_are(counts, guess):
    assert kinds(**counts).guess() == guess


def test_a_column_lacks_what_it_cannot_read():
    assert kinds(whole=900, missing=100).lacks("integer")
    few = kinds(whole=900, missing=40)
    assert NoisyKinds(few.counts, 10.0).lacks("integer")  # clear by itself, if not beside the noise of other kinds
    assert not NoisyKinds(few.counts, 12.0).lacks("integer")
    assert kinds(whole=900, text=100).lacks("real")
    assert not kinds(whole=900, missing=20).lacks("integer")
    assert not kinds(yes_no=900, whole=100).lacks("flag")
    assert kinds(date=900, whole=100).lacks("date")
    assert not kinds(date=900, moment=400).lacks("date")


def test_flags_are_whole_numbers_below_two():
    assert is_flag("integer", Bounds(0.0, 2.0))
    assert is_flag("integer", Bounds(0.0, 1.0))
    assert not is_flag("integer", Bounds(-1.0, 1.0))
    assert not is_flag("integer", Bounds(0.0, 4.0))
    assert not is_flag("real", Bounds(0.0, 1.0))


def test_bounds_become_those_of_the_kind():
    assert number_column("x", "integer", Bounds(-0.5, 7.25), missing=False) == Integer("x", -1, 8)
    assert number_column("x", "integer", Bounds(-(2.0**64), 2.0**64), missing=True).high == 2**53 - 1
    day = number_column("x", "date", Bounds(0.0, 1e12), missing=False)
    assert str(day.low) == "1970-01-01"
    assert day.high.year == 9999
    moment = number_column("x", "datetime", Bounds(10.0, 20.0), missing=False)
    assert str(moment.high) == "1970-01-22 00:00:00"


def test_a_value_called_level_is_a_value():
    assert text_column("x", ("a", "level"), None, missing=True) == Category("x", ("a", "level"))
    assert text_column("x", ("a",), None, missing=True) == Category("x", ("a",), missing="level")
    assert text_column("x", (), None, missing=True) is None
