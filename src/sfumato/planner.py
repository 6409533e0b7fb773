"""Which mechanism, which projection, how many columns: a ranked answer before any data is read.

A plan knows a schema (or only the number of columns), a guarantee and a purpose. It compares every configuration at the
noise that the promise really costs there, so that noise depends on the dimension, and says in plain words what can be
told from what. Planning touches no data and costs no budget; predictions use the formulas of the error bars.
"""

import math
import secrets
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, get_args

import numpy as np

from sfumato import check, forecast, moments, responding
from sfumato.calibration import least_level
from sfumato.choices import LARGEST_EPSILON
from sfumato.errors import ParameterError
from sfumato.forecast import Domain, Shape
from sfumato.guarantee import Change, Guarantee
from sfumato.mechanism import Recipe
from sfumato.mechanisms.distances import MOST_ROWS, NoisyDistances
from sfumato.mechanisms.responses import RandomizedResponse, response_loss
from sfumato.mechanisms.sketch import Noise, Sketch, effective_change
from sfumato.moments import Geometry, NoiseLaw
from sfumato.projection import Family, Order
from sfumato.responding import DIFFERENT, FIRST, SAME, Answer, Channel, Questionnaire
from sfumato.schema import Schema

Purpose = Literal["distances", "nearest", "clustering"]

_TOLD_APART = 1.96  # standard errors of 0 above which a squared distance is told from 0
_GOOD = 0.25  # relative error that advice aims at
_EXACT_WORK = 1 << 20  # projections of at most this many entries are drawn to know their sensitivity exactly


# ---- what is predicted ----------------------------------------------------------------------------------------------


class Errors(Protocol):
    """How an option errs, as functions of the truth."""

    def variance(self, squared: float) -> float:
        """Of an estimated squared distance."""
        ...

    def mistake(self, distance: float) -> float:
        """How often a record of one of two tight groups looks nearer to the other's centre."""
        ...


@dataclass(frozen=True, slots=True)
class SketchErrors:
    """Of a sketch, for differences spread over the columns, or for flags."""

    law: NoiseLaw
    geometry: Geometry
    flags: bool = False

    def variance(self, squared: float) -> float:
        """By ``moments.distance_variance``: ||v||_4^4 is ||v||^2 for flags and at least ||v||^4/d for any v."""
        fourth = squared if self.flags else squared**2 / self.geometry.dim_in
        return float(moments.distance_variance(squared, self.law, self.geometry, fourth))

    def mistake(self, distance: float) -> float:
        """Pr[noise along the line of centres > half their distance], averaged over how the projection stretches it."""
        if self.geometry.coefficients[0] == 0:
            stretches, weights = np.ones(1), np.ones(1)
        else:
            family = "orthonormal" if self.geometry.family == "orthonormal" else "gaussian"
            stretches, weights = forecast.stretch(Shape(family, self.geometry.dim_in, self.geometry.dim_out))
        return float(np.sum(weights * forecast.normal_tail(distance * stretches / (2 * self.law.scale))))


# ---- the answer -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """A configuration that is ready to run under ``guarantee``, and how it would err."""

    mechanism: Recipe
    guarantee: Guarantee
    name: str
    family: str
    dimension: int
    noise: str
    noise_scale: float
    numbers: int | None
    errors: Errors

    def standard_error(self, distance: float) -> float:
        """Of an estimated squared distance whose truth is ``distance`` squared."""
        return math.sqrt(self.errors.variance(distance**2))

    def relative_error(self, distance: float) -> float:
        """The standard error over the squared distance."""
        return self.standard_error(distance) / distance**2

    @property
    def detectable(self) -> float:
        """The least distance that is told from 0: its square is 1.96 standard errors of 0."""
        return math.sqrt(_TOLD_APART * self.standard_error(0.0))


