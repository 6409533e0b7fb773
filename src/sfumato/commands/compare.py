"""``sfumato compare``: a real table beside a synthetic one, for its owner; or a private summary that may travel."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.console.options import (
    TABLE,
    account,
    add_account,
    add_dialect,
    add_folder,
    add_neighbours,
    command,
    table,
    tell,
)
from sfumato.commands.report import check_place
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.files.table_file import TableFile
    from sfumato.releases.release import AnyRelease


def add_compare(commands: Any) -> None:
    """``sfumato compare``: its options."""
    text = (
        "Compare a real table with a synthetic one. One HTML page: each column real beside synthetic, the worst pairs, "
        "models trained on either. NOT PRIVATE: for the owner of the table, and never to be sent along. With "
        "--epsilon: a private summary, charged to a ledger, which may travel."
    )
    parser = command(
        commands, "compare", text, "sfumato compare people.csv people.release --out quality.html", _compare
    )
    parser.set_defaults(stands="the comparison was written")
    parser.add_argument("data", metavar="TABLE", help=TABLE)
    add_folder(parser)
    add_dialect(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="HTML file to write.")
    parser.add_argument("--force", action="store_true", help="Overwrite an existing file.")
    parser.add_argument("--allow-unprotected", action="store_true", help="Accept a release made with test noise.")
    parser.add_argument(
        "--label", metavar="COLUMN", help="Column for models to predict (default: the release's label)."
    )
    parser.add_argument(
        "--held-out", metavar="TABLE", help="Real rows to test models on, which are not in TABLE (default: some of it)."
    )
    parser.add_argument(
        "--show", nargs="+", default=[], metavar="COLUMN", help="Print these columns, real beside synthetic."
    )
    _add_private(parser)


def _add_private(parser: argparse.ArgumentParser) -> None:
    """The options of a private summary."""
    group = parser.add_argument_group("private summary")
    group.add_argument("--epsilon", type=float, metavar="EPSILON", help="Make a private summary at this privacy loss.")
    group.add_argument("--delta", type=float, metavar="DELTA", help="Its delta (default 0).")
    group.add_argument("--group", type=int, metavar="N", help="Maximum records per person (default: as the release).")
    add_neighbours(group, None, "default: as the release")
    add_account(parser, "default none")


def _compare(options: Any) -> None:
    from sfumato.releases.release import load

    check_place(options.out, "comparison", force=options.force)
    release = load(options.release, allow_unprotected=options.allow_unprotected)
    if options.epsilon is not None:
        _privately(options, release)
        return
    given = (options.delta, options.group, options.neighbours, options.ledger, options.dataset, options.part)
    if any(value is not None for value in given):
        raise ParameterError("--delta, --group, --neighbours and --ledger are for a private summary: give --epsilon")
    from sfumato.comparing.judgement import NOT_PRIVATE
    from sfumato.comparing.quality import compare
    from sfumato.comparing.text_pictures import beside

    _check_shown(options.show, release)
    quality = compare(table(options), release, label=options.label, held_out=_held_out(options))
    quality.write(options.out, force=options.force)
    columns = {column.name: column for column in quality.columns}
    shown = [line for name in options.show for line in [*beside(columns[name]), ""]]
    lines = [*shown, *quality.describe().splitlines(), f"Comparison written to {options.out}. {NOT_PRIVATE}"]
    tell(options, {"comparison": str(options.out)} | quality.to_dict(), "\n".join(map(untrusted.line, lines)))


def _check_shown(names: list[str], release: "AnyRelease") -> None:
    """Refuse columns to print that a comparison would not have, before anything is read."""
    from sfumato import check
    from sfumato.comparing.quality import partition_of, table_release
    from sfumato.marginals.parts import title

    known = [title(variable) for variable in partition_of(table_release(release)).variables]
    for name in names:
        check.one_of(known, show=name)


def _held_out(options: Any) -> "TableFile | None":
    """The real rows to test models on, written as the table is."""
    from sfumato.files.table_file import TableFile

    return None if options.held_out is None else TableFile(options.held_out, options.separator, options.encoding)


def _privately(options: Any, release: "AnyRelease") -> None:
    """A private summary instead of the owner's page."""
    from sfumato.comparing.private_quality import compare_privately

    if options.label is not None or options.held_out is not None or options.show:
        raise ParameterError("--label, --held-out and --show are for the owner's page: leave out --epsilon for that")
    quality = compare_privately(
        table(options),
        release,
        epsilon=options.epsilon,
        delta=options.delta or 0.0,
        ledger=account(options),
        neighbours=options.neighbours,
        group=options.group,
    )
    quality.write(options.out, force=options.force)
    lines = [*quality.describe().splitlines(), f"Private comparison written to {options.out}"]
    tell(options, {"comparison": str(options.out)} | quality.to_dict(), "\n".join(map(untrusted.line, lines)))
