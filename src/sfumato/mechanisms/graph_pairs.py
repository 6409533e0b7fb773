"""The baselines of graph sketches: every pair of vertices published, with exact noise or as a randomized answer.

Formal guarantee: one edge's weight is the weight of one pair, clipped to [0, 1] by ``edges.gather``. ``EdgeNoise``
adds exact noise to it on the integer lattice: that weight moves by at most 2^20 steps, whole numbers, and the noise is
exact, so its theorem holds to the last bit. ``EdgeResponse`` publishes a bit for every pair, flipped with probability
exactly f = 1 / (1 + e^epsilon). Without weights the bit is whether there is an edge, which for an edge list that has
weights all the same means a weight of at least 1/2. With weights it is 1 with probability exactly w, a multiple of
2^-20: what is published is then 1 with probability f + w (1 - 2 f), which lies between f and 1 - f for every w, so the
likelihood ratio of any answer under two weights is at most (1 - f) / f = e^epsilon; in other words, the law for w is a
mixture of those for 0 and 1. All n (n - 1) / 2 pairs are published, so only n is shown by their number.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import Facts
from sfumato.files import edges
from sfumato.files.edges import Graph, gather
from sfumato.mechanisms.base import (
    FROM_DATA,
    Noise,
    Published,
    Recipe,
    check_noise,
    check_scale,
    noise_facts,
    noise_loss,
    order_of,
)
from sfumato.mechanisms.graph_sketch import PreparedGraph, check_edges, check_vertices
from sfumato.numerics.lattice import INPUT_BITS
from sfumato.numerics.types import Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss, Response
from sfumato.randomness import randomized_choice
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

LARGEST_VERTICES = 1 << 13
_BLOCK = 1 << 18  # pairs at a time
_STEP = 2.0**-INPUT_BITS


def _gathered(rows: Rows, vertices: int | None) -> Graph:
    graph = gather(rows, vertices)
    if graph.vertices > LARGEST_VERTICES:
        raise ParameterError(_TOO_MANY)
    return graph


_TOO_MANY = f"publishing every pair is for at most {LARGEST_VERTICES} vertices: use GraphSketch (--mechanism sketch)"


def _check(name: str, vertices: int | None, schema: Schema | None, guarantee: Guarantee) -> None:
    check_edges(name, schema, guarantee)
    if vertices is not None and vertices > LARGEST_VERTICES:
        raise ParameterError(f"{_TOO_MANY}, got vertices={vertices}")


def triangle(graph: Graph) -> Iterator[tuple[int, Integers]]:
    """Weights of all pairs of vertices u < v in steps, row after row of the upper triangle, with each block's place."""
    n = graph.vertices
    first, second = graph.first.astype(np.int64), graph.second.astype(np.int64)
    places = first * (2 * n - first - 1) // 2 + (second - first - 1)
    pairs = n * (n - 1) // 2
    for start in range(0, pairs, _BLOCK):
        block = np.zeros(min(_BLOCK, pairs - start), np.int64)
        here = slice(*np.searchsorted(places, [start, start + block.size]))
        block[places[here] - start] = graph.steps[here]
        yield start, block


