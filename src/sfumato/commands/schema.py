"""``sfumato schema`` and ``sfumato check``: what the data may be."""

import sys
from typing import Any

from sfumato import untrusted
from sfumato.commands.options import TABLE, add_table, command, tell


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
    parser.add_argument(
        "--bounds-from-data",
        action="store_true",
        help="Take the bounds from the data. NOT PRIVATE: outside every guarantee, and recorded in every manifest.",
    )


def _schema(options: Any) -> None:
    from sfumato.tables.schema_draft import bounded_by_data, draft
    from sfumato.tables.sources import open_table

    table = open_table(options.data)
    if options.bounds_from_data:
        text = bounded_by_data(table.schema, table.blocks(table.schema.names, 1 << 16)).to_toml()
        print("sfumato: NOT PRIVATE: these bounds are values of the data", file=sys.stderr)
    else:
        text = draft(table.schema)
    tell(options, {"schema": text}, text.rstrip("\n"))


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
    from sfumato.tables.schema import Schema
    from sfumato.tables.schema_draft import compare
    from sfumato.tables.sources import open_table

    schema = Schema.read(options.schema)
    names = schema.source_names
    findings = compare(
        schema, open_table(options.data).blocks(names, 1 << 16)
    )  # as text: it tells unreadable from missing
    warning = "NOT PRIVATE: this output counts cells of the data. Do not share it."
    lines = [f"  {untrusted.line(f.column)}: {f.problem} in {f.count} cells" for f in findings]
    lines = lines or ["  All cells fit the schema."]
    facts = {
        "private": False,
        "findings": [{"column": f.column, "problem": f.problem, "count": f.count} for f in findings],
    }
    tell(options, facts, "\n".join([warning, *lines, warning]))
