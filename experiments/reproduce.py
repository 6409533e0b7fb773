"""Every table and figure of the papers, ours beside theirs: runs experiments and writes the pages they make.

Usage: sfumato reproduce NAME|all [--quick] [--data FOLDER] [--out FOLDER] [--jobs 2]

What was measured is kept in OUT/results.json, from which OUT/results.md and OUT/errata.md are written; running one
experiment replaces its numbers and leaves the others.
"""

import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import attacks
import blocki
import dhaliwal
import errata
import kenthapadi
import links
import owners
import questions
import rongauss
import scales
import sign_sketches
import similar
import similar_plans
import streams
import tables
from page import Experiment, Paper, Setting, as_json, from_json, markdown

VERSIONS = ("sfumato", "numpy", "scipy", "scikit-learn", "pyarrow", "dp-accounting")
TITLES = {"results": "# Results", "errata": "# Errata of the papers"}
INTRODUCTIONS = {
    "results": "Every table and figure of the papers, ours beside theirs. `sfumato reproduce all` makes this page,\n"
    "its pictures and [errata.md](errata.md) and keeps every number in [results.json](results.json), with seeds,\n"
    "versions and the machine; `sfumato reproduce NAME` makes one section again. ± stands before the standard error\n"
    "of a mean, unless a section says otherwise. Where we do not reach a paper's figure, its section says so and why.",
    "errata": "What the papers say, what is true, and a command that shows it, with its output. The mathematics is in\n"
    "[mathematics.md](mathematics.md). `sfumato reproduce errata` makes this page.",
}


def catalogue() -> list[Paper]:
    """The papers, in the order of the pages."""
    return [
        dhaliwal.PAPER,
        kenthapadi.PAPER,
        rongauss.PAPER,
        blocki.PAPER,
        scales.PAPER,
        tables.PAPER,
        questions.PAPER,
        similar.PAPER,
        sign_sketches.PAPER,
        similar_plans.PAPER,
        streams.PAPER,
        links.PAPER,
        owners.PAPER,
        attacks.PAPER,
        errata.PAPER,
    ]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be run, and how."""

    out: Path
    data: Path | None = None
    quick: bool = False
    jobs: int = 2
    seed: int = 1

    def setting(self, name: str) -> Setting:
        """The setting of an experiment."""
        return Setting(name, self.out, self.data, self.quick, self.seed, lambda text: say(f"    {name}: {text}"))


def chosen(papers: Sequence[Paper], name: str) -> list[Experiment]:
    """The experiments of this name: ``all``, a paper, a page or one experiment; none if there is no such name."""
    return [e for p in papers for e in p.experiments if name in ("all", p.name, p.page, e.name)]


def run_one(experiment: Experiment, wish: Wish) -> dict[str, Any]:
    """What an experiment gave, with everything that is needed to repeat it."""
    missing, start, told = experiment.missing(wish.data), time.monotonic(), []
    if missing:
        told = [f"*{_missing(experiment, missing)}*"]
    parts: list[Any] = []
    if not missing or experiment.stand_in:
        with threadpool_limits(1):
            parts = [as_json(part) for part in experiment.run(wish.setting(experiment.name))]
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "quick": wish.quick,
        "seed": wish.seed,
        "seconds": round(time.monotonic() - start, 1),
        "machine": machine(),
        "versions": {name: metadata.version(name) for name in VERSIONS},
        "parts": [as_json(line) for line in told] + parts,
    }


def _missing(experiment: Experiment, missing: Sequence[str]) -> str:
    left = f"{experiment.stand_in} stands in" if experiment.stand_in else "left out"
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not in the data folder: {left}."


def machine() -> str:
    """The machine in a few words."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


_RUNNING: dict[str, Experiment] = {}  # what forked workers see


def _work(name: str, wish: Wish) -> dict[str, Any]:
    return run_one(_RUNNING[name], wish)


