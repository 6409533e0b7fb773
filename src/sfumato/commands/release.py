"""``sfumato release KIND``: make a private release of a table."""

import dataclasses
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.commands.console.options import (
    account,
    add_account,
    add_engine,
    command,
    engine,
    subcommands,
    table,
    tell,
    warn,
)
from sfumato.commands.kinds.listed import KINDS
from sfumato.commands.kinds.terms import KindOptions, Terms, check_hopeful

if TYPE_CHECKING:
    from sfumato.fileformat.manifest import Manifest
    from sfumato.planning.cut_options import Verdict

_OUT = "Folder to create for the release."


def add_release(commands: Any) -> None:
    """``sfumato release``, with one subcommand per kind."""
    example = f"sfumato release {KINDS[0].name} {KINDS[0].example} --out people.release"
    kinds = subcommands(commands, "release", "KIND", "Make a private release of a table or a graph.", example)
    for kind in KINDS:
        folder = "graph.release" if kind.name == "graph" else "people.release"
        example = f"sfumato release {kind.name} {kind.example} --out {folder}"
        parser = command(kinds, kind.name, kind.text, example, partial(_release, kind))
        parser.set_defaults(stands="the release was made", many_blocks=True)
        parser.add_argument("--out", metavar="FOLDER", required=True, help=_OUT)
        add_kind_options(parser, kind, "default none")


def add_kind_options(parser: Any, kind: KindOptions, ledger: str) -> None:
    """The options of ``sfumato release`` for one kind; ``ledger``: what is so without a ledger."""
    kind.add(parser)
    add_account(parser, ledger)
    add_engine(parser)


def planned_terms(options: Any, kind: KindOptions) -> Terms:
    """What ``sfumato release`` is to make; a plan is printed before any row is read."""
    terms = kind.terms(options)
    if terms.plan is not None and not options.json:
        print(terms.plan.describe(), flush=True)
    return terms


def _release(kind: KindOptions, options: Any) -> None:
    from sfumato.fileformat.plain_words import summary
    from sfumato.fileformat.writer import check_free
    from sfumato.pipeline.release import release_to

    check_free(Path(options.out))
    terms = planned_terms(options, kind)
    check_hopeful(terms, anyway=getattr(options, "anyway", False))
    budget, where = account(options), engine(options)
    _warn_of_leftovers(options.out)
    made = release_to(
        options.out,
        table(options),
        schema=terms.schema,
        mechanism=terms.mechanism,
        guarantee=terms.guarantee,
        ledger=budget,
        engine=where,
        progress=_progress(options, terms),
    )
    told: dict[str, Any] = {"release": options.out, "manifest": made}
    lines = [summary(made)]
    if terms.plan is not None:
        told |= {"plan": terms.plan.to_dict()}
    if made["kind"] == "graph-sketch":
        seen = _seen(made)
        told |= {"verdict": dataclasses.asdict(seen)}
        lines.append(seen.describe())
    tell(options, told, "\n".join([*lines, f"Release written to {options.out}"]))


def _progress(options: Any, terms: Terms) -> Callable[[int], None]:
    """What counts the rows of a release as they are read: for its owner to see, where their number is public."""
    from sfumato.commands.console.progress import LINE
    from sfumato.files.open_table import open_table

    rows = None if terms.schema is None else open_table(table(options), terms.schema).rows
    return LINE.count(rows, public=terms.schema is not None and terms.guarantee.neighbours == "replace")


def _warn_of_leftovers(out: str) -> None:
    """Before a release: a line on stderr about leftovers, in place of the warning of a call in Python."""
    from sfumato.errors import LeftoverWarning
    from sfumato.fileformat.leftovers import note

    warnings.simplefilter("ignore", LeftoverWarning)
    told = note(Path(out).parent)
    if told is not None:
        warn(f"note: {told}")


def _seen(made: "Manifest") -> "Verdict":
    """After the release of a graph's sketch: what is left of the graph in it, and what would show more."""
    from sfumato.planning import cut_options
    from sfumato.privacy.guarantee import Guarantee

    promise = Guarantee(epsilon=made["guarantee"]["epsilon"], delta=made["guarantee"]["delta"], unit="edge")
    return cut_options.small_graph(made["rows"], made["mechanism"]["rows"], promise)
