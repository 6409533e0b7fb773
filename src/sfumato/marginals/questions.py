"""Questions about the variables of a table: the parts that are about one variable each, and where these hold.

A question is a tree of comparisons. Its parts that are about one variable alone are merged, so that all a question
needs to know of a variable is a signature: which of these parts hold. A fine cell that a comparison cuts falls into
pieces; within a cell, values are spread evenly: whole numbers by their number, others by length.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from sfumato.marginals.binning import Bins
from sfumato.marginals.partition import Partition, Variable
from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.queries.axes import Intervals
from sfumato.queries.predicates import Among, Compared, Joined, Leaf, Node, Not, Predicate
from sfumato.tables.columns import Set


@dataclass(frozen=True, slots=True)
class _OfOne:
    """A part of a question that is about one variable. An item of a set is ``Among`` the place 0 of its own cells."""

    variable: int
    node: Node


_Tree: TypeAlias = Node | _OfOne  # truths, parts, and what joins several of them


@dataclass(frozen=True, slots=True, eq=False)
class AskedVariable:
    """What a question asks of one variable.

    cell      : the fine cell of each piece, in order; every cell has at least one.
    share     : of each piece within its cell.
    signature : a number from 0 for each piece: pieces of equal signatures have the same parts of the question hold.
    truths    : whether each part holds, (parts, signatures).
    """

    variable: int
    cell: Integers
    share: Floats
    signature: Integers
    truths: Bools

    @property
    def size(self) -> int:
        """How many signatures there are."""
        return int(self.truths.shape[1])

    def weights(self, bins: Bins) -> Floats:
        """How likely each signature is within each bin, (bins, signatures)."""
        place = bins.of_cell[self.cell] * self.size + self.signature
        found = np.bincount(place, bins.shares[self.cell] * self.share, minlength=bins.size * self.size)
        return np.asarray(found.reshape(bins.size, self.size))

    def of_cells(self) -> Integers | None:
        """The signature of each fine cell; None if a cell has pieces of several."""
        return _constant(self.cell, self.signature)

    def of_bins(self, bins: Bins) -> Integers | None:
        """The signature of each bin; None if a bin has pieces of several."""
        return _constant(bins.of_cell[self.cell], self.signature)


def _constant(groups: Integers, values: Integers) -> Integers | None:
    """The value of each group, if all its members have the same."""
    found = np.zeros(int(groups.max()) + 1, np.int64)
    found[groups] = values
    return found if np.array_equal(found[groups], values) else None


@dataclass(frozen=True, slots=True, eq=False)
class TableQuestion:
    """A question about the variables of a partition."""

    text: str
    partition: Partition
    asked: tuple[AskedVariable, ...]
    _tree: _Tree
    _places: Mapping[_OfOne, int]

    @classmethod
    def of(cls, partition: Partition, predicate: Predicate) -> "TableQuestion":
        """The question that a predicate over the partition's schema asks."""
        return cls._of_tree(partition, predicate.text, _parted(predicate.root, partition))

    @classmethod
    def _of_tree(cls, partition: Partition, text: str, tree: _Tree) -> "TableQuestion":
        parts: dict[int, list[_OfOne]] = {}
        for part in dict.fromkeys(_parts(tree)):
            parts.setdefault(part.variable, []).append(part)
        asked = tuple(_asked(partition.variables[v], v, [part.node for part in parts[v]]) for v in sorted(parts))
        places = {part: place for own in parts.values() for place, part in enumerate(own)}
        truths = {part: own.truths[places[part]] for own in asked for part in parts[own.variable]}
        known = {part: bool(truth[0]) for part, truth in truths.items() if truth.all() or not truth.any()}
        if known:
            return cls._of_tree(partition, text, _settled(tree, known))
        return cls(text, partition, asked, tree, places)

    def negated(self) -> "TableQuestion":
        """The question that holds where this one does not."""
        return TableQuestion._of_tree(self.partition, self.text, _negated(self._tree))

    @property
    def is_disjunction(self) -> bool:
        """Whether it holds where any of several parts does."""
        return isinstance(self._tree, Joined) and not self._tree.every

    def factors(self) -> tuple[list["TableQuestion"], "TableQuestion"]:
        """Questions that all hold where this one does, and only there: each about one variable, and a last one.

        No two of them are about the same variable.
        """
        every = isinstance(self._tree, Joined) and self._tree.every
        trees: list[_Tree] = list(cast("Joined", self._tree).parts) if every else [self._tree]
        shared = {part.variable for tree in trees if not isinstance(tree, _OfOne) for part in _parts(tree)}
        alone = [tree for tree in trees if isinstance(tree, _OfOne) and tree.variable not in shared]
        rest = _joined(True, [tree for tree in trees if tree not in alone])
        return [TableQuestion._of_tree(self.partition, self.text, tree) for tree in alone], TableQuestion._of_tree(
            self.partition, self.text, rest
        )

    @property
    def variables(self) -> tuple[int, ...]:
        """The numbers of the variables that the question is about, sorted."""
        return tuple(asked.variable for asked in self.asked)

    @property
    def combinations(self) -> float:
        """How many combinations of signatures there are."""
        return math.prod(float(asked.size) for asked in self.asked)

    def holds(self, signatures: Sequence[Integers], shape: int | tuple[int, ...]) -> Bools:
        """Whether it holds, from the signatures of its variables: arrays that broadcast to a shape."""
        truths = {asked.variable: (asked.truths, own) for asked, own in zip(self.asked, signatures, strict=True)}

        def of_part(leaf: Leaf) -> Bools:
            part = cast("_OfOne", leaf)
            table, own = truths[part.variable]
            return np.asarray(table[self._places[part]][own])

        return Predicate(self.text, cast("Node", self._tree)).combine(of_part, shape)

    def table(self, signatures: Sequence[Integers] | None = None) -> Bools:
        """Whether it holds for every combination: an axis for each variable, of its signatures, or of those given."""
        own = [np.arange(asked.size) for asked in self.asked] if signatures is None else signatures
        return self.holds(np.ix_(*own), tuple(len(axis) for axis in own))