def _warnings(graph: Graph) -> Facts:
    return {"rows": graph.vertices} | ({"warnings": [FROM_DATA]} if graph.from_data else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeNoise(Recipe):
    """The recipe: exact noise on the weight of every pair. ``vertices``: how many there are, which is public."""

    noise: Noise = "laplace"
    vertices: int | None = None

    def __post_init__(self) -> None:
        check.one_of(("laplace", "gaussian"), noise=self.noise)
        check_vertices(self.vertices)

    def prepare(self, schema: Schema | None, guarantee: Guarantee) -> "PreparedEdgeNoise":
        """Noise on all pairs of vertices: refuse what cannot be promised; a graph has no schema."""
        _check("noise on every pair", self.vertices, schema, guarantee)
        check_noise(guarantee, self.noise)
        return PreparedEdgeNoise(self, guarantee)


@dataclass(frozen=True, slots=True)
class PreparedEdgeNoise(PreparedGraph):
    """Noise on every pair, before calibration; level = noise scale over 1, the most that one edge's weight moves."""

    recipe: EdgeNoise
    guarantee: Guarantee

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Noise on pairs, and vertices."""
        return {"noise": self.recipe.noise, "vertices": self.recipe.vertices}

    def loss(self, level: float) -> Loss:
        """The loss of noise on all pairs of vertices, of which one number moves by at most 1."""
        return noise_loss(order_of(self.recipe.noise), level)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The noisy weights of all pairs of vertices. Guarantee: as stated at the top; weights are clipped here."""
        scale = level * 2.0**INPUT_BITS  # a product with a power of two is exact
        check_scale(self.guarantee, scale, level, "between 1e-5 and 1e8")
        graph = _gathered(rows, self.recipe.vertices)
        return Published(self.facts(level, graph), ("weight",), self._blocks(graph, scale, secret), by_record=False)

    def _blocks(self, graph: Graph, scale: float, secret: Secret) -> Iterator[NDArray[np.float64]]:
        parameters = f"edge noise {self.recipe!r} {self.guarantee!r} {graph.vertices} {scale.hex()}"
        for position, exact in triangle(graph):
            words = secret.words(parameters, position, exact)
            draw = words.laplace if self.recipe.noise == "laplace" else words.gaussian
            noisy = exact + draw(exact.size, scale)
            yield np.asarray(noisy[None] * np.float64(_STEP))

    def facts(self, level: float, graph: Graph) -> Facts:
        """What the manifest says of noisy pairs of vertices at this level."""
        noisy = noise_facts(order_of(self.recipe.noise), 1.0, level)
        return {
            "kind": "graph-noise",
            "mechanism": {"name": "graph-noise", "noise": self.recipe.noise, **noisy},
            "lattice": {"input_bits": INPUT_BITS, "shift": 0, "unit": _STEP},
        } | _warnings(graph)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeResponse(Recipe):
    """The recipe: a randomized answer on every pair.

    weighted : whether weights are estimated: each is rounded to 0 or 1 at random, 1 with the weight as its probability.
               False: whether pairs have an edge is estimated, which a weight of 1/2 or more counts as; intervals are
               narrower then, at large epsilons by much. Left out: False for an edge list of two columns, else True.
    """

    vertices: int | None = None
    weighted: bool | None = None

    def __post_init__(self) -> None:
        check_vertices(self.vertices)
        if self.weighted is not None and not isinstance(self.weighted, bool):
            raise check.fail("weighted", self.weighted, "True, False or left out")

    def prepare(self, schema: Schema | None, guarantee: Guarantee) -> "PreparedEdgeResponse":
        """Randomized answers for all pairs: refuse what cannot be promised; a graph has no schema."""
        _check("a response on every pair", self.vertices, schema, guarantee)
        return PreparedEdgeResponse(self, guarantee)


@dataclass(frozen=True, slots=True)
class PreparedEdgeResponse(PreparedGraph):
    """A response on every pair, before calibration; level = 1 / epsilon of one answer."""

    recipe: EdgeResponse
    guarantee: Guarantee

    @property
    def settings(self) -> dict[str, str | int | None]:
        """The vertices whose pairs are answered."""
        return {"vertices": self.recipe.vertices}

    def loss(self, level: float) -> Loss:
        """The loss of one randomized answer out of two, for each pair of vertices."""
        return Response(1 / level)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The answers for all pairs of vertices, 0 or 1. Guarantee: as stated at the top."""
        epsilon = 1 / level
        if not randomized_choice.SMALLEST_EPSILON <= epsilon <= randomized_choice.LARGEST_EPSILON:
            raise ParameterError(
                f"epsilon={self.guarantee.epsilon!r} is out of reach here: choose one between "
                f"{randomized_choice.SMALLEST_EPSILON:g} and {randomized_choice.LARGEST_EPSILON:g}"
            )
        graph = _gathered(rows, self.recipe.vertices)
        weighted = edges.weighted(rows) if self.recipe.weighted is None else self.recipe.weighted
        blocks = self._blocks(graph, epsilon, secret, weighted=weighted)
        return Published(self.facts(level, graph, weighted=weighted), ("edge",), blocks, by_record=False)

    def _blocks(self, graph: Graph, epsilon: float, secret: Secret, *, weighted: bool) -> Iterator[NDArray[np.int8]]:
        """Answers for blocks of pairs.

        Rounding draws from streams of its own, so a graph of weights 0 and 1 has the same answers either way.
        """
        recipe = f"EdgeResponse(vertices={self.recipe.vertices!r})"
        parameters = f"{recipe} {self.guarantee!r} {graph.vertices} {epsilon.hex()}"
        for position, steps in triangle(graph):
            if weighted:
                bits = secret.words(f"edge rounding {parameters}", position, steps).coins(steps, INPUT_BITS)
            else:
                bits = (steps >= 1 << (INPUT_BITS - 1)).astype(np.int64)
            words = secret.words(f"edge response {parameters}", position, bits)
            yield words.respond(bits, 2, epsilon).astype(np.int8)[None]

    def facts(self, level: float, graph: Graph, *, weighted: bool) -> Facts:
        """What the manifest says of randomized answers for all pairs of vertices at this level."""
        epsilon = 1 / level
        keep = float(1 / (1 + np.exp(-epsilon)))
        mechanism = {"name": "graph-responses", "epsilon_per_value": epsilon, "keep": keep, "weighted": weighted}
        return {"kind": "graph-responses", "mechanism": mechanism} | _warnings(graph)
