"""From options to a recipe: what can be asked of each kind of release, and the mechanism and guarantee it stands for.

``sfumato release`` and ``sfumato ledger price`` share these.
"""

import argparse
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from sfumato.commands.options import (
    add_dialect,
    add_epsilon_delta,
    add_guarantee,
    add_neighbours,
    add_table,
    guarantee_of,
    schema_of,
    table,
)
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.mechanisms.base import Recipe
    from sfumato.mechanisms.covariance import CovarianceNoise
    from sfumato.planning.planner import Plan
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.tables.schema import Schema

_NOISES = ("laplace", "gaussian")
_BY_DELTA = "(default gaussian if delta > 0, else laplace)."


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """Recipe, schema and guarantee that options stand for. ``plan``: by which the mechanism was chosen, if by one."""

    schema: "Schema | None"
    mechanism: "Recipe"
    guarantee: "Guarantee"
    plan: "Plan | None" = None


@dataclasses.dataclass(frozen=True, slots=True)
class KindOptions:
    """Options and recipe of one kind of release. ``example``: options after its name, without --out."""

    name: str
    text: str
    example: str
    add: Callable[[argparse.ArgumentParser], None]
    terms: Callable[[Any], Terms]


def _terms(options: Any, mechanism: "Recipe") -> Terms:
    return Terms(schema_of(options), mechanism, guarantee_of(options))


def _add_dimension(parser: argparse.ArgumentParser, text: str, *, required: bool = False) -> None:
    parser.add_argument("--dimension", type=int, required=required, metavar="N", help=text)


def _add_noise(parser: argparse.ArgumentParser, default: str, choices: tuple[str, ...] = _NOISES) -> None:
    parser.add_argument("--noise", choices=choices, help=f"Noise distribution {default}")


def _noise(options: Any) -> Literal["laplace", "gaussian"]:
    """The noise of a recipe: the one that the options name, or else the one that the guarantee allows."""
    return options.noise or ("gaussian" if options.delta > 0 else "laplace")


# ---- sketch ---------------------------------------------------------------------------------------------------------


