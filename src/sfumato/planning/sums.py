"""Options that answer for all records together: covariances, and cuts of graphs.

Beside what publishes sums stands what publishes every record (input perturbation), to show what that costs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sfumato.errors import ParameterError
from sfumato.estimation import cuts as cutting
from sfumato.intervals.moments import NoiseLaw
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.covariance import SKETCH_ROWS, Covariance, CovarianceNoise
from sfumato.mechanisms.graph_pairs import LARGEST_VERTICES, EdgeNoise, EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.planning import covariance_options, cut_options, forecast, per_record
from sfumato.planning.covariance_options import Setting
from sfumato.planning.cut_options import CutQuestion
from sfumato.planning.option import Option, PlanRequest
from sfumato.privacy.guarantee import Guarantee

_SKETCH_ROWS = (15, 30, 60, 119, 240, 473, 1000, 2000, 4239)


# ---- covariances ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpreadErrors:
    """Of the variance of n records along a direction: noise on the sums, a sketch of them, or noise on every record.

    fixed, share : a standard error of fixed + share * variance (noise on sums has no share, a sketch sqrt(2/r)).
    law, rows    : noise on each of so many records instead.
    """

    fixed: float = 0.0
    share: float = 0.0
    law: NoiseLaw | None = None
    rows: int = 1

    def variance(self, quantity: float) -> float:
        """Of the estimated variance."""
        if self.law is None:
            return (self.fixed + self.share * quantity) ** 2
        return (4 * self.law.variance * quantity + self.law.fourth * self.law.variance**2) / self.rows

    def mistake(self, distance: float) -> float:
        """Of no meaning for covariances."""
        del distance
        return math.nan


def covariances(request: PlanRequest) -> Iterator[Option]:
    """Noise on the second moment, a sketch of it, and noise on every record; as if all columns were equally wide."""
    yield from _input_noise(request)
    guarantee, records = replace(request.guarantee, projection="fixed"), request.rows
    assert records is not None
    columns, longest = request.widths.dim, request.widths.length / 2
    if request.schema is not None and request.schema.norm_bound is not None:
        longest = min(2 * longest, request.schema.norm_bound)  # about the origin then, not the middle
    setting = Setting(records=records, columns=columns, guarantee=guarantee, variance=0.0, longest=longest)
    noises: tuple[CovarianceNoise, ...] = ("laplace",) if guarantee.delta == 0 else ("laplace", "gaussian")
    for noise in noises:
        try:
            fixed = covariance_options.standard_error(noise, setting)
        except ParameterError:  # too many columns, or a change that it does not protect
            continue
        numbers = columns * (columns + 1) // 2
        yield _covariance(Covariance(noise=noise), guarantee, columns, SpreadErrors(fixed), numbers)
    whole = guarantee.unit == "record" and guarantee.allowed_change.kind == "box" and guarantee.group == 1
    if whole and guarantee.delta > 0:
        rows, replaced = SKETCH_ROWS, guarantee.neighbours == "replace"
        ridge = longest**2 * forecast.ridge_level(rows, guarantee.epsilon, guarantee.delta, replace=replaced)
        share = math.sqrt(2 / rows)
        recipe = Covariance(noise="sketch", rows=rows)
        yield _covariance(recipe, guarantee, rows, SpreadErrors(share * ridge / records, share), rows * columns)


def _covariance(recipe: Covariance, guarantee: Guarantee, dimension: int, errors: SpreadErrors, numbers: int) -> Option:
    return Option(
        mechanism=recipe,
        guarantee=guarantee,
        name="covariance",
        family="",
        dimension=dimension,
        noise=recipe.noise,
        noise_scale=errors.fixed,
        numbers=numbers,
        errors=errors,
    )


def _input_noise(request: PlanRequest) -> Iterator[Option]:
    """Sketches without projection, whose noise averages out over the records."""
    if request.guarantee.neighbours != "replace" or request.rows is None:
        return
    whole = replace(request, guarantee=replace(request.guarantee, projection="fixed"), purpose="distances")
    for option in per_record.sketches(whole):
        if option.family == "identity" and isinstance(option.errors, per_record.SketchErrors):
            yield replace(option, errors=SpreadErrors(law=option.errors.law.noise, rows=request.rows))


# ---- cuts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CutErrors:
    """Of a cut that separates ``side`` of ``vertices`` vertices: from a sketch with this ridge, or noise on pairs."""

    vertices: int
    side: int
    ridge: float = 0.0
    rows: int = 0
    pair_variance: float = 0.0

    def variance(self, quantity: float) -> float:
        """Of the weight of the cut."""
        spread = self.side * (self.vertices - self.side)
        if self.rows == 0:
            return float(cutting.pair_variance(spread, self.pair_variance))
        n = self.vertices
        return float(cutting.sketch_variance(quantity, spread, vertices=n, weight=self.ridge, rows=self.rows))

    def mistake(self, distance: float) -> float:
        """Of no meaning for cuts."""
        del distance
        return math.nan


def cuts(request: PlanRequest) -> Iterator[Option]:
    """A sketch of the graph at its best number of rows, and noise or responses on all pairs while they fit."""
    assert request.rows is not None
    vertices, guarantee = request.rows, request.guarantee
    draft = CutErrors(vertices, vertices // 2)
    pairs = vertices * (vertices - 1) // 2
    if guarantee.delta > 0:
        yield _sketch(request, draft)
    if vertices <= LARGEST_VERTICES:
        question = CutQuestion(vertices=vertices, side=1, weight=0.0)
        each = (
            ("edge noise", "laplace", EdgeNoise(vertices=vertices), cut_options.noise_variance),
            ("edge response", "response", EdgeResponse(vertices=vertices), cut_options.response_variance),
        )
        for name, noise, recipe, variance in each:
            one = variance(question, guarantee.epsilon, guarantee.delta) / question.spread
            yield _option(name, noise, recipe, pairs, guarantee, replace(draft, pair_variance=one))


def _sketch(request: PlanRequest, draft: CutErrors) -> Option:
    guarantee, vertices = request.guarantee, draft.vertices

    def errors(rows: int) -> CutErrors:
        ridge = cut_options.sketch_ridge(vertices, rows, guarantee.epsilon, guarantee.delta)
        return replace(draft, ridge=ridge, rows=rows)

    best = min(map(errors, _SKETCH_ROWS), key=lambda e: e.variance(request.scale))
    recipe = GraphSketch(rows=best.rows, vertices=vertices)
    return _option("graph sketch", "chi-square", recipe, best.rows * vertices, guarantee, best)


def _option(name: str, noise: str, recipe: Recipe, numbers: int, guarantee: Guarantee, errors: CutErrors) -> Option:
    return Option(
        mechanism=recipe,
        guarantee=guarantee,
        name=name,
        family="",
        dimension=errors.rows or errors.vertices,
        noise=noise,
        noise_scale=math.sqrt(errors.ridge or errors.pair_variance),
        numbers=numbers,
        errors=errors,
        power=1,
    )


def advice(options: tuple[Option, ...], request: PlanRequest) -> Iterator[str]:
    """Where the sketch beats noise on pairs, and what a small graph would need."""
    sketch = next((o.errors for o in options if isinstance(o.errors, CutErrors) and o.errors.rows), None)
    if sketch is None:
        return
    side = _largest_side(options, request.scale)
    if len(options) > 1 and side is not None and side < sketch.vertices // 2:
        yield f"cuts of at most {side} vertices from the rest are best answered by the sketch, if they shrink alike"
    yield cut_options.small_graph(
        sketch.vertices, sketch.rows, request.guarantee.epsilon, request.guarantee.delta
    ).describe()


def _largest_side(options: tuple[Option, ...], scale: float) -> int | None:
    """The most vertices on one side at which the sketch is best, for cuts in proportion to them; None: at no side."""
    found: int | None = None
    errors = [o.errors for o in options if isinstance(o.errors, CutErrors)]
    half = errors[0].vertices // 2
    for side in sorted({round(half / 1.2**i) for i in range(60)} - {0}):
        best = min((replace(e, side=side) for e in errors), key=lambda e: e.variance(scale * side / half))
        found = side if best.rows else found
    return found
