"""Options that publish a covariance: how well each way of releasing one will do, before any data is read.

Beside noise on the second moment, and a sketch of it, stands noise on every record (input perturbation), to show what
that costs. The setting is a cube of equal columns whose corners are at the distance R from its centre, and a direction
that leans on all columns alike. Sensitivities and errors are those of the mechanism and of the analyst's formulas, not
copies.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.estimation.covariances import Noisy, kept
from sfumato.intervals.moments import NoiseLaw
from sfumato.mechanisms.base import settled
from sfumato.mechanisms.covariance import (
    SKETCH_ROWS,
    Covariance,
    CovarianceNoise,
    PreparedCovariance,
    PreparedCovarianceSketch,
)
from sfumato.planning import forecast, per_record
from sfumato.planning.option import Option, PlanRequest
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
    centred: bool = True

    def __post_init__(self) -> None:
        check.whole(1, records=self.records, columns=self.columns)
        check.positive(longest=self.longest)
        check.between(0, self.longest**2, variance=self.variance)
        check.between(-self.longest, self.longest, mean=self.mean)

    @property
    def schema(self) -> Schema:
        """The cube of columns in which the covariance is forecast."""
        return _cube(self.columns, self.longest / math.sqrt(self.columns))


@functools.lru_cache(maxsize=4)
def _cube(columns: int, half: float) -> Schema:
    return Schema.reals(columns, low=-half, high=half)


@functools.lru_cache(maxsize=64)
def ridge(rows: int, guarantee: Guarantee, *, centred: bool) -> float:
    """The ridge that a covariance sketch of as many rows would need to be private.

    The ridge that protects a sketch of as many rows, for records in the unit ball: the least, or a little above it.

    The number of records, where it is protected, costs a little more (``covariance.COUNT_SHARE``).
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    longest, family = 4.0 if centred else 1.0, functools.partial(_sketch_loss, rows, guarantee.neighbours)
    if guarantee.neighbours == "replace":
        return longest * near_level(family, epsilon, delta, replaced_guess(rows, epsilon, delta))
    return longest * least_level(family, epsilon, delta)


def _sketch_loss(rows: int, neighbours: Neighbours, level: float) -> ChiSquare:
    return ChiSquare(rows=rows, ratio=1 / level, neighbours=neighbours)


def standard_error(noise: CovarianceNoise, setting: Setting, rows: int | None = None) -> float:
    """Predicted standard error of a variance along a direction of the covariance.

    Of the variance along a direction, as a sketch of ``rows`` rows or with the noise of one of the other two.
    """
    recipe = Covariance(noise=noise, centred=setting.centred, rows=rows if noise == "sketch" else None)
    prepared = recipe.prepare(setting.schema, setting.guarantee)
    level = _level(prepared)
    if isinstance(prepared, PreparedCovarianceSketch):
        return _sketched(prepared, setting, level)
    return _noisy(prepared, setting, level)


def _level(prepared: PreparedCovariance | PreparedCovarianceSketch) -> float:
    guarantee = prepared.guarantee
    if isinstance(prepared, PreparedCovarianceSketch) and guarantee.neighbours == "replace":
        return ridge(prepared.draws, guarantee, centred=prepared.recipe.centred)
    return calibrate(prepared, guarantee).level


def _sketched(prepared: PreparedCovarianceSketch, setting: Setting, level: float) -> float:
    """Predicted error of a sketched covariance.

    sqrt(2/r) of what is sketched, and the error of the number of records.
    """
    facts = prepared.facts(level, None)["mechanism"]
    whole = setting.variance * setting.records + facts["ridge"]
    count = setting.variance * math.sqrt(2) * facts.get("count_scale", 0.0)
    return math.hypot(math.sqrt(2 / prepared.draws) * whole, count) / setting.records


def _noisy(prepared: PreparedCovariance, setting: Setting, level: float) -> float:
    """Predicted error of a noisy covariance: the analyst's own formula, on the sums that the setting implies."""
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


def _sketch_protects(guarantee: Guarantee) -> bool:
    """Whether a covariance sketch can promise the guarantee: whole records one at a time, and delta > 0."""
    whole = guarantee.unit == "record" and guarantee.allowed_change.kind == "box" and guarantee.group == 1
    return whole and guarantee.delta > 0


# ---- options of a plan -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpreadErrors:
    """Of an estimated variance along a direction: from noise on the sums, a sketch of them, or noise on every record.

    fixed, share : a standard error of fixed + share * variance (noise on sums has no share, a sketch sqrt(2/r)).
    law, rows    : noise on each of so many records instead.
    """

    fixed: float = 0.0
    share: float = 0.0
    law: NoiseLaw | None = None
    rows: int = 1

    def variance(self, quantity: float) -> float:
        """Predicted variance of the estimated variance along a direction."""
        if self.law is None:
            return (self.fixed + self.share * quantity) ** 2
        return (4 * self.law.variance * quantity + self.law.fourth * self.law.variance**2) / self.rows

    def mistake(self, distance: float) -> float:
        """Clustering mistakes have no meaning for covariances."""
        del distance
        return math.nan


def options(request: PlanRequest) -> Iterator[Option]:
    """Options of a plan that publish a covariance.

    Noise on the second moment, a sketch of it, and noise on every record; as if all columns were equally wide. About
    the mean, as releases are by default, for columns whose mean is the middle of their bounds.
    """
    yield from _input_noise(request)
    guarantee, records = replace(request.guarantee, projection="fixed"), request.rows
    assert records is not None
    columns, longest = request.widths.dim, request.widths.length / 2
    if request.schema is not None and request.schema.norm_bound is not None:
        longest = min(2 * longest, request.schema.norm_bound)  # about the origin then, not the middle
    setting = Setting(records=records, columns=columns, guarantee=guarantee, variance=0.0, longest=longest)
    for noise in forecast.noises(guarantee):
        try:
            fixed = standard_error(noise, setting)
        except ParameterError:  # too many columns, or a change that it does not protect
            continue
        numbers = columns * (columns + 1) // 2 + columns
        yield _covariance(Covariance(noise=noise), guarantee, columns, SpreadErrors(fixed), numbers)
    if _sketch_protects(guarantee):
        rows, share = SKETCH_ROWS, math.sqrt(2 / SKETCH_ROWS)
        needed = (2 * longest) ** 2 * forecast.ridge_level(rows, guarantee)  # about the mean: vectors twice as long
        recipe = Covariance(noise="sketch", rows=rows)
        yield _covariance(recipe, guarantee, rows, SpreadErrors(share * needed / records, share), rows * columns)


def _covariance(recipe: Covariance, guarantee: Guarantee, dimension: int, errors: SpreadErrors, numbers: int) -> Option:
    return Option(
        mechanism=recipe,
        guarantee=guarantee,
        name="covariance",
        family="",
        dimension=dimension,
        noise=settled(recipe.noise),
        noise_scale=errors.fixed,
        numbers=numbers,
        errors=errors,
    )


def _input_noise(request: PlanRequest) -> Iterator[Option]:
    """Options for a covariance by noise on every record: sketches without projection, whose noise averages out."""
    if request.guarantee.neighbours != "replace" or request.rows is None:
        return
    whole = replace(request, guarantee=replace(request.guarantee, projection="fixed"), purpose="distances")
    for option in per_record.sketches(whole):
        if option.family == "identity" and isinstance(option.errors, per_record.SketchErrors):
            yield replace(option, errors=SpreadErrors(law=option.errors.law.noise, rows=request.rows))
