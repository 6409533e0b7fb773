"""Synthetic tables of many smooth numbers: one-way tables, and one correlation for each pair of variables.

Every bin of a variable has a score: the normal number at its middle rank among the noisy one-way counts. Bins of
categories are put in order before, by the mean score of the label in each, from noisy pairs with the label; without a
label they stay in the order of the schema. So do the levels of a label, but where there are numbers: then they lie
along the line on which the numbers' mean scores differ most. A row becomes the vector of its scores, and the sum of x
x' over all rows, with noise, tells the correlations of a Gaussian copula (``marginals.copula_model``).

What one unit moves. Scores are whole numbers of steps of 2^-9, of size at most 2.5, and functions of noisy counts that
were published before. A row x is found by its own bins alone; one that is longer than ``top`` steps, which is public,
is shrunk to that length, towards 0. So every x is a vector of integers with |x| <= top. Proof. Doubles get the product
of an entry and top/|x| wrong by less than a part 2^-50, and cutting off what is behind the point makes no entry larger.
So |x|^2 < top^2 (1 + 2^-48) < top^2 + 1 as top^2 < 2^33, and |x|^2 is a whole number. It is also checked: a longer row
would become zero. One row that is replaced moves the triangle of the sum by at most sqrt(2) top^2 in svec form
(Frobenius norm of x x' - y y'), one that is added or removed by top^2, and a group of g by g times as much;
``unit_ball`` has the proofs, and those for the l1 norm. Noise goes through ``budget.Meter``, which charges it.

How long a row may be. The scores of a row have a squared length of m in the mean. Shrinking longer rows makes
correlations smaller, allowing them makes the noise larger: the squared length is as large as leaves noise of a
deviation of 0.01 on a correlation, between m and 2.5^2 m, which no row exceeds. That is a function of public facts and
of the number of records, which is public or noisy.

Sums are exact: an entry is at most 1280^2 < 2^21 for each row, so 2^40 rows and the noise fit 64 bits.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import MOST_CORRELATED, MomentFacts
from sfumato.marginals import copula_model, structure
from sfumato.marginals.copula_model import CLIP, CopulaModel
from sfumato.marginals.junction_tree import Clique
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.counting import Binned, Reader
from sfumato.mechanisms.table.state import State, measure
from sfumato.numerics import lattice
from sfumato.numerics.types import Floats, Integers

STEPS = 1 << 9  # that a score of 1 has
_NOISE = 0.01  # on a correlation, that longer rows may bring
_BITS = 11  # of a score's steps
_TOGETHER = 1 << 19  # numbers of rows that are placed together


def check_variables(count: int) -> None:
    """Refuse a copula of so many variables that its correlations take too long to compute and to check."""
    if count > MOST_CORRELATED:
        raise ParameterError(f"method='copula' takes at most {MOST_CORRELATED:,} variables, got {count:,}: use 'tree'")


def fitted_copula(state: State) -> CopulaModel:
    """Pairs with the label that order categories, the second moment of scores, and the copula that follows."""
    ordering = _order_levels(state)
    masses, variables = _masses(state), len(state.bins)
    steps = [np.rint(copula_model.normal_scores(mass) * STEPS) for mass in masses]
    correlation = np.ones((1, 1))
    if variables > 1:
        share = state.shares.moment + (0.0 if ordering else state.shares.label_pairs)
        moment, deviation = _measured(state, steps, share)
        scores = [own / STEPS for own in steps]
        correlation = copula_model.correlations(moment, deviation, scores, masses)
    return CopulaModel(state.prepared.partition, state.bins, tuple(masses), correlation)


def _masses(state: State) -> list[Floats]:
    """The distribution of each variable over its bins, from all noisy tables that hold it."""
    held = [state.as_measured(table) for table in state.measured]
    return [structure.on_simplex(one.counts / state.records) for one in structure.pooled(state.sizes, held)]


# ---- the order of categories ----------------------------------------------------------------------------------------


def _order_levels(state: State) -> bool:
    """Number the bins of unordered variables by what the label is in each; whether that needed any pairs."""
    label, variables = state.label, state.prepared.partition.variables
    if label is None:
        return False
    unordered = {place for place, own in enumerate(variables) if not own.ordered and state.sizes[place] > 2}
    numbers = [place for place, own in enumerate(variables) if own.ordered] if label in unordered else []
    places = sorted({*numbers, *unordered} - {label})
    if not places:
        return False
    cliques: list[Clique] = [(min(place, label), max(place, label)) for place in places]
    exact = counting.count(state.rows, state.sizes, state.reader, cliques)
    measure(state, "label pair", dict(zip(cliques, exact, strict=True)), state.shares.label_pairs)
    if numbers:
        _renumber(state, label, _main_order([_means(state, place, label) for place in numbers], _masses(state)[label]))
    for place in sorted(unordered - {label}):
        _renumber(state, place, np.argsort(_means(state, label, place), kind="stable"))
    return True


def _means(state: State, scored: int, within: int) -> Floats:
    """The mean score of one variable in every bin of another, from the noisy table of the two."""
    columns = (min(scored, within), max(scored, within))
    table = next(table for table in state.measured if table.columns == columns)
    counts = np.maximum(np.moveaxis(table.counts, columns.index(within), 0), 0) + 1.0
    return np.asarray(counts @ copula_model.normal_scores(_masses(state)[scored]) / counts.sum(axis=1))


def _main_order(means: Sequence[Floats], masses: Floats) -> Integers:
    """The order of a label's levels along which the means of all numbers differ most: the first principal component."""
    centred = np.array(means) - (np.array(means) @ masses)[:, None]
    weighted = centred * np.sqrt(masses)
    first = np.linalg.svd(weighted, full_matrices=False)[0][:, 0]
    return np.argsort(first @ centred, kind="stable")


