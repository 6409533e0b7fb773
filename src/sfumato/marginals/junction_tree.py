"""Junction trees: cliques of variables that form a tree, belief propagation, and marginal tables of any variables.

A variable is a number from 0, with ``sizes[variable]`` cells. A table over a clique is an array with one axis for each
of its variables, in the order of their numbers.
"""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats

Clique: TypeAlias = tuple[int, ...]  # sorted numbers of variables
Axes: TypeAlias = tuple[int, ...]

MOST_CELLS = 1 << 24  # of a marginal table, and of every table on the way to it
_WIDEST = 600.0  # logarithms of potentials this far apart still have exponentials above 0, relative to the largest


def triangulated(sizes: Sequence[int], cliques: Iterable[Clique]) -> list[Clique]:
    """The maximal cliques of a chordal graph in which each of these cliques is complete, sorted.

    Every variable is in one of them. The graph is found by greedy elimination: variables that need no new edge first,
    then those that make the smallest clique. The cliques of a chordal graph come out as they are.
    """
    return sorted(_members(mask) for mask in _maximal(_eliminated(sizes, cliques)))


def cells(sizes: Sequence[int], cliques: Iterable[Clique]) -> float:
    """The number of cells of a junction tree of these cliques: the sum over its cliques of the product of sizes."""
    return sum(math.prod(float(sizes[v]) for v in _members(mask)) for mask in _maximal(_eliminated(sizes, cliques)))


class Separator(NamedTuple):
    """What a clique shares with its parent.

    summed, parent_summed : the axes of both tables that are not shared.
    shape, parent_shape : the shapes of both tables, with one cell on these axes.
    """

    columns: Clique
    summed: Axes
    parent_summed: Axes
    shape: tuple[int, ...]
    parent_shape: tuple[int, ...]


