"""The finite domain that a histogram lives on: every combination of the levels of a few columns.

A flag has two levels, an ordinal and a category one for each listed value (a category one more for a cell that is none
of them, where the schema does not say what such a cell becomes), a real column or a date as many as it is publicly cut
into, a whole number one for each value unless it is cut, a set one for each combination of the items that are asked
about. Where missingness is kept, missing cells are one more level. Cuts are public: they come from the schema's bounds
or from the caller, never from data. Every row falls into exactly one cell, by itself, so one record that comes or goes
moves one count by one, and one that is replaced moves two.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.axes import LIMIT, Axis, Bins, axis_at, axis_of
from sfumato.queries.predicates import Leaf, Predicate
from sfumato.tables.blocks import Rows
from sfumato.tables.columns import Category, Flag
from sfumato.tables.schema import Schema

Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Domain:
    """Cells in the order of the columns' levels, the last column fastest.

    Guarantee: which cell a row falls into depends on that row alone, and no row raises an error.
    """

    schema: Schema
    columns: tuple[Axis, ...]
    limit: int = LIMIT

    def __post_init__(self) -> None:
        check.whole(1, limit=self.limit)
        if not self.columns:
            raise ParameterError("a domain needs at least one column, got columns=()")
        if self.size > self.limit:
            sizes = " * ".join(f"{axis.size} ({axis.name})" for axis in self.columns)
            raise ParameterError(
                f"the domain has {self.size} cells = {sizes}, and at most {self.limit} can be enumerated: "
                "name fewer columns, or cut numbers into fewer bins"
            )

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Sequence[str] | None = None,
        bins: Mapping[str, Bins] | None = None,
        limit: int = LIMIT,
    ) -> Self:
        """The domain of some columns of a schema, in the schema's order; left out, of all but its id.

        bins : for each real column and date, the number of equal bins between its bounds, or the cuts between them (of
               dates, dates); a cut at the high bound makes a level of that value alone. Whole numbers and ordinals may
               be cut likewise; otherwise each value is a level. For each set, a list of the items to tell apart.
        """
        if bins is not None and not isinstance(bins, Mapping):
            raise ParameterError(f"bins are cuts by column, such as {{'age': 10}}, got a {type(bins).__name__}")
        bins = dict(bins or {})
        known = [column.name for column in schema.data_columns]
        wanted = known if columns is None else list(columns)
        for name in (*wanted, *bins):
            check.one_of(known, column=name)
        for name in bins:
            if name not in wanted or isinstance(schema.data_columns[known.index(name)], Flag | Category):
                raise ParameterError(
                    "bins are for real columns, whole numbers, ordinals, dates and sets of the domain, "
                    f"got bins for {name!r}"
                )
        starts = np.cumsum([0, *(column.width for column in schema.data_columns)]).tolist()
        placed = zip(schema.data_columns, starts, strict=False)
        return cls(schema, tuple(axis_of(c, at, bins.get(c.name)) for c, at in placed if c.name in wanted), limit)

    @classmethod
    def of_questions(cls, schema: Schema, questions: Sequence[Predicate], limit: int = LIMIT) -> Self:
        """The domain of the columns that are asked about, cut where the questions change: each is constant on cells.

        Questions are public, and so are cuts that come from them.
        """
        leaves = [leaf for question in questions for leaf in question.leaves]
        names = {leaf.column.name for leaf in leaves} or {schema.data_columns[0].name}
        starts = np.cumsum([0, *(column.width for column in schema.data_columns)]).tolist()
        placed = zip(schema.data_columns, starts, strict=False)
        return cls(schema, tuple(axis_at(c, at, leaves) for c, at in placed if c.name in names), limit)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each column."""
        return tuple(axis.size for axis in self.columns)

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    def cells(self, block: Floats) -> Integers:
        """The cell of each row of an encoded block of the schema, of shape (columns, rows)."""
        found = np.zeros(block.shape[1], np.int64)
        for axis in self.columns:
            found = found * axis.size + axis.codes(block)
        return found

    def histogram(self, rows: Rows) -> Integers:
        """How many rows fall into each cell: exact, and the same on every engine and for every size of blocks."""
        return rows.sum(lambda _, block: np.bincount(self.cells(block), minlength=self.size).astype(np.int64))

    def mask(self, predicate: Predicate) -> NDArray[np.bool_]:
        """Which cells satisfy a predicate. Refuses one that is not constant on every cell.

        Guarantee: a row satisfies the predicate exactly if its cell does.
        """
        for leaf in predicate.leaves:
            if leaf.column not in (axis.column for axis in self.columns):
                raise ParameterError(
                    f"the query asks about {leaf.column.name!r}, and the domain is made of "
                    f"{', '.join(repr(axis.name) for axis in self.columns)}"
                )

        def of_leaf(leaf: Leaf) -> NDArray[np.bool_]:
            return self._spread(leaf.column.name, self.axis(leaf.column.name).truths(leaf))

        return predicate.combine(of_leaf, self.size)

    def codes(self, name: str) -> Integers:
        """For each cell, its level of a column."""
        return self._spread(name, np.arange(self.axis(name).size, dtype=np.int64))

    def _spread(self, name: str, values: NDArray[Value]) -> NDArray[Value]:
        """For each cell, the value of its level of a column."""
        place = [axis.name for axis in self.columns].index(name)
        before, after = math.prod(self.shape[:place]), math.prod(self.shape[place + 1 :])
        return np.broadcast_to(values[:, None], (before, len(values), after)).ravel()

    def axis(self, name: str) -> Axis:
        """The column of the domain that has this name."""
        check.one_of([axis.name for axis in self.columns], column=name)
        return next(axis for axis in self.columns if axis.name == name)

    def marginal(self, *names: str) -> NDArray[np.bool_]:
        """One row of truths over the cells for each combination of the levels of the named columns."""
        of_cell = np.zeros(self.size, np.int64)
        for name in names:
            of_cell = of_cell * self.axis(name).size + self.codes(name)
        return np.asarray(of_cell == np.arange(math.prod(self.axis(name).size for name in names))[:, None])
