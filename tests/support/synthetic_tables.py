"""A stand-in for the mechanism of synthetic tables: it publishes rows that it is given, and a model of no data."""

import math
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sfumato.fileformat import table_kind
from sfumato.fileformat.manifest import COUNTS, MODEL
from sfumato.fileformat.table_kind import Layout, flat
from sfumato.mechanisms.base import Prepared, Published, Recipe
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.tables.blocks import CodeReader
from sfumato.tables.columns import Category
from sfumato.tables.decoding import as_in_table
from sfumato.tables.schema import Schema

RECORD = Guarantee(epsilon=2.0, delta=1e-6, unit="record")


def decoded(schema, table):
    """A table as the schema reads it, in its own columns and types."""
    block, start, found = schema.encode(table), 0, {}
    for column in schema.data_columns:
        rows = block[start : start + column.width]
        found |= as_in_table(column, schema.clip(block)[start : start + column.width])
        if isinstance(column, Category) and column.missing is None:  # no value
            empty = pa.array(~rows.any(axis=0))
            found[column.name] = pa.compute.if_else(empty, None, found[column.name])
        start += column.width
    return pa.table(found)


def facts(schema, **more):
    """What a mechanism says: two bins for each variable, cliques in a chain, one-way tables and those of cliques."""
    fine = table_kind.fine_cells(schema, more.get("cuts", {}))
    bins = [[int(2 * cell >= size) for cell in range(size)] for size in fine]
    chain = [[place, place + 1] for place in range(len(fine) - 1)] or [[0]]
    one = [{"columns": [place], "cells": "fine", "scale": 3.0, "stage": "one-way"} for place in range(len(fine))]
    two = [{"columns": pair, "cells": "bins", "scale": 5.0, "stage": "pairs"} for pair in chain]
    return {
        "name": "table",
        "noise": "gaussian",
        "method": "tree",
        "records": 157.0,
        "bins": bins,
        "cliques": chain,
        "tables": [*one, *two],
        "shares": {"one-way": 0.4, "pairs": 0.6},
        "sensitivity": math.sqrt(2),
    } | more


def beside(said, seed=1):
    """A model without any structure, and counts that nobody counted, as files."""
    layout, rng = Layout.of(said), np.random.default_rng(seed)
    shares = [(1 / np.bincount(cells))[cells] for cells in layout.bins]
    beliefs = [table / table.sum() for table in map(rng.random, layout.cliques)]
    counts = flat([rng.integers(-9, 99, shape) for shape in layout.tables])
    return {MODEL: pa.table({"value": flat([*shares, *beliefs])}), COUNTS: pa.table({"value": counts})}


@dataclass(frozen=True, slots=True)
class FixedTable(Recipe):
    """Publishes a decoded table, whatever is read, so many rows at a time; ``seen`` takes what was read."""

    table: pa.Table
    together: int = 50
    reader: CodeReader | None = None
    seen: list = field(default_factory=list)
    said: dict = field(default_factory=dict)

    def prepare(self, schema, guarantee):
        return PreparedFixed(schema, guarantee, self)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedFixed(Prepared):
    """The stand-in, prepared."""

    schema: Schema
    guarantee: Guarantee
    recipe: FixedTable

    @property
    def reader(self):
        return self.recipe.reader

    def loss(self, level):
        return Gaussian(1.0, level)

    def run(self, rows, level, secret):
        del level, secret
        if self.recipe.reader is not None:
            self.recipe.seen.append(rows.sum(_counted))
        said = facts(self.schema, **self.recipe.said)
        batches = iter(self.recipe.table.to_batches(max_chunksize=self.recipe.together))
        names = tuple(self.recipe.table.column_names)
        return Published({"kind": "table", "mechanism": said}, names, batches, by_record=False, beside=beside(said))


def _counted(position, block):
    """How many rows there are, and the sum of the codes of each variable; blocks must be of codes."""
    del position
    assert block.dtype == np.int32
    return np.array([block.shape[1], *block.sum(axis=1, dtype=np.int64)])