def run_all(experiments: Sequence[Experiment], wish: Wish) -> Iterator[dict[str, Any]]:
    """What each experiment gave, as it comes; several at a time in processes of their own, which end with this one."""
    _RUNNING.update({e.name: e for e in experiments})
    start = time.monotonic()
    with ProcessPoolExecutor(wish.jobs, mp_context=multiprocessing.get_context("fork")) as pool:
        waiting = {pool.submit(_work, e.name, wish): e for e in experiments}
        try:
            for place, done in enumerate(as_completed(waiting), 1):
                found, experiment = done.result(), waiting[done]
                told = f"[{place}/{len(experiments)}] {experiment.name}: {found['seconds']:.0f} s"
                say(told, time.monotonic() - start)
                if missing := experiment.missing(wish.data):
                    say(f"    {_missing(experiment, missing)}")
                yield found
        except BaseException:  # interrupted, or one failed: the others are not waited for
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.kill()
            raise


def say(text: str, elapsed: float | None = None) -> None:
    """A line for people who wait."""
    after = "" if elapsed is None else f"  ({elapsed / 60:.1f} min since the start)"
    print(text + after, file=sys.stderr, flush=True)


def known(out: Path) -> dict[str, Any]:
    """What was measured before."""
    path = out / "results.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(out: Path, found: dict[str, Any], papers: Sequence[Paper]) -> None:
    """Write the numbers, in the order of the pages."""
    order = [e.name for p in papers for e in p.experiments]
    lines = [f"{json.dumps(name)}: {_lines(found[name])}" for name in order if name in found]
    _write(out / "results.json", "{\n" + ",\n".join(lines) + "\n}\n")


def _lines(kept: dict[str, Any]) -> str:
    """JSON with a line for every row of a table."""
    text = json.dumps({**kept, "parts": None}, ensure_ascii=False)[:-5]
    return text + "[\n" + ",\n".join(_part(part) for part in kept["parts"]) + "\n]}"


def _part(part: dict[str, Any]) -> str:
    if "rows" not in part:
        return json.dumps(part, ensure_ascii=False)
    head = json.dumps({k: v for k, v in part.items() if k != "rows"}, ensure_ascii=False)[:-1]
    return head + ', "rows": [\n' + ",\n".join(json.dumps(row, ensure_ascii=False) for row in part["rows"]) + "\n]}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def page(name: str, papers: Sequence[Paper], found: dict[str, Any]) -> str:
    """A page from what was measured."""
    lines = [TITLES[name], INTRODUCTIONS[name], _facts(found)]
    for paper in papers:
        done = [found[e.name] for e in paper.experiments if e.name in found]
        if paper.page == name and done:
            lines += [f"## {paper.title}", *filter(None, [paper.introduction])]
            for kept in done:
                lines += section(kept)
    return "\n\n".join(lines) + "\n"


def section(kept: dict[str, Any]) -> list[str]:
    """The blocks of one experiment's section."""
    command = f"`sfumato reproduce {kept['experiment']}{' --quick' if kept['quick'] else ''}`, {kept['seconds']:.0f} s."
    return [f"### {kept['title']}", command, *(markdown(from_json(part)) for part in kept["parts"])]


def _facts(found: dict[str, Any]) -> str:
    machines = sorted({kept["machine"] for kept in found.values()})
    versions = sorted({", ".join(f"{n} {v}" for n, v in kept["versions"].items()) for kept in found.values()})
    quick = sum(kept["quick"] for kept in found.values())
    seconds = sum(kept["seconds"] for kept in found.values())
    told = f" {quick} of {len(found)} sections come from a quick run, with few repetitions." if quick else ""
    return f"{'; '.join(machines)}; {'; '.join(versions)}. {seconds / 60:.0f} minutes of one core.{told}"


def write_pages(out: Path, papers: Sequence[Paper], found: dict[str, Any]) -> None:
    """The JSON and both pages."""
    keep(out, found, papers)
    for name in TITLES:
        _write(out / f"{name}.md", page(name, papers, found))


def reproduce(name: str, wish: Wish, papers: Sequence[Paper] | None = None) -> list[dict[str, Any]]:
    """Run what is called ``name`` and write the pages after each experiment; what was found, in order."""
    papers = catalogue() if papers is None else papers
    done, experiments = {}, chosen(papers, name)
    for kept in run_all(experiments, replace(wish, jobs=max(1, min(wish.jobs, len(experiments))))):
        done[kept["experiment"]] = kept
        write_pages(wish.out, papers, known(wish.out) | done)
    return [done[e.name] for e in experiments]