@dataclass(frozen=True, slots=True)
class Plan:
    """Options in order of merit for a purpose, with a verdict and what would help."""

    purpose: Purpose
    guarantee: Guarantee
    distance: float
    assumed: bool
    rows: int | None
    options: tuple[Option, ...]
    advice: tuple[str, ...]
    request: "Request" = field(repr=False, compare=False)

    @property
    def best(self) -> Option:
        """The first option."""
        return self.options[0]

    @property
    def mechanism(self) -> Recipe:
        """The best option's mechanism, ready to run."""
        return self.best.mechanism

    def only(self, wanted: Callable[[Option], bool]) -> "Plan":
        """The same plan with fewer options; refuses to have none."""
        kept = tuple(option for option in self.options if wanted(option))
        if not kept:
            raise ParameterError("no such option keeps this promise (Gaussian noise needs delta > 0)")
        return replace(self, options=kept)

    @property
    def hopeless(self) -> bool:
        """Whether even the best option cannot tell the distance from 0."""
        return self.best.detectable > self.distance

    @property
    def verdict(self) -> str:
        """What the best option can do, in plain words."""
        best, r = self.best, self.distance
        told = f"distances below {best.detectable:.3g} cannot be told from 0"
        if self.hopeless:
            return f"hopeless at distance {r:.3g}: {told}, whatever the mechanism"
        if self.purpose == "clustering":
            return f"groups {r:.3g} apart: {best.errors.mistake(r):.1%} of records land in the wrong one; {told}"
        near = f"squared distances near {r:.3g}^2 = {r * r:.3g} are recovered to within {best.relative_error(r):.0%}"
        if self.purpose == "nearest":
            gap = math.sqrt(2) * best.standard_error(r)
            near += f"; candidates whose squared distances differ by less than {gap:.3g} are confused"
        return f"{near} (one standard error); {told}"

    def curves(self) -> tuple["Curve", ...]:
        """Every dimension of every sketch that was considered, for pictures."""
        return tuple(_curves(self.request))

    def all_sketches(self, dimensions: Container[int] | None = None) -> list[Option]:
        """Every point of every curve as an option, with typical sensitivities; or those of some dimensions, drawn."""
        options = [
            _option(self.request, curve.guarantee, errors, shape)
            for curve in self.curves()
            for errors, shape in zip(curve.errors, curve.shapes, strict=True)
        ]
        return (
            options if dimensions is None else [_drawn(o, self.request) for o in options if o.dimension in dimensions]
        )

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "purpose": self.purpose,
            "distance": self.distance,
            "distance_assumed": self.assumed,
            "rows": self.rows,
            "hopeless": self.hopeless,
            "verdict": self.verdict,
            "advice": list(self.advice),
            "options": [self._facts(option) for option in self.options],
        }

    def _facts(self, option: Option) -> dict[str, Any]:
        return {
            "mechanism": option.name,
            "family": option.family,
            "dimension": option.dimension,
            "noise": option.noise,
            "projection": option.guarantee.projection,
            "noise_scale": option.noise_scale,
            "standard_error": option.standard_error(self.distance),
            "relative_error": option.relative_error(self.distance),
            "detectable": option.detectable,
            "mistakes": option.errors.mistake(self.distance),
            "numbers": option.numbers,
        }

    def _merit(self, option: Option) -> str:
        if self.purpose == "clustering":
            return f"{option.errors.mistake(self.distance):.1%} wrong"
        return f"{option.relative_error(self.distance):.0%}"

    def describe(self) -> str:
        """A table and the verdict."""
        head = ("mechanism", "projection", "columns", "noise", "its sd", "std error", "relative", "told from 0", "size")
        rows = [
            (
                o.name,
                f"{o.family} {o.guarantee.projection}" if o.family else "-",
                f"{o.dimension:,}",
                o.noise,
                f"{o.noise_scale:.3g}",
                f"{o.standard_error(self.distance):.4g}",
                self._merit(o),
                f">= {o.detectable:.3g}",
                _size(o.numbers),
            )
            for o in self.options
        ]
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in [head, *rows]]
        origin = " (two random records within the bounds; name your own with distance)" if self.assumed else ""
        title = f"{self.purpose} at distance {self.distance:.4g}{origin}"
        return "\n".join([title, *lines, self.verdict, *self.advice])


def _size(numbers: int | None) -> str:
    if numbers is None:
        return "-"
    size = 8.0 * numbers
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} PB"


# ---- planning -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is made from."""

    schema: Schema | None
    domain: Domain
    guarantee: Guarantee
    purpose: Purpose
    rows: int | None
    distance: float
    largest_dimension: int

    def merit(self, errors: Errors) -> float:
        """What is ranked, smaller is better."""
        if self.purpose == "clustering":
            return errors.mistake(self.distance)
        return errors.variance(self.distance**2)


