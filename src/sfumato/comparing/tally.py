"""One pass over a table for a comparison: exact counts of cells and pairs, a sample of rows, and what tells rows apart.

NOT PRIVATE where the table is real: everything here is exact.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.marginals.junction_tree import Clique
from sfumato.marginals.partition import Codes, Partition
from sfumato.marginals.parts import MOST_LEVELS, MOST_PARTS, MOST_PARTS_OF_PAIRS, Parts, parts_of
from sfumato.mechanisms.table import counting
from sfumato.numerics.types import Integers

MOST_PAIRS = 2000  # that are compared; of more, some are drawn by a public rule
SAMPLED = 16_000  # rows of either table that models are trained and tested on
TOGETHER = 1 << 16  # rows that are read together


@dataclass(frozen=True, slots=True, eq=False)
class ComparedParts:
    """What is compared: variables in parts, for tables of one and of pairs, and which pairs. All of it is public."""

    partition: Partition
    ones: tuple[Parts, ...]
    of_pairs: tuple[Parts, ...]
    pairs: tuple[Clique, ...]

    @classmethod
    def of(cls, partition: Partition, common: list[Integers]) -> "ComparedParts":
        """The parts of a comparison; ``common``: counts of fine cells in the synthetic table."""
        ones = tuple(parts_of(variable, MOST_PARTS) for variable in partition.variables)
        both = zip(partition.variables, common, strict=True)
        few = tuple(parts_of(variable, MOST_PARTS_OF_PAIRS, MOST_LEVELS, counts) for variable, counts in both)
        return cls(partition, ones, few, _pairs(len(ones)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many parts each variable has in tables of pairs."""
        return tuple(parts.size for parts in self.of_pairs)

    def pair_counts(self, codes: Codes) -> Integers:
        """Counts of all pairs that are compared, one table after the other."""
        few = [parts.of_cell[row] for parts, row in zip(self.of_pairs, codes, strict=True)]
        return counting.tables(few, self.sizes, self.pairs)


def _pairs(variables: int) -> tuple[Clique, ...]:
    every = list(itertools.combinations(range(variables), 2))
    if len(every) <= MOST_PAIRS:
        return tuple(every)
    chosen = np.random.default_rng(0).choice(len(every), MOST_PAIRS, replace=False)
    return tuple(every[i] for i in np.sort(chosen))


@dataclass(frozen=True, slots=True, eq=False)
class TableTally:
    """What a comparison knows of one table.

    fine   : counts of the fine cells of every variable.
    pairs  : counts of the parts of every pair, table by table.
    sample : fine cells of rows drawn without replacement, (variables, rows).
    marks  : a number for each row, the same where two rows are in the same fine cell of every variable.
    """

    rows: int
    fine: list[Integers]
    pairs: list[Integers]
    sample: Codes
    marks: NDArray[np.uint64]


def fine_counts(partition: Partition, batches: Iterable[pa.RecordBatch]) -> list[Integers]:
    """Counts of the fine cells of every variable of a table that is compared."""
    total = np.zeros(sum(partition.sizes) + 1, np.int64)
    for batch in batches:
        total += counting.one_ways(partition.read(batch), partition.sizes)
    return _cut(total[:-1], partition)


def _cut(flat: Integers, partition: Partition) -> list[Integers]:
    return np.split(flat, np.cumsum(partition.sizes)[:-1])


def tally(compared: ComparedParts, batches: Iterable[pa.RecordBatch], seed: int) -> TableTally:
    """Read a table once for a comparison; ``seed`` settles which rows are sampled."""
    partition, rng = compared.partition, np.random.default_rng(seed)
    ones = np.zeros(sum(partition.sizes) + 1, np.int64)
    pairs = compared.pair_counts(np.zeros((len(partition.variables), 0), np.int32))
    kept, keys = np.empty((len(partition.variables), 0), np.int32), np.empty(0)
    marks = [np.empty(0, np.uint64)]
    for batch in batches:
        codes = partition.read(batch)
        ones += counting.one_ways(codes, partition.sizes)
        pairs += compared.pair_counts(codes)
        marks.append(_marks(codes))
        kept, keys = np.hstack([kept, codes]), np.append(keys, rng.random(codes.shape[1]))
        if len(keys) > SAMPLED:
            least = np.sort(np.argpartition(keys, SAMPLED)[:SAMPLED])
            kept, keys = kept[:, least], keys[least]
    tables = counting.split(pairs, compared.sizes, compared.pairs)
    mixed = np.argsort(keys, kind="stable")
    return TableTally(int(ones[-1]), _cut(ones[:-1], partition), tables, kept[:, mixed], np.concatenate(marks))


def _marks(codes: Codes) -> NDArray[np.uint64]:
    """A number for each row from its fine cells: sums of random 64-bit numbers, one for each cell that it is in."""
    rng, found = np.random.default_rng(1), np.zeros(codes.shape[1], np.uint64)
    for row in codes:
        factor, shift = rng.integers(1 << 63, size=2, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        mixed = (row.astype(np.uint64) + shift) * factor
        mixed ^= mixed >> np.uint64(31)
        found = (found ^ mixed) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return found
