"""Questions about one record, as trees of comparisons with the columns of a schema. Made by ``parser.parse``.

Guarantee: a question sees what a mechanism sees, the cells as ``Schema.encode`` reads them, numbers within their bounds
(a clip of whole rows to a norm does not apply). Whether it holds for a row depends on that row alone, and no cell
raises an error. A category cell that is none of the listed values equals none of them. Where missingness is kept, a
missing cell equals nothing, and is neither below nor above anything: every comparison but != is false of it. A question
is true or false, so what negates a comparison (!=, not) is true of a missing cell.
"""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.tables.blocks import Rows
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real, Set
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of
from sfumato.tables.schema import Schema

RELATIONS: dict[str, Callable[[Floats, float], Bools]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


Ordered: TypeAlias = Real | Integer | Ordinal | Date


def is_whole(column: DataColumn) -> bool:
    """Whether the cells of an ordered column are encoded as whole numbers, so that questions change at these."""
    return isinstance(column, Integer | Ordinal | Date)


@dataclass(frozen=True, slots=True)
class Compared:
    """A number, an ordinal by its place or a date by its steps, beside a number."""

    column: Ordered
    relation: str
    value: float

    def holds(self, cells: Floats) -> Bools:
        """Whether the comparison holds for each cell, shape (width, rows), within the bounds; NaN is the low one."""
        inside = np.fmin(np.fmax(cells[0], self._bounds[0]), self._bounds[1])
        found = np.asarray(RELATIONS[self.relation](inside, self.value))
        if not keeps_missing(self.column):
            return found
        missing = cells[1] > 0.5
        return np.asarray(found | missing if self.relation == "!=" else found & ~missing)

    @property
    def _bounds(self) -> tuple[float, float]:
        return bounds_of(self.column)

    @property
    def cuts(self) -> tuple[float, ...]:
        """Where the comparison changes: it is constant on the cells from one cut to below the next."""
        below, above = self.value, math.nextafter(self.value, math.inf)
        if is_whole(self.column):
            below, above = float(math.ceil(below)), math.floor(below) + 1.0
        if self.relation in ("<", ">="):
            return (below,)
        if self.relation in ("<=", ">"):
            return (above,)
        return (below, above) if below < above else ()


@dataclass(frozen=True, slots=True)
class Among:
    """A category whose value is one of these, or a set that has one of these items, by their encoded columns."""

    column: Category | Set
    places: tuple[int, ...]

    def holds(self, cells: Floats) -> Bools:
        """Whether one of these is there for each cell, shape (width, rows), of 0/1 columns."""
        return np.asarray((cells[list(self.places)] > 0.5).any(axis=0))


@dataclass(frozen=True, slots=True)
class Raised:
    """A flag that is true, or one that is false."""

    column: Flag
    truth: bool = True

    def holds(self, cells: Floats) -> Bools:
        """Whether the flag is so for each cell, shape (width, rows)."""
        found = np.asarray((cells[0] > 0.5) == self.truth)
        return np.asarray(found & ~(cells[1] > 0.5)) if keeps_missing(self.column) else found


@dataclass(frozen=True, slots=True)
class Missing:
    """A cell that is missing or unreadable, where that is kept; of a category without a value for these, no value."""

    column: DataColumn

    def holds(self, cells: Floats) -> Bools:
        """Whether each cell, shape (width, rows), is missing."""
        return np.asarray(cells[-1] > 0.5 if keeps_missing(self.column) else ~(cells > 0.5).any(axis=0))


@dataclass(frozen=True, slots=True)
class Not:
    """What does not hold."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts of which all hold, or any does."""

    every: bool
    parts: tuple["Node", ...]


Leaf: TypeAlias = Compared | Among | Raised | Missing
Node: TypeAlias = Leaf | Not | Joined | bool


@dataclass(frozen=True, slots=True)
class Predicate:
    """A question that holds for a record or does not. Made by ``parser.parse``."""

    text: str
    root: Node

    def __str__(self) -> str:
        return self.text

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The comparisons of the question, in the order of the text."""
        return tuple(_leaves(self.root))

    def test(self, schema: Schema) -> Callable[[Floats], Bools]:
        """For blocks encoded by a schema with the columns asked for: whether it holds, for each of their rows."""
        starts, row = {}, 0
        for column in schema.data_columns:
            starts[column.name], row = row, row + column.width

        def holds(block: Floats) -> Bools:
            def of_leaf(leaf: Leaf) -> Bools:
                start = starts[leaf.column.name]
                return leaf.holds(block[start : start + leaf.column.width])

            return self.combine(of_leaf, block.shape[1])

        return holds

    def combine(self, of_leaf: Callable[[Leaf], Bools], size: int | tuple[int, ...]) -> Bools:
        """Whether the question holds in each of ``size`` places, from where its comparisons hold.

        size : a number of places, or the shape of a table of them, to which the truths of comparisons broadcast.
        """
        return _combined(self.root, of_leaf, size)


def count(rows: Rows, schema: Schema, predicates: Sequence[Predicate]) -> Integers:
    """For how many rows each predicate holds, and how many there are: exact, and the same on every engine."""
    tests = [predicate.test(schema) for predicate in predicates]

    def of_block(_: int, block: Floats) -> Integers:
        return np.array([*(np.count_nonzero(test(block)) for test in tests), block.shape[1]], np.int64)

    return rows.sum(of_block)


def _leaves(node: Node) -> Iterator[Leaf]:
    if isinstance(node, Not):
        yield from _leaves(node.part)
    elif isinstance(node, Joined):
        for part in node.parts:
            yield from _leaves(part)
    elif not isinstance(node, bool):
        yield node


def _combined(node: Node, of_leaf: Callable[[Leaf], Bools], size: int | tuple[int, ...]) -> Bools:
    if isinstance(node, bool):
        return np.full(size, node)
    if isinstance(node, Not):
        return np.logical_not(_combined(node.part, of_leaf, size))
    if not isinstance(node, Joined):
        return of_leaf(node)
    join = np.logical_and if node.every else np.logical_or
    found = np.full(size, node.every)
    for part in node.parts:
        join(found, _combined(part, of_leaf, size), out=found)
    return found
