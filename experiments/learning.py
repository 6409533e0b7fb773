"""Cells of the tables on learning from synthetic rows: who made the rows, how often it was tried, how well it went."""

import math
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import rivals
from learning_tasks import LABEL, MOST_LEARNT, Lesson, Scores, Task, Trial, judged, nothing_learnt
from page import Cell, Measured, Setting, Table
from rivals import DELTA, Teacher
from sfumato.estimation import gaussians
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee

EPSILONS = (1.0, 0.1)
NO_NOISE = 1e5
REAL, OURS, CLEAN = "real rows, no privacy", "ours, Gaussian noise", "ours, hardly any noise"
PUBLISHED = "RON-Gauss as published: NOT PRIVATE"
TITLES = {
    "silhouette": "silhouette",
    "cost": "cost of centres, own space",
    "partition": "cost of groups, original columns",
    "svm": "SVM",
    "logistic": "logistic regression",
    "quadratic": "quadratic discriminant",
    "kernel": "RMSE, kernel ridge",
    "ridge": "RMSE, ridge",
}
FALLS = ("cost", "partition", "kernel", "ridge")  # measures that are better when they are smaller
_AGAIN = 1000  # repetitions from here on share no split with those that a choice was made by


def prose(text: str) -> str:
    """A paragraph in lines of the page's length; a bullet stays one."""
    return textwrap.fill(" ".join(text.split()), 118, subsequent_indent="  " if text.startswith("- ") else "")


Run = Callable[[Trial], tuple[Scores, int | None]]  # scores, and how many columns a learner saw


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a table. ``often``: repetitions in a full and in a quick run; ``paper``: what the paper has there."""

    name: str
    run: Run
    often: tuple[int, int]
    epsilon: float | None = 1.0
    paper: float | None = None
    first: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a line gave: scores, (repetitions, measures)."""

    line: Line
    scores: NDArray[np.float64]
    columns: int | None
    tests: int = 0  # rows that each share is one of; 0 where scores are no shares

    def mean(self, place: int) -> float:
        """Of one measure."""
        return float(self.scores[:, place].mean())

    def cells(self, *, paper: bool) -> list[Cell]:
        """The row; ``paper``: whether there is a column for the paper's figures."""
        line = self.line
        promise: Cell = "none" if line.epsilon is None else line.epsilon
        measured = [
            few(column, self.tests * len(column)) if np.isfinite(column).all() else None for column in self.scores.T
        ]
        published: list[Cell] = [line.paper] if paper else []
        return [line.name, promise, self.columns, *published, len(self.scores), *measured]


def few(values: NDArray[np.float64], trials: int = 0) -> Measured:
    """The mean of few repetitions; its error is widened so that twice of it makes a 95% interval (Student).

    Of shares it is at least that of so many ``trials`` in all and two more: few repetitions may agree by chance.
    """
    plain, least = Measured.of(values), 0.0
    if trials:
        share = (plain.value * trials + 1) / (trials + 2)
        least = math.sqrt(share * (1 - share) / (trials + 2))
    if plain.repetitions < 2:
        return replace(plain, error=least or math.nan)
    if plain.error < 1e-12 * abs(plain.value):  # nothing but rounding
        return replace(plain, error=least, sd=0.0)
    widened = plain.error * float(stats.t.ppf(0.975, plain.repetitions - 1)) / 1.96
    return replace(plain, error=max(widened, least))


def learnt(teacher: Teacher) -> Run:
    """The scores of what learners make of a teacher's lesson."""

    def run(trial: Trial) -> tuple[Scores, int]:
        lesson = teacher(trial)
        return judged(trial.task, lesson, trial.tested), lesson.rows.shape[1]

    return run


