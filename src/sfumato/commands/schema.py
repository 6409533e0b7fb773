"""``sfumato schema`` and ``sfumato check``: what the data may be."""

import sys
from pathlib import Path
from typing import Any

from sfumato import untrusted
from sfumato.commands.options import TABLE, add_dialect, add_table, command, schema_of, table, tell
from sfumato.errors import ParameterError


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


def _schema(options: Any) -> None:
    from sfumato.files.open_table import open_table
    from sfumato.tables import sheet
    from sfumato.tables.schema import Schema

    opened = open_table(table(options))
    made: Any = Schema.from_arrow(opened.schema)
    if options.bounds_from_data:
        made = made.bounded_by_data(opened.blocks(opened.schema.names, 1 << 16))
        print("sfumato: NOT PRIVATE: these bounds are values of the data", file=sys.stderr)
    if options.out is not None:
        _write_new(Path(options.out), made, options.form)
        tell(options, {"schema": options.out}, f"Draft written to {options.out}")
        return
    text = sheet.csv_text(made.rows()) if options.form == "sheet" else made.to_toml()
    tell(options, {"schema": text}, text.rstrip("\n"))


def _write_new(path: Path, made: Any, form: str) -> None:
    """Write a drafted schema to a file that is not there yet: it may stand beside data of nearly the same name."""
    suffixes = (".csv", ".xlsx") if form == "sheet" else (".toml", ".csv", ".xlsx")
    if path.suffix.lower() not in suffixes:
        raise ParameterError(f"--out must end in {', '.join(suffixes)}, got {path.name}")
    if path.exists():
        raise ParameterError(f"{path} is there already: choose another name")
    made.write(path)


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
