"""Few tables that hold many: sets of variables that cover the tables wanted of rows, each to be counted once.

Counting a table takes a pass over the codes of a block, however small the table is. Summing out a variable takes a pass
over its cells, which are fewer. So the table of three variables gives those of its three pairs sooner than three passes
would. The search is greedy: the largest table that no set holds yet begins a set, which then takes, one by one, the
variable that brings most further tables into it, while its own table stays in the cache. Only sizes matter, which are
known before a row is counted.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.marginals.junction_tree import Clique
from sfumato.numerics.types import Bools, Floats

_CACHED = 1 << 13  # cells of a set that took further variables, at most
_MOST_AXES = 24  # of one table: variables of a single bin take no cells, but arrays have few axes
_SUMMED = 1 << 16  # cells of a table that others are taken from, at most


def covering(sizes: Sequence[int], cliques: Sequence[Clique]) -> dict[Clique, list[Clique]]:
    """Sets of variables to count, each with the cliques whose tables are taken from it; every clique is in one list.

    Cliques and sets are sorted.
    """
    left = _Left.of(sizes, cliques)
    sets: dict[Clique, list[Clique]] = {}
    for clique in sorted(set(cliques), key=lambda c: (-_cells(sizes, c), c)):
        if clique not in left:
            continue
        members = left.grown(clique)
        held = left.within(members) if _cells(sizes, members) <= _SUMMED else [clique]
        for inside in held:
            left.remove(inside)
        sets[members] = held
    return sets


def _cells(sizes: Sequence[int], columns: Clique) -> int:
    return math.prod(sizes[column] for column in columns)


def _without(clique: Clique, variable: int) -> Clique:
    return tuple(column for column in clique if column != variable)


@dataclass(frozen=True, slots=True, eq=False)
class _Left:
    """Cliques that no set holds yet.

    missing : for some variables, which one more makes them such a clique.
    orders  : how many variables that are.
    """

    sizes: Floats
    missing: dict[Clique, Bools]
    orders: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], cliques: Sequence[Clique]) -> "_Left":
        missing: dict[Clique, Bools] = {}
        for clique in cliques:
            for variable in clique:
                missing.setdefault(_without(clique, variable), np.zeros(len(sizes), bool))[variable] = True
        return cls(np.array(sizes, float), missing, tuple(sorted(set(map(len, missing)))))

    def __contains__(self, clique: Clique) -> bool:
        return bool(self.missing[clique[1:]][clique[0]])

    def remove(self, clique: Clique) -> None:
        for variable in clique:
            self.missing[_without(clique, variable)][variable] = False

    def grown(self, clique: Clique) -> Clique:
        """A clique and the variables that bring most others into its set, the largest of those that bring as many."""
        members, cells = list(clique), float(self.sizes[list(clique)].prod())
        gains = np.zeros(self.sizes.size, np.int64)
        for order in self.orders:
            for some in itertools.combinations(clique, order):
                gains += self.missing.get(some, False)
        while True:
            gains[members] = 0
            fits = np.where(self.sizes * cells <= _CACHED, gains, 0)
            most = fits.max()
            if most == 0 or len(members) >= _MOST_AXES:
                return tuple(sorted(members))
            new = int(np.where(fits == most, self.sizes, 0).argmax())
            for order in self.orders:
                for some in itertools.combinations(members, order - 1) if order else ():
                    gains += self.missing.get(tuple(sorted((*some, new))), False)
            members.append(new)
            cells *= self.sizes[new]

    def within(self, members: Clique) -> list[Clique]:
        """Those within a set."""
        found = (some for order in self.orders for some in itertools.combinations(members, order + 1))
        return [some for some in found if some[1:] in self.missing and some in self]
