"""The tables and figures of RON-Gauss: a few cells of them, and whether the comparisons add the noise they should."""

import math
from dataclasses import replace

import numpy as np
import pytest

import attacks
import rongauss
import rongauss_figures
from learning import OURS, PUBLISHED, REAL, Found, Line, again, best, few, learnt, measure, ours, prose, unseen
from learning_tasks import (
    Quadratic,
    Scaled,
    Task,
    Trial,
    digit_groups,
    digits,
    group_scores,
    judged,
    nothing_learnt,
)
from page import Measured, Setting, Table
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
from sfumato.attacks.curves import Curve, Point
from sfumato.privacy.losses import Gaussian
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Real
from support.evidence import agrees

EVERY_ROW = np.arange(200)


@pytest.fixture
def setting(tmp_path):
    return Setting("test", tmp_path, quick=True)


def small(kind, rng, rows=200, columns=3):
    """A task of few rows, all over their bounds."""
    found = Scaled.of(rng.uniform(-1, 1, (rows, columns)), [(-1, 1)] * columns)
    if kind == "values":
        return found.task("diabetes", rng.uniform(0, 5, rows), Real("label", 0.0, 5.0))
    return found.task("unlabelled digits") if kind == "clusters" else found.task("odd digits", np.arange(rows) % 2)


def replaced(task, row, label=None):
    """The task with another first record."""
    columns = task.columns.copy()
    columns[0] = row
    labels = None if task.labels is None else task.labels.copy()
    if labels is not None and label is not None:
        labels[0] = label
    return Task(task.name, task.kind, columns, labels, task.schema, task.tested)


def trial(task, epsilon=1.0, seed=0):
    """A split of a task, and noise, from a seed."""
    return Trial(task, *task.split(np.random.default_rng(seed)), epsilon, np.random.default_rng([seed, 1]))


def test_a_cell_of_the_table_learns_digits_from_synthetic_rows(setting):
    truth = measure(setting, digits(), Line(REAL, learnt(real), (1, 1), None))
    private = measure(setting, digits(), Line(OURS, learnt(ours), (1, 1)))
    assert 0.9 < truth.mean(0) <= 1
    assert 0.5 < private.mean(0) < truth.mean(0)


def test_a_cell_can_be_had_again_and_another_seed_gives_another(setting):
    task, line = small("clusters", np.random.default_rng(0)), Line(OURS, learnt(ours), (1, 2))
    first = measure(setting, task, line)
    assert np.array_equal(first.scores, measure(setting, task, line).scores)
    assert not np.array_equal(first.scores, measure(replace(setting, seed=2), task, line).scores)
    assert not np.array_equal(first.scores, measure(setting, task, again(first, OURS, (1, 2))).scores)


@pytest.mark.parametrize("rival", [li, jiang, blum, modips, published(2)])
@pytest.mark.parametrize("kind", ["clusters", "classes", "values"])
def test_every_comparison_makes_rows_that_a_learner_takes_and_can_be_had_again(rival, kind):
    task = small(kind, np.random.default_rng(0))
    one, two = trial(task), trial(task)
    lesson, same = rival(one), rival(two)
    assert all(math.isfinite(score) for score in judged(task, lesson, one.tested))
    assert np.array_equal(lesson.rows, same.rows)
    assert not np.array_equal(lesson.rows, rival(two).rows)


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


def test_labels_of_comparisons_are_told_as_often_as_randomized_response_should():
    task = small("classes", np.random.default_rng(3), rows=100_000)
    every = replace(trial(task), private=np.arange(100_000))
    told = (noisy_labels(every, 0.5) == task.labels).astype(float)
    assert agrees(told, math.exp(0.5) / (math.exp(0.5) + 1))
    assert not agrees(told, math.exp(0.55) / (math.exp(0.55) + 1))
    numbers = small("values", np.random.default_rng(3), rows=100_000)
    far = np.abs(noisy_labels(replace(every, task=numbers), 0.5) - numbers.labels)
    assert agrees(far, 5 / 0.5)
    assert not agrees(far, 5 / 0.52)


def test_the_published_sensitivity_is_the_one_of_the_paper():
    assert lemma_five(9, 100) == pytest.approx((6 + 12 + 1) / 100)


def test_centres_learnt_on_real_rows_cost_what_they_cost():
    task = small("clusters", np.random.default_rng(6))
    given = trial(task)
    assert judged(task, real(given), given.tested)[1:] == pytest.approx((1.0, 1.0), abs=1e-9)
    corner = np.full((4, 3), 0.99) + np.arange(4)[:, None]
    assert group_scores(task, given.tested, corner, task.columns[given.tested], None)[1] > 2


def test_a_gaussian_that_never_saw_the_data_beats_it_by_silhouette_and_not_by_cost(setting):
    task = digit_groups()
    truth = measure(setting, task, Line(REAL, learnt(real), (1, 1), None))
    noise = measure(setting, task, Line("noise", learnt(unseen(2)), (1, 1), None))
    assert noise.mean(0) > truth.mean(0) + 0.1
    assert noise.mean(2) > truth.mean(2) + 0.1


