"""``sfumato release KIND``: make a private release of a table."""

import argparse
import dataclasses
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sfumato.commands.options import (
    account,
    add_account,
    add_engine,
    add_promise,
    command,
    engine,
    finite,
    promise,
    tell,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.fileformat.manifest import Manifest
    from sfumato.mechanisms.base import Recipe
    from sfumato.planning.cut_options import Verdict
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.tables.schema import Schema


def add_release(commands: Any) -> None:
    """``sfumato release``, with one subcommand per kind."""
    for parser in _add_kinds(commands.add_parser("release", help="Make a private release of a table.")):
        parser.set_defaults(stands="the release was made", many_blocks=True)


def add_price(commands: Any) -> None:
    """``sfumato ledger price``, with the same kinds and options."""
    text = "Quote a release before it is made: write `ledger price` in place of `release`."
    for parser in _add_kinds(commands.add_parser("price", help=text, description=text)):
        parser.set_defaults(pricing=True)
        for action in parser._actions:
            if action.dest == "out":
                action.required = False


def _add_kinds(parser: argparse.ArgumentParser) -> "Iterable[argparse.ArgumentParser]":
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    _add_sketch(kinds)
    _add_components(kinds)
    _add_responses(kinds)
    _add_distances(kinds)
    _add_synthetic(kinds)
    _add_covariance(kinds)
    _add_graph(kinds)
    return kinds.choices.values()


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="CSV or Parquet file, or a folder of Parquet files")
    parser.add_argument("--schema", required=True, help="schema file (TOML)")
    parser.add_argument("--out", required=True, help="folder to make")
    add_promise(parser)
    add_account(parser)
    add_engine(parser)


def _add_sketch(kinds: Any) -> None:
    parser = command(
        kinds,
        "sketch",
        "Turn every record into a few noisy numbers that keep the distances between records.",
        "sfumato release sketch people.csv --schema people.toml --epsilon 1 --unit attribute --out people.release",
        _sketch,
    )
    _add_data(parser)
    parser.add_argument("--dimension", type=int, help="numbers per record (default: the plan's, which is printed)")
    parser.add_argument("--distance", type=float, help="the distance the plan is made for (default: a typical one)")
    parser.add_argument(
        "--choose-dimension",
        type=float,
        metavar="EPSILON",
        help="let the private data choose the dimension, at a cost of this part of epsilon",
    )
    parser.add_argument(
        "--projection", help="identity, gaussian, rademacher, achlioptas, sparse (default), orthonormal"
    )
    parser.add_argument("--noise", choices=("laplace", "gaussian"), help="default: the plan's, or laplace")
    parser.add_argument("--sparsity", type=int, help="entries per row of a sparse projection (default 1)")
    parser.add_argument("--seed", type=int, help="public seed of the projection (default: drawn)")
    parser.add_argument("--keep-projection", action="store_true", help="do not publish the projection")


def _add_components(kinds: Any) -> None:
    parser = command(
        kinds,
        "components",
        "Turn every record into its noisy place within a subspace of principal components, found privately.",
        "sfumato release components people.csv --schema people.toml --epsilon 4 --unit attribute --dimension 5 "
        "--out people.release",
        _components,
    )
    _add_data(parser)
    parser.add_argument("--dimension", type=int, required=True, help="numbers per record")
    parser.add_argument("--noise", choices=("laplace", "gaussian"), default="laplace", help="default laplace")
    parser.add_argument("--split", type=float, default=0.3, help="share of the budget for the subspace (default 0.3)")
    parser.add_argument("--keep-projection", action="store_true", help="do not publish the subspace")


def _components(options: Any) -> None:
    from sfumato.mechanisms.components import Components
    from sfumato.tables.schema import Schema

    recipe = Components(
        dimension=options.dimension,
        noise=options.noise,
        split=options.split,
        publish_projection=not options.keep_projection,
    )
    _make(options, Schema.read(options.schema), recipe, promise(options))


def _add_responses(kinds: Any) -> None:
    parser = command(
        kinds,
        "responses",
        "Answer every flag and category truthfully or, with a known probability, at random (randomized response).",
        "sfumato release responses people.csv --schema people.toml --epsilon 1 --unit attribute --out people.release",
        _responses,
    )
    _add_data(parser)


