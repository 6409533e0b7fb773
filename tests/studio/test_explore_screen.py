"""The Explore screen: what each kind of release can be asked, answers as the release gives them, and bounds on all."""

import dataclasses
import json
import math
from html import escape

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import ParameterError
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.report.numbers import number
from sfumato.studio import explore_screen
from sfumato.studio.frame.guard import Keys
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs import form_fields
from sfumato.studio.inputs.folder import Folder
from sfumato.studio.inputs.form_fields import Choice, Number, Positions, Whole, read
from sfumato.tables.columns import Flag, Id, Real
from sfumato.tables.schema import Schema
from support.kinds import KINDS, ROWS, made
from support.visiting import Visitor

_ASKED = {
    "records": ["nearest", "distance", "clusters"],
    "covariance": ["correlation", "variance", "regression", "components"],
    "histogram": ["counts", "count"],
    "synthetic": ["sample", "model"],
    "table": ["columns", "rows", "probability", "count", "column"],
    "graph": ["cut", "conductance"],
}


def group(kind):
    for name in ("covariance", "histogram", "synthetic", "table", "graph"):
        if name in kind:
            return name
    return "records"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_it_can_be_asked_and_answers_by_default(kind):
    found = explore_screen.questions(made(kind))
    assert [q["name"] for q in found] == _ASKED[group(kind)]
    for question in found:
        told = explore_screen.answer(made(kind), question["name"], {})
        if question["name"] == "regression" and "refused" in told:  # few records: the feature is lost in the noise
            assert "fewer features" in told["refused"]
            continue
        assert told["sentence"]
        assert told["covers"] or "no error bars" in told["note"]
        assert bool(told["unit"]) == bool(told["covers"])
        assert len(told["shown"]) == len(told["rows"]) >= (question["name"] != "columns")  # which are pictures alone
        assert all(len(row) == len(told["head"]) for row in told["rows"])
        json.dumps({k: v for k, v in told.items() if k != "picture"})


@pytest.mark.parametrize("kind", ["sketch", "components", "responses", "distances"])
def test_answers_about_records_are_the_releases_own(kind):
    found = made(kind)
    told = explore_screen.answer(found, "distance", {"first": "3", "second": "17", "level": "90%"})
    own = found.distance(3, 17)
    assert told["rows"][0][1:] == [own.value, own.standard_error, *own.interval(0.9)]
    assert told["head"][3] == "90% from"
    assert told["shown"][0][1] == number(own.value)
    near = explore_screen.answer(found, "nearest", {"record": "5", "k": "4"})
    assert [int(row[0]) for row in near["rows"]] == found.nearest(5, 4).indices.tolist()
    np.testing.assert_array_equal([row[1] for row in near["rows"]], found.nearest(5, 4).distances.value)
    np.testing.assert_array_equal([row[4] for row in near["rows"]], found.nearest(5, 4).distances.interval(0.95)[1])


def test_an_interval_that_excludes_nothing_is_said_to():
    flags = Schema([Flag("f"), Flag("g")])
    promise = Guarantee(epsilon=0.01, unit="attribute")
    recipe, secret = Sketch(dimension=2, seed=1), Secret.for_testing(1)
    lost = release(np.zeros((9, 2)), schema=flags, mechanism=recipe, guarantee=promise, secret=secret)
    told = explore_screen.answer(lost, "distance", {})
    assert told["rows"][0][3:] == [0.0, 2.0]
    assert "nothing is excluded" in told["note"]
    assert "nothing is excluded" not in explore_screen.answer(made("responses"), "distance", {})["note"]


@pytest.mark.parametrize("kind", ["sketch", "components", "responses", "distances"])
def test_groups_hold_every_record_once(kind):
    told = explore_screen.answer(made(kind), "clusters", {"clusters": "3"})
    sizes = [row[1] for row in told["rows"]]
    assert sum(sizes) == ROWS
    assert sizes == sorted(sizes, reverse=True)
    assert told["picture"].startswith("<svg")
    assert told["picture"].count("h0") == ROWS


