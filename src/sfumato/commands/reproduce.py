"""``sfumato reproduce``: every table and figure of the papers, from the experiments of a checkout."""

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from sfumato import check
from sfumato.commands.console.options import command, tell
from sfumato.errors import MissingDependency, ParameterError


def add_reproduce(commands: Any) -> None:
    """``sfumato reproduce``: its options."""
    text = "Reproduce the tables and figures of the papers. Needs a checkout of the repository."
    parser = command(commands, "reproduce", text, "sfumato reproduce all --quick", _reproduce)
    parser.set_defaults(stands="the pages were written")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="A paper, an experiment, or all (default: list the names)."
    )
    parser.add_argument("--quick", action="store_true", help="Fewer repetitions: minutes instead of hours.")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="Folder of the data sets (default $SFUMATO_DATA).")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="Folder for the pages (default: docs in the checkout; with --quick, reproduced).",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="Experiments run in parallel (default: number of cores).",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="SEED", help="Seed of all random draws (default 1).")


def _reproduce(options: argparse.Namespace) -> None:
    runner, root = _runner()
    papers = runner.catalogue()
    check.whole(1, jobs=options.jobs)
    check.whole(0, seed=options.seed)
    if options.name is None:
        options.stands = None
        tell(options, {p.name: [e.name for e in p.experiments] for p in papers}, _listed(papers))
        return
    if not runner.chosen(papers, options.name):
        raise ParameterError(f"there is no experiment {options.name!r}: run `sfumato reproduce` for a list")
    given = os.environ.get("SFUMATO_DATA")
    data = options.data or (Path(given) if given else None)
    if data is not None and not data.is_dir():
        raise ParameterError(f"{data} is not a folder: --data names the folder of the data sets")
    out = options.out or root / ("reproduced" if options.quick else "docs")
    if out.exists() and not out.is_dir():
        raise ParameterError(f"{out} is not a folder: --out names the folder for the pages")
    wish = runner.Wish(out, data, options.quick, options.jobs, options.seed)
    found = runner.reproduce(options.name, wish, papers)
    shown = "" if options.name == "all" else "\n\n".join(b for kept in found for b in runner.section(kept)) + "\n\n"
    where = f"Pages written to {out / 'results.md'}, errata.md and results.json"
    tell(options, {kept["experiment"]: kept for kept in found}, shown + where)


def _listed(papers: Any) -> str:
    lines = []
    for paper in papers:
        lines += [f"{paper.name}: {paper.title}"] + [f"    {e.name}: {e.title}" for e in paper.experiments]
    return "\n".join(lines)


def _runner() -> tuple[Any, Path]:
    """The experiments of this checkout that reproduce the papers, and its root."""
    root = Path(__file__).parents[3]
    if not (root / "experiments" / "reproduce.py").exists():
        raise ParameterError(
            "the experiments are not part of the installed package: clone the repository and run this command there"
        )
    sys.path.insert(0, str(root / "experiments"))
    try:
        return importlib.import_module("reproduce"), root
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "sfumato":
            raise
        raise MissingDependency(f"the experiments need {error.name}: `make results` installs what they use") from error
