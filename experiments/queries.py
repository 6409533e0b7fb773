"""Counting questions about histograms: error against the number of questions, for each way to answer them.

From adult.parquet and msnbc_counts.parquet (UCI); without them, rows of the same shape are drawn.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from figure import figure
from page import Experiment, Measured, Part, Picture, Setting, Table
from sfumato.answering.counting import Counting, histogram_counts
from sfumato.answering.median import Median
from sfumato.answering.multiplicative_weights import Weights
from sfumato.answering.mwem import MWEM, suggested_rounds
from sfumato.answering.workload import questions
from sfumato.engines.local import LocalRows
from sfumato.errors import ExhaustedError
from sfumato.files.open_table import open_table
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema

Floats: TypeAlias = NDArray[np.float64]
Queries: TypeAlias = NDArray[np.bool_]
Answer: TypeAlias = Callable[["Asked", Queries, Secret], Floats]
Curves: TypeAlias = dict[str, list[Measured | None]]  # mean error for each number of questions, None after a failure

EPSILONS = (0.1, 1.0)
MANY = (10, 100, 1000)
WIDE = (10, 100, 300)  # of the domain with many cells, where MWEM holds eight bytes for each cell and question
PAGES, SOME, VISITORS = 17, 10, 10_000
STATES = ("Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent", "Never-married")
STATES += ("Separated", "Widowed")
RACES = ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other")


@dataclass(frozen=True)
class Data:
    """Rows as a histogram over a domain."""

    name: str
    domain: Domain
    counts: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """How many there are; public here."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class Case:
    """What is measured: numbers of questions, and over how many lists of them errors are averaged."""

    data: Data
    methods: "dict[str, Answer]"
    many: tuple[int, ...]
    lists: int = 4


@dataclass(frozen=True)
class Asked:
    """Data, and the epsilon that all questions together may cost."""

    data: Data
    epsilon: float

    @property
    def guarantee(self) -> Guarantee:
        """One record replaced by another; pure."""
        return Guarantee(epsilon=self.epsilon)


def adult(folder: Path | None, columns: list[str] | None, rng: np.random.Generator) -> Data:
    """People of the census of 1994: age in five bins, schooling in four, marital status, race, sex, income."""
    schema = Schema(
        (
            Real("age", 15, 95),
            Real("education_num", 0, 16),
            Category("marital_status", STATES, STATES[4]),
            Category("race", RACES, RACES[4]),
            Category("sex", ("Male", "Female"), "Male"),
            Flag("income_gt50k"),
        )
    )
    path = None if folder is None else folder / "adult.parquet"
    known = path is not None and path.exists()
    table = pq.read_table(path) if known else _people(rng)
    cuts = {"age": [25.0, 35.0, 45.0, 60.0], "education_num": [8.5, 9.5, 12.5]}
    some = {name: value for name, value in cuts.items() if columns is None or name in columns}
    domain = Domain.of(schema, columns, some)
    name = f"{'Adult' if known else 'generated people'}, {domain.size:,} cells"
    return Data(name, domain, domain.histogram(LocalRows(Blocks.of(open_table(table), schema))))


def _people(rng: np.random.Generator, rows: int = 48_842) -> pa.Table:
    """Generated rows with columns that depend on each other."""
    age = rng.normal(38, 13, rows).clip(17, 90)
    school = rng.normal(10, 2.5, rows).clip(1, 16)
    return pa.table(
        {
            "age": age,
            "education_num": school,
            "marital_status": rng.choice(STATES, rows, p=[0.14, 0.01, 0.45, 0.01, 0.33, 0.03, 0.03]),
            "race": rng.choice(RACES, rows, p=[0.85, 0.1, 0.03, 0.01, 0.01]),
            "sex": rng.choice(["Male", "Female"], rows, p=[0.67, 0.33]),
            "income_gt50k": (rng.random(rows) < 1 / (1 + np.exp(-(age - 50) / 10 - (school - 12) / 2))).astype(int),
        }
    )