def test_many_records_are_grouped_by_a_public_choice_of_them(monkeypatch):
    monkeypatch.setattr(explore_screen, "MOST_CLUSTERED", 50)
    monkeypatch.setattr(explore_screen, "MOST_EMBEDDED", 50)
    for kind in ("sketch", "responses", "distances"):
        told = explore_screen.answer(made(kind), "clusters", {})
        assert sum(row[1] for row in told["rows"]) == 50
        assert f"50 of {ROWS}, drawn by a public rule" in told["sentence"]


def test_answers_about_covariances_are_the_releases_own():
    found = made("covariance")
    told = explore_screen.answer(found, "variance", {"column": "age", "other": "income", "weight": "-0.5"})
    own = found.variance({"age": 1.0, "income": -0.5})
    assert told["rows"][0][1:] == [own.value, own.standard_error, *own.interval(0.95)]
    parts = explore_screen.answer(found, "components", {"count": "2"})
    np.testing.assert_array_equal([row[1] for row in parts["rows"]], found.principal_components(2).variances.value)
    assert "at once" in parts["note"]


def flags(centred=True):
    """A release whose flag is true for a quarter of the records, so far from the middle of its bounds."""
    rng = np.random.default_rng(2)
    share = rng.random(20_000) < 0.25
    rows = np.column_stack([share, share ^ (rng.random(20_000) < 0.2), rng.random(20_000)])
    schema = Schema([Flag("rich"), Flag("owner"), Real("x", 0, 1)])
    terms = {"mechanism": Covariance(centred=centred), "guarantee": Guarantee(epsilon=1.0, delta=1e-6)}
    return release(rows, schema=schema, **terms, secret=Secret.for_testing(1)), rows


def test_variances_and_correlations_are_about_the_mean_and_regressions_have_an_intercept():
    found, rows = flags()
    told = explore_screen.answer(found, "variance", {"column": "rich"})
    assert told["rows"][0][1] == pytest.approx(np.var(rows[:, 0]), abs=0.01)
    assert told["unit"] == "variance about the mean, in the columns' own units"
    told = explore_screen.answer(found, "correlation", {"pairs": "2", "level": "90%"})
    own = found.correlation()["rich", "owner"]
    assert told["rows"][0] == ["rich, owner", own.value, own.standard_error, *own.interval(0.9)]
    assert own.value == pytest.approx(np.corrcoef(rows.T)[0, 1], abs=0.05)
    assert len(told["rows"]) == 2
    assert "correlations of the columns" in told["picture"]
    assert "eigenvalue" in told["note"]
    for features in ("rich, x", "all others"):
        told = explore_screen.answer(found, "regression", {"target": "owner", "features": features})
        assert [row[0] for row in told["rows"]] == ["(intercept)", "rich", "x"]
    slope = found.regression("owner", ["rich", "x"]).coefficients
    assert told["rows"][1][1:3] == [slope.value[0], slope.standard_error[0]]
    wrong = explore_screen.answer(found, "regression", {"target": "owner", "features": "rihc"})
    assert "did you mean rich" in wrong["refused"]
    middle, _ = flags(centred=False)
    assert "correlation" not in [q["name"] for q in explore_screen.questions(middle)]


def test_answers_about_graphs_are_the_releases_own():
    for kind in ("graph-sketch", "graph-noise", "graph-responses"):
        found = made(kind)
        for name in ("cut", "conductance"):
            told = explore_screen.answer(found, name, {"vertices": "0, 2-4 7", "level": "99%"})
            own = getattr(found, name)([0, 2, 3, 4, 7])
            np.testing.assert_array_equal(told["rows"][0][1:], [own.value, own.standard_error, *own.interval(0.99)])
            assert f"5 of {found.vertices} vertices" in told["sentence"]


