"""The finite domain that a histogram lives on: every combination of the levels of a few columns.

A flag has two levels, a category one for each listed value (and one more for a cell that is none of them, where the
schema does not say what such a cell becomes), a real column as many as it is publicly cut into. Cuts are public: they
come from the schema's bounds or from the caller, never from data. Every row falls into exactly one cell, by itself, so
one record that comes or goes moves one count by one, and one that is replaced moves two.
"""

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.predicates import Compared, Leaf, Predicate
from sfumato.tables.blocks import Rows
from sfumato.tables.columns import Category, DataColumn, Flag, Real
from sfumato.tables.schema import Schema

Value = TypeVar("Value", bound=np.generic)
Level = str | int | bool | tuple[float, float] | None

LIMIT = 1 << 20  # cells, unless told


@dataclass(frozen=True, slots=True)
class Axis:
    """A column cut into levels; ``start`` is where it stands among the encoded columns of its schema.

    edges : of a real column, from its low to its high bound. Level i holds edges[i] <= x < edges[i + 1], the last one
            its upper edge as well; what lies outside the bounds counts as the bound. Where the high bound is itself a
            cut it is there twice: the last level holds the bound alone.
    """

    column: DataColumn
    start: int
    edges: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The name of the domain's column that is cut into levels."""
        return self.column.name

    @property
    def size(self) -> int:
        """How many levels this column of the domain is cut into."""
        if isinstance(self.column, Real):
            return len(self.edges) - 1
        return 2 if isinstance(self.column, Flag) else self.column.width + (self.column.missing is None)

    @property
    def levels(self) -> tuple[Level, ...]:
        """What each level of the domain means: a truth, a listed value (None: none of them), or an interval's ends."""
        if isinstance(self.column, Real):
            return tuple(itertools.pairwise(self.edges))
        if isinstance(self.column, Flag):
            return (False, True)
        assert isinstance(self.column, Category)
        return self.column.values if self.column.missing is not None else (*self.column.values, None)

    def codes(self, block: Floats) -> Integers:
        """The domain's level of each row of an encoded block (columns, rows); NaN and what is too low: the lowest."""
        cells = block[self.start : self.start + self.column.width]
        if isinstance(self.column, Real):
            return np.asarray(np.searchsorted(self.edges[1:-1], np.nan_to_num(cells[0], nan=-math.inf), side="right"))
        set_ = cells > 0.5
        if isinstance(self.column, Flag):
            return np.asarray(set_[0], np.int64)
        return np.asarray(np.where(set_.any(axis=0), set_.argmax(axis=0), self.size - 1), np.int64)

    def encoded(self) -> Floats:
        """One encoded cell per level of the domain, (encoded columns, levels); of an interval, its lower edge."""
        if isinstance(self.column, Real):
            return np.array([self.edges[:-1]])
        return np.array([[0.0, 1.0]]) if isinstance(self.column, Flag) else np.eye(self.column.width, self.size)

    def truths(self, leaf: Leaf) -> NDArray[np.bool_]:
        """For each level of the domain, whether a comparison holds; refused if it holds for a part of a level."""
        if isinstance(leaf, Compared):
            cut = next(filter(None, map(self._split, leaf.cuts)), None)
            if cut is not None:
                raise ParameterError(
                    f"{leaf.column.name!r} {leaf.relation} {leaf.value:g} holds for a part of the level from "
                    f"{cut[0]:g} to {cut[1]:g}: ask for whole levels (< and >= at their edges), or cut elsewhere"
                )
        return leaf.holds(self.encoded())

    def _split(self, cut: float) -> tuple[float, float] | None:
        """The domain's level that a cut goes through: above its lower edge, or at the high bound unless that is one."""
        place = bisect.bisect_left(self.edges, cut)  # edges[place - 1] < cut <= edges[place]
        if place in (0, len(self.edges)) or (self.edges[place] == cut and place < len(self.edges) - 1):
            return None
        return self.edges[place - 1], self.edges[place]


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
                "name fewer columns, or cut reals into fewer bins"
            )

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Sequence[str] | None = None,
        bins: Mapping[str, int | Sequence[float]] | None = None,
        limit: int = LIMIT,
    ) -> Self:
        """The domain of some columns of a schema, in the schema's order; left out, of all but its id.

        bins : for each real column, the number of equal bins between its bounds, or the cuts between them; a cut at the
               high bound makes a level of that value alone.
        """
        if bins is not None and not isinstance(bins, Mapping):
            raise ParameterError(f"bins are cuts by column, such as {{'age': 10}}, got a {type(bins).__name__}")
        bins = dict(bins or {})
        known = [column.name for column in schema.data_columns]
        wanted = known if columns is None else list(columns)
        for name in (*wanted, *bins):
            check.one_of(known, column=name)
        for name in bins:
            if name not in wanted or not isinstance(schema.data_columns[known.index(name)], Real):
                raise ParameterError(f"bins are for real columns of the domain, got bins for {name!r}")
        starts = np.cumsum([0, *(column.width for column in schema.data_columns)]).tolist()
        axes = (
            Axis(column, start, _edges(column, bins.get(column.name)) if isinstance(column, Real) else ())
            for column, start in zip(schema.data_columns, starts, strict=False)
            if column.name in wanted
        )
        return cls(schema, tuple(axes), limit)

    @classmethod
    def of_questions(cls, schema: Schema, questions: Sequence[Predicate], limit: int = LIMIT) -> Self:
        """The domain of the columns that are asked about, cut where the questions change: each is constant on cells.

        Questions are public, and so are cuts that come from them.
        """
        leaves = [leaf for question in questions for leaf in question.leaves]
        names = {leaf.column.name for leaf in leaves} or {schema.data_columns[0].name}
        bins = {
            column.name: sorted(
                cut
                for cut in {cut for leaf in leaves if leaf.column == column for cut in _cuts(leaf)}
                if column.low < cut <= column.high
            )
            for column in schema.data_columns
            if isinstance(column, Real) and column.name in names
        }
        return cls.of(schema, [c.name for c in schema.data_columns if c.name in names], bins, limit)

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


