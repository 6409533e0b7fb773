"""Options that publish something for every record: sketches, randomized response, noise on distances."""

import functools
import math
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy

from sfumato.errors import ParameterError
from sfumato.estimation import response_columns
from sfumato.estimation.response_columns import ResponseColumn
from sfumato.estimation.response_law import Between, Channel, Questionnaire
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.mechanisms.base import Noise, effective_change
from sfumato.mechanisms.distances import MOST_ROWS, NoisyDistances
from sfumato.mechanisms.responses import RandomizedResponse, response_loss
from sfumato.mechanisms.sketch import Sketch
from sfumato.numerics.types import Order
from sfumato.planning import forecast
from sfumato.planning.option import Option, PlanRequest
from sfumato.privacy.calibration import least_level
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.families import Family
from sfumato.randomness.randomized_choice import LARGEST_EPSILON

_EXACT_WORK = 1 << 20  # projections of at most this many entries are drawn to know their sensitivity exactly
_SMALL_WORK, _DRAWS = 1 << 14, 15  # smaller ones several times, to find a typical one


# ---- sketches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SketchErrors:
    """Of a sketch, for differences spread over the columns, or for flags."""

    law: SketchLaw
    flags: bool = False

    def variance(self, quantity: float) -> float:
        """Predicted variance of a squared distance estimated from a sketch of every record.

        Of an estimated squared distance: ||v||_4^4 is ||v||^2 for flags and at least ||v||^4/d for any v.
        """
        fourth = quantity if self.flags else quantity**2 / self.law.geometry.dim_in
        return float(self.law.distance_variance(quantity, fourth))

    def mistake(self, distance: float) -> float:
        """Predicted share of records that clusters of a sketch misplace.

        Pr[noise along the line of centres > half their distance], averaged over how the projection stretches it.
        """
        if self.law.fixed:
            stretches, weights = np.ones(1), np.ones(1)
        else:
            geometry = self.law.geometry
            family = "orthonormal" if geometry.family == "orthonormal" else "gaussian"
            stretches, weights = forecast.stretch(Geometry(family, geometry.dim_in, geometry.dim_out))
        return float(np.sum(weights * scipy.special.ndtr(-distance * stretches / (2 * self.law.noise.scale))))


_FIXED: tuple[Family, ...] = ("identity", "sparse", "rademacher", "orthonormal", "gaussian", "achlioptas")
_QUICK: tuple[Family, ...] = ("identity", "sparse", "orthonormal")


@dataclass(frozen=True, slots=True)
class SketchCurve:
    """Sketches of one family, noise and use of the projection, at every dimension that was tried."""

    guarantee: Guarantee
    errors: tuple[SketchErrors, ...]

    @property
    def label(self) -> str:
        """Legend of the curve: family, noise and use of the projection."""
        law = self.errors[0].law
        return f"{law.geometry.family} {self.guarantee.projection}, {law.noise.kind}"

    @property
    def shapes(self) -> tuple[Geometry, ...]:
        """The projection at each dimension along the curve."""
        return tuple(errors.law.geometry for errors in self.errors)


def sketches(request: PlanRequest, *, quick: bool = False) -> Iterator[Option]:
    """Options that publish a sketch of every record: the best dimension of each family, noise and use of projection."""
    for curve in curves(request, quick=quick):
        merits = [_merit(request, errors) for errors in curve.errors]
        best = min(range(len(merits)), key=merits.__getitem__)
        yield option_at(request, curve.guarantee, curve.errors[best])


def quick_sketch(request: PlanRequest) -> Option:
    """The best sketch of every record at typical sensitivities, for searches over plans.

    Of fewer families and dimensions than a plan considers.
    """
    return min(sketches(request, quick=True), key=request.merit)


def _merit(request: PlanRequest, errors: SketchErrors) -> float:
    if request.purpose == "clustering":
        return errors.mistake(request.scale)
    return errors.variance(request.scale**2)


