"""``sfumato ledger``: budgets, what was spent of them, and what became of each release."""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sfumato import untrusted
from sfumato.commands.console.budgets import described, described_price, facts, price_facts
from sfumato.commands.console.options import (
    LEDGER,
    SCHEMA,
    TABLE,
    account,
    add_folder,
    add_guarantee,
    add_neighbours,
    add_plot,
    command,
    guarantee_of,
    schema_of,
    subcommands,
    table,
    tell,
)
from sfumato.commands.kinds.listed import KINDS
from sfumato.commands.kinds.terms import KindOptions
from sfumato.commands.release import add_kind_options, planned_terms
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.fileformat.manifest import Manifest
    from sfumato.privacy.units import Cap

_CHANGED = "the ledger was changed"


def add_ledger(commands: Any) -> None:
    """``sfumato ledger``, with one subcommand for each act."""
    text = "Manage privacy budgets. A ledger records every release and refuses those that exceed the cap of a dataset."
    example = "sfumato ledger init budget.db --dataset people --epsilon 3 --delta 1e-6"
    acts = subcommands(commands, "ledger", "ACTION", text, example)
    _add_init(acts)
    _add_show(acts)
    _add_price(acts)
    _add_verify(acts)
    _add_void(acts)
    _add_cap(acts)
    _add_admit(acts)
    _add_confirm(acts)


def _act(acts: Any, name: str, text: str, example: str, run: Any) -> argparse.ArgumentParser:
    parser = command(acts, name, text, f"sfumato ledger {name} budget.db {example}".rstrip(), run)
    parser.add_argument("ledger", metavar="LEDGER", help=f"Ledger: {LEDGER}.")
    return parser


def _add_cap_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", required=True, metavar="NAME", help="Name of the dataset.")
    group = add_guarantee(parser)
    add_neighbours(group)
    group.add_argument(
        "--attributes",
        type=int,
        default=1,
        metavar="N",
        help="Values protected together (with --unit attribute; default 1).",
    )


def _cap(options: Any) -> "Cap":
    from sfumato.privacy.units import Cap

    return Cap(guarantee_of(options), options.attributes)


def _add_init(acts: Any) -> None:
    parser = _act(
        acts,
        "init",
        "Add a dataset with its cap. Creates the ledger if there is none.",
        "--dataset people --epsilon 3 --delta 1e-6 --unit record",
        _init,
    )
    parser.set_defaults(stands=_CHANGED)
    _add_cap_options(parser)
    _add_division(parser)
    parser.add_argument(
        "--parts-by",
        metavar="COLUMN",
        help="Public column that splits the dataset into parts without common records, to release one by one.",
    )


def _add_division(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how releases add up")
    group.add_argument(
        "--composition",
        choices=("filter", "basic", "advanced", "gaussian", "tight"),
        default="filter",
        help="How privacy losses add up. tight assumes that the epsilon and delta of a release do not depend on what "
        "earlier ones published; the others assume nothing (default filter).",
    )
    group.add_argument(
        "--pure-share",
        type=_pure_share,
        metavar="EPSILON",
        help="Part of the cap for releases with delta 0, whose epsilons add up, or 'all'; the rest is for Gaussian "
        "noise (default: the first release decides).",
    )
    group.add_argument(
        "--tails",
        type=float,
        default=0.0,
        metavar="PART",
        help="Part of delta for releases that are Gaussian but for a failure, such as learned schemas (default 0).",
    )
    group.add_argument(
        "--programme",
        metavar="FILE",
        help="TOML file of [[release]] tables with loss, epsilon, delta, count and mechanism: releases that are fixed "
        "now, in any order, at the price of tight composition.",
    )


def _pure_share(text: str) -> "float | Literal['all']":
    try:
        return "all" if text == "all" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"an epsilon or 'all', got {text!r}") from None


def _init(options: Any) -> None:
    from sfumato.ledger.division import division_words
    from sfumato.ledger.ledger import Ledger

    cap, ledger = _cap(options), Ledger.create(options.ledger)
    made = ledger.add_dataset(
        options.dataset,
        cap,
        composition=options.composition,
        parts_by=options.parts_by,
        pure_share=options.pure_share,
        tails=options.tails,
        programme=options.programme,
    )
    lines = [f"Added dataset {made.name}. Cap: {cap.describe()}", *division_words(made, 0)]
    tell(options, {"ledger": ledger.journal.name, "dataset": made.name}, "\n".join(map(untrusted.line, lines)))


def _add_cap(acts: Any) -> None:
    text = "Change the cap of a dataset, or add one for another unit before the first release. The change is recorded."
    parser = _act(acts, "cap", text, "--dataset people --epsilon 5 --delta 1e-6", _set_cap)
    parser.set_defaults(stands=_CHANGED)
    _add_cap_options(parser)


