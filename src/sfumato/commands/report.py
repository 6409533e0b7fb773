"""``sfumato report``: a release as one HTML file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.console.options import LEDGER, add_folder, command, tell
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.fileformat.manifest import Manifest
    from sfumato.ledger.state import Dataset


def add_report(commands: Any) -> None:
    """``sfumato report``: its options."""
    text = "Write an HTML report on a release. One file with its guarantee, its errors, its numbers and how to load it."
    example = "sfumato report people.release --out people.html --ledger budget.db"
    parser = command(commands, "report", text, example, _report)
    parser.set_defaults(stands="the report was written")
    add_folder(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="HTML file to write.")
    parser.add_argument("--ledger", metavar="LEDGER", help=f"Ledger whose state to show: {LEDGER} (default none).")
    parser.add_argument(
        "--dataset", metavar="NAME", help="Dataset in the ledger (default: the one charged, or the only one)."
    )
    parser.add_argument("--force", action="store_true", help="Overwrite an existing file.")
    parser.add_argument("--allow-unprotected", action="store_true", help="Accept a release made with test noise.")


def _report(options: Any) -> None:
    from sfumato.releases.release import load
    from sfumato.report.page import page

    check_place(options.out, "report", force=options.force)
    release = load(options.release, allow_unprotected=options.allow_unprotected)
    dataset = _dataset(options, release.manifest)
    text = page(release, ledger=dataset)
    with options.out.open("w" if options.force else "x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    facts = {"report": str(options.out), "bytes": len(text.encode()), "warnings": release.manifest["warnings"]}
    lines = [*(f"warning: {line}" for line in release.manifest["warnings"]), f"Report written to {options.out}"]
    tell(options, facts | {"dataset": dataset and dataset.name}, "\n".join(map(untrusted.line, lines)))


def check_place(path: Path, what: str, *, force: bool) -> None:
    """Refuse a place for a report, or for another page, before anything is computed."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"{path}: the file name of a {what} must end in .html")
    if not path.parent.is_dir():
        raise ParameterError(f"there is no folder {path.parent} for the {what}; nothing was written")
    if path.is_dir() or path.is_symlink() or (path.exists() and not force):
        raise ParameterError(f"{path} already exists: choose another name or use --force; nothing was written")


def _dataset(options: Any, manifest: "Manifest") -> "Dataset | None":
    """The budget that a report shows; the ledger must know a release that says it was charged to this dataset."""
    if options.ledger is None:
        if options.dataset is not None:
            raise ParameterError("--dataset needs --ledger")
        return None
    from sfumato.ledger.ledger import Ledger

    ledger, told = Ledger(options.ledger), manifest.get("ledger")
    name = options.dataset or (told and told["dataset"]) or ledger.account().name
    if told is not None and told["dataset"] == name:
        ledger.check_release(manifest)
    return ledger.dataset(name)
