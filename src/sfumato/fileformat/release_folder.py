"""A release on disk: a folder that appears whole or not at all, and is checked whole before it is read."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy
from numpy.typing import NDArray

from sfumato.errors import ReleaseError
from sfumato.fileformat import leftovers
from sfumato.fileformat import manifest as manifests
from sfumato.fileformat.manifest import DATA, MOST_NUMBERS, PROJECTION, Manifest
from sfumato.fileformat.published import Numbers, check_allowed, contradicted
from sfumato.tables import cells
from sfumato.tables.parquet_files import ParquetSink

MANIFEST = "manifest.json"
_ID = "id"
_GRAPHS = {"graph-sketch": (), "graph-noise": ("weight",), "graph-responses": ("edge",)}
_TYPES = {"responses": pa.int32(), "graph-sketch": pa.float32(), "graph-responses": pa.int8()}
Block: TypeAlias = tuple[NDArray[Any], pa.Array | None]  # numbers, and the public ids of their rows
_PAIRS = ("distances", "graph-noise", "graph-responses")  # one row for each pair of records or vertices


def check_free(path: Path) -> None:
    """Refuse a place where no new folder can be made."""
    if path.exists() or path.is_symlink():
        raise ReleaseError(f"{path} exists already: choose another name, or remove it first; nothing was written")
    if not path.parent.is_dir():
        raise ReleaseError(f"there is no folder {path.parent} to put the release in; nothing was written")


@contextmanager
def new_folder(path: Path, ready: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """A folder beside the wanted one that takes its name only if everything went well; otherwise it is removed.

    ``ready`` is asked last, when all is written and only the name is missing; if it refuses, nothing appears.
    """
    check_free(path)
    try:
        with leftovers.hidden(path, "partial") as partial:
            yield partial
            _sync(partial)
            ready()
            partial.chmod(0o755)
            partial.rename(path)
    except OSError as error:
        raise ReleaseError(
            f"writing {path} failed ({error.strerror or type(error).__name__}); nothing was left"
        ) from None
    with contextlib.suppress(OSError):  # the release is there; only its place in the folder may not be on disk yet
        _sync_folder(path.parent)


def column_names(manifest: Manifest) -> tuple[str, ...]:
    """The published columns of a kind of release, in order."""
    kind = manifest["kind"]
    if kind == "distances":
        return ("squared_distance",)
    if kind == "covariance":
        return ("value",)
    if kind in _GRAPHS:
        return tuple(f"z{i}" for i in range(manifest["mechanism"]["rows"])) if kind == "graph-sketch" else _GRAPHS[kind]
    if kind == "responses":
        return tuple(f"r{i}" for i in range(sum(c["kind"] != "id" for c in manifest["schema"]["columns"])))
    numbers = tuple(f"z{i}" for i in range(min(manifest["projection"]["dim_out"], MOST_NUMBERS)))
    return (*numbers, "label") if kind == "synthetic" and "label" in manifest["mechanism"] else numbers


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows were written, and digest and size of each file, as the manifest lists them."""

    rows: int
    files: dict[str, dict[str, Any]]


def write_numbers(folder: Path, names: Sequence[str], blocks: Iterable[Block]) -> Written:
    """Write (columns, rows) blocks, with public ids if there are any, as data.parquet."""
    rows, facts = write_part(folder / DATA, names, blocks)
    if rows == 0:
        raise ReleaseError("the data have no rows, so there is nothing to release; nothing was written")
    return Written(rows, {DATA: facts})


def write_part(path: Path, names: Sequence[str], blocks: Iterable[Block]) -> tuple[int, dict[str, Any]]:
    """Write blocks to one Parquet file; the number of rows, and digest and size. Without rows there is no file."""
    rows, sink = 0, None
    with contextlib.ExitStack() as stack:
        for block, ids in blocks:
            numbers = [cells.arrow(column) for column in block]
            fields = [pa.field(name, array.type, nullable=False) for name, array in zip(names, numbers, strict=True)]
            named = [] if ids is None else [pa.field(_ID, ids.type)]
            schema = pa.schema([*named, *fields])
            sink = sink or stack.enter_context(ParquetSink(path, schema))
            sink.write(pa.RecordBatch.from_arrays([ids, *numbers] if named else numbers, schema=schema))
            rows += block.shape[1]
    return rows, {} if sink is None else sink.written


def number_type(manifest: Manifest) -> pa.DataType:
    """The type of the published numbers of a release."""
    stated = {"float32": pa.float32(), "float64": pa.float64()}.get(manifest.get("lattice", {}).get("numbers"))
    return stated or _TYPES.get(manifest["kind"], pa.float64())


def write_projection(folder: Path, matrix: Any) -> None:
    """Write the projection in use, in weighted units: wide if dense, (row, column, value) if sparse."""
    if isinstance(matrix, np.ndarray):
        named = {f"p{i}": column for i, column in enumerate(matrix.T)}
    else:
        entries = scipy.sparse.coo_array(matrix)
        row, column = (np.asarray(c, np.int64) for c in entries.coords)
        named = {"row": row, "column": column, "value": entries.data}
    table = pa.Table.from_arrays([cells.arrow(column) for column in named.values()], names=list(named))
    pq.write_table(table, folder / PROJECTION, use_dictionary=False)


