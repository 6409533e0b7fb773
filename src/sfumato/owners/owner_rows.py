"""The rows of one owner among several: of a loaded sketch, or read from its folder some at a time.

A folder is checked whole once, as loading does, and then read pass by pass, so that many large releases fit in little
memory.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat import reader
from sfumato.fileformat.manifest import Manifest
from sfumato.numerics.types import Floats, Integers
from sfumato.releases.sketch import SketchRelease

_NUMBERS = 1 << 19  # of a block of rows: 4 MB in double precision


@dataclass(frozen=True, slots=True, eq=False)
class OwnerRows:
    """The rows of one owner; ``release`` has no numbers where a ``folder`` has them."""

    release: SketchRelease
    folder: Path | None = None

    @classmethod
    def of(cls, given: Any, *, allow_unprotected: bool) -> "OwnerRows":
        """The rows of a loaded sketch or of a release folder; refuses other kinds, and test noise as ``load`` does."""
        if isinstance(given, (str, Path)):
            folder = Path(given)
            manifest = reader.open_folder(folder, allow_unprotected=allow_unprotected)
            _check_kind(manifest, folder)
            return cls(SketchRelease(manifest, np.empty((manifest["projection"]["dim_out"], 0))), folder)
        if not hasattr(given, "manifest"):
            kind = type(given).__name__
            raise ParameterError(
                f"releases must be sketches or the paths of their folders, got an object of type {kind}"
            )
        _check_kind(given.manifest, "a release")
        if not given.manifest["protected"] and not allow_unprotected:
            raise ReleaseError(
                "a release was made with test noise and protects nobody: never publish it (allow_unprotected=True "
                "joins it)"
            )
        return cls(given)

    @property
    def manifest(self) -> Manifest:
        """What the owner's release says of itself."""
        return self.release.manifest

    @property
    def count(self) -> int:
        """How many rows the owner has."""
        return self.release.rows

    @property
    def identity(self) -> str:
        """What two copies of one release share: the digests of their numbers."""
        files = self.manifest["files"]
        if files:
            said = "".join(files[name]["sha256"] for name in reader.data_files(self.manifest))
        else:
            said = hashlib.sha256(np.ascontiguousarray(self.release.columns).data).hexdigest()
        return said

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """All rows of the owner, some at a time, with the number of the first; in the type that they are kept in."""
        size = max(1, _NUMBERS // self.release.dimension)
        if self.folder is None:
            for start in range(0, self.count, size):
                yield start, self.release.columns[:, start : start + size].T
            return
        start = 0
        for block in reader.read_blocks(self.folder, self.manifest, size):
            yield start, block.T
            start += block.shape[1]

    def at(self, records: Integers) -> Floats:
        """Some rows of the owner, by number, in double precision."""
        if self.folder is None:
            return np.asarray(self.release.columns.T[records], np.float64)
        found = np.empty((len(records), self.release.dimension))
        for start, block in self.blocks():
            inside = (records >= start) & (records < start + len(block))
            found[inside] = block[records[inside] - start]
        return found

    def with_projection(self) -> SketchRelease:
        """The owner's release with its projection, for public rows."""
        if self.folder is None:
            return self.release
        return SketchRelease(self.manifest, self.release.columns, reader.read_projection(self.folder, self.manifest))


def _check_kind(manifest: Manifest, what: Path | str) -> None:
    """Only sketches of whole projections have rows in a shared space."""
    if manifest["kind"] != "sketch":
        raise ReleaseError(f"{what} is of kind {manifest['kind']!r}: only sketches are joined row by row")
    if "space" not in manifest:
        raise ReleaseError(
            f"{what} is in no shared space, so its rows cannot be compared with those of others: its owner releases it "
            "with space="
        )