@dataclass(frozen=True)
class JunctionTree:
    """Cliques that cover all variables, as a tree: what two cliques share is in every clique between them.

    Parts that share nothing are joined by empty separators. Trees with equal sizes and cliques are equal in all else.
    parents : the parent of each clique; -1 for the root.
    order : all cliques, parents before children.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], cliques: Iterable[Clique]) -> "JunctionTree":
        """The junction tree of the triangulated cliques; each variable that is in none gets one of its own."""
        if not sizes or min(sizes) < 1:
            raise ParameterError("a junction tree needs at least one variable, and each must have at least one cell")
        found = triangulated(sizes, cliques)
        parents, order = _rooted(_joined(sizes, found))
        return cls(tuple(sizes), tuple(found), parents, order)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return tuple(tuple(self.sizes[variable] for variable in clique) for clique in self.cliques)

    @cached_property
    def separators(self) -> tuple[Separator, ...]:
        """What each clique shares with its parent; the root shares nothing."""
        return tuple(
            _separator(clique, self.cliques[parent] if parent >= 0 else (), self.sizes)
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    def home(self, columns: Iterable[int]) -> int | None:
        """The smallest clique that contains these columns; None if there is none."""
        wanted = set(columns)
        found = [index for index, clique in enumerate(self.cliques) if wanted.issubset(clique)]
        return min(found, key=lambda index: math.prod(self.shapes[index]), default=None)

    def propagate(self, potentials: Sequence[Floats]) -> list[Floats]:
        """The probabilities of each clique's cells under the product of exp(potential), each table summing to 1.

        A potential of -inf forbids a cell: its probability is exactly 0. It is an error to forbid all.
        """
        return self.propagate_in_place([np.array(table, np.float64) for table in potentials])

    def propagate_in_place(self, tables: list[Floats]) -> list[Floats]:
        """The same, written over the potentials."""
        sums = self._collect(tables)
        root = self.order[0]
        tables[root] /= tables[root].sum()
        for index in self.order[1:]:
            separator, shared = self.separators[index], sums[index]
            above = tables[self.parents[index]].sum(axis=separator.parent_summed)
            scale = np.divide(above, shared, out=np.zeros_like(shared), where=shared > 0)
            tables[index] *= scale.reshape(separator.shape)
        return tables

    def _collect(self, tables: list[Floats]) -> list[Floats]:
        """From the leaves to the root: replace potentials by their exponentials, summed potentials added to parents.

        Returns the sum of each clique's exponentials over what its parent does not have.
        """
        sums = [np.ones(())] * len(tables)
        for index in reversed(self.order):
            separator = self.separators[index]
            top = _exponentiate(tables[index], separator)
            sums[index] = np.asarray(tables[index].sum(axis=separator.summed))
            if self.parents[index] >= 0:
                with np.errstate(divide="ignore"):
                    message = np.log(sums[index]) + top
                tables[self.parents[index]] += message.reshape(separator.parent_shape)
        if not sums[self.order[0]] > 0:
            raise ParameterError("the potentials must allow at least one combination of cells, but they forbid all")
        return sums

    def potentials(self, beliefs: Sequence[Floats]) -> list[Floats]:
        """Potentials whose beliefs are these: the logarithms of each clique's cells given what its parent has."""
        with np.errstate(divide="ignore"):
            return [
                np.log(_given(table, separator.summed))
                for table, separator in zip(beliefs, self.separators, strict=True)
            ]

    def marginal(self, beliefs: Sequence[Floats], columns: Sequence[int]) -> Floats:
        """The probabilities of all combinations of any columns, with an axis for each in the order given.

        beliefs : the tables of all cliques, as from ``propagate``.
        Columns of several cliques are found by elimination along the part of the tree that connects them. It is refused
        where a table on the way would have more than ``MOST_CELLS`` cells.
        """
        if len(set(columns)) < len(columns) or not all(0 <= column < len(self.sizes) for column in columns):
            raise ParameterError(f"columns must be different numbers from 0 to {len(self.sizes) - 1}, got {columns!r}")
        home = self.home(columns)
        if home is not None:
            return _Factor(self.cliques[home], beliefs[home]).over(columns)
        wanted = frozenset(columns)
        part = self._connecting(wanted)
        factors = {index: self._conditional(beliefs, index, wanted, part) for index in part}
        while len(part) > 1:
            index = part.pop()
            parent = self.parents[index]
            kept = wanted | self._shared(parent, part)
            factors[parent] = factors[parent].times(factors[index], kept, self.sizes)
        return factors[part[0]].over(columns)

    def _connecting(self, wanted: frozenset[int]) -> list[int]:
        """The smallest part of the tree that holds the wanted columns, parents before children."""
        children = dict.fromkeys(self.order, 0)
        for index in reversed(self.order[1:]):
            needed = not wanted.intersection(self.cliques[index]).issubset(self.separators[index].columns)
            if needed or children[index]:
                children[self.parents[index]] += 1
            else:
                del children[index]
        part = list(children)
        while children[part[0]] == 1 and wanted.intersection(self.cliques[part[0]]).issubset(
            self.separators[part[1]].columns
        ):
            part.pop(0)
        return part

    def _shared(self, index: int, part: Sequence[int]) -> frozenset[int]:
        """The columns that a clique shares with its neighbours in a part of the tree."""
        own = self.separators[index].columns if self.parents[index] in part else ()
        children = (self.separators[other].columns for other in part if self.parents[other] == index)
        return frozenset(own).union(*children)

    def _conditional(
        self, beliefs: Sequence[Floats], index: int, wanted: frozenset[int], part: Sequence[int]
    ) -> "_Factor":
        """A clique's table over what matters in a part of the tree, given what it shares with its parent there."""
        kept = wanted | self._shared(index, part)
        factor = _Factor(self.cliques[index], beliefs[index])
        factor = _Factor(columns := tuple(v for v in factor.columns if v in kept), factor.over(columns))
        if self.parents[index] not in part:
            return factor
        return _Factor(columns, _given(factor.table, _without(columns, self.separators[index].columns)))