def plan(
    *,
    guarantee: Guarantee,
    schema: Schema | None = None,
    columns: int | None = None,
    purpose: Purpose = "distances",
    rows: int | None = None,
    distance: float | None = None,
    largest_dimension: int | None = None,
) -> Plan:
    """Rank the configurations that keep ``guarantee``, for a purpose at a scale of distance.

    schema or columns : what will be released; a number of columns alone means that many flags.
    rows              : how many records; needed for release sizes and to consider noise on all pairs.
    distance          : the Euclidean distance (not squared, in weighted units) that matters. Left out, the typical
                        distance of two records drawn at random within the bounds.
    Privacy: no data is read, nothing is spent.
    """
    if (schema is None) == (columns is None):
        raise ParameterError("a plan needs a schema, or the number of columns alone: give exactly one of them")
    check.one_of(get_args(Purpose), purpose=purpose)
    if columns is not None:
        check.whole(1, columns=columns)
    if rows is not None:
        check.whole(1, rows=rows)
    domain = Domain.flags_of(columns or 0) if schema is None else Domain.of(schema)
    wanted = math.sqrt(domain.squared_typical) if distance is None else distance
    check.positive(distance=wanted)
    largest = domain.dim if largest_dimension is None else largest_dimension
    check.whole(1, largest_dimension=largest)
    request = Request(schema, domain, guarantee, purpose, rows, wanted, largest)
    options = tuple(sorted(_options(request), key=lambda o: request.merit(o.errors)))
    if not options:
        raise ParameterError("no mechanism can keep this promise: see what each one says with its own prepare()")
    draft = Plan(purpose, guarantee, wanted, distance is None, rows, options, (), request)
    return replace(draft, advice=tuple(_advice(draft, request)))


def quick_sketch(request: Request) -> Option:
    """The best sketch of fewer families and dimensions, at typical sensitivities: for searches over plans."""
    return min(_sketches(request, quick=True), key=lambda o: request.merit(o.errors))


def _options(request: Request) -> Iterator[Option]:
    for option in _sketches(request):
        yield _drawn(option, request)
    yield from _responses(request)
    if request.purpose != "clustering":
        yield from _distances(request)


def _advice(draft: Plan, request: Request) -> Iterator[str]:
    """What would help where the best option is poor."""
    if draft.best.relative_error(draft.distance) <= _GOOD:
        return
    epsilon = _needed(request, lambda scale: replace(request.guarantee, epsilon=request.guarantee.epsilon * scale))
    if epsilon is not None:
        yield f"more budget: epsilon {request.guarantee.epsilon * epsilon:.3g} would bring the error to {_GOOD:.0%}"
    if request.guarantee.unit == "record":
        yield from _smaller_change(request)
        yield "or release what is summed over records (synthetic data, a covariance): its noise does not grow with rows"


def _smaller_change(request: Request) -> Iterator[str]:
    """A ball of changes of the stated kind, or an l1 ball instead of the box, at which the error would be good."""
    stated = request.guarantee.allowed_change
    kind, radius = (stated.kind, stated.radius) if stated.radius is not None else ("l1", request.domain.total)

    def ball(scale: float) -> Guarantee:
        return replace(request.guarantee, change=Change(kind, radius / scale))

    if request.schema is None or request.schema.norm in (None, kind):
        scale = _needed(request, ball)
        if scale is not None:
            norm = "sum of absolute values" if kind == "l1" else "Euclidean length"
            yield (
                f"a smaller change: protecting moves of a record by at most {radius / scale:.3g} ({norm}) "
                f"would bring the error to {_GOOD:.0%}"
            )


def _needed(request: Request, guarantee: Callable[[float], Guarantee]) -> float | None:
    """The least factor (to 5%) at which a sketch or responses have the good relative error, or None below a million."""

    def good(scale: float) -> bool:
        asked = replace(request, guarantee=guarantee(scale), purpose="distances")
        return any(o.relative_error(request.distance) <= _GOOD for o in (quick_sketch(asked), *_responses(asked)))

    low, high = 1.0, 4.0
    while not good(high):
        low, high = high, high * 4
        if high > 1e6:
            return None
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


# ---- baselines ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DistancesErrors:
    """Of noise on the distances themselves: the same at every distance."""

    law: NoiseLaw

    def variance(self, squared: float) -> float:
        """Of an estimated squared distance."""
        del squared
        return self.law.variance

    def mistake(self, distance: float) -> float:
        """Not predicted: how k-means fares on an embedding of noisy distances depends on all of them."""
        del distance
        return math.nan


@dataclass(frozen=True, slots=True)
class ResponsesErrors:
    """Of randomized response: a variance where no column differs, one where all do, and a mix in between."""

    same: float
    different: float
    most: float
    scale: float

    def variance(self, squared: float) -> float:
        """Of an estimated squared distance, if columns of all kinds differ alike; independent of it for flags."""
        return self.same + (self.different - self.same) * min(1.0, squared / self.most)

    def mistake(self, distance: float) -> float:
        """As for a sketch without projection: unbiased rows have independent errors of this scale."""
        return float(forecast.normal_tail(np.array(distance / (2 * self.scale))))