def _responses(options: Any) -> None:
    from sfumato.mechanisms.responses import RandomizedResponse
    from sfumato.tables.schema import Schema

    _make(options, Schema.read(options.schema), RandomizedResponse(), promise(options))


def _add_distances(kinds: Any) -> None:
    parser = command(
        kinds,
        "distances",
        "Publish the squared distances between all pairs of records, with noise on each.",
        "sfumato release distances people.csv --schema people.toml --epsilon 1 --delta 1e-6 --unit attribute "
        "--out people.release",
        _distances,
    )
    _add_data(parser)
    parser.add_argument("--noise", choices=("laplace", "gaussian"), help="default: gaussian if delta > 0, else laplace")


def _distances(options: Any) -> None:
    from sfumato.mechanisms.distances import NoisyDistances
    from sfumato.tables.schema import Schema

    noise: Literal["laplace", "gaussian"] = options.noise or ("gaussian" if options.delta > 0 else "laplace")
    _make(options, Schema.read(options.schema), NoisyDistances(noise=noise), promise(options))


def _add_synthetic(kinds: Any) -> None:
    parser = command(
        kinds,
        "synthetic",
        "Draw synthetic records from a private Gaussian model of projected ones.",
        "sfumato release synthetic people.csv --schema people.toml --epsilon 1 --delta 1e-6 --dimension 16 "
        "--label income --classes --out people.release",
        _synthetic,
    )
    _add_data(parser)
    parser.add_argument("--dimension", type=int, help="numbers per synthetic record (default: from public facts)")
    parser.add_argument(
        "--expected-rows", type=int, help="what is publicly known of the number of records, if anything"
    )
    parser.add_argument("--label", help="a column to keep as the label")
    parser.add_argument("--classes", action="store_true", help="one model for each value of the label")
    parser.add_argument("--rows", type=int, help="how many to draw (default: as many as there are records)")
    parser.add_argument("--noise", choices=("laplace", "gaussian"), help="default: gaussian if delta > 0, else laplace")
    parser.add_argument(
        "--centring",
        choices=("best", "private", "public"),
        default="best",
        help="about a private mean, or in one pass about the middle of the bounds (default: private for classes)",
    )
    _add_neighbours(parser)


def _add_neighbours(parser: argparse.ArgumentParser) -> None:
    text = "add-remove protects the number of records too (default replace)"
    parser.add_argument("--neighbours", choices=("replace", "add-remove"), default="replace", help=text)


def _synthetic(options: Any) -> None:
    from sfumato.mechanisms.synthetic.recipe import Synthetic
    from sfumato.tables.schema import Schema

    noise: Literal["laplace", "gaussian"] = options.noise or ("gaussian" if options.delta > 0 else "laplace")
    recipe = Synthetic(
        dimension=options.dimension,
        label=options.label,
        kind="classes" if options.classes else "values",
        noise=noise,
        rows=options.rows,
        centring=options.centring,
        expected_rows=options.expected_rows or _public_rows(options),
    )
    _make(options, Schema.read(options.schema), recipe, promise(options))


def _public_rows(options: Any) -> int | None:
    """The number of records, where it is public and known before they are read."""
    from sfumato.tables.sources import open_table

    return None if options.neighbours == "add-remove" else open_table(options.data).rows or None


def _add_covariance(kinds: Any) -> None:
    parser = command(
        kinds,
        "covariance",
        "Publish the covariance of the columns, with noise on each sum or as a sketch.",
        "sfumato release covariance people.csv --schema people.toml --epsilon 1 --delta 1e-6 --out people.release",
        _covariance,
    )
    _add_data(parser)
    parser.add_argument(
        "--noise", choices=("laplace", "gaussian", "sketch"), help="default: gaussian if delta > 0, else laplace"
    )
    parser.add_argument(
        "--centred", action="store_true", help="about the mean (default: about the middle of the bounds)"
    )
    parser.add_argument("--rows", type=int, help="of a sketch")
    _add_neighbours(parser)


