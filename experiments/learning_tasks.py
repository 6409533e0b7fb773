"""What is learnt from synthetic rows, and how it is judged: data sets, their public bounds, learners and scores.

All but sizes was decided before any score was seen; the paper's own learners (SVM, kernel ridge regression) and the
cut of predictions at the label's public bounds came later, for every line alike. Bounds come from what is known about
the columns (sizes of pictures, ranges of sensors, geography), never from the data; columns are brought to [-1, 1] or
[0, 1] by them, and what lies outside is clipped by whoever needs bounds. Learning from real rows needs none and gets
them as they are.
"""

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import silhouette_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema

Floats = NDArray[np.float64]
Labels = NDArray[Any]
Scores = tuple[float, ...]
Places = NDArray[np.int64]
Kind = Literal["clusters", "classes", "values"]

LABEL = "label"
CLUSTERS = 4  # as the paper found for GFE
MOST_LEARNT = 10_000  # noisy or synthetic rows that a learner is given
MOST_REAL = 50_000  # real rows that a learner is given
MOST_TESTED = 10_000
MOST_GROUPED = 4_000  # rows that groups are sought among, and whose cost is measured
MOST_KERNEL = 3_000  # rows of any kind that a learner with a kernel is given
_GRAVITY = 9.81
_MOVING = (5, 6, 9, 10, 11, 12, 15, 16, 19)  # stairs, walking, running, cycling, basketball
KINDS: dict[str, Kind] = {
    "GFE": "clusters",
    "dsa_sports, moving or not": "classes",
    "dsa_sports": "classes",
    "blogfeedback": "values",
    "MNIST": "classes",
    "Covertype": "classes",
    "unlabelled digits": "clusters",
    "odd digits": "classes",
    "digits": "classes",
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

    @property
    def measures(self) -> tuple[str, ...]:
        """What is measured; the paper's own measure comes first."""
        if self.kind == "classes":
            return ("svm", "logistic", "quadratic") if len(self.classes) == 2 else ("logistic", "quadratic")
        return ("silhouette", "cost", "partition") if self.kind == "clusters" else ("kernel", "ridge")

    def split(self, rng: np.random.Generator) -> tuple[Places, Places]:
        """Places of the rows that are private and of those that test; groups are sought in all rows."""
        order = rng.permutation(len(self.columns))
        return (
            (order, order[: self.tested]) if self.kind == "clusters" else (order[self.tested :], order[: self.tested])
        )

    def clipped(self, places: Places) -> Floats:
        """Rows within the bounds."""
        low, high = self.bounds
        return np.clip(self.columns[places], low, high)

    def table(self, places: Places) -> pa.Table:
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
class Scaled:
    """Columns in units of public bounds, (columns, 2): from -1 to 1 about the middle, or, where ``plain``, 0 to 1."""

    columns: Floats
    plain: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: Floats, bounds: Any, *, plain: Any = False) -> "Scaled":
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
        return Task(name, kind, self.columns, labels, Schema(schema, scale="raw"), tested)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    table = pq.read_table(path)
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _matrix(found: dict[str, NDArray[Any]], names: list[str]) -> Floats:
    return np.column_stack([found[name].astype(np.float64) for name in names])


def gfe(folder: Path) -> Task:
    """Kinect face points: a picture of 640 x 480, and a person who sits within 2 m."""
    found = _read(folder / "gfe.parquet")
    points = _matrix(found, [f"{i}{axis}" for i in range(100) for axis in "xyz"])
    return Scaled.of(points, [(0, 640), (0, 480), (0, 2000)] * 100).task("GFE")


def sports(folder: Path, *, moving: bool = False) -> Task:
    """Inertial units on a body: twice gravity, one turn per second, the earth's magnetic field (in units of it).

    Which of 19 activities, or, as in the paper, whether it is one that takes people somewhere.
    """
    found = _read(folder / "dsa_sports.parquet")
    names = [name for name in found if name not in ("activity", "subject", "segment")]
    most = {"acc": 2 * _GRAVITY, "gyro": 2 * math.pi, "mag": 1.0}
    reach = [next(v for k, v in most.items() if name.endswith(k)) for name in names]
    units = Scaled.of(_matrix(found, names), [(-r, r) for r in reach])
    if moving:
        return units.task("dsa_sports, moving or not", np.isin(found["activity"], _MOVING).astype(int))
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
    units = Scaled.of(columns, np.stack([np.where(counts, -most, 0), most], 1), plain=~counts)
    return units.task("blogfeedback", target, Real(LABEL, 0.0, math.log1p(100)))


