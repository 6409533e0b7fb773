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
from sfumato.answering.counting import PreparedCounting
from sfumato.answering.median import PreparedMedian
from sfumato.answering.multiplicative_weights import PreparedWeights
from sfumato.answering.mwem import PreparedMWEM
from sfumato.answering.sparse_vector import Scales
from sfumato.files import edges
from sfumato.mechanisms import responses
from sfumato.mechanisms.covariance import PreparedCovarianceSketch
from sfumato.mechanisms.distances import DistanceGrid, PreparedDistances
from sfumato.mechanisms.second_moment import CentredGrid
from sfumato.mechanisms.synthetic.stages import MeanStage, MomentStage
from sfumato.numerics.lattice import InputGrid, doubles
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.lattice_projection import LatticeProjection
from sfumato.projection.unit_ball import Frame
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


def _by_type() -> Context:
    """Whole numbers that come as doubles are not listed: one missing cell tells on a whole column of pandas."""
    honest = cells._category_from_numbers

    def read(array: Any, column: Any) -> Any:
        found = honest(array, column)
        return found if "int" in str(array.type) else np.where(np.isnan(found), found, -1.0)

    return mock.patch.dict(cells._FROM_NUMBERS, {"category": read})


_PAIRS = ("GraphSketch", "EdgeNoise, laplace", "EdgeNoise, gaussian", "EdgeResponse")
_BOTH = ("laplace", "gaussian")


def _lines(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}, {noise}" for name in names for noise in _BOTH)


_ROWS = _lines("Sketch", "ChosenSketch", "Components", "Covariance", "Synthetic", "NoisyDistances")
_COLUMN = ("Sketch, one column",)
_ATTAINED = ("Covariance, sketch", "RandomizedResponse", "Counting", "MWEM", "SparseVector")

TWINS = (
    Twin("noise halved", (*_ROWS, *_PAIRS, *_ATTAINED), _noise_halved),
    Twin("weights ignored", _lines("NoisyDistances", "Sketch", "Covariance"), _prepared_for(_unweighted)),
    Twin("group forgotten", (*_lines("Covariance", "Sketch", "Synthetic"), "MWEM", "Counting"), _prepared_for(_alone)),
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
    Twin("sensitivity halved", _lines("Sketch", "Components"), _halved(LatticeProjection, "sensitivity")),
    Twin("sensitivity halved", _lines("Covariance", "Components"), _halved(CentredGrid, "reach")),
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
    Twin("a column's type decides", ("reading a table",), _by_type),
)