@functools.lru_cache(maxsize=4)  # a plan and its picture need the same ones
def curves(request: PlanRequest, *, quick: bool = False) -> tuple[SketchCurve, ...]:
    """Sketches of every record at many dimensions.

    Every family, noise and use of the projection that keeps the promise, at many dimensions.
    """
    return tuple(_curves(request, quick=quick))


def _curves(request: PlanRequest, *, quick: bool) -> Iterator[SketchCurve]:
    guarantee, widths = request.guarantee, request.widths
    fixed = replace(guarantee, projection="fixed")
    change = _change(request, fixed)
    for noise in forecast.noises(guarantee):
        level = forecast.fixed_level(noise, guarantee.epsilon, guarantee.delta)
        order: Order = 1 if noise == "laplace" else 2
        people = float(guarantee.group) if order == 1 else math.sqrt(guarantee.group)
        for family in _QUICK if quick else _FIXED:
            shapes = tuple(_shapes(family, request, 1.3 if quick else 1.04))
            scales = (level * people * forecast.reach(s, order, change, widths) for s in shapes)
            yield from _curve(request, fixed, noise, zip(shapes, scales, strict=True))
    if guarantee.projection == "fresh" and guarantee.group == 1:
        yield from _fresh(request, change.radius or 0.0)


def _change(request: PlanRequest, guarantee: Guarantee) -> Change:
    return guarantee.allowed_change if request.schema is None else effective_change(request.schema, guarantee)


def _fresh(request: PlanRequest, radius: float) -> Iterator[SketchCurve]:
    guarantee = request.guarantee
    families: tuple[Family, ...] = ("gaussian", "orthonormal")
    for family in families:
        shapes = list(_shapes(family, request))
        levels = forecast.fresh_levels(shapes, guarantee.epsilon, guarantee.delta)
        yield from _curve(request, guarantee, "gaussian", zip(shapes, radius * levels, strict=True))
    few = (s for s in _shapes("gaussian", request) if s.dim_out <= 8)
    one = forecast.fresh_laplace_level(guarantee.epsilon, guarantee.delta)
    scales = ((s, radius * one * forecast.more_columns(s.dim_out)) for s in few)
    yield from _curve(request, guarantee, "laplace", scales)


def _curve(
    request: PlanRequest, guarantee: Guarantee, noise: Noise, tried: Iterable[tuple[Geometry, float]]
) -> Iterator[SketchCurve]:
    pairs = [(shape, scale) for shape, scale in tried if math.isfinite(scale)]
    if pairs:
        laws = (SketchLaw(NoiseLaw(noise, scale), shape) for shape, scale in pairs)
        yield SketchCurve(guarantee, tuple(SketchErrors(law, request.widths.flags) for law in laws))


def _shapes(family: Family, request: PlanRequest, growth: float = 1.04) -> Iterator[Geometry]:
    """Dimensions to try for sketches of every record: each up to some 30, then steps of 4%."""
    d = request.widths.dim
    if family == "identity":
        if d <= request.largest_dimension and request.dimension in (None, d):
            yield Geometry(family, d, d)
        return
    if request.dimension is not None:
        if family != "orthonormal" or request.dimension <= d:
            yield Geometry(family, d, request.dimension)
        return
    k = 1
    while k <= min(d, request.largest_dimension):
        yield Geometry(family, d, k)
        k = max(k + 1, round(k * growth))


def option_at(request: PlanRequest, guarantee: Guarantee, errors: SketchErrors) -> Option:
    """The sketch option at one point of a curve of dimensions."""
    shape = errors.law.geometry
    identity = shape.family == "identity"
    recipe = Sketch(
        dimension=None if identity else shape.dim_out,
        projection=shape.family,  # type: ignore[arg-type]
        noise=errors.law.noise.kind,
    )
    numbers = None if request.rows is None else request.rows * shape.dim_out
    return Option(
        mechanism=recipe,
        guarantee=guarantee,
        name="sketch",
        family=shape.family,
        dimension=shape.dim_out,
        noise=errors.law.noise.kind,
        noise_scale=errors.law.noise.scale,
        numbers=numbers,
        errors=errors,
    )


