"""Private graph sketches: a graph becomes r Gaussian rows that know the weight of every cut.

Blocki, Blum, Datta, Sheffet 2012, Algorithm 1, with exact calibration. A fraction w/n of the complete graph is mixed
in, L_H = (w/n) L_K + (1 - w/n) L_G, and r independent rows of N(0, L_H) are published. Nothing is added to them: the
randomness of the rows is itself the protection, so it is never published.

Formal guarantee: for real-number arithmetic, a run at a level whose loss satisfies delta(epsilon) <= delta is
(epsilon, delta)-differentially private for the weight of one edge. If the weight of {u, v} grows by t <= 1, L_H grows
by vv' with v = sqrt(t (1 - w/n)) (e_u - e_v), |v|^2 <= 2 (1 - w/n); off the constant vectors, which all rows are
orthogonal to, L_H >= w I. So s = v' L_H^-1 v <= 2 (1 - w/n) / w, and adding or removing such a vv' costs ``ChiSquare``.
An endpoint pair with no other edge attains it. What doubles do to this is not proved: the manifest says
``numerics: idealized``, and what is published is rounded to a coarse grid.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.estimation import cuts
from sfumato.fileformat.manifest import Facts
from sfumato.files.edges import LARGEST_VERTICES, Graph, gather
from sfumato.mechanisms.base import FROM_DATA, Prepared, Published, Recipe, idealized_warning
from sfumato.numerics.types import Floats
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import ChiSquare, Loss
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows, in_order, usual_threads
from sfumato.tables.schema import Schema

_TOGETHER = (8, 1 << 16)  # sketch rows that share a pass over the edges, at least; and numbers, for small graphs
_EDGES = 1 << 16  # edges at a time, at least
_CELLS = 1 << 22  # of a published block
_GRID_BITS = 16  # published numbers are multiples of about 2^-16 of the ridge's standard deviation
_LARGEST_SKETCH = 1 << 34  # numbers
_MOST_SHARE = 0.5  # of the complete graph, before a release warns of it


def check_edges(name: str, schema: Schema | None, guarantee: Guarantee) -> None:
    """Refuse what neither a graph sketch nor any other mechanism on edges can promise."""
    if guarantee.unit != "edge":
        raise ParameterError(f"{name} protects the weight of one edge, got unit={guarantee.unit!r}: use unit='edge'")
    if schema is not None:
        raise ParameterError(f"{name} reads edges, which need no schema: leave it out, and give vertices if you can")


def check_vertices(vertices: int | None) -> None:
    """The number of vertices of a graph sketch is a whole number that ids can reach, or left out."""
    if vertices is not None:
        check.whole(2, vertices=vertices)
        check.between(2, LARGEST_VERTICES, vertices=vertices)


def rows_for(distortion: float, failure_probability: float) -> int:
    """Rows of a graph sketch for any one cut to be within 1 +- distortion of its mixed value but for this probability.

    r = 8 ln(2 / nu) / eta^2, Blocki et al. 2012, Theorem 3.1.
    """
    check.positive(distortion=distortion, failure_probability=failure_probability)
    check.between(0, 1, distortion=distortion, failure_probability=failure_probability)
    return math.ceil(8 * math.log(2 / failure_probability) / distortion**2)


class PreparedGraph(Prepared):
    """A mechanism on graphs, which have no columns."""

    __slots__ = ()

    @property
    def schema(self) -> None:
        """A graph that is sketched, or published pair by pair, has no schema."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSketch(Recipe):
    """The recipe: Gaussian rows that know the weight of every cut; as many as given, or as an accuracy needs.

    rows                : how many Gaussian rows are published; r times as many numbers as there are vertices.
    distortion,
    failure_probability : or these two, for ``rows_for``.
    vertices            : how many there are, which is public; left out, as the edges or the matrix say.
    """

    rows: int | None = None
    distortion: float | None = None
    failure_probability: float | None = None
    vertices: int | None = None

    def __post_init__(self) -> None:
        if self.rows is None:
            if self.distortion is None or self.failure_probability is None:
                raise ParameterError("a graph sketch needs rows, or distortion and failure_probability")
            object.__setattr__(self, "rows", rows_for(self.distortion, self.failure_probability))
        elif self.distortion is not None or self.failure_probability is not None:
            raise ParameterError("give rows, or distortion and failure_probability, not both")
        assert self.rows is not None
        check.whole(1, rows=self.rows)
        check.between(1, 1 << 20, rows=self.rows)
        check_vertices(self.vertices)

    @property
    def width(self) -> int:
        """How many numbers each vertex becomes."""
        return self.height

    @property
    def height(self) -> int:
        """The number of rows of the sketch, which is never missing once the recipe exists."""
        assert self.rows is not None
        return self.rows

    def prepare(self, schema: Schema | None, guarantee: Guarantee) -> "PreparedGraphSketch":
        """Refuse what cannot be promised; a graph has no schema."""
        check_edges("a graph sketch", schema, guarantee)
        if guarantee.delta == 0:
            raise ParameterError(
                "a graph sketch needs delta > 0, got delta=0.0: give a small delta, or use EdgeNoise "
                "(--mechanism noise)"
            )
        if self.vertices is not None:
            _check_size(self.height, self.vertices)
        return PreparedGraphSketch(self, guarantee)


