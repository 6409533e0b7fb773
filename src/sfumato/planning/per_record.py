"""Options that publish something for every record: sketches, randomized response, noise on distances."""

import functools
import math
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sfumato.errors import ParameterError
from sfumato.estimation.response_law import Answer, Between, Channel, Questionnaire
from sfumato.intervals import moments
from sfumato.intervals.moments import Geometry, NoiseLaw
from sfumato.mechanisms.base import Noise
from sfumato.mechanisms.distances import MOST_ROWS, NoisyDistances
from sfumato.mechanisms.responses import RandomizedResponse, response_loss
from sfumato.mechanisms.sketch import Sketch, effective_change
from sfumato.numerics.types import Order
from sfumato.planning import forecast
from sfumato.planning.forecast import Shape
from sfumato.planning.option import Option, Request
from sfumato.privacy.calibration import least_level
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.projection import Family
from sfumato.randomness.randomized_choice import LARGEST_EPSILON

_EXACT_WORK = 1 << 20  # projections of at most this many entries are drawn to know their sensitivity exactly
_SMALL_WORK, _DRAWS = 1 << 14, 15  # smaller ones several times, to find a typical one


# ---- sketches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SketchErrors:
    """Of a sketch, for differences spread over the columns, or for flags."""

    law: NoiseLaw
    geometry: Geometry
    flags: bool = False

    def variance(self, quantity: float) -> float:
        """By ``moments.distance_variance``: ||v||_4^4 is ||v||^2 for flags and at least ||v||^4/d for any v."""
        fourth = quantity if self.flags else quantity**2 / self.geometry.dim_in
        return float(moments.distance_variance(quantity, self.law, self.geometry, fourth))

    def mistake(self, distance: float) -> float:
        """Pr[noise along the line of centres > half their distance], averaged over how the projection stretches it."""
        if self.geometry.coefficients[0] == 0:
            stretches, weights = np.ones(1), np.ones(1)
        else:
            family = "orthonormal" if self.geometry.family == "orthonormal" else "gaussian"
            stretches, weights = forecast.stretch(Shape(family, self.geometry.dim_in, self.geometry.dim_out))
        return float(np.sum(weights * forecast.normal_tail(distance * stretches / (2 * self.law.scale))))


_FIXED: tuple[Family, ...] = ("identity", "sparse", "rademacher", "orthonormal", "gaussian", "achlioptas")
_QUICK: tuple[Family, ...] = ("identity", "sparse", "orthonormal")


@dataclass(frozen=True, slots=True)
class Curve:
    """One family, noise and use of the projection, at every dimension that was tried."""

    guarantee: Guarantee
    shapes: tuple[Shape, ...]
    errors: tuple[SketchErrors, ...]

    @property
    def label(self) -> str:
        """For a legend."""
        return f"{self.shapes[0].family} {self.guarantee.projection}, {self.errors[0].law.kind}"


def sketches(request: Request, *, quick: bool = False) -> Iterator[Option]:
    """The best dimension of every family, noise and use of the projection."""
    for curve in curves(request, quick=quick):
        merits = [_merit(request, errors) for errors in curve.errors]
        best = min(range(len(merits)), key=merits.__getitem__)
        yield option_at(request, curve.guarantee, curve.errors[best], curve.shapes[best])


def quick_sketch(request: Request) -> Option:
    """The best sketch of fewer families and dimensions, at typical sensitivities: for searches over plans."""
    return min(sketches(request, quick=True), key=request.merit)


def _merit(request: Request, errors: SketchErrors) -> float:
    if request.purpose == "clustering":
        return errors.mistake(request.scale)
    return errors.variance(request.scale**2)


@functools.lru_cache(maxsize=4)  # a plan and its picture need the same ones
def curves(request: Request, *, quick: bool = False) -> tuple[Curve, ...]:
    """Every family, noise and use of the projection that keeps the promise, at many dimensions."""
    return tuple(_curves(request, quick=quick))


