"""Synthetic rows in the analyst's hands: samples, the model behind them, and a way for real test rows into their space.

Nothing here costs privacy. Rows live in ``dimension`` numbers: normalised as ``unit_ball.Frame`` says, about the
published centre (or a public origin), projected by W. The label, if there is one, is in its own units.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import gaussians
from sfumato.estimation.gaussians import Component
from sfumato.fileformat import kinds
from sfumato.fileformat.manifest import SyntheticManifest
from sfumato.files.open_table import open_table
from sfumato.numerics.types import Floats
from sfumato.projection.unit_ball import Frame
from sfumato.releases.release import NumbersRelease
from sfumato.tables.columns import Category, DataColumn, Ordinal
from sfumato.tables.decoding import as_in_table, chosen, decoded
from sfumato.tables.labels import Labelled
from sfumato.tables.schema import Schema

Labels = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The published Gaussians: one for all rows, or one for each class; a numeric label is the last coordinate.

    A numeric label runs from -1 to 1 here, from one of its bounds to the other.
    """

    components: tuple[Component, ...]
    classes: tuple[str | int | bool, ...]

    @property
    def weights(self) -> Floats:
        """The share of the synthetic rows that each published Gaussian has."""
        return np.array([c.weight for c in self.components])

    @property
    def means(self) -> Floats:
        """The mean of each Gaussian behind the synthetic rows, one row for each."""
        return np.stack([c.mean for c in self.components])

    @property
    def covariances(self) -> Floats:
        """The covariance matrix of each Gaussian behind the synthetic rows."""
        return np.stack([c.covariance for c in self.components])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SyntheticRelease(NumbersRelease):
    """Sampled rows: ``columns`` has shape (dimension, rows), and a last row of labels if there is a label."""

    manifest: SyntheticManifest

    def __post_init__(self) -> None:
        expected = self.dimension + (self._labelled.column is not None)
        if self.columns.ndim != 2 or len(self.columns) != expected or self.projection is None:
            raise ReleaseError(
                f"a synthetic release has its projection and {expected} columns, got {self.columns.shape}"
            )

    def __repr__(self) -> str:
        promise, claim = self.guarantee, kinds.claim_kept(self.manifest)
        what = f"epsilon={promise.epsilon:g}, delta={promise.delta:g}, neighbours={promise.neighbours!r}"
        return f"<{self.columns.shape[1]} synthetic rows; {what}{'' if claim else ', CLAIMED BUT NOT KEPT'}>"

    @property
    def dimension(self) -> int:
        """How many numbers a row has, beside its label."""
        return int(self.manifest["projection"]["dim_out"])

    @property
    def centre(self) -> Floats:
        """The private mean of the normalised rows; zero where they are about a public origin."""
        dim_in = self.manifest["projection"]["dim_in"]
        return np.array(self.manifest["mechanism"].get("centre", [0.0] * dim_in), float)

    @property
    def _frame(self) -> Frame:
        mechanism = self.manifest["mechanism"]
        return Frame.of(self._labelled.others, mechanism["normalise"], mechanism["centring"])

    @property
    def _labelled(self) -> Labelled:
        mechanism = self.manifest["mechanism"]
        return Labelled.of(self.schema, mechanism.get("label"), mechanism.get("kind", "values"))

    def model(self) -> Model:
        """Means and covariances of the Gaussian model behind the synthetic rows."""
        components = tuple(Component.from_dict({**c}) for c in self.manifest["mechanism"]["model"])
        return Model(components, self._labelled.classes)

    def array(self) -> Floats:
        """The synthetic rows, without their labels."""
        return self.columns[: self.dimension].T

    def labels(self) -> Labels:
        """The label of each synthetic row: a number, or a class as the schema lists it."""
        labelled = self._labelled
        if labelled.column is None:
            raise ReleaseError("this release has no label")
        last = self.columns[-1]
        return last if labelled.numeric else labelled.decoded(last.astype(np.int64))

    def sample(self, rows: int, rng: np.random.Generator | int | None = None) -> "SyntheticRelease":
        """A release with other synthetic rows, as many as wanted, drawn from the same model; free of cost."""
        check.whole(1, rows=rows)
        labelled = self._labelled
        drawn, which = gaussians.sample(self.model().components, rows, np.random.default_rng(rng))
        columns = drawn.T.copy()
        if labelled.numeric:
            columns[-1] = labelled.original(columns[-1])
        elif labelled.column is not None:
            columns = np.vstack([columns, which.astype(float)])
        return SyntheticRelease(self.manifest | {"rows": rows}, columns, self.projection)

    def transform(self, test_rows: Any) -> Floats:
        """Real rows in the space of the synthetic ones, without noise; a label among them is not looked at."""
        labelled = self._labelled
        schema, frame = labelled.others, self._frame
        names = schema.source_names
        table = open_table(_without_label(test_rows, labelled), schema)
        blocks = [schema.encode(b) for b in table.blocks(names, 1 << 14)]
        encoded = np.concatenate([*blocks, np.empty((frame.dim, 0))], axis=1)
        placed = frame.place(encoded)
        if self.manifest["mechanism"]["centring"] == "private":
            placed = frame.about(placed, frame.centre(self.centre * frame.one))
        return np.asarray((self.projection.T @ placed).T / frame.one)

    def table(self, *, reconstruct: bool = False, length: float | None = None) -> pa.Table:
        """The synthetic rows as an Arrow table; with ``reconstruct`` in the schema's own columns, within their bounds.

        A category becomes the value whose column is largest, a flag true from one half on, a set the items of at least
        one half; integers, ordinals and dates are rounded. Where missingness is kept, cells may be missing. Rows that
        were normalised have lost their length: they get ``length``, in weighted units, or that of the middle of the
        bounds; where the centre is public, the root mean square length of rows all over the box.
        Error: what W leaves out is lost; it is replaced by the centre.
        """
        if reconstruct:
            return self._reconstructed(length)
        named = {f"z{i}": column for i, column in enumerate(self.columns[: self.dimension])}
        column = self._labelled.column
        return pa.table(named | ({} if column is None else {"label": self._label_column(column)}))

    def _reconstructed(self, length: float | None) -> pa.Table:
        labelled = self._labelled
        rows = self._unprojected(labelled.others, length) / labelled.others.encoding.weights[:, None]
        inside = replace(labelled.others, norm=None, norm_bound=None).clip(rows)
        found: dict[str, dict[str, pa.Array]] = {}
        start = 0
        for column in labelled.others.data_columns:
            found[column.name] = as_in_table(column, inside[start : start + column.width])
            start += column.width
        if labelled.column is not None:
            label = (
                decoded(labelled.column, self.columns[-1:]) if labelled.numeric else self._label_column(labelled.column)
            )
            found[labelled.column.name] = {labelled.column.name: label}
        ordered = (found[column.name] for column in self.schema.data_columns)
        return pa.table({name: cells for columns in ordered for name, cells in columns.items()})

    def _label_column(self, column: DataColumn) -> pa.Array:
        """The labels of the synthetic rows: numbers as they were sampled, classes in the column's own type."""
        if isinstance(column, Category | Ordinal):
            return chosen(column, self.columns[-1].astype(np.int64))
        return pa.array(self.labels())

    def _unprojected(self, schema: Schema, length: float | None) -> Floats:
        """Synthetic rows in weighted units: the centre and what W shows of the way from it.

        Rows of length 1 lie sqrt(1 - |centre|^2) from their mean, in the mean square; so much is the second
        normalisation undone by.
        """
        frame, encoding = self._frame, schema.encoding
        spread = np.sqrt(max(0.0, 1 - float(self.centre @ self.centre))) if frame.normalise == "twice" else 1.0
        rows = self.centre[:, None] + spread * (self.projection @ self.columns[: self.dimension])
        origin = (encoding.weights * frame.origin)[:, None]
        if frame.normalise == "never":
            if length is not None:
                raise ParameterError(f"length must be left out where rows kept their lengths, got length={length!r}")
            return np.asarray(origin + rows * frame.radius)
        if length is None:
            public = self.manifest["mechanism"]["centring"] == "public"
            length = frame.radius / math.sqrt(3) if public else _middle_length(frame) or frame.radius / 2
        check.positive(length=length)
        return np.asarray(origin + rows * (length / np.maximum(np.linalg.norm(rows, axis=0), 1e-300)))


def _middle_length(frame: Frame) -> float:
    """How far the middle of the bounds is from the origin of the synthetic rows' frame, in weighted units."""
    return float(np.linalg.norm(frame.weights * (frame.low / 2 + frame.high / 2 - frame.origin)))


def _without_label(data: Any, labelled: Labelled) -> Any:
    """A matrix of test rows without the column of the synthetic rows' label, if any; tables are read by name."""
    columns = labelled.schema.data_columns
    if labelled.column is None or not hasattr(data, "shape") or hasattr(data, "columns"):
        return data
    if isinstance(data, pa.Table) or len(data.shape) != 2 or data.shape[1] != len(columns):
        return data
    keep = [i for i, column in enumerate(columns) if column is not labelled.column]
    return data[:, keep]
