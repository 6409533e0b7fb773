"""Encoded numbers back as cells: what was read comes back in its own type, within its bounds."""

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from sfumato.tables.columns import Category, Integer, Ordinal, Set, Vector
from sfumato.tables.decoding import as_in_table, chosen, decoded
from support.asked_kinds import CELLS, KINDS, table

READ = {
    "age": [39, 40, 41, 40, 0, 120, 40, 41],
    "children": [0, 1, 2, None, 9, 0, 9, 4],
    "income": [0.0, 10.0, None, -10.0, 30.0, 9.99, 10.01, 30.0],
    "education": ["none", "HS-grad", "Bachelors", "PhD", "HS-grad", "HS-grad", "PhD", "none"],
    "stage": [1, 2, 3, None, None, 2, 1, 3],
    "joined": [date(2020, 1, d) for d in range(1, 6)] + [date(2020, 1, 1), date(2020, 1, 1), date(2020, 12, 31)],
    "week": [date(2020, 1, d) for d in (1, 1, 8, 8, 15)] + [None, date(2020, 1, 1), date(2020, 12, 30)],
    "seen": [datetime(2020, 1, 1, h) for h in range(7)] + [datetime(2020, 1, 1)],  # noqa: DTZ001
    "smoker": CELLS["smoker"],
    "city": ["Bern", "Basel", None, None, "Bern", "Basel", "Bern", None],
    "basket": [[], ["milk"], ["bread", "eggs"], [], ["milk", "bread"], [], ["eggs"], ["milk", "eggs"]],
    "face": [[0.0, 0.5, 1.0]] * 7 + [[0.0] * 3],
}


@pytest.mark.parametrize("name", READ)
def test_what_was_read_comes_back(name):
    block, start = KINDS.encode(table()), 0
    for column in KINDS.data_columns:
        if column.name == name:
            assert decoded(column, block[start : start + column.width]).to_pylist() == READ[name]
        start += column.width


def test_numbers_beyond_the_bounds_come_back_within_them():
    for column, cells in ((Integer("i", 3, 7), [3, 7, 5]), (Ordinal("o", ("a", "b", "c")), ["a", "c", "c"])):
        assert decoded(column, np.array([[-1e300, 1e300, 5.4]])).to_pylist() == cells


def test_a_set_keeps_the_largest_of_its_items():
    column = Set("s", (10, 20, 30), most=2)
    rows = np.array([[0.6, 0.4, 0.9], [0.7, 0.3, 0.2], [0.8, 0.5, 0.6]])
    assert decoded(column, rows).to_pylist() == [[20, 30], [30], [10, 30]]
    assert decoded(column, rows[:, :0]).type == pa.list_(pa.int64())
    assert decoded(Set("s", buckets=3, most=1), rows).to_pylist() == [[2], [2], [0]]


def test_values_that_64_bits_with_a_sign_do_not_hold_come_back_as_texts():
    column = Category("c", (1, 2**63))
    assert chosen(column, np.array([1, 0, 2])).to_pylist() == [str(2**63), "1", None]


def test_a_vector_comes_back_as_it_is_in_the_table():
    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])
    apart = as_in_table(Vector("v", columns=("a", "b"), low=0, high=9), numbers)
    assert {name: cells.to_pylist() for name, cells in apart.items()} == {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    assert as_in_table(Vector("v", 2, 0, 9), numbers)["v"].to_pylist() == [[1.0, 3.0], [2.0, 4.0]]
