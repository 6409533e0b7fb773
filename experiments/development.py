"""How synthetic rows are shrunk and how many numbers they have: the choices, on the sets they were made on.

Usage: python experiments/development.py --data FOLDER [--repetitions 10] [--only shrink|learners|centring|dimension]
Sets: scikit-learn's digits, breast cancer, wine and diabetes; buzz, adult and madelon from the folder, if there is one.
A model learns from synthetic rows and is tested on real ones. These scores were looked at: other sets have others.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, Ridge

from learning_tasks import Lesson, accuracy, learner
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.labels import Kind
from sfumato.tables.schema import Schema

_DELTA = 1e-6
_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5000),
    "hours-per-week": (0, 100),
}


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A table, what is publicly known of it, and whether its label is a number or a class."""

    table: pa.Table
    schema: Schema
    kind: Kind

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        """What is to be predicted."""
        return self.table["label"].to_numpy(zero_copy_only=False)


def _reals(rows: Any, bounds: list[tuple[float, float]]) -> tuple[dict[str, Any], list[Real]]:
    """Columns with bounds, each counting alike."""
    columns = [Real(f"x{j}", low, high, weight=1 / (high - low)) for j, (low, high) in enumerate(bounds)]
    return {f"x{j}": column for j, column in enumerate(rows.T)}, columns


def _task(cells: dict[str, Any], columns: list[Any], label: Any, column: Any) -> Task:
    kind: Kind = "values" if isinstance(column, Real) else "classes"
    return Task(pa.table(cells | {"label": label}), Schema([*columns, column], scale="raw"), kind)


def _classes(labels: Any) -> Category:
    return Category("label", sorted(set(labels.tolist())))


def _bundled() -> Iterator[tuple[str, Callable[[], Task]]]:
    def digits() -> Task:
        pixels, label = datasets.load_digits(return_X_y=True)
        return _task(*_reals(pixels, [(0.0, 16.0)] * 64), label, _classes(label))

    def lower_half() -> Task:
        pixels, _ = datasets.load_digits(return_X_y=True)
        return _task(*_reals(pixels[:, :32], [(0.0, 16.0)] * 32), pixels[:, 32:].sum(axis=1), Real("label", 0, 400))

    def cancer() -> Task:
        rows, label = datasets.load_breast_cancer(return_X_y=True)
        return _task(*_reals(rows, _around(rows)), label, _classes(label))

    def wine() -> Task:
        rows, label = datasets.load_wine(return_X_y=True)
        return _task(*_reals(rows, _around(rows)), label, _classes(label))

    def diabetes() -> Task:
        rows, label = datasets.load_diabetes(return_X_y=True)
        return _task(*_reals(rows, [(-0.2, 0.2)] * 10), label, Real("label", 0, 400))

    yield from {
        "digits": digits,
        "cancer": cancer,
        "wine": wine,
        "diabetes": diabetes,
        "ink of digits": lower_half,
    }.items()


def _around(rows: Any) -> list[tuple[float, float]]:
    """Bounds a little beyond the data, which stand for what a data sheet would say; not private."""
    return [(float(low) * 0.9, float(high) * 1.1) for low, high in zip(rows.min(axis=0), rows.max(axis=0), strict=True)]


def _stored(folder: Path) -> Iterator[tuple[str, Callable[[], Task]]]:
    def buzz(target: str = "buzz") -> Task:
        frame = pq.read_table(folder / "buzz_tomshardware.parquet").to_pandas()
        label = frame.pop("buzz").to_numpy().astype(int)
        rows = np.log1p(np.maximum(frame.to_numpy(float), 0))
        bounds = [(0.0, float(top)) for top in np.ceil(rows.max(axis=0)) + 1]
        if target == "buzz":
            return _task(*_reals(rows, bounds), label, _classes(label))
        return _task(*_reals(rows[:, 8:], bounds[8:]), rows[:, 0], Real("label", *bounds[0]))

    def adult(target: str = "income") -> Task:
        frame = pq.read_table(folder / "adult.parquet").to_pandas().drop(columns="test")
        frame.columns = [name.replace("_", "-") for name in frame.columns]
        income = frame.pop("income-gt50k").to_numpy().astype(int)
        if target == "income":
            return _task(*_adult(frame), income, _classes(income))
        age = frame.pop("age").to_numpy(float)
        cells, columns = _adult(frame)
        return _task(cells | {"rich": income == 1}, [*columns, Flag("rich")], age, Real("label", 17, 90))

    def madelon() -> Task:
        frame = pq.read_table(folder / "madelon.parquet").to_pandas().drop(columns="valid")
        label = (frame.pop("label").to_numpy() > 0).astype(int)
        return _task(*_reals(frame.to_numpy(float), [(0.0, 1000.0)] * 500), label, _classes(label))

    yield from {
        "buzz": buzz,
        "contributions to buzz": lambda: buzz("contributions"),
        "income": adult,
        "age": lambda: adult("age"),
        "madelon": madelon,
    }.items()


def _adult(frame: Any) -> tuple[dict[str, Any], list[Any]]:
    cells, columns = {}, []
    for name in frame.columns:
        if name in _BOUNDS:
            low, high = _BOUNDS[name]
            cells[name] = frame[name].to_numpy(float)
            columns.append(Real(name, low, high, weight=1 / (high - low)))
        else:
            cells[name] = frame[name].astype(str).to_numpy(object)
            columns.append(Category(name, sorted(set(cells[name]))))
    return cells, columns


