"""The comparisons of Chanyaswad et al.'s Tables 3 to 5, diffprivlib and SmartNoise, in short functions.

Every function gets a trial (a task, private rows, test rows, epsilon) and returns a lesson. All
protect a whole record, label and all, among a public number of records. Gaussian noise has delta = 1e-6, the rest none.
Where a paper leaves a choice, the kinder one is made: joint sensitivities, Gaussian noise, rows of length 1 where only
their directions can be had.

For comparison alone: sums here are floating-point numbers, so none of this is fit for private data. Noise is drawn by
the samplers of the package all the same.
"""

import math
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learning_tasks import (
    CLUSTERS,
    LABEL,
    MOST_LEARNT,
    MOST_REAL,
    Floats,
    Labels,
    Lesson,
    Places,
    Scores,
    Task,
    Trial,
    group_scores,
)
from published_synthetic import PublishedSynthetic
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.privacy.calibration import least_level
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.projection.projection import Projection
from sfumato.randomness.secret import Words
from sfumato.tables.schema import Schema

Teacher = Callable[[Trial], Lesson]

DELTA = 1e-6
_STEPS = 2.0**20  # of the noise's grid, per scale
_ROOT = Path(__file__).parent.parent
BENCH = _ROOT / ".venv-bench" / "bin" / "python"  # make bench makes it; diffprivlib needs older libraries than we do
PEERS = _ROOT / ".venv-peers" / "bin" / "python"  # make peers makes it; SmartNoise needs gigabytes of libraries


def _words(trial: Trial) -> Words:
    return trial.secret().words("rival")


def laplace(words: Words, shape: tuple[int, ...], laplace_scale: float) -> Floats:
    """Laplace noise of scale b on a grid of b / 2^20."""
    return words.laplace(math.prod(shape), _STEPS).reshape(shape) * (laplace_scale / _STEPS)


def gaussian(words: Words, shape: tuple[int, ...], scale: float) -> Floats:
    """Gaussian noise of this standard deviation on a grid of 2^-20 of it."""
    return words.gaussian(math.prod(shape), _STEPS).reshape(shape) * (scale / _STEPS)


def gaussian_level(epsilon: float) -> float:
    """Scale over sensitivity of Gaussian noise that gives (epsilon, 1e-6)."""
    return least_level(lambda level: Gaussian(1.0, level), epsilon, DELTA)