def memory_type(manifest: Manifest) -> np.dtype[Any]:
    """Their type in an analyst's hands: what was stored in single precision to save room is computed with in double."""
    return np.dtype("f8" if "numbers" in manifest.get("lattice", {}) else number_type(manifest).to_pandas_dtype())


def finish(folder: Path, fields: Manifest, files: dict[str, dict[str, Any]]) -> Manifest:
    """Add the digests that are not known yet, the manifest, the page in plain words and the registry draft."""
    others = {p for p in folder.iterdir() if p.name not in files}
    found = {p.name: {"sha256": _sha256(p), "bytes": p.stat().st_size} for p in others}
    manifest = manifests.complete(fields | {"files": dict(sorted((files | found).items()))})
    (folder / MANIFEST).write_text(manifests.to_json(manifest), encoding="utf-8")
    (folder / "README.txt").write_text(manifests.plain_words(manifest), encoding="utf-8")
    (folder / "registry.yaml").write_text(manifests.registry_entry(manifest), encoding="utf-8")
    return manifest


def open_folder(path: Path, *, allow_unprotected: bool) -> Manifest:
    """Check a release folder whole: its manifest, that every file is there, plain, and as it was written."""
    if not path.is_dir():
        raise ReleaseError(f"there is no release folder at {path}")
    manifest = manifests.read(path / MANIFEST)
    if not manifest["protected"] and not allow_unprotected:
        raise ReleaseError(
            f"{path} was made with test noise and protects nobody: never publish it (allow_unprotected=True loads it)"
        )
    for name, facts in manifest["files"].items():
        file = path / name
        if file.is_symlink() or not file.is_file():
            raise ReleaseError(
                f"{file} is missing or not a plain file: the release is incomplete, ask its owner for a copy"
            )
        if file.stat().st_size != facts["bytes"] or _sha256(file) != facts["sha256"]:
            raise ReleaseError(f"{file} is not the file that was released (its digest does not fit): do not trust it")
    return manifest


def read_numbers(path: Path, manifest: Manifest) -> tuple[NDArray[Any], pa.Array | None]:
    """The published numbers, (columns, rows), and the public ids; form and size are checked before they are read."""
    names, kind = column_names(manifest), number_type(manifest)
    wanted = [(name, kind) for name in names]
    with_ids = [(_ID, pa.string()), *wanted]
    files = [Numbers.open(path / name, len(with_ids)) for name in manifests.data_files(manifest)]
    count = numbers_in_column(manifest)
    if sum(file.rows for file in files) != count:
        raise contradicted(path)
    if not (all(f.form == wanted for f in files) or all(f.form == with_ids for f in files)):
        raise contradicted(path)
    left = check_allowed(files, len(names) * count)
    columns = np.empty((len(names), count), memory_type(manifest))
    stop = 0
    for file in files:
        start, stop = stop, stop + file.rows
        for name, row in zip(names, columns, strict=True):
            row[start:stop] = cells.numbers(file.column(name))
    if not np.isfinite(columns).all():
        raise contradicted(path)
    return columns, _ids(files, left) if files[0].form == with_ids else None


def _ids(files: Sequence[Numbers], most: int) -> pa.Array:
    found = []
    for file in files:
        found.append(file.texts(_ID, most))
        most -= found[-1].nbytes
    return pa.concat_arrays(found)


def numbers_in_column(manifest: Manifest) -> int:
    """How many numbers each published column holds."""
    if manifest["kind"] == "covariance":
        mechanism, counted = manifest["mechanism"], "rows" not in manifest
        dim = int(mechanism["columns"])
        if mechanism["noise"] == "sketch":
            return int(mechanism["sketch_rows"]) * dim + counted
        return dim * (dim + 1) // 2 + dim * bool(mechanism["centred"]) + counted
    rows = manifest["rows"]
    return int(rows * (rows - 1) // 2 if manifest["kind"] in _PAIRS else rows)


def read_projection(path: Path, manifest: Manifest) -> Any:
    """The projection in use, or None if it was kept; its form is checked."""
    if not manifest.get("projection", {"published": False})["published"]:
        return None
    place, shape = path / PROJECTION, (manifest["projection"]["dim_in"], manifest["projection"]["dim_out"])
    wide = [(f"p{i}", pa.float64()) for i in range(min(shape[1], MOST_NUMBERS))]
    thin = [("row", pa.int64()), ("column", pa.int64()), ("value", pa.float64())]
    file = Numbers.open(place, max(len(wide), len(thin)))
    entries = file.rows <= shape[0] * shape[1] if file.form == thin else file.form == wide and file.rows == shape[0]
    if not entries:
        raise contradicted(place)
    check_allowed([file], len(file.form) * file.rows)
    parts = [cells.numbers(file.column(name)) for name, _ in file.form]
    if not all(np.isfinite(p).all() for p in parts):
        raise contradicted(place)
    if file.form != thin:
        return np.column_stack(parts)
    row, column, value = parts
    if row.size and (min(row.min(), column.min()) < 0 or row.max() >= shape[0] or column.max() >= shape[1]):
        raise contradicted(place)
    return scipy.sparse.csr_array((value, (row, column)), shape=shape)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