def lesson(task: Task, repetition: int, promise: Guarantee, **recipe: Any) -> tuple[Lesson, Any]:
    """Synthetic rows of three quarters, the other quarter in their space and its labels; all from the repetition."""
    order = np.random.default_rng(1000 + repetition).permutation(task.table.num_rows)
    train, test = order[: 3 * order.size // 4], order[3 * order.size // 4 :]
    made = release(
        task.table.take(train),
        schema=task.schema,
        mechanism=Synthetic(label="label", kind=task.kind, seed=repetition, **recipe),
        guarantee=promise,
        secret=Secret.for_testing(repetition),
    )
    made = made.sample(min(made.rows, 20_000), repetition)
    return Lesson(made.array(), made.labels(), made.transform(task.table.take(test))), task.labels[test]


def score(task: Task, repetition: int, promise: Guarantee, **recipe: Any) -> float:
    """Accuracy, or 1 less the error in standard deviations; the same split, W and noise for the same repetition."""
    given, truth = lesson(task, repetition, promise, **recipe)
    if task.kind == "classes":
        return accuracy(LogisticRegression(max_iter=500), given, len(given.rows), truth)
    found = np.clip(Ridge(alpha=1e-3).fit(given.rows, given.labels).predict(given.tests), *_ends(task))
    return 1 - float(np.sqrt(np.mean(np.square(found - truth))) / truth.std())


def _ends(task: Task) -> tuple[float, float]:
    return task.schema.columns[-1].low, task.schema.columns[-1].high


def _interval(values: Any) -> str:
    return f"{np.mean(values):+.3f} ± {1.96 * np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def shrinking(name: str, task: Task, repetitions: int) -> None:
    """What each way adds to none, with 95% intervals of the paired differences."""
    for centring in ("private", "public"):
        for epsilon in (1.0, 0.1):
            promise = Guarantee(epsilon=epsilon, delta=_DELTA)
            found = {
                shrink: np.array(
                    [score(task, i, promise, noise="gaussian", centring=centring, **recipe) for i in range(repetitions)]
                )
                for shrink in ("none", "linear", "spectrum")
                for recipe in [{"shrink": shrink}]
            }
            line = f"{name:22} {centring:8} epsilon {epsilon:<4g} none {np.mean(found['none']):6.3f}"
            line += f"   linear - none {_interval(found['linear'] - found['none'])}"
            print(f"{line}   spectrum - linear {_interval(found['spectrum'] - found['linear'])}", flush=True)


def learners(name: str, task: Task, repetitions: int) -> None:
    """Two learners beside each other: what none and spectrum add to linear shrinking of classes."""
    for epsilon in (1.0, 0.1) if task.kind == "classes" else ():
        promise, line = Guarantee(epsilon=epsilon, delta=_DELTA), f"{name:22} epsilon {epsilon:<4g}"
        for learnt in ("logistic", "quadratic"):
            found = {}
            for shrink in ("linear", "none", "spectrum"):
                given = [lesson(task, i, promise, noise="gaussian", shrink=shrink) for i in range(repetitions)]
                found[shrink] = np.array([accuracy(learner(learnt, 1)[0], g, len(g.rows), truth) for g, truth in given])
            line += f"   {learnt}: linear {np.mean(found['linear']):.3f}"
            for other in ("none", "spectrum"):
                line += f"  {other} - linear {_interval(found[other] - found['linear'])}"
        print(line, flush=True)


def centrings(name: str, task: Task, repetitions: int) -> None:
    """What one pass about the middle of the bounds adds to two passes about a private mean."""
    for epsilon in (1.0, 0.1):
        promise = Guarantee(epsilon=epsilon, delta=_DELTA)
        private, public = (
            np.array([score(task, i, promise, noise="gaussian", centring=centring) for i in range(repetitions)])
            for centring in ("private", "public")
        )
        line = f"{name:22} epsilon {epsilon:<4g} private {np.mean(private):6.3f}"
        print(f"{line}   public - private {_interval(public - private)}", flush=True)


def dimensions(name: str, task: Task, repetitions: int) -> None:
    """Scores over dimensions, and what the rule chooses."""
    columns = task.schema.encoding.dim - task.schema.columns[-1].width
    for noise, epsilon in (("gaussian", 1.0), ("laplace", 1.0), ("laplace", 10.0)):
        promise = Guarantee(epsilon=epsilon, delta=_DELTA if noise == "gaussian" else 0.0)
        known = 3 * task.table.num_rows // 4
        recipe = Synthetic(label="label", kind=task.kind, noise=noise, expected_rows=known)
        rule = recipe.prepare(task.schema, promise).dimension
        tried = sorted({p for p in (2, 4, 8, 16, 32, 64, 128, 256) if p < columns} | {columns, rule})
        line = f"{name:22} {noise:8} epsilon {epsilon:<4g}"
        for p in tried:
            mean = np.mean([score(task, i, promise, noise=noise, dimension=p) for i in range(repetitions)])
            line += f"  {'*' if p == rule else ''}{p}: {mean:.3f}"
        print(line, flush=True)


TABLES = ((shrinking, "shrink"), (learners, "learners"), (centrings, "centring"), (dimensions, "dimension"))


def main() -> None:
    """Print the tables; * marks the dimension that the rule takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--only", choices=[called for _, called in TABLES])
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # of solvers that want more steps
    tasks = {name: cache(make) for name, make in [*_bundled(), *(_stored(options.data) if options.data else ())]}
    for table, called in TABLES:
        if options.only in (None, called):
            for name, make in tasks.items():
                table(name, make(), options.repetitions)


if __name__ == "__main__":
    main()
