"""A shared space that tests share: columns of several kinds, a fixed seed, and rows far beyond their bounds."""

import numpy as np
import pyarrow as pa

from sfumato.projection.space import Space
from sfumato.tables.columns import Category, Flag, Id, Real, Vector
from sfumato.tables.schema import Schema

SCHEMA = Schema(
    [
        Id("name"),
        Real("age", 0, 120, weight=2.0),
        Flag("smoker"),
        Category("city", ["Bern", "Basel", "Biel"], missing="level"),
        Real("income", -5, 300, weight=0.25),
        Vector("place", 3, -1.0, 1.0, bound=1.0),
    ]
)
SPACE = Space(SCHEMA, dimension=5, seed=7)
PARTS = (("age", "city"), ("smoker", "income", "place"))


def space(family="sparse", dimension=5, seed=7, schema=SCHEMA):
    """A space of a family."""
    return Space(schema, family, None if family == "identity" else dimension, seed)


def people(rows=60, seed=1):
    """A table for the space, with cells outside all bounds and missing ones."""
    luck = np.random.default_rng(seed)
    age, income = luck.uniform(-60, 300, rows), luck.normal(80, 200, rows)
    income[::7] = np.nan
    return pa.table(
        {
            "name": [f"p{i}" for i in range(rows)],
            "age": age,
            "smoker": luck.random(rows) < 0.4,
            "city": luck.choice(np.array(["Bern", "Basel", "Biel", "Chur", None], object), rows).tolist(),
            "income": income,
            "place": luck.uniform(-2, 2, (rows, 3)).tolist(),
        }
    )