def _set_cap(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    cap = _cap(options)
    made = Ledger(options.ledger).set_cap(options.dataset, cap)
    tell(options, {"dataset": made.name, "cap": cap.describe()}, f"Changed dataset {made.name}. Cap: {cap.describe()}")


def _add_show(acts: Any) -> None:
    text = "Show what was spent, what is left, and every release."
    parser = _act(acts, "show", text, "--dataset people --plot people.svg", _show)
    parser.add_argument("--dataset", metavar="NAME", help="Show only this dataset (default: all).")
    add_plot(parser, "what was spent of one dataset")


def _show(options: Any) -> None:
    from sfumato.errors import ParameterError
    from sfumato.ledger.ledger import Ledger

    ledger = Ledger(options.ledger)
    shown = ledger.datasets() if options.dataset is None else [ledger.dataset(options.dataset)]
    if options.plot is not None:
        from sfumato.report.plots import draw_spending

        if len(shown) != 1:
            raise ParameterError("--plot draws one dataset: name it with --dataset")
        draw_spending(shown[0], options.plot)
    text = "\n\n".join(map(described, shown)) or f"{ledger.journal.name} has no datasets."
    tell(options, {"datasets": [facts(dataset) for dataset in shown]}, text)


def _add_verify(acts: Any) -> None:
    text = "Check that no entry was changed, removed or moved. With --release, check releases against their entries."
    parser = _act(acts, "verify", text, "--release people.release", _verify)
    parser.add_argument("--release", nargs="*", default=[], metavar="FOLDER", help="Release folder to check.")
    parser.add_argument("--expect", metavar="HASH", help="Hash noted earlier, which must be in the ledger.")


def _verify(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    ledger = Ledger(options.ledger)
    entries, last = ledger.verify(options.expect)
    for folder in options.release:
        ledger.check_release(_manifest(folder))
    text = f"Verified entries: {entries}. Last hash: {last}"
    if options.release:
        text += f"\nVerified releases: {len(options.release)}."
    tell(options, {"entries": entries, "last": last, "releases": options.release}, text)


def _manifest(folder: str) -> "Manifest":
    from pathlib import Path

    from sfumato.fileformat.reader import open_folder

    return open_folder(Path(folder), allow_unprotected=False)


def _add_void(acts: Any) -> None:
    text = "Void a reservation, which frees its budget. Only if no noise was drawn for it."
    parser = _act(acts, "void", text, '7 --reason "wrong file"', _void)
    parser.set_defaults(stands=_CHANGED)
    parser.add_argument("number", type=int, metavar="NUMBER", help="Number of the reservation in `ledger show`.")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="Reason, which is recorded in the ledger.")


def _void(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    Ledger(options.ledger).void(options.number, options.reason)
    tell(options, {"void": options.number}, f"Voided reservation {options.number}.")


def _add_confirm(acts: Any) -> None:
    text = "Confirm a complete release whose process ended before it was recorded."
    parser = _act(acts, "confirm", text, "people.release", _confirm)
    parser.set_defaults(stands=_CHANGED)
    add_folder(parser)


def _confirm(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    number = Ledger(options.ledger).confirm_release(_manifest(options.release))
    tell(options, {"committed": number}, f"Committed reservation {number}.")


def _add_admit(acts: Any) -> None:
    text = "Assign another file or schema to a dataset. Its releases are charged to the budget of that dataset."
    parser = _act(acts, "admit", text, "people.csv --schema people.toml --dataset people", _admit)
    parser.set_defaults(stands=_CHANGED)
    parser.add_argument("data", metavar="TABLE", help=TABLE)
    parser.add_argument("--schema", metavar="FILE", help=f"{SCHEMA} Not needed for a graph.")
    parser.add_argument("--dataset", required=True, metavar="NAME", help="Name of the dataset.")


def _admit(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger, schema_text
    from sfumato.pipeline.release import source_of

    fields = None if options.schema is None else schema_of(options).to_dict()
    Ledger(options.ledger).admit(options.dataset, schema_text(fields), source_of(table(options)))
    tell(options, {"dataset": options.dataset}, f"Releases of {options.data} are now charged to {options.dataset!r}.")


def _add_price(commands: Any) -> None:
    """``sfumato ledger price``, with the kinds and options of ``sfumato release``."""
    text = "Show what a release would cost, without making it. Takes the options of `sfumato release`."
    example = f"sfumato ledger price {KINDS[0].name} {KINDS[0].example} --ledger budget.db"
    kinds = subcommands(commands, "price", "KIND", text, example)
    for kind in KINDS:
        example = f"sfumato ledger price {kind.name} {kind.example} --ledger budget.db"
        text = f"{kind.text} This command only shows what the release would cost."
        parser = command(kinds, kind.name, text, example, partial(_price, kind))
        parser.add_argument("--out", metavar="FOLDER", help="Ignored: nothing is written.")
        add_kind_options(parser, kind, "required")


def _price(kind: KindOptions, options: Any) -> None:
    from sfumato.pipeline.release import price

    terms, budget = planned_terms(options, kind), account(options)
    if budget is None:
        raise ParameterError("a price needs a budget: name its ledger with --ledger")
    quotes = price(
        table(options), schema=terms.schema, mechanism=terms.mechanism, guarantee=terms.guarantee, ledger=budget
    )
    tell(options, {"quotes": price_facts(quotes)}, "\n".join(described_price(quotes, "this release")))
