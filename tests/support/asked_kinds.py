"""A schema that mixes all kinds of columns that can be asked about, and cells for it, fit or not."""

from datetime import date, datetime

import pyarrow as pa

from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema

LEVELS = ("none", "HS-grad", "Bachelors", "PhD")
KINDS = Schema(
    (
        Integer("age", 0, 120, missing=40),
        Integer("children", 0, 9, missing="level"),
        Real("income", -10.0, 30.0, missing="level"),
        Ordinal("education", LEVELS, missing="HS-grad"),
        Ordinal("stage", (1, 2, 3), missing="level"),
        Date("joined", date(2020, 1, 1), date(2020, 12, 31)),
        Date("week", date(2020, 1, 1), date(2020, 12, 31), step=7, missing="level"),
        Date("seen", datetime(2020, 1, 1), datetime(2020, 1, 2), step=60),  # noqa: DTZ001
        Flag("smoker", missing="level"),
        Category("city", ("Bern", "Basel"), missing="level"),
        Category("sex", ("f", "m")),
        Set("basket", ("milk", "bread", "eggs"), most=2),
        Set("words", buckets=8, most=3),
        Vector("face", 3, -1, 1),
    )
)
CELLS = {
    "age": [39, 40, 41, None, -5, 1000, 40.4, 40.6],
    "children": [0, 1, 2, None, 9, -3, 100, 4],
    "income": [0.0, 10.0, None, -100.0, 30.0, 9.99, 10.01, 1e9],
    "education": ["none", "HS-grad", "Bachelors", "PhD", None, "?", "PhD", "none"],
    "stage": [1, 2, 3, None, 7, 2, 1, 3],
    "joined": [date(2020, 1, d) for d in range(1, 6)] + [None, date(1990, 1, 1), date(2030, 1, 1)],
    "week": [date(2020, 1, d) for d in (1, 4, 5, 8, 15)] + [None, date(1990, 1, 1), date(2030, 1, 1)],
    "seen": [datetime(2020, 1, 1, h, 0, 20) for h in range(7)] + [None],  # noqa: DTZ001
    "smoker": [True, False, None, True, False, None, True, False],
    "city": ["Bern", "Basel", "Zug", None, "Bern", "Basel", "Bern", "Zug"],
    "sex": ["f", "m", "x", None, "f", "m", "f", "m"],
    "basket": [
        [],
        ["milk"],
        ["bread", "eggs"],
        None,
        ["milk", "bread", "eggs"],
        ["tea"],
        ["eggs", "eggs"],
        ["milk", "eggs"],
    ],
    "words": [["a"], ["b", "c"], [], None, ["a", "c"], ["d"], ["e", "f", "g"], ["b"]],
    "face": [[0.0, 0.5, 1.0]] * 7 + [None],
}
LISTS = {"basket": pa.list_(pa.string()), "words": pa.list_(pa.string()), "face": pa.list_(pa.float64())}


def table(**replaced):
    """The cells as a table; a column may be replaced."""
    return pa.table({name: pa.array(cells, LISTS.get(name)) for name, cells in (CELLS | replaced).items()})
