"""``sfumato plan``: what to release, before any data is read."""

from typing import Any

from sfumato.commands.parsing import add_promise, command, promise, tell


def add_plan(commands: Any) -> None:
    """``sfumato plan``."""
    parser = command(
        commands,
        "plan",
        "Rank mechanisms, projections and dimensions by predicted error. Reads no data, spends nothing.",
        "sfumato plan --schema people.toml --epsilon 1 --unit attribute --rows 10000 --distance 5",
        _plan,
    )
    parser.add_argument("--schema", help="schema file (TOML)")
    parser.add_argument("--columns", type=int, help="instead of a schema: this many flags")
    add_promise(parser)
    parser.add_argument(
        "--purpose", default="distances", choices=("distances", "nearest", "clustering"), help="default distances"
    )
    parser.add_argument("--rows", type=int, help="number of records")
    parser.add_argument("--distance", type=float, help="the distance that matters (default: a typical one)")
    parser.add_argument("--largest-dimension", type=int, help="most numbers per record")
    parser.add_argument("--plot", metavar="FILE", help="also draw the errors: .svg, .png or .html")


def _plan(options: Any) -> None:
    from sfumato.planner import plan
    from sfumato.schema import Schema

    made = plan(
        guarantee=promise(options),
        schema=None if options.schema is None else Schema.read(options.schema),
        columns=options.columns,
        purpose=options.purpose,
        rows=options.rows,
        distance=options.distance,
        largest_dimension=options.largest_dimension,
    )
    if options.plot is not None:
        from sfumato.pictures import draw_plan

        draw_plan(made, options.plot)
    tell(options, made.to_dict(), made.describe())