def _covariance(options: Any) -> None:
    from sfumato.mechanisms.covariance import Covariance, CovarianceNoise
    from sfumato.tables.schema import Schema

    noise: CovarianceNoise = options.noise or ("gaussian" if options.delta > 0 else "laplace")
    recipe = Covariance(noise=noise, centred=options.centred, rows=options.rows)
    _make(options, Schema.read(options.schema), recipe, promise(options))


def _add_graph(kinds: Any) -> None:
    parser = command(
        kinds,
        "graph",
        "Publish a graph under edge privacy: a sketch that answers cuts, or noise or responses on every pair.",
        "sfumato release graph edges.csv --epsilon 1 --delta 1e-6 --rows 119 --vertices 4039 --out graph.release",
        _graph,
    )
    parser.add_argument("data", help="CSV or Parquet file of edges: from, to and, if you like, a weight in [0, 1]")
    parser.add_argument("--out", required=True, help="folder to make")
    parser.add_argument("--epsilon", type=float, required=True, help="of one edge")
    parser.add_argument("--delta", type=float, default=0.0, help="needed by a sketch (default 0)")
    parser.add_argument(
        "--vertices", type=int, help="how many there are (default: taken from the edges, with a warning)"
    )
    parser.add_argument("--rows", type=int, help="of the sketch; more of them mean less noise and a larger ridge")
    parser.add_argument("--distortion", type=float, help="instead of rows: how far, relatively, a cut may be off ...")
    parser.add_argument("--failure-probability", type=float, help="... and with which probability it may be further")
    parser.add_argument("--mechanism", choices=("sketch", "noise", "response"), default="sketch", help="default sketch")
    parser.add_argument(
        "--unweighted",
        action="store_true",
        help="of a response: estimate edges (of weight one half or more) and not weights; so where none are given",
    )
    add_account(parser)
    add_engine(parser)


def _graph(options: Any) -> None:
    from sfumato.privacy.guarantee import Guarantee

    guarantee = Guarantee(epsilon=options.epsilon, delta=options.delta, unit="edge")
    _make(options, None, _graph_recipe(options), guarantee)


def _graph_recipe(options: Any) -> "Recipe":
    from sfumato.errors import ParameterError
    from sfumato.mechanisms.graph_pairs import EdgeNoise, EdgeResponse
    from sfumato.mechanisms.graph_sketch import GraphSketch

    accuracy = options.rows, options.distortion, options.failure_probability
    if options.unweighted and options.mechanism != "response":
        raise ParameterError(f"--unweighted is for --mechanism response: it does not go with {options.mechanism}")
    if options.mechanism == "sketch":
        return GraphSketch(
            rows=options.rows,
            distortion=options.distortion,
            failure_probability=options.failure_probability,
            vertices=options.vertices,
        )
    if any(given is not None for given in accuracy):
        raise ParameterError(
            "--rows, --distortion and --failure-probability are those of a sketch: they do not go with "
            f"--mechanism {options.mechanism}"
        )
    if options.mechanism == "noise":
        return EdgeNoise(vertices=options.vertices)
    return EdgeResponse(vertices=options.vertices, weighted=False if options.unweighted else None)


def _sketch(options: Any) -> None:
    from sfumato.mechanisms.sketch import Sketch
    from sfumato.tables.schema import Schema

    schema, guarantee = Schema.read(options.schema), promise(options)
    if options.choose_dimension is not None:
        _chosen(options, schema, guarantee)
        return
    if options.dimension is None and options.projection is None:
        _planned(options, schema, guarantee)
        return
    sketch = Sketch(
        dimension=options.dimension,
        projection=options.projection,
        noise=options.noise or "laplace",
        sparsity=options.sparsity,
        seed=options.seed,
        publish_projection=not options.keep_projection,
    )
    _make(options, schema, sketch, guarantee)


def _chosen(options: Any, schema: "Schema", guarantee: "Guarantee") -> None:
    from sfumato.errors import ParameterError
    from sfumato.mechanisms.chosen_sketch import ChosenSketch
    from sfumato.mechanisms.sketch import Sketch

    if options.dimension is not None or options.sparsity is not None:
        raise ParameterError("--choose-dimension lets the data choose, so it cannot go with --dimension or --sparsity")
    sketch = Sketch(
        dimension=1,
        projection=options.projection,
        noise=options.noise or "laplace",
        seed=options.seed,
        publish_projection=not options.keep_projection,
    )
    _make(options, schema, ChosenSketch(choice=options.choose_dimension, sketch=sketch), guarantee)


