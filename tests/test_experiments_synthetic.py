"""The tables of experiments/synthetic.py: one cell of them, and whether the comparisons add the noise they should."""

import math

import numpy as np
import pytest

from evidence import agrees
from learning_report import with_interval
from learning_tasks import Measured, Task, digits, group_scores, judged
from rivals import (
    Sums,
    blum,
    database_score,
    gaussian,
    gaussian_level,
    jiang,
    laplace,
    lemma_five,
    li,
    modips,
    noisy_labels,
    published,
    real,
)
from sfumato.columns import Real
from sfumato.loss import Gaussian
from sfumato.secret import Secret
from synthetic import cell, methods

EVERY_ROW = np.arange(200)


def small(kind, rng, rows=200, columns=3):
    """A task of few rows, all over their bounds."""
    found = Measured.of(rng.uniform(-1, 1, (rows, columns)), [(-1, 1)] * columns)
    if kind == "values":
        return found.task("diabetes", rng.uniform(0, 5, rows), Real("label", 0.0, 5.0))
    return found.task("unlabelled digits") if kind == "clusters" else found.task("wine", np.arange(rows) % 2)


def replaced(task, row, label=None):
    """The task with another first record."""
    columns = task.columns.copy()
    columns[0] = row
    labels = None if task.labels is None else task.labels.copy()
    if labels is not None and label is not None:
        labels[0] = label
    return Task(task.name, task.kind, columns, labels, task.schema, task.tested)


def test_a_cell_of_the_table_learns_digits_from_synthetic_rows():
    task, by_name = digits(), {m.name: m for m in methods()}
    truth = cell(task, by_name["real rows, no privacy"], None, 0)
    private = cell(task, by_name["ours, as it comes"], 1.0, 0)
    assert 0.9 < truth[0] <= 1
    assert 0.5 < private[0] < truth[0]


@pytest.mark.parametrize("rival", [li, jiang, blum, modips, published(2)])
@pytest.mark.parametrize("kind", ["clusters", "classes", "values"])
def test_every_comparison_makes_rows_that_a_learner_takes(rival, kind):
    task = small(kind, np.random.default_rng(0))
    private, tested = task.split(0)
    assert all(math.isfinite(score) for score in judged(task, rival(task, private, tested, 1.0), tested))


def test_noise_of_comparisons_has_the_scale_it_is_asked_for():
    words = Secret.for_testing(3).words("scale")
    far, square = np.abs(laplace(words, (200_000,), 0.7)), gaussian(words, (200_000,), 0.7) ** 2
    assert agrees(far, 0.7)
    assert not agrees(far, 0.7 * 1.02)
    assert agrees(square, 0.7**2)
    assert not agrees(square, (0.7 * 1.02) ** 2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_level_of_gaussian_noise_is_the_least_that_keeps_the_promise(epsilon):
    level = gaussian_level(epsilon)
    assert Gaussian(1.0, level).delta(epsilon) <= 1e-6 < Gaussian(1.0, 0.999 * level).delta(epsilon)


@pytest.mark.parametrize("kind", ["clusters", "classes", "values"])
def test_no_replaced_record_moves_the_sums_of_modips_by_more_than_their_sensitivity(kind):
    rng = np.random.default_rng(1)
    task, moves = small(kind, rng), []
    corners = rng.choice([-1.0, 1.0], (300, 2, 3))
    corners[0] = [1, 1, 1], [-1, -1, -1]
    for first, second in corners:
        labels = (0.0, 5.0) if kind == "values" else (0, 1)
        one, other = replaced(task, first, labels[0]), replaced(task, second, labels[1])
        sums = [Sums.of(t, EVERY_ROW) for t in (one, other)]
        moves.append(np.linalg.norm(sums[0].matrices - sums[1].matrices))
    assert max(moves) <= sums[0].sensitivity * (1 + 1e-12)
    assert max(moves) >= sums[0].sensitivity * 0.9


def test_noise_on_the_sums_of_modips_is_the_same_in_every_direction():
    found = Sums(np.zeros((4000, 6, 6)), 2.0)
    noisy, scale = found.noisy(Secret.for_testing(4).words("sums"), 1.0), gaussian_level(1.0) * found.sensitivity
    diagonal, beside = noisy[:, range(6), range(6)].ravel(), noisy[:, 0, 1:].ravel()
    assert np.array_equal(noisy, noisy.transpose(0, 2, 1))
    assert agrees(diagonal**2, scale**2)
    assert not agrees(diagonal**2, (1.05 * scale) ** 2)
    assert agrees(beside**2, scale**2 / 2)
    assert not agrees(beside**2, (1.05 * scale) ** 2 / 2)


def test_a_replaced_record_moves_the_score_of_a_database_by_one_at_most():
    rng, moves = np.random.default_rng(2), []
    for _ in range(300):
        rows, which = rng.random((200, 4)) < 0.5, rng.integers(0, 3, 200)
        other, elsewhere = rows.copy(), which.copy()
        other[0], elsewhere[0] = rng.random(4) < 0.5, rng.integers(0, 3)
        candidate = rng.random((100, 4)) < rng.random(4), rng.integers(0, 3, 100)
        counts = [[r[w == g].sum(axis=0) for g in range(3)] for r, w in ((rows, which), (other, elsewhere))]
        first, second = (database_score(np.array(c), candidate, 200) for c in counts)
        moves.append(abs(first - second))
    assert max(moves) == 1


def test_labels_of_comparisons_are_told_as_often_as_randomized_response_should(monkeypatch):
    monkeypatch.setattr("rivals._fresh", lambda: Secret.for_testing(5).words("labels"))
    task = small("classes", np.random.default_rng(3), rows=100_000)
    told = (noisy_labels(task, np.arange(100_000), 0.5) == task.labels).astype(float)
    assert agrees(told, math.exp(0.5) / (math.exp(0.5) + 1))
    assert not agrees(told, math.exp(0.55) / (math.exp(0.55) + 1))
    numbers = small("values", np.random.default_rng(3), rows=100_000)
    far = np.abs(noisy_labels(numbers, np.arange(100_000), 0.5) - numbers.labels)
    assert agrees(far, 5 / 0.5)
    assert not agrees(far, 5 / 0.52)


def test_the_published_sensitivity_is_the_one_of_the_paper():
    assert lemma_five(9, 100) == pytest.approx((6 + 12 + 1) / 100)


def test_centres_learnt_on_real_rows_cost_what_they_cost():
    task = small("clusters", np.random.default_rng(6))
    private, tested = task.split(0)
    assert judged(task, real(task, private, tested, 0.0), tested)[:2] == pytest.approx((1.0, 1.0), abs=1e-9)
    corner = np.full((4, 3), 0.99) + np.arange(4)[:, None]
    assert group_scores(task, tested, corner, task.columns[tested], None)[0] > 2


def test_intervals_are_those_of_student():
    assert with_interval(np.array([1.0, 2.0, 3.0])) == "2.000 ± 2.484"
