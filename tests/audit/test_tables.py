"""Audits of synthetic tables: nothing but noisy counts depends on a record, and broken twins are caught.

What a twin draws too little noise for is refuted by the likelihood of all noisy counts; what it lets through without
noise shows where both runs have the same noisy outcomes.
"""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.audit.cases import audit
from sfumato.audit.claimed_moves import moves
from sfumato.audit.examine import Effort
from sfumato.audit.grey_box import greybox
from sfumato.audit.recorder import Draw
from sfumato.audit.worst_pairs import moved, table_pair
from sfumato.errors import ParameterError
from sfumato.mechanisms import base
from sfumato.mechanisms.table import counting, one_ways
from sfumato.mechanisms.table.budget import Meter, TableMoves, TableScales
from sfumato.mechanisms.table.recipe import PreparedTable, Table
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema
from tests.support.all_kinds import LEVELS, PLAIN, changed_rows, table
from tests.support.short_fits import shorten

PEOPLE = Schema((Integer("i", 0, 9), Category("c", ("x", "y", "z")), Flag("f", missing="level")))
MIXED = Schema((LEVELS[0], PLAIN[2], LEVELS[4], PLAIN[10]), scale="bounds")
SLACK, COMES = {"delta": 0.01}, {"neighbours": "add-remove"}


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    shorten(monkeypatch)


def faults(pair, recipe, promise, schema=MIXED, epsilon=1.0):
    promise = Guarantee(epsilon=epsilon, **promise)
    return " ".join(greybox(*pair, schema=schema, mechanism=recipe, guarantee=promise).faults)


# ---- nothing but noisy counts depends on a record -------------------------------------------------------------------

PATHS = {
    "pairs": (Table(method="pairs", rounds=0), SLACK),
    "rows, label, a round": (Table(label="flag", rows=7, rounds=1), SLACK),
    "pure, add-remove, rounds": (Table(label="category"), COMES),
    "group, add-remove": (Table(method="pairs", rounds=0), SLACK | COMES | {"group": 2}),
    "tree": (Table(method="tree"), SLACK),
    "copula": (Table(method="copula", label="flag"), SLACK),
    "copula, pure, add-remove": (Table(method="copula", label="category"), COMES),
}


@pytest.mark.parametrize("name", PATHS)
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32))
def test_a_release_of_a_table_shows_nothing_but_noisy_counts(name, seed):
    recipe, promise = PATHS[name]
    rng, group = np.random.default_rng(seed), promise.get("group", 1)
    ones, twos = zip(*changed_rows(rng, MIXED, int(rng.integers(group, 30))), strict=True)
    others = ones[group:] if "neighbours" in promise else (*twos[:group], *ones[group:])
    pair = [table(MIXED, ones), table(MIXED, others)]
    assert faults(pair[:: int(rng.choice([-1, 1]))], recipe, promise) == ""


def test_choices_of_a_table_are_counted_in_the_scale_of_its_noise():
    """At rate r, by scores that move by d: sqrt(pi/2) d r beside Gaussian noise, 2 d r beside Laplace noise."""

    def draws(law, scale, fed):
        return Draw(("table", law, str(scale)), law, scale, 0, np.array(fed), np.zeros(1, np.int64))

    chosen = draws("choice", 0.1, [4, 7]), draws("choice", 0.1, [6, 6])
    noisy = {law: (draws(law, 5.0, [1, 0]), draws(law, 5.0, [0, 1])) for law in ("gaussian", "laplace")}
    found = moves([chosen, noisy["gaussian"]], ["table"])
    assert found == {"table": pytest.approx(math.sqrt(math.pi / 2 * 0.2**2 + 2 / 25))}
    assert moves([noisy["laplace"], chosen], ["table"]) == {"table": pytest.approx(0.4 + 0.4)}


# ---- what it must catch: noise that is too small --------------------------------------------------------------------


def refuted(recipe, promise, epsilon=1.0, samples=30_000):
    effort = Effort(samples=samples, seconds=1e9, seed=4)
    found = audit(recipe, schema=PEOPLE, guarantee=Guarantee(epsilon=epsilon, **promise), effort=effort)
    assert found.control.epsilon == 0
    return found.refuted


def moves_by(recipe, promise):
    """How far the worst pair moves all noisy counts, as a share of what is allowed."""
    prepared = recipe.prepare(PEOPLE, Guarantee(epsilon=1.0, **promise))
    level = calibrate(prepared, prepared.guarantee).level
    return moved(prepared, level, table_pair(prepared))["table"] * level


def test_the_worst_pair_moves_as_much_as_is_allowed():
    for recipe, promise in (
        (Table(method="pairs", rounds=0), SLACK),
        (Table(method="pairs", rounds=1, label="f"), COMES),
        (Table(method="pairs", rounds=0), {}),
    ):
        assert moves_by(recipe, promise | {"group": 2}) == pytest.approx(1.0)
    assert 0.9 < moves_by(Table(method="pairs", rounds=2), SLACK) < 1


@pytest.mark.parametrize("promise", [SLACK, COMES])
def test_a_table_left_out_of_the_sum_is_caught(promise, monkeypatch):
    """One-way tables are drawn as if each were alone, and are not charged."""
    recipe, honest = Table(method="pairs", rounds=0), TableScales.alike
    assert not refuted(recipe, promise)
    monkeypatch.setattr(TableScales, "alike", lambda self, _tables, _share: honest(self, 1, 1.0))
    with pytest.raises(ParameterError, match="nothing was drawn"):  # the meter alone would refuse it
        moves_by(recipe, promise)
    monkeypatch.setattr(Meter, "_charge", lambda *_: None)
    assert moves_by(recipe, promise) > 1.5
    assert refuted(recipe, promise)


