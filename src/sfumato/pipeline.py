"""``release``: the one place where data, guarantee, mechanism and disk meet."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato import cells, storage
from sfumato.calibration import Calibrated, calibrate
from sfumato.edges import EdgeRows, open_edges
from sfumato.errors import ParameterError, ReleaseError, SchemaError
from sfumato.guarantee import Guarantee
from sfumato.manifest import RANDOMNESS, Manifest, complete, describe_guarantee
from sfumato.mechanism import Prepared, Published, Recipe
from sfumato.releases.loading import AnyRelease, of_kind
from sfumato.rows import Progress, Rows, TableRows, ignore
from sfumato.schema import Schema, positions
from sfumato.secret import Secret
from sfumato.tables import Table, open_table


def release(
    data: Any,
    *,
    schema: Schema | None,
    mechanism: Recipe,
    guarantee: Guarantee,
    secret: Secret | None = None,
) -> AnyRelease:
    """Make a private release of a table, or of a graph's edges (then without a schema), in memory.

    Formal guarantee: what is returned satisfies ``guarantee``, as proved for the mechanism. The level of noise is fixed
    before a row is read. ``release_to`` streams to disk instead. ``secret`` is for tests; a release made with the
    testing twin is marked as unprotected.
    """
    job = _Job.of(data, schema, mechanism, guarantee, secret)
    published = job.run(ignore)
    parts = list(job.blocks(published))
    if not parts:
        raise ReleaseError("the data have no rows, so there is nothing to release")
    columns = np.concatenate([block for block, _ in parts], axis=1)
    ids = None if parts[0][1] is None else pa.concat_arrays([i for _, i in parts])
    return of_kind(complete(job.fields(published, columns.shape[1]) | {"files": {}}), columns, published.matrix, ids)


def release_to(
    path: str | Path,
    data: Any,
    *,
    schema: Schema | None,
    mechanism: Recipe,
    guarantee: Guarantee,
    progress: Progress = ignore,
    secret: Secret | None = None,
) -> Manifest:
    """Stream a private release of a table to a folder, which appears whole or not at all; returns its manifest.

    Formal guarantee: as for ``release``. Memory does not grow with the number of rows (but for mechanisms that compare
    all pairs of them, and for graphs).
    """
    job = _Job.of(data, schema, mechanism, guarantee, secret)
    with storage.new_folder(Path(path)) as folder:
        published = job.run(progress)
        rows = storage.write_numbers(folder, published.names, job.blocks(published))
        if published.matrix is not None:
            storage.write_projection(folder, published.matrix)
        return storage.finish(folder, job.fields(published, rows))


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A calibrated mechanism beside the table it will read: what both ways of releasing share."""

    calibrated: Calibrated[Prepared]
    source: Table | EdgeRows
    secret: Secret

    @classmethod
    def of(
        cls, data: Any, schema: Schema | None, mechanism: Recipe, guarantee: Guarantee, secret: Secret | None
    ) -> "_Job":
        if schema is None and guarantee.unit != "edge":
            raise ParameterError(f"unit={guarantee.unit!r} needs a schema of the columns; a graph needs unit='edge'")
        calibrated = calibrate(mechanism.prepare(schema, guarantee), guarantee)
        source = open_edges(data) if schema is None else open_table(data, schema)
        return cls(calibrated, source, Secret.fresh() if secret is None else secret)

    @property
    def schema(self) -> Schema | None:
        return self.calibrated.mechanism.schema

    def run(self, progress: Progress) -> Published:
        return self.calibrated.mechanism.run(self._rows(progress), self.calibrated.level, self.secret)

    def _rows(self, progress: Progress) -> Rows:
        if isinstance(self.source, EdgeRows):
            return replace(self.source, progress=progress)
        assert self.schema is not None
        return TableRows(self.source, self.schema, progress=progress)

    def blocks(self, published: Published) -> Iterator[tuple[NDArray[Any], pa.Array | None]]:
        """Published blocks, each with the public ids of its rows."""
        table = self.source if published.by_record and isinstance(self.source, Table) else None
        ids = None if table is None or self.schema is None else _ids(table, self.schema)
        for block in published.blocks:
            yield block, None if ids is None else ids.take(block.shape[1])

    def fields(self, published: Published, rows: int) -> Manifest:
        """Everything the manifest says but what depends on the files; facts that name the rows go before a count."""
        shared = {
            "guarantee": describe_guarantee(self.calibrated.guarantee),
            **({} if self.schema is None else {"schema": self.schema.to_dict()}),
            "rows": rows,
            "protected": self.secret.protected,
            "accounted": False,
            "numerics": "exact",
            "randomness": RANDOMNESS,
        }
        warnings = [*_warnings(self.schema, self.secret), *published.facts.get("warnings", [])]
        return shared | published.facts | {"warnings": warnings}


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


def _warnings(schema: Schema | None, secret: Secret) -> Iterator[str]:
    yield "no ledger was used: what other releases of these data cost is not accounted for"
    if schema is not None and schema.bounds_from_data:
        yield "bounds were taken from the data, which is outside the guarantee"
    if not secret.protected:
        yield "made with test noise: this release protects nobody"
