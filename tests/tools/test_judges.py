"""What can be checked of the judges without them: that each has its broken twin, and what the page of results says."""

import ast
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import accountant
import canaries
import samples
import sfumato
import verdicts
from verdicts import Verdict

JUDGES = sorted((Path(__file__).parents[2] / "judges").glob("*.py"))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", JUDGES, ids=lambda path: path.name)
def test_judges_see_nothing_of_sfumato_but_what_everyone_sees(path):
    ours = {name for name in imported(path) if name.split(".")[0] == "sfumato"}
    assert ours <= {"sfumato", "sfumato.randomness.secret"}, ours  # the latter for test noise


def test_every_canary_has_a_broken_twin_with_too_little_noise():
    assert all(case.twin > 1 for case in canaries.CASES)
    names = [case.name for case in canaries.CASES]
    assert len(names) == len(set(names))


def test_every_public_mechanism_comes_before_the_judge_of_canaries():
    recipes = {name for name in sfumato.__all__ if hasattr(getattr(sfumato, name), "prepare")}
    source = Path(canaries.__file__).read_text() + Path(samples.__file__).read_text()
    assert "Sketch" in recipes
    assert recipes <= set(re.findall(r"sf\.([A-Za-z]+)\b", source))


def test_every_ledger_has_a_broken_twin_that_forgets():
    assert all(case.forgotten >= 1 for case in accountant.CASES)
    assert {case.composition for case in accountant.CASES} >= {"tight", "gaussian", "advanced"}
    assert all(case.halved for case in accountant.CASES if case.make is accountant.mixture and case.forgotten == 1)


def advantage(scores):
    """How often a canary that was in scores above one that was out."""
    inside, outside = scores
    return np.mean(inside[:, None] > outside) + np.mean(inside[:, None] == outside) / 2


@pytest.mark.parametrize(
    "name", ["sketch, Laplace, one value", "sketch, Laplace, l2 ball", "responses, whole record", "edge noise, Laplace"]
)
def test_the_scores_of_a_broken_twin_tell_its_canaries_apart_more_often(name):
    (case,) = (case for case in canaries.CASES if case.name == name)
    honest = advantage(case.scores(case.epsilon, 4000, 1))
    assert 0.55 < honest < 0.75  # at epsilon 1 nobody can be right more often than e / (1 + e) = 0.731 of the time
    assert advantage(case.scores(4 * case.epsilon, 4000, 2)) > honest + 0.1


def test_the_other_accountant_is_told_every_answer_that_a_survey_has():
    table = pa.table({"f": [True], "c": ["x"], "d": ["x"]})
    columns = (sfumato.Flag("f"), sfumato.Category("c", ("x", "y", "z")), sfumato.Category("d", ("x", "y"), "x"))
    made = sfumato.release(
        table,
        schema=sfumato.Schema(columns),
        mechanism=sfumato.RandomizedResponse(),
        guarantee=sfumato.Guarantee(epsilon=3.0),
    )
    parts = accountant.Parts()
    parts.told(made.manifest)
    # no value is an answer too, but where the schema says what a missing cell means
    assert [parameters[1] for _, parameters, _ in parts.laws] == [2, 4, 2]


def test_the_other_accountant_is_told_of_both_stages_of_components():
    made = sfumato.release(
        np.zeros((2, 2)),
        schema=sfumato.Schema.reals(2, low=-1.0, high=1.0),
        mechanism=sfumato.Components(dimension=1),
        guarantee=sfumato.Guarantee(epsilon=1.0),
    )
    parts = accountant.Parts()
    parts.told(made.manifest)
    each = [sensitivity / scale for law, (sensitivity, scale), _ in parts.laws if law == "laplace"]
    assert sorted(each) == pytest.approx([0.3, 0.7])


FINE = Verdict(("a",), accused=False, twins=(True,))


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [FINE, Verdict(("b",), accused=True, twins=(True,))],
        [FINE, Verdict(("b",), accused=False, twins=(True, False))],
        [FINE, Verdict(("b",), accused=False, twins=())],
    ],
)
def test_a_judge_fails_that_accuses_or_lets_a_twin_go_or_has_none(bad):
    assert not verdicts.failed([FINE, FINE])
    assert verdicts.failed(bad)


def test_a_judge_replaces_its_own_section_of_the_page_and_no_other():
    page = verdicts.section(verdicts.section("", "one", "first"), "two", "second")
    again = verdicts.section(page, "one", "other")
    assert "first" not in again
    assert again.count("## one") == 1
    assert again.index("other") < again.index("## two") < again.index("second")
    assert verdicts.section(again, "two", "second") == again


def test_the_page_of_results_has_every_case_and_no_false_word():
    page = verdicts.PAGE.read_text()
    for case in (*canaries.CASES, *accountant.CASES):
        assert f"| {case.name} |" in page
    found = re.findall(
        r"^(\d+) judged, (\d+) of (\d+) broken twins caught, (\d+) wrongly accused\.$", page, re.MULTILINE
    )
    assert [int(judged) for judged, *_ in found] == [len(canaries.CASES), len(accountant.CASES)]
    assert all(caught == twins and accused == "0" for _, caught, twins, accused in found)