def seeded(option: Option, seed: int) -> Option:
    """A sketch option with a public seed of its projection, where that is fixed."""
    recipe = option.mechanism
    if not isinstance(recipe, Sketch) or option.family == "identity" or option.guarantee.projection == "fresh":
        return option
    return replace(option, mechanism=replace(recipe, seed=seed))


def drawn(option: Option, request: PlanRequest) -> Option:
    """A sketch option of every record with its projection drawn.

    With a fixed projection small enough to draw now: a seed, if it has none, and the noise that it will really have.

    Of a few draws the one with the most typical noise is taken. The luckiest would make noise smaller, but projections
    with small sensitivities also shorten lengths, so estimates would no longer be unbiased.
    """
    recipe, errors = option.mechanism, option.errors
    if not isinstance(recipe, Sketch) or not isinstance(errors, SketchErrors) or request.schema is None:
        return option
    work = option.dimension * request.widths.dim
    if option.guarantee.projection == "fresh" or option.family == "identity" or work > _EXACT_WORK:
        return option
    level = forecast.fixed_level(errors.law.noise.kind, option.guarantee.epsilon, option.guarantee.delta)
    found: list[tuple[Sketch, float]] = []
    draws = _DRAWS if work <= _SMALL_WORK else 1
    for seed in [recipe.seed] if recipe.seed is not None else [secrets.randbits(63) for _ in range(draws)]:
        seeded = replace(recipe, seed=seed)
        try:
            prepared = seeded.prepare(request.schema, option.guarantee)
        except ParameterError:  # a draw of zeros, which achlioptas makes in a few columns
            continue
        found.append((seeded, level * prepared.sensitivity * prepared.unit))
    if not found:
        return option
    typical = float(np.mean([(scale / found[0][1]) ** 4 for _, scale in found])) ** 0.25 * found[0][1]
    seeded, scale = min(found, key=lambda pair: abs(math.log(pair[1] / typical)))
    law = replace(errors.law, noise=NoiseLaw(errors.law.noise.kind, scale))
    return replace(option, mechanism=seeded, noise_scale=scale, errors=replace(errors, law=law))


# ---- baselines ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DistancesErrors:
    """Of noise on the distances themselves: the same at every distance."""

    law: NoiseLaw

    def variance(self, quantity: float) -> float:
        """Predicted variance of a squared distance published with noise."""
        del quantity
        return self.law.variance

    def mistake(self, distance: float) -> float:
        """Not predicted: how k-means fares on an embedding of noisy distances depends on all of them."""
        del distance
        return math.nan


@dataclass(frozen=True, slots=True)
class ResponsesErrors:
    """Of randomized response."""

    between: Between
    scale: float
    epsilon: float  # of each value

    def variance(self, quantity: float) -> float:
        """Predicted variance of a squared distance from randomized answers, if columns of all kinds differ alike."""
        return float(self.between.variance(quantity))

    def mistake(self, distance: float) -> float:
        """Predicted share of records misplaced in clusters of randomized answers.

        As for a sketch without projection: unbiased rows have independent errors of this scale.
        """
        return float(scipy.special.ndtr(-distance / (2 * self.scale)))


MOST_LEVELS = 64  # that numbers are cut into by a plan
_COMPOSED_PLAN = 512  # values beyond which a plan adds up pure epsilons, for speed


def level_error(epsilon: float, levels: int) -> float:
    """The mean squared error of an answered level for a number that is uniform between 0 and 1."""
    channel, points = Channel(epsilon, levels), (np.arange(levels) + 0.5) / levels
    mean = channel.gap * points + channel.other * points.sum()
    square = channel.gap * points**2 + channel.other * np.sum(points**2)
    return 1 / (12 * levels**2) + float(np.mean(square - mean**2)) / channel.gap**2


@functools.cache
def best_levels(epsilon: float) -> int:
    """The number of levels of the least such error: it depends on nothing but the epsilon of each value."""
    return min(range(2, MOST_LEVELS + 1), key=lambda levels: level_error(epsilon, levels))