def _check_size(rows: int, vertices: int) -> None:
    if rows * vertices > _LARGEST_SKETCH:
        raise ParameterError(
            f"a sketch may hold at most {_LARGEST_SKETCH} numbers, rows times vertices: use fewer rows"
        )


@dataclass(frozen=True, slots=True)
class PreparedGraphSketch(PreparedGraph):
    """A sketch before calibration; level = 1 / s, the inverse of what one edge may count for in the rows' law.

    The ridge w = 2 / (s + 2/n) follows from it once n is known, so calibration needs no data even where n comes from
    them.
    """

    recipe: GraphSketch
    guarantee: Guarantee

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Rows and vertices."""
        return {"rows": self.recipe.height, "vertices": self.recipe.vertices}

    def loss(self, level: float) -> Loss:
        """The loss of one edge: adding or removing vv' with v' S^-1 v <= 1 / level, in the worse direction."""
        return ChiSquare(rows=self.recipe.height, ratio=self.ratio(level))

    def ratio(self, level: float) -> float:
        """What one edge may count for, rounded up."""
        return math.nextafter(1 / level, math.inf)

    def ridge(self, level: float, vertices: int) -> float:
        """The weight w of the complete graph, rounded up."""
        return cuts.ridge(1 / level, vertices)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The sketch, one published row of r numbers for each vertex.

        Guarantee: as stated at the top, at the loss of ``level``. Weights are clipped here, whatever came in.
        """
        graph = gather(rows, self.recipe.vertices)
        _check_size(self.recipe.height, graph.vertices)
        weight = self.ridge(level, graph.vertices)
        if not weight < graph.vertices:
            raise ParameterError(
                f"epsilon={self.guarantee.epsilon!r} leaves nothing of a graph of this size: raise epsilon or delta, "
                "or use fewer rows"
            )
        facts = self.facts(level, graph)
        draw = _Sampler(graph, weight, facts["mechanism"]["grid"], self._stream(graph, weight, secret))
        names = tuple(f"z{i}" for i in range(self.recipe.height))
        return Published(facts, names, draw.blocks(self.recipe.height), by_record=False)

    def _stream(self, graph: Graph, weight: float, secret: Secret) -> "_Stream":
        parameters = f"graph sketch {self.recipe!r} {self.guarantee!r} {graph.vertices} {weight.hex()}"
        content = secret.words(parameters, graph.codes, graph.steps.astype(np.int64)).key()
        return functools.partial(_normals, secret, parameters, content)

    def facts(self, level: float, graph: Graph) -> Facts:
        """What the manifest says of a run at this level."""
        weight = self.ridge(level, graph.vertices)
        grid = 2.0 ** math.floor(math.log2(weight) / 2 - _GRID_BITS)
        return {
            "kind": "graph-sketch",
            "mechanism": {
                "name": "graph-sketch",
                "rows": self.recipe.height,
                "ridge": weight,
                "ratio": self.ratio(level),
                "grid": grid,
            },
            "rows": graph.vertices,
            "numerics": "idealized",
            "warnings": [
                idealized_warning(grid),
                *_little(weight / graph.vertices),
                *([FROM_DATA] if graph.from_data else []),
            ],
        }