def mnist(folder: Path) -> Task:
    """Pixels from 0 to 255."""
    found = _read(folder / "mnist.parquet")
    pixels = _matrix(found, [f"p{i}" for i in range(784)])
    return Scaled.of(pixels, [(0, 255)] * 784, plain=True).task("MNIST", found["label"])


def covertype(folder: Path) -> Task:
    """Every eighth cell of a forest: heights of Colorado, angles, distances within a forest, shades, indicators."""
    found = {name: column[::8] for name, column in _read(folder / "covertype.parquet").items()}
    numbers = [(1000, 4400), (0, 360), (0, 60), (0, 2000), (-600, 600), (0, 8000), *[(0, 255)] * 3, (0, 8000)]
    columns = _matrix(found, [name for name in found if name != "Cover_Type"])
    units = Scaled.of(columns, [*numbers, *[(0, 1)] * 44], plain=np.arange(54) >= 10)
    return units.task("Covertype", found["Cover_Type"])


def digits(*, odd: bool = False) -> Task:
    """Scikit-learn's digits: pixels from 0 to 16; which digit, or whether it is odd."""
    pixels, labels = load_digits(return_X_y=True)
    units = Scaled.of(pixels, [(0, 16)] * 64, plain=True)
    return units.task("odd digits", labels % 2) if odd else units.task("digits", labels)


def digit_groups() -> Task:
    """The same, without their labels."""
    return Scaled.of(load_digits().data, [(0, 16)] * 64, plain=True).task("unlabelled digits")


def diabetes() -> Task:
    """Columns that their publishers standardised, to a length of 1: four deviations; a score from 25 to 346."""
    measured, score = load_diabetes(return_X_y=True)
    reach = 4 / math.sqrt(len(measured))
    return Scaled.of(measured, [(-reach, reach)] * 10).task("diabetes", score, Real(LABEL, 25.0, 346.0))


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One measurement: which rows are private and which test, epsilon, and where everything random comes from."""

    task: Task
    private: Places
    tested: Places
    epsilon: float
    rng: np.random.Generator

    def secret(self) -> Secret:
        """A new one, which can be had again: for measuring, never private."""
        return Secret.for_testing(self.seed())

    def seed(self) -> int:
        """Of a projection, which is public."""
        return int(self.rng.integers(2**62))


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Rows to learn from with their labels, and real test rows in the same space."""

    rows: Floats
    labels: Labels | None
    tests: Floats


def judged(task: Task, lesson: Lesson, tested: Places) -> Scores:
    """The measures of a task, for what learners make of a lesson."""
    if task.kind == "clusters":
        return group_scores(task, tested, centres(lesson.rows), lesson.tests, lesson.rows)
    assert lesson.labels is not None
    assert task.labels is not None
    able = [learner(name, lesson.rows.shape[1]) for name in task.measures]
    truth = task.labels[tested]
    if task.kind == "classes":
        return tuple(accuracy(model, lesson, most, truth) for model, most in able)
    return tuple(_error(model, lesson, most, truth, task.label_bounds) for model, most in able)


class Quadratic(ClassifierMixin, BaseEstimator):
    """A quadratic discriminant whose covariances S are 0.99 S + 0.01 I; it takes classes of two rows or more.

    Scikit-learn's own refuses a class of fewer rows than columns.
    """

    def fit(self, rows: Floats, labels: Labels) -> "Quadratic":
        """A Gaussian for each class."""
        self.classes_ = np.unique(labels)
        self.models_ = []
        for value in self.classes_:
            own = rows[labels == value]
            values, vectors = np.linalg.eigh(np.cov(own.T).reshape(rows.shape[1], -1))
            values = 0.99 * np.maximum(values, 0.0) + 0.01
            constant = math.log(len(own)) - 0.5 * float(np.log(values).sum())
            self.models_.append((own.mean(axis=0), vectors / np.sqrt(values), constant))
        return self

    def predict(self, rows: Floats) -> Labels:
        """The likeliest class."""
        found = [c - 0.5 * np.square((rows - mean) @ root).sum(axis=1) for mean, root, c in self.models_]
        return np.asarray(self.classes_[np.argmax(found, axis=0)])


