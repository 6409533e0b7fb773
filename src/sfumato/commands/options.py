"""What all commands share: a parser with one-line complaints, the options of a promise, and two ways of telling."""

import argparse
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from sfumato import untrusted
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.engines.local import Engine
    from sfumato.ledger.account import Account
    from sfumato.privacy.guarantee import Guarantee


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        """End with the complaint."""
        self.exit(2, f"sfumato: {message} (see {self.prog} --help)\n")


def command(
    commands: Any, name: str, text: str, example: str, run: Callable[[Any], int | None]
) -> argparse.ArgumentParser:
    """A subcommand with an example in its help and --json for machines; what it gives is the exit code.

    ``stands`` among its defaults is for commands that make something that lasts: words for it, where nobody takes what
    is printed. With ``prints``, what is printed is wanted as well. ``many_blocks`` is for commands that work through
    the rows of a table: their process is set up for that.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run, stands=None, prints=False, many_blocks=False)
    return parser


def tell(options: Any, facts: dict[str, Any], text: str) -> None:
    """Print facts for machines or text for people, as plain text: parts of either may come from strangers."""
    print(untrusted.lines(json.dumps(facts, indent=2) if options.json else text))


def finite(number: float) -> float | None:
    """A number as JSON can say it: None where it is infinite."""
    return number if math.isfinite(number) else None


def add_promise(parser: argparse.ArgumentParser) -> None:
    """The options of a guarantee."""
    parser.add_argument(
        "--epsilon", type=float, required=True, help="probabilities change by a factor of at most e^epsilon"
    )
    parser.add_argument("--delta", type=float, default=0.0, help="and beyond that by at most delta (default 0)")
    parser.add_argument(
        "--unit", choices=("attribute", "record", "edge"), default="record", help="what is protected (default record)"
    )
    parser.add_argument("--group", type=int, default=1, help="most rows one person owns (default 1)")
    parser.add_argument(
        "--change", choices=("box", "l1", "l2"), help="how a record may change (default: within bounds)"
    )
    parser.add_argument("--radius", type=float, help="radius of an l1 or l2 change, in weighted units")
    parser.add_argument(
        "--fresh", action="store_true", help="rest the guarantee on a projection drawn for this release"
    )


class _Picture(argparse.Action):
    """The name of a picture, refused before any work is done if it is of another kind than can be drawn."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Check and keep it."""
        from sfumato.report.figures import check_kind

        del parser, option_string
        check_kind(values)
        setattr(namespace, self.dest, values)


def add_plot(parser: argparse.ArgumentParser, text: str) -> None:
    """The option that draws what a command tells."""
    parser.add_argument("--plot", action=_Picture, metavar="FILE", help=f"{text}: a .svg or .html file")


def add_account(parser: argparse.ArgumentParser) -> None:
    """The options that say which budget a release is charged to."""
    parser.add_argument("--ledger", help="charge this ledger: a SQLite file, or a postgresql:// URL (default: none)")
    parser.add_argument("--dataset", help="the dataset of the ledger (default: its only one)")
    parser.add_argument("--part", help="release only this part of a dataset that was entered with --parts-by")
    parser.add_argument("--convert", action="store_true", help="charge a release of another unit than the cap's")
    parser.add_argument(
        "--exceptions", action="store_true", help="charge it even if part of it is outside its guarantee"
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
    """The options that say where the work is done."""
    parser.add_argument("--engine", choices=("local", "spark"), default="local", help="default local")
    parser.add_argument("--master", help="of Spark, as it writes them: local[2], spark://host:7077, yarn, ...")
    parser.add_argument("--memory", default="1GiB", help="for the rows at work, at once (default 1GiB)")


def engine(options: Any) -> "Engine":
    """The engine that the options name."""
    from sfumato.tables.blocks import memory_size

    memory = memory_size(options.memory)
    if options.engine == "spark":
        from sfumato.engines.spark import Spark

        return Spark(master=options.master, memory=memory)
    if options.master is not None:
        raise ParameterError("--master is Spark's: it needs --engine spark")
    if options.own_process:
        from sfumato.engines.processes import Processes
        from sfumato.tables.blocks import cores

        return Processes(memory=memory, processes=cores())
    from sfumato.engines.local import Local

    return Local(memory=memory)


def promise(options: Any) -> "Guarantee":
    """The guarantee that the options state."""
    from sfumato.privacy.guarantee import Change, Guarantee

    if options.radius is not None and options.change is None:
        raise ParameterError(f"--radius {options.radius} needs --change l1 or --change l2")
    return Guarantee(
        epsilon=options.epsilon,
        delta=options.delta,
        unit=options.unit,
        group=options.group,
        neighbours=getattr(options, "neighbours", "replace"),
        change=None if options.change is None else Change(options.change, options.radius),
        projection="fresh" if options.fresh else "fixed",
    )
