"""Lists that are Python's objects in a pandas frame: each cell by itself, whatever the others are."""

import numpy as np
import pandas as pd
import pyarrow as pa

from sfumato.files.open_table import open_table
from sfumato.pipeline.fitting import settled
from sfumato.tables.blocks import Blocks
from sfumato.tables.columns import Flag, Set, Vector
from sfumato.tables.schema import Schema

SCHEMA = Schema([Vector("e", 2, -3, 3), Set("items", ["a", "7"], most=2)])
VECTORS = [[1.0, 2], (0.5, -1), np.array([2, 3], np.float32), [np.float32(1), "2.5"], [None, 1.0]]
ITEMS = [["a", 7], ("7",), {"a"}, np.array(["a", "b"]), []]
ODD = [None, 3.5, "text", {"k": 1}, [[1], [2]], object(), np.eye(2), [1.0, object()], float("nan"), pd.NA, b"\xff"]


def encoded(frame, schema=SCHEMA):
    blocks = Blocks.of(open_table(frame, schema), schema)
    return np.concatenate([blocks.encode(batch) for batch in blocks], axis=1)


def test_lists_of_python_are_read_as_arrow_reads_them():
    plain = pa.table(
        {"e": [[1.0, 2], [0.5, -1], [2, 3], [1, 2.5], [0, 1]], "items": [["a", "7"], ["7"], ["a"], ["a"], []]}
    )
    assert np.array_equal(encoded(pd.DataFrame({"e": VECTORS, "items": ITEMS})), encoded(plain))


def test_no_odd_cell_raises_or_changes_another():
    alone = encoded(pd.DataFrame({"e": VECTORS, "items": ITEMS}))
    for odd in ODD:
        frame = pd.DataFrame(
            {"e": pd.Series([*VECTORS, odd], dtype=object), "items": pd.Series([*ITEMS, odd], dtype=object)}
        )
        assert np.array_equal(encoded(frame)[:, :-1], alone)
        assert np.isin(encoded(frame)[2:, -1], (0, 1)).all()


def test_lists_are_found_beside_a_pattern_too():
    frame = pd.DataFrame({"e": VECTORS, "items": ITEMS, "f1": True, "f2": False})
    data, schema = settled(frame, Schema([*SCHEMA.columns, Flag("f*")]))
    assert np.array_equal(encoded(data, schema)[:4], encoded(frame))


def test_columns_of_lists_that_are_all_missing_are_read_whatever_pandas_makes_of_them():
    nothing = encoded(pa.table({"e": pa.nulls(2), "items": pa.nulls(2)}))
    for cells in ([None, None], [np.nan, np.nan]):
        for dtype in (object, float):
            frame = pd.DataFrame({name: pd.Series(cells, dtype=dtype) for name in ("e", "items")})
            assert np.array_equal(encoded(frame), nothing)
