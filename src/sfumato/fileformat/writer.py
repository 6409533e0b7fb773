"""Writing a release folder, which appears whole or not at all.

A release comes into being in a hidden folder: ``.NAME.partial-...`` becomes the release NAME, ``.NAME.attempts-...``
beside it takes what tasks of Spark write, and ``.NAME.copy-...`` is a Spark DataFrame on disk, which holds raw rows.
Each is of mode 0700, and is removed when its process ends in any way that lets it; one that is killed outright leaves
it (``leftovers``).

Whoever makes such a folder holds a lock on it (flock, on the folder itself, so that there is no file to forget), which
forks that write parts inherit, and which the system drops with the last of them, however they end. So a folder without
a lock is one that nobody writes to: on this machine, or on any where the file system shares locks. Where it has none,
nobody can tell, and the folder is left alone.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy
from numpy.typing import NDArray

from sfumato.errors import ReleaseError
from sfumato.fileformat import plain_words
from sfumato.fileformat.manifest import DATA, FORMAT, ID, LARGEST, MANIFEST, PROJECTION, VERSION, Manifest
from sfumato.fileformat.reader import check_form, digest, sha256
from sfumato.tables import cells
from sfumato.version import __version__

HiddenKind: TypeAlias = Literal["partial", "attempts", "copy", "stream"]
PublishedRows: TypeAlias = NDArray[Any] | pa.RecordBatch  # numbers (columns, rows), or rows of a table's own columns
Block: TypeAlias = tuple[PublishedRows, pa.Array | None]  # and the public ids of its rows
_HIDDEN = re.compile(r"\..+\.(partial|attempts|copy|stream)-[0-9a-f]{16}", re.DOTALL)
_ROW_GROUP = 1 << 24  # bytes of a row group of numbers that is written
_TABLE_GROUP = 1 << 26  # bytes of one of a table's own columns, which take a fraction of it on disk
_GROUPS_WAITING = 1  # to be written
_WRITTEN = 1 << 20  # bytes that are hashed and written at a time
_UNSYNCED = 1 << 26  # bytes that may be on their way to the disk


def check_free(path: Path) -> None:
    """Refuse to write a release to a place where no new folder can be made."""
    if path.exists() or path.is_symlink():
        raise ReleaseError(f"{path} already exists: choose another name, or remove it first. Nothing was written")
    if not path.parent.is_dir():
        raise ReleaseError(f"there is no folder {path.parent} to put the release in; nothing was written")


@contextmanager
def new_folder(path: Path, ready: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Write a folder under a hidden name beside its place, renamed only if everything went well; otherwise removed.

    ``ready`` is asked last, when all is written and only the name is missing; if it refuses, nothing appears.
    """
    check_free(path)
    try:
        with hidden(path, "partial") as partial:
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


# ---- hidden folders, held while in use ------------------------------------------------------------------------------


@contextmanager
def hidden(path: Path, kind: HiddenKind) -> Iterator[Path]:
    """A new hidden folder to write in, for this process and its forks alone; removed in the end, unless renamed."""
    place, handle = _named(path, kind), None  # named first, so that it is always removed
    try:
        place.mkdir(mode=0o700)
        while (handle := held(place)) is None:  # somebody looked at it in this very instant
            shutil.rmtree(place, ignore_errors=True)
            place = _named(path, kind)
            place.mkdir(mode=0o700)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _named(path: Path, kind: HiddenKind) -> Path:
    return path.parent / f"{'' if path.name.startswith('.') else '.'}{path.name}.{kind}-{secrets.token_hex(8)}"


def hidden_in(folder: Path) -> list[Path]:
    """Names of hidden folders that releases write in, in order; not whether one is ours, or still in use."""
    with os.scandir(folder) as entries:
        return sorted(folder / entry.name for entry in entries if _HIDDEN.fullmatch(entry.name))


def any_hidden(folder: Path) -> bool:
    """Whether hidden folders of releases that were being written are here; False where the folder cannot be listed."""
    with suppress(OSError):
        return bool(hidden_in(folder))
    return False


