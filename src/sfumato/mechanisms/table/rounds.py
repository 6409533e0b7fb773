"""Rounds of a synthetic table: pairs and triples are chosen privately where the model is furthest off, and measured.

The score of a pair or triple is the l1 distance of its table from the model's, in whole numbers, less the noise that
its table would have. The exponential mechanism takes one after the other, until it takes none, whose score is 0. A
choice costs the same however many candidates there are, where noise on all scores would grow with the root of their
number.
"""

import math
from collections.abc import Sequence

import numpy as np

from sfumato.marginals import structure
from sfumato.marginals.fitting import FittedTree
from sfumato.marginals.junction_tree import Clique
from sfumato.marginals.sampling import sample
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.state import ITERATIONS, State, fitted_to, measure
from sfumato.numerics.types import Integers

_TRIPLES = 600  # that are scored, at most
_DRAWN = 100_000  # rows that scores compare the data with, at least; ten times as many at most
_PER_VARIABLE = 1.0  # tables that a round chooses, at most
_ABSOLUTE = 0.8  # the mean absolute value of a normal number of deviation 1, about


def one_round(
    state: State, number: int, shares: tuple[float, float], fitted: FittedTree, cliques: list[Clique]
) -> tuple[FittedTree, list[Clique]]:
    """Pairs and triples are chosen privately by how far the model is off, measured, and added to the model."""
    count, rounds = len(state.bins), len(state.shares.rounds)
    typical = state.deviation(state.scales.alike(count, shares[1]))
    candidates = _candidates(state, cliques, state.records / (_ABSOLUTE * typical))
    exact = dict(zip(candidates, counting.count(state.rows, state.sizes, state.reader, candidates), strict=True))
    scores = _scores(state, exact, fitted, _ABSOLUTE * typical)
    ranked, left = _ranked(state, number, candidates, scores, shares[0])
    limit = state.prepared.recipe.cells * (number + 2) / (1 + rounds)
    new = structure.best(state.sizes, ranked, cliques, limit)
    tables = {clique: exact[clique] for clique in new} or _again(state, cliques, exact)
    measure(state, f"round {number + 1}", tables, shares[1] + left)
    cliques = [*cliques, *new]
    last = number == rounds - 1
    return fitted_to(state, cliques, ITERATIONS * 3 // 2 if last else ITERATIONS, fitted), cliques


def _again(state: State, cliques: Sequence[Clique], exact: dict[Clique, Integers]) -> dict[Clique, Integers]:
    """What to measure where nothing was chosen: tables of the model a second time, or else single variables."""
    count = len(state.bins)
    held = {clique: exact[clique] for clique in dict.fromkeys(cliques) if clique in exact}
    if held:
        return dict(list(held.items())[:count])
    ones: list[Clique] = [(place,) for place in range(count)]
    return dict(zip(ones, counting.count(state.rows, state.sizes, state.reader, ones), strict=True))


def _scores(state: State, exact: dict[Clique, Integers], fitted: FittedTree, noise: float) -> Integers:
    """How far the model is off, in l1, less the noise that a table would have; in whole numbers."""
    rows = min(max(round(state.records), _DRAWN), 10 * _DRAWN)
    drawn = sample(fitted.tree, fitted.beliefs, rows, state.rng)
    flat = counting.tables(list(drawn), state.sizes, list(exact))
    scaled = np.rint(flat * (state.records / drawn.shape[1])).astype(np.int64)
    model = counting.split(scaled, state.sizes, list(exact))
    found = [np.abs(a - b).sum() - round(noise * a.size) for a, b in zip(exact.values(), model, strict=True)]
    return np.array(found, np.int64)


def _ranked(
    state: State, number: int, candidates: Sequence[Clique], scores: Integers, share: float
) -> tuple[list[Clique], float]:
    """Candidates by private choices, the first taken first, until none is taken; and what share is left."""
    count = min(math.ceil(_PER_VARIABLE * len(state.bins)), len(candidates))
    scale, open_ = state.scales.choices(count, share), list(range(len(candidates)))
    ranked: list[Clique] = []
    for step in range(count):
        place = state.meter.choose(np.append(scores[open_], 0), scale, "choice", number, step)
        if place == len(open_):
            return ranked, share * (count - step - 1) / count
        ranked.append(candidates[open_.pop(place)])
    return ranked, 0.0


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