def _add_sketch(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    _add_dimension(parser, "Numbers per record (default: chosen by a plan, which is printed).")
    parser.add_argument(
        "--distance", type=float, metavar="DISTANCE", help="Distance to plan for (default: a typical one)."
    )
    parser.add_argument(
        "--choose-dimension",
        type=float,
        metavar="EPSILON",
        help="Choose the dimension from the private data, at a cost of this part of epsilon.",
    )
    parser.add_argument(
        "--projection",
        metavar="FAMILY",
        help="Projection: identity, gaussian, rademacher, achlioptas, sparse or orthonormal (default sparse, or chosen "
        "by the plan).",
    )
    _add_noise(parser, "(default laplace, or chosen by the plan).")
    parser.add_argument(
        "--sparsity", type=int, metavar="N", help="Nonzero entries per row of a sparse projection (default 1)."
    )
    parser.add_argument("--seed", type=int, metavar="SEED", help="Public seed of the projection (default: random).")
    parser.add_argument("--keep-projection", action="store_true", help="Do not publish the projection.")
    add_guarantee(parser)


def _sketch(options: Any) -> Terms:
    from sfumato.mechanisms.sketch import Sketch

    if options.choose_dimension is not None:
        return _chosen(options)
    if options.dimension is None and options.projection is None:
        return _planned(options)
    sketch = Sketch(
        dimension=options.dimension,
        projection=options.projection,
        noise=options.noise or "laplace",
        sparsity=options.sparsity,
        seed=options.seed,
        publish_projection=not options.keep_projection,
    )
    return _terms(options, sketch)


def _chosen(options: Any) -> Terms:
    from sfumato.mechanisms.chosen_sketch import ChosenSketch
    from sfumato.mechanisms.sketch import Sketch

    if options.dimension is not None or options.sparsity is not None:
        raise ParameterError("--choose-dimension cannot be combined with --dimension or --sparsity")
    sketch = Sketch(
        dimension=1,
        projection=options.projection,
        noise=options.noise or "laplace",
        seed=options.seed,
        publish_projection=not options.keep_projection,
    )
    return _terms(options, ChosenSketch(choice=options.choose_dimension, sketch=sketch))


def _planned(options: Any) -> Terms:
    """The recipe of the sketch that a plan puts first."""
    from sfumato.files.open_table import open_table
    from sfumato.mechanisms.sketch import Sketch
    from sfumato.planning.planner import plan

    schema = schema_of(options)
    rows = open_table(table(options), schema).rows
    made = plan(schema=schema, guarantee=guarantee_of(options), rows=rows, distance=options.distance)
    made = made.only(lambda o: isinstance(o.mechanism, Sketch) and options.noise in (None, o.noise))
    sketch = made.mechanism
    assert isinstance(sketch, Sketch)
    sketch = dataclasses.replace(sketch, publish_projection=not options.keep_projection)
    if options.seed is not None:
        sketch = dataclasses.replace(sketch, seed=options.seed)
    return Terms(schema, sketch, made.best.guarantee, made)


# ---- one noisy row for each record, or one number for each pair -----------------------------------------------------


def _add_components(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    _add_dimension(parser, "Numbers per record.", required=True)
    _add_noise(parser, "(default laplace).")
    parser.add_argument(
        "--split", type=float, default=0.3, metavar="SHARE", help="Share of epsilon for the subspace (default 0.3)."
    )
    parser.add_argument("--keep-projection", action="store_true", help="Do not publish the subspace.")
    add_guarantee(parser)


def _components(options: Any) -> Terms:
    from sfumato.mechanisms.components import Components

    recipe = Components(
        dimension=options.dimension,
        noise=options.noise or "laplace",
        split=options.split,
        publish_projection=not options.keep_projection,
    )
    return _terms(options, recipe)


def _add_responses(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    add_guarantee(parser)


def _responses(options: Any) -> Terms:
    from sfumato.mechanisms.responses import RandomizedResponse

    return _terms(options, RandomizedResponse())


def _add_distances(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    _add_noise(parser, _BY_DELTA)
    add_guarantee(parser)


def _distances(options: Any) -> Terms:
    from sfumato.mechanisms.distances import NoisyDistances

    return _terms(options, NoisyDistances(noise=_noise(options)))


# ---- synthetic records and covariances ------------------------------------------------------------------------------


def _add_synthetic(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    _add_dimension(parser, "Numbers per synthetic record (default: computed from public facts).")
    parser.add_argument(
        "--expected-rows",
        type=int,
        metavar="N",
        help="Publicly known number of records, used to compute the dimension (default: the number of records, if it "
        "is public).",
    )
    parser.add_argument("--label", metavar="COLUMN", help="Column to keep as the label.")
    kind = parser.add_mutually_exclusive_group()
    kept: dict[str, Any] = {"dest": "label_kind", "action": "store_const"}
    usual = "default for a category, an ordinal and a flag"
    kind.add_argument("--classes", const="classes", help=f"Fit a model for each value of the label ({usual}).", **kept)
    kind.add_argument("--values", const="values", help="Predict the label as a number (default for others).", **kept)
    parser.add_argument(
        "--rows", type=int, metavar="N", help="Number of synthetic records (default: the number of records)."
    )
    _add_noise(parser, _BY_DELTA)
    parser.add_argument(
        "--centring",
        choices=("best", "private", "public"),
        default="best",
        help="Centre of the model: a private mean, or the public bounds (default best: private with classes).",
    )
    add_neighbours(add_guarantee(parser))


def _synthetic(options: Any) -> Terms:
    from sfumato.mechanisms.synthetic.recipe import Synthetic

    recipe = Synthetic(
        dimension=options.dimension,
        label=options.label,
        kind=options.label_kind,
        noise=_noise(options),
        rows=options.rows,
        centring=options.centring,
        expected_rows=options.expected_rows or _public_rows(options),
    )
    return _terms(options, recipe)


def _public_rows(options: Any) -> int | None:
    """The number of records for a recipe, where it is public and known before they are read."""
    from sfumato.files.open_table import open_table

    return None if options.neighbours == "add-remove" else open_table(table(options)).rows or None


def _add_covariance(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    _add_noise(parser, f"on each sum, or a sketch {_BY_DELTA}", (*_NOISES, "sketch"))
    parser.add_argument(
        "--centred", action="store_true", help="Covariance about the mean (default: about the middle of the bounds)."
    )
    parser.add_argument("--rows", type=int, metavar="N", help="Rows of the sketch (needs --noise sketch).")
    add_neighbours(add_guarantee(parser))


def _covariance(options: Any) -> Terms:
    from sfumato.mechanisms.covariance import Covariance

    noise: CovarianceNoise = _noise(options)
    return _terms(options, Covariance(noise=noise, centred=options.centred, rows=options.rows))


# ---- graphs ---------------------------------------------------------------------------------------------------------


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


KINDS = (
    KindOptions(
        "sketch",
        "Publish every record as a few noisy numbers that preserve the distances between records.",
        "people.csv --schema people.toml --epsilon 1 --unit attribute",
        _add_sketch,
        _sketch,
    ),
    KindOptions(
        "components",
        "Publish every record as noisy coordinates along private principal components.",
        "people.csv --schema people.toml --epsilon 4 --unit attribute --dimension 5",
        _add_components,
        _components,
    ),
    KindOptions(
        "responses",
        "Publish every flag and category by randomized response: the true value, or with known probability another.",
        "people.csv --schema people.toml --epsilon 1 --unit attribute",
        _add_responses,
        _responses,
    ),
    KindOptions(
        "distances",
        "Publish the squared distance between every pair of records, with noise.",
        "people.csv --schema people.toml --epsilon 1 --delta 1e-6 --unit attribute",
        _add_distances,
        _distances,
    ),
    KindOptions(
        "synthetic",
        "Publish synthetic records drawn from a private Gaussian model.",
        "people.csv --schema people.toml --epsilon 1 --delta 1e-6 --dimension 16 --label income --classes",
        _add_synthetic,
        _synthetic,
    ),
    KindOptions(
        "covariance",
        "Publish the covariance matrix of the columns, with noise.",
        "people.csv --schema people.toml --epsilon 1 --delta 1e-6",
        _add_covariance,
        _covariance,
    ),
    KindOptions(
        "graph",
        "Publish a graph with edge privacy. A sketch answers cuts; noise and randomized response publish every pair of "
        "vertices.",
        "edges.csv --epsilon 1 --delta 1e-6 --rows 119 --vertices 4039",
        _add_graph,
        _graph,
    ),
)