class _Factor(NamedTuple):
    """A table and the columns of its axes."""

    columns: Clique
    table: Floats

    def over(self, columns: Sequence[int]) -> Floats:
        """The table summed over all other columns, with axes in the order given."""
        summed = self.table.sum(axis=_without(self.columns, columns))
        left = [column for column in self.columns if column in columns]
        return np.asarray(np.transpose(summed, [left.index(column) for column in columns]))

    def times(self, other: "_Factor", kept: frozenset[int], sizes: Sequence[int]) -> "_Factor":
        """The product of two tables, summed over the columns of both that are not to be kept."""
        both = [column for column in self.columns if column in other.columns]
        each, summed = [c for c in both if c in kept], [c for c in both if c not in kept]
        left, right = ([c for c in part.columns if c not in both] for part in (self, other))
        columns = (*each, *left, *right)
        cells = math.prod(sizes[column] for column in columns)
        if cells > MOST_CELLS:
            raise ParameterError(
                f"a table of {len(columns)} columns has {cells} cells, more than {MOST_CELLS}: ask for fewer columns"
            )
        product = self._grouped(each, left, summed) @ other._grouped(each, summed, right)
        return _Factor(columns, product.reshape([sizes[column] for column in columns]))

    def _grouped(self, *groups: Sequence[int]) -> Floats:
        """The table with one axis for each group of columns."""
        axes = [self.columns.index(column) for group in groups for column in group]
        table = np.transpose(self.table, axes)
        sizes = [math.prod(self.table.shape[self.columns.index(column)] for column in group) for group in groups]
        return np.ascontiguousarray(table).reshape(sizes)


def _without(columns: Sequence[int], kept: Iterable[int]) -> Axes:
    """The axes of the columns that are not kept."""
    return tuple(axis for axis, column in enumerate(columns) if column not in kept)


def _given(table: Floats, axes: Axes) -> Floats:
    """Probabilities given the cells of all other axes; 0 where those have none."""
    total = table.sum(axis=axes, keepdims=True)
    return np.asarray(np.divide(table, total, out=np.zeros_like(table), where=total > 0))


def _separator(clique: Clique, parent: Clique, sizes: Sequence[int]) -> Separator:
    """What a clique shares with its parent."""
    shared = tuple(column for column in clique if column in parent)
    shapes = [tuple(sizes[column] if column in shared else 1 for column in columns) for columns in (clique, parent)]
    return Separator(shared, _without(clique, shared), _without(parent, shared), *shapes)


def _exponentiate(table: Floats, separator: Separator) -> Floats:
    """Replace a table by exp(table - top); returns top, a number or one for each cell of the separator.

    One number suffices unless cells are forbidden or differ so much that sums would be 0.
    """
    top = np.asarray(table.max())
    if not table.min() > top - _WIDEST:
        top = np.asarray(table.max(axis=separator.summed))
        top = np.where(np.isneginf(top), 0.0, top)
        table -= top.reshape(separator.shape)
    else:
        table -= top
    np.exp(table, out=table)
    return top


class _Eliminated(NamedTuple):
    """A variable, and its neighbours at the time when it was eliminated, as bits of an integer."""

    variable: int
    neighbours: int

    @property
    def clique(self) -> int:
        """The variable and its neighbours."""
        return self.neighbours | 1 << self.variable


