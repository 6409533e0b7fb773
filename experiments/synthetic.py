"""Learn from synthetic rows, test on real ones: the tables of Chanyaswad et al., ours and others beside theirs.

Usage: make learning [DATA=folder of the data sets]
       python experiments/synthetic.py [--data FOLDER] [--repetitions 20] [--only NAME] [--tasks NAME] [--report]

Writes the last section of docs/results.md. What was measured is kept in learning_scores.json beside this file, and
not measured again: remove it to start anew. --report measures nothing and writes what is known.
"""

import argparse
import functools
import json
import math
import multiprocessing
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import learning_report
import rivals
from learning_report import CLEAN, NO_NOISE, REAL, Found, key
from learning_tasks import KINDS, LABEL, MOST_LEARNT, Kind, Lesson, Scores, Task, judged, tasks
from rivals import DELTA, Places
from sfumato import mixture
from sfumato.guarantee import Guarantee
from sfumato.mechanisms.synthetic import Synthetic
from sfumato.pipeline import release

SLOW, SLOW_TASKS = 0.25, ("MNIST",)  # of the repetitions at most: half a minute for each release
SHARES = (("an eighth", 1 / 8), ("half", 1 / 2))
SCORES = Path(__file__).parent / "learning_scores.json"
DOCS = Path(__file__).parent.parent / "docs"

Run = Callable[[Task, Places, Places, float], Scores]
Often = dict[float | None, float]
EVERY: Often = {1.0: 1.0, 0.1: 1.0}
RARELY: Often = {1.0: 1.0, 0.1: 0.25}
INFORMS: Often = {1.0: 0.25}


@dataclass(frozen=True, slots=True)
class Method:
    """A line of a table: what it is called, how it is run, and how often at each epsilon (None: without privacy).

    How often: in shares of the repetitions; lines that only inform are not repeated as often.
    """

    name: str
    run: Run
    often: Often
    kinds: tuple[Kind, ...] = ("clusters", "classes", "values")


def made(task: Task, private: Places, epsilon: float, **changed: Any) -> Any:
    """Our release of the private rows."""
    given: dict[str, Any] = {"noise": "gaussian", "expected_rows": len(private)} | changed  # their number is public
    if task.labels is not None:
        given |= {"label": LABEL, "kind": task.kind}
    if isinstance(given.get("dimension"), float):  # a share of the columns
        given["dimension"] = max(1, round(given["dimension"] * task.columns.shape[1]))
    if given.get("dimension") == "as at 1":
        given["dimension"] = chosen(task, given["noise"])
    promise = Guarantee(epsilon=epsilon, delta=DELTA if given["noise"] == "gaussian" else 0.0)
    return release(task.table(private), schema=task.schema, mechanism=Synthetic(**given), guarantee=promise)


@functools.cache
def chosen(task: Task, noise: str) -> int:
    """The dimension that a release chooses at epsilon 1, from public facts."""
    return int(made(task, task.split(0)[0], 1.0, noise=noise).dimension)


def ours(task: Task, private: Places, tested: Places, epsilon: float, **changed: Any) -> Lesson:
    """Rows sampled from our release; real test rows as the release brings them to its space."""
    found = made(task, private, epsilon, **changed)
    drawn = found.sample(MOST_LEARNT)
    return Lesson(drawn.array(), None if task.labels is None else drawn.labels(), found.transform(task.table(tested)))


def unbounded(task: Task, private: Places, tested: Places, epsilon: float, **changed: Any) -> Lesson:
    """The same, but labels that the model puts beyond their bounds stay there."""
    found = made(task, private, epsilon, **changed)
    drawn, _ = mixture.sample(found.model().components, MOST_LEARNT, np.random.default_rng())
    low, high = task.label_bounds
    return Lesson(drawn[:, :-1], low + (drawn[:, -1] + 1) / 2 * (high - low), found.transform(task.table(tested)))


def published(task: Task, private: Places, tested: Places, epsilon: float) -> Lesson:
    """The paper's constants, in as many columns as ours with Laplace noise."""
    return rivals.published(chosen(task, "laplace"))(task, private, tested, epsilon)


def _learnt(teacher: rivals.Rival) -> Run:
    """The scores of what a learner makes of a teacher's lesson, and how many columns that has."""

    def run(task: Task, private: Places, tested: Places, epsilon: float) -> Scores:
        lesson = teacher(task, private, tested, epsilon)
        return *judged(task, lesson, tested), float(lesson.rows.shape[1])

    return run


def _ours(name: str, often: Often, **changed: Any) -> Method:
    return Method(f"ours, {name}", _learnt(partial(ours, **changed)), often)


