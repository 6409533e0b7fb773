"""All commands, in the order of the help, and the parser of one or of all of them."""

import importlib

from sfumato.commands.console.options import Parser
from sfumato.version import __version__

COMMANDS = {  # and the module that has its options, in the order of the help
    "schema": "schema",
    "check": "schema",
    "space": "owners.space",
    "plan": "plan",
    "regions": "plan",
    "feasible": "plan",
    "release": "release",
    "stream": "growing.stream",
    "show": "estimate",
    "report": "report",
    "compare": "compare",
    "estimate": "estimate",
    "add": "owners.add",
    "link": "owners.link",
    "ask": "ask",
    "sql": "sql",
    "ledger": "ledger",
    "clean": "clean",
    "audit": "audit",
    "attack": "attack",
    "reproduce": "reproduce",
    "studio": "studio",
    "completion": "console.completion",
}


def parser_of(command: str | None = None) -> Parser:
    """The command line's parser, of one command, or of all of them if there is none of this name."""
    parser = Parser(
        prog="sfumato",
        description="Publish data under differential privacy, by random projections and other mechanisms.",
        epilog="example:\n  sfumato schema people.csv > people.toml\n\n"
        "Each command has its own help: sfumato release --help, sfumato release sketch --help.",
    )
    parser.add_argument("--version", action="version", version=__version__, help="Show the version and exit.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in [command] if command in COMMANDS else COMMANDS:
        getattr(importlib.import_module(f"sfumato.commands.{COMMANDS[name]}"), f"add_{name}")(commands)
    return parser