def _planned(options: Any, schema: "Schema", guarantee: "Guarantee") -> None:
    """Release the sketch that a plan puts first, and print the plan before anything is read."""
    from sfumato.mechanisms.sketch import Sketch
    from sfumato.planning.planner import plan
    from sfumato.tables.sources import open_table

    made = plan(
        schema=schema, guarantee=guarantee, rows=open_table(options.data, schema).rows, distance=options.distance
    )
    made = made.only(lambda o: isinstance(o.mechanism, Sketch) and options.noise in (None, o.noise))
    sketch = made.mechanism
    assert isinstance(sketch, Sketch)
    sketch = dataclasses.replace(sketch, publish_projection=not options.keep_projection)
    if options.seed is not None:
        sketch = dataclasses.replace(sketch, seed=options.seed)
    if not options.json:
        print(made.describe(), flush=True)
    _make(options, schema, sketch, made.best.guarantee, {"plan": made.to_dict()})


def _make(
    options: Any,
    schema: "Schema | None",
    mechanism: "Recipe",
    guarantee: "Guarantee",
    facts: dict[str, Any] | None = None,
) -> None:
    from sfumato.commands.progress import ProgressLine
    from sfumato.fileformat.plain_words import summary
    from sfumato.pipeline.release import release_to
    from sfumato.tables.sources import open_table

    terms: dict[str, Any] = {
        "schema": schema,
        "mechanism": mechanism,
        "guarantee": guarantee,
        "ledger": account(options),
    }
    if getattr(options, "pricing", False):
        _quote(options, terms)
        return
    terms["engine"] = engine(options)
    _warn_of_leftovers(options.out)
    with ProgressLine(None if schema is None else open_table(options.data, schema).rows) as progress:
        made = release_to(options.out, options.data, progress=progress, **terms)
    told = {"release": options.out, "manifest": made} | (facts or {})
    lines = [summary(made)]
    if made["kind"] == "graph-sketch":
        seen = _seen(made)
        told |= {"verdict": dataclasses.asdict(seen)}
        lines.append(seen.describe())
    tell(options, told, "\n".join([*lines, f"written to {options.out}"]))


def _warn_of_leftovers(out: str) -> None:
    """A line on stderr, in place of the warning that a call in Python gives."""
    from sfumato.errors import LeftoverWarning
    from sfumato.fileformat.leftovers import note

    warnings.simplefilter("ignore", LeftoverWarning)
    told = note(Path(out).parent)
    if told is not None:
        print(f"note: {told}", file=sys.stderr)


def _seen(made: "Manifest") -> "Verdict":
    """What is left of a graph in its sketch, and what would show more."""
    from sfumato.planning import cut_options
    from sfumato.privacy.guarantee import Guarantee

    promise = Guarantee(epsilon=made["guarantee"]["epsilon"], delta=made["guarantee"]["delta"], unit="edge")
    return cut_options.small_graph(made["rows"], made["mechanism"]["rows"], promise)


def _quote(options: Any, terms: dict[str, Any]) -> None:
    from sfumato.errors import ParameterError
    from sfumato.pipeline.release import price

    if terms["ledger"] is None:
        raise ParameterError("a price is what a release costs of a budget: say which (--ledger)")
    quotes = price(options.data, **terms)
    lines = [
        f"of {q.cap.describe()}:\n  spent {q.before.epsilon:.4g}; with this release {q.after.epsilon:.4g} "
        f"({q.after.bound} composition{f', counted {q.times} times' if q.times > 1 else ''}): "
        f"{'it fits' if q.fits else 'IT DOES NOT FIT'}"
        for q in quotes
    ]
    facts = [
        {"cap": q.cap.describe(), "before": finite(q.before.epsilon), "after": finite(q.after.epsilon)}
        | {"bound": q.after.bound}
        | {"fits": q.fits, "times": q.times}
        for q in quotes
    ]
    tell(options, {"quotes": facts}, "\n".join(lines))
