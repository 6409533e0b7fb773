"""``sfumato schema`` and ``sfumato check``: what the data may be."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.console.options import (
    TABLE,
    account,
    add_account,
    add_dialect,
    add_engine,
    add_neighbours,
    add_table,
    command,
    engine,
    schema_of,
    table,
    tell,
    warn,
)
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.pipeline.learn_schema import PlannedSchema
    from sfumato.tables.schema import Schema
    from sfumato.tables.schema_draft import Draft

_ONLY = ("epsilon", "delta", "group", "id", "leave_out", "kind", "most", "dry_run")


def add_schema(commands: Any) -> None:
    """``sfumato schema``: its options."""
    parser = command(
        commands,
        "schema",
        "Draft a schema from the column names and types of a table. You fill in the bounds.",
        "sfumato schema people.csv > people.toml",
        _schema,
    )
    parser.add_argument("data", metavar="TABLE", help=TABLE)
    add_dialect(parser)
    parser.add_argument(
        "--bounds-from-data",
        action="store_true",
        help="Take the bounds from the data. NOT PRIVATE: outside every guarantee, and recorded in every manifest.",
    )
    parser.add_argument(
        "--as",
        dest="form",
        choices=("toml", "sheet"),
        default="toml",
        help="Form of the draft: TOML, or a sheet with one line per column for a spreadsheet program (default toml).",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="New file for the draft, .toml, or .csv or .xlsx for a sheet (default: print it)."
    )
    _add_private(parser)


def _schema(options: Any) -> None:
    if options.private:
        if options.bounds_from_data:
            raise ParameterError("--bounds-from-data is not private: use it without --private")
        _private_schema(options)
        return
    _check_not_private(options)
    from sfumato.files.open_table import open_table
    from sfumato.tables.schema import Schema

    opened = open_table(table(options))
    made: Any = Schema.from_arrow(opened.schema)
    if options.bounds_from_data:
        made = made.bounded_by_data(opened.blocks(opened.schema.names, 1 << 16))
        warn("sfumato: NOT PRIVATE: these bounds are values of the data")
    _hand_over(options, made)


def _hand_over(options: Any, made: "Schema | Draft") -> None:
    """Write a schema, or the draft of one, to the file that the options name, or print it."""
    from sfumato.tables import sheet

    if options.out is not None:
        _write_new(Path(options.out), made, options.form)
        what = "Schema" if options.private else "Draft"
        tell(options, {"schema": options.out}, f"{what} written to {options.out}")
        return
    text = sheet.csv_text(made.rows()) if options.form == "sheet" else made.to_toml()
    tell(options, {"schema": text}, text.rstrip("\n"))


def _write_new(path: Path, made: Any, form: str) -> None:
    """Write a drafted schema to a file that is not there yet: it may stand beside data of nearly the same name."""
    _check_new(path, (".csv", ".xlsx") if form == "sheet" else (".toml", ".csv", ".xlsx"))
    made.write(path)


def _check_new(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse a name for the file of a schema that is taken, or has a suffix that means something else."""
    if path.suffix.lower() not in suffixes:
        raise ParameterError(f"--out must end in {', '.join(suffixes)}, got {path.name}")
    if path.exists():
        raise ParameterError(f"{path} already exists: choose another name; nothing was charged")


def add_check(commands: Any) -> None:
    """``sfumato check``: its options. Counts the cells that do not fit a schema."""
    parser = command(
        commands,
        "check",
        "Check a table against a schema (the output is NOT PRIVATE). The output counts cells of the data.",
        "sfumato check people.csv --schema people.toml",
        _check,
    )
    add_table(parser)


def _check(options: Any) -> None:
    from sfumato.files.open_table import open_table
    from sfumato.pipeline.fitting import compare

    schema = schema_of(options)
    opened = open_table(table(options))  # without the schema, as text: it tells unreadable from missing
    opened.check_types(schema)
    findings = compare(schema, opened.blocks(schema.source_names, 1 << 16))
    warning = "NOT PRIVATE: this output counts cells of the data. Do not share it."
    lines = [f"  {untrusted.line(f.column)}: {f.problem} in {f.count} cells" for f in findings]
    lines = lines or ["  All cells fit the schema."]
    facts = {
        "private": False,
        "findings": [{"column": f.column, "problem": f.problem, "count": f.count} for f in findings],
    }
    tell(options, facts, "\n".join([warning, *lines, warning]))


# ---- schemas learned privately ---------------------------------------------------------------------------------------


