"""Synthetic tables without a pipeline: columns in, what is published and its rows out."""

import pyarrow as pa

from sfumato.engines.local import LocalRows
from sfumato.files.open_table import open_table
from sfumato.privacy.calibration import calibrate
from sfumato.tables.blocks import Blocks


def run(recipe, schema, guarantee, columns, secret):
    """What a recipe publishes of some columns, and the rows by column."""
    prepared = recipe.prepare(schema, guarantee)
    level = calibrate(prepared, guarantee).level
    source = open_table(pa.table(columns), schema)
    found = prepared.run(LocalRows(Blocks.read_by(prepared.reader, source, schema)), level, secret)
    rows = pa.Table.from_batches(list(found.blocks))
    return found, {name: rows[name].to_pylist() for name in rows.column_names}