def msnbc(folder: Path | None, rng: np.random.Generator, pages: int = SOME) -> Data:
    """Some visitors of msnbc.com on one day, by which of the first kinds of pages they saw; the same for any number."""
    schema = Schema([Flag(f"page{i}") for i in range(pages)])
    path = None if folder is None else folder / "msnbc_counts.parquet"
    known = path is not None and path.exists()
    if known:
        seen = np.column_stack([c.to_numpy() for c in pq.read_table(path).columns[:pages]]) > 0
        seen = seen[rng.choice(len(seen), VISITORS, replace=False)]
    else:
        seen = (rng.random((VISITORS, PAGES)) < np.minimum(0.4, 0.5 / np.arange(1, PAGES + 1)))[:, :pages]
    domain = Domain.of(schema)
    counts = np.bincount(domain.cells(seen.T.astype(float)), minlength=domain.size)
    return Data(f"{'MSNBC' if known else 'generated visitors'}, {domain.size:,} cells", domain, counts)


def asked(domain: Domain, count: int, rng: np.random.Generator) -> Queries:
    """Random questions: for three columns, half of the levels of each, all at once; of few cells, any of them."""
    if domain.size <= 8:
        return np.asarray(rng.random((count, domain.size)) < 0.5)
    names = [axis.name for axis in domain.columns]
    codes = {name: domain.codes(name) for name in names}
    found = np.ones((count, domain.size), bool)
    for i in range(count):
        for name in rng.choice(names, 3, replace=False):
            size = domain.axis(name).size
            levels = rng.choice(size, max(1, size // 2), replace=False)
            found[i] &= np.isin(codes[name], levels)
    return found


def totals(values: NDArray[np.generic], queries: Queries) -> Floats:
    """What the cells of each question add up to; a product would first make numbers of all truths."""
    return np.array([values[query].sum() for query in queries], float)


# ---- ways to answer -------------------------------------------------------------------------------------------------


def one_by_one(setting: Asked, queries: Queries, secret: Secret) -> Floats:
    """Laplace noise for each question, at its share of epsilon."""
    recipe = Counting(questions=len(queries)).prepare(setting.guarantee)
    exact = histogram_counts(setting.data.counts, queries)
    level = calibrate(recipe, setting.guarantee).level
    return np.array([a.value for a in recipe.answer(exact, level, secret)], float)


def every_cell(setting: Asked, queries: Queries, secret: Secret) -> Floats:
    """Laplace noise on every cell, once; answers are sums of noisy cells."""
    size = setting.data.domain.size
    recipe = Counting(questions=size, move=2).prepare(setting.guarantee)
    level = calibrate(recipe, setting.guarantee).level
    cells = np.array([a.value for a in recipe.answer(setting.data.counts, level, secret)], float)
    return totals(cells, queries)


def weighed(setting: Asked, queries: Queries, secret: Secret) -> Floats:
    """Private multiplicative weights; when updates are used up, what they know answers on."""
    recipe = Weights.suggested(setting.data.rows, setting.epsilon)
    prepared = recipe.prepare(setting.data.domain, setting.guarantee)
    live = prepared.begin(setting.data.counts, calibrate(prepared, setting.guarantee).level, secret)
    return np.array([_answer(live, query) for query in queries])


def _answer(live: object, query: NDArray[np.bool_]) -> float:
    try:
        return float(live.ask(query).value)  # type: ignore[attr-defined]
    except ExhaustedError:
        return float(live.histogram.answer(query)) if hasattr(live, "histogram") else math.nan


def synthesised(setting: Asked, queries: Queries, secret: Secret) -> Floats:
    """MWEM for the questions as a list."""
    rounds = min(len(queries), suggested_rounds(setting.data.rows, setting.epsilon))
    recipe = MWEM(workload=questions(queries, setting.data.domain), rounds=rounds)
    prepared = recipe.prepare(setting.data.domain, setting.guarantee)
    made = prepared.make(setting.data.counts, calibrate(prepared, setting.guarantee).level, secret)
    return totals(made.histogram.weights, queries)


def agreed(setting: Asked, queries: Queries, secret: Secret) -> Floats:
    """The median mechanism; NaN after a failure."""
    recipe = Median(size=60, accuracy=min(1.0, 21 / math.sqrt(setting.data.rows * setting.epsilon)), hard=10)
    prepared = recipe.prepare(setting.data.domain, setting.guarantee)
    live = prepared.begin(setting.data.counts, calibrate(prepared, setting.guarantee).level, secret)
    return np.array([_answer(live, query) for query in queries])


def unseen(setting: Asked, queries: Queries, _: Secret) -> Floats:
    """Without a look at the data: as if every cell held equally many rows, which is where both weights start."""
    return np.asarray(setting.data.rows * queries.mean(axis=1))


LARGE: dict[str, Answer] = {
    "Laplace, question by question": one_by_one,
    "Laplace on every cell": every_cell,
    "multiplicative weights (online)": weighed,
    "MWEM (list known)": synthesised,
}
TINY: dict[str, Answer] = {**LARGE, "median mechanism (online)": agreed}
UNSEEN = "equal cells (data unseen)"
EMPTY: dict[str, Answer] = {**LARGE, UNSEEN: unseen}
COLOURS = {**{label: f"C{i}" for i, label in enumerate(TINY)}, UNSEEN: "C7"}


def curves(case: Case, epsilon: float, setting: Setting) -> Curves:
    """The mean absolute error as a share of the rows, for each number of questions, over several lists of them."""
    found: Curves = {}
    secrets = setting.secrets(f"{case.data.name} {epsilon}")
    for count in case.many:
        rng = setting.rng(f"{case.data.name} {count}")
        errors: dict[str, list[float]] = {}
        for _ in range(case.lists):
            queries = asked(case.data.domain, count, rng)
            exact = totals(case.data.counts, queries)
            for label, answer in case.methods.items():
                wrong = np.mean(np.abs(answer(Asked(case.data, epsilon), queries, next(secrets)) - exact))
                errors.setdefault(label, []).append(float(wrong) / case.data.rows)
        for label, each in errors.items():
            found.setdefault(label, []).append(None if math.isnan(sum(each)) else Measured.of(each))
    return found


def table(case: Case, epsilon: float, found: Curves) -> Table:
    """Mean errors in percent of the rows."""
    header = [f"{count:,} questions" for count in case.many]
    rows = [[label, *(_percent(e) for e in errors)] for label, errors in found.items()]
    return Table(f"{case.data.name}, epsilon {epsilon:g}", ("", *header), rows, dict.fromkeys(header, ".2g"))


def _percent(error: Measured | None) -> Measured | str:
    return "failed" if error is None else Measured(100 * error.value, 100 * error.error, error.repetitions)


def draw(path: Path, results: list[tuple[Case, float, Curves]]) -> None:
    """One picture: error against the number of questions."""
    title = "Counting questions at one price for all of them: one record protected, pure epsilon"
    with figure(path, title, (11, 12)) as picture:
        grid = picture.subplots(len(results) // len(EPSILONS), len(EPSILONS), squeeze=False, sharex=True)
        shown = {}
        for axes, (case, epsilon, found) in zip(grid.ravel(), results, strict=True):
            for label, errors in found.items():
                style = {"color": COLOURS[label], "linestyle": ":" if label == UNSEEN else "-"}
                heights = [math.nan if e is None else e.value for e in errors]
                (shown[label],) = axes.plot(case.many, heights, marker="o", markersize=3, **style)
            axes.set(xscale="log", yscale="log", xlabel="questions", ylabel="mean error / rows")
            axes.tick_params(labelbottom=True)
            axes.set_title(f"{case.data.name}, {case.data.rows:,} rows, epsilon {epsilon:g}", fontsize=9)
        picture.legend(shown.values(), shown, loc="outside lower center", ncols=3, fontsize=8, frameon=False)


def cases(folder: Path | None, quick: bool) -> Iterator[Case]:
    """Few cells for the rows, many, and four; the many are asked less where it is quick or the rows are generated."""
    many, wide = MANY[:2] if quick else MANY, WIDE[:1] if quick else WIDE[:2] if folder is None else WIDE
    yield Case(adult(folder, None, np.random.default_rng(4)), LARGE, many)
    yield Case(msnbc(folder, np.random.default_rng(4)), LARGE, many)
    yield Case(msnbc(folder, np.random.default_rng(4), PAGES), EMPTY, wide, lists=3)
    yield Case(adult(folder, ["sex", "income_gt50k"], np.random.default_rng(4)), TINY, many)


INTRODUCTION = """\
The survey (VIII-C) says that the median mechanism answers exponentially more questions than Laplace noise on each. Here
random counting questions (half of the levels of each of three columns at once; of four cells, any of them), all of them
together at epsilon, pure, for one record replaced by another. Online methods meet the questions one by one; MWEM is
given the list. When multiplicative weights have used up their updates, their histogram answers on; the median mechanism
fails. Four lists of questions each, with a run of every method on each, three by 17 kinds of pages.

Updates, thresholds and rounds go by rows times epsilon, in ratios found by a coarse scan on Adult and MSNBC themselves,
and the median mechanism's accuracy by a few trials: what has settings is shown somewhat better than an owner would fare
who cannot look. Laplace noise has none. MSNBC is a sample of 10,000 visitors, taken because with all 989,818 of them
noise on every cell is far ahead of everything else.

MSNBC comes twice, with the same visitors and the same kind of questions (three columns drawn, and for each whether it
was visited or not): by the first ten kinds of pages, and by all 17, where cells far outnumber visitors. Nothing was
tuned for 17: the settings are those for ten, which go by rows and epsilon alone. For comparison, answers as if all
cells were equal: they need no data, and the weights start from them."""

CONCLUSION = """\
Laplace noise question by question grows with their number; of ten questions it is the best everywhere but on four
cells. The others do not grow, and overtake it after tens or hundreds of questions: the promise of the median mechanism
and of multiplicative weights. But noise on every cell does not grow with the questions either, and where rows times
epsilon outnumber the cells it is the best of all after tens of questions. The median mechanism has to list its
candidates, so it goes only where noise on every cell is better.

Noise on every cell grows with the root of their number instead. MWEM comes up to it where cells are as many as rows
times epsilon (MSNBC by ten kinds of pages, epsilon 0.1). By 17 kinds cells are 128 times as many, and noise on every
cell errs about eleven times as much: at epsilon 0.1 more than answers that need no data. This is what multiplicative
weights and MWEM are for: of many questions they err a fraction of the better Laplace noise. Of ten they are behind.
Multiplicative weights pay for meeting the questions one by one."""


def run(setting: Setting) -> Iterator[Part]:
    """Error against the number of questions."""
    yield INTRODUCTION
    results = []
    for case in cases(setting.data, setting.quick):
        for epsilon in EPSILONS:
            found = curves(case, epsilon, setting)
            results.append((case, epsilon, found))
            yield f"{case.data.name}, {case.data.rows:,} rows, epsilon {epsilon:g}; mean error in percent of the rows:"
            yield table(case, epsilon, found)
    draw(setting.picture("questions.svg"), results)
    yield Picture("questions.svg", "Mean error against the number of questions")
    yield CONCLUSION


EXPERIMENT = Experiment(
    "blocki-questions",
    "Questions about histograms: the median mechanism and multiplicative weights",
    run,
    ("adult.parquet", "msnbc_counts.parquet"),
    "generated people and visitors",
)