def _asked(variable: Variable, number: int, parts: Sequence[Node]) -> AskedVariable:
    """Pieces of a variable's cells, on each of which all parts of a question are true or false."""
    axis = variable.axis
    cell, share = np.arange(variable.size), np.ones(variable.size)
    if isinstance(axis, Intervals):
        finer = dataclasses.replace(variable, axis=_cut(axis, parts))
        edges, widths = np.array(cast("Intervals", finer.axis).edges), finer.widths()
        cell = np.searchsorted(axis.edges[1:-1], edges[:-1], side="right")
        whole = np.bincount(cell, widths)[cell]
        share = np.divide(widths, whole, out=np.ones_like(widths), where=whole > 0)
        missing = variable.size - variable.values
        cell, share = np.append(cell, np.arange(variable.values, variable.size)), np.append(share, np.ones(missing))
        axis = finer.axis
    encoded = axis.encoded()
    truths = np.array([Predicate("", part).combine(lambda leaf: leaf.holds(encoded), axis.size) for part in parts])
    distinct, signature = np.unique(truths, axis=1, return_inverse=True)
    return AskedVariable(number, cell, share, signature.ravel().astype(np.int64), distinct)


def _cut(axis: Intervals, parts: Sequence[Node]) -> Intervals:
    """The cells of a number, cut further where the parts of a question change."""
    low, high = axis.edges[0], axis.edges[-1]
    inside = {cut for part in parts for cut in cuts(Predicate("", part)) if low < cut <= high}
    return dataclasses.replace(axis, edges=(low, *sorted({*axis.edges[1:-1], *inside}), high))


def cuts(predicate: Predicate) -> Iterator[float]:
    """Where the comparisons of a question with numbers, dates and ordinals change, in encoded units."""
    for leaf in predicate.leaves:
        if isinstance(leaf, Compared):
            yield from map(float, leaf.cuts)


# ---- parts ----------------------------------------------------------------------------------------------------------


def _parted(node: Node, partition: Partition) -> _Tree:
    """A question with those of its parts merged that are about one variable alone."""
    if isinstance(node, bool):
        return node
    if isinstance(node, Not):
        return _negated(_parted(node.part, partition))
    if isinstance(node, Joined):
        return _joined(node.every, [_parted(part, partition) for part in node.parts])
    first = partition.place(node.column.name)
    if isinstance(node, Among) and isinstance(node.column, Set):
        item = Among(node.column, (0,))
        return _joined(False, [_OfOne(first + place, item) for place in node.places])
    return _OfOne(first, node)


def _negated(tree: _Tree) -> _Tree:
    """What holds where a tree does not: nots go down to the parts."""
    if isinstance(tree, bool):
        return not tree
    if isinstance(tree, Joined):
        return _joined(not tree.every, [_negated(part) for part in tree.parts])
    assert isinstance(tree, _OfOne)
    return _OfOne(tree.variable, Not(tree.node))


def _joined(every: bool, trees: Sequence[_Tree]) -> _Tree:
    """All or any of some parts, those about the same variable merged."""
    if any(tree is (not every) for tree in trees):
        return not every
    parts: dict[int, list[Node]] = {}
    others: list[_Tree] = []
    for tree in _flat(every, trees):
        if isinstance(tree, _OfOne):
            parts.setdefault(tree.variable, []).append(tree.node)
        elif not isinstance(tree, bool):
            others.append(tree)
    merged = [_OfOne(v, nodes[0] if len(nodes) == 1 else Joined(every, tuple(nodes))) for v, nodes in parts.items()]
    found = [*merged, *others]
    if len(found) < 2:
        return found[0] if found else every
    return Joined(every, cast("tuple[Node, ...]", tuple(found)))


def _settled(tree: _Tree, known: Mapping[_OfOne, bool]) -> _Tree:
    """A tree in which some parts are known to be true or false of every record."""
    if isinstance(tree, Joined):
        return _joined(tree.every, [_settled(part, known) for part in tree.parts])
    return known.get(tree, tree) if isinstance(tree, _OfOne) else tree


def _flat(every: bool, trees: Sequence[_Tree]) -> Iterator[_Tree]:
    """Parts that are joined, with those of joins of the same sort among them."""
    for tree in trees:
        yield from tree.parts if isinstance(tree, Joined) and tree.every == every else (tree,)


def _parts(tree: _Tree) -> Iterator[_OfOne]:
    if isinstance(tree, _OfOne):
        yield tree
    elif isinstance(tree, Joined):
        for part in tree.parts:
            yield from _parts(part)
