"""Reading a release folder, which a stranger may have made: checked whole before anything in it is believed.

The manifest first: its form, its digest, that it agrees with itself; then every file against its digest. Parquet files
are compared with what they must hold before they are unpacked. A footer can promise anything, and a few bytes can stand
for millions of equal numbers. So the footer is read only if it is no larger than such a file needs; the columns, the
rows of every row group and the numbers in every column must be as many as the release says before one of them is
unpacked; and they are counted again when they are there. Nothing is executed or unpickled.
"""

import decimal  # noqa: F401 - jsonschema_rs loads it, and panics if an interrupt comes meanwhile
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias, cast

import jsonschema_rs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy
from numpy.typing import NDArray

from sfumato import untrusted
from sfumato.errors import ReleaseError, SfumatoError
from sfumato.fileformat import kinds
from sfumato.fileformat.manifest import (
    DATA,
    FORMAT,
    ID,
    LARGEST,
    MANIFEST,
    MOST_NUMBERS,
    PROJECTION,
    READABLE,
    STREAMED,
    Manifest,
    part_name,
)
from sfumato.fileformat.owners import several_agree
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

_PLAIN = re.compile(r"[\w.-]{1,40}", re.ASCII)  # a name that can be shown
Form: TypeAlias = list[tuple[str, pa.DataType]]

FREE, MANIFOLD = 1 << 30, 1000  # bytes that any release may unpack to; and how many times the bytes of its files
_TAIL = 8  # bytes: the footer's length and the mark of the format
_FOOTER, _CHUNK, _GROUP = 1 << 20, 512, 1 << 20  # bytes: of a footer, of a column in it, of the least row group
_PAGES = 1 << 16  # bytes of a column beside its numbers
_PER_NUMBER = 32  # bytes of a number with all that may stand beside it
_PACKED = {"UNCOMPRESSED": 1, "SNAPPY": 32}  # how releases are written, and how many times its size a text can become


def open_folder(path: Path, *, allow_unprotected: bool) -> Manifest:
    """Check a release folder whole: its manifest, that every file is there, plain, and as it was written."""
    if not path.is_dir():
        raise ReleaseError(f"there is no release folder at {path}")
    manifest = _read_manifest(path / MANIFEST)
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
        if file.stat().st_size != facts["bytes"] or sha256(file) != facts["sha256"]:
            raise ReleaseError(f"{file} is not the file that was released (its digest does not match): do not trust it")
    return manifest