def _curves(request: Request, *, quick: bool) -> Iterator[Curve]:
    guarantee, domain = request.guarantee, request.domain
    fixed = replace(guarantee, projection="fixed")
    change = _change(request, fixed)
    for noise in _noises(guarantee):
        level = forecast.fixed_level(noise, guarantee.epsilon, guarantee.delta)
        order: Order = 1 if noise == "laplace" else 2
        people = float(guarantee.group) if order == 1 else math.sqrt(guarantee.group)
        for family in _QUICK if quick else _FIXED:
            shapes = tuple(_shapes(family, request, 1.3 if quick else 1.04))
            scales = (level * people * forecast.reach(s, order, change, domain) for s in shapes)
            yield from _curve(request, fixed, noise, zip(shapes, scales, strict=True))
    if guarantee.projection == "fresh" and guarantee.group == 1:
        yield from _fresh(request, change.radius or 0.0)


def _noises(guarantee: Guarantee) -> tuple[Noise, ...]:
    return ("laplace",) if guarantee.delta == 0 else ("laplace", "gaussian")


def _change(request: Request, guarantee: Guarantee) -> Change:
    return guarantee.allowed_change if request.schema is None else effective_change(request.schema, guarantee)


def _fresh(request: Request, radius: float) -> Iterator[Curve]:
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
    request: Request, guarantee: Guarantee, noise: Noise, tried: Iterable[tuple[Shape, float]]
) -> Iterator[Curve]:
    pairs = [(shape, scale) for shape, scale in tried if math.isfinite(scale)]
    if pairs:
        geometries = (Geometry(s.family, s.dim_in, s.dim_out) for s, _ in pairs)
        laws = (NoiseLaw(noise, scale) for _, scale in pairs)
        errors = (SketchErrors(law, g, request.domain.flags) for law, g in zip(laws, geometries, strict=True))
        yield Curve(guarantee, tuple(s for s, _ in pairs), tuple(errors))


def _shapes(family: Family, request: Request, growth: float = 1.04) -> Iterator[Shape]:
    """Dimensions to try: every one up to some 30, then steps of 4%."""
    d = request.domain.dim
    if family == "identity":
        if d <= request.largest_dimension and request.dimension in (None, d):
            yield Shape(family, d, d)
        return
    if request.dimension is not None:
        yield Shape(family, d, request.dimension)
        return
    k = 1
    while k <= min(d, request.largest_dimension):
        yield Shape(family, d, k)
        k = max(k + 1, round(k * growth))


def option_at(request: Request, guarantee: Guarantee, errors: SketchErrors, shape: Shape) -> Option:
    """The option at one point of a curve."""
    identity = shape.family == "identity"
    recipe = Sketch(
        dimension=None if identity else shape.dim_out,
        projection=shape.family,  # type: ignore[arg-type]
        noise=errors.law.kind,
    )
    numbers = None if request.rows is None else request.rows * shape.dim_out
    return Option(
        mechanism=recipe,
        guarantee=guarantee,
        name="sketch",
        family=shape.family,
        dimension=shape.dim_out,
        noise=errors.law.kind,
        noise_scale=errors.law.scale,
        numbers=numbers,
        errors=errors,
    )