def _add_private(parser: Any) -> None:
    """The options of ``sfumato schema`` that learn a schema privately."""
    group = parser.add_argument_group("learning privately")
    group.add_argument(
        "--private",
        action="store_true",
        help="Learn kinds, bounds and values from the data under differential privacy. It costs EPSILON and DELTA.",
    )
    group.add_argument("--epsilon", type=float, metavar="EPSILON", help="Privacy loss of the schema.")
    group.add_argument("--delta", type=float, metavar="DELTA", help="Probability beyond it, such as 1e-7.")
    group.add_argument("--group", type=int, metavar="N", help="Maximum records per person (default 1).")
    add_neighbours(group)
    group.add_argument("--id", metavar="NAME", help="Column that labels the rows: nothing is learned about it.")
    group.add_argument("--leave-out", action="append", metavar="NAME", help="Column the schema should not have.")
    group.add_argument(
        "--kind",
        action="append",
        metavar="NAME=KIND",
        help="What a column is (real, integer, flag, category, date, datetime); its bounds or values are learned.",
    )
    group.add_argument("--most", type=int, metavar="N", help="Maximum items of a set per record (default 8).")
    group.add_argument("--dry-run", action="store_true", help="Print the price and the thresholds. Reads no row.")
    add_account(parser, "default none")
    add_engine(parser)
    parser.set_defaults(many_blocks=False)


def _private_schema(options: Any) -> None:
    """Learn the schema of a table and print it, or print what that would cost."""
    from sfumato.commands.console.progress import LINE
    from sfumato.pipeline.learn_schema import MOST, Description, PlannedSchema
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.randomness.secret import Secret

    if options.epsilon is None or options.delta is None:
        raise ParameterError("--private needs --epsilon and --delta: what the schema may cost")
    if options.form == "sheet":
        raise ParameterError("a sheet cannot say what a private schema cost: leave out --as sheet")
    if options.out is not None:
        _check_new(Path(options.out), (".toml",))
    guarantee = Guarantee(
        epsilon=options.epsilon, delta=options.delta, group=options.group or 1, neighbours=options.neighbours
    )
    most = MOST if options.most is None else options.most
    about = Description(options.id, tuple(options.leave_out or ()), _kinds(options.kind or []), (), most)
    planned, where = PlannedSchema.of(table(options), about, guarantee, account(options)), engine(options)
    lines = _plan(planned)
    if options.dry_run:
        tell(options, {"plan": lines}, "\n".join(lines))
        return
    warn("\n".join(f"sfumato: {line}" for line in lines))
    counted = LINE.count(planned.table.rows, public=guarantee.neighbours == "replace")
    schema = planned.run(Secret.fresh(), where, counted)
    _hand_over(options, schema)


def _check_not_private(options: Any) -> None:
    """Refuse options of a private schema where ``sfumato schema`` learns nothing."""
    given = [name for name in _ONLY if getattr(options, name)]
    if given or options.ledger is not None:
        name = (given or ["ledger"])[0].replace("_", "-")
        raise ParameterError(f"--{name} needs --private: a draft from names and types costs nothing")


def _kinds(pairs: list[str]) -> dict[str, str]:
    found = [pair.rpartition("=") for pair in pairs]
    if any(not sign for _, sign, _ in found):
        raise ParameterError("--kind wants NAME=KIND, such as zip=category")
    return {name: kind for name, _, kind in found}


def _plan(planned: "PlannedSchema") -> list[str]:
    """What learning the schema does, before a row is read."""
    forecast, guarantee = planned.forecast, planned.calibrated.guarantee
    columns = planned.calibrated.mechanism.columns
    lines = [
        f"Learning {len(columns)} columns with epsilon {guarantee.epsilon:g}, delta {guarantee.delta:g}.",
    ]
    most = max(forecast.measured.values(), default=0.0)
    lines.append(
        f"Noise (standard deviation): {forecast.kinds:.3g} rows on counts of kinds of cells, at most {most:.3g} rows "
        "on counts of numbers and values."
    )
    if forecast.threshold:
        limit = max(limit.count for limit in forecast.threshold.values())
        lines.append(
            f"A value is listed if its noisy count exceeds a threshold of at most {limit} rows. Values in more than "
            f"{2 * limit} rows are listed."
        )
    if planned.account is None:
        lines.append("No ledger is used: nothing is charged, so keep account of this cost yourself.")
        return lines
    for quote in planned.account.price(planned.request()):
        after = f"spent after it: {quote.after.epsilon:.4g} of {quote.cap.guarantee.epsilon:g}"
        lines.append(f"{untrusted.line(planned.account.name)}: {after}{'' if quote.fits else ' (does not fit)'}")
    return lines
