"""``sfumato plan``: what to release, before any data is read."""

from typing import TYPE_CHECKING, Any

from sfumato import defaults
from sfumato.commands.console.options import (
    SCHEMA,
    add_guarantee,
    add_neighbours,
    add_plot,
    add_spectrum,
    command,
    guarantee_of,
    schema_of,
    spectrum_of,
    tell,
)
from sfumato.commands.growing.statistic import OPTIONS, add_statistic, recipe_of
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.tables.schema import Schema


def add_plan(commands: Any) -> None:
    """``sfumato plan``: its options."""
    parser = command(
        commands,
        "plan",
        "Rank mechanisms, projections and dimensions by predicted error. Purposes nearest, clustering and learning "
        "rank by how many similar records analysts will find. Of a synthetic table, predict the error; of a stream, "
        "that of its running sums against releases anew. Reads no private data and spends no budget.",
        "sfumato plan --schema people.toml --epsilon 1 --unit attribute --rows 10000 --distance 5",
        _plan,
    )
    _add_columns(parser)
    parser.add_argument(
        "--purpose",
        default=defaults.PURPOSE,
        choices=("distances", "nearest", "clustering", "covariance", "learning", "cuts", "table", "stream"),
        help="What the release is for (default distances).",
    )
    rows = "Number of records (of a stream, of each period), or of vertices of a graph."
    parser.add_argument("--rows", type=int, metavar="N", help=rows)
    parser.add_argument(
        "--distance",
        type=float,
        metavar="DISTANCE",
        help="Distance, standard deviation (covariance) or cut weight (cuts) to plan for (default: a typical one).",
    )
    parser.add_argument(
        "--scales",
        type=float,
        nargs="+",
        metavar="DISTANCE",
        help="Distances to plan for together: compare one sketch with several (instead of --distance).",
    )
    parser.add_argument("--largest-dimension", type=int, metavar="N", help="Maximum numbers per record.")
    add_spectrum(parser)
    _add_table(parser)
    add_plot(parser, "the predicted errors")
    add_neighbours(add_guarantee(parser))


def _add_stream(parser: Any) -> None:
    """Options of a plan of a stream."""
    parser.add_argument("--horizon", type=int, metavar="N", help="Number of periods (purpose stream).")
    add_statistic(parser)


def _add_columns(parser: Any) -> None:
    """Options that say what the columns are that a plan is for."""
    parser.add_argument("--schema", metavar="FILE", help=SCHEMA)
    parser.add_argument(
        "--data", metavar="TABLE", help="Table whose column names the patterns of the schema match. No row is used."
    )
    parser.add_argument("--columns", type=int, metavar="N", help="Number of columns, all flags (instead of --schema).")
    parser.add_argument(
        "--space",
        metavar="FILE",
        help="Shared space (instead of --schema): what a sketch in it can do, or other mechanisms with its schema.",
    )


def _add_table(parser: Any) -> None:
    """Options of a plan of a table, and of a stream."""
    parser.add_argument(
        "--label", metavar="COLUMN", help="Column that models will predict (table), or of classes (stream)."
    )
    parser.add_argument(
        "--zeros",
        type=float,
        metavar="SHARE",
        help="Share of records that are zero in a typical number, if you know it (purpose table).",
    )
    _add_stream(parser)


def _plan(options: Any) -> None:
    from sfumato.planning.plans import plan

    if options.space is not None and (options.schema is not None or options.columns is not None):
        raise ParameterError("--space has a schema: leave out --schema and --columns")
    if options.schema is None and options.data is not None:
        raise ParameterError("--data needs --schema: its column names settle the patterns of the schema")
    if options.purpose == "stream":
        _stream(options)
        return
    _none_of_a_stream(options)
    facts: dict[str, Any] = {
        "guarantee": guarantee_of(options),
        "schema": _schema_to_plan(options),
        "columns": options.columns,
        "purpose": options.purpose,
        "rows": options.rows,
        "largest_dimension": options.largest_dimension,
        "spectrum": spectrum_of(options, options.data),
    }
    if options.scales is not None:
        _scales(options, facts)
        return
    if options.purpose == "table" and options.plot is not None:
        raise ParameterError("--plot draws errors over a distance: a plan for a table has none")
    facts |= {"distance": options.distance, "label": options.label, "zeros": options.zeros}
    made: Any = _in_space(options, facts) if _of_records(options) else plan(**facts)
    if options.plot is not None:
        from sfumato.report.plots import draw_plan

        draw_plan(made, options.plot)
    tell(options, made.to_dict(), made.describe())


def _of_records(options: Any) -> bool:
    """Whether a plan is about sketches in a shared space."""
    return options.space is not None and options.purpose in ("distances", "nearest", "clustering", "learning")