def unit_rows(rows: Floats) -> Floats:
    """Rows of length 1; zero stays zero."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


def real(trial: Trial) -> Lesson:
    """The rows themselves: no privacy."""
    task, some = trial.task, trial.private[:MOST_REAL]
    return Lesson(task.columns[some], None if task.labels is None else task.labels[some], task.columns[trial.tested])


def noisy_labels(trial: Trial, epsilon: float) -> Labels:
    """Each record's label by itself: randomized response among classes, Laplace noise on a number.

    A number moves by the width w of its bounds, so noise of scale w / epsilon is epsilon-private.
    """
    task = trial.task
    assert task.labels is not None
    truth = task.labels[trial.private]
    if task.kind == "classes":
        values = np.array(task.classes)
        return np.asarray(values[_words(trial).respond(np.searchsorted(values, truth), len(values), epsilon)])
    low, high = task.label_bounds
    return np.clip(truth, low, high) + laplace(_words(trial), truth.shape, (high - low) / epsilon)


def _record_by_record(trial: Trial, recipe: Recipe) -> Lesson:
    """Noisy rows of length 1 by a recipe of the package, and noisy labels: half of epsilon for each.

    Rows of length 1 differ by 2 at most, whatever the record.
    """
    task = trial.task
    part = trial.epsilon if task.labels is None else trial.epsilon / 2
    schema = Schema(Schema.reals(task.columns.shape[1], -1, 1).columns, norm="l2", norm_bound=1.0)
    promise = Guarantee(epsilon=part, delta=DELTA, change=Change.l2(2.0))
    rows = unit_rows(task.clipped(trial.private))
    made: Any = release(rows, schema=schema, mechanism=recipe, guarantee=promise, secret=trial.secret())
    labels = None if task.labels is None else noisy_labels(trial, part)[:MOST_LEARNT]
    return Lesson(made.array()[:MOST_LEARNT], labels, made.transform(unit_rows(task.clipped(trial.tested))))


def li(trial: Trial) -> Lesson:
    """Li, Zhang, Winslett and Yang 2011: noise on every row after a projection by random signs; 32 numbers."""
    dimension = min(32, trial.task.columns.shape[1])
    recipe = Sketch(dimension=dimension, projection="rademacher", noise="gaussian", seed=trial.seed())
    fewer = replace(trial, private=trial.private[:MOST_LEARNT])  # each row has noise of its own
    return _record_by_record(fewer, recipe)


def jiang(trial: Trial) -> Lesson:
    """Jiang et al. 2013: noise on every row after principal components, here found privately too; 8 of them."""
    recipe = Components(dimension=min(8, trial.task.columns.shape[1]), noise="gaussian")
    return _record_by_record(trial, recipe)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Second moments of (x / sqrt(m), y, 1), one matrix for each class, or one.

    Rows have squared length at most ``reach``: 1 + 1, and 1 more with a numeric label, which runs from -1 to 1.
    """

    matrices: Floats
    reach: float

    @property
    def sensitivity(self) -> float:
        """In Frobenius norm, for a record replaced: |uu' - vv'|^2 = |u|^4 + |v|^4 - 2 (u.v)^2, or without the last."""
        return math.sqrt(2) * self.reach

    @classmethod
    def of(cls, task: Task, private: Places) -> "Sums":
        """Without noise."""
        parts = [task.clipped(private) / math.sqrt(task.columns.shape[1])]
        if task.kind == "values":
            assert task.labels is not None
            low, high = task.label_bounds
            parts.append(((np.clip(task.labels[private], low, high) - low) / (high - low) * 2 - 1)[:, None])
        rows = np.column_stack([*parts, np.ones(len(private))])
        groups = [np.full(len(rows), True)]
        if task.kind == "classes":
            assert task.labels is not None
            groups = [task.labels[private] == value for value in task.classes]
        return cls(np.stack([rows[g].T @ rows[g] for g in groups]), 3.0 if task.kind == "values" else 2.0)

    def noisy(self, words: Words, epsilon: float) -> Floats:
        """With symmetric Gaussian noise: of the level's scale on the diagonal, over sqrt(2) beside it.

        So the noise is the same in every direction of the space of symmetric matrices.
        """
        drawn = gaussian(words, self.matrices.shape, gaussian_level(epsilon) * self.sensitivity / math.sqrt(2))
        return np.asarray(self.matrices + (drawn + drawn.transpose(0, 2, 1)) / math.sqrt(2))


def modips(trial: Trial) -> Lesson:
    """Liu 2016: Gaussians in all columns from noisy sufficient statistics, parameters drawn from their posterior."""
    task, private, rng = trial.task, trial.private, trial.rng
    matrices = Sums.of(task, private).noisy(_words(trial), trial.epsilon)
    counts = np.maximum(matrices[:, -1, -1], 1.0) if task.kind == "classes" else np.array([float(len(private))])
    wanted = np.maximum(1, np.round(MOST_LEARNT * counts / counts.sum())).astype(int)
    rows = np.concatenate(
        [_posterior(m, n, w, rng) for m, n, w in zip(matrices, counts, wanted, strict=True)],
    )
    labels = np.repeat(np.array(task.classes), wanted) if task.kind == "classes" else None
    if task.kind == "values":
        low, high = task.label_bounds
        rows, labels = rows[:, :-1], (rows[:, -1] + 1) / 2 * (high - low) + low
    order = rng.permutation(len(rows))[:MOST_LEARNT]
    tests = task.clipped(trial.tested) / math.sqrt(task.columns.shape[1])
    return Lesson(rows[order], None if labels is None else labels[order], tests)


def _posterior(moment: Floats, count: float, rows: int, rng: np.random.Generator) -> Floats:
    """Rows of a Gaussian whose covariance is drawn from an inverse Wishart law and its mean from a Gaussian."""
    mean = moment[:-1, -1] / count
    values, vectors = np.linalg.eigh(moment[:-1, :-1] / count - np.outer(mean, mean))
    root = vectors * np.sqrt(np.clip(values, 1e-9, None))
    dim = len(mean)
    freedom = max(count - 1, dim + 1.0)
    bartlett = np.tril(rng.standard_normal((dim, dim)), -1)
    bartlett[np.diag_indices(dim)] = np.sqrt(rng.chisquare(freedom - np.arange(dim)))
    root = root @ np.linalg.inv(bartlett).T * math.sqrt(freedom)
    return mean + root @ rng.standard_normal(dim) / math.sqrt(count) + rng.standard_normal((rows, dim)) @ root.T