def test_the_quadratic_discriminant_is_that_of_two_known_gaussians():
    rng = np.random.default_rng(7)
    labels = np.arange(4000) % 2
    rows = rng.standard_normal((4000, 2)) * np.where(labels == 1, 3.0, 1.0)[:, None]
    edge = math.sqrt(2 * math.log(9) / (1 - 1 / 9))  # where densities of the two are equal
    inside, outside = np.array([[0.9 * edge, 0.0]]), np.array([[1.1 * edge, 0.0]])
    learnt_from = Quadratic().fit(rows, labels)
    assert learnt_from.predict(inside) == [0]
    assert learnt_from.predict(outside) == [1]
    assert Quadratic().fit(rows[:4], labels[:4]).predict(rows[:1]).shape == (1,)  # fewer rows than columns would need


def test_nothing_learnt_is_the_commonest_class_or_the_mean():
    task = small("values", np.random.default_rng(8))
    assert nothing_learnt(task, EVERY_ROW, EVERY_ROW) == (pytest.approx(task.labels.std()),) * 2
    few_ones = small("classes", np.random.default_rng(8))
    few_ones.labels[:] = EVERY_ROW < 50
    assert nothing_learnt(few_ones, EVERY_ROW, EVERY_ROW) == (0.75,) * 3


def test_errors_of_few_repetitions_are_widened_to_those_of_student():
    shown = few(np.array([1.0, 2.0, 3.0]))
    assert shown.value == 2
    assert 1.96 * shown.error == pytest.approx(2.484, abs=1e-3)  # the half width of the interval
    assert few(np.full(3, 0.1)).error == 0


def test_the_best_of_several_is_the_highest_share_and_the_lowest_error():
    found = [Found(Line(str(x), ours, (1, 1)), np.array([[x]]), 1) for x in (0.2, 0.9, 0.5)]
    assert best(found, 0, "svm").line.name == "0.9"
    assert best(found, 0, "ridge").line.name == "0.2"


def test_the_published_figures_are_those_of_the_paper():
    assert rongauss.TABLE_3.own == 0.274
    assert rongauss.TABLE_4.lines["Liu (MODIPS)"] == 0.6131
    assert rongauss.TABLE_5.lines[REAL] == rongauss.TABLE_5.own == 0.0021


def test_a_table_has_the_rows_of_the_paper_and_ours(setting, monkeypatch, tmp_path):
    monkeypatch.setattr("rivals.BENCH", tmp_path / "none")
    monkeypatch.setattr("rivals.PEERS", tmp_path / "none")
    effort = rongauss.Effort((1, 1), (1, 1), (1, 1), (2, 3))
    parts = list(rongauss.tables(setting, small("clusters", np.random.default_rng(0)), effort, rongauss.TABLE_3))
    main, parts_of_ours = (part for part in parts if isinstance(part, Table))
    named = {row[0]: row for row in reversed(main.rows)}  # the first of a name is at epsilon 1
    figures = {**rongauss.TABLE_3.lines, f"{PUBLISHED}, best of 2 dimensions by silhouette": 0.274}
    for name, figure in figures.items():
        assert named[name][main.header.index("paper: S.C., GFE")] == figure
    assert {"ours, Laplace noise", OURS} <= set(named)
    assert any(name.startswith("ours, best of") for name in named)
    assert all(isinstance(row[-1], Measured) for row in parts_of_ours.rows)
    assert any("wanted" in part for part in parts if isinstance(part, str))
    assert any("Diffprivlib is left out" in part for part in parts if isinstance(part, str))


def test_every_experiment_is_called_differently_and_figures_are_drawn_without_data(setting, tmp_path):
    every = [e.name for paper in (rongauss.PAPER, attacks.PAPER) for e in paper.experiments]
    assert len(set(every)) == len(every)
    list(rongauss_figures.samples(setting))
    assert (tmp_path / "figures" / "rongauss-digits.png").stat().st_size > 1000


def test_attacks_stand_beside_their_bound():
    points = [(Point(1.0, hit, 0.0, 0.5), Point(2.0, 0.0, 0.0, 0.7)) for hit in (0.38, 0.42)]
    found = [[Curve("a", "b", "c", "d", 0.1, 0.9, some)] for some in points]
    row, bound = attacks.curve_table("x", found, trials=49).rows
    assert [cell.value for cell in row[1:3]] == [0.4, 0.0]
    assert 1.96 * row[1].error == pytest.approx(12.706 * 0.02, rel=1e-3)  # the interval of two that differ
    assert row[2].error == pytest.approx(math.sqrt(0.01 * 0.99 / 100))  # none of 98 right does not mean never
    assert [(cell.value, cell.error) for cell in bound[1:3]] == [(0.5, 0.0), (0.7, 0.0)]
    (drawn,) = attacks.merged(found, trials=49)
    assert [(p.success, p.error) for p in drawn.points] == [(c.value, c.error) for c in row[1:3]]


def test_prose_is_filled_and_bullets_stay_bullets():
    assert max(map(len, prose("word " * 100).splitlines())) <= 118
    assert prose("- " + "word " * 30).splitlines()[1].startswith("  word")
