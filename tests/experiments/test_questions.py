"""Questions beside rivals: what is true, how far answers are from it, whom ours is held against, and what is shown."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import question_rivals
import questions
from page import Measured, Setting
from page import Table as PageTable
from question_list import QUESTIONS, Asked, errors, held, named, rank_errors, truth
from questions import Line, Owned, repeated
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Integer
from sfumato.tables.schema import Schema

LEVELS = {"sex": ("Female", "Male"), "education": ("HS-grad", "Masters", "Preschool"), "income_gt50k": (0, 1)}
LEVELS |= {"occupation": tuple("ABCDEFG")}
BOUNDS = {"age": (17, 90), "fnlwgt": (0, 1500), "education_num": (1, 16), "capital_gain": (0, 1000)}
BOUNDS |= {"hours_per_week": (1, 99)}
SCHEMA = Schema(
    (
        *(Integer(name, *ends) for name, ends in BOUNDS.items()),
        *(Category(name, values, missing=values[0]) for name, values in LEVELS.items()),
    )
)


def people(rows):
    rng = np.random.default_rng(3)
    cells = {name: rng.integers(low, high + 1, rows) for name, (low, high) in BOUNDS.items()}
    few = {name: rng.choice(len(v), rows, p=_falling(len(v))) for name, v in LEVELS.items()}
    return pd.DataFrame(cells | {name: np.array(LEVELS[name])[places] for name, places in few.items()})


def _falling(count):
    weights = np.arange(count, 0, -1.0)
    return weights / weights.sum()


@pytest.fixture(scope="module")
def owned():
    return Owned.of(people(5000), SCHEMA)


def test_there_are_twenty_questions_and_each_once():
    assert len({q.text for q in QUESTIONS}) == 20


def test_the_truth_is_what_pandas_says(owned):
    rows, asked = owned.rows, owned.asked
    assert truth(asked, named("count by sex")).tolist() == rows.groupby("sex").size().tolist()
    women = rows[rows.sex == "Female"]
    assert truth(asked, named("mean(hours_per_week) where sex = 'Female'")) == women.hours_per_week.mean()
    assert truth(asked, named("variance(age)")) == pytest.approx(rows.age.var(ddof=0))
    top = truth(asked, named("top(occupation, 5)")).astype(int)
    assert [LEVELS["occupation"][i] for i in top] == rows.occupation.value_counts().index[:5].tolist()
    both = truth(asked, named("count, mean(age) where income_gt50k = 1"))
    assert both.tolist() == [(rows.income_gt50k == 1).sum(), rows.age[rows.income_gt50k == 1].mean()]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.text)
def test_ours_is_near_the_truth_at_a_large_epsilon_and_within_its_intervals(owned, question):
    promise = Guarantee(epsilon=30.0, neighbours="replace")
    found = repeated(owned, question, promise, [Secret.for_testing(i) for i in range(8)])
    spread = np.abs(truth(owned.asked, question)).mean() + 1
    assert errors(owned.asked, question, found.answers).max() <= 0.02 * spread
    assert held(owned.asked, question, found.answers, found.low, found.high).mean() >= 0.75


def asked_of(values):
    zeros = {name: np.zeros(len(values), int) for name in LEVELS}
    return Asked({"age": np.array(values)} | zeros, BOUNDS, LEVELS)


def test_a_quantile_is_any_number_that_is_one_and_its_rank_counts_records_between():
    asked, median = asked_of([20, 30, 40, 50]), named("median(age)")
    assert errors(asked, median, [[30.0], [35.0], [40.0], [42.5], [20.0]]).tolist() == [0, 0, 0, 2.5, 10]
    assert rank_errors(asked, median, [[35.0], [42.5], [50.0], [60.0]]).tolist() == [0, 1, 1, 2]
    inside = held(
        asked, median, np.zeros((3, 1)), np.array([[41.0], [38.0], [0.0]]), np.array([[50.0], [39.0], [29.0]])
    )
    assert inside.ravel().tolist() == [False, True, False]


def test_answers_outside_the_bounds_are_moved_to_their_edge():
    asked, mean = asked_of([20, 30]), named("mean(age)")
    assert errors(asked, mean, [[200.0], [-5.0], [math.nan]]).tolist() == [65, 8, 28.5]


def test_a_top_list_is_wrong_by_records(owned):
    question = named("top(occupation, 5)")
    right = truth(owned.asked, question)
    counts = owned.rows.occupation.value_counts()
    wrong = right.copy()
    wrong[[0, 1]] = right[[1, 0]]
    assert errors(owned.asked, question, [right, wrong]).tolist() == [0, 2 * (counts.iloc[0] - counts.iloc[1]) / 5]


def test_several_aggregates_are_in_percent(owned):
    question = named("count, mean(age) where income_gt50k = 1")
    assert errors(owned.asked, question, [truth(owned.asked, question) * 1.02]) == pytest.approx(2)


def line(rival, error, way="a way"):
    about = {"question": "mean(age)", "relation": "replace", "epsilon": 0.1, "rival": rival, "way": way}
    return about | {"error": error, "standard_error": 0.1, "repetitions": 200, "seconds": 0.01}


def test_the_best_way_of_each_rival_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(question_rivals, "KEPT", tmp_path / "kept.jsonl")
    assert question_rivals.kept() == []
    lines = [line("opendp", 5.0), line("opendp", 2.0, "b"), line("opendp", 3.0, "b"), line("smartnoise", 4.0)]
    (tmp_path / "kept.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    found = question_rivals.best(question_rivals.kept())
    assert {key[3]: own["error"] for key, own in found.items()} == {"opendp": 3.0, "smartnoise": 4.0}


def test_a_rival_wins_by_more_than_two_standard_errors():
    rivals = {"opendp": line("opendp", 1.0), "smartnoise": line("smartnoise", 1.2), "diffprivlib": line("d", 2.0)}
    ours = Line(named("mean(age)"), Measured(1.45, 0.1, 200), None, Measured(0.9, 0.02, 200), 0.1, rivals)
    assert ours.beaten_by == ["opendp"]
    assert ours.ratio == 1.45
    assert not ours.uncovered
    said = " ".join(questions.verdict([ours]).split())
    assert "in 2 of 3 comparisons; not in: mean(age) (OpenDP)." in said
    assert "in 1 of 1 lines." in said
    assert Line(named("mean(age)"), ours.ours, None, Measured(0.88, 0.02, 200), 0.1, {}).uncovered


def test_a_session_is_timed(owned):
    assert 0 < questions.waited(owned, named("count by sex"), "add-remove", 0.1, times=1) < 60


def test_the_tables_are_made(owned, tmp_path, monkeypatch):
    monkeypatch.setattr(questions, "kept", lambda *_: [line("opendp", 2.0), line("diffprivlib", 3.0)])
    monkeypatch.setattr(questions, "waited", lambda *_: 0.01)
    monkeypatch.setattr(questions, "OFTEN", (2, 2))
    lines = list(questions.measured(owned, Setting("questions-adult", tmp_path, quick=True), "replace", 0.1))
    table = questions.table_of(lines, "replace", 0.1)
    assert isinstance(table, PageTable)
    assert [row[0] for row in table.rows] == [q.text for q in QUESTIONS]
    row = next(r for r in table.rows if r[0] == "mean(age)")
    assert [cell.value if isinstance(cell, Measured) else cell for cell in row[2:5]] == [2.0, 3.0, None]
    assert "of 2 comparisons" in questions.verdict(lines)


def test_lost_comparisons_are_asked_again_and_weighed_against_chance(owned, tmp_path, monkeypatch):
    monkeypatch.setattr(questions, "kept", lambda *_: [line("opendp", 0.5)])
    rivals = {"opendp": line("opendp", 0.01), "diffprivlib": line("diffprivlib", 2.0)}
    lost = Line(named("mean(age)"), Measured(1.0, 0.1, 200), None, Measured(0.95, 0.02, 200), 0.1, rivals)
    assert lost.behind("diffprivlib") == pytest.approx(-1 / math.hypot(0.1, 0.1))
    said = " ".join(questions.by_chance([lost]).split())
    assert "1 of 2 comparisons" in said
    assert f"with probability {1 - (1 - 0.02275) ** 2:.2f} (as if" in said
    assert "The largest difference is 7.0 standard errors" in said
    setting = Setting("questions-adult", tmp_path, quick=True)
    table = questions.asked_again(owned, setting, [("replace", lost)], 0.1)
    (row,) = table.rows
    assert row[:3] == ["mean(age)", "replace", "OpenDP"]
    assert row[6].value == 0.5
    assert row[8] == pytest.approx((row[7].value - 0.5) / math.hypot(row[7].error, 0.1))
    won = Line(lost.question, lost.ours, None, lost.coverage, 0.1, {"diffprivlib": rivals["diffprivlib"]})
    assert questions.asked_again(owned, setting, [("replace", won)], 0.1) is None