def sha256(path: Path) -> str:
    """SHA-256 of a file in a release folder, as read back, to compare with the manifest."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- the manifest ---------------------------------------------------------------------------------------------------


def _read_manifest(path: Path) -> Manifest:
    """Read and check a manifest: shape, version, digest. Nothing in it is executed or unpickled."""
    if path.is_symlink() or not path.is_file():
        raise ReleaseError(f"{path.parent} is not a release: it has no manifest.json of its own")
    try:
        found = untrusted.loads(untrusted.read(path, LARGEST, follow=False).decode())
    except untrusted.NotOrdinaryError as error:
        raise ReleaseError(f"{path} is not read: {error}") from None
    except untrusted.SaidTwiceError:
        raise ReleaseError(
            f"{path} has the same key twice in a JSON object: it is damaged or forged, do not trust it"
        ) from None
    except (OSError, ValueError, RecursionError):
        raise ReleaseError(f"{path} cannot be read as JSON: the release is damaged, ask its owner for a copy") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ReleaseError(f"{path} is not the manifest of a sfumato release")
    if type(found.get("version")) is not int or found["version"] not in READABLE:
        version = untrusted.line(repr(found.get("version")), 40)
        raise ReleaseError(
            f"{path} has format version {version}; this sfumato reads versions {' and '.join(map(str, READABLE))}"
        )
    check_form(found, path)
    manifest = cast("Manifest", found)
    if manifest["digest"] != digest(manifest):
        raise ReleaseError(
            f"{path} was changed after the release was made (its digest does not match): do not trust it"
        )
    _check_sense(manifest, path)
    return manifest


def check_form(manifest: object, path: Path | str = "the manifest") -> None:
    """Reading a manifest: refuse one that does not have the form that the JSON Schema states."""
    try:
        _form().validate(manifest)
    except jsonschema_rs.ValidationError as error:  # the first of them: all would fill the memory
        known = itertools.takewhile(_PLAIN.fullmatch, map(str, error.instance_path))  # and no word of a stranger's
        place = f"see {'/'.join(known) or 'its top level'}"
    except ValueError:  # half of a character, which JSON can write, or lists in lists in lists
        place = "not all of it can be read"
    else:
        return
    raise ReleaseError(f"{path} does not have the form of a manifest: {place}")


@functools.cache
def _form() -> Any:
    """The JSON Schema that manifests are checked against when read, loaded once; a test checks that it is one."""
    schema = json.loads(
        resources.files("sfumato.fileformat").joinpath("manifest.schema.json").read_text(encoding="utf-8")
    )
    return jsonschema_rs.Draft202012Validator(schema)


def digest(manifest: Mapping[str, object]) -> str:
    """The digest that a reader checks a manifest by: SHA-256 of its canonical JSON, but for the digest itself."""
    body = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _check_sense(manifest: Manifest, path: Path) -> None:
    """Reading a manifest, past the JSON Schema: whole numbers, possible guarantee and schema, numbers that agree."""
    kind = kinds.of(manifest)
    try:
        Guarantee.from_dict(manifest["guarantee"])
        schema = None if kind.graph else Schema.from_dict(manifest["schema"])
        sound = type(manifest.get("rows", 1)) is int and _files_fit(manifest) and kind.agrees(manifest, schema)
        sound = sound and (not kind.graph or manifest["guarantee"]["unit"] == "edge") and _period_fits(manifest)
        sound = sound and several_agree(manifest, schema)
    except (SfumatoError, TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise ReleaseError(f"{path} contradicts itself: the release is damaged or forged, do not trust it")


def _period_fits(manifest: Manifest) -> bool:
    """Reading the manifest of a stream's publication: whether its period lies within its horizon, and noise can be."""
    if "stream" not in manifest:
        return True
    told = manifest["stream"]
    whole = told["period"], told["made_for"], told["horizon"]
    within = all(type(n) is int for n in whole) and max(whole[:2]) <= whole[2]
    sums = manifest["kind"] in STREAMED and manifest["mechanism"]["noise"] == "gaussian"
    return within and sums and manifest["guarantee"]["delta"] > 0


def _files_fit(manifest: Manifest) -> bool:
    """Reading a release folder: whether a manifest lists the files that such a release has; a graph has one.

    So do synthetic tables, beside their model and counts.
    """
    published = "projection" in manifest and manifest["projection"]["published"]
    names, whole = data_files(manifest), kinds.of(manifest).graph or kinds.of(manifest).beside
    others = set(manifest["files"]) - set(names) == {*kinds.of(manifest).beside, *([PROJECTION] * published)}
    return bool(names) and others and (names == [DATA] or not whole)


def data_files(manifest: Manifest) -> list[str]:
    """The files to read published numbers from, in the order of rows: one, or all parts; none if any is amiss."""
    names = [name for name in manifest["files"] if name not in (PROJECTION, *kinds.of(manifest).beside)]
    if names == [DATA]:
        return names
    parts = [part_name(number) for number in range(len(names))]
    return parts if set(parts) == set(names) else []


# ---- published numbers ----------------------------------------------------------------------------------------------