def _in_space(options: Any, facts: dict[str, Any]) -> Any:
    """The plan of the sketch that a shared space is for."""
    from sfumato.mechanisms.sketch import Sketch
    from sfumato.planning.planner import judge

    if options.label is not None or options.zeros is not None:
        raise ParameterError("--label and --zeros are for --purpose table")
    if facts["guarantee"].projection == "fresh":
        raise ParameterError("--fresh is refused with --space: its projection is known before the data are fixed")
    known = {key: value for key, value in facts.items() if key not in ("columns", "label", "zeros")}
    return judge(Sketch(space=options.space), **known)


def _stream(options: Any) -> None:
    """The plan of a stream."""
    from sfumato.streams.plan import plan_stream

    given = {name: getattr(options, name) for name in ("columns", "distance", "scales", "zeros", "plot", "spectrum")}
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if named:
        raise ParameterError(f"{' and '.join(named)} cannot be combined with --purpose stream")
    if options.horizon is None or (options.schema or options.space) is None:
        raise ParameterError("a plan for --purpose stream needs --schema and the number of periods (--horizon)")
    made = plan_stream(
        guarantee=guarantee_of(options),
        schema=_schema_to_plan(options),
        horizon=options.horizon,
        mechanism=recipe_of(options),
        rows=options.rows,
    )
    tell(options, made.to_dict(), made.describe())


def _none_of_a_stream(options: Any) -> None:
    named = [f"--{name}" for name in ("horizon", *OPTIONS) if getattr(options, name) is not None]
    if named:
        raise ParameterError(f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} for --purpose stream")


def _schema_to_plan(options: Any) -> "Schema | None":
    from sfumato.projection.space import Space
    from sfumato.tables.schema import Schema

    if options.space is not None:
        return Space.read(options.space).schema
    if options.schema is None:
        return None
    return Schema.read(options.schema) if options.data is None else schema_of(options)


def _scales(options: Any, facts: dict[str, Any]) -> None:
    from sfumato.planning.scales import plan_scales

    if options.distance is not None or options.plot is not None:
        raise ParameterError("--scales cannot be combined with --distance or --plot")
    made = plan_scales(options.scales, **facts)
    tell(options, made.to_dict(), made.describe())


def add_regions(commands: Any) -> None:
    """``sfumato regions``: its options. A plan for flags: which mechanism errs least at which distance."""
    parser = command(
        commands,
        "regions",
        "Show which mechanism has the smallest error at each distance. Compares sketches, randomized response and "
        "noisy distances for records of flags. Reads no data and spends no budget.",
        "sfumato regions --columns 1000 --rows 10000 --epsilon 1 --delta 1e-6 --unit attribute",
        _regions,
    )
    parser.add_argument("--columns", type=int, required=True, metavar="N", help="Number of columns, all flags.")
    parser.add_argument("--rows", type=int, required=True, metavar="N", help="Number of records.")
    add_plot(parser, "the predicted errors")
    add_guarantee(parser)


def _regions(options: Any) -> None:
    from sfumato.planning.regions import borders, describe, facts, rows_where_projection_wins

    where = {"columns": options.columns, "guarantee": guarantee_of(options)}
    found = borders(rows=options.rows, **where)
    middle = float(found[len(found) // 2].distance)
    wins = rows_where_projection_wins(distance=middle, **where)
    if options.plot is not None:
        from sfumato.report.plots import draw_regions

        draw_regions(options.plot, rows=options.rows, **where)
    text = f"At distance {middle:.3g}, a sketch beats noisy distances if there are at least {wins:,} records."
    told = {"regions": facts(found), "projection_wins": {"distance": middle, "rows": wins}}
    tell(options, told, f"{describe(found)}\n{text}")


def add_feasible(commands: Any) -> None:
    """``sfumato feasible``: its options. For a plan: which (epsilon, delta) a scale of Gaussian noise gives."""
    parser = command(
        commands,
        "feasible",
        "Show which (epsilon, delta) Gaussian noise of a given scale guarantees at sensitivity 1.",
        "sfumato feasible 0.5 1 2 --plot feasible.svg",
        _feasible,
    )
    parser.add_argument("scales", type=float, nargs="+", metavar="SCALE", help="Standard deviation of the noise.")
    add_plot(parser, "epsilon against delta")


def _feasible(options: Any) -> None:
    from sfumato import check
    from sfumato.planning.regions import feasible_epsilon

    check.positive(**{f"scales[{i}]": s for i, s in enumerate(options.scales)})
    rows = [
        {"scale": s, "delta": d, "epsilon": feasible_epsilon(s, d)}
        for s in options.scales
        for d in (1e-9, 1e-6, 1e-3, 0.1)
    ]
    if options.plot is not None:
        from sfumato.report.plots import draw_feasible

        draw_feasible(options.plot, options.scales)
    head = "     scale      delta    epsilon"
    lines = [f"{r['scale']:10.4g} {r['delta']:10.3g} {r['epsilon']:10.4g}" for r in rows]
    tell(options, {"feasible": rows}, "\n".join([head, *lines]))
