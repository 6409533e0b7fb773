"""Learn from synthetic rows, test on real ones: the tables of Chanyaswad et al., ours and others beside theirs.

Usage: make learning [DATA=folder of the data sets]
       python experiments/synthetic.py [--data FOLDER] [--repetitions 20] [--jobs 2] [--only NAME] [--scores FILE]

Writes the last section of docs/results.md. With --scores, what was measured is kept in a file, and cells that it holds
are not measured again.
"""

import argparse
import json
import math
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import rivals
from learning_tasks import LABEL, MEASURES, MOST_LEARNT, Lesson, Scores, Task, judged, tasks
from rivals import DELTA, Places
from sfumato.guarantee import Guarantee
from sfumato.mechanisms.synthetic import Synthetic
from sfumato.pipeline import release

EPSILONS = (1.0, 0.1)
NO_NOISE = 1e5
SLOW = 0.25
SHARES = (("an eighth", 1 / 8), ("half", 1 / 2), ("all", 1.0))
PUBLISHED_DIMENSION = 4  # where the paper's own curve over dimensions is best
HEADING = "## Learning from synthetic rows"
DOCS = Path(__file__).parent.parent / "docs"

TITLES = {
    "cost": "cost of centres, own space",
    "partition": "cost of groups, original columns",
    "silhouette": "silhouette",
    "logistic": "logistic regression",
    "quadratic": "quadratic discriminant",
    "rmse": "RMSE",
}

Run = Callable[[Task, Places, Places, float], Scores]
Found = dict[str, list[Scores]]


Often = dict[float | None, float]
EVERY: Often = {1.0: 1.0, 0.1: 1.0}
RARELY: Often = {1.0: 1.0, 0.1: 0.25}


@dataclass(frozen=True, slots=True)
class Method:
    """A line of a table: what it is called, how it is run, and how often at each epsilon (None: without privacy).

    How often: in shares of the repetitions; lines that only inform are not repeated as often.
    """

    name: str
    run: Run
    often: Often


def ours(task: Task, private: Places, tested: Places, epsilon: float, **changed: Any) -> Lesson:
    """Rows sampled from our release; real test rows as the release brings them to its space."""
    recipe = _recipe(task, **changed)
    promise = Guarantee(epsilon=epsilon, delta=DELTA if recipe.noise == "gaussian" else 0.0)
    made: Any = release(task.table(private), schema=task.schema, mechanism=recipe, guarantee=promise)
    drawn = made.sample(MOST_LEARNT)
    return Lesson(drawn.array(), None if task.labels is None else drawn.labels(), made.transform(task.table(tested)))


def _recipe(task: Task, **changed: Any) -> Synthetic:
    given = {"dimension": 32, "noise": "gaussian"} | changed
    if isinstance(given["dimension"], float):  # a share of the columns
        given["dimension"] = max(1, round(given["dimension"] * task.columns.shape[1]))
    if task.labels is not None:
        given |= {"label": LABEL, "kind": task.kind}
    return Synthetic(**given)


def _learnt(lesson: rivals.Rival) -> Run:
    return lambda task, private, tested, epsilon: judged(task, lesson(task, private, tested, epsilon), tested)


def _ours(name: str, often: Often, **changed: Any) -> Method:
    return Method(f"ours, {name}", _learnt(partial(ours, **changed)), often)


def methods() -> list[Method]:
    """Every line, in the order of the tables."""
    found = [
        Method("real rows, no privacy", _learnt(rivals.real), {None: 0.25}),
        _ours("as it comes", EVERY),
        _ours("Laplace noise", EVERY, noise="laplace"),
        _ours("without shrinking", {1.0: 0.5}, shrink=False),
        _ours("the paper's split", {1.0: 0.5}, split="paper"),
        _ours("normalised once", {1.0: 0.5}, normalise="once"),
        *(_ours(f"{name} of the columns", {1.0: 0.25}, dimension=share) for name, share in SHARES),
        _ours("hardly any noise", {NO_NOISE: 0.25}),
        _ours("hardly any noise, all of the columns", {NO_NOISE: 0.25}, dimension=1.0),
        Method("RON-Gauss as published: NOT PRIVATE", _learnt(rivals.published(PUBLISHED_DIMENSION)), RARELY),
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


def key(task: Task, method: Method, epsilon: float | None) -> str:
    """How a cell of a table is called in a file of scores."""
    return f"{task.name} | {method.name} | {'' if epsilon is None else format(epsilon, 'g')}"


_TASK: list[Task] = []  # what the workers of ``measured`` see; they are forked


def _work(job: tuple[str, float | None, int]) -> Scores:
    name, epsilon, repetition = job
    return cell(_TASK[0], next(m for m in methods() if m.name == name), epsilon, repetition)


def measured(task: Task, repetitions: int, jobs: int, known: Found, only: str = "") -> Iterator[tuple[str, Scores]]:
    """The cells of a task's table, ``repetitions`` times each, but for those that are known; with their keys."""
    wanted = [
        (m, e, r)
        for m in methods()
        for e, share in m.often.items()
        for r in range(
            len(known.get(key(task, m, e), [])), math.ceil((SLOW if task.slow else 1.0) * share * repetitions)
        )
        if only in m.name
    ]
    _TASK[:] = [task]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        found = pool.imap(_work, [(m.name, e, r) for m, e, r in wanted])
        for (method, epsilon, _), scores in zip(wanted, found, strict=True):
            yield key(task, method, epsilon), scores


def with_interval(values: NDArray[np.float64]) -> str:
    """The mean with half the width of its 95% interval (Student)."""
    mean, count = float(values.mean()), len(values)
    if not math.isfinite(mean):
        return "-"
    half = float(stats.t.ppf(0.975, count - 1) * values.std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan
    return f"{_short(mean)} ± {_short(half)}"


def _short(number: float) -> str:
    return f"{number:.3f}" if abs(number) < 100 else f"{number:.3g}"


def table(task: Task, found: Found) -> Iterator[str]:
    """One table: a line for each method and epsilon."""
    yield f"| {task.name} | epsilon | repetitions | " + " | ".join(TITLES[m] for m in MEASURES[task.kind]) + " |"
    yield "|---" * (3 + len(MEASURES[task.kind])) + "|"
    for method in methods():
        for epsilon in method.often:
            scores = np.array(found.get(key(task, method, epsilon), []))
            if len(scores):
                shown = " | ".join(with_interval(column) for column in scores.T)
                promise = "none" if epsilon is None else f"{epsilon:g}"
                yield f"| {method.name} | {promise} | {len(scores)} | {shown} |"
    yield ""


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets; without it, those of scikit-learn")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="measure methods whose name holds this, and write nothing else")
    parser.add_argument("--tasks", default="", help="likewise for data sets, several with commas")
    parser.add_argument("--scores", type=Path, help="a file that keeps what was measured")
    options = parser.parse_args()
    known: Found = json.loads(options.scores.read_text()) if options.scores and options.scores.exists() else {}
    for name, read in tasks(options.data).items():
        if options.tasks and name not in options.tasks.split(","):
            continue
        task = read()
        for place, scores in measured(task, options.repetitions, options.jobs, known, options.only):
            known.setdefault(place, []).append(scores)
            if options.scores:
                options.scores.write_text(json.dumps(known))
        print("\n".join(table(task, known)), flush=True)


if __name__ == "__main__":
    main()