_COMPOSED_PLAN = 512  # values beyond which a plan adds up pure epsilons, for speed


def _responses(request: Request) -> Iterator[Option]:
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
        columns, repeated, changed = prepared.answers, 1, prepared.changed * guarantee.group
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
    return (2,) * (values * guarantee.group)


def _epsilon_per_value(guarantee: Guarantee, changed: tuple[int, ...]) -> float:
    """What each value gets: all of epsilon for one, a share or more of it for many."""
    if len(changed) > _COMPOSED_PLAN or guarantee.delta == 0:
        return min(LARGEST_EPSILON, guarantee.epsilon / len(changed))
    level = least_level(
        lambda level: response_loss(1 / level, changed), guarantee.epsilon, guarantee.delta, start=1 / guarantee.epsilon
    )
    return min(LARGEST_EPSILON, 1 / level)


def _responses_errors(columns: tuple[Answer, ...], repeated: int, epsilon: float) -> ResponsesErrors:
    law = Questionnaire(columns, epsilon).law(responding.DISTANCE, 2)
    ends = [(SAME, DIFFERENT if answer.values > 1 else FIRST) for answer in columns]
    same, different = (float(sum(law.variance[i, end[side]] for i, end in enumerate(ends))) for side in (0, 1))
    most = float(sum(law.truth[i, far] for i, (_, far) in enumerate(ends)))
    channels = [(Channel(epsilon, answer.categories), answer.weight) for answer in columns]
    scale = max(w * math.sqrt(max(c.keep * (1 - c.keep), c.other * (1 - c.other))) / c.gap for c, w in channels)
    return ResponsesErrors(same * repeated, different * repeated, most * repeated, scale)


def _distances(request: Request) -> Iterator[Option]:
    """Noise on all pairs, while there are not too many of them."""
    guarantee, rows = replace(request.guarantee, projection="fixed"), request.rows
    if rows is None or not 2 <= rows <= MOST_ROWS:
        return
    change = _change(request, guarantee)
    for noise in _noises(guarantee):
        level = forecast.fixed_level(noise, guarantee.epsilon, guarantee.delta)
        reach = forecast.distances_reach(1 if noise == "laplace" else 2, guarantee, change, request.domain, rows)
        yield Option(
            mechanism=NoisyDistances(noise=noise),
            guarantee=guarantee,
            name="distances",
            family="",
            dimension=rows - 1,
            noise=noise,
            noise_scale=level * reach,
            numbers=rows * (rows - 1) // 2,
            errors=DistancesErrors(NoiseLaw(noise, level * reach)),
        )


# ---- sketches -------------------------------------------------------------------------------------------------------

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


def _sketches(request: Request, *, quick: bool = False) -> Iterator[Option]:
    """The best dimension of every family, noise and use of the projection."""
    for curve in _curves(request, quick=quick):
        merits = [request.merit(errors) for errors in curve.errors]
        best = min(range(len(merits)), key=merits.__getitem__)
        yield _option(request, curve.guarantee, curve.errors[best], curve.shapes[best])


def _curves(request: Request, *, quick: bool = False) -> Iterator[Curve]:
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
        if d <= request.largest_dimension:
            yield Shape(family, d, d)
        return
    k = 1
    while k <= min(d, request.largest_dimension):
        yield Shape(family, d, k)
        k = max(k + 1, round(k * growth))


def _option(request: Request, guarantee: Guarantee, errors: SketchErrors, shape: Shape) -> Option:
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


def _drawn(option: Option, request: Request) -> Option:
    """With a fixed projection small enough to draw now: its seed, and the noise it will really have."""
    recipe, errors = option.mechanism, option.errors
    if not isinstance(recipe, Sketch) or not isinstance(errors, SketchErrors) or request.schema is None:
        return option
    small = option.dimension * request.domain.dim <= _EXACT_WORK
    if option.guarantee.projection == "fresh" or option.family == "identity" or not small:
        return option
    try:
        seeded = replace(recipe, seed=secrets.randbits(63))
        prepared = seeded.prepare(request.schema, option.guarantee)
    except ParameterError:  # a draw of zeros, which achlioptas makes in a few columns
        return option
    level = forecast.fixed_level(errors.law.kind, option.guarantee.epsilon, option.guarantee.delta)
    law = NoiseLaw(errors.law.kind, level * prepared.sensitivity * prepared.unit)
    return replace(option, mechanism=seeded, noise_scale=law.scale, errors=replace(errors, law=law))