def held(place: Path, *, surely: bool = False) -> int | None:
    """Descriptor that holds the lock of a folder being written; None if another has it, or the folder is gone.

    Where the file system has no locks: one without, or None if it must be sure.
    """
    try:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    taken = locked(handle)
    if taken or (taken is None and not surely):
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), place.lstat()):
                return handle
    os.close(handle)
    return None


def locked(handle: int) -> bool | None:
    """Take the lock of a folder being written, until its descriptor closes; False if taken, None without locks."""
    try:
        import fcntl  # noqa: PLC0415 - not on every system that can read a release

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


# ---- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows were written, and digest and size of each file, as the manifest lists them."""

    rows: int
    files: dict[str, dict[str, Any]]


def write_numbers(folder: Path, names: Sequence[str], blocks: Iterable[Block]) -> Written:
    """Write blocks of published numbers or of a table's rows, with public ids if there are any, as data.parquet."""
    rows, facts = write_part(folder / DATA, names, blocks)
    if rows == 0:
        raise ReleaseError("the data have no rows, so there is nothing to release; nothing was written")
    return Written(rows, {DATA: facts})


def write_part(path: Path, names: Sequence[str], blocks: Iterable[Block]) -> tuple[int, dict[str, Any]]:
    """Write blocks to one Parquet file; the number of rows, and digest and size. Without rows there is no file."""
    rows, sink = 0, None
    with contextlib.ExitStack() as stack:
        for block, ids in blocks:
            batch = _batch(names, block, ids) if isinstance(block, np.ndarray) else block
            sink = sink or stack.enter_context(ParquetSink(path, batch.schema, whole=batch is block))
            sink.write(batch)
            rows += batch.num_rows
    return rows, {} if sink is None else sink.written


def _batch(names: Sequence[str], block: NDArray[Any], ids: pa.Array | None) -> pa.RecordBatch:
    """Published numbers as a batch to write, with the public ids of their rows if there are any."""
    numbers = [cells.arrow(column) for column in block]
    fields = [pa.field(name, array.type, nullable=False) for name, array in zip(names, numbers, strict=True)]
    named = [] if ids is None else [pa.field(ID, ids.type)]
    return pa.RecordBatch.from_arrays([ids, *numbers] if named else numbers, schema=pa.schema([*named, *fields]))


def rows_in(block: PublishedRows) -> int:
    """How many rows a block to write has."""
    return int(block.num_rows if isinstance(block, pa.RecordBatch) else block.shape[1])


def write_beside(folder: Path, files: Mapping[str, pa.Table]) -> None:
    """Write files of numbers that go along with a release; their digests are taken when it is finished."""
    for name, table in files.items():
        pq.write_table(table, folder / name, compression="none", use_dictionary=False, write_statistics=False)


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


# ---- the manifest and what goes with it -----------------------------------------------------------------------------


def seal(fields: Mapping[str, Any]) -> Manifest:
    """Complete a manifest to write: format, version, software, check against the JSON Schema, digest of the whole.

    A field that is None is left out: a number of rows that is protected.
    """
    said = {key: value for key, value in fields.items() if value is not None}
    body = {"format": FORMAT, "version": VERSION, "software": {"sfumato": __version__}, **said}
    sealed = body | {"digest": digest(body)}
    text = to_json(sealed)
    if len(text) > LARGEST:
        raise ReleaseError(
            f"the manifest would have more than {LARGEST >> 20} MiB, too many to load it again: use fewer columns, a "
            "smaller dimension or fewer classes"
        )
    check_form(json.loads(text))
    return cast("Manifest", sealed)


def to_json(manifest: Mapping[str, object]) -> str:
    """The manifest as JSON to write; what JSON has no numbers for (NaN, infinity) is refused."""
    try:
        return json.dumps(manifest, indent=2, sort_keys=False, allow_nan=False) + "\n"
    except ValueError:
        raise ReleaseError("the manifest could not be read again: it holds what is no number of JSON") from None


