"""Options that answer cuts of a graph: how well each mechanism would do before any data is read, and what it needs.

All of it follows from public numbers: n vertices, a cut that separates s of them, its rough weight, epsilon, delta and
the rows of the sketch. Variances are those of ``estimation.cuts``, levels those of ``calibrate``: what a release will
have.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.estimation import cuts
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.graph_pairs import LARGEST_VERTICES, EdgeNoise, EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.planning.option import Option, PlanRequest
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import ChiSquare, Laplace, Response

_SHARE = 0.5  # of the graph that a useful sketch shows at least
_SKETCH_ROWS = (15, 30, 60, 119, 240, 473, 1000, 2000, 4239)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutQuestion:
    """A cut between ``side`` of ``vertices`` vertices and the others, of about this ``weight``."""

    vertices: int
    side: int
    weight: float

    def __post_init__(self) -> None:
        check.whole(2, vertices=self.vertices)
        check.between(1, self.vertices - 1, side=self.side)
        check.between(0, self.spread, weight=self.weight)

    @property
    def spread(self) -> int:
        """How many pairs of vertices the cut separates."""
        return _separated(self.vertices, self.side)


def _separated(vertices: int, side: int) -> int:
    return side * (vertices - side)


def sketch_ridge(vertices: int, rows: int, guarantee: Guarantee) -> float:
    """The weight w of the complete graph that a graph sketch would mix in, for predicted cuts."""
    level = least_level(lambda level: ChiSquare(rows=rows, ratio=1 / level), guarantee.epsilon, guarantee.delta)
    return cuts.ridge(1 / level, vertices)


def sketch_variance(question: CutQuestion, rows: int, guarantee: Guarantee) -> float:
    """Predicted variance of the cut from a graph sketch."""
    n, weight = question.vertices, sketch_ridge(question.vertices, rows, guarantee)
    return float(cuts.sketch_variance(question.weight, question.spread, vertices=n, weight=weight, rows=rows))


def noise_variance(question: CutQuestion, guarantee: Guarantee) -> float:
    """Predicted variance of the cut from Laplace noise on every pair: s (n - s) 2 / epsilon^2 at delta = 0."""
    scale = least_level(lambda level: Laplace(1.0, level), guarantee.epsilon, guarantee.delta)
    return float(cuts.pair_variance(question.spread, 2 * scale**2))


def response_variance(question: CutQuestion, guarantee: Guarantee) -> float:
    """Predicted variance of the cut from randomized response on every pair.

    Variance of the cut from randomized response on every pair: s (n - s) / (4 sinh^2(epsilon/2)) at delta = 0.
    """
    each = 1 / least_level(lambda level: Response(1 / level), guarantee.epsilon, guarantee.delta)
    return float(cuts.pair_variance(question.spread, cuts.response_noise(each)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """How much of a graph a sketch would show, and what alone would raise that to half; None: nothing would.

    share    : 1 - w/n, the fraction of the graph in what is shown; the rest is the complete graph.
    floor    : the standard error of the degree of a vertex without edges; that of any other degree is larger.
    epsilon  : the least that gives half, at these rows and vertices.
    rows     : the most that leave half, at this epsilon.
    vertices : the least of which half is shown, at this epsilon and these rows.
    """

    share: float
    floor: float
    enough: bool
    epsilon: float | None
    rows: int | None
    vertices: int | None

    def describe(self) -> str:
        """How much of a small graph's cuts a sketch would show, and what would help, in plain words."""
        shown = (
            f"The sketch mixes {self.share:.1%} of the graph with {1 - self.share:.1%} of the complete graph. "
            f"The standard error of a degree is at least {self.floor:.3g}."
        )
        if self.enough:
            return shown
        ways = [f"epsilon={self.epsilon:.3g}"] if self.epsilon is not None else []
        ways += [f"at most {self.rows} rows"] if self.rows is not None else []
        ways += [f"at least {self.vertices} vertices"] if self.vertices is not None else []
        return f"{shown} That is too little: half of the graph would show with {', or '.join(ways)}."


