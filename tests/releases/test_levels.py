"""Numbers cut into levels for randomized response: codes, neighbours, the law of answers, and what analysts see."""

import itertools
import math
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.cli import main
from sfumato.errors import ParameterError
from sfumato.estimation import response_columns
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.pipeline.release import release
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.releases.release import load
from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real
from sfumato.tables.schema import Schema
from support.evidence import agrees

MIXED = Schema(
    [
        Real("r", -1.0, 3.0),
        Real("m", 0.0, 1.0, missing="level"),
        Integer("i", 0, 99),
        Integer("few", 1, 3),
        Ordinal("o", list("abcdefgh")),
        Date("d", date(2020, 1, 1), date(2020, 12, 31)),
        Flag("f"),
        Category("c", ["x", "y", "z"]),
    ]
)
VALUE = Guarantee(epsilon=2.0, unit="attribute")


def test_numbers_of_more_values_than_levels_are_cut_and_others_are_not():
    sizes = [answer.categories for answer in response_columns.answers(MIXED, 4)]
    assert sizes == [4, 5, 4, 3, 4, 4, 2, 4]
    assert response_columns.answers(Schema([Real("r", -1.0, 3.0)]), 2)[0].points == ((0.0,), (2.0,))
    wide = Schema([Real("r", -1e15, 1e15)], scale="raw")
    assert response_columns.answers(wide, 2)[0].points == ((-5e14,), (5e14,))


def test_levels_are_equal_parts_of_the_bounds_whatever_a_cell_holds():
    schema = Schema([Real("r", -1.0, 3.0)])
    cells = np.array([[-np.inf, -9, -1, -0.01, 0, 0.99, 1, 2.99, 3, 9, np.inf, np.nan]])
    found = response_columns.codes(schema, cells, 4)
    assert found.tolist() == [[0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 0]]
    assert response_columns.codes(schema, cells, 2).tolist() == [[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0]]


@pytest.mark.parametrize("levels", [2, 3, 7, 256])
def test_codes_are_those_of_their_cells(levels):
    sizes = [answer.categories for answer in response_columns.answers(MIXED, levels)]
    codes = np.array([[place % size for place in range(300)] for size in sizes])
    again = response_columns.codes(MIXED, response_columns.encoded(MIXED, codes, levels), levels)
    assert np.array_equal(again, codes)


def test_one_value_changes_one_answer_and_every_answer_keeps_the_promise():
    """All neighbours in two columns of five places each: the law of both answers, as the manifest states it."""
    schema, recipe = Schema.reals(2, low=0.0, high=1.0), RandomizedResponse(levels=3)
    prepared = recipe.prepare(schema, VALUE)
    level = calibrate(prepared, VALUE).level
    keep = prepared.facts(level)["mechanism"]["keep"]
    places = [np.array([[a], [b]]) for a, b in itertools.product(np.linspace(0, 1, 5), repeat=2)]
    worst = 0.0
    for one, two in itertools.product(places, repeat=2):
        codes = [response_columns.codes(schema, place, 3)[:, 0] for place in (one, two)]
        if np.sum(one != two) > 1:
            continue
        assert np.sum(codes[0] != codes[1]) <= 1
        laws = [np.where(np.arange(3) == code[:, None], np.c_[keep], (1 - np.c_[keep]) / 2) for code in codes]
        worst = max(worst, float(np.abs(np.log(laws[0] / laws[1])).max(axis=1).sum()))
    assert worst <= VALUE.epsilon * (1 + 1e-12)
    assert worst > VALUE.epsilon * (1 - 1e-6)  # attained


@pytest.mark.parametrize(("half", "caught"), [(1.0, False), (0.5, True)])
def test_an_audit_of_levels_catches_half_the_noise(half, caught):
    schema = Schema.reals(1, low=0.0, high=1.0)
    prepared = RandomizedResponse(levels=4).prepare(schema, VALUE)
    level = half * calibrate(prepared, VALUE).level

    class Rows:
        def __init__(self, value):
            self.block = np.full((1, 200_000), value)

        def map(self, function):
            return [function(0, self.block)]

    sides = [next(iter(prepared.run(Rows(v), level, Secret.for_testing(1)).blocks))[0] for v in (0.1, 0.9)]
    scores = [(side == 0).astype(float) - (side == 3) for side in sides]
    assert lower_bound(*scores, confidence=1 - 1e-9).refutes(VALUE.epsilon) == caught