def methods() -> list[Method]:
    """Every line, in the order of the tables."""
    found = [
        Method(REAL, _learnt(rivals.real), {None: 0.25}),
        _ours("as it comes", EVERY),
        _ours("Laplace noise", EVERY, noise="laplace"),
        Method("ours, one pass", _learnt(partial(ours, centring="public")), INFORMS, ("classes",)),
        Method("ours, two passes", _learnt(partial(ours, centring="private")), INFORMS, ("clusters", "values")),
        Method("ours, shrunk by the spectrum", _learnt(partial(ours, shrink="spectrum")), INFORMS, ("classes",)),
        Method("ours, shrunk linearly", _learnt(partial(ours, shrink="linear")), INFORMS, ("clusters", "values")),
        _ours("without shrinking", INFORMS, shrink="none"),
        _ours("the paper's split", INFORMS, split="paper"),
        _ours("two passes, normalised once", INFORMS, normalise="once", centring="private"),
        Method("ours, labels beyond their bounds", _learnt(unbounded), INFORMS, ("values",)),
        *(_ours(f"{name} of the columns", INFORMS, dimension=share) for name, share in SHARES),
        Method(CLEAN, _learnt(partial(ours, dimension="as at 1")), {NO_NOISE: 0.25}),
        Method(f"{CLEAN}, labels beyond their bounds", _learnt(unbounded), {NO_NOISE: 0.25}, ("values",)),
        Method("RON-Gauss as published: NOT PRIVATE", _learnt(published), RARELY),
        Method("Li et al.", _learnt(rivals.li), RARELY),
        Method("Jiang et al.", _learnt(rivals.jiang), RARELY),
        Method("Blum et al.", _learnt(rivals.blum), RARELY),
        Method("Liu (MODIPS)", _learnt(rivals.modips), RARELY),
    ]
    if rivals.has_diffprivlib():
        found.append(Method("diffprivlib, a model without rows", rivals.diffprivlib_scores, RARELY))
    return found


def cell(task: Task, method: Method, epsilon: float | None, repetition: int) -> Scores:
    """One measurement: a split, a fresh projection, fresh noise."""
    private, tested = task.split(repetition)
    with warnings.catch_warnings():  # learners that did not converge, or whose columns are collinear
        warnings.simplefilter("ignore")
        return method.run(task, private, tested, 0.0 if epsilon is None else epsilon)


_TASK: list[Task] = []  # what the workers of ``measured`` see; they are forked
Job = tuple[str, float | None, int]


def jobs_left(task: str, repetitions: int, known: Found, only: str = "") -> list[Job]:
    """Methods, epsilons and repetitions of a task's table that are not known; first all of one repetition."""
    most = SLOW if task in SLOW_TASKS else 1.0
    found = [
        (m.name, e, r)
        for m in methods()
        for e, share in m.often.items()
        for r in range(len(known.get(key(task, m.name, e), [])), math.ceil(repetitions * min(share, most)))
        if any(part in m.name for part in only.split(",")) and KINDS[task] in m.kinds
    ]
    return sorted(found, key=operator.itemgetter(2))


def _work(job: Job) -> Scores:
    name, epsilon, repetition = job
    return cell(_TASK[0], next(m for m in methods() if m.name == name), epsilon, repetition)


def measured(task: Task, jobs: list[Job], workers: int) -> Iterator[tuple[str, Scores]]:
    """The scores of these jobs, with the names of their cells."""
    _TASK[:] = [task]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for (name, epsilon, _), scores in zip(jobs, pool.imap(_work, jobs), strict=True):
            yield key(task.name, name, epsilon), scores


def wanted(options: argparse.Namespace, known: Found) -> Iterator[tuple[str, Scores]]:
    """What is still to be measured, as it comes; data sets are read only if something of theirs is."""
    for name, read in tasks(options.data).items():
        if options.tasks and name not in options.tasks.split(","):
            continue
        left = jobs_left(name, options.repetitions, known, options.only)
        if left:
            yield from measured(read(), left, options.jobs)


def _lines(known: Found) -> str:
    """JSON with a line for each cell."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known)) + "\n}\n"


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets; without it, those of scikit-learn")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="measure methods whose name holds one of these, with commas")
    parser.add_argument("--tasks", default="", help="data sets, with commas")
    parser.add_argument("--scores", type=Path, default=SCORES, help="a file that keeps what was measured")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    known: Found = json.loads(options.scores.read_text()) if options.scores.exists() else {}
    for name, scores in () if options.report else wanted(options, known):
        known.setdefault(name, []).append(scores)
        print(name, *(f"{score:.3f}" for score in scores), flush=True)
        options.scores.write_text(_lines(known))
    order = [(m.name, epsilon, m.kinds) for m in methods() for epsilon in m.often]
    lines = list(learning_report.section(order, known))
    print(*lines, sep="\n")
    if not options.only and not options.tasks:
        page = (DOCS / "results.md").read_text(encoding="utf-8").split(f"\n{learning_report.HEADING}")[0].rstrip()
        (DOCS / "results.md").write_text("\n".join([page, "", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