def small_graph(vertices: int, rows: int, guarantee: Guarantee) -> Verdict:
    """Whether a graph is large enough for a sketch to answer its cuts.

    1 - w/n = sn / (sn + 2) with s the ratio that the promise allows, so half is shown exactly if s >= 2/n.
    """
    check.whole(2, vertices=vertices)
    check.whole(1, rows=rows)
    share = 1 - sketch_ridge(vertices, rows, guarantee) / vertices
    lonely = CutQuestion(vertices=vertices, side=1, weight=0.0)
    half = 2 / vertices
    wanted = math.ceil(vertices * (1 - share) / share) if share > 0 else None
    return Verdict(
        share=share,
        floor=math.sqrt(sketch_variance(lonely, rows, guarantee)),
        enough=share >= _SHARE,
        epsilon=_or_none(lambda: least_epsilon(ChiSquare(rows=rows, ratio=half), guarantee.delta)),
        rows=_most_rows(half, guarantee),
        vertices=wanted,
    )


def _or_none(found: Callable[[], float]) -> float | None:
    try:
        return found()
    except ParameterError:
        return None


def _most_rows(ratio: float, guarantee: Guarantee) -> int | None:
    """The most rows of a graph sketch whose loss at this ratio keeps the promise: every row more costs more."""

    def fits(rows: int) -> bool:
        return ChiSquare(rows=rows, ratio=ratio).delta(guarantee.epsilon) <= guarantee.delta

    if not fits(1):
        return None
    low, high = 1, 2
    while fits(high) and high < 1 << 20:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# ---- options of a plan -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CutErrors:
    """Of a cut that separates ``side`` of ``vertices`` vertices: from a sketch with this ridge, or noise on pairs."""

    vertices: int
    side: int
    ridge: float = 0.0
    rows: int = 0
    pair_variance: float = 0.0

    def variance(self, quantity: float) -> float:
        """Predicted variance of the weight of the cut."""
        spread = _separated(self.vertices, self.side)
        if self.rows == 0:
            return float(cuts.pair_variance(spread, self.pair_variance))
        n = self.vertices
        return float(cuts.sketch_variance(quantity, spread, vertices=n, weight=self.ridge, rows=self.rows))

    def mistake(self, distance: float) -> float:
        """Clustering mistakes have no meaning for cuts."""
        del distance
        return math.nan


def options(request: PlanRequest) -> Iterator[Option]:
    """Options of a plan for cuts of a graph.

    A sketch of the graph at its best number of rows, and noise or responses on all pairs while they fit.
    """
    assert request.rows is not None
    vertices, guarantee = request.rows, request.guarantee
    draft = CutErrors(vertices, vertices // 2)
    pairs = vertices * (vertices - 1) // 2
    if guarantee.delta > 0:
        yield _sketch(request, draft)
    if vertices <= LARGEST_VERTICES:
        question = CutQuestion(vertices=vertices, side=1, weight=0.0)
        each = (
            ("edge noise", "laplace", EdgeNoise(vertices=vertices), noise_variance),
            ("edge response", "response", EdgeResponse(vertices=vertices), response_variance),
        )
        for name, noise, recipe, variance in each:
            one = variance(question, guarantee) / question.spread
            yield _option(name, noise, recipe, pairs, guarantee, replace(draft, pair_variance=one))


def _sketch(request: PlanRequest, draft: CutErrors) -> Option:
    guarantee, vertices = request.guarantee, draft.vertices

    def errors(rows: int) -> CutErrors:
        ridge = sketch_ridge(vertices, rows, guarantee)
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
    """Advice for a plan of cuts: where the sketch beats noise on pairs, and what a small graph would need."""
    sketch = next((o.errors for o in options if isinstance(o.errors, CutErrors) and o.errors.rows), None)
    if sketch is None:
        return
    side = _largest_side(options, request.scale)
    if len(options) > 1 and side is not None and side < sketch.vertices // 2:
        yield f"The sketch is best for cuts of up to {side} vertices from the rest, if weights shrink in proportion."
    yield small_graph(sketch.vertices, sketch.rows, request.guarantee).describe()


def _largest_side(options: tuple[Option, ...], scale: float) -> int | None:
    """The most vertices on one side of a cut at which the sketch is the best option.

    For cuts in proportion to the vertices; None: at no side.
    """
    found: int | None = None
    errors = [o.errors for o in options if isinstance(o.errors, CutErrors)]
    half = errors[0].vertices // 2
    for side in sorted({round(half / 1.2**i) for i in range(60)} - {0}):
        best = min((replace(e, side=side) for e in errors), key=lambda e: e.variance(scale * side / half))
        found = side if best.rows else found
    return found
