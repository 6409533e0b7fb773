"""The column that a model is to predict, apart from the columns it is predicted from."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats
from sfumato.tables.columns import Category, DataColumn, Flag, Integer, Ordinal, Real
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of
from sfumato.tables.schema import Schema

Kind = Literal["values", "classes"]


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """A schema with one column singled out, or none.

    values  : the label is a number between public bounds (a flag counts as 0 or 1).
    classes : it is one of a few listed values, or false or true. A cell that is none of them puts its row in no class.
    """

    schema: Schema
    column: DataColumn | None
    kind: Kind

    @classmethod
    def of(cls, schema: Schema, label: str | None, kind: Kind) -> Self:
        """Find the column to predict, and refuse what it cannot be."""
        check.one_of(("values", "classes"), kind=kind)
        if label is None:
            return cls(schema, None, kind)
        column = next((c for c in schema.data_columns if c.name == label), None)
        if column is None:
            raise ParameterError(f"label must name a column of the schema other than its id, got label={label!r}")
        _check_kind(column, kind)
        if len(schema.data_columns) == 1:
            raise ParameterError(f"there is no column beside the label {label!r}")
        return cls(schema, column, kind)

    @property
    def numeric(self) -> bool:
        """Whether the label is a number."""
        return self.column is not None and self.kind == "values"

    @property
    def classes(self) -> tuple[str | int | bool, ...]:
        """The values that the label may have, if rows are told apart by it."""
        if self.column is None or self.kind == "values":
            return ()
        return self.column.values if isinstance(self.column, Category | Ordinal) else (False, True)

    @property
    def others(self) -> Schema:
        """The schema without the label."""
        return replace(self.schema, columns=tuple(c for c in self.schema.columns if c is not self.column))

    @property
    def _rows(self) -> slice:
        """Where the label is among the encoded columns."""
        start = 0
        for column in self.schema.data_columns:
            if column is self.column:
                return slice(start, start + column.width)
            start += column.width
        return slice(0, 0)

    def features(self, block: Floats) -> Floats:
        """An encoded block without the label; a view where the label comes first, last, or not at all."""
        label = self._rows
        if label.start == 0:
            return block[label.stop :]
        return block[: label.start] if label.stop == len(block) else np.delete(block, label, axis=0)

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of a numeric label."""
        return (0.0, 1.0) if self.column is None else bounds_of(self.column)

    def numbers(self, block: Floats, extent: int) -> Floats:
        """A numeric label of an encoded block as integers from -extent to extent; NaN becomes the low end."""
        low, high = self.bounds
        values = block[self._rows][0]
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        steps = (np.fmin(np.fmax(values, low), high) - middle) / half * extent
        return np.asarray(np.rint(np.fmin(np.fmax(steps, -extent), extent)))

    def original(self, scaled: Floats) -> Floats:
        """Numbers from -1 to 1 back in the label's own units; beyond them, the bounds."""
        low, high = self.bounds
        return np.asarray(np.clip((low / 2 + high / 2) + scaled * (high / 2 - low / 2), low, high))

    def codes(self, block: Floats) -> NDArray[np.int64]:
        """The place of each row's class among the classes, or -1."""
        cells = block[self._rows] > 0.5
        if isinstance(self.column, Flag):
            return np.asarray(cells[0], np.int64)
        if isinstance(self.column, Ordinal):
            places = np.rint(np.fmin(np.fmax(block[self._rows][0], 0), len(self.column.values) - 1))
            return np.asarray(places, np.int64)
        return np.asarray(np.where(cells.any(axis=0), cells.argmax(axis=0), -1), np.int64)

    def decoded(self, codes: NDArray[np.int64]) -> NDArray[np.generic]:
        """Classes of the label by their places."""
        values = self.classes
        if all(isinstance(v, bool) for v in values):
            return np.asarray(codes == 1)
        if all(isinstance(v, int) for v in values):
            return np.array(values)[codes]
        return np.array(values, dtype=object)[codes]


def usual_kind(schema: Schema, label: str | None) -> Kind:
    """What a label is predicted as where nobody says so: one of its classes, or a number."""
    classes = any(c.name == label and isinstance(c, Category | Ordinal | Flag) for c in schema.columns)
    return "classes" if classes else "values"


def _check_kind(column: DataColumn, kind: Kind) -> None:
    """Refuse a label that cannot be predicted as numbers, or as classes."""
    wanted = Category | Flag | Ordinal if kind == "classes" else Real | Integer | Flag
    if not isinstance(column, wanted):
        needs = "a category, an ordinal or a flag" if kind == "classes" else "a number or a flag"
        other = f": use kind={'values' if kind == 'classes' else 'classes'!r}"
        advice = other if isinstance(column, Category | Flag | Ordinal | Real | Integer) else ""
        raise ParameterError(f"kind={kind!r} needs {needs}, and {column.name!r} is of kind {column.kind}{advice}")
    if keeps_missing(column):
        raise ParameterError(f"the label {column.name!r} keeps missing cells as a level: declare a value for them")
