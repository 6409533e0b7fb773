"""Before any data: how well each graph mechanism would answer a cut, and what a small graph would need.

All of it follows from public numbers: n vertices, a cut that separates s of them, its rough weight, epsilon, delta and
the rows of the sketch. Variances are those of ``estimation.cuts``, levels those of ``calibrate``: what a release will
have.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.estimation import cuts
from sfumato.mechanisms.graph_pairs import LARGEST_VERTICES
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.losses import ChiSquare, Laplace, Response

_SHARE = 0.5  # of the graph that a useful sketch shows at least


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
        """How many pairs the cut separates."""
        return self.side * (self.vertices - self.side)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The standard error that a mechanism would give a cut, and whether it can serve so many vertices at all."""

    mechanism: str
    standard_error: float
    possible: bool
    numbers: int


def sketch_ridge(vertices: int, rows: int, epsilon: float, delta: float) -> float:
    """The weight w of the complete graph that a sketch would mix in."""
    level = least_level(lambda level: ChiSquare(rows=rows, ratio=1 / level), epsilon, delta)
    return cuts.ridge(1 / level, vertices)


def sketch_variance(question: CutQuestion, rows: int, epsilon: float, delta: float) -> float:
    """Variance of the cut from a sketch."""
    n, weight = question.vertices, sketch_ridge(question.vertices, rows, epsilon, delta)
    return float(cuts.sketch_variance(question.weight, question.spread, vertices=n, weight=weight, rows=rows))


def noise_variance(question: CutQuestion, epsilon: float, delta: float = 0.0) -> float:
    """Variance of the cut from Laplace noise on every pair: s (n - s) 2 / epsilon^2 at delta = 0."""
    scale = least_level(lambda level: Laplace(1.0, level), epsilon, delta)
    return float(cuts.pair_variance(question.spread, 2 * scale**2))


def response_variance(question: CutQuestion, epsilon: float, delta: float = 0.0) -> float:
    """Variance of the cut from randomized response on every pair: s (n - s) / (4 sinh^2(epsilon/2)) at delta = 0."""
    each = 1 / least_level(lambda level: Response(1 / level), epsilon, delta)
    return float(cuts.pair_variance(question.spread, cuts.response_noise(each)))


def rank(question: CutQuestion, rows: int, epsilon: float, delta: float) -> list[Forecast]:
    """The three mechanisms, those that can serve the graph first, and of these the most accurate first.

    Randomized response answers for graphs without weights. The sketch's error grows with the cut, the others' do not.
    """
    pairs, dense = question.vertices * (question.vertices - 1) // 2, question.vertices <= LARGEST_VERTICES
    sketch = math.sqrt(sketch_variance(question, rows, epsilon, delta))
    found = [
        Forecast("GraphSketch", sketch, possible=True, numbers=rows * question.vertices),
        Forecast("EdgeNoise", math.sqrt(noise_variance(question, epsilon, delta)), dense, pairs),
        Forecast("EdgeResponse", math.sqrt(response_variance(question, epsilon, delta)), dense, pairs),
    ]
    return sorted(found, key=lambda f: (not f.possible, f.standard_error))


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
        """The verdict in plain words."""
        shown = (
            f"the sketch shows {self.share:.1%} of the graph and {1 - self.share:.1%} of the complete graph, "
            f"and no degree to better than +-{self.floor:.3g}"
        )
        if self.enough:
            return f"{shown}."
        ways = [f"epsilon={self.epsilon:.3g}"] if self.epsilon is not None else []
        ways += [f"at most {self.rows} rows"] if self.rows is not None else []
        ways += [f"at least {self.vertices} vertices"] if self.vertices is not None else []
        return f"{shown}: too little. Half of it would be shown with " + ", or ".join(ways) + "."


def small_graph(vertices: int, rows: int, epsilon: float, delta: float) -> Verdict:
    """Whether a graph is large enough for a sketch.

    1 - w/n = sn / (sn + 2) with s the ratio that the promise allows, so half is shown exactly if s >= 2/n.
    """
    check.whole(2, vertices=vertices)
    check.whole(1, rows=rows)
    share = 1 - sketch_ridge(vertices, rows, epsilon, delta) / vertices
    lonely = CutQuestion(vertices=vertices, side=1, weight=0.0)
    half = 2 / vertices
    wanted = math.ceil(vertices * (1 - share) / share) if share > 0 else None
    return Verdict(
        share=share,
        floor=math.sqrt(sketch_variance(lonely, rows, epsilon, delta)),
        enough=share >= _SHARE,
        epsilon=_or_none(lambda: least_epsilon(ChiSquare(rows=rows, ratio=half), delta)),
        rows=_most_rows(half, epsilon, delta),
        vertices=wanted,
    )


def _or_none(found: Callable[[], float]) -> float | None:
    try:
        return found()
    except ParameterError:
        return None


def _most_rows(ratio: float, epsilon: float, delta: float) -> int | None:
    """The most rows whose loss at this ratio keeps the promise: every row more costs more."""

    def fits(rows: int) -> bool:
        return ChiSquare(rows=rows, ratio=ratio).delta(epsilon) <= delta

    if not fits(1):
        return None
    low, high = 1, 2
    while fits(high) and high < 1 << 20:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
