"""Kinds of releases that publish something for every record, or every pair of them."""

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from sfumato import defaults
from sfumato.commands.console.options import (
    add_guarantee,
    add_spectrum,
    add_table,
    guarantee_of,
    place_of,
    schema_of,
    spectrum_of,
    table,
)
from sfumato.commands.kinds.terms import (
    BY_DELTA,
    BY_PREDICTION,
    KindOptions,
    Terms,
    add_anyway,
    add_dimension,
    add_noise,
    terms_of,
)
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.mechanisms.sketch import Sketch
    from sfumato.tables.schema import Schema


def _add_sketch(parser: argparse.ArgumentParser) -> None:
    add_table(parser, space=True)
    add_dimension(parser, "Numbers per record (default: chosen by a plan, which is printed).")
    parser.add_argument(
        "--distance", type=float, metavar="DISTANCE", help="Distance to plan for (default: a typical one)."
    )
    parser.add_argument(
        "--purpose",
        choices=("distances", "nearest", "clustering", "learning"),
        help="What the sketch is for. Without --dimension a plan chooses for it; with one, or in a space, the plan "
        "says what to expect (default distances).",
    )
    add_spectrum(parser)
    add_anyway(parser)
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
    add_noise(parser, BY_PREDICTION)
    parser.add_argument(
        "--sparsity", type=int, metavar="N", help="Nonzero entries per row of a sparse projection (default 1)."
    )
    parser.add_argument("--seed", type=int, metavar="SEED", help="Public seed of the projection (default: random).")
    parser.add_argument("--keep-projection", action="store_true", help="Do not publish the projection.")
    add_guarantee(parser)


def _sketch(options: Any) -> Terms:
    from sfumato.mechanisms.sketch import Sketch

    place = place_of(options)
    if options.choose_dimension is not None:
        return _chosen(options)
    if options.dimension is None and options.projection is None and options.space is None:
        return _planned(options)
    sketch = Sketch(
        **place,
        dimension=options.dimension,
        projection=options.projection,
        noise=options.noise,
        sparsity=options.sparsity,
        seed=options.seed,
        publish_projection=not options.keep_projection,
    )
    terms = terms_of(options, sketch)
    wanted = options.purpose is not None or (options.space is not None and terms.guarantee.projection == "fixed")
    return _judged(terms, sketch, options) if wanted else terms


def _judged(terms: Terms, sketch: "Sketch", options: Any) -> Terms:
    """A sketch that is given, with what it can do for its purpose."""
    from sfumato.planning.planner import judge

    assert terms.schema is not None
    made = judge(sketch, schema=terms.schema, guarantee=terms.guarantee, **_wanted(options, terms.schema))
    return dataclasses.replace(terms, plan=made)


def _wanted(options: Any, schema: "Schema") -> dict[str, Any]:
    """What a plan is to know beside schema and guarantee."""
    from sfumato.files.open_table import open_table
    from sfumato.planning.option import ROWS

    rows = open_table(table(options), schema).rows
    return {
        "purpose": options.purpose or "distances",
        "rows": ROWS if rows is None and options.purpose == "learning" else rows,
        "distance": options.distance,
        "spectrum": spectrum_of(options, options.data),
    }


def _chosen(options: Any) -> Terms:
    from sfumato.mechanisms.chosen_sketch import ChosenSketch
    from sfumato.mechanisms.sketch import Sketch

    if options.dimension is not None or options.sparsity is not None or options.purpose is not None:
        raise ParameterError("--choose-dimension cannot be combined with --dimension, --sparsity or --purpose")
    if options.space is not None:
        raise ParameterError("--choose-dimension cannot be combined with --space, which says the dimension")
    sketch = Sketch(
        dimension=1,
        projection=options.projection,
        noise=options.noise,
        seed=options.seed,
        publish_projection=not options.keep_projection,
    )
    return terms_of(options, ChosenSketch(choice=options.choose_dimension, sketch=sketch))


def _planned(options: Any) -> Terms:
    """The recipe of the sketch that a plan puts first."""
    from sfumato.planning.plans import plan_sketch

    if options.schema is None:
        raise ParameterError("--schema is missing: a release needs one, or a --space, which has one")
    schema = schema_of(options)
    wanted = _wanted(options, schema) | {"noise": options.noise}
    made, sketch = plan_sketch(schema=schema, guarantee=guarantee_of(options), **wanted)
    sketch = dataclasses.replace(sketch, publish_projection=not options.keep_projection)
    if options.seed is not None:
        sketch = dataclasses.replace(sketch, seed=options.seed)
    return Terms(schema, sketch, made.best.guarantee, made)


def _add_components(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    add_dimension(parser, "Numbers per record.", required=True)
    add_noise(parser, BY_DELTA)
    parser.add_argument(
        "--split",
        type=float,
        default=defaults.SPLIT,
        metavar="SHARE",
        help="Share of epsilon for the subspace (default 0.3).",
    )
    parser.add_argument("--keep-projection", action="store_true", help="Do not publish the subspace.")
    add_guarantee(parser)


def _components(options: Any) -> Terms:
    from sfumato.mechanisms.components import Components

    recipe = Components(
        dimension=options.dimension,
        noise=options.noise,
        split=options.split,
        publish_projection=not options.keep_projection,
    )
    return terms_of(options, recipe)


def _add_responses(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    parser.add_argument(
        "--levels",
        type=int,
        metavar="N",
        help="Cut numbers and dates into N equal parts of their bounds, so that they can be answered too: 2 up to "
        "epsilon 2 for a value, 4 at 4, 14 at 8 (default: numbers are refused).",
    )
    add_guarantee(parser)


def _responses(options: Any) -> Terms:
    from sfumato.mechanisms.responses import RandomizedResponse

    return terms_of(options, RandomizedResponse(levels=options.levels))


def _add_distances(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    add_noise(parser, BY_DELTA)
    add_guarantee(parser)


def _distances(options: Any) -> Terms:
    from sfumato.mechanisms.distances import NoisyDistances

    return terms_of(options, NoisyDistances(noise=options.noise))


SKETCH = KindOptions(
    "sketch",
    "Publish every record as a few noisy numbers that preserve the distances between records.",
    "people.csv --schema people.toml --epsilon 1 --unit attribute",
    _add_sketch,
    _sketch,
)
COMPONENTS = KindOptions(
    "components",
    "Publish every record as noisy coordinates along private principal components.",
    "people.csv --schema people.toml --epsilon 4 --unit attribute --dimension 5",
    _add_components,
    _components,
)
RESPONSES = KindOptions(
    "responses",
    "Publish every flag, category and level of a number by randomized response: the truth, or another value.",
    "people.csv --schema people.toml --epsilon 1 --unit attribute",
    _add_responses,
    _responses,
)
DISTANCES = KindOptions(
    "distances",
    "Publish the squared distance between every pair of records, with noise.",
    "people.csv --schema people.toml --epsilon 1 --delta 1e-6 --unit attribute",
    _add_distances,
    _distances,
)