def contradicted(path: Path) -> ReleaseError:
    """The one error for files of a release folder that are found not to hold what the manifest says."""
    return ReleaseError(f"{path} does not hold what its manifest says: do not trust it")


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A Parquet file whose footer was found to be consistent: names and types, rows, and bytes on disk."""

    path: Path
    file: pq.ParquetFile
    form: Form
    rows: int
    size: int

    @classmethod
    def open(cls, path: Path, columns: int, values: Sequence[int] | None = None) -> "Numbers":
        """Open a Parquet file to read, which must have at most so many columns; its footer is checked first.

        ``values``: how many each column may have in a row, at most; one, unless told.
        """
        try:
            size = _check_footer(path, columns)
            file = pq.ParquetFile(path)
            form = [(field.name, field.type) for field in file.schema_arrow]  # gaps are foreseen or not, and refused
            sound = len(form) <= columns and _consistent(file.metadata, values or [1] * len(form))
        except (pa.ArrowException, OSError, ValueError):
            sound = False
        if not sound:
            raise contradicted(path)
        return cls(path, file, form, int(file.metadata.num_rows), size)

    def column(self, name: str) -> NDArray[Any]:
        """Read a column of published numbers, as many as there are rows, looked at where they are.

        Not by ``to_numpy``, which imports pandas if it is there, and that takes longer than loading a release.
        """
        try:
            found = self.file.read([name]).column(0).combine_chunks()
        except (pa.ArrowException, OSError, ValueError):
            raise contradicted(self.path) from None
        if len(found) != self.rows or found.null_count:
            raise contradicted(self.path)
        return np.from_dlpack(found)

    def texts(self, name: str, most: int) -> pa.Array:
        """Read a column of texts of a release, as many as there are rows, of at most so many bytes together.

        They are unpacked a few at a time: one that is written once can be meant by every row.
        """
        place = [known for known, _ in self.form].index(name)
        groups = [self.file.metadata.row_group(g).column(place) for g in range(self.file.num_row_groups)]
        longest = max((c.total_compressed_size * _PACKED[c.compression] for c in groups), default=0)
        together = min(max(1, most // max(longest, 1)), 1 << 16)
        found: list[pa.Array] = []
        left = most
        try:
            for batch in self.file.iter_batches(batch_size=together, columns=[name]):
                found.append(batch.column(0))
                left -= batch.nbytes
                if left < 0:
                    raise contradicted(self.path)
            whole = pa.concat_arrays(found) if found else pa.array([], pa.string())
        except (pa.ArrowException, OSError):
            raise contradicted(self.path) from None
        if len(whole) != self.rows:
            raise contradicted(self.path)
        return whole


def allowance(files: Sequence[Numbers]) -> int:
    """Reading a release safely: how many bytes its files may unpack to, together."""
    return max(FREE, MANIFOLD * sum(file.size for file in files))


def check_allowed(files: Sequence[Numbers], numbers: int) -> int:
    """Reading a release: refuse to unpack so many numbers from files far too small; the bytes that are left."""
    most = allowance(files)
    if numbers * 8 > most:
        raise ReleaseError(
            f"{files[0].path.parent} would unpack to {numbers * 8 / (1 << 30):.3g} GiB, more than {MANIFOLD} times the "
            "size of its files: no release with noise in it does, so it is not read"
        )
    return most - numbers * 8


def _check_footer(path: Path, columns: int) -> int:
    """Reading a Parquet file of a release: its size, if its footer is no larger than so many columns need."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL, 0))
        tail = file.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > min(size, _FOOTER + _CHUNK * columns * (1 + size // _GROUP)):
        raise contradicted(path)
    return size


def _consistent(footer: pq.FileMetaData, values: Sequence[int]) -> bool:
    """Reading a Parquet footer: whether each row group has a value per column and row, stored in a way of ours.

    A column of lists has at least one, and at most so many ``values``.
    """
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    counts = [group.num_rows for group in groups]
    if footer.num_columns != len(values) or min(counts, default=0) < 0 or sum(counts) != footer.num_rows:
        return False
    chunks = ((group.num_rows, most, group.column(c)) for group in groups for c, most in enumerate(values))
    return all(
        rows <= chunk.num_values <= rows * most
        and chunk.compression in _PACKED
        and chunk.total_compressed_size >= 0
        and (chunk.physical_type == "BYTE_ARRAY" or 0 <= chunk.total_uncompressed_size <= _room(rows * most))
        for rows, most, chunk in chunks
    )


def _room(numbers: int) -> int:
    return _PER_NUMBER * numbers + _PAGES


def _open_numbers(path: Path, manifest: Manifest) -> tuple[list[Numbers], int]:
    """Open the files of published numbers to read, if they have the form and size that the release says.

    Also how many bytes the ids beside them may have; none have ids, or all.
    """
    names, count = kinds.of(manifest).columns(manifest), kinds.of(manifest).size(manifest)
    wanted = [(name, pa.type_for_alias(kinds.stored_type(manifest))) for name in names]
    with_ids = [(ID, pa.string()), *wanted]
    files = [Numbers.open(path / name, len(with_ids)) for name in data_files(manifest)]
    if sum(file.rows for file in files) != count:
        raise contradicted(path)
    if not (all(f.form == wanted for f in files) or all(f.form == with_ids for f in files)):
        raise contradicted(path)
    return files, check_allowed(files, len(names) * count)


def read_blocks(path: Path, manifest: Manifest, rows: int) -> Iterator[NDArray[Any]]:
    """Read the published numbers some rows at a time, (columns, rows), in the type that they are stored in.

    They are checked as ``read_numbers`` does; what comes is as many numbers as the release says, or an error.
    """
    names = list(kinds.of(manifest).columns(manifest))
    for file in _open_numbers(path, manifest)[0]:
        left = file.rows
        try:
            for batch in file.file.iter_batches(batch_size=rows, columns=names):
                found = np.stack([np.from_dlpack(column) for column in batch.columns])
                left -= batch.num_rows
                if not np.isfinite(found).all():
                    raise contradicted(file.path)
                yield found
        except (pa.ArrowException, OSError, ValueError, TypeError, BufferError):
            raise contradicted(file.path) from None
        if left:
            raise contradicted(file.path)


def read_numbers(path: Path, manifest: Manifest) -> tuple[NDArray[Any], pa.Array | None]:
    """Read the published numbers, (columns, rows), and the public ids of a release; form and size are checked first."""
    names, count = kinds.of(manifest).columns(manifest), kinds.of(manifest).size(manifest)
    files, left = _open_numbers(path, manifest)
    columns = np.empty((len(names), count), kinds.memory_type(manifest))
    stop = 0
    for file in files:
        start, stop = stop, stop + file.rows
        for name, row in zip(names, columns, strict=True):
            row[start:stop] = file.column(name)
    if not np.isfinite(columns).all():
        raise contradicted(path)
    return columns, _ids(files, left) if len(files[0].form) > len(names) else None


def _ids(files: Sequence[Numbers], most: int) -> pa.Array:
    found = []
    for file in files:
        found.append(file.texts(ID, most))
        most -= found[-1].nbytes
    return pa.concat_arrays(found)


def read_projection(path: Path, manifest: Manifest) -> Any:
    """Read the published projection of a release, or None if it was kept secret; its form is checked."""
    if not ("projection" in manifest and manifest["projection"]["published"]):
        return None
    place, shape = path / PROJECTION, (manifest["projection"]["dim_in"], manifest["projection"]["dim_out"])
    wide = [(f"p{i}", pa.float64()) for i in range(min(shape[1], MOST_NUMBERS))]
    thin = [("row", pa.int64()), ("column", pa.int64()), ("value", pa.float64())]
    file = Numbers.open(place, max(len(wide), len(thin)))
    entries = file.rows <= shape[0] * shape[1] if file.form == thin else file.form == wide and file.rows == shape[0]
    if not entries:
        raise contradicted(place)
    check_allowed([file], len(file.form) * file.rows)
    parts = [file.column(name) for name, _ in file.form]
    if not all(np.isfinite(p).all() for p in parts):
        raise contradicted(place)
    if file.form != thin:
        return np.column_stack(parts)
    row, column, value = parts
    if row.size and (min(row.min(), column.min()) < 0 or row.max() >= shape[0] or column.max() >= shape[1]):
        raise contradicted(place)
    return scipy.sparse.csr_array((value, (row, column)), shape=shape)
