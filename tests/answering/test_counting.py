"""Laplace counts: what one record moves, found by search; prices; the noise that is drawn."""

import itertools

import numpy as np
import pytest
from scipy import stats

from sfumato.answering import counting
from sfumato.answering.counting import Counting, exact_counts, histogram_counts, list_move
from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema
from support.evidence import fits
from support.rows import table_rows

PAIR = Schema((Flag("a"), Flag("b")))
DOMAIN = Domain.of(PAIR)


def searched(queries, neighbours):
    """The largest move over all neighbours of small histograms."""
    cells = queries.shape[1]
    base = np.full(cells, 2)
    if neighbours == "add-remove":
        others = [base + np.eye(cells, dtype=int)[i] for i in range(cells)]
    else:
        others = [
            base - np.eye(cells, dtype=int)[i] + np.eye(cells, dtype=int)[j]
            for i, j in itertools.product(range(cells), repeat=2)
        ]
    here = histogram_counts(base, queries)
    return max(int(np.abs(histogram_counts(other, queries) - here).sum()) for other in others)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_list_moves_as_far_as_the_search_finds_and_no_farther(neighbours, monkeypatch):
    rng = np.random.default_rng(2)
    for _ in range(100):
        queries = rng.random((rng.integers(1, 20), rng.integers(2, 9))) < rng.random()
        found = searched(queries, neighbours)
        assert list_move(queries, neighbours) == found
        with monkeypatch.context() as patch:
            patch.setattr(counting, "_COMPARED", 0)
            assert found <= list_move(queries, neighbours) <= len(queries)


def test_a_histogram_moves_by_one_or_two_and_a_count_by_one():
    cells = np.eye(4, dtype=bool)
    assert list_move(cells, "add-remove") == 1
    assert list_move(cells, "replace") == 2
    assert list_move(cells[0], "replace") == 1
    assert Counting.of(DOMAIN, cells, "replace") == Counting(questions=4, move=2)


@pytest.mark.parametrize(
    "guarantee", [Guarantee(epsilon=0.5), Guarantee(epsilon=0.5, neighbours="add-remove", group=3)]
)
def test_scales_are_what_a_unit_moves_over_epsilon(guarantee):
    prepared = Counting(questions=5, move=2).prepare(guarantee)
    level = calibrate(prepared, guarantee).level
    assert prepared.scale(level) == pytest.approx(2 * guarantee.group / 0.5, rel=1e-9)
    assert prepared.loss(level).delta(0.5) == 0


def test_questions_that_nothing_is_known_of_cost_one_each():
    guarantee = Guarantee(epsilon=1.0)
    assert Counting(questions=7).prepare(guarantee).sensitivity == 7
    assert Counting().prepare(guarantee).sensitivity == 1


def test_answers_have_rounded_laplace_noise_of_that_scale():
    guarantee = Guarantee(epsilon=0.01)
    prepared = Counting(questions=60_000, move=1).prepare(guarantee)
    exact = np.full(60_000, 1000)
    answers = prepared.answer(exact, calibrate(prepared, guarantee).level, Secret.for_testing(1))
    noise = np.array([a.value for a in answers]) - exact
    assert fits(noise, lambda x: stats.laplace.cdf(x, scale=100))
    assert not fits(noise, lambda x: stats.laplace.cdf(x, scale=90))
    for confidence in (0.5, 0.95):
        covered = (np.abs(noise) <= answers[0].margin(confidence)).mean()
        assert abs(covered - confidence) < 0.015
    assert answers[0].laplace_scale == pytest.approx(100)


def test_rows_are_counted_by_what_they_answer():
    rows = table_rows(open_table(np.array([[1, 0], [1, 1], [0, 0]], float), PAIR), PAIR)
    assert exact_counts(rows, lambda block: block > 0.5).tolist() == [2, 1]
    assert exact_counts(rows, lambda block: block[0] < 0.5).tolist() == [1]
    prepared = Counting(questions=2).prepare(Guarantee(epsilon=100.0))
    assert [a.value for a in prepared.run(rows, lambda block: block > 0.5, 0.01, Secret.for_testing(2))] == [2, 1]


@pytest.mark.parametrize("facts", [{"questions": 0}, {"questions": 2, "move": 3}, {"move": 0}])
def test_recipes_that_cannot_be_are_refused(facts):
    with pytest.raises(ParameterError):
        Counting(**facts)


def test_lists_of_another_domain_or_length_are_refused():
    with pytest.raises(ParameterError, match="4 truths each"):
        Counting.of(DOMAIN, np.ones((2, 3), bool), "replace")
    with pytest.raises(ParameterError, match="truths over"):
        list_move(np.ones((2, 3)), "replace")
    with pytest.raises(ParameterError, match="there must be 2"):
        Counting(questions=2).prepare(Guarantee(epsilon=1.0)).answer(np.zeros(3, np.int64), 1.0, Secret.for_testing(1))


def test_noise_that_cannot_be_drawn_is_refused_before_a_row_is_read():
    prepared = Counting().prepare(Guarantee(epsilon=1e-14))
    with pytest.raises(ParameterError, match="exact sampler"):
        prepared.run(None, lambda block: block[0] > 0, 1e14, Secret.for_testing(1))
