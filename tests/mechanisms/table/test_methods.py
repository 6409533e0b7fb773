"""Which tables a synthetic table measures, by public facts, and trees of pairs."""

import dataclasses

import numpy as np
import pytest

from sfumato.mechanisms.table import methods
from sfumato.mechanisms.table.budget import TableMoves, TableScales
from sfumato.mechanisms.table.recipe import Table
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema
from tests.support.tables_run import run

SCALES = TableScales(TableMoves(replace=True, group=1, order=2), 4.0)
RECORD = Guarantee(epsilon=1.0, delta=1e-6, unit="record")


def test_many_columns_or_few_records_get_a_tree_and_others_all_pairs():
    facts = [(15, 30_000.0), (15, 1e6), (500, 50_000.0), (60, 1_000.0), (3, 10.0)]
    found = [methods.chosen(Table(), variables, SCALES, records).method for variables, records in facts]
    assert found == ["pairs", "pairs", "tree", "tree", "pairs"]


def test_more_records_never_turn_pairs_into_a_tree():
    for variables in (2, 20, 100, 400):
        found = [methods.chosen(Table("y"), variables, SCALES, 10.0**power).method for power in range(1, 9)]
        assert found == sorted(found, reverse=True)  # trees first


def test_the_choice_is_said_in_one_sentence():
    said = methods.chosen(Table(), 500, SCALES, 50_000.0).reason
    assert said == (
        "500 variables and about 50,000 records: they are too few for many tables, so a tree of pairs was measured"
    )
    assert "1 variable and" in methods.chosen(Table(), 1, SCALES, 7.0).reason
    assert methods.chosen(Table(method="pairs"), 500, SCALES, 50.0).reason == "method='pairs' was asked for"


@pytest.mark.parametrize("recipe", [Table(), Table("y"), Table("y", rounds=0), Table(rounds=1, label_share=0.8)])
def test_one_way_tables_have_the_same_share_whatever_is_chosen(recipe):
    shares = [methods.shares(recipe, method, 5) for method in ("pairs", "tree", "copula")]
    assert len({share.one_ways for share in shares}) == 1
    assert methods.before(recipe, 5).shares.one_ways == shares[0].one_ways


def test_one_variable_gets_the_whole_budget():
    assert methods.before(Table("y"), 1).shares.one_ways == 1.0


def flags(count, rows, rng):
    """Flags in a chain: each is the one before it, but for a tenth of the rows."""
    found = [rng.random(rows) < 0.5]
    while len(found) < count:
        found.append(found[-1] ^ (rng.random(rows) < 0.1))
    return {f"f{i}": column for i, column in enumerate(found)}


def test_a_tree_finds_the_pairs_that_belong_together():
    columns = flags(12, 20_000, np.random.default_rng(1))
    schema = Schema(tuple(Flag(name) for name in columns))
    published, rows = run(Table(method="tree"), schema, RECORD, columns, Secret.for_testing(3))
    pairs = {tuple(t["columns"]) for t in published.facts["mechanism"]["tables"] if len(t["columns"]) == 2}
    assert pairs == {(i, i + 1) for i in range(11)}
    drawn = np.array([rows[f"f{i}"] for i in (4, 5)])
    assert np.mean(drawn[0] == drawn[1]) == pytest.approx(0.9, abs=0.03)


def test_a_tree_of_independent_columns_takes_few_pairs():
    rng = np.random.default_rng(2)
    columns = {f"f{i}": rng.random(300) < 0.5 for i in range(12)}
    schema = Schema(tuple(Flag(name) for name in columns))
    tight = dataclasses.replace(RECORD, epsilon=0.3)
    published, _ = run(Table("f0", method="tree"), schema, tight, columns, Secret.for_testing(3))
    others = [t for t in published.facts["mechanism"]["tables"] if len(t["columns"]) == 2 and 0 not in t["columns"]]
    assert len(others) < 11
    assert published.facts["mechanism"]["method"] == "tree"
