"""``release``: the one place where data, guarantee, mechanism and disk meet."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato import cells, storage
from sfumato.calibration import Calibrated, calibrate
from sfumato.errors import ReleaseError, SchemaError
from sfumato.guarantee import Guarantee
from sfumato.manifest import RANDOMNESS, Manifest, complete, describe_guarantee
from sfumato.mechanisms.sketch import PreparedSketch, Sketch
from sfumato.releases import SketchRelease
from sfumato.rows import Progress, TableRows, ignore
from sfumato.schema import Schema, positions
from sfumato.secret import Secret
from sfumato.tables import Table, open_table

Floats = NDArray[np.float64]


def release(
    data: Any,
    *,
    schema: Schema,
    mechanism: Sketch,
    guarantee: Guarantee,
    secret: Secret | None = None,
) -> SketchRelease:
    """Make a private release of a table, in memory; ``release_to`` streams to disk instead.

    Formal guarantee: what is returned satisfies ``guarantee``, as proved for the mechanism. The level of noise is fixed
    before a row is read. ``secret`` is for tests; a release made with the testing twin is marked as unprotected.
    """
    calibrated = calibrate(mechanism.prepare(schema, guarantee), guarantee)
    secret = Secret.fresh() if secret is None else secret
    return _in_memory(calibrated, _blocks(open_table(data, schema), calibrated, secret, ignore), secret)


def release_to(
    path: str | Path,
    data: Any,
    *,
    schema: Schema,
    mechanism: Sketch,
    guarantee: Guarantee,
    progress: Progress = ignore,
    secret: Secret | None = None,
) -> Manifest:
    """Stream a private release of a table to a folder, which appears whole or not at all; returns its manifest.

    Formal guarantee: as for ``release``. Memory does not grow with the number of rows.
    """
    calibrated = calibrate(mechanism.prepare(schema, guarantee), guarantee)
    table = open_table(data, schema)
    secret = Secret.fresh() if secret is None else secret
    with storage.new_folder(Path(path)) as folder:
        blocks = _blocks(table, calibrated, secret, progress)
        rows = storage.write_numbers(folder, calibrated.mechanism.dimension, blocks)
        if calibrated.mechanism.recipe.publish_projection:
            storage.write_projection(folder, calibrated.mechanism.projection.matrix())
        return storage.finish(folder, _fields(calibrated, rows, secret))


def _blocks(
    table: Table, calibrated: Calibrated[PreparedSketch], secret: Secret, progress: Progress
) -> Iterator[tuple[Floats, pa.Array | None]]:
    """Published blocks, each with the public ids of its rows."""
    sketch = calibrated.mechanism
    rows = TableRows(table, sketch.schema, progress=progress)
    ids = _ids(table, sketch.schema)
    for block in sketch.run(rows, calibrated.level, secret):
        yield block, None if ids is None else ids.take(block.shape[1])


class _Ids:
    """Public ids, read beside the blocks in pieces of any size."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._left = batches, pa.array([], pa.string())

    def take(self, count: int) -> pa.Array:
        while len(self._left) < count:
            self._left = pa.concat_arrays([self._left, _as_text(next(self._batches).column(0))])
        taken, self._left = self._left[:count], self._left[count:]
        return taken


def _ids(table: Table, schema: Schema) -> _Ids | None:
    if schema.id_column is None or table.source in ("numpy array", "sparse matrix"):
        return None
    name = schema.id_column.name
    positions(table.schema.names, [name])
    kind = table.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_integer(kind) or _is_text(kind)):
        raise SchemaError(f"the id column {name!r} is of type {kind} in the data: ids are texts or whole numbers")
    return _Ids(table.blocks([name], 1 << 16))


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_one(kind) for is_one in texts)


def _as_text(ids: pa.Array) -> pa.Array:
    """Ids as text; bytes that are no UTF-8 are replaced, for a file of them could not be read."""
    plain = cells.decoded(ids) if pa.types.is_dictionary(ids.type) else ids
    if not _is_text(plain.type):
        return plain.cast(pa.string())
    raw = plain.cast(pa.large_binary()).to_pylist()
    return pa.array([None if cell is None else cell.decode(errors="replace") for cell in raw], pa.string())


def _in_memory(
    calibrated: Calibrated[PreparedSketch], blocks: Iterator[tuple[Floats, pa.Array | None]], secret: Secret
) -> SketchRelease:
    parts = list(blocks)
    if not parts:
        raise ReleaseError("the data have no rows, so there is nothing to release")
    columns = np.concatenate([block for block, _ in parts], axis=1)
    ids = None if parts[0][1] is None else pa.concat_arrays([i for _, i in parts])
    sketch = calibrated.mechanism
    matrix = sketch.projection.matrix() if sketch.recipe.publish_projection else None
    manifest = complete(_fields(calibrated, columns.shape[1], secret) | {"files": {}})
    return SketchRelease(manifest, columns, matrix, ids)


def _fields(calibrated: Calibrated[PreparedSketch], rows: int, secret: Secret) -> Manifest:
    """Everything the manifest says but what depends on the files."""
    sketch = calibrated.mechanism
    scale = sketch.scale(calibrated.level) * sketch.unit
    projection: Manifest = {"family": sketch.recipe.family, "dim_in": sketch.projection.projection.dim_in}
    projection |= {"dim_out": sketch.dimension, "published": sketch.recipe.publish_projection}
    if sketch.recipe.publish_projection:
        projection |= {"seed": sketch.recipe.seed}
    if sketch.projection.projection.sparsity is not None:
        projection |= {"sparsity": sketch.projection.projection.sparsity}
    return {
        "kind": "sketch",
        "guarantee": describe_guarantee(sketch.guarantee),
        "mechanism": {
            "name": "sketch",
            "noise": sketch.recipe.noise,
            "radius" if sketch.fresh else "sensitivity": sketch.sensitivity * sketch.unit,
            "scale": scale,
            "standard_deviation": scale * (math.sqrt(2) if sketch.recipe.noise == "laplace" else 1.0),
        },
        "projection": projection,
        "lattice": {
            "input_bits": sketch.projection.input_bits,
            "projection_bits": sketch.projection.projection_bits,
            "shift": sketch.shift,
            "unit": sketch.unit,
        },
        "schema": sketch.schema.to_dict(),
        "rows": rows,
        "protected": secret.protected,
        "accounted": False,
        "numerics": "exact",
        "randomness": RANDOMNESS,
        "warnings": list(_warnings(sketch.schema, secret)),
    }


def _warnings(schema: Schema, secret: Secret) -> Iterator[str]:
    yield "no ledger was used: what other releases of these data cost is not accounted for"
    if schema.bounds_from_data:
        yield "bounds were taken from the data, which is outside the guarantee"
    if not secret.protected:
        yield "made with test noise: this release protects nobody"
