"""What all commands share: a parser with one-line complaints, the options of a guarantee, and two ways of telling."""

import argparse
import json
import math
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sfumato import defaults, untrusted
from sfumato.commands.console.colours import painted, refused
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.engines.local import Engine
    from sfumato.files.table_file import StandardInput, TableFile
    from sfumato.ledger.account import Account
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.tables.schema import Schema

TABLE = (
    "Table: CSV (.csv, .tsv, also with .gz or .zst), Parquet (.parquet, or a folder of such files), Arrow (.arrow, "
    ".feather, .ipc) or Excel (.xlsx). - reads standard input."
)
SCHEMA = "Schema file (TOML), or a sheet (.csv, .xlsx)."
LEDGER = "a SQLite file or a postgresql:// URL"
_DEFAULTS: dict[str, Any] = {
    "stands": None,
    "prints": False,
    "many_blocks": False,
    "working": None,
    "ledger": None,
    "table": None,
    "separator": None,
    "encoding": None,
}


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help of the options: fills paragraphs, keeps indented lines such as examples, leaves room for names."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            longest = max(map(len, action.choices))
            self._action_max_length = max(self._action_max_length, longest + 2 * self._indent_increment)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (one if one.startswith(" ") else textwrap.fill(one, width) for one in text.splitlines())
        return "\n".join(indent + line for line in lines)


class Parser(argparse.ArgumentParser):
    """A parser of options whose complaints are one line, like all others."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _HelpFormatter} | settings, add_help=False)
        self.add_argument("-h", "--help", action="help", help="Show this help and exit.")

    def error(self, message: str) -> NoReturn:
        """End with the complaint about an option."""
        self.exit(2, refused(f"{message} (see {self.prog} --help)\n", sys.stderr))


def unparsed() -> argparse.Namespace:
    """The options of a command before they are parsed: the defaults of every command."""
    return argparse.Namespace(**_DEFAULTS)


def command(commands: Any, name: str, text: str, example: str, run: Callable[[Any], int | None]) -> Parser:
    """A subcommand with an example in its help and the option --json; what it gives is the exit code.

    ``stands`` among its defaults is for commands that make something that lasts: words for it, where nobody takes what
    is printed. With ``prints``, what is printed is wanted as well. ``many_blocks`` is for commands that work through
    the rows of a table: their process is set up for that. ``working`` is what the progress line says at its beginning;
    None for commands that wait for somebody and have none.
    """
    parser = _described(commands, name, text, example)
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    parser.set_defaults(run=run, **_DEFAULTS | {"working": parser.prog})
    return parser


def subcommands(commands: Any, name: str, metavar: str, text: str, example: str) -> Any:
    """A command without options of its own, only subcommands: the place to add them."""
    return _described(commands, name, text, example).add_subparsers(required=True, metavar=metavar)


def _described(commands: Any, name: str, text: str, example: str) -> Parser:
    """A parser for the options of a command: lists have the first sentence of its text, its own help all of them."""
    first = text.split(". ", maxsplit=1)[0].removesuffix(".") + "."
    parser: Parser = commands.add_parser(name, help=first, description=text, epilog=f"example:\n  {example}")
    return parser


def tell(options: Any, facts: dict[str, Any], text: str) -> None:
    """Print what the option --json asks for: facts as JSON or text for people. Parts may come from strangers.

    Both are printed as plain text.
    """
    if options.json:
        print(untrusted.lines(json.dumps(facts, indent=2)))
    else:
        show(text)


def show(text: str) -> None:
    """Print a text for people, parts of which may come from strangers; in colours where they are wanted."""
    print(painted(untrusted.lines(text), sys.stdout))


def warn(text: str) -> None:
    """Tell something beside what a command prints: on standard error, in colours where they are wanted."""
    print(painted(untrusted.lines(text), sys.stderr), file=sys.stderr)


def finite(number: float) -> float | None:
    """A number as the option --json prints it: None where it is infinite."""
    return number if math.isfinite(number) else None


def add_table(parser: argparse.ArgumentParser, *, space: bool = False) -> None:
    """The options for the table that a command reads, and its schema, or a shared space, which has one."""
    parser.add_argument("data", metavar="TABLE", help=TABLE)
    parser.add_argument("--schema", metavar="FILE", required=not space, help=SCHEMA)
    if space:
        parser.add_argument(
            "--space", metavar="FILE", help="Shared space of several owners (see sfumato space). It has the schema."
        )
        parser.add_argument(
            "--columns", metavar="NAME,NAME", help="Columns of the space that your table has (default: all)."
        )
    add_dialect(parser)


def place_of(options: Any) -> dict[str, Any]:
    """The shared space that the options name, and the columns of it that the table has, as a recipe takes them."""
    from sfumato.projection.space import Space

    if options.space is None and options.columns is not None:
        raise ParameterError("--columns needs --space: they are the columns of a space that your table has")
    names = None if options.columns is None else [name.strip() for name in options.columns.split(",")]
    return {"space": None if options.space is None else Space.read(options.space), "columns": names}


def schema_of(options: Any) -> "Schema":
    """The schema that the options name, its patterns settled by the column names of the table that they name."""
    from sfumato.pipeline.fitting import settled
    from sfumato.tables.schema import Schema

    return settled(table(options), Schema.read(options.schema))[1]


def add_dialect(parser: argparse.ArgumentParser) -> None:
    """The options that say how the CSV text of a table is written."""
    parser.add_argument(
        "--separator",
        metavar="CHARACTER",
        help="Separator of CSV cells: one character such as ';', or tab (default: tab in .tsv files, else a comma).",
    )
    parser.add_argument(
        "--encoding", metavar="NAME", help="Encoding of CSV text, such as latin-1, cp1252 or utf-16 (default utf-8)."
    )


def table(options: Any) -> "TableFile | StandardInput":
    """The table that the options name; standard input is the same however often it is asked for."""
    from sfumato.files.dialect import Dialect
    from sfumato.files.table_file import StandardInput, TableFile

    if options.table is None:
        dialect = Dialect(options.separator, options.encoding)
        from_file = TableFile(options.data, dialect.separator, dialect.encoding)
        options.table = StandardInput(dialect) if options.data == "-" else from_file
    found: TableFile | StandardInput = options.table
    return found


def add_folder(parser: argparse.ArgumentParser) -> None:
    """The option for the release that a command reads."""
    parser.add_argument("release", metavar="RELEASE", help="Release folder.")


def add_level(parser: argparse.ArgumentParser, which: str = "the interval") -> None:
    """The option for the level of confidence intervals."""
    parser.add_argument(
        "--level",
        type=float,
        default=defaults.LEVEL,
        metavar="LEVEL",
        help=f"Confidence level of {which} (default 0.95).",
    )


class _Picture(argparse.Action):
    """The option for the name of a picture, refused before any work if it is of a kind that cannot be drawn."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Check the name and keep it."""
        from sfumato.report.figures import check_kind

        del parser, option_string
        check_kind(values)
        setattr(namespace, self.dest, values)