def learner(name: str, columns: int) -> tuple[Any, int]:
    """A learner, and how many rows it gets."""
    made: dict[str, tuple[Any, int]] = {
        "svm": (SVC(), MOST_KERNEL),
        "logistic": (LogisticRegression(max_iter=100), MOST_REAL),
        "quadratic": (Quadratic(), MOST_REAL),
        "kernel": (KernelRidge(alpha=1.0, kernel="rbf", gamma=1 / columns), MOST_KERNEL),
        "ridge": (Ridge(alpha=1.0), MOST_REAL),
    }
    model, most = made[name]
    return make_pipeline(StandardScaler(), model), most


def _error(model: Any, lesson: Lesson, most: int, truth: Labels, bounds: tuple[float, float]) -> float:
    """Root of the mean squared error, of predictions cut at the label's public bounds."""
    assert lesson.labels is not None
    middle = float(lesson.labels[:most].mean())  # a kernel has no constant of its own
    learnt = model.fit(lesson.rows[:most], lesson.labels[:most] - middle)
    return math.sqrt(np.mean((np.clip(learnt.predict(lesson.tests) + middle, *bounds) - truth) ** 2))


def nothing_learnt(task: Task, private: Places, tested: Places) -> Scores:
    """What the commonest class, or the mean label, reaches."""
    assert task.labels is not None
    own, truth = task.labels[private], task.labels[tested]
    if task.kind == "values":
        return (math.sqrt(np.mean((own.mean() - truth) ** 2)),) * len(task.measures)
    values, counts = np.unique(own, return_counts=True)
    return (float(np.mean(truth == values[counts.argmax()])),) * len(task.measures)


def accuracy(model: Any, lesson: Lesson, most: int, truth: Labels) -> float:
    """Of a classifier; classes of a single row are left out, since no covariance can be had of them."""
    assert lesson.labels is not None
    rows, labels = lesson.rows[:most], lesson.labels[:most]
    values, counts = np.unique(labels, return_counts=True)
    many = np.isin(labels, values[counts > 1])
    if len(np.unique(labels[many])) < 2:
        return float(np.mean(truth == labels[0]))
    return float(model.fit(rows[many], labels[many]).score(lesson.tests, truth))


def centres(rows: Floats) -> Floats:
    """K-means, the better of two starts."""
    learnt = KMeans(CLUSTERS, n_init=2, max_iter=100, random_state=0).fit(rows[:MOST_GROUPED])
    return np.asarray(learnt.cluster_centers_)


@functools.cache
def real_centres(task: Task) -> Floats:
    """Centres learnt on real rows, in the original columns."""
    return centres(task.columns[task.split(np.random.default_rng(0))[0]])


def cost(rows: Floats, middles: Floats) -> float:
    """Mean squared distance from the nearest centre."""
    return float(_squares(rows, middles).min(axis=1).mean())


def _squares(rows: Floats, middles: Floats) -> Floats:
    cross = rows @ middles.T
    return np.maximum(np.square(rows).sum(axis=1)[:, None] - 2 * cross + np.square(middles).sum(axis=1), 0.0)


def group_scores(task: Task, tested: Places, middles: Floats, tests: Floats, rows: Floats | None) -> Scores:
    """The paper's silhouette, cost of centres on real rows, and of the groups they make in the original columns.

    Costs are relative to what centres learnt on the real rows have, in the same space. The silhouette is that of the
    rows learnt from, as in the paper, which has no other.
    """
    original, nearest = task.columns[tested], _squares(tests, middles).argmin(axis=1)
    return (
        math.nan if rows is None else silhouette(rows[:1500], middles),
        cost(tests, middles) / max(cost(tests, centres(tests)), 1e-300),
        partition_cost(original, nearest) / cost(original, real_centres(task)),
    )


def partition_cost(rows: Floats, group: Places) -> float:
    """Mean squared distance from the mean of one's group."""
    total = sum(float(np.square(rows[group == g] - rows[group == g].mean(axis=0)).sum()) for g in np.unique(group))
    return total / len(rows)


def silhouette(rows: Floats, middles: Floats) -> float:
    """Of the groups that centres make; 0 where they make only one."""
    group = _squares(rows, middles).argmin(axis=1)
    return float(silhouette_score(rows, group)) if len(np.unique(group)) > 1 else 0.0
