"""Options that publish sums over records or edges: graph sketches, noise and responses on the pairs of a graph."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sfumato import cutplan, cutting
from sfumato.cutplan import CutQuestion
from sfumato.guarantee import Guarantee
from sfumato.mechanism import Recipe
from sfumato.mechanisms.graph import GraphSketch
from sfumato.mechanisms.pairs import LARGEST_VERTICES, EdgeNoise, EdgeResponse
from sfumato.option import Option, Request

_SKETCH_ROWS = (15, 30, 60, 119, 240, 473, 1000, 2000, 4239)


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


def cuts(request: Request) -> Iterator[Option]:
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
            ("edge noise", "laplace", EdgeNoise(vertices=vertices), cutplan.noise_variance),
            ("edge response", "response", EdgeResponse(vertices=vertices), cutplan.response_variance),
        )
        for name, noise, recipe, variance in each:
            one = variance(question, guarantee.epsilon, guarantee.delta) / question.spread
            yield _option(name, noise, recipe, pairs, guarantee, replace(draft, pair_variance=one))


def _sketch(request: Request, draft: CutErrors) -> Option:
    guarantee, vertices = request.guarantee, draft.vertices

    def errors(rows: int) -> CutErrors:
        ridge = cutplan.sketch_ridge(vertices, rows, guarantee.epsilon, guarantee.delta)
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


def advice(options: tuple[Option, ...], request: Request) -> Iterator[str]:
    """Where the sketch beats noise on pairs, and what a small graph would need."""
    sketch = next((o.errors for o in options if isinstance(o.errors, CutErrors) and o.errors.rows), None)
    if sketch is None:
        return
    side = _largest_side(options, request.scale)
    if len(options) > 1 and side is not None and side < sketch.vertices // 2:
        yield f"cuts of at most {side} vertices from the rest are best answered by the sketch, if they shrink alike"
    yield cutplan.small_graph(
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