def add_spectrum(parser: Any) -> None:
    """The option --spectrum: what a plan for similar records assumes of them."""
    parser.add_argument(
        "--spectrum",
        metavar="GUESS",
        help="Public guess of the records, for purposes nearest, clustering and learning: columns that vary "
        "independently (flat) or together (decaying), or a table of public rows with the same columns. Never name "
        "private rows: the plan shows what they are like (default decaying).",
    )


def spectrum_of(options: Any, data: Any) -> str | None:
    """The public guess that options state; refuses the table itself that is to be released."""
    given: str | None = options.spectrum
    if given is None or data is None or not (Path(given).exists() and Path(data).exists()):
        return given
    if Path(given).samefile(data):
        raise ParameterError("--spectrum names the table itself: it is not public, and a plan shows what it is like")
    return given


def add_plot(parser: argparse.ArgumentParser, what: str) -> None:
    """The option --plot, which draws what a command tells."""
    parser.add_argument("--plot", action=_Picture, metavar="FILE", help=f"Draw {what} to a .svg or .html file.")


def add_epsilon_delta(parser: Any, delta: str = "default 0") -> None:
    """The options for the two numbers of a guarantee."""
    parser.add_argument(
        "--epsilon",
        type=float,
        required=True,
        metavar="EPSILON",
        help="Privacy loss: the probability of any outcome changes by a factor of at most e^EPSILON.",
    )
    parser.add_argument(
        "--delta",
        type=float,
        default=defaults.DELTA,
        metavar="DELTA",
        help=f"Probabilities may exceed that factor by at most DELTA ({delta}).",
    )


