"""Broken twins: mechanisms that do not keep their promise, each by one mistake, which the search has to find.

A twin is a context in which the mistake is made, and the lines of the table whose mechanisms make it.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from refute import levels
from sfumato.aggregates import selection, sharing
from sfumato.aggregates.exposure import Exposure, Norms
from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.aggregates.quantiles import CountTree
from sfumato.aggregates.statistics import Grid, Moments, PublicSpread, Totalled
from sfumato.answering.counting import PreparedCounting
from sfumato.answering.median import PreparedMedian
from sfumato.answering.multiplicative_weights import PreparedWeights
from sfumato.answering.mwem import PreparedMWEM
from sfumato.answering.sparse_vector import Scales
from sfumato.files import edges
from sfumato.mechanisms import responses
from sfumato.mechanisms.covariance import PreparedCovarianceSketch
from sfumato.mechanisms.distances import DistanceGrid, PreparedDistances
from sfumato.mechanisms.histogram import PreparedHistogram
from sfumato.mechanisms.second_moment import CentredGrid
from sfumato.mechanisms.synthetic.stages import MeanStage, MomentStage
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.budget import Meter, TableMoves, TableScales
from sfumato.numerics.lattice import InputGrid, doubles
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.lattice_projection import LatticeProjection
from sfumato.projection.unit_ball import Frame
from sfumato.streams.factorisation import SquareRoot, Tree
from sfumato.tables import cells, lists
from sfumato.tables.schema import Schema

Context = contextlib.AbstractContextManager[Any]


@dataclass(frozen=True, slots=True)
class Twin:
    """A mistake, and who makes it."""

    mistake: str
    lines: tuple[str, ...]
    made: Callable[[], Context]


def _replaced(owner: Any, name: str, value: Any) -> Context:
    """Something else in the place of an attribute."""
    return mock.patch.object(owner, name, value)


def _halved(owner: Any, name: str) -> Callable[[], Context]:
    """A property or a function whose value is half of what it should be."""
    honest = owner.__dict__[name]
    if isinstance(honest, property):
        getter = honest.fget
        return lambda: _replaced(owner, name, property(lambda self: getter(self) / 2))  # type: ignore[misc]
    return lambda: _replaced(owner, name, lambda *given, **named: honest(*given, **named) / 2)


# ---- what every mechanism can get wrong -----------------------------------------------------------------------------


def _noise_halved() -> Context:
    honest = levels.level
    return _replaced(levels, "level", lambda ready, guarantee: honest(ready, guarantee) / 2)


def _prepared_for(change: Callable[[Any, Guarantee], tuple[Any, Guarantee]]) -> Callable[[], Context]:
    """Prepared for another schema or guarantee than the neighbours are of."""
    honest = levels.prepared
    return lambda: _replaced(levels, "prepared", lambda recipe, of, promise: honest(recipe, *change(of, promise)))


def _unweighted(of: Schema, promise: Guarantee) -> tuple[Schema, Guarantee]:
    return replace(of, columns=tuple(replace(column, weight=1.0) for column in of.data_columns)), promise


def _alone(of: Any, promise: Guarantee) -> tuple[Any, Guarantee]:
    return of, replace(promise, group=1)


# ---- clips that are left out ----------------------------------------------------------------------------------------


def _unclipped_input(grid: InputGrid, columns: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """What is beyond the bounds stays so, as far as a few times their width."""
    steps = (doubles(columns, np.empty(columns.shape)) - grid.low[:, None]) * grid._per_unit[:, None]
    return np.rint(np.clip(np.nan_to_num(steps), -(2.0**22), 2.0**22), out=out)


def _unclipped_square(grid: DistanceGrid, block: np.ndarray) -> np.ndarray:
    plain = np.clip(block, -1e7, 1e7) - grid.encoding.low[:, None]
    return np.rint(plain * (grid.encoding.weights / grid.step)[:, None])


def _not_normed(schema: Schema, block: np.ndarray) -> np.ndarray:
    return np.fmin(np.fmax(block, schema.encoding.low[:, None]), schema.encoding.high[:, None])


def _not_shortened(schema: Schema, block: np.ndarray) -> np.ndarray:
    """Vectors as long as they came, within their bounds."""
    return _not_normed(schema, block) if schema.norm is None else _CLIP(schema, block)


_CLIP = Schema.clip


def _all_items() -> Context:
    """A set has as many items as it came with."""
    honest = lists._fill_set
    return _replaced(lists, "_fill_set", lambda b, a, column: honest(b, a, replace(column, most=column.width)))


def _not_normalised(frame: Frame, block: np.ndarray) -> np.ndarray:
    """Rows that are clipped to their bounds, and then taken to lie within the ball, each column by itself."""
    inside = np.fmin(np.fmax(block, frame.low[:, None]), frame.high[:, None]) - frame.origin[:, None]
    furthest = np.maximum(np.abs(frame.low - frame.origin), np.abs(frame.high - frame.origin))
    return np.rint(inside / furthest[:, None] * frame.one)


def _not_bounded(block: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(np.nan_to_num(block), 0.0, 2.0) * 2.0**20)


# ---- sensitivities that are too small -------------------------------------------------------------------------------


def _level_forgotten() -> Context:
    """A missing cell moves a number or its level, and not both."""
    honest = LatticeProjection._group

    def moved(projection: Any, group: Any, order: Any, norms: Any) -> float:
        own = float(norms[group.start : group.stop].max()) * 2.0**projection.input_bits
        return own if group.level else honest(projection, group, order, norms)

    return _replaced(LatticeProjection, "_group", moved)


def _one_positive() -> Context:
    honest = Scales.of.__func__  # type: ignore[attr-defined]

    def one(cls: type[Scales], epsilon: float, positives: int, sensitivity: int, *, monotone: bool) -> Any:
        del positives
        return honest(cls, epsilon, 1, sensitivity, monotone=monotone)

    return _replaced(Scales, "of", classmethod(one))


def _undivided(owner: type[PreparedWeights | PreparedMedian], parts: str) -> Callable[[], Context]:
    """What is measured again and again gets the budget of measuring it once."""
    honest = owner.__dict__["parts"]

    def found(ready: Any, level: float) -> Any:
        plain, times = honest(ready, level), ready.hard if parts == "hard" else ready.recipe.updates
        return replace(plain, measuring=plain.measuring / times)

    def loss(ready: Any, level: float) -> Any:
        with mock.patch.object(owner, "parts", honest):
            return stated(ready, level)

    stated = owner.__dict__["loss"]

    @contextlib.contextmanager
    def made() -> Iterator[None]:
        with _replaced(owner, "parts", found), mock.patch.object(owner, "loss", loss):
            yield

    return made


def _one_column() -> Context:
    honest = responses._changed
    return _replaced(responses, "_changed", lambda answers, guarantee: honest(answers, guarantee)[:1])


@contextlib.contextmanager
def _one_table() -> Iterator[None]:
    """Each one-way table is drawn as if it were the only one, and none is charged."""
    honest = TableScales.alike
    alone = _replaced(TableScales, "alike", lambda scales, _tables, share: honest(scales, 1, share))
    with alone, _replaced(Meter, "_charge", lambda *_: None):
        yield


def _counted_twice() -> Context:
    honest = counting.tables
    return _replaced(counting, "tables", lambda *given: 2 * honest(*given))


def _as_if_removed(moves: TableMoves) -> float:
    return float(moves.group)


# ---- questions with aggregates --------------------------------------------------------------------------------------


def _unclipped_cells(grid: Grid, cells: np.ndarray) -> np.ndarray:
    """Cells beyond the bounds stay so, as far as a few times their width."""
    width = grid.high - grid.low
    with np.errstate(over="ignore"):
        return np.rint(np.clip(np.nan_to_num((cells - grid.low) / width), -2.0, 3.0) * grid.steps)


def _one_group(exposure: Exposure, low: int, high: int) -> Norms:
    """A record that is replaced leaves one group, and enters none."""
    most = exposure.group * max(abs(low), abs(high), high - low)
    return Norms(most, float(most))


def _never_replaced(exposure: Exposure, whole: int) -> Norms:
    return Norms(exposure.group * whole, float(exposure.group * whole))


def _third_of_spread(statistic: PublicSpread, exposure: Exposure) -> Norms:
    most = max(1, exposure.group * statistic.grid.steps**2 // 3)
    return Norms(most, float(most))


def _width_alone(total: Totalled, exposure: Exposure) -> Norms:
    """A sum moves by the width of the bounds, as if no record came or went."""
    most = exposure.group * total.grid.steps
    return Norms(most, float(most))


def _without_number(moments: Moments, exposure: Exposure) -> Norms:
    """Centred moments of which the number of records is forgotten."""
    return _CENTRED(moments, exposure) if not moments.centred else Norms(*(_one(moments, exposure),) * 2)


def _one(moments: Moments, exposure: Exposure) -> int:
    return int(exposure.group * moments.whole)


_CENTRED = Moments.moves


def _half_drawn(noise: NoiseScale, exact: np.ndarray, secret: Any, *context: Any) -> np.ndarray:
    """Noise of half the scale."""
    return _ADDED(replace(noise, scale=noise.scale / 2), exact, secret, *context)


_ADDED = NoiseScale.added


def _off_by_one(filled: np.ndarray, counts: np.ndarray, cells: int, order: Any) -> tuple[np.ndarray, np.ndarray]:
    """Scores about a whole rank, the next above that of the quantile: it moves by 1 or 0 as records come and go."""
    rank = -(-order.numerator * int(counts.sum()) // order.denominator)
    whole = np.zeros(cells, np.int64)
    whole[filled] = counts
    below = np.cumsum(whole)
    return -order.denominator * np.abs(below - rank), np.ones(cells, np.int64)


def _one_level(tree: CountTree, exposure: Exposure) -> Norms:
    """A tree whose record is in one node, and not in one of each level."""
    del tree
    return exposure.of_shares(1)


def _all_of_it(variances: Any, _power: float) -> list[float]:
    return [1.0] * len(variances)


def _by_type() -> Context:
    """Whole numbers that come as doubles are not listed: one missing cell tells on a whole column of pandas."""
    honest = cells._category_from_numbers

    def read(array: Any, column: Any) -> Any:
        found = honest(array, column)
        return found if "int" in str(array.type) else np.where(np.isnan(found), found, -1.0)

    return mock.patch.dict(cells._FROM_NUMBERS, {"category": read})


def _one_measurement(method: Any) -> Callable[[], Context]:
    """A record that is taken to enter the measurement of its own period, and no other."""
    return lambda: _replaced(method, "squared_norm", lambda self, _horizon: self.whole**2)


_STREAMS = ("Stream, histogram", "Stream, covariance", "Stream, synthetic")
_PAIRS = ("GraphSketch", "EdgeNoise, laplace", "EdgeNoise, gaussian", "EdgeResponse")
_BOTH = ("laplace", "gaussian")


def _lines(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}, {noise}" for name in names for noise in _BOTH)


_ROWS = _lines(
    "Sketch", "ChosenSketch", "Components", "Covariance", "Histogram", "Synthetic", "NoisyDistances", "Table"
)
_TABLES = ("Table, gaussian", "Table, laplace")
_COLUMN, _SPACE = ("Sketch, one column",), ("Sketch, shared space",)
_QUESTIONS = ("Question, gaussian", "Question, laplace")
_OF_ONE = ("Question, one column",)
_QUANTILES = ("Question, quantiles",)
_ATTAINED = ("Covariance, sketch", "RandomizedResponse", "Counting", "MWEM", "SparseVector")

TWINS = (
    Twin("noise halved", (*_ROWS, *_PAIRS, *_ATTAINED, *_SPACE), _noise_halved),
    Twin("weights ignored", _lines("NoisyDistances", "Sketch", "Covariance"), _prepared_for(_unweighted)),
    Twin(
        "group forgotten",
        (*_lines("Covariance", "Histogram", "Sketch", "Synthetic"), "MWEM", "Counting"),
        _prepared_for(_alone),
    ),
    Twin("clip left out", _lines("Sketch"), lambda: _replaced(InputGrid, "round", _unclipped_input)),
    Twin("clip left out", _lines("NoisyDistances"), lambda: _replaced(DistanceGrid, "round", _unclipped_square)),
    Twin("clip of rows left out", _lines("Covariance"), lambda: _replaced(Schema, "clip", _not_normed)),
    Twin("vectors not shortened", _COLUMN, lambda: _replaced(Schema, "clip", _not_shortened)),
    Twin("items of a set not limited", _COLUMN, _all_items),
    Twin("length of a vector halved", _COLUMN, _halved(LatticeProjection, "_group_length")),
    Twin("level of missing cells forgotten", _COLUMN, _level_forgotten),
    Twin("rows not normalised", ("Synthetic, gaussian",), lambda: _replaced(Frame, "place", _not_normalised)),
    Twin(
        "clip of weights left out",
        ("EdgeNoise, laplace", "EdgeNoise, gaussian"),
        lambda: _replaced(edges, "_WEIGHTS", mock.Mock(round=_not_bounded)),
    ),
    Twin("sensitivity halved", (*_lines("Sketch", "Components"), *_SPACE), _halved(LatticeProjection, "sensitivity")),
    Twin("sensitivity halved", _lines("Covariance", "Components"), _halved(CentredGrid, "reach")),
    Twin("sensitivity halved", _lines("Histogram"), _halved(PreparedHistogram, "reach")),
    Twin("sensitivity halved", _lines("NoisyDistances"), _halved(PreparedDistances, "sensitivity")),
    Twin("sensitivity of the mean halved", _lines("Synthetic"), _halved(MeanStage, "sensitivity")),
    Twin("sensitivity of the moments halved", _lines("Synthetic"), _halved(MomentStage, "sensitivity")),
    Twin("sensitivity halved", ("Counting",), _halved(PreparedCounting, "sensitivity")),
    Twin("scores moved by half", ("MWEM",), lambda: _replaced(PreparedMWEM, "score_move", property(lambda _: 1))),
    Twin("agreement moved by half", ("Median, as printed",), _halved(PreparedMedian, "agreement_move")),
    Twin("centred as if not", ("Covariance, sketch",), lambda: _replaced(PreparedCovarianceSketch, "_stretch", 1.0)),
    Twin("positives not counted", ("SparseVector",), _one_positive),
    Twin("updates not counted", ("Weights",), _undivided(PreparedWeights, "updates")),
    Twin("hard answers not counted", ("Median",), _undivided(PreparedMedian, "hard")),
    Twin("one column counted", ("RandomizedResponse",), _one_column),
    Twin("one table counted", _TABLES, _one_table),
    Twin("records counted twice", _TABLES, _counted_twice),
    Twin("replaced as if removed", _TABLES, lambda: _replaced(TableMoves, "table", property(_as_if_removed))),
    Twin("noise halved", _QUESTIONS, lambda: _replaced(NoiseScale, "added", _half_drawn)),
    Twin("group forgotten", _QUESTIONS, _prepared_for(_alone)),
    Twin("clip left out", _QUESTIONS, lambda: _replaced(Grid, "places", _unclipped_cells)),
    Twin("one group counted", _QUESTIONS, lambda: _replaced(Exposure, "of_number", _one_group)),
    Twin("replaced as if removed", _QUESTIONS, lambda: _replaced(Exposure, "of_shares", _never_replaced)),
    Twin("all of the budget for each aggregate", _QUESTIONS, lambda: _replaced(sharing, "_shares", _all_of_it)),
    Twin("rank of a quantile off by one", _QUANTILES, lambda: _replaced(selection, "scores", _off_by_one)),
    Twin("one level of a tree counted", _QUANTILES, lambda: _replaced(CountTree, "moves", _one_level)),
    Twin("a third of the spread", _OF_ONE, lambda: _replaced(PublicSpread, "moves", _third_of_spread)),
    Twin(
        "records that come and go forgotten",
        (*_OF_ONE, *_QUESTIONS),
        lambda: _replaced(Totalled, "moves", _width_alone),
    ),
    Twin("number of records forgotten", _OF_ONE, lambda: _replaced(Moments, "moves", _without_number)),
    Twin("noise halved", _STREAMS, _noise_halved),
    Twin("group forgotten", _STREAMS, _prepared_for(_alone)),
    Twin("one measurement counted, square root", _STREAMS, _one_measurement(SquareRoot)),
    Twin("one measurement counted, tree", _STREAMS, _one_measurement(Tree)),
    Twin("a column's type decides", ("reading a table",), _by_type),
)