def measure(setting: Setting, task: Task, line: Line) -> Found:
    """A line: fresh splits (the same for all lines), projections and noise."""
    found = []
    for repetition in range(line.first, line.first + setting.often(*line.often)):
        private, tested = task.split(setting.rng(f"{task.name} split {repetition}"))
        rng = setting.rng(f"{task.name} | {line.name} | {line.epsilon} | {repetition}")
        with warnings.catch_warnings():  # learners that did not converge, or whose columns are collinear
            warnings.simplefilter("ignore")
            found.append(line.run(Trial(task, private, tested, line.epsilon or 0.0, rng)))
    scores, columns = zip(*found, strict=True)
    setting.told(f"{task.name}: {line.name}")
    return Found(line, np.array(scores, float), columns[-1], len(tested) if task.kind == "classes" else 0)


def table(name: str, task: Task, found: Iterable[Found], paper: str | None = None) -> Table:
    """Lines as a table; ``paper``: the title of the column with the paper's figures."""
    rows = [f.cells(paper=paper is not None) for f in found]
    measures = [TITLES[m] for m in task.measures]
    head = ["rows from", "epsilon", "columns", *([paper] if paper else []), "repetitions", *measures]
    formats = {"epsilon": "g"} | {TITLES[m]: ".3f" for m in task.measures if m not in ("cost", "partition")}
    return Table(name, head, rows, formats)


def best(found: Sequence[Found], place: int, measure_name: str) -> Found:
    """The line with the best mean of a measure."""
    sign = -1 if measure_name in FALLS else 1
    return max(found, key=lambda f: sign * f.mean(place))


def again(chosen: Found, name: str, often: tuple[int, int], paper: float | None = None) -> Line:
    """The line that was chosen by its scores, to be measured on splits and noise that had no part in the choice."""
    return replace(chosen.line, name=name, often=often, paper=paper, first=_AGAIN)


def made(trial: Trial, **changed: Any) -> Any:
    """Our release of the private rows."""
    task = trial.task
    given: dict[str, Any] = {"noise": "gaussian", "expected_rows": len(trial.private)} | changed  # a public number
    if task.labels is not None:
        given |= {"label": LABEL, "kind": task.kind}
    if isinstance(given.get("dimension"), float):  # a share of the columns
        given["dimension"] = max(1, round(given["dimension"] * task.columns.shape[1]))
    promise = Guarantee(epsilon=trial.epsilon, delta=DELTA if given["noise"] == "gaussian" else 0.0)
    recipe = Synthetic(**given, seed=trial.seed())
    rows = task.table(trial.private)
    return release(rows, schema=task.schema, mechanism=recipe, guarantee=promise, secret=trial.secret())


def ours(trial: Trial, **changed: Any) -> Lesson:
    """Rows sampled from our release; real test rows as the release brings them to its space."""
    found = made(trial, **changed)
    drawn = found.sample(MOST_LEARNT, trial.rng)
    labels = None if trial.task.labels is None else drawn.labels()
    return Lesson(drawn.array(), labels, found.transform(trial.task.table(trial.tested)))


def unbounded(trial: Trial, **changed: Any) -> Lesson:
    """The same, but labels that the model puts beyond their bounds stay there."""
    found = made(trial, **changed)
    drawn, _ = gaussians.sample(found.model().components, MOST_LEARNT, trial.rng)
    low, high = trial.task.label_bounds
    labels = low + (drawn[:, -1] + 1) / 2 * (high - low)
    return Lesson(drawn[:, :-1], labels, found.transform(trial.task.table(trial.tested)))


def unseen(dimension: int) -> Teacher:
    """Rows of a round Gaussian that never saw the data; test rows as a projection of our release brings them."""

    def teacher(trial: Trial) -> Lesson:
        lesson = ours(replace(trial, epsilon=NO_NOISE), dimension=dimension)
        return Lesson(trial.rng.standard_normal((MOST_LEARNT, dimension)), None, lesson.tests)

    return teacher


def guess(trial: Trial) -> tuple[Scores, None]:
    """What is reached without any rows."""
    return nothing_learnt(trial.task, trial.private, trial.tested), None