def test_a_pair_counted_twice_is_caught(monkeypatch):
    """Each record twice in every pair, as if a block were read again."""
    recipe, honest = Table(method="pairs", rounds=0), counting.tables
    monkeypatch.setattr(counting, "tables", lambda *given: 2 * honest(*given))
    assert moves_by(recipe, SLACK) > 1.5
    assert refuted(recipe, SLACK)


def test_a_pair_measured_twice_at_the_price_of_once_is_caught(monkeypatch):
    """Both noisy tables of a pair show; one is charged."""
    recipe, honest = Table(method="pairs", rounds=0), Meter._noisy

    def twice(self, counts, scale, move, *where):
        if where[0] == "pair":
            spent = self._spent
            for number in range(4):
                honest(self, counts, scale, move, *where, f"again {number}")
                self._spent = spent
        return honest(self, counts, scale, move, *where)

    monkeypatch.setattr(Meter, "_noisy", twice)
    assert moves_by(recipe, SLACK) > 1.5
    assert refuted(recipe, SLACK)


def test_replace_counted_as_add_remove_and_a_forgotten_group_are_caught(monkeypatch):
    monkeypatch.setattr(TableMoves, "of", classmethod(lambda cls, _promise, order: cls(False, 1, order)))
    assert moves_by(Table(method="pairs", rounds=0), SLACK) == pytest.approx(math.sqrt(2))
    assert moves_by(Table(method="pairs", rounds=0), {}) == pytest.approx(2)
    assert moves_by(Table(method="pairs", rounds=0), SLACK | COMES | {"group": 3}) == pytest.approx(3)
    assert refuted(Table(method="pairs", rounds=0), {"group": 2}, samples=100_000)


@pytest.mark.parametrize("promise", [SLACK, SLACK | COMES, {}])
def test_a_second_moment_of_rows_longer_than_its_noise_is_for_is_caught(promise, monkeypatch):
    recipe, honest = Table(method="copula"), TableMoves.moment
    assert moves_by(recipe, promise) <= 1
    assert not refuted(recipe, promise)
    monkeypatch.setattr(TableMoves, "moment", lambda self, columns, top: honest(self, columns, top // 16))
    assert moves_by(recipe, promise) > 1.5
    assert refuted(recipe, promise)


# ---- what it must catch: what goes without noise --------------------------------------------------------------------

CROWD = Schema((Integer("i", 0, 9), Category("c", ("x", "y", "z")), Flag("f"), Real("r", 0, 1)))


def crowd(rows, correlated, seed=1):
    """Records of whom some have columns that hang together, the others not."""
    rng = np.random.default_rng(seed)
    i = rng.integers(0, 10, rows)
    j = np.where(np.arange(rows) < correlated, i, rng.integers(0, 10, rows))
    return {
        "i": i,
        "c": np.array(["x", "y", "z"])[i % 3],
        "f": j % 2 == 0,
        "r": np.where(np.arange(rows) < correlated, j / 10, rng.random(rows)),
    }


def crowds(one, two):
    return pa.table(crowd(*one)), pa.table(crowd(*two))


GROUP = {"delta": 0.01, "group": 400}  # so that two crowds of 400 records are neighbours


def test_choices_without_noise_are_caught(monkeypatch):
    pair, recipe = crowds((400, 0), (400, 400)), Table(method="pairs", rounds=1)
    assert faults(pair, recipe, GROUP, CROWD, epsilon=2e4) == ""
    monkeypatch.setattr(Meter, "choose", lambda _self, scores, _scale, *_where: int(np.argmax(scores)))
    assert "depends on the data" in faults(pair, recipe, GROUP, CROWD, epsilon=2e4)


def test_bins_taken_from_the_data_are_caught(monkeypatch):
    pair, recipe = crowds((400, 400), (400, 400, 2)), Table(method="pairs", rounds=0)
    assert faults(pair, recipe, GROUP, CROWD, epsilon=2e4) == ""
    honest, table_of, exact = one_ways._bins, Meter.table, []

    def noted(self, counts, scale, *where):
        exact.extend([counts.astype(float)] if where[0] == "one-way" else [])
        return table_of(self, counts, scale, *where)

    def exact_bins(state, ones, deviation):
        return honest(state, [exact.pop(0) for _ in ones], deviation)

    monkeypatch.setattr(Meter, "table", noted)
    monkeypatch.setattr(one_ways, "_bins", exact_bins)
    assert "manifest.json depends on the data" in faults(pair, recipe, GROUP, CROWD, epsilon=2e4)


def test_a_number_of_rows_that_is_not_public_is_caught(monkeypatch):
    pair, recipe, promise = crowds((400, 400), (401, 400)), Table(method="pairs", rounds=0), SLACK | COMES
    pair = pair[0], pair[1].slice(0, 399)
    assert faults(crowds((400, 400), (400, 400)), recipe, promise, CROWD) == ""
    monkeypatch.setattr(base, "public_rows", lambda count, _guarantee: count)
    assert "depends on the data" in faults(pair, recipe, promise, CROWD)


def test_a_manifest_that_tells_of_a_record_is_caught(monkeypatch):
    pair, recipe = crowds((400, 400), (400, 400)), Table(method="pairs", rounds=0)
    run = PreparedTable.run

    def telling(self, rows, level, secret):
        published = run(self, rows, level, secret)
        first = int(rows.sum(lambda _p, block: np.array([int(block[0].max())]))[0])
        return replace(published, facts=published.facts | {"warnings": [f"at most {first}"]})

    monkeypatch.setattr(PreparedTable, "run", telling)
    pair = pair[0], pair[1].filter(pair[1]["i"].to_numpy() < 9)
    assert "manifest.json depends on the data" in faults(pair, recipe, SLACK | COMES, CROWD)
