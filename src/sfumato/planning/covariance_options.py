"""How well each way of releasing a covariance will do, before any data: standard errors of a variance, and a ranking.

The setting is a cube of equal columns whose corners are at the distance R from its centre, and a direction that leans
on all columns alike. Sensitivities and errors are those of the mechanism and of the analyst's formulas, not copies.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from sfumato import check
from sfumato.estimation.covariances import Noisy, kept
from sfumato.intervals.moments import NoiseLaw
from sfumato.mechanisms.covariance import (
    SKETCH_ROWS,
    Covariance,
    CovarianceNoise,
    PreparedCovariance,
    PreparedScatterSketch,
)
from sfumato.privacy.calibration import calibrate, least_level, near_level, replaced_guess
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.losses import ChiSquare
from sfumato.tables.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is to be released, and where.

    records, columns : n and d.
    longest          : R, the length that no row exceeds about the public centre.
    variance, mean   : of the records along the direction; the mean about the public centre.
    """

    records: int
    columns: int
    guarantee: Guarantee
    variance: float
    mean: float = 0.0
    longest: float = 1.0
    centred: bool = False

    def __post_init__(self) -> None:
        check.whole(1, records=self.records, columns=self.columns)
        check.positive(longest=self.longest)
        check.between(0, self.longest**2, variance=self.variance)
        check.between(-self.longest, self.longest, mean=self.mean)

    @property
    def schema(self) -> Schema:
        """The cube."""
        return _cube(self.columns, self.longest / math.sqrt(self.columns))


@functools.lru_cache(maxsize=4)
def _cube(columns: int, half: float) -> Schema:
    return Schema.reals(columns, low=-half, high=half)


@dataclass(frozen=True, slots=True)
class Option:
    """One of the three: its standard error, and how many times that of the best it is."""

    noise: CovarianceNoise
    standard_error: float
    times: float


@functools.lru_cache(maxsize=64)
def ridge(rows: int, epsilon: float, delta: float, *, neighbours: Neighbours = "add-remove", centred: bool) -> float:
    """The ridge that protects a sketch of as many rows, for records in the unit ball: the least, or a little above it.

    The number of records, where it is protected, costs a little more (``covariance.COUNT_SHARE``).
    """
    longest, family = 4.0 if centred else 1.0, functools.partial(_sketch_loss, rows, neighbours)
    if neighbours == "replace":
        return longest * near_level(family, epsilon, delta, replaced_guess(rows, epsilon, delta))
    return longest * least_level(family, epsilon, delta)


def _sketch_loss(rows: int, neighbours: Neighbours, level: float) -> ChiSquare:
    return ChiSquare(rows=rows, ratio=1 / level, neighbours=neighbours)


def standard_error(noise: CovarianceNoise, setting: Setting, rows: int | None = None) -> float:
    """Of the variance along a direction, as a sketch of ``rows`` rows or with the noise of one of the other two."""
    recipe = Covariance(noise=noise, centred=setting.centred, rows=rows if noise == "sketch" else None)
    prepared = recipe.prepare(setting.schema, setting.guarantee)
    level = _level(prepared)
    if isinstance(prepared, PreparedScatterSketch):
        return _sketched(prepared, setting, level)
    return _noisy(prepared, setting, level)


def _level(prepared: PreparedCovariance | PreparedScatterSketch) -> float:
    guarantee = prepared.guarantee
    if isinstance(prepared, PreparedScatterSketch) and guarantee.neighbours == "replace":
        centred = prepared.recipe.centred
        return ridge(prepared.draws, guarantee.epsilon, guarantee.delta, neighbours="replace", centred=centred)
    return calibrate(prepared, guarantee).level


def _sketched(prepared: PreparedScatterSketch, setting: Setting, level: float) -> float:
    """sqrt(2/r) of what is sketched, and the error of the number of records."""
    facts = prepared.facts(level, None)["mechanism"]
    whole = setting.variance * setting.records + facts["ridge"]
    count = setting.variance * math.sqrt(2) * facts.get("count_scale", 0.0)
    return math.hypot(math.sqrt(2 / prepared.draws) * whole, count) / setting.records


def _noisy(prepared: PreparedCovariance, setting: Setting, level: float) -> float:
    """The analyst's own formula, on the sums that the setting implies."""
    facts, dim = prepared.facts(level, None)["mechanism"], setting.columns
    counted = setting.guarantee.neighbours == "add-remove"
    direction, anchor = np.full(dim, 1 / math.sqrt(dim)), facts["anchor"]
    triangle = np.zeros((dim + 1) * (dim + 2) // 2)
    triangle[dim] = setting.records * anchor**2
    across = np.flatnonzero(np.triu_indices(dim + 1, 1)[1] == dim) + dim + 1
    triangle[across] = setting.records * setting.mean * anchor * direction
    view = Noisy(
        triangle[kept(dim, centred=setting.centred, counted=counted)],
        dim,
        NoiseLaw(facts["noise"], facts["standard_deviation"]),
        anchor,
        setting.centred,
        None if counted else setting.records,
    )
    return view.form(direction, direction, setting.variance)[0]


def ranking(setting: Setting, rows: int = SKETCH_ROWS) -> tuple[Option, ...]:
    """The ways of releasing that can promise the guarantee, the most accurate first.

    A sketch of many rows comes near Gaussian noise where variances are small, and falls behind as they grow, since its
    error is a share of them. It is positive by itself and holds rows times columns numbers.
    """
    pure = setting.guarantee.delta == 0
    choices: tuple[CovarianceNoise, ...] = ("laplace",) if pure else ("gaussian", "laplace", "sketch")
    errors = {noise: standard_error(noise, setting, rows) for noise in choices if _possible(noise, setting)}
    best = min(errors.values())
    return tuple(
        Option(noise, error, error / best) for noise, error in sorted(errors.items(), key=lambda pair: pair[1])
    )


def _possible(noise: CovarianceNoise, setting: Setting) -> bool:
    guarantee = setting.guarantee
    whole = guarantee.unit == "record" and guarantee.allowed_change.kind == "box" and guarantee.group == 1
    return noise != "sketch" or whole
