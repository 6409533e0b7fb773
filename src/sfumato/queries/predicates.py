"""Questions about one record, as trees of comparisons with the columns of a schema. Made by ``parser.parse``.

Guarantee: a question sees what a mechanism sees, the cells as ``Schema.encode`` reads them, numbers within their bounds
(a clip of whole rows to a norm does not apply). Whether it holds for a row depends on that row alone, and no cell
raises an error. A category cell that is none of the listed values equals none of them.
"""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.tables.blocks import Rows
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema

RELATIONS: dict[str, Callable[[Floats, float], Bools]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """A number column beside a number."""

    column: Real
    relation: str
    value: float

    def holds(self, cells: Floats) -> Bools:
        """Whether the comparison holds for each cell, shape (1, rows), within the column's bounds; NaN is the low."""
        inside = np.fmin(np.fmax(cells[0], self.column.low), self.column.high)
        return np.asarray(RELATIONS[self.relation](inside, self.value))

    @property
    def cuts(self) -> tuple[float, ...]:
        """Where the comparison changes: it is constant on the doubles from one cut to below the next."""
        after = math.nextafter(self.value, math.inf)
        if self.relation in ("<", ">="):
            return (self.value,)
        return (after,) if self.relation in ("<=", ">") else (self.value, after)


@dataclass(frozen=True, slots=True)
class Among:
    """A category column whose value is one of these, by their places in its list."""

    column: Category
    places: tuple[int, ...]

    def holds(self, cells: Floats) -> Bools:
        """Whether the category is among these for each cell, shape (values, rows), one-hot."""
        return np.asarray((cells[list(self.places)] > 0.5).any(axis=0))


@dataclass(frozen=True, slots=True)
class Raised:
    """A flag that is true."""

    column: Flag

    def holds(self, cells: Floats) -> Bools:
        """Whether the flag is true for each cell, shape (1, rows)."""
        return np.asarray(cells[0] > 0.5)


@dataclass(frozen=True, slots=True)
class Not:
    """What does not hold."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts of which all hold, or any does."""

    every: bool
    parts: tuple["Node", ...]


Leaf: TypeAlias = Compared | Among | Raised
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

    def combine(self, of_leaf: Callable[[Leaf], Bools], size: int) -> Bools:
        """Whether the question holds in each of ``size`` places, from where its comparisons hold."""
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


def _combined(node: Node, of_leaf: Callable[[Leaf], Bools], size: int) -> Bools:
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
