"""What is learnt from synthetic rows, and how it is judged: data sets, their public bounds, learners and scores.

All but sizes was decided before any score was seen. Bounds come from what is known about the columns (sizes of
pictures, ranges of sensors, geography), never from the data; columns are brought to [-1, 1] or [0, 1] by them, and
what lies outside is clipped by whoever needs bounds. Learning from real rows needs none and gets them as they are.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import silhouette_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sfumato.columns import Category, Real
from sfumato.schema import Schema

Floats = NDArray[np.float64]
Labels = NDArray[Any]
Scores = tuple[float, ...]
Kind = Literal["clusters", "classes", "values"]

LABEL = "label"
CLUSTERS = 4  # as the paper found for GFE
MOST_LEARNT = 10_000  # noisy or synthetic rows that a learner is given
MOST_REAL = 50_000  # real rows that a learner is given
MOST_TESTED = 10_000
MOST_GROUPED = 4_000  # rows that groups are sought among, and whose cost is measured
_GRAVITY = 9.81
MEASURES: dict[Kind, tuple[str, ...]] = {
    "clusters": ("cost", "partition", "silhouette"),
    "classes": ("logistic", "quadratic"),
    "values": ("rmse",),
}
KINDS: dict[str, Kind] = {
    "GFE": "clusters",
    "dsa_sports": "classes",
    "blogfeedback": "values",
    "MNIST": "classes",
    "Covertype": "classes",
    "unlabelled digits": "clusters",
    "digits": "classes",
    "wine": "classes",
    "diabetes": "values",
}


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Columns in units of their public bounds, and what is to be learnt from them: groups, a class or a number."""

    name: str
    kind: Kind
    columns: Floats
    labels: Labels | None
    schema: Schema
    tested: int

    def split(self, repetition: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the rows that are private and of those that test; groups are sought in all rows."""
        order = np.random.default_rng(repetition).permutation(len(self.columns))
        return (
            (order, order[: self.tested]) if self.kind == "clusters" else (order[self.tested :], order[: self.tested])
        )

    def clipped(self, places: NDArray[np.int64]) -> Floats:
        """Rows within the bounds."""
        low, high = self.bounds
        return np.clip(self.columns[places], low, high)

    def table(self, places: NDArray[np.int64]) -> pa.Table:
        """Rows as the schema names them."""
        some = np.asfortranarray(self.columns[places])
        named = {f"x{i}": some[:, i] for i in range(some.shape[1])}
        return pa.table(named if self.labels is None else named | {LABEL: self.labels[places]})

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Of the columns beside the label."""
        reals = [c for c in self.schema.data_columns if isinstance(c, Real) and c.name != LABEL]
        return np.array([c.low for c in reals]), np.array([c.high for c in reals])

    @property
    def label_bounds(self) -> tuple[float, float]:
        """Of a numeric label."""
        (column,) = (c for c in self.schema.data_columns if isinstance(c, Real) and c.name == LABEL)
        return column.low, column.high

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes, if there are any."""
        return next((c.values for c in self.schema.data_columns if isinstance(c, Category)), ())


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Columns in units of public bounds, (columns, 2): from -1 to 1 about the middle, or, where ``plain``, 0 to 1."""

    columns: Floats
    plain: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: Floats, bounds: Any, *, plain: Any = False) -> "Measured":
        """``plain``: whether 0 stands for nothing, so that it should stay 0; for all columns, or for each."""
        low, high = np.array(bounds, float).T
        zero = np.broadcast_to(np.asarray(plain), low.shape)
        middle, half = np.where(zero, 0.0, (low + high) / 2), np.where(zero, high, (high - low) / 2)
        return cls((columns - middle) / half, zero)

    def task(self, name: str, labels: Labels | None = None, label: Real | None = None) -> Task:
        """With the column to predict: ``label`` says what a number may be, classes are those that occur."""
        kind = KINDS[name]
        schema: list[Any] = [Real(f"x{i}", 0.0 if zero else -1.0, 1.0) for i, zero in enumerate(self.plain)]
        if labels is not None:
            schema.append(label or Category(LABEL, tuple(np.unique(labels).tolist())))
        rows = len(self.columns)
        tested = min(MOST_GROUPED, rows) if kind == "clusters" else min(MOST_TESTED, rows // 4)
        return Task(name, kind, self.columns, labels, Schema(schema), tested)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    table = pq.read_table(path)
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _matrix(found: dict[str, NDArray[Any]], names: list[str]) -> Floats:
    return np.column_stack([found[name].astype(np.float64) for name in names])


def gfe(folder: Path) -> Task:
    """Kinect face points: a picture of 640 x 480, and a person who sits within 2 m."""
    found = _read(folder / "gfe.parquet")
    points = _matrix(found, [f"{i}{axis}" for i in range(100) for axis in "xyz"])
    return Measured.of(points, [(0, 640), (0, 480), (0, 2000)] * 100).task("GFE")


def sports(folder: Path) -> Task:
    """Inertial units on a body: twice gravity, one turn per second, the earth's magnetic field (in units of it)."""
    found = _read(folder / "dsa_sports.parquet")
    names = [name for name in found if name not in ("activity", "subject", "segment")]
    most = {"acc": 2 * _GRAVITY, "gyro": 2 * math.pi, "mag": 1.0}
    reach = [next(v for k, v in most.items() if name.endswith(k)) for name in names]
    units = Measured.of(_matrix(found, names), [(-r, r) for r in reach])
    return units.task("dsa_sports", found["activity"])


def blog(folder: Path) -> Task:
    """Posts: counts up to 1,000 and lengths up to 100,000 on a log scale; log(1 + comments), 100 comments at most."""
    found = _read(folder / "blogfeedback.parquet")
    columns = _matrix(found, [f"f{i}" for i in range(1, 281)])
    counts = np.array([i < 62 or i >= 276 for i in range(280)])  # the others are words and weekdays, 0 or 1
    columns[:, counts] = np.sign(columns[:, counts]) * np.log1p(np.abs(columns[:, counts]))
    most = np.where(counts, math.log1p(1000), 1.0)
    most[61] = math.log1p(1e5)
    target = np.log1p(np.clip(found["target"].astype(float), 0, 100))
    units = Measured.of(columns, np.stack([np.where(counts, -most, 0), most], 1), plain=~counts)
    return units.task("blogfeedback", target, Real(LABEL, 0.0, math.log1p(100)))


def mnist(folder: Path) -> Task:
    """Pixels from 0 to 255."""
    found = _read(folder / "mnist.parquet")
    pixels = _matrix(found, [f"p{i}" for i in range(784)])
    return Measured.of(pixels, [(0, 255)] * 784, plain=True).task("MNIST", found["label"])


def covertype(folder: Path) -> Task:
    """Every eighth cell of a forest: heights of Colorado, angles, distances within a forest, shades, indicators."""
    found = {name: column[::8] for name, column in _read(folder / "covertype.parquet").items()}
    numbers = [(1000, 4400), (0, 360), (0, 60), (0, 2000), (-600, 600), (0, 8000), *[(0, 255)] * 3, (0, 8000)]
    columns = _matrix(found, [name for name in found if name != "Cover_Type"])
    units = Measured.of(columns, [*numbers, *[(0, 1)] * 44], plain=np.arange(54) >= 10)
    return units.task("Covertype", found["Cover_Type"])


def digits() -> Task:
    """Scikit-learn's digits: pixels from 0 to 16."""
    pixels, labels = load_digits(return_X_y=True)
    return Measured.of(pixels, [(0, 16)] * 64, plain=True).task("digits", labels)


def digit_groups() -> Task:
    """The same, without their labels."""
    return Measured.of(load_digits().data, [(0, 16)] * 64, plain=True).task("unlabelled digits")


def wine() -> Task:
    """Chemistry of wines: bounds from tables of what wine may hold."""
    measured, labels = load_wine(return_X_y=True)
    most = [16, 6, 4, 40, 200, 5, 6, 1, 5, 15, 2, 5, 2000]
    return Measured.of(measured, [(0, m) for m in most]).task("wine", labels)


def diabetes() -> Task:
    """Columns that their publishers standardised, to a length of 1: four deviations; a score from 25 to 346."""
    measured, score = load_diabetes(return_X_y=True)
    reach = 4 / math.sqrt(len(measured))
    return Measured.of(measured, [(-reach, reach)] * 10).task("diabetes", score, Real(LABEL, 25.0, 346.0))


def tasks(folder: Path | None) -> dict[str, Callable[[], Task]]:
    """The data sets of a folder, or those that come with scikit-learn, by name; its digits in both cases."""
    if folder is None:
        return {"unlabelled digits": digit_groups, "digits": digits, "wine": wine, "diabetes": diabetes}
    stored = {"GFE": gfe, "dsa_sports": sports, "blogfeedback": blog, "MNIST": mnist, "Covertype": covertype}
    return {name: functools.partial(read, folder) for name, read in stored.items()} | {"digits": digits}


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Rows to learn from with their labels, and real test rows in the same space."""

    rows: Floats
    labels: Labels | None
    tests: Floats


def judged(task: Task, lesson: Lesson, tested: NDArray[np.int64]) -> Scores:
    """The measures of a task, for what a learner makes of a lesson."""
    if task.kind == "clusters":
        return group_scores(task, tested, centres(lesson.rows), lesson.tests, lesson.rows)
    assert lesson.labels is not None
    assert task.labels is not None
    rows, labels, truth = lesson.rows, lesson.labels, task.labels[tested]
    if task.kind == "values":
        learnt = make_pipeline(StandardScaler(), Ridge(alpha=1.0)).fit(rows, labels)
        return (math.sqrt(np.mean((learnt.predict(lesson.tests) - truth) ** 2)),)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100))
    quadratic = make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis(reg_param=0.01))
    return tuple(_accuracy(learner, rows, labels, lesson.tests, truth) for learner in (linear, quadratic))


def _accuracy(learner: Any, rows: Floats, labels: Labels, tests: Floats, truth: Labels) -> float:
    """Of a classifier; classes of a single row are left out, since no covariance can be had of them."""
    values, counts = np.unique(labels, return_counts=True)
    many = np.isin(labels, values[counts > 1])
    if len(np.unique(labels[many])) < 2:
        return float(np.mean(truth == labels[0]))
    return float(learner.fit(rows[many], labels[many]).score(tests, truth))


def centres(rows: Floats) -> Floats:
    """K-means, the better of two starts."""
    learnt = KMeans(CLUSTERS, n_init=2, max_iter=100, random_state=0).fit(rows[:MOST_GROUPED])
    return np.asarray(learnt.cluster_centers_)


@functools.cache
def real_centres(task: Task) -> Floats:
    """Centres learnt on real rows, in the original columns."""
    return centres(task.columns[task.split(0)[0]])


def cost(rows: Floats, middles: Floats) -> float:
    """Mean squared distance from the nearest centre."""
    return float(_squares(rows, middles).min(axis=1).mean())


def _squares(rows: Floats, middles: Floats) -> Floats:
    cross = rows @ middles.T
    return np.maximum(np.square(rows).sum(axis=1)[:, None] - 2 * cross + np.square(middles).sum(axis=1), 0.0)


def group_scores(task: Task, tested: NDArray[np.int64], middles: Floats, tests: Floats, rows: Floats | None) -> Scores:
    """Cost of centres on real rows, of the groups they make in the original columns, and the paper's silhouette.

    Costs are relative to what centres learnt on the real rows have, in the same space. The silhouette is that of the
    rows learnt from, as in the paper, which has no other.
    """
    original, nearest = task.columns[tested], _squares(tests, middles).argmin(axis=1)
    return (
        cost(tests, middles) / max(cost(tests, centres(tests)), 1e-300),
        partition_cost(original, nearest) / cost(original, real_centres(task)),
        math.nan if rows is None else silhouette(rows[:1500], middles),
    )


def partition_cost(rows: Floats, group: NDArray[np.int64]) -> float:
    """Mean squared distance from the mean of one's group."""
    total = sum(float(np.square(rows[group == g] - rows[group == g].mean(axis=0)).sum()) for g in np.unique(group))
    return total / len(rows)


def silhouette(rows: Floats, middles: Floats) -> float:
    """Of the groups that centres make; 0 where they make only one."""
    group = _squares(rows, middles).argmin(axis=1)
    return float(silhouette_score(rows, group)) if len(np.unique(group)) > 1 else 0.0