def by_levels(request: PlanRequest) -> Iterator[Option]:
    """Options that cut numbers into levels and publish these by randomized response: 2, the best number, twice it."""
    most = best_levels(min(LARGEST_EPSILON, request.guarantee.epsilon))
    for levels in sorted({2, most, min(2 * most, MOST_LEVELS)}):
        if request.schema is not None and response_columns.cuts(request.schema, levels):
            yield from responses(request, levels)


def responses(request: PlanRequest, levels: int | None = None) -> Iterator[Option]:
    """Options that publish randomized response for every record, where columns have few values, or cut into levels."""
    guarantee = replace(request.guarantee, projection="fixed")
    if request.schema is None:
        columns: tuple[ResponseColumn, ...] = (ResponseColumn(1, 0, 1.0),)
        repeated = request.widths.dim
        changed = _changed_flags(guarantee, repeated)
    else:
        try:
            prepared = RandomizedResponse(levels=levels).prepare(request.schema, guarantee)
        except ParameterError:
            return
        columns, repeated, changed = prepared.answers, 1, prepared.changed
    if not changed:
        return
    each = _epsilon_per_value(guarantee, changed)
    errors = _responses_errors(columns, repeated, each)
    numbers = None if request.rows is None else request.rows * len(columns) * repeated
    yield Option(
        mechanism=RandomizedResponse(levels=levels),
        guarantee=guarantee,
        name="responses",
        family="",
        dimension=len(columns) * repeated,
        noise="response",
        noise_scale=errors.scale,
        numbers=numbers,
        errors=errors,
    )


def _changed_flags(guarantee: Guarantee, columns: int) -> tuple[int, ...]:
    change = guarantee.allowed_change
    if change.kind == "l2":
        return ()
    values = {"attribute": 1, "box": columns, "l1": math.floor(min(change.radius or 0.0, columns))}[change.kind]
    return (2,) * values


def _epsilon_per_value(guarantee: Guarantee, changed: tuple[int, ...]) -> float:
    """Epsilon of each value of a record under randomized response.

    What each value gets: all of epsilon for one, a share or more of it for many.
    """
    values, group = len(changed) * guarantee.group, guarantee.group
    if values > _COMPOSED_PLAN or guarantee.delta == 0:
        return min(LARGEST_EPSILON, guarantee.epsilon / values)
    start = 1 / guarantee.epsilon
    level = least_level(
        lambda level: response_loss(1 / level, changed, group), guarantee.epsilon, guarantee.delta, start=start
    )
    return min(LARGEST_EPSILON, 1 / level)


def _responses_errors(columns: tuple[ResponseColumn, ...], repeated: int, epsilon: float) -> ResponsesErrors:
    form = Questionnaire(columns, epsilon)
    one = form.between()
    between = Between(one.same * repeated, one.different * repeated, one.most * repeated)
    return ResponsesErrors(between, form.deviation, epsilon)


def distances(request: PlanRequest) -> Iterator[Option]:
    """Options that publish noisy distances of all pairs of records, while there are not too many of them."""
    guarantee, rows = replace(request.guarantee, projection="fixed"), request.rows
    if rows is None or not 2 <= rows <= MOST_ROWS:
        return
    for noise in forecast.noises(guarantee):
        recipe = NoisyDistances(noise=noise)
        level = forecast.fixed_level(noise, guarantee.epsilon, guarantee.delta)
        if request.schema is None:
            reach = forecast.distances_reach(recipe.order, guarantee, guarantee.allowed_change, request.widths, rows)
        else:
            prepared = recipe.prepare(request.schema, guarantee)
            reach = prepared.sensitivity(rows) * prepared.unit(rows)
        yield Option(
            mechanism=recipe,
            guarantee=guarantee,
            name="distances",
            family="",
            dimension=rows - 1,
            noise=noise,
            noise_scale=level * reach,
            numbers=rows * (rows - 1) // 2,
            errors=DistancesErrors(NoiseLaw(noise, level * reach)),
        )