def _little(share: float) -> list[str]:
    """What a graph sketch warns of where most of what it publishes is the complete graph, by a public number."""
    if share <= _MOST_SHARE:
        return []
    text = (
        f"only {1 - share:.1%} of what is published is the graph, the rest is the complete graph: "
        "more vertices, a larger epsilon or fewer rows would show more of it"
    )
    return [text]


_Stream = functools.partial[Floats]


def _normals(secret: Secret, parameters: str, content: bytes, group: int, edges: int, size: int) -> Floats:
    """Normals of one group of rows of a graph sketch, for the vertices (edges = -1) or for one block of edges."""
    return secret.words(parameters, content, group, edges).normals(size)


@dataclass(frozen=True, slots=True)
class _Sampler:
    """Rows sqrt(w) (g - mean g) + sqrt(1 - w/n) E'h, g normal on vertices, h on edges: N(0, L_H) in O(n + m) each.

    E has a row sqrt(a) (e_u - e_v) for each edge, so E'E = L_G; and w (I - J/n) = (w/n) L_K.
    """

    graph: Graph
    weight: float
    grid: float
    stream: _Stream

    def blocks(self, rows: int) -> Iterator[NDArray[np.float32]]:
        """The whole graph sketch, drawn when the first block is asked for, then vertex after vertex."""
        n = self.graph.vertices
        whole = np.empty((rows, n), np.float32)
        together = max(_TOGETHER[0], _TOGETHER[1] // n)
        for _ in in_order(
            self._fill, ((whole[s : s + together], s) for s in range(0, rows, together)), usual_threads()
        ):
            pass
        size = max(1, _CELLS // rows)
        for start in range(0, n, size):
            yield whole[:, start : start + size]

    def _fill(self, out: NDArray[np.float32], group: int) -> None:
        """A few rows of a graph sketch at once, rounded to the grid; equal for any number of threads."""
        n, count = self.graph.vertices, len(out)
        sums = self.stream(group, -1, n * count).reshape(n, count)
        sums -= sums.mean(axis=0)
        sums *= math.sqrt(self.weight)
        for start, incidence in self._incidences():
            edges = incidence.shape[1]
            sums += incidence @ self.stream(group, start, edges * count).reshape(edges, count)
        sums /= self.grid
        np.rint(sums, out=sums)
        sums *= self.grid
        out[...] = sums.T

    def _incidences(self) -> Iterator[tuple[int, Any]]:
        """sqrt(1 - w/n) E' of the sketched graph, a block of edges after the other.

        As wide as there are vertices, so O(n + m) in all.
        """
        graph, n = self.graph, self.graph.vertices
        size = max(_EDGES, n)
        for start in range(0, graph.steps.size, size):
            some = slice(start, start + size)
            scaled = np.sqrt(graph.steps[some] * (2.0**-20 * (1 - self.weight / n)))
            ends = np.stack([graph.first[some], graph.second[some]], axis=1).ravel()
            entries = np.stack([scaled, -scaled], axis=1).ravel()
            columns = np.arange(0, ends.size + 1, 2, dtype=np.int64 if ends.size >= 1 << 31 else np.int32)
            yield start, scipy.sparse.csc_array((entries, ends, columns), shape=(n, scaled.size))