def add_guarantee(parser: argparse.ArgumentParser, *, summed: bool = False) -> Any:
    """The options of a guarantee, as a group. Without --neighbours in it, one record is replaced by another.

    summed : of sums over records alone, which have no projection to be fresh, and no edges.
    """
    parser.set_defaults(neighbours=defaults.NEIGHBOURS, fresh=False)
    group = parser.add_argument_group("privacy guarantee")
    add_epsilon_delta(group)
    group.add_argument(
        "--unit",
        choices=("attribute", "record") if summed else ("attribute", "record", "edge"),
        default=defaults.UNIT,
        help=f"What is protected: one value of a record (attribute), {'or ' * summed}one record"
        f"{'' if summed else ', or one edge'} (default record).",
    )
    group.add_argument(
        "--group", type=int, default=defaults.GROUP, metavar="N", help="Maximum records per person (default 1)."
    )
    group.add_argument(
        "--change",
        choices=("box", "l1", "l2"),
        help="How far a record may change: anywhere within its bounds (box), or within a ball of --radius (default "
        "box).",
    )
    group.add_argument("--radius", type=float, metavar="R", help="Radius for --change l1 or l2, in weighted units.")
    if summed:
        return group
    group.add_argument(
        "--fresh",
        action="store_true",
        help="State the guarantee for a projection drawn for this release and used once (default: the projection may "
        "be known or reused).",
    )
    return group


def add_neighbours(group: Any, default: str | None = defaults.NEIGHBOURS, why: str = "default replace") -> None:
    """The option --neighbours: which tables are neighbours."""
    group.add_argument(
        "--neighbours",
        choices=("replace", "add-remove"),
        default=default,
        help="Neighbouring tables: one record replaced, or one added or removed. add-remove also protects the number "
        f"of records ({why}).",
    )


def guarantee_of(options: Any) -> "Guarantee":
    """The guarantee that the options state."""
    from sfumato.privacy.guarantee import Change, Guarantee

    if options.radius is not None and options.change is None:
        raise ParameterError(f"--radius {options.radius} needs --change l1 or --change l2")
    return Guarantee(
        epsilon=options.epsilon,
        delta=options.delta,
        unit=options.unit,
        group=options.group,
        neighbours=options.neighbours,
        change=None if options.change is None else Change(options.change, options.radius),
        projection="fresh" if options.fresh else "fixed",
    )


def add_account(parser: argparse.ArgumentParser, ledger: str) -> None:
    """The options that say which budget a release is charged to; ``ledger``: what is so without a ledger."""
    group = parser.add_argument_group("budget")
    group.add_argument("--ledger", metavar="LEDGER", help=f"Ledger to charge: {LEDGER} ({ledger}).")
    group.add_argument("--dataset", metavar="NAME", help="Dataset in the ledger (default: the only one).")
    group.add_argument(
        "--part", metavar="VALUE", help="Value of the --parts-by column: read and charge only that part."
    )
    group.add_argument(
        "--convert", action="store_true", help="Charge a release whose unit differs from the cap's, after conversion."
    )
    group.add_argument(
        "--exceptions",
        action="store_true",
        help="Charge a release that is partly outside its guarantee, and record that.",
    )


def account(options: Any) -> "Account | None":
    """The account that the options name; None without a ledger."""
    if options.ledger is None:
        if options.dataset is not None or options.part is not None or options.convert or options.exceptions:
            raise ParameterError("--dataset, --part, --convert and --exceptions need --ledger")
        return None
    from sfumato.ledger.ledger import Ledger

    choices = {"part": options.part, "convert": options.convert, "exceptions": options.exceptions}
    return Ledger(options.ledger).account(options.dataset, **choices)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The options that say where the work is done: this machine or Spark, and how much memory."""
    group = parser.add_argument_group("computation")
    group.add_argument(
        "--engine", choices=("local", "spark"), default="local", help="Run on this machine or on Spark (default local)."
    )
    group.add_argument(
        "--master", metavar="URL", help="Spark master: local[2], spark://host:7077, yarn (needs --engine spark)."
    )
    group.add_argument(
        "--memory", default="1GiB", metavar="SIZE", help="Memory for rows being processed (default 1GiB)."
    )


def engine(options: Any) -> "Engine":
    """The engine that the options name."""
    from sfumato.tables.blocks import memory_size

    memory = memory_size(options.memory)
    if options.engine == "spark":
        from sfumato.engines.spark import Spark

        return Spark(master=options.master, memory=memory)
    if options.master is not None:
        raise ParameterError("--master needs --engine spark")
    if options.own_process:
        from sfumato.engines.processes import Processes
        from sfumato.tables.blocks import cores

        return Processes(memory=memory, processes=cores())
    from sfumato.engines.local import Local

    return Local(memory=memory)
