"""The curves of experiments/queries.py, on generated rows: their plain parts have the errors that theory gives."""

import numpy as np
import pytest

from page import Setting
from queries import LARGE, PAGES, TINY, Asked, Case, adult, asked, curves, msnbc, totals, unseen
from sfumato.randomness.secret import Secret

RNG = np.random.default_rng(1)
PEOPLE, VISITORS = adult(None, ["sex", "income_gt50k"], RNG), msnbc(None, RNG)


def test_stand_ins_have_the_shape_of_the_data():
    assert (PEOPLE.domain.size, PEOPLE.rows) == (4, 48_842)
    assert (VISITORS.domain.size, VISITORS.rows) == (1024, 10_000)
    assert set(LARGE) < set(TINY)


def test_more_kinds_of_pages_tell_the_same_visitors_further_apart():
    few, all_ = (msnbc(None, np.random.default_rng(3), pages) for pages in (10, PAGES))
    assert (all_.domain.size, all_.rows) == (131_072, 10_000)
    assert np.array_equal(all_.counts.reshape(1024, -1).sum(axis=1), few.counts)


def test_equal_cells_answer_with_the_share_of_cells_that_are_asked_about():
    queries = asked(VISITORS.domain, 20, np.random.default_rng(2))
    assert np.array_equal(queries.sum(axis=1), np.full(20, 1024 // 8))
    assert np.array_equal(unseen(Asked(VISITORS, 1.0), queries, Secret.for_testing(1)), np.full(20, 10_000 / 8))
    assert np.array_equal(totals(VISITORS.counts, queries), queries @ VISITORS.counts)


@pytest.mark.parametrize("label", TINY)
def test_every_method_answers_every_question(label):
    queries = asked(PEOPLE.domain, 20, np.random.default_rng(2))
    answers = TINY[label](Asked(PEOPLE, 1.0), queries, Secret.for_testing(1))
    assert answers.shape == (20,)
    assert np.abs(answers - queries @ PEOPLE.counts).mean() < 0.05 * PEOPLE.rows


def test_question_by_question_errs_in_proportion_to_their_number_and_cells_do_not(tmp_path):
    case = Case(PEOPLE, {k: v for k, v in LARGE.items() if "Laplace" in k}, (30, 1000))
    found = {k: [e.value * PEOPLE.rows for e in v] for k, v in curves(case, 1.0, Setting("test", tmp_path)).items()}
    few, many = found["Laplace, question by question"]
    assert many == pytest.approx(1000, rel=0.1)
    assert few == pytest.approx(30, rel=0.4)
    assert max(found["Laplace on every cell"]) < 10


def test_the_same_seed_measures_the_same_and_another_one_does_not(tmp_path):
    case = Case(PEOPLE, {"Laplace on every cell": LARGE["Laplace on every cell"]}, (10,))
    first, again, other = (curves(case, 1.0, Setting("test", tmp_path, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other