def compared(task: Task, often: tuple[int, int], paper: Mapping[str, float]) -> list[Line]:
    """The lines of the paper but its own method, and what is reached by learning nothing."""
    four = {
        "Li et al.": rivals.li,
        "Jiang et al.": rivals.jiang,
        "Blum et al.": rivals.blum,
        "Liu (MODIPS)": rivals.modips,
    }
    lines = [Line(REAL, learnt(rivals.real), often, None, paper.get(REAL))]
    for epsilon in EPSILONS:
        told = paper if epsilon == 1 else {}
        lines += [Line(name, learnt(teacher), often, epsilon, told.get(name)) for name, teacher in four.items()]
    if task.kind != "clusters":
        called = "the commonest class" if task.kind == "classes" else "the mean label"
        lines.append(Line(f"nothing learnt: {called}", guess, often, None))
    return lines


def private(often: tuple[int, int]) -> list[Line]:
    """Ours as it comes: both kinds of noise, two epsilons, and hardly any noise."""
    laplace = learnt(partial(ours, noise="laplace"))
    lines = [Line("ours, Laplace noise", laplace, often, epsilon) for epsilon in EPSILONS]
    lines += [Line(OURS, learnt(ours), often, epsilon) for epsilon in EPSILONS]
    return [*lines, Line(CLEAN, learnt(ours), (max(3, often[0] // 3), often[1]), NO_NOISE)]


def published(dimensions: Iterable[int], often: tuple[int, int]) -> list[Line]:
    """RON-Gauss as published, in several dimensions."""
    return [Line(f"{PUBLISHED}, {p} columns", learnt(rivals.published(p)), often) for p in dimensions]


def variants(task: Task, often: tuple[int, int]) -> list[Line]:
    """Ours with a part of it left out or changed, Gaussian noise, epsilon 1."""
    given: dict[str, dict[str, Any]] = {
        "without shrinking": {"shrink": "none"},
        "shrunk linearly": {"shrink": "linear"},
        "the paper's split": {"split": "paper"},
        "two passes, normalised once": {"normalise": "once", "centring": "private"},
        "an eighth of the columns": {"dimension": 1 / 8},
        "half of the columns": {"dimension": 1 / 2},
    }
    if task.kind == "classes":
        given["one pass"] = {"centring": "public"}
    else:
        given["two passes"] = {"centring": "private"}
    lines = [Line(f"ours, {name}", learnt(partial(ours, **changed)), often) for name, changed in given.items()]
    if task.kind == "values":
        lines.append(Line("ours, labels beyond their bounds", learnt(unbounded), often))
    return lines


def peers(task: Task, often: tuple[int, int]) -> list[Line]:
    """Diffprivlib's own learner, where there is an environment for it."""
    model = {"clusters": "k-means", "classes": "naive Bayes", "values": "linear regression"}[task.kind]

    def run(trial: Trial) -> tuple[Scores, int]:
        return rivals.diffprivlib_scores(trial), trial.task.columns.shape[1]

    name = f"diffprivlib's {model}, a model without rows"
    return [Line(name, run, often, epsilon) for epsilon in EPSILONS] if rivals.BENCH.exists() else []


def pairs(often: tuple[int, int]) -> list[Line]:
    """SmartNoise's rows, where there is an environment for it: it looks at all pairs of columns, for minutes."""
    return [Line("SmartNoise's MST", learnt(rivals.smartnoise), often)] if rivals.PEERS.exists() else []


def gap(measure_name: str, real: float, other: float) -> float:
    """How much worse than real rows: of a share in points, of an error or cost relative to it."""
    return other / real - 1 if measure_name in FALLS else real - other


def finite(found: Iterable[Found], place: int) -> list[Found]:
    """Those that have a score in this place."""
    return [f for f in found if math.isfinite(f.mean(place))]