def test_distances_are_those_of_the_cut_records_on_average():
    rng = np.random.default_rng(1)
    data = np.repeat(rng.random((2, 30)), 2_000, axis=0)
    made = release(
        data,
        schema=Schema.reals(30, low=0, high=1),
        mechanism=RandomizedResponse(levels=4),
        guarantee=VALUE,
        secret=Secret.for_testing(1),
    )
    cut = (np.floor(data[[0, -1]] * 4) + 0.5) / 4
    found = made.distances(np.arange(2_000), np.arange(2_000, 4_000))
    assert agrees(found.uncut, float(np.sum((cut[0] - cut[1]) ** 2)))
    assert not agrees(found.uncut, 1.1 * float(np.sum((cut[0] - cut[1]) ** 2)))
    low, high = found.interval(0.95)
    assert 0.93 < np.mean((low <= np.sum((cut[0] - cut[1]) ** 2)) & (high >= np.sum((cut[0] - cut[1]) ** 2))) <= 1
    assert "middle of one of 4 levels" in found.covers
    assert made.levels == 4


def test_every_kind_of_column_comes_back_in_its_own_type(tmp_path):
    table = pa.table(
        {
            "r": [0.2, 3.0],
            "m": [0.1, None],
            "i": [5, 99],
            "few": [1, 3],
            "o": ["a", "h"],
            "d": [date(2020, 2, 1), date(2020, 12, 31)],
            "f": [True, False],
            "c": ["x", None],
        }
    )
    sure = Guarantee(epsilon=40.0, unit="attribute")
    release(table, schema=MIXED, mechanism=RandomizedResponse(levels=4), guarantee=sure).save(tmp_path / "r")
    made = load(tmp_path / "r")
    found = made.table().to_pylist()
    assert found[0] | {"d": None} == {
        "r": 0.5,
        "m": 0.125,
        "i": 12,
        "few": 1,
        "o": "b",
        "d": None,
        "f": True,
        "c": "x",
    }
    assert found[1]["m"] is None
    assert found[0]["d"] == date(2020, 2, 16)
    assert made.shares()["r=0.5"] == pytest.approx(0.5)
    assert np.array_equal(made.transform(table), made.codes.T)
    assert made.nearest(0, 1).indices.tolist() == [1]


@pytest.mark.parametrize("levels", [1, 257, True, 2.0])
def test_impossible_levels_are_refused(levels):
    with pytest.raises(ParameterError, match="levels"):
        RandomizedResponse(levels=levels).prepare(MIXED, VALUE)


def test_levels_without_numbers_publish_what_no_levels_would_but_for_the_draws():
    plain, cut = (RandomizedResponse(levels=levels).prepare(Schema([Flag("a")]), VALUE) for levels in (None, 2))
    assert plain.loss(0.5).delta(1.0) == cut.loss(0.5).delta(1.0)
    assert math.isclose(plain.facts(0.5)["mechanism"]["keep"][0], cut.facts(0.5)["mechanism"]["keep"][0])


def test_the_command_cuts_numbers(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(f"{i % 7},{i % 5}" for i in range(40)))
    (tmp_path / "t.toml").write_text(
        "".join(f'[[columns]]\nname = "{name}"\nkind = "real"\nlow = 0\nhigh = 6\n' for name in "ab")
    )
    command = ["release", "responses", "t.csv", "--schema", "t.toml", "--epsilon", "4"]
    command += ["--unit", "attribute", "--out", "r"]
    assert main(command) == 2
    assert "set levels" in capsys.readouterr().err
    assert main([*command, "--levels", "3"]) == 0
    assert main(["show", "r"]) == 0
    assert "numbers are cut into 3 equal parts of their bounds" in capsys.readouterr().out
    assert main(["estimate", "nearest", "r", "0"]) == 0
    assert "middle of one of 3 levels" in capsys.readouterr().out
