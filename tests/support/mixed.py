"""A mixed table, that the tests of synthetic rows share."""

import pyarrow as pa

from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema

COLUMNS = [Real("a", -3, 5), Flag("b"), Category("c", ["x", "y", "z"]), Real("d", -1, 1), Real("y", -2, 10)]


MIXED = Schema(COLUMNS)


MODES = {
    "none": {},
    "values": {"label": "y", "kind": "values", "label_weight": 0.5},
    "classes": {"label": "c", "kind": "classes"},
    "flag": {"label": "b", "kind": "classes", "label_weight": 1.5},
    "public": {"label": "c", "kind": "classes", "counts": "public"},
}


def mixed_table(rng, rows):
    y = rng.uniform(-2, 10, rows)
    return pa.table(
        {
            "a": rng.uniform(-3, 5, rows),
            "b": rng.random(rows) < 0.3,
            "c": rng.choice(["x", "y", "z"], rows, p=[0.6, 0.3, 0.1]),
            "d": y / 10,
            "y": y,
        }
    )
