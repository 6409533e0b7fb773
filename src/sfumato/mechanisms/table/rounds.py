"""Stage 4 of a synthetic table: scores of how far the model is off, and the tables that they choose."""

import math
from collections.abc import Sequence

import numpy as np

from sfumato.marginals import structure
from sfumato.marginals.fitting import FittedTree
from sfumato.marginals.junction_tree import Clique
from sfumato.marginals.sampling import sample
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.state import ITERATIONS, State, fitted_to, measure

_TRIPLES = 600  # that are scored, at most
_DRAWN = 100_000  # rows that scores compare the data with, at least; ten times as many at most


def one_round(
    state: State, number: int, shares: tuple[float, float], fitted: FittedTree, cliques: list[Clique]
) -> tuple[FittedTree, list[Clique]]:
    """Stage 4: scores of pairs and triples, how far the model is off; those that gain most are measured."""
    count, rounds = len(state.bins), len(state.shares.rounds)
    typical = state.deviation(state.scales.alike(count, shares[1]))
    candidates = _candidates(state, cliques, state.records / (0.8 * typical))
    exact = counting.count(state.rows, state.sizes, state.reader, candidates)
    rows = min(max(round(state.records), _DRAWN), 10 * _DRAWN)
    drawn = sample(fitted.tree, fitted.beliefs, rows, state.rng)
    flat = counting.tables(list(drawn), state.sizes, candidates)
    model = counting.split(np.rint(flat * (state.records / drawn.shape[1])).astype(np.int64), state.sizes, candidates)
    distances = np.array([np.abs(a - b).sum() for a, b in zip(exact, model, strict=True)], np.int64)
    scale = state.scales.scores(len(candidates), shares[0])
    scores = state.meter.scored(distances, scale, "scores", number)
    cost = {c: 0.8 * typical * math.prod(state.sizes[i] for i in c) for c in candidates}
    net = {c: float(score) - cost[c] for c, score in zip(candidates, scores, strict=True)}
    limit = state.prepared.recipe.cells * (number + 2) / (1 + rounds)
    ranked, enough = sorted(net, key=lambda c: (-net[c], c)), 0.5 * state.deviation(scale)
    new = structure.best(state.sizes, ranked, cliques, limit, count, lambda c: net[c] > enough)
    counts = dict(zip(candidates, exact, strict=True))
    new = new or [c for c in cliques if c in counts][:count]  # what is in the model already, a second time
    measure(state, f"round {number + 1}", {c: counts[c] for c in new}, shares[1])
    cliques = [*cliques, *new]
    last = number == rounds - 1
    return fitted_to(state, cliques, ITERATIONS * 3 // 2 if last else ITERATIONS, fitted), cliques


def _candidates(state: State, cliques: Sequence[Clique], most_cells: float) -> list[Clique]:
    """Pairs and triples to score: those of the label first where there are too many triples."""
    count, label = len(state.bins), state.label
    pairs: list[Clique] = [(i, j) for j in range(count) for i in range(j)]
    pairs = [p for p in pairs if state.sizes[p[0]] * state.sizes[p[1]] <= most_cells]
    found = structure.triples(cliques, state.sizes, most_cells)
    if len(found) > _TRIPLES:
        with_label = [t for t in found if label in t]
        others = [t for t in found if label not in t]
        state.rng.shuffle(with_label)
        state.rng.shuffle(others)
        found = [*with_label[: _TRIPLES * 2 // 3], *others][:_TRIPLES]
    return [*pairs, *found]
