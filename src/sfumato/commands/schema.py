"""``sfumato schema`` and ``sfumato check``: what the data may be."""

import sys
from typing import Any

from sfumato import untrusted
from sfumato.commands.options import command, tell


def add_schema(commands: Any) -> None:
    """``sfumato schema``."""
    parser = command(
        commands,
        "schema",
        "Draft a schema from the names and types of a table's columns; bounds are left for you to fill in.",
        "sfumato schema people.csv > people.toml",
        _schema,
    )
    parser.add_argument("data", help="CSV or Parquet file")
    parser.add_argument(
        "--bounds-from-data",
        action="store_true",
        help="take bounds from the data; NOT PRIVATE, outside every guarantee, and recorded in each manifest",
    )


def _schema(options: Any) -> None:
    from sfumato.tables.schema_draft import bounded_by_data, draft
    from sfumato.tables.sources import open_table

    table = open_table(options.data)
    if options.bounds_from_data:
        text = bounded_by_data(table.schema, table.blocks(table.schema.names, 1 << 16)).to_toml()
        print("sfumato: NOT PRIVATE: these bounds are cells of the data", file=sys.stderr)
    else:
        text = draft(table.schema)
    tell(options, {"schema": text}, text.rstrip("\n"))


def add_check(commands: Any) -> None:
    """``sfumato check``."""
    parser = command(
        commands,
        "check",
        "Compare a table with a schema. What this prints is NOT private: it counts cells of the data.",
        "sfumato check people.csv --schema people.toml",
        _check,
    )
    parser.add_argument("data", help="CSV or Parquet file")
    parser.add_argument("--schema", required=True, help="schema file (TOML)")


def _check(options: Any) -> None:
    from sfumato.tables.schema import Schema
    from sfumato.tables.schema_draft import compare
    from sfumato.tables.sources import open_table

    schema = Schema.read(options.schema)
    names = [column.name for column in schema.data_columns]
    findings = compare(
        schema, open_table(options.data).blocks(names, 1 << 16)
    )  # as text: it tells unreadable from missing
    warning = "NOT PRIVATE: this output counts cells of the data. Do not share it."
    lines = [f"  {untrusted.line(f.column)}: {f.problem} in {f.count} cells" for f in findings] or [
        "  every cell fits the schema"
    ]
    facts = {
        "private": False,
        "findings": [{"column": f.column, "problem": f.problem, "count": f.count} for f in findings],
    }
    tell(options, facts, "\n".join([warning, *lines, warning]))