_CANDIDATES, _ROWS = 256, 100


def blum(trial: Trial) -> Lesson:
    """Blum, Ligett and Roth 2013, Algorithm 1: the exponential mechanism over small databases.

    The queries: how many rows have a given column in its upper half, together with a given class (or half of a number).
    All databases are too many, so the candidates are 256 of 100 rows, drawn from public coins: columns at the middle of
    either half, with chances that differ by candidate, class and column.
    """
    task, private, rng = trial.task, trial.private, trial.rng
    low, high = task.bounds
    above = task.clipped(private) > (low + high) / 2
    kinds, group = _groups(task, private)
    true = np.array([above[group == g].sum(axis=0) for g in range(kinds)])
    found = [_candidate(rng, kinds, above.shape[1]) for _ in range(_CANDIDATES)]
    scores = [database_score(true, f, len(private)) for f in found]
    chosen, which = found[_words(trial).select(scores, epsilon=trial.epsilon, sensitivity=1)]
    rows = low + (high - low) * (0.25 + 0.5 * chosen)
    labels: Labels | None = None
    if task.kind == "classes":
        labels = np.array(task.classes)[which]
    elif task.kind == "values":
        low_label, high_label = task.label_bounds
        labels = low_label + (high_label - low_label) * (0.25 + 0.5 * which)
    return Lesson(rows, labels, task.clipped(trial.tested))


def _groups(task: Task, private: Places) -> tuple[int, NDArray[np.int64]]:
    """How many kinds of label there are, and which each row has."""
    if task.labels is None:
        return 1, np.zeros(len(private), np.int64)
    if task.kind == "classes":
        return len(task.classes), np.searchsorted(np.array(task.classes), task.labels[private])
    return 2, (task.labels[private] > sum(task.label_bounds) / 2).astype(np.int64)