def _cuts(leaf: Leaf) -> tuple[float, ...]:
    return leaf.cuts if isinstance(leaf, Compared) else ()


def _edges(column: Real, bins: int | Sequence[float] | None) -> tuple[float, ...]:
    """The public cuts of a real column of a domain into levels, with its bounds at both ends."""
    if bins is None:
        raise ParameterError(f"the column {column.name!r} is real: say how to cut it, bins={{{column.name!r}: 10}}")
    if isinstance(bins, (int, np.integer)):
        check.whole(1, bins=bins)
        check.between(1, LIMIT, bins=bins)
        cuts = [column.low + (column.high - column.low) * (i / int(bins)) for i in range(1, int(bins))]
    else:
        cuts = _listed(column, bins)
    edges = (column.low, *cuts, column.high)
    if not all(a < b for a, b in itertools.pairwise(edges[:-1])) or not edges[-2] <= column.high:
        raise ParameterError(f"cuts of {column.name!r} must rise strictly between its bounds, got bins={bins!r}")
    return edges


def _listed(column: Real, bins: Sequence[float]) -> list[float]:
    """The cuts of a column of a domain, checked to be numbers."""
    try:
        cuts = [math.nan if isinstance(cut, (str, bytes, bool, np.bool_)) else float(cut) for cut in bins]
    except (TypeError, ValueError, OverflowError):
        cuts = [math.nan]
    if isinstance(bins, (str, bytes)) or any(math.isnan(cut) for cut in cuts):
        raise ParameterError(
            f"bins of {column.name!r} must be a whole number of bins, or a list of cuts that rise strictly, "
            f"got bins={bins!r}"
        )
    return cuts