def drawn(option: Option, request: Request) -> Option:
    """With a fixed projection small enough to draw now: a seed, and the noise that it will really have.

    Of a few draws the one with the most typical noise is taken. The luckiest would make noise smaller, but projections
    with small sensitivities also shorten lengths, so estimates would no longer be unbiased.
    """
    recipe, errors = option.mechanism, option.errors
    if not isinstance(recipe, Sketch) or not isinstance(errors, SketchErrors) or request.schema is None:
        return option
    work = option.dimension * request.domain.dim
    if option.guarantee.projection == "fresh" or option.family == "identity" or work > _EXACT_WORK:
        return option
    level = forecast.fixed_level(errors.law.kind, option.guarantee.epsilon, option.guarantee.delta)
    found: list[tuple[Sketch, float]] = []
    for _ in range(_DRAWS if work <= _SMALL_WORK else 1):
        seeded = replace(recipe, seed=secrets.randbits(63))
        try:
            prepared = seeded.prepare(request.schema, option.guarantee)
        except ParameterError:  # a draw of zeros, which achlioptas makes in a few columns
            continue
        found.append((seeded, level * prepared.sensitivity * prepared.unit))
    if not found:
        return option
    typical = float(np.mean([(scale / found[0][1]) ** 4 for _, scale in found])) ** 0.25 * found[0][1]
    seeded, scale = min(found, key=lambda pair: abs(math.log(pair[1] / typical)))
    law = NoiseLaw(errors.law.kind, scale)
    return replace(option, mechanism=seeded, noise_scale=scale, errors=replace(errors, law=law))


# ---- baselines ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DistancesErrors:
    """Of noise on the distances themselves: the same at every distance."""

    law: NoiseLaw

    def variance(self, quantity: float) -> float:
        """Of an estimated squared distance."""
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

    def variance(self, quantity: float) -> float:
        """Of an estimated squared distance, if columns of all kinds differ alike."""
        return float(self.between.variance(quantity))

    def mistake(self, distance: float) -> float:
        """As for a sketch without projection: unbiased rows have independent errors of this scale."""
        return float(forecast.normal_tail(np.array(distance / (2 * self.scale))))


_COMPOSED_PLAN = 512  # values beyond which a plan adds up pure epsilons, for speed


def responses(request: Request) -> Iterator[Option]:
    """Randomized response, for flags and categories."""
    guarantee = replace(request.guarantee, projection="fixed")
    if request.schema is None:
        columns: tuple[Answer, ...] = (Answer(1, 0, 1.0),)
        repeated = request.domain.dim
        changed = _changed_flags(guarantee, repeated)
    else:
        try:
            prepared = RandomizedResponse().prepare(request.schema, guarantee)
        except ParameterError:
            return
        columns, repeated, changed = prepared.answers, 1, prepared.changed
    if not changed:
        return
    each = _epsilon_per_value(guarantee, changed)
    errors = _responses_errors(columns, repeated, each)
    numbers = None if request.rows is None else request.rows * len(columns) * repeated
    yield Option(
        mechanism=RandomizedResponse(),
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
    """What each value gets: all of epsilon for one, a share or more of it for many."""
    values, group = len(changed) * guarantee.group, guarantee.group
    if values > _COMPOSED_PLAN or guarantee.delta == 0:
        return min(LARGEST_EPSILON, guarantee.epsilon / values)
    start = 1 / guarantee.epsilon
    level = least_level(
        lambda level: response_loss(1 / level, changed, group), guarantee.epsilon, guarantee.delta, start=start
    )
    return min(LARGEST_EPSILON, 1 / level)


def _responses_errors(columns: tuple[Answer, ...], repeated: int, epsilon: float) -> ResponsesErrors:
    one = Questionnaire(columns, epsilon).between()
    channels = [(Channel(epsilon, answer.categories), answer.weight) for answer in columns]
    scale = max(w * math.sqrt(max(c.keep * (1 - c.keep), c.other * (1 - c.other))) / c.gap for c, w in channels)
    return ResponsesErrors(Between(one.same * repeated, one.different * repeated, one.most * repeated), scale)


def distances(request: Request) -> Iterator[Option]:
    """Noise on all pairs, while there are not too many of them."""
    guarantee, rows = replace(request.guarantee, projection="fixed"), request.rows
    if rows is None or not 2 <= rows <= MOST_ROWS:
        return
    for noise in _noises(guarantee):
        recipe = NoisyDistances(noise=noise)
        level = forecast.fixed_level(noise, guarantee.epsilon, guarantee.delta)
        if request.schema is None:
            reach = forecast.distances_reach(recipe.order, guarantee, guarantee.allowed_change, request.domain, rows)
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
