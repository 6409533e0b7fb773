"""How far a synthetic table will be from the real one, before any data are read: noise, bins, and total variation.

Noise scales, the choice of a method and bins come from the mechanism's own code. Noise of deviation s on a cell of h
records leaves it wrong by about .8 s, but by no more than it holds: .8 s h/(h + s). That is the error of one-way tables
and of measured pairs, up to constants. A pair outside the model is wrong by what the model does not say about it; how
many pairs it holds follows from its cells: cliques of k + 1 variables hold k m - k (k + 1)/2 pairs of m variables.
The constants are ``ErrorLaw``'s. They were chosen on Adult and Covertype, but for those of pairs, for which two tables
were not enough: NIST's excerpt had a part in them (``experiments/table_plans.py``).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.marginals import binning
from sfumato.marginals.binning import WantedBins
from sfumato.marginals.partition import Variable
from sfumato.mechanisms.table import methods
from sfumato.mechanisms.table.budget import TableScales
from sfumato.mechanisms.table.methods import MethodChoice
from sfumato.mechanisms.table.one_ways import spread, wanted
from sfumato.mechanisms.table.recipe import PreparedTable
from sfumato.mechanisms.table.state import ITERATIONS
from sfumato.numerics.types import Floats
from sfumato.planning import table_prior
from sfumato.planning.table_prior import Shape

_PAIRS = 120  # that two-way errors are averaged over, at most
_ABSOLUTE = math.sqrt(2 / math.pi)  # the mean absolute value of a normal number of deviation 1
_START, _READ, _COUNT, _FIT = 0.5, 2e-6, 4e-9, 4e-9  # seconds; for a record; for it and a pair; for a cell's step


@dataclass(frozen=True, slots=True)
class ErrorLaw:
    """Constants of the forecast.

    levels, numbers : error of a one-way table over that of noise on its cells, of levels and of numbers.
    pair            : likewise of a pair, with the noise of a table that a round chooses.
    ones, tree_ones : what one-way errors add to that of a pair, where pairs are chosen in rounds and in a tree.
    apart           : of a pair outside the model: of two levels, of a level and a number, of two numbers.
    binned          : of a pair within it, for each number.
    tree            : of a pair outside a tree.
    """

    levels: float = 0.7
    numbers: float = 0.9
    pair: float = 1.0
    ones: float = 0.3
    tree_ones: float = 0.5
    apart: tuple[float, float, float] = (0.02, 0.025, 0.1)
    binned: float = 0.014
    tree: float = 0.18


LAW = ErrorLaw()


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """What a run would do with so many records.

    bins        : expected of each variable.
    noise       : its standard deviation in records, by the kind of table; of several tables, the median.
    pair_cells  : of all pairs together; model_cells: of the model.
    held        : the part of all pairs that lie in the model.
    one_way     : expected mean total variation of tables of one column; two_way: of two.
    """

    choice: MethodChoice
    bins: tuple[float, ...]
    noise: Mapping[str, float]
    pair_cells: float
    model_cells: float
    held: float
    one_way: float
    two_way: float
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedVariable:
    """A variable of a table before any data: its shapes, the bins of each, and their one-way errors."""

    shapes: tuple[Shape, ...]
    bins: tuple[int, ...]
    errors: tuple[float, ...]

    def mean(self, values: Sequence[float]) -> float:
        """The mean of values, one for each shape."""
        return math.fsum(shape.weight * value for shape, value in zip(self.shapes, values, strict=True))


def forecast(
    prepared: PreparedTable, scales: TableScales, records: int, zeros: float | None = None, law: ErrorLaw = LAW
) -> Forecast:
    """The forecast of a run on so many records; nothing is read."""
    count, recipe = len(prepared.partition.variables), prepared.recipe
    choice = methods.chosen(recipe, count, scales, records)
    label = None if recipe.label is None else prepared.partition.place(recipe.label)
    one = scales.deviation(scales.alike(count, choice.shares.one_ways))
    want = wanted(records, spread(scales, choice.shares, count), one)
    found = _expected(prepared.partition.variables, label, zeros, one, want, law)
    bins = tuple(each.mean(each.bins) for each in found)
    typical, noise = _pair_noise(scales, choice, bins, label)
    held, cells = _model(bins, choice, recipe.cells, label)
    errors = [_pair_error(found[i], found[j], records, noise.get((i, j)), held, law) for i, j in _sampled_pairs(count)]
    one_way = float(np.mean([each.mean(each.errors) for each in found]))
    two_way = float(np.mean(errors)) if errors else 0.0
    pairs = (math.fsum(bins) ** 2 - math.fsum(b * b for b in bins)) / 2
    seconds = _seconds(choice, count, records, cells)
    return Forecast(choice, bins, {"one-way": one} | typical, pairs, cells, held, one_way, two_way, seconds)


def _expected(
    variables: Sequence[Variable],
    label: int | None,
    zeros: float | None,
    deviation: float,
    want: WantedBins,
    law: ErrorLaw,
) -> list[ExpectedVariable]:
    """What is expected of each variable; variables of the same cells share it."""
    known: dict[object, ExpectedVariable] = {}
    found = []
    for place, variable in enumerate(variables):
        key = (table_prior.key(variable), place == label)
        if key not in known:
            shapes = table_prior.shapes(variable, zeros)
            bins = [_bins(variable, shape, deviation, want, whole=place == label) for shape in shapes]
            errors = [_one_way_error(shape, want.records, deviation, law) for shape in shapes]
            known[key] = ExpectedVariable(shapes, tuple(bins), tuple(errors))
        found.append(known[key])
    return found


def _bins(variable: Variable, shape: Shape, deviation: float, want: WantedBins, *, whole: bool) -> int:
    """How many bins the mechanism would make of made-up counts of this shape, with noise."""
    noise = np.random.default_rng(variable.size).standard_normal(variable.size)
    counts = np.rint(want.records * shape.shares + deviation * noise)
    return binning.bins(variable, counts, deviation, want, whole=whole).size


def _one_way_error(shape: Shape, records: float, deviation: float, law: ErrorLaw) -> float:
    """Expected total variation of a one-way table."""
    cells = shape.one_way
    error = _noise_error(records * cells.shares, deviation * np.sqrt(cells.fine), cells.alike) / records
    return (law.numbers if shape.number else law.levels) * error


def _noise_error(counts: Floats, deviation: Floats | float, alike: Floats) -> float:
    """Half the expected absolute error of counts with noise of a deviation, none wrong by more than it holds."""
    wrong = _ABSOLUTE * deviation * counts / np.maximum(counts + deviation, 1e-300)
    return float((alike * wrong).sum() / 2)


def _sampled_pairs(count: int) -> list[tuple[int, int]]:
    """All pairs of so many variables, or some that are drawn publicly."""
    every = list(itertools.combinations(range(count), 2))
    if len(every) <= _PAIRS:
        return every
    return [every[place] for place in np.random.default_rng(0).choice(len(every), _PAIRS, replace=False)]


def _pair_noise(
    scales: TableScales, choice: MethodChoice, bins: Sequence[float], label: int | None
) -> tuple[dict[str, float], dict[tuple[int, int], float]]:
    """Deviations of noise: the median by kinds of tables, and of each pair, but in a tree.

    Rounds choose as many tables as there are variables. A pair gets the noise that it would have if it were chosen.
    """
    shares, every = choice.shares, list(itertools.combinations(range(len(bins)), 2))
    beside = [pair for pair in every if label in pair] if shares.label_pairs > 0 else []
    others = [pair for pair in every if label not in pair] if beside else every
    typical: dict[str, float] = {}
    found: dict[tuple[int, int], float] = {}
    chosen = shares.rounds[0][1] * len(others) / len(bins) if shares.rounds and choice.method == "pairs" else 0.0
    groups = ("pair", others, shares.pairs), ("chosen", others, chosen), ("label pair", beside, shares.label_pairs)
    for name, pairs, share in groups:
        if pairs and share > 0:
            noise = [scales.deviation(s) for s in scales.tables([bins[i] * bins[j] for i, j in pairs], share)]
            typical[name] = float(np.median(noise))
            found |= dict(zip(pairs, noise, strict=True)) if choice.method != "tree" else {}
    if shares.rounds and every and choice.method == "tree":
        typical["chosen"] = scales.deviation(scales.alike(len(bins), shares.rounds[0][1]))
    return typical, found


def _model(bins: Sequence[float], choice: MethodChoice, limit: float, label: int | None) -> tuple[float, float]:
    """The part of all pairs that the model holds, and its cells: a clique for each variable, as large as cells allow.

    A tree has a pair for each variable, or three variables where the label is one.
    """
    count = len(bins)
    if count < 2:
        return 1.0, math.fsum(bins)
    size = math.exp(math.fsum(math.log(max(b, 1.0)) for b in bins) / count)
    degree = 1.0 if label is None else 2.0
    if choice.method != "tree":
        degree = math.log(max(limit / count, 2.0)) / math.log(max(size, 1.5)) - 1
    degree = min(max(degree, 1.0), count - 1.0)
    pairs = degree * count - degree * (degree + 1) / 2
    return min(pairs / (count * (count - 1) / 2), 1.0), min((count - degree) * size ** (degree + 1), limit)


def _pair_error(
    first: ExpectedVariable,
    second: ExpectedVariable,
    records: float,
    deviation: float | None,
    held: float,
    law: ErrorLaw,
) -> float:
    """Expected total variation of a table of two variables; ``deviation``: of its noise, where all are measured."""
    total = 0.0
    for (a, one), (b, other) in itertools.product(
        zip(first.shapes, first.errors, strict=True), zip(second.shapes, second.errors, strict=True)
    ):
        x, y, numbers = a.two_way, b.two_way, a.number + b.number
        dependent = math.sqrt(x.diversity * y.diversity)
        if deviation is None:
            error = math.hypot(law.tree_ones * (one + other), (1 - held) * law.tree * dependent)
        else:
            counts, alike = records * np.outer(x.shares, y.shares), np.outer(x.alike, y.alike)
            noise = law.pair * _noise_error(counts, deviation, alike) / records
            model = (1 - held) * law.apart[numbers] + held * numbers * law.binned
            error = math.hypot(noise, law.ones * (one + other), model * dependent)
        total += a.weight * b.weight * min(error, 1.0)
    return total


def _seconds(choice: MethodChoice, count: int, records: float, cells: float) -> float:
    """About how long a run takes on two cores: reading and counting in each pass, and fitting after it."""
    passes = 1 + (0 if choice.method == "tree" else len(choice.shares.rounds))
    counting = passes * records * (_READ + _COUNT * count * (count - 1) / 2)
    return _START + counting + _FIT * cells * ITERATIONS * (passes + 0.5)