def finish(folder: Path, fields: Mapping[str, Any], files: Mapping[str, dict[str, Any]]) -> Manifest:
    """Write what completes a release folder: missing digests, manifest, page in plain words and registry draft."""
    others = {p for p in folder.iterdir() if p.name not in files}
    found = {p.name: {"sha256": sha256(p), "bytes": p.stat().st_size} for p in others}
    manifest = seal({**fields, "files": dict(sorted({**files, **found}.items()))})
    (folder / MANIFEST).write_text(to_json(manifest), encoding="utf-8")
    (folder / "README.txt").write_text(plain_words.readme(manifest), encoding="utf-8")
    (folder / "registry.yaml").write_text(plain_words.registry_draft(manifest), encoding="utf-8")
    return manifest


class ParquetSink:
    """A Parquet file written batch by batch: ``with ParquetSink(path, schema) as sink: sink.write(batch)``.

    whole : these are rows of a table's own columns, whose texts are listed once in each row group, however many.

    Without compression (zstd took four times as long to write noisy lattice numbers, and saved about half the room),
    without minima and maxima, and removed again if the block is left by an error. A few batches become a row group,
    which is encoded, hashed and written by a thread of its own, while others are made; what goes wrong there is raised
    by a later call.
    """

    def __init__(self, path: str | Path, schema: pa.Schema, *, whole: bool = False) -> None:
        self.path, self._group = Path(path), _TABLE_GROUP if whole else _ROW_GROUP
        texts = [_leaf(f) for f in schema if not pa.types.is_floating(f.type)]
        self._file = _Hashed(self.path)
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._file, mode="w"), _WRITTEN)
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression="none",
            use_dictionary=texts or False,
            write_statistics=False,
            dictionary_pagesize_limit=self._group if whole else None,
        )
        self._thread, self._waiting = ThreadPoolExecutor(1), deque[Future[None]]()
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0  # of what is held

    @property
    def written(self) -> dict[str, Any]:
        """Digest and size of the file that was written, once it is closed."""
        return {"sha256": self._file.digest.hexdigest(), "bytes": self._file.size}

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch."""
        self._held.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._group:
            self._hand_over()
        if len(self._waiting) > _GROUPS_WAITING:
            self._waiting.popleft().result()

    def _hand_over(self) -> None:
        """Write the rows that are held as a row group."""
        table, self._held, self._bytes = pa.Table.from_batches(self._held), [], 0
        self._waiting.append(self._thread.submit(self._writer.write_table, table, max(1, table.num_rows)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._held:
            self._hand_over()
        self._thread.shutdown()
        try:
            if kind is None:
                for group in self._waiting:
                    group.result()
                self._writer.close()
                self._stream.flush()
                self._file.sync()
        finally:
            self._file.given_up = True  # closed again after an error, Arrow must not come upon another one
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
                self._stream.close()
            self._file.close()
        if kind is not None:
            self.path.unlink(missing_ok=True)


def _leaf(field: pa.Field) -> str:
    """The path within a Parquet file of what a column holds; of lists, that of their items."""
    lists = pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type)
    return f"{field.name}.list.element" if lists else str(field.name)


class _Hashed(io.RawIOBase):
    """A new file that hashes what is written to it, while it is at hand."""

    def __init__(self, path: Path) -> None:
        self._raw, self.digest, self.size = path.open("wb"), hashlib.sha256(), 0
        self._synced = 0
        self.given_up = False  # then what is written goes nowhere

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        if self.given_up:
            return len(data)
        self.digest.update(data)
        self.size += len(data)
        count = self._raw.write(data)
        if self.size >= self._synced + _UNSYNCED:  # while others work, instead of all of it in the end
            self.sync()
        return count

    def sync(self) -> None:
        """Wait until all that was written is on disk."""
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._synced = self.size

    def flush(self) -> None:
        if not self._raw.closed:
            self._raw.flush()

    def close(self) -> None:
        self._raw.close()
        super().close()