def test_samples_are_the_models_own_and_the_same_for_a_seed():
    found = made("synthetic")
    told = explore_screen.answer(found, "sample", {"rows": "5", "seed": "3"})
    own = found.sample(5, 3).table(reconstruct=True)
    assert told["head"] == own.column_names
    assert [row[0] for row in told["rows"]] == own.column("age").to_pylist()
    assert told == explore_screen.answer(found, "sample", {"rows": "5", "seed": "3"})
    model = explore_screen.answer(found, "model", {})
    assert [row[0] for row in model["rows"]] == ["Bern", "Basel"]
    assert sum(row[1] for row in model["rows"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("kind", "question", "fields", "wrong"),
    [
        ("sketch", "nearest", {"k": "101"}, {"k": "give a whole number from 1 to 100"}),
        ("sketch", "nearest", {"k": "0"}, {"k": "1 to 100"}),
        ("sketch", "nearest", {"record": "157", "k": "ten"}, {"record": "0 to 156", "k": "1 to 100"}),
        ("sketch", "nearest", {"record": "-1"}, {"record": "0 to 156"}),
        ("sketch", "nearest", {"record": "1e2"}, {"record": "0 to 156"}),
        ("sketch", "nearest", {"record": "9" * 5000}, {"record": "0 to 156"}),
        ("sketch", "nearest", {"record": "9" * 30_000}, {"record": "at most 20,000 letters"}),
        ("sketch", "nearest", {"level": "100%"}, {"level": "one of the names"}),
        ("sketch", "distance", {"first": "4", "second": "4"}, {"second": "another record"}),
        ("sketch", "clusters", {"clusters": "8"}, {"clusters": "from 1 to 7"}),
        ("responses", "clusters", {"clusters": "0"}, {"clusters": "from 1 to 7"}),
        ("covariance", "variance", {"column": "<script>"}, {"column": "one of the names"}),
        ("covariance", "variance", {"column": "age", "other": "age"}, {"other": "another column"}),
        ("covariance", "variance", {"weight": "nan"}, {"weight": "give a number from"}),
        ("covariance", "variance", {"weight": "1e300"}, {"weight": "give a number from"}),
        ("covariance", "components", {"count": "6"}, {"count": "from 1 to 5"}),
        ("synthetic", "sample", {"rows": "201"}, {"rows": "from 1 to 200"}),
        ("synthetic", "sample", {"seed": "99999999999"}, {"seed": "give a whole number"}),
        ("graph-noise", "cut", {"vertices": "40"}, {"vertices": "numbers from 0 to 39"}),
        ("graph-noise", "cut", {"vertices": "5-3"}, {"vertices": "numbers from 0 to 39"}),
        ("graph-noise", "cut", {"vertices": "0-99999"}, {"vertices": "numbers from 0 to 39"}),
        ("graph-noise", "cut", {"vertices": "one"}, {"vertices": "numbers from 0 to 39"}),
        ("graph-noise", "cut", {"vertices": "1,,2"}, {"vertices": "numbers from 0 to 39"}),
    ],
)
def test_what_cannot_be_is_refused_beside_its_field(kind, question, fields, wrong):
    told = explore_screen.answer(made(kind), question, fields)
    assert set(told) == {"wrong"}
    assert set(told["wrong"]) == set(wrong)
    for name, words in wrong.items():
        assert words in told["wrong"][name]
        assert fields[name][:50] not in told["wrong"][name] or len(fields[name]) < 4


def test_a_question_of_another_kind_is_refused():
    with pytest.raises(ParameterError, match="does not answer"):
        explore_screen.answer(made("graph-noise"), "nearest", {})


def test_what_has_no_answer_says_why():
    one = dataclasses.replace(made("graph-sketch"), columns=made("graph-sketch").columns[:1])
    assert "at least two rows" in explore_screen.answer(one, "conductance", {})["refused"]


def test_a_single_record_has_no_neighbours_to_ask_for():
    alone = release(
        np.eye(1), schema=Schema.reals(1, 0, 1), mechanism=Sketch(dimension=1, seed=1), guarantee=Guarantee(epsilon=1.0)
    )
    assert [q["name"] for q in explore_screen.questions(alone)] == ["clusters"]
    assert explore_screen.answer(alone, "clusters", {})["rows"] == [["group 1", 1, 1.0]]


def test_public_ids_stand_beside_positions():
    schema = Schema([Id("who"), Real("age", 0, 1)])
    table = pa.table({"who": ["<b>", "b", "c"], "age": [0.1, 0.5, 0.9]})
    named = release(table, schema=schema, mechanism=Sketch(dimension=1, seed=1), guarantee=Guarantee(epsilon=1.0))
    told = explore_screen.answer(named, "nearest", {"record": "1", "k": "2"})
    assert {row[0] for row in told["rows"]} == {"0 (<b>)", "2 (c)"}


def test_fields_read_texts_and_know_their_defaults():
    fields = (
        Whole("k", "", "3", low=1, high=9),
        Number("w", "", "1", low=-2, high=2),
        Choice("c", "", " a", "", (" a", "b")),
    )
    assert read(fields, {}) == ({"k": 3, "w": 1.0, "c": " a"}, {})
    assert read(fields, {"k": " 9 ", "w": "-0.5", "c": "b"}) == ({"k": 9, "w": -0.5, "c": "b"}, {})
    assert Positions("v", "", "0", count=5).read("4, 0-2 2") == [0, 1, 2, 4]
    many = Choice("c", "", "0", "", tuple(map(str, range(600)))).plain()
    assert many["choices"] is None
    assert "600 names" in many["hint"]
    assert math.isclose(fields[1].read("1e0"), 1.0)


def test_ranges_are_merged_before_they_are_counted_out(monkeypatch):
    field = Positions("v", "", "0", count=1 << 20)
    rng = np.random.default_rng(1)
    for _ in range(50):
        pairs = np.sort(rng.integers(0, 60, (6, 2)))
        text = ", ".join(f"{a}-{b}" for a, b in pairs)
        assert field.read(text) == sorted({i for a, b in pairs for i in range(a, b + 1)})
    monkeypatch.setattr(form_fields, "_MOST_POSITIONS", 100)
    assert field.read(", ".join(["0-98", "1-99", "7"] * 500)) == list(range(100))
    with pytest.raises(ParameterError, match="at most 100 numbers"):
        field.read("0-1048575")


def test_many_wide_ranges_take_no_more_than_one():
    ranges = form_fields._merged([(0, 999_999)] * 4000)
    assert sum(map(len, ranges)) == 1_000_000


# ---- the page -------------------------------------------------------------------------------------------------------


def visit(folder, *lines):
    """What a browser that has been let in is shown."""
    visitor = Visitor(Studio(Folder.of(folder), None, Keys()))
    return [visitor.get(line) for line in lines]


@pytest.fixture
def folder(tmp_path):
    made("sketch").save(tmp_path / "people.release")
    made("covariance").save(tmp_path / "spread")
    return tmp_path


def test_the_page_lists_releases_and_answers_questions(folder):
    listed, page, asked, groups, other = visit(
        folder,
        "/explore",
        "/explore/people.release",
        "/explore/people.release?question=distance&first=3&second=17",
        "/explore/people.release?question=clusters&clusters=2",
        "/explore/spread",
    )
    assert "people.release" in listed.text
    assert page.status_code == 200
    assert page.text.count("<form") == 3
    assert number(made("sketch").distance(3, 17).value) in asked.text
    assert 'value="17"' in asked.text
    assert f"Unit: {escape(made('sketch').distance(3, 17).unit)}." in asked.text
    assert "style=" not in asked.text
    assert "<svg" in groups.text
    assert "Principal components" in other.text


def test_the_page_says_what_is_wrong_beside_the_field(folder):
    hostile = "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    page, other, missing = visit(
        folder,
        f"/explore/people.release?question=nearest&k={hostile}",
        "/explore/people.release?question=cut",
        "/explore/nothing",
    )
    assert page.status_code == 200
    assert "give a whole number from 1 to 100" in page.text
    assert 'aria-invalid="true"' in page.text
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert(1)" in page.text
    assert (other.status_code, missing.status_code) == (400, 404)


def test_hostile_names_are_texts_on_the_page(tmp_path):
    schema = Schema([Real('"><script>alert(1)</script>', 0, 1), Flag("</select><script>alert(2)</script>")])
    terms = {"mechanism": Covariance(noise="laplace"), "guarantee": Guarantee(epsilon=1.0)}
    release(np.eye(2), schema=schema, **terms).save(tmp_path / "odd")
    for page in visit(
        tmp_path, *(f"/explore/odd{line}" for line in ("", "?question=variance", "?question=components"))
    ):
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "alert(1)" in page.text
