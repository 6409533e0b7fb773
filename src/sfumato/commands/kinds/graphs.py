"""Releases of graphs: sketch, noise or randomized response."""

import argparse
from typing import TYPE_CHECKING, Any

from sfumato.commands.console.options import add_dialect, add_epsilon_delta
from sfumato.commands.kinds.terms import KindOptions, Terms
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.mechanisms.base import Recipe


def _add_graph(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data",
        metavar="EDGES",
        help="Table of edges: two columns of vertex numbers and, optionally, a weight in [0, 1]. - reads standard "
        "input.",
    )
    add_dialect(parser)
    parser.add_argument(
        "--vertices",
        type=int,
        metavar="N",
        help="Number of vertices (default: taken from the edges, which is outside the guarantee).",
    )
    parser.add_argument(
        "--mechanism",
        choices=("sketch", "noise", "response"),
        default="sketch",
        help="Sketch, noise on every pair of vertices, or randomized response (default sketch).",
    )
    parser.add_argument(
        "--rows", type=int, metavar="N", help="Rows of the sketch. More rows mean less noise and a larger ridge."
    )
    parser.add_argument(
        "--distortion", type=float, metavar="SHARE", help="Instead of --rows: relative error allowed for a cut."
    )
    parser.add_argument(
        "--failure-probability", type=float, metavar="P", help="Probability that a cut exceeds --distortion."
    )
    parser.add_argument(
        "--unweighted",
        action="store_true",
        help="Randomized response only: publish edges (weight at least 0.5) instead of weights. Implied if the file "
        "has no weights.",
    )
    add_epsilon_delta(parser.add_argument_group("privacy guarantee"), "default 0; a sketch needs DELTA > 0")


def _graph(options: Any) -> Terms:
    from sfumato.privacy.guarantee import Guarantee

    guarantee = Guarantee(epsilon=options.epsilon, delta=options.delta, unit="edge")
    return Terms(None, _graph_recipe(options), guarantee)


def _graph_recipe(options: Any) -> "Recipe":
    from sfumato.mechanisms.graph_pairs import EdgeNoise, EdgeResponse
    from sfumato.mechanisms.graph_sketch import GraphSketch

    if options.unweighted and options.mechanism != "response":
        raise ParameterError("--unweighted needs --mechanism response")
    if options.mechanism == "sketch":
        return GraphSketch(
            rows=options.rows,
            distortion=options.distortion,
            failure_probability=options.failure_probability,
            vertices=options.vertices,
        )
    if any(given is not None for given in (options.rows, options.distortion, options.failure_probability)):
        raise ParameterError("--rows, --distortion and --failure-probability need --mechanism sketch")
    if options.mechanism == "noise":
        return EdgeNoise(vertices=options.vertices)
    return EdgeResponse(vertices=options.vertices, weighted=False if options.unweighted else None)


GRAPH = KindOptions(
    "graph",
    "Publish a graph with edge privacy. A sketch answers cuts; noise and randomized response publish every pair of "
    "vertices.",
    "edges.csv --epsilon 1 --delta 1e-6 --rows 119 --vertices 4039",
    _add_graph,
    _graph,
)
