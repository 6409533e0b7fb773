"""Stage 1 of a synthetic table: one-way tables over fine cells, the number of records, and bins."""

import math
from collections.abc import Sequence

import numpy as np

from sfumato.marginals import binning
from sfumato.marginals.binning import Bins, WantedBins
from sfumato.marginals.junction_tree import Clique
from sfumato.mechanisms import base
from sfumato.mechanisms.table import budget, counting, methods
from sfumato.mechanisms.table.budget import Shares, TableScales
from sfumato.mechanisms.table.state import NoisyTable, State
from sfumato.numerics.types import Floats, Integers

_PER_BIN = 6.0  # deviations of a pair's noise that a cell of a pair should hold in the mean
_FEWEST, _MOST = 4.0, 16.0  # bins of a number, about
_LEAST_BIN, _RARE = 12.0, 2.0  # deviations of a pair's noise that a bin of a number, and of a level, must hold
_SCORED = 32.0  # bins of a number, about, where no pairs are counted


def measure_one_ways(state: State) -> None:
    """Stage 1: counts of fine cells, the number of records, what to measure next, and bins for it."""
    prepared, sizes = state.prepared, state.prepared.partition.sizes

    def one(position: int, block: Floats) -> Integers:
        del position
        return counting.one_ways(counting.fine_codes(prepared.partition, block), sizes)

    flat = state.rows.sum(one)
    known = base.public_rows(int(flat[-1]), prepared.guarantee)
    cliques: list[Clique] = [(place,) for place in range(len(sizes))]
    scale = state.scales.alike(len(sizes), state.shares.one_ways)
    exact = counting.split(flat[:-1], sizes, cliques)
    for columns, counts in zip(cliques, exact, strict=True):
        noisy = state.meter.table(counts.astype(np.int64), scale, "one-way", columns[0])
        state.measured.append(NoisyTable(columns, noisy, scale, "one-way"))
    found = [table.counts.astype(float) for table in state.measured]
    state.records = float(known or budget.total(found, state.deviation(scale)))
    state.choice = methods.chosen(prepared.recipe, len(sizes), state.scales, state.records)
    state.bins = _bins(state, found, state.deviation(scale))


def _bins(state: State, ones: Sequence[Floats], deviation: float) -> tuple[Bins, ...]:
    """Bins that the method asks for, from noisy one-way tables."""
    copula = state.choice.method == "copula"
    wished = _of_scores(state, deviation) if copula else wanted(state.records, typical(state), deviation)
    return tuple(
        binning.bins(
            variable, counts, deviation, wished, whole=place == state.label, apart=state.prepared.facts.apart(place)
        )
        for place, (variable, counts) in enumerate(zip(state.prepared.partition.variables, ones, strict=True))
    )


def wanted(records: float, spread: float, deviation: float) -> WantedBins:
    """Which bins so many records are given: so wide that a cell of a pair stands out of the noise of pairs.

    spread    : the deviation of noise on a table of the model.
    deviation : of noise on a one-way table.
    """
    count = min(max(math.sqrt(records / (_PER_BIN * spread)), _FEWEST), _MOST)
    return WantedBins(records, records / count, _LEAST_BIN * spread, max(_RARE * spread, 2 * deviation))


def _of_scores(state: State, deviation: float) -> WantedBins:
    """Bins that need to stand out of their own noise alone, as no pairs are counted."""
    mass = max(state.records / _SCORED, _RARE * deviation)
    return WantedBins(state.records, mass, mass, 2 * deviation)


def typical(state: State) -> float:
    """The deviation of noise on a table of this run's model."""
    return spread(state.scales, state.shares, len(state.prepared.partition.variables))


def spread(scales: TableScales, shares: Shares, variables: int) -> float:
    """The deviation of noise on a table of the model: of a pair, or of a chosen one if that is less."""
    pairs = scales.alike(variables * (variables - 1) // 2, shares.pairs)
    chosen = [scales.alike(2 * variables, shares.rounds[0][1])] if shares.rounds else []
    return scales.deviation(min([pairs, *chosen]))
