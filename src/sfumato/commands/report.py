"""``sfumato report``: a release as one HTML file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.options import command, tell
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.fileformat.manifest import Manifest
    from sfumato.ledger.state import Dataset


def add_report(commands: Any) -> None:
    """``sfumato report``."""
    text = "Show a release to people: one HTML file with its promise, its errors, its numbers, and how to load it."
    example = "sfumato report people.release --out people.html --ledger budget.db"
    parser = command(commands, "report", text, example, _report)
    parser.set_defaults(stands="the report was written")
    parser.add_argument("release", help="release folder")
    parser.add_argument("--out", required=True, type=Path, help="file to write, ending in .html")
    parser.add_argument("--ledger", help="show the state of this ledger too: a SQLite file, or a postgresql:// URL")
    parser.add_argument(
        "--dataset", help="of the ledger (default: the one the release was charged to, or its only one)"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that exists")
    parser.add_argument(
        "--allow-unprotected", action="store_true", help="report on a release that was made with test noise, too"
    )


def _report(options: Any) -> None:
    from sfumato.releases.release import load
    from sfumato.report.page import page

    _check_place(options.out, force=options.force)
    release = load(options.release, allow_unprotected=options.allow_unprotected)
    dataset = _dataset(options, release.manifest)
    text = page(release, ledger=dataset)
    with options.out.open("w" if options.force else "x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    facts = {"report": str(options.out), "bytes": len(text.encode()), "warnings": release.manifest["warnings"]}
    lines = [*(f"warning: {line}" for line in release.manifest["warnings"]), f"written to {options.out}"]
    tell(options, facts | {"dataset": dataset and dataset.name}, "\n".join(map(untrusted.line, lines)))


def _check_place(path: Path, *, force: bool) -> None:
    """Refuse before anything is computed."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"{path}: a report is a file that ends in .html")
    if not path.parent.is_dir():
        raise ParameterError(f"there is no folder {path.parent} to put the report in; nothing was written")
    if path.is_dir() or path.is_symlink() or (path.exists() and not force):
        raise ParameterError(f"{path} exists already: choose another name, or give --force; nothing was written")


def _dataset(options: Any, manifest: "Manifest") -> "Dataset | None":
    """The budget to show; the ledger must know a release that claims to be charged to this dataset of it."""
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
