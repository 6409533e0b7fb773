"""Loading a release, and what releases share: the promise and saving; of published numbers, how records are named."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import quantities
from sfumato.fileformat import kinds, reader, writer
from sfumato.fileformat.manifest import Manifest
from sfumato.fileformat.writer import Block, Written
from sfumato.in_notebooks import InNotebooks
from sfumato.intervals.estimate import Estimate, Quantity
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

if TYPE_CHECKING:
    from sfumato.posterior.true_neighbours import ExpectedHits

Index = int | Sequence[int] | NDArray[np.integer]
AnyRelease: TypeAlias = Any  # a class of this package, by kind; what can be asked of it depends on the kind


def load(path: str | Path, *, allow_unprotected: bool = False) -> AnyRelease:
    """Open a release folder: checks its form, version and digests first, executes nothing, refuses test noise."""
    folder = Path(path)
    manifest = reader.open_folder(folder, allow_unprotected=allow_unprotected)
    return of_kind(manifest).read(folder, manifest)


def positions(records: ArrayLike, count: int, noun: str = "records") -> NDArray[np.int64]:
    """Records of a release by their positions, checked."""
    index = np.atleast_1d(np.asarray(records))
    if index.dtype.kind not in "iu" or index.ndim != 1:
        raise ParameterError(f"{noun} must be integers: their positions in the release")
    if index.size and (index.min() < 0 or index.max() >= count):
        low, high = int(index.min()), int(index.max())
        got = f"{low}" if low == high else f"{low} to {high}"
        raise ParameterError(f"{noun} are numbered 0 to {count - 1}, got {got}")
    return index.astype(np.int64)


def of_kind(manifest: Manifest) -> type["Release"]:
    """The class that serves the releases of a manifest's kind; it is imported here, and no other."""
    module, name = kinds.of(manifest).served_by
    return cast("type[Release]", getattr(importlib.import_module(f"sfumato.releases.{module}"), name))


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Records in order of apparent nearness, with estimates of their squared distances.

    Error: each value is unbiased for its pair and not for being a winner: the smallest of many noisy distances look
    smaller than they are. Intervals allow for the choice: they are those that hold for all records that there were to
    choose from at once (Bonferroni), so they hold for whichever were chosen; narrower ones, for a pair that was named
    beforehand, are those of ``distance``. Standard errors are of such a pair, too.

    Under a learned prior (``distances.kind`` is "credible") values and intervals are those of the posterior, which is
    not misled by the choice, and ``expected`` says how many of the records shown are expected to be among the truly
    nearest. ``note`` is a sentence on what hides the order, where something does.
    """

    indices: NDArray[np.int64]
    distances: Estimate
    counted: Callable[[], "ExpectedHits"] | None = None
    note: str = ""

    @property
    def expected(self) -> "ExpectedHits | None":
        """How many of the records are expected among the truly nearest, under a learned prior; computed when asked."""
        return None if self.counted is None else self.counted()

    @classmethod
    def among(cls, candidates: int, indices: NDArray[np.int64], distances: Estimate) -> Self:
        """Nearest records of a release, chosen from so many, of whose distances these are the estimates."""
        every = replace(distances, bounds=lambda tail: distances.bounds(tail / candidates))
        return cls(indices, replace(every, covers=f"{distances.covers}; for all records to choose from at once"))


@dataclass(frozen=True, slots=True, eq=False)
class Release(InNotebooks, ABC):
    """What every release has: a manifest, what it promises, and a folder that it can be written to."""

    manifest: Manifest
    _stated: dict[str, Any] = field(default_factory=dict, init=False, repr=False)  # what the manifest says, read once

    def __repr__(self) -> str:
        promise = self.guarantee
        what = f"epsilon={promise.epsilon:g}, delta={promise.delta:g}, unit={promise.unit!r}"
        return f"<{self.manifest['kind']} of {self.rows} records; {what}>"

    def plot(self, *columns: str) -> Any:
        """Pictures of the release that a notebook shows, and ``save(path)`` writes to a page of their own.

        Of a table some columns, or those named; of others the released records or matrix, and how answers err.
        Guarantee: post-processing of a release; costs no privacy.
        """
        return importlib.import_module("sfumato.notebook.drawings").plot(self, columns)

    @property
    def guarantee(self) -> Guarantee:
        """What was promised of the release."""
        return Guarantee.from_dict(self.manifest["guarantee"])

    @property
    def schema(self) -> Schema:
        """What the columns were, with their public bounds."""
        if "schema" not in self._stated:
            self._stated["schema"] = Schema.from_dict(self.manifest["schema"])
        return cast("Schema", self._stated["schema"])

    @property
    def rows(self) -> int:
        """The number of records."""
        return int(self.manifest["rows"])

    @classmethod
    @abstractmethod
    def read(cls, folder: Path, manifest: Manifest) -> Self:
        """Read a release from its folder, whose manifest and digests were checked."""

    @classmethod
    @abstractmethod
    def of_blocks(
        cls, manifest: Manifest, blocks: Sequence[Block], matrix: Any, beside: Mapping[str, pa.Table]
    ) -> Self:
        """Make a release of what a mechanism published: blocks, the projection, and files that go along."""

    def save(self, path: str | Path) -> None:
        """Write the release folder, whole or not at all."""
        made = ("format", "version", "software", "digest", "files")
        fields = {key: value for key, value in self.manifest.items() if key not in made}
        with writer.new_folder(Path(path)) as folder:
            writer.finish(folder, fields, self._write(folder).files)

    @abstractmethod
    def _write(self, folder: Path) -> Written:
        """Write the files of the release, but for the manifest."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NumbersRelease(Release):
    """Published numbers, one column of the file per row of ``columns``, with what is needed to read them."""

    columns: NDArray[Any]
    projection: Any = None
    ids: pa.Array | None = None

    @classmethod
    def read(cls, folder: Path, manifest: Manifest) -> Self:
        """Read published numbers, their projection and public ids."""
        columns, ids = reader.read_numbers(folder, manifest)
        return cls(manifest, columns, reader.read_projection(folder, manifest), ids)

    @classmethod
    def of_blocks(
        cls, manifest: Manifest, blocks: Sequence[Block], matrix: Any, beside: Mapping[str, pa.Table]
    ) -> Self:
        """A release of blocks of numbers."""
        del beside
        columns = np.concatenate([block for block, _ in blocks], axis=1)
        ids = None if blocks[0][1] is None else pa.concat_arrays([found for _, found in blocks])
        return cls(manifest, columns.astype(kinds.memory_type(manifest), copy=False), matrix, ids)

    @property
    def _apart(self) -> Quantity:
        """Squared distances between records, as the schema bounds them."""
        if "apart" not in self._stated:
            self._stated["apart"] = quantities.squared_distance(self.schema)
        return cast("Quantity", self._stated["apart"])

    def table(self) -> pa.Table:
        """The published numbers as an Arrow table, with public ids if there are any."""
        table = pa.table(dict(zip(self._names, self.columns, strict=True)))
        return table if self.ids is None else table.add_column(0, "id", self.ids)

    @property
    def _names(self) -> tuple[str, ...]:
        """The names of the published columns, in their file."""
        return kinds.of(self.manifest).columns(self.manifest)

    def _write(self, folder: Path) -> Written:
        numbers = self.columns.astype(kinds.stored_type(self.manifest), copy=False)
        written = writer.write_numbers(folder, self._names, [(numbers, self.ids)])
        if self.projection is not None:
            writer.write_projection(folder, self.projection)
        return written

    def _pairs(self, first: Index, second: Index) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        a, b = self._check(first), self._check(second)
        if a.shape != b.shape:
            raise ParameterError(f"first and second must have the same length, got {a.size} and {b.size}")
        return a, b

    def _check(self, records: ArrayLike, noun: str = "records") -> NDArray[np.int64]:
        return positions(records, self.rows, noun)

    def _check_flags(self) -> None:
        if not self.schema.encoding.only_bits:
            raise ReleaseError(
                "Hamming and Jaccard need a schema with flags only, all of weight 1: use distances instead"
            )