def _members(mask: int) -> Clique:
    """The numbers of the bits of an integer, sorted."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def _maximal(order: Iterable[_Eliminated]) -> list[int]:
    """The maximal cliques of an elimination, as bits.

    A clique lies within another one only if the neighbours of some variable that went before were exactly this clique.
    """
    covered: set[int] = set()
    found = []
    for step in order:
        if step.clique not in covered:
            found.append(step.clique)
        covered.add(step.neighbours)
    return found


def _eliminated(sizes: Sequence[int], cliques: Iterable[Clique]) -> list[_Eliminated]:
    """All variables in the order of greedy elimination, ties by number."""
    graph = _Graph(sizes, cliques)
    return [graph.eliminate() for _ in sizes]


_Cost: TypeAlias = tuple[bool, float, int]  # whether edges are needed, log of the clique's cells, variable


class _Graph:
    """The variables that are left, with their neighbours as bits, and what the elimination of each would cost."""

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique]) -> None:
        self._neighbours = _adjacent(len(sizes), cliques)
        self._logs = [math.log(size) for size in sizes]
        self._costs = [self._cost(variable) for variable in range(len(sizes))]
        self._heap = list(self._costs)
        heapq.heapify(self._heap)

    def _cost(self, variable: int) -> _Cost:
        around = self._neighbours[variable]
        near = _members(around)
        complete = len(near) < 2 or all(around & ~self._neighbours[other] == 1 << other for other in near)
        return not complete, self._logs[variable] + sum(self._logs[other] for other in near), variable

    def eliminate(self) -> _Eliminated:
        """Take out the variable of smallest cost; its neighbours become neighbours of each other."""
        cost = heapq.heappop(self._heap)
        while self._costs[cost[2]] is not cost:
            cost = heapq.heappop(self._heap)
        gone = _Eliminated(cost[2], self._neighbours[cost[2]])
        for variable in _members(self._connect(gone)):
            self._costs[variable] = self._cost(variable)
            heapq.heappush(self._heap, self._costs[variable])
        return gone

    def _connect(self, gone: _Eliminated) -> int:
        """Join the neighbours of a variable that goes; returns the variables whose cost may have changed."""
        changed = gone.neighbours
        for other in _members(gone.neighbours):
            before = self._neighbours[other]
            after = (before | gone.neighbours) & ~(1 << other | 1 << gone.variable)
            self._neighbours[other] = after
            if after & ~before:
                changed |= after
        return changed


def _adjacent(variables: int, cliques: Iterable[Clique]) -> list[int]:
    """The neighbours of each variable, as bits."""
    neighbours = [0] * variables
    for clique in cliques:
        if not all(0 <= variable < variables for variable in clique):
            raise ParameterError(f"a clique must hold variables from 0 to {variables - 1}, got {clique!r}")
        mask = sum(1 << variable for variable in set(clique))
        for variable in clique:
            neighbours[variable] |= mask & ~(1 << variable)
    return neighbours


def _joined(sizes: Sequence[int], cliques: Sequence[Clique]) -> list[list[int]]:
    """The neighbours of each clique in a junction tree of the cliques of a chordal graph.

    Variables form a tree under elimination: the parent of each is the first of its neighbours to go. A variable whose
    clique lies within another one is merged with it.
    """
    order = _eliminated(sizes, cliques)
    place = {step.variable: position for position, step in enumerate(order)}
    number = {sum(1 << variable for variable in clique): index for index, clique in enumerate(cliques)}
    holder: dict[int, int] = {}
    covering: dict[int, int] = {}
    for step in order:
        holder[step.variable] = number[step.clique] if step.clique in number else covering[step.clique]
        covering.setdefault(step.neighbours, holder[step.variable])
    joined: list[list[int]] = [[] for _ in cliques]
    last = holder[order[-1].variable]
    for step in order[:-1]:
        near = _members(step.neighbours)
        own, parent = holder[step.variable], holder[min(near, key=place.__getitem__)] if near else last
        if own != parent:
            joined[own].append(parent)
            joined[parent].append(own)
    return joined


def _rooted(joined: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parent of each node of a tree with root 0, and all nodes, parents first."""
    parents, order = [-1] * len(joined), [0]
    for node in order:
        children = [other for other in joined[node] if other != parents[node]]
        order += children
        for child in children:
            parents[child] = node
    return tuple(parents), tuple(order)
