"""``sfumato ledger``: budgets, what was spent of them, and what became of each release."""

import argparse
import math
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.options import add_plot, add_promise, command, finite, promise, tell
from sfumato.commands.release import add_price

if TYPE_CHECKING:
    from sfumato.fileformat.manifest import Manifest
    from sfumato.ledger.state import Dataset
    from sfumato.privacy.units import Cap

_BAR = 40
_CHANGED = "the ledger was changed"


def add_ledger(commands: Any) -> None:
    """``sfumato ledger``, with one subcommand for each act."""
    text = "Keep budgets: nobody overspends, nothing is forgotten."
    acts = commands.add_parser("ledger", help=text, description=text).add_subparsers(required=True, metavar="ACT")
    _add_init(acts)
    _add_show(acts)
    add_price(acts)
    _add_verify(acts)
    _add_void(acts)
    _add_cap(acts)
    _add_admit(acts)
    _add_confirm(acts)


def _act(acts: Any, name: str, text: str, example: str, run: Any) -> argparse.ArgumentParser:
    parser = command(acts, name, text, f"sfumato ledger {name} budget.db {example}".rstrip(), run)
    parser.add_argument("ledger", help="a SQLite file, or a postgresql:// URL")
    return parser


def _add_cap_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", required=True, help="its name")
    add_promise(parser)
    parser.add_argument("--neighbours", choices=("replace", "add-remove"), default="replace", help="default replace")
    parser.add_argument("--attributes", type=int, default=1, help="for unit attribute: protect so many values at once")


def _cap(options: Any) -> "Cap":
    from sfumato.privacy.units import Cap

    return Cap(promise(options), options.attributes)


def _add_init(acts: Any) -> None:
    parser = _act(
        acts,
        "init",
        "Enter a dataset with its cap; the ledger is made if it is not there.",
        "--dataset people --epsilon 3 --delta 1e-6 --unit record",
        _init,
    )
    parser.set_defaults(stands=_CHANGED)
    _add_cap_options(parser)
    parser.add_argument(
        "--composition",
        choices=("tight", "basic", "advanced", "gaussian"),
        default="tight",
        help="how releases add up. tight (default) holds if sizes of releases are not chosen by looking at earlier "
        "ones; the others hold in any case",
    )
    parser.add_argument(
        "--parts-by", metavar="COLUMN", help="a public column by whose values parts are released that share no record"
    )


