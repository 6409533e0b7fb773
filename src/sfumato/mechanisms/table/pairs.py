"""Stages 2 and 3 of a synthetic table: pairs of variables over bins at once, and the model of those that matter."""

from sfumato.marginals import structure
from sfumato.marginals.fitting import FittedTree
from sfumato.marginals.junction_tree import Clique
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.one_ways import typical
from sfumato.mechanisms.table.state import ITERATIONS, State, fitted_to, measure


def measure_pairs(state: State) -> None:
    """Stage 2: pairs with the label and, where no rounds choose among them, all others."""
    shares, count, label = state.shares, len(state.bins), state.label
    every: list[Clique] = [(i, j) for j in range(count) for i in range(j)]
    with_label = [pair for pair in every if label in pair and shares.label_pairs > 0]
    others = sorted(set(every) - set(with_label)) if shares.pairs > 0 else []
    for stage, group, share in (("pair", others, shares.pairs), ("label pair", with_label, shares.label_pairs)):
        exact = counting.count(state.rows, state.sizes, state.reader, group) if group else []
        measure(state, stage, dict(zip(group, exact, strict=True)), share)


def first_model(state: State) -> tuple[FittedTree, list[Clique]]:
    """Stage 3: pairs that matter, and the model of them."""
    measured = [state.as_measured(table) for table in state.measured]
    ones = structure.pooled(state.sizes, measured)
    pairs = [table for table in measured if len(table.columns) == 2]
    found = structure.gains(pairs, ones, state.records, typical(state))
    rounds = state.prepared.recipe.rounds
    limit = state.prepared.recipe.cells / (1 + rounds)
    most = 4.0 if not rounds else 2.5
    held = state.prepared.facts.cliques
    cliques = [*held, *structure.chosen(state.sizes, found, limit, label=state.label, most=most, held=held)]
    return fitted_to(state, cliques, ITERATIONS), cliques