def _candidate(rng: np.random.Generator, kinds: int, columns: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    which = np.sort(rng.integers(0, kinds, _ROWS))
    return rng.random((_ROWS, columns)) < rng.random((kinds, columns))[which], which


def database_score(true: NDArray[Any], candidate: tuple[NDArray[np.bool_], NDArray[np.int64]], rows: int) -> int:
    """Minus the largest error of a count; a record replaced moves each count, and so the score, by at most 1."""
    upper, which = candidate
    claimed = np.array([upper[which == g].sum(axis=0) for g in range(len(true))]) * rows // _ROWS
    return -int(np.abs(true - claimed).max())


def published(dimension: int) -> Teacher:
    """RON-Gauss with the constants of its paper: NOT PRIVATE for more than two columns."""
    return lambda trial: (_published_values if trial.task.kind == "values" else _published_classes)(trial, dimension)


def _published_classes(trial: Trial, dimension: int) -> Lesson:
    """Algorithms 3 and 5, one projection for all classes; test rows of Algorithm 5 are normalised and projected."""
    task, private, tested = trial.task, trial.private, trial.tested
    recipe = PublishedSynthetic(dimension=dimension, split="paper", shrink="none", seed=trial.seed())
    promise = Guarantee(epsilon=trial.epsilon)
    features = Schema([c for c in task.schema.columns if c.name != LABEL], scale="raw")

    def made(own: Places) -> Any:
        return release(task.table(own), schema=features, mechanism=recipe, guarantee=promise, secret=trial.secret())

    if task.labels is None:
        all_rows = made(private)
        return Lesson(all_rows.array()[:MOST_LEARNT], None, all_rows.transform(task.table(tested)))
    rows, labels = [], []
    for value in task.classes:
        own = private[task.labels[private] == value]
        found = made(own)
        rows.append(found.array() + found.centre @ found.projection)
        labels.append(np.full(len(own), value))
    order = trial.rng.permutation(sum(map(len, labels)))[:MOST_LEARNT]
    tests = unit_rows(task.clipped(tested)) @ found.projection
    return Lesson(np.concatenate(rows)[order], np.concatenate(labels)[order], tests)


def lemma_five(dimension: int, rows: int) -> float:
    """What the paper takes for the sensitivity of the second moment with a label in [-1, 1]."""
    return (2 * math.sqrt(dimension) + 4 * math.sqrt(dimension) + 1) / rows


def _published_values(trial: Trial, dimension: int) -> Lesson:
    """Algorithm 4: a label beside the projected rows, in units of its largest size.

    The model has mean 0 in the label too: it takes a label to be about 0, as that of the paper's data is.
    """
    task, words, epsilon, count = trial.task, _words(trial), trial.epsilon, len(trial.private)
    assert task.labels is not None
    columns, (low, high) = task.columns.shape[1], task.label_bounds
    unit, rows = max(abs(low), abs(high)), unit_rows(task.clipped(trial.private))
    mean = rows.mean(axis=0) + laplace(words, (columns,), 2 * math.sqrt(columns) / count / (0.3 * epsilon))
    turn = Projection(family="orthonormal", dim_in=columns, dim_out=dimension, seed=trial.seed()).draw().values
    images = np.column_stack([unit_rows(rows - mean) @ turn, np.clip(task.labels[trial.private], low, high) / unit])
    noise_scale = lemma_five(dimension, count) / (0.7 * epsilon)
    moment = images.T @ images / count + laplace(words, (dimension + 1, dimension + 1), noise_scale)
    values, vectors = np.linalg.eigh((moment + moment.T) / 2)
    root = vectors * np.sqrt(np.clip(values, 1e-9, None))
    drawn = trial.rng.standard_normal((MOST_LEARNT, dimension + 1)) @ root.T
    tests = unit_rows(unit_rows(task.clipped(trial.tested)) - mean) @ turn
    return Lesson(drawn[:, :-1], drawn[:, -1] * unit, tests)


def diffprivlib_scores(trial: Trial) -> Scores:
    """Diffprivlib's own learner, in an environment of its own: it makes a model, not rows, from all private rows.

    For classes a Gaussian naive Bayes, for numbers a linear regression, for groups k-means.
    """
    task, private, tested = trial.task, trial.private, trial.tested
    tests, low_high = task.clipped(tested), np.array(task.bounds)
    given: dict[str, Any] = {"rows": task.clipped(private).astype(np.float32), "tests": tests, "bounds": low_high}
    given |= {"epsilon": trial.epsilon, "seed": trial.seed() % 2**32, "groups": CLUSTERS}
    if task.labels is not None:
        given["labels"] = task.labels[private]
    if task.kind == "values":
        given["label_bounds"] = task.label_bounds
    found = _elsewhere(BENCH, "diffprivlib_models.py", given, task.kind)
    if task.kind == "clusters":
        return group_scores(task, tested, found, tests, None)
    assert task.labels is not None
    truth = task.labels[tested]
    if task.kind == "values":
        return math.nan, math.sqrt(np.mean((np.clip(found, *task.label_bounds) - truth) ** 2))
    return *([math.nan] * (len(task.measures) - 1)), float(np.mean(found == truth))


def smartnoise(trial: Trial) -> Lesson:
    """SmartNoise's MST (McKenna, Miklau and Sheldon 2021), in an environment of its own; for classes.

    It protects a record that is added or removed, which is less to protect than one that is replaced.
    """
    task, private = trial.task, trial.private
    assert task.labels is not None
    given = {"rows": task.clipped(private), "labels": np.searchsorted(np.array(task.classes), task.labels[private])}
    given |= {"bounds": np.array(task.bounds), "samples": MOST_LEARNT, "seed": trial.seed() % 2**32}
    made = _elsewhere(PEERS, "smartnoise_rows.py", given | {"epsilon": trial.epsilon, "delta": DELTA})
    return Lesson(made[:, :-1], np.array(task.classes)[made[:, -1].astype(int)], task.clipped(trial.tested))


def _elsewhere(python: Path, script: str, given: dict[str, Any], *more: str) -> Any:
    """What a script tells that is run by another Python."""
    with TemporaryDirectory() as folder:
        asked, told = Path(folder) / "asked.npz", Path(folder) / "told.npy"
        np.savez(asked, **given)
        path = Path(__file__).parent / script
        subprocess.run([str(python), "-W", "ignore", str(path), *more, str(asked), str(told)], check=True)  # noqa: S603
        return np.load(told)
