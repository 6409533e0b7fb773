"""The distribution on a junction tree that fits noisy counts best: Private-PGM (McKenna, Sheldon, Miklau 2019).

Guarantee: post-processing of noisy counts; it costs no privacy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.marginals.junction_tree import Axes, Clique, JunctionTree
from sfumato.numerics.types import Bools, Floats

_LATELY, _HARDLY = 20, 1e-4  # a fit ends when at least so many steps lower the loss by less than this share


class Measured(NamedTuple):
    """Noisy counts of all combinations of cells of some columns, and the variance of their noise."""

    columns: Clique
    counts: Floats
    variance: float | Floats


@dataclass(frozen=True, eq=False)
class FittedTree:
    """A distribution on a junction tree, fitted to noisy counts.

    beliefs : the probabilities of each clique's cells.
    loss : the sum over all counts of (count - expectation)^2 / variance.
    steps : how often beliefs were propagated.
    """

    tree: JunctionTree
    beliefs: list[Floats]
    loss: float
    steps: int

    @property
    def potentials(self) -> list[Floats]:
        """Tables for each clique whose sum is the logarithm of the probability of any combination of all cells."""
        return self.tree.potentials(self.beliefs)


def fit(
    tree: JunctionTree,
    measured: Sequence[Measured],
    total: float,
    *,
    iterations: int = 300,
    forbidden: Sequence[tuple[Clique, Bools]] = (),
    start: FittedTree | None = None,
) -> FittedTree:
    """Minimise the sum of ||counts - total * p||^2 / variance over the distributions p on a junction tree.

    measured : each one's columns must lie within a clique.
    total : the number of rows, positive.
    iterations : beliefs are propagated at most so often; less often once the loss hardly changes.
    forbidden : columns within a clique, and where they cannot occur: these cells get probability 0 exactly.
    start : an earlier fit whose cliques lie within those of the tree, for fewer steps. Without it, the fit starts at
        the uniform distribution.
    Deterministic.
    """
    check.positive(total=total)
    check.whole(0, iterations=iterations)
    problem = _Problem(tree, _merged(tree, measured), total, _base(tree, forbidden, start))
    beliefs, steps = _descended(problem, iterations)
    loss = sum(_misfit(tree, beliefs, table, total) for table in measured)
    return FittedTree(tree, beliefs, loss, steps)


def _misfit(tree: JunctionTree, beliefs: Sequence[Floats], table: Measured, total: float) -> float:
    """The part of the loss that one table of counts has."""
    expected = total * tree.marginal(beliefs, table.columns)
    return float(((table.counts - expected) ** 2 / table.variance).sum())


def _within(tree: JunctionTree, columns: Clique) -> int:
    """The clique that contains columns, which must exist."""
    home = tree.home(columns)
    if home is None or list(columns) != sorted(set(columns)):
        raise ParameterError(f"columns must be sorted and lie within a clique of the junction tree, got {columns!r}")
    return home


def _checked(tree: JunctionTree, columns: Clique, shape: tuple[int, ...]) -> None:
    """Refuse a table whose shape is not that of its columns."""
    expected = tuple(tree.sizes[column] for column in columns)
    if shape != expected:
        raise ParameterError(f"a table over columns {columns!r} must have shape {expected}, got {shape}")


def _merged(tree: JunctionTree, measured: Sequence[Measured]) -> list[Measured]:
    """One table for each set of columns: the means of its counts, weighted by inverse variance, and their variances."""
    precisions: dict[Clique, Floats] = {}
    weighted: dict[Clique, Floats] = {}
    for columns, counts, variance in measured:
        _checked(tree, columns, np.shape(counts))
        if not np.all(np.asarray(variance) > 0):
            raise ParameterError("the variance of counts must be positive")
        precision = np.broadcast_to(1 / np.asarray(variance, np.float64), np.shape(counts))
        precisions[columns] = precisions.get(columns, 0.0) + precision
        weighted[columns] = weighted.get(columns, 0.0) + precision * counts
    return [Measured(key, weighted[key] / precision, 1 / precision) for key, precision in precisions.items()]


def _expanded(clique: Clique, columns: Clique, table: Floats) -> Floats:
    """A table over some columns of a clique with axes for all of them."""
    return np.expand_dims(table, tuple(axis for axis, column in enumerate(clique) if column not in columns))


def _base(tree: JunctionTree, forbidden: Sequence[tuple[Clique, Bools]], start: FittedTree | None) -> list[Floats]:
    """The potentials at which a fit starts: those of an earlier fit, and -inf where cells are forbidden."""
    base = [np.zeros(shape) for shape in tree.shapes]
    if start is not None:
        for clique, potential in zip(start.tree.cliques, start.potentials, strict=True):
            home = _within(tree, clique)
            base[home] += _expanded(tree.cliques[home], clique, potential)
    for columns, cells in forbidden:
        _checked(tree, columns, np.shape(cells))
        home = _within(tree, columns)
        base[home] += _expanded(tree.cliques[home], columns, np.where(cells, -np.inf, 0.0))
    return base


class _Node:
    """A table over some columns of a clique, from which the tables of its children are summed.

    Sums of a large table are dear, so that tables with common columns are summed from a smaller one.
    """

    def __init__(
        self, columns: Clique, tables: Sequence[Clique], slices: dict[Clique, slice], sizes: Sequence[int]
    ) -> None:
        self.shape = tuple(sizes[column] for column in columns)
        self.own = slices[columns] if columns in tables else None
        self.children: list[tuple[Axes, tuple[int, ...], _Node]] = []
        for inner in _groups(columns, [table for table in tables if table != columns], sizes):
            union = tuple(sorted(set().union(*inner)))
            summed = tuple(axis for axis, column in enumerate(columns) if column not in union)
            spread = tuple(sizes[column] if column in union else 1 for column in columns)
            self.children.append((summed, spread, _Node(union, inner, slices, sizes)))

    def sum_into(self, marginals: Floats, table: Floats) -> None:
        """Write the marginal tables of a table of probabilities to their places."""
        if self.own is not None:
            marginals[self.own] = table.ravel()
        for summed, _, child in self.children:
            child.sum_into(marginals, table.sum(axis=summed))

    def add_to(self, table: Floats, parameters: Floats) -> None:
        """Add all parameters to a table of potentials."""
        if self.own is not None:
            table += parameters[self.own].reshape(self.shape)
        for _, spread, child in self.children:
            table += child._total(parameters).reshape(spread)

    def _total(self, parameters: Floats) -> Floats:
        """The sum of all parameters; not to be written to."""
        if self.own is not None and not self.children:
            return parameters[self.own]
        table = np.zeros(self.shape)
        self.add_to(table, parameters)
        return table


def _groups(columns: Clique, tables: Sequence[Clique], sizes: Sequence[int]) -> Iterator[list[Clique]]:
    """Tables in groups, each of which lacks a column; those that lack the largest first."""
    left = list(tables)
    for column in sorted(columns, key=lambda column: -sizes[column]):
        group = [table for table in left if column not in table]
        left = [table for table in left if column in table]
        if group:
            yield group


class _Problem:
    """What is minimised: parameters are potentials of the measured tables, in one vector.

    Marginals and their targets are shares of the total.
    """

    def __init__(self, tree: JunctionTree, measured: Sequence[Measured], total: float, base: list[Floats]) -> None:
        self.tree, self.base = tree, base
        self.targets = _concatenated([table.counts / total for table in measured])
        self.weights = _concatenated([total**2 / np.asarray(table.variance) for table in measured])
        ends = np.cumsum([0, *(table.counts.size for table in measured)]).tolist()
        slices = {table.columns: slice(*ends[i : i + 2]) for i, table in enumerate(measured)}
        tables: dict[int, list[Clique]] = {}
        for table in measured:
            tables.setdefault(_within(tree, table.columns), []).append(table.columns)
        self.nodes = {home: _Node(tree.cliques[home], inner, slices, tree.sizes) for home, inner in tables.items()}

    def potentials(self, parameters: Floats) -> list[Floats]:
        """The potentials of all cliques."""
        tables = [table.copy() for table in self.base]
        for home, node in self.nodes.items():
            node.add_to(tables[home], parameters)
        return tables

    def beliefs(self, parameters: Floats) -> list[Floats]:
        """The probabilities of all cliques."""
        return self.tree.propagate_in_place(self.potentials(parameters))

    def marginals(self, beliefs: Sequence[Floats]) -> Floats:
        """The probabilities of the measured tables, in one vector."""
        found = np.empty_like(self.targets)
        for home, node in self.nodes.items():
            node.sum_into(found, beliefs[home])
        return found

    def loss(self, marginals: Floats) -> float:
        """The loss of marginals, without what no distribution could avoid where columns were measured repeatedly."""
        return float(self.weights @ (marginals - self.targets) ** 2)


def _concatenated(tables: Sequence[Floats]) -> Floats:
    """All numbers of some tables, in one vector."""
    return np.concatenate([np.zeros(0), *(np.asarray(table, np.float64).ravel() for table in tables)])


def _descended(problem: _Problem, iterations: int) -> tuple[list[Floats], int]:
    """Beliefs by mirror descent with a line search, and how often beliefs were propagated.

    Every step moves the logarithm of the density by a multiple of the measured tables, so what is found has the largest
    entropy among the distributions with its marginals: it adds nothing that was not measured. Accelerated descent
    reaches a smaller loss in a quarter of the time, as a mean of beliefs; models learned from its rows were worse.
    """
    parameters = np.zeros_like(problem.targets)
    beliefs, steps = problem.beliefs(parameters), 1
    marginals = problem.marginals(beliefs)
    losses = [problem.loss(marginals)]
    rate = 2.0 / max(problem.weights.max(initial=0.0), 1e-300)
    while steps < iterations and not _settled(losses):
        slope = problem.weights * (marginals - problem.targets)
        tried = parameters - rate * slope
        found, steps = problem.beliefs(tried), steps + 1
        there = problem.marginals(found)
        if problem.loss(there) > losses[-1] - slope @ (marginals - there):
            rate *= 0.5
            continue
        parameters, beliefs, marginals, rate = tried, found, there, rate * 1.15
        losses.append(problem.loss(marginals))
    return beliefs, steps


def _settled(losses: Sequence[float]) -> bool:
    """Whether the last half of the steps hardly lowered the loss."""
    late = max(_LATELY, len(losses) // 2)
    return len(losses) > late and min(losses[-late:]) > (1 - _HARDLY) * min(losses[:-late])
