"""Rows drawn from a junction tree, with less variance than independent draws."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.marginals.junction_tree import JunctionTree
from sfumato.numerics.types import Floats, Integers

Codes: TypeAlias = NDArray[np.int32]

_LEAST = (
    2.0**-60
)  # offsets of at least this much: a cell of smaller expectation, as rounding leaves behind, is not drawn


def stratified(conditionals: Floats, groups: Integers, rng: np.random.Generator) -> Integers:
    """One cell for each row, drawn from the distribution of the row's group.

    conditionals : weights of at least 0, shape (groups, cells); each group that has rows must have a positive weight.
    groups : the group of each row.
    Systematic sampling within each group: the number of its rows in any first cells differs from its expectation by
    less than 1. Each row by itself has the distribution of its group, and the rows of a group are in random order. A
    cell of weight 0 is never drawn.
    """
    rows = np.bincount(groups, minlength=len(conditionals))
    counts = _counts(np.asarray(conditionals, np.float64), rows, rng)
    cells = np.tile(np.arange(counts.shape[1]), counts.shape[0])
    drawn = np.empty(len(groups), np.int64)
    drawn[_grouped(groups, rng)] = np.repeat(cells, counts.ravel())
    return drawn


def stratified_points(groups: Integers, rng: np.random.Generator) -> Floats:
    """A number from 0 to below 1 for each row: those of each group lie at equal distances, in random order."""
    rows = np.bincount(groups)
    first, order = np.cumsum(rows) - rows, _grouped(groups, rng)
    ranks = np.arange(len(groups)) - np.repeat(first, rows)
    points = np.empty(len(groups))
    points[order] = (ranks + np.repeat(rng.random(len(rows)), rows)) / np.repeat(rows, rows)
    return points


def _counts(conditionals: Floats, rows: Integers, rng: np.random.Generator) -> Integers:
    """How many rows of each group fall into each cell: points at equal distances, from a random start on."""
    cumulative = np.cumsum(conditionals, axis=1)
    totals = cumulative[:, -1:]
    if not np.all(totals[rows > 0] > 0):
        raise ParameterError("each group that has rows must have a cell of positive probability")
    start = np.maximum(rng.random((len(rows), 1)), _LEAST)
    shares = np.divide(cumulative, totals, out=np.zeros_like(cumulative), where=totals > 0)
    below = np.ceil(shares * rows[:, None] - start).astype(np.int64)
    return np.diff(below, axis=1, prepend=0)


def _grouped(groups: Integers, rng: np.random.Generator) -> Integers:
    """The numbers of all rows, group after group, in random order within each."""
    shuffled = rng.permutation(len(groups))
    keys = groups[shuffled].astype(np.int64) << 32 | np.arange(len(groups))
    keys.sort()
    return np.asarray(shuffled[keys & 0xFFFFFFFF])


def sample(tree: JunctionTree, beliefs: Sequence[Floats], rows: int, rng: np.random.Generator) -> Codes:
    """The cells of all variables, shape (variables, rows), for rows in random order.

    beliefs : the tables of all cliques, as from ``JunctionTree.propagate``.
    From the root on, the variables that a clique adds are drawn given those that it shares with its parent, stratified.
    A combination of cells of one clique that has probability 0 is never drawn.
    """
    check.whole(0, rows=rows)
    codes = np.zeros((len(tree.sizes), rows), np.int32)
    for index in tree.order:
        clique, separator = tree.cliques[index], tree.separators[index]
        new = [clique[axis] for axis in separator.summed]
        given = [clique.index(column) for column in separator.columns]
        table = np.transpose(beliefs[index], [*given, *separator.summed])
        groups = _combined(codes, separator.columns, tree.sizes, rows)
        drawn = stratified(table.reshape(math.prod(table.shape[: len(given)]), -1), groups, rng)
        for column in reversed(new):
            drawn, codes[column] = np.divmod(drawn, tree.sizes[column])
    return codes


def _combined(codes: Codes, columns: Sequence[int], sizes: Sequence[int], rows: int) -> Integers:
    """The number of each row's combination of cells of these columns, in C order."""
    combined = np.zeros(rows, np.int64)
    for column in columns:
        combined = combined * sizes[column] + codes[column]
    return combined
