"""Synthetic tables of many variables or few records: pairs with the label, and a tree of pairs chosen by scores.

One-way tables are measured once more, over bins: where there are few pairs, these say little of each variable.

The score of a pair is the l1 distance of its table from that of independent variables with the noisy one-way tables,
in whole numbers, less the noise that its table would have. The tree grows by one pair at a time, taken by the
exponential mechanism from those that join two parts of it, until it takes none, whose score is 0. So a choice costs
once for each pair of the tree, and not once for each pair that there is: with 500 variables its noise is a tenth of
what noise on all scores would be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.marginals import structure
from sfumato.marginals.fitting import FittedTree, Measured
from sfumato.marginals.junction_tree import Clique
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.one_ways import typical
from sfumato.mechanisms.table.state import ITERATIONS, State, fitted_to, measure
from sfumato.numerics.types import Floats, Integers

_ABSOLUTE = 0.8  # the mean absolute value of a normal number of deviation 1, about


def tree_model(state: State) -> FittedTree:
    """Pairs with the label, the pairs of a tree of all other variables, and the model of those that matter."""
    shares, label, count = state.shares, state.label, len(state.bins)
    pairs: list[Clique] = [(i, j) for j in range(count) for i in range(j)]
    ones: list[Clique] = [(place,) for place in range(count)]
    found = counting.count(state.rows, state.sizes, state.reader, [*ones, *pairs])
    exact = dict(zip(pairs, found[count:], strict=True))
    measure(state, "round 2", dict(zip(ones, found[:count], strict=True)), shares.rounds[1][1])
    beside = [pair for pair in pairs if label is not None and label in pair and shares.label_pairs > 0]
    measure(state, "label pair", {pair: exact[pair] for pair in beside}, shares.label_pairs)
    with_label = _gaining(state, beside)
    others = exact if not beside else {pair: counts for pair, counts in exact.items() if label not in pair}
    edges, left = _edges(state, others, {place for pair in with_label for place in pair})
    measure(state, "round 1", {pair: exact[pair] for pair in edges}, shares.rounds[0][1] + left)
    return fitted_to(state, [*with_label, *_gaining(state, edges)], ITERATIONS)


def _gaining(state: State, pairs: Sequence[Clique]) -> list[Clique]:
    """Those of some measured pairs that say more than their noise."""
    held = [state.as_measured(table) for table in state.measured]
    wanted = set(pairs)
    tables = [table for table in held if table.columns in wanted]
    found = structure.gains(tables, structure.pooled(state.sizes, held), state.records, 0.0)
    return [pair for pair in found if found[pair].excess > 0]


def _edges(state: State, exact: dict[Clique, Integers], with_label: set[int]) -> tuple[list[Clique], float]:
    """The pairs of a tree, chosen one after the other, as far as the cells of the model allow; and what share is left.

    with_label : variables that are paired with the label, so that it is in the cliques of their pairs.
    """
    if not exact:
        return [], 0.0
    scores = _scores(state, exact)
    label = state.sizes[state.label] if state.label is not None else 1
    cells = np.array([exact[pair].size * (label if with_label.intersection(pair) else 1) for pair in exact])
    growing = _Growing(list(exact), cells, np.array(list(exact)).T, np.arange(len(state.bins)))
    count = len(set().union(*exact)) - 1
    share, limit, spent = state.shares.rounds[0][0], float(state.prepared.recipe.cells), 0
    scale = state.scales.choices(count, share)
    while spent < count and len(open_ := growing.open(limit)):
        place = state.meter.choose(np.append(scores[open_], 0), scale, "tree", spent)
        spent += 1
        if place == len(open_):
            break
        limit -= growing.take(int(open_[place]))
    return growing.taken, share * (count - spent) / count


def _scores(state: State, exact: dict[Clique, Integers]) -> Integers:
    """How far each pair is from independence, less the noise that its table would have, in whole numbers."""
    held = [state.as_measured(table) for table in state.measured]
    ones: list[Measured] = structure.pooled(state.sizes, held)
    given = [structure.on_simplex(one.counts / state.records) for one in ones]
    noise = _ABSOLUTE * typical(state)
    found = [
        _distance(counts, given[i], given[j], state.records) - round(noise * counts.size)
        for (i, j), counts in exact.items()
    ]
    return np.array(found, np.int64)


def _distance(table: Integers, first: Floats, second: Floats, records: float) -> int:
    """The l1 distance of a table of counts from independence, rounded to whole numbers."""
    return int(np.abs(table - np.rint(np.outer(first, second) * records).astype(np.int64)).sum())


@dataclass(slots=True, eq=False)
class _Growing:
    """A forest that grows by pairs of variables; which of them are left is a function of those taken, so public."""

    pairs: Sequence[Clique]
    cells: Integers
    ends: Integers
    part: Integers
    taken: list[Clique] = field(default_factory=list)

    def open(self, limit: float) -> Integers:
        """The places of pairs that join two parts and have at most so many cells."""
        first, second = self.part[self.ends]
        return np.flatnonzero((first != second) & (self.cells <= limit))

    def take(self, place: int) -> int:
        """Take a pair; returns its cells."""
        first, second = self.part[self.ends[:, place]]
        self.part[self.part == second] = first
        self.taken.append(self.pairs[place])
        return int(self.cells[place])