def _init(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    cap, ledger = _cap(options), Ledger.create(options.ledger)
    made = ledger.add_dataset(options.dataset, cap, composition=options.composition, parts_by=options.parts_by)
    tell(options, {"ledger": ledger.journal.name, "dataset": made.name}, f"{made.name}: {cap.describe()}")


def _add_cap(acts: Any) -> None:
    text = "Set the cap of a dataset anew, on record, or one for another unit before anything was released."
    parser = _act(acts, "cap", text, "--dataset people --epsilon 5 --delta 1e-6", _set_cap)
    parser.set_defaults(stands=_CHANGED)
    _add_cap_options(parser)


def _set_cap(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    cap = _cap(options)
    made = Ledger(options.ledger).set_cap(options.dataset, cap)
    tell(options, {"dataset": made.name, "cap": cap.describe()}, f"{made.name}: {cap.describe()}")


def _add_show(acts: Any) -> None:
    text = "Show what was spent, what remains, and every release."
    parser = _act(acts, "show", text, "--dataset people --plot people.svg", _show)
    parser.add_argument("--dataset", help="only this one")
    add_plot(parser, "draw what was spent (needs --dataset)")


def _show(options: Any) -> None:
    from sfumato.errors import ParameterError
    from sfumato.ledger.ledger import Ledger

    ledger = Ledger(options.ledger)
    shown = ledger.datasets() if options.dataset is None else [ledger.dataset(options.dataset)]
    if options.plot is not None:
        from sfumato.report.plots import draw_spending

        if len(shown) != 1:
            raise ParameterError("a picture shows one dataset: name it (--dataset)")
        draw_spending(shown[0], options.plot)
    text = "\n\n".join(map(_described, shown)) or f"{ledger.journal.name} has no datasets yet"
    tell(options, {"datasets": [_facts(dataset) for dataset in shown]}, text)


def _described(dataset: "Dataset") -> str:
    lines = [f"{dataset.name} ({dataset.composition} composition)"]
    for place, cap in enumerate(dataset.caps):
        spent, whole = dataset.total(place), cap.guarantee.epsilon
        filled = min(_BAR, math.ceil(_BAR * spent.epsilon / whole)) if spent.epsilon < math.inf else _BAR
        lines += [
            f"  cap        {cap.describe()}",
            f"  spent      {spent.epsilon:.4g} ({spent.bound})  [{'#' * filled}{'.' * (_BAR - filled)}]",
            f"  remaining  one more pure release of epsilon up to {dataset.remaining(place):g}",
        ]
    if dataset.releases:
        lines += [
            "",
            f"  {'no.':>4}  {'when (UTC)':19}  {'mechanism':18} {'epsilon':>8} {'delta':>8}  {'total':>8}  state",
        ]
    for s in dataset.releases:
        total, part = s.totals[0].epsilon, f", part {s.part}" if s.part is not None else ""
        lines.append(
            f"  {s.number:>4}  {s.at[:19].replace('T', ' ')}  {s.mechanism:18} {s.guarantee.epsilon:>8g} "
            f"{s.guarantee.delta:>8g}  {total:>8.4g}  {s.state}{part}{'; ' if s.outside else ''}{'; '.join(s.outside)}"
        )
    return "\n".join(map(untrusted.line, lines))


def _facts(dataset: "Dataset") -> dict[str, Any]:
    totals = [dataset.total(place) for place in range(len(dataset.caps))]
    return {
        "name": dataset.name,
        "composition": dataset.composition,
        "caps": [
            cap.guarantee.to_dict()
            | {"spent": finite(total.epsilon), "bound": total.bound, "remaining": dataset.remaining(place)}
            for place, (cap, total) in enumerate(zip(dataset.caps, totals, strict=True))
        ],
        "releases": [
            {"number": s.number, "at": s.at, "mechanism": s.mechanism, "guarantee": s.guarantee.to_dict()}
            | {
                "part": s.part,
                "state": s.state,
                "note": s.note,
                "total": [finite(t.epsilon) for t in s.totals],
                "outside": s.outside,
            }
            for s in dataset.releases
        ],
    }


def _add_verify(acts: Any) -> None:
    text = "Check that no entry was edited, removed or moved, and that releases are the ones entered."
    parser = _act(acts, "verify", text, "--release people.release", _verify)
    parser.add_argument("--release", nargs="*", default=[], metavar="DIR", help="release folders to look up")
    parser.add_argument("--expect", metavar="HASH", help="a hash noted earlier, which must still be there")


def _verify(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    ledger = Ledger(options.ledger)
    entries, last = ledger.verify(options.expect)
    for folder in options.release:
        ledger.check_release(_manifest(folder))
    text = f"{entries} entries, unbroken; the last hash is {last}"
    if options.release:
        text += f"\n{len(options.release)} releases are the ones entered"
    tell(options, {"entries": entries, "last": last, "releases": options.release}, text)


def _manifest(folder: str) -> "Manifest":
    from pathlib import Path

    from sfumato.fileformat.reader import open_folder

    return open_folder(Path(folder), allow_unprotected=False)


def _add_void(acts: Any) -> None:
    text = "Give back a reservation from which nothing was drawn, and never will be."
    parser = _act(acts, "void", text, '7 --reason "the file was the wrong one"', _void)
    parser.set_defaults(stands=_CHANGED)
    parser.add_argument("number", type=int, help="of the reservation, as `ledger show` gives it")
    parser.add_argument("--reason", required=True, help="kept in the ledger")


def _void(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    Ledger(options.ledger).void(options.number, options.reason)
    tell(options, {"void": options.number}, f"reservation {options.number} is void")


def _add_confirm(acts: Any) -> None:
    text = "Record a release that was written whole, but whose process ended before it could say so."
    parser = _act(acts, "confirm", text, "people.release", _confirm)
    parser.set_defaults(stands=_CHANGED)
    parser.add_argument("release", help="the folder")


def _confirm(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger

    number = Ledger(options.ledger).confirm_release(_manifest(options.release))
    tell(options, {"committed": number}, f"reservation {number} is committed")


def _add_admit(acts: Any) -> None:
    text = "Say that a file with a schema belongs to a dataset, and spends its budget."
    parser = _act(acts, "admit", text, "people.csv --schema people.toml --dataset people", _admit)
    parser.set_defaults(stands=_CHANGED)
    parser.add_argument("data", help="the file")
    parser.add_argument("--schema", help="schema file (TOML); none for a graph")
    parser.add_argument("--dataset", required=True, help="the dataset it belongs to")


def _admit(options: Any) -> None:
    from sfumato.ledger.ledger import Ledger, schema_text
    from sfumato.pipeline.release import source_of
    from sfumato.tables.schema import Schema

    fields = None if options.schema is None else Schema.read(options.schema).to_dict()
    Ledger(options.ledger).admit(options.dataset, schema_text(fields), source_of(options.data))
    tell(options, {"dataset": options.dataset}, f"{options.data} is charged to {options.dataset!r} from now on")