def _renumber(state: State, place: int, order: Integers) -> None:
    """Number the bins of a variable anew: the one that was order[0] becomes 0, also in noisy tables over bins."""
    for number, table in enumerate(state.measured):
        if not table.fine and place in table.columns:
            counts = np.take(table.counts, order, table.columns.index(place))
            state.measured[number] = dataclasses.replace(table, counts=counts)
    bins = state.bins[place]
    new = dataclasses.replace(bins, of_cell=np.argsort(order)[bins.of_cell])
    state.bins = (*state.bins[:place], new, *state.bins[place + 1 :])


# ---- the second moment ----------------------------------------------------------------------------------------------


def longest(state: State, share: float) -> int:
    """What the length of no row of scores may exceed, in steps, by the noise that a share of the budget leaves."""
    variables = len(state.bins)
    usual = math.isqrt(variables * STEPS**2)
    noise = _deviation(state, state.scales.moment(variables, usual, share))
    larger = min(max(_NOISE / noise, 1.0), CLIP**2)
    return math.isqrt(int(larger * variables * STEPS**2))


def _deviation(state: State, scale: float) -> float:
    """The deviation of the noise on a mean of products of two variables' scores."""
    root = 1.0 if state.scales.order == 1 else math.sqrt(2)
    return state.deviation(scale) / root / (state.records * STEPS**2)


def _measured(state: State, steps: Sequence[Floats], share: float) -> tuple[Floats, float]:
    """The mean of products of scores with noise, and the deviation of the noise off its diagonal."""
    variables = len(steps)
    top = longest(state, share)
    scale = state.scales.moment(variables, top, share)
    exact = state.rows.sum(functools.partial(_summed, state.reader, tuple(steps), top))
    noisy = state.meter.moment(exact.reshape(variables, variables), top, scale, "moment")
    sensitivity = state.scales.moves.moment(variables, top)
    state.moment = MomentFacts(scale=scale, sensitivity=sensitivity, longest=top, steps=STEPS)
    return noisy / (state.records * STEPS**2), _deviation(state, scale)


def _summed(read: Reader, steps: Sequence[Floats], top: int, _: int, block: Floats) -> Integers:
    """The exact sum of x x' over a block, one number after the other."""
    return lattice.gram(_pieces(read(block), steps, top), len(steps), _BITS).int64().ravel()


def _pieces(codes: Binned, steps: Sequence[Floats], top: int) -> Iterator[Floats]:
    size = max(1 << 8, _TOGETHER // len(steps))
    for start in range(0, len(codes[0]), size):
        yield placed([row[start : start + size] for row in codes], steps, top)


def placed(codes: Binned, steps: Sequence[Floats], top: int) -> Floats:
    """Rows as vectors of their bins' scores, (variables, rows): integers in doubles, none longer than ``top``."""
    rows = np.array([np.take(own, row) for own, row in zip(steps, codes, strict=True)])
    squares = np.einsum("ij,ij->j", rows, rows)
    longer = squares > top**2
    rows[:, longer] = np.trunc(rows[:, longer] * (top / np.sqrt(squares[longer])))
    rows[:, np.einsum("ij,ij->j", rows, rows) > top**2] = 0.0
    return rows
