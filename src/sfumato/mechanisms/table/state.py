"""What a run of a synthetic table knows so far: noisy tables, bins, and how the model is fitted to them.

Only noisy counts and public facts are kept here. Exact counts go into the meter and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sfumato.fileformat.manifest import MomentFacts
from sfumato.marginals import structure
from sfumato.marginals.binning import Bins
from sfumato.marginals.fitting import FittedTree, Measured, fit
from sfumato.marginals.forbidden import StructuralFacts
from sfumato.marginals.junction_tree import Clique, JunctionTree
from sfumato.marginals.partition import Partition
from sfumato.mechanisms.table.budget import Meter, Shares, TableMoves, TableScales
from sfumato.mechanisms.table.counting import Reader
from sfumato.mechanisms.table.methods import Asked, MethodChoice
from sfumato.numerics.types import Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

ITERATIONS = 300


class Task(Protocol):
    """What a run needs of a prepared table."""

    @property
    def recipe(self) -> Asked:
        """What was asked for."""
        ...

    @property
    def schema(self) -> Schema:
        """What the columns of the table are."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What was promised of the table."""
        ...

    @property
    def partition(self) -> Partition:
        """The fine cells of the table's columns."""
        ...

    @property
    def facts(self) -> StructuralFacts:
        """What no record of the table can be."""
        ...

    @property
    def noise(self) -> str:
        """The law of the noise on a table's counts."""
        ...

    @property
    def moves(self) -> TableMoves:
        """How far one unit moves the counts of a table."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTable:
    """A noisy table as it was measured: over fine cells or bins, its noise, and in which stage."""

    columns: Clique
    counts: Integers
    scale: float
    stage: str

    @property
    def fine(self) -> bool:
        """Whether it is over fine cells."""
        return self.stage == "one-way"


@dataclass(slots=True, eq=False)
class State:
    """What is known so far: noisy tables, bins and the model."""

    prepared: Task
    rows: Rows
    meter: Meter
    choice: MethodChoice
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))  # of what costs no privacy
    measured: list[NoisyTable] = field(default_factory=list)
    records: float = 1.0
    bins: tuple[Bins, ...] = ()
    moment: MomentFacts | None = None

    @property
    def scales(self) -> TableScales:
        """What noise each stage gets."""
        return self.meter.scales

    @property
    def shares(self) -> Shares:
        """How the budget is shared out over the stages of the method."""
        return self.choice.shares

    @property
    def label(self) -> int | None:
        """The variable of the label, if there is one."""
        name = self.prepared.recipe.label
        return None if name is None else self.prepared.partition.place(name)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many bins each variable has."""
        return tuple(b.size for b in self.bins)

    def deviation(self, scale: float) -> float:
        """The standard deviation of noise of a scale."""
        return self.scales.deviation(scale)

    def as_measured(self, table: NoisyTable) -> Measured:
        """A noisy table over bins with the variance of its noise."""
        variance = self.deviation(table.scale) ** 2
        if not table.fine:
            return Measured(table.columns, table.counts.astype(float), variance)
        own = self.bins[table.columns[0]]
        return Measured(table.columns, own.counts(table.counts.astype(float)), np.asarray(own.cells * variance, float))

    @property
    def reader(self) -> Reader:
        """Blocks as codes of the bins."""
        return Reader(self.prepared.partition, [b.of_cell for b in self.bins])


def measure(state: State, stage: str, exact: dict[Clique, Integers], share: float) -> None:
    """Noise on several tables that take a share of the budget together."""
    scales = state.scales.tables([counts.size for counts in exact.values()], share)
    for (columns, counts), scale in zip(exact.items(), scales, strict=True):
        noisy = state.meter.table(counts, scale, stage, *columns)
        state.measured.append(NoisyTable(columns, noisy, scale, stage))


def fitted_to(state: State, cliques: Sequence[Clique], iterations: int, start: FittedTree | None = None) -> FittedTree:
    """The model on a junction tree of these cliques, fitted to all noisy tables that it holds.

    start : an earlier fit, which is of use if its cliques lie within the tree; a new triangulation may split them.
    """
    facts = state.prepared.facts
    tree, forbidden = JunctionTree.of(state.sizes, [*cliques, *facts.cliques]), facts.forbidden(state.bins)
    held = [state.as_measured(table) for table in state.measured]
    inside = [table for table in held if len(table.columns) > 1 and tree.home(table.columns) is not None]
    ones = structure.pooled(state.sizes, [t for t in held if len(t.columns) <= 2])
    known = start is not None and all(tree.home(clique) is not None for clique in start.tree.cliques)
    begun = start if known else None
    return fit(tree, [*ones, *inside], state.records, iterations=iterations, forbidden=forbidden, start=begun)
