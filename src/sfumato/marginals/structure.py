"""Which tables go into the model of a table: decided by noisy counts alone, so at no further cost.

A pair matters by its excess: the squared distance of its noisy table from independence, less what its known noise adds.
It costs what noise of its size would add. A spanning tree of the pairs that matter most comes first, then further
pairs while they gain and the junction tree stays below its limit of cells.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.marginals.fitting import Measured
from sfumato.marginals.junction_tree import Clique, cells
from sfumato.numerics.types import Floats

_ABSOLUTE = math.sqrt(2 / math.pi)  # the mean absolute value of a normal number of deviation 1
_PER_VARIABLE = 4.0  # pairs of a model, at most


def on_simplex(values: Floats) -> Floats:
    """The nearest distribution to some numbers: non-negative, with sum 1."""
    ranked = np.sort(values)[::-1]
    over = np.cumsum(ranked) - 1
    last = np.flatnonzero(ranked - over / np.arange(1, len(values) + 1) > 0)[-1]
    return np.asarray(np.maximum(values - over[last] / (last + 1), 0.0))


def pooled(sizes: Sequence[int], tables: Sequence[Measured]) -> list[Measured]:
    """The one-way table of each variable from all tables that hold it: the mean of what they say by their variances."""
    found = []
    for variable, size in enumerate(sizes):
        weighted, weight = np.zeros(size), np.zeros(size)
        for table in tables:
            if variable in table.columns:
                others = tuple(axis for axis, column in enumerate(table.columns) if column != variable)
                variance = np.broadcast_to(np.asarray(table.variance, float), table.counts.shape).sum(axis=others)
                weighted += table.counts.sum(axis=others) / variance
                weight += 1 / variance
        found.append(Measured((variable,), weighted / weight, 1 / weight))
    return found


@dataclass(frozen=True, slots=True)
class Gain:
    """How much a pair matters, in the l1 distance of its table, and what that leaves after the cost of its noise."""

    excess: float
    net: float


def gains(pairs: Sequence[Measured], ones: Sequence[Measured], records: float, typical: float) -> dict[Clique, Gain]:
    """What each pair would gain over independence; ``typical``: the deviation of noise on the tables of a model."""
    shares = [on_simplex(one.counts / records) for one in ones]
    found = {}
    for pair in pairs:
        first, second = pair.columns
        apart = pair.counts / records - np.outer(shares[first], shares[second])
        noise = float(np.broadcast_to(np.asarray(pair.variance), pair.counts.shape).sum()) / records**2
        excess = max(0.0, float((apart**2).sum()) - noise)
        cost = _ABSOLUTE * pair.counts.size * typical / records
        found[pair.columns] = Gain(excess, math.sqrt(excess * pair.counts.size) - cost)
    return found


def chosen(
    sizes: Sequence[int],
    found: Mapping[Clique, Gain],
    limit: float,
    *,
    label: int | None,
    most: float = _PER_VARIABLE,
    held: Sequence[Clique] = (),
) -> list[Clique]:
    """Pairs for the model: those with the label, a spanning tree of the others, and more while they gain and fit.

    held : further tables that the model has in any case.
    """
    ranked = sorted(found, key=lambda pair: (-found[pair].net, pair))
    joins = _Forest(len(sizes))
    taken = [
        pair
        for pair in ranked
        if found[pair].excess > 0 and ((label is not None and label in pair) or joins.join(*pair))
    ]
    taken = _fitting(sizes, taken, limit, held)
    known = set(taken)
    for pair in ranked:
        if found[pair].net <= 0 or len(taken) > most * len(sizes):
            break
        if pair not in known and cells(sizes, [*held, *taken, pair]) <= limit:
            taken.append(pair)
            known.add(pair)
    return taken


def _fitting(sizes: Sequence[int], pairs: Sequence[Clique], limit: float, held: Sequence[Clique]) -> list[Clique]:
    """As many of these pairs, the best first, as the junction tree holds beside others."""
    if cells(sizes, [*held, *pairs]) <= limit:
        return list(pairs)
    taken: list[Clique] = []
    for pair in pairs:
        if cells(sizes, [*held, *taken, pair]) <= limit:
            taken.append(pair)
    return taken


class _Forest:
    """Which variables are joined already."""

    def __init__(self, size: int) -> None:
        self._above = list(range(size))

    def _root(self, place: int) -> int:
        while self._above[place] != place:
            self._above[place] = self._above[self._above[place]]
            place = self._above[place]
        return place

    def join(self, first: int, second: int) -> bool:
        """Join two variables; False if they were joined before."""
        a, b = self._root(first), self._root(second)
        self._above[a] = b
        return a != b


def triples(pairs: Sequence[Clique], sizes: Sequence[int], most_cells: float) -> list[Clique]:
    """Three variables of which one is paired with both others, whose table has at most so many cells."""
    near: dict[int, set[int]] = {}
    for columns in pairs:
        for place in columns:
            near.setdefault(place, set()).update(set(columns) - {place})
    found = {tuple(sorted((i, j, k))) for i, others in near.items() for j in others for k in others if j < k}
    return sorted(t for t in found if math.prod(sizes[i] for i in t) <= most_cells)


def best(sizes: Sequence[int], ranked: Sequence[Clique], held: Sequence[Clique], limit: float) -> list[Clique]:
    """Tables to add to those of a model, the best first, as far as the junction tree fits."""
    taken: list[Clique] = []
    for columns in ranked:
        if any(set(columns) <= set(other) for other in taken):
            continue
        if cells(sizes, [*held, *taken, columns]) <= limit:
            taken.append(columns)
    return taken
