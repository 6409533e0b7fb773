"""Exact counts of a synthetic table's variables: integers that add up over blocks, in any order and on any engine.

Tables over several variables are counted a few rows at a time, in codes of 16 bits where they suffice. A table that
another one holds is summed out of it (``covering``). Memory depends on the tables, not on the rows: where all tables
together are large, the rows are read several times, for some of the tables each.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.marginals.junction_tree import Clique
from sfumato.marginals.partition import Partition
from sfumato.mechanisms.table.covering import covering
from sfumato.numerics.types import Floats, Integers
from sfumato.tables.blocks import Rows

Binned: TypeAlias = Sequence[NDArray[Any]]  # of whole numbers, one array for each variable

_TOGETHER = 1 << 16  # rows that are counted together
_SMALL = 1 << 16  # places that 16 bits tell apart
_CELLS = 1 << 22  # that one reading of the rows counts, about: 32 MiB for each block at work


def one_ways(codes: NDArray[np.int32], sizes: Sequence[int]) -> Integers:
    """Counts of the cells of every variable, one after the other, and the number of rows."""
    parts = [np.bincount(row, minlength=size) for row, size in zip(codes, sizes, strict=True)]
    return np.concatenate([*parts, [codes.shape[1]]]).astype(np.int64)


def tables(codes: Binned, sizes: Sequence[int], cliques: Sequence[Clique]) -> Integers:
    """Counts of the tables over several variables each, one after the other."""
    plan = _plan(tuple(sizes), tuple(cliques))
    total = np.zeros(plan.cells, np.int64)
    for start in range(0, len(codes[0]) if plan.steps else 0, _TOGETHER):
        some = [
            row[start : start + _TOGETHER].astype(_type(size), copy=False)
            for row, size in zip(codes, sizes, strict=True)
        ]
        for step in plan.steps:
            step.add(some, total)
    return total


def _type(cells: int) -> type[np.generic]:
    """The type that holds the places of so many cells, for quick arithmetic."""
    return np.uint16 if cells < _SMALL else np.int64


@dataclass(frozen=True, slots=True)
class _Step:
    """One table that is counted, and the tables that are taken from it: their axes, and where they are wanted."""

    columns: Clique
    shape: tuple[int, ...]
    taken: tuple[tuple[Clique, int, int], ...]

    def add(self, codes: Binned, total: Integers) -> None:
        """Count the rows of some codes, and add the tables that are taken from the counts to the total."""
        cells = math.prod(self.shape)
        number = _type(cells)
        place = codes[self.columns[0]].astype(number, copy=False)
        for column, size in zip(self.columns[1:], self.shape[1:], strict=True):
            place = place * number(size)
            place += codes[column]
        counts = np.bincount(place, minlength=cells).reshape(self.shape)
        every = list(range(len(self.shape)))
        for axes, start, stop in self.taken:
            total[start:stop] += np.einsum(counts, every, list(axes)).ravel()


@dataclass(frozen=True, slots=True)
class _Plan:
    """How many cells the wanted tables have, one after the other, and which tables are counted for them."""

    cells: int
    steps: tuple[_Step, ...]


@functools.lru_cache(maxsize=8)
def _plan(sizes: tuple[int, ...], cliques: tuple[Clique, ...]) -> _Plan:
    wanted: dict[Clique, list[tuple[int, int]]] = {}
    stop = 0
    for clique in cliques:
        start, stop = stop, stop + math.prod(sizes[c] for c in clique)
        wanted.setdefault(clique, []).append((start, stop))
    steps = []
    for members, held in covering(sizes, cliques).items():
        columns = tuple(sorted(members, key=lambda c: sizes[c]))  # the longest axis last: sums are quickest along it
        taken = [(tuple(map(columns.index, clique)), *span) for clique in held for span in wanted[clique]]
        steps.append(_Step(columns, tuple(sizes[c] for c in columns), tuple(taken)))
    return _Plan(stop, tuple(steps))


def split(flat: Integers, sizes: Sequence[int], cliques: Sequence[Clique]) -> list[Integers]:
    """Tables that stand one after the other, each in its own shape."""
    shapes = [tuple(sizes[c] for c in columns) for columns in cliques]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if not cliques:
        return []
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


class Reader:
    """Blocks as codes of the model's bins."""

    __slots__ = ("_maps", "_partition")

    def __init__(self, partition: Partition, maps: Sequence[Integers]) -> None:
        self._partition = partition
        self._maps = [np.asarray(m, _type(int(m.max(initial=0)) + 1)) for m in maps]

    def __call__(self, block: Floats) -> Binned:
        """The bin of each row in every variable."""
        codes = fine_codes(self._partition, block)
        return [np.take(of_cell, row) for of_cell, row in zip(self._maps, codes, strict=True)]


def fine_codes(partition: Partition, block: Floats) -> NDArray[np.int32]:
    """The fine cells of a block: read so already, or encoded."""
    return block if block.dtype == np.int32 else partition.codes(block)  # type: ignore[return-value]


def count(rows: Rows, sizes: Sequence[int], read: Reader, cliques: Sequence[Clique]) -> list[Integers]:
    """The exact tables of some cliques over all rows."""
    found: list[Integers] = []
    for some in _portions(sizes, cliques):
        _plan(tuple(sizes), some)  # here, so that threads find it made
        found += split(rows.sum(functools.partial(_counted, read, tuple(sizes), some)), sizes, some)
    return found


def _counted(read: Reader, sizes: tuple[int, ...], cliques: tuple[Clique, ...], _: int, block: Floats) -> Integers:
    return tables(read(block), sizes, cliques)


def _portions(sizes: Sequence[int], cliques: Sequence[Clique]) -> Iterator[tuple[Clique, ...]]:
    """Cliques in order, so many together that their tables are not too large to be held several times."""
    some: list[Clique] = []
    cells = 0
    for clique in cliques:
        own = math.prod(sizes[c] for c in clique)
        if some and cells + own > _CELLS:
            yield tuple(some)
            some, cells = [], 0
        some.append(clique)
        cells += own
    if some:
        yield tuple(some)
