"""Attacks on synthetic tables: they find members where nothing is protected, and stay below the bound where it is."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.attacks import attribute_inference, example_data, linkage, table_membership
from sfumato.attacks.membership import UNPROTECTED
from sfumato.attacks.table_game import Excess, TableGame, excess_curve
from sfumato.cli import main
from sfumato.errors import ParameterError
from sfumato.mechanisms.table.recipe import Table
from sfumato.privacy import attack_bounds
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Integer, Real
from sfumato.tables.schema import Schema
from tests.support.short_fits import shorten

PEOPLE = example_data.people(600, np.random.default_rng(1))


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    shorten(monkeypatch)


@pytest.fixture
def secrets():
    seeds = iter(range(10_000))
    return lambda: Secret.for_testing(next(seeds))


def game(pool=200, case=PEOPLE):
    return TableGame.of(case, Table(rounds=0), pool=pool)


def test_people_depend_on_each_other_and_are_of_their_schema():
    batch = PEOPLE.table
    assert batch.num_rows == 600
    rich = batch["income"].to_numpy(zero_copy_only=False) == "high"
    years = batch["education"].to_numpy()
    assert years[rich].mean() > years[~rich].mean() + 0.3
    assert 0.05 < rich.mean() < 0.5
    codes = game().of_records(np.arange(600))
    assert (codes.max(axis=1) < game().partition.sizes).all()


def test_distances_are_of_numbers_as_they_lie_and_of_levels_whether_they_differ():
    schema = Schema((Integer("i", 0, 10), Category("c", ("x", "y", "z")), Real("r", 0, 1, missing="level")))
    rows = pa.table({"i": [0, 5, 10], "c": ["x", "x", "z"], "r": [0.0, None, 0.0]})
    case = example_data.TargetTable("few", pa.concat_tables([rows] * 4), schema)
    found = game(4, case)
    codes = found.of_records(np.arange(3))
    assert found.distances(codes, codes).tolist() == [[0, 1.5, 2], [1.5, 0, 2.5], [2, 2.5, 0]]
    known = np.array([[True] * 3, [False] * 3, [True, False, False]])
    assert found.distances(codes, codes, known).tolist() == [[0, 1.5, 1], [0.5, 0, 0.5], [1, 0.5, 0]]
    assert found.apart(codes, codes[:, ::-1]).tolist() == [[1, 0, 1], [1, 0, 1], [0, 0, 0]]


def test_members_are_told_where_nothing_is_protected_and_hardly_where_it_is(secrets):
    found = table_membership.curves(game(), [1.0], shadows=1, runs=1, secrets=secrets)
    assert [curve.attack for curve in found] == list(table_membership.ATTACKS)
    for curve in found:
        (point,) = curve.points
        assert curve.chance == 0.5
        assert curve.unprotected > 0.6, curve.attack
        assert point.bound == pytest.approx(0.5 + attack_bounds.advantage(1.0, 1e-6) / 2)
        assert point.success < 0.5 + 4 * point.error + 0.1
    assert found[0].unprotected > 0.9


def test_the_likelihood_of_a_model_is_that_of_its_samples(secrets):
    """Rows of the table itself are likelier than rows whose columns are shuffled."""
    of = game()
    made = of.made(of.pool[: of.members], 1e4, secrets())
    rng = np.random.default_rng(2)
    shuffled = {name: PEOPLE.table[name].take(rng.permutation(PEOPLE.rows)) for name in PEOPLE.table.column_names}
    mixed = dataclasses.replace(of, case=dataclasses.replace(PEOPLE, table=pa.table(shuffled)))
    inside = of.pool[: of.members]
    real = table_membership.model_likelihood(of, made, inside)
    other = table_membership.model_likelihood(mixed, made, inside)
    assert real.shape == (of.members, 1)
    assert np.isfinite(real).all()
    assert np.median(real) > np.median(other) + 0.5


def test_columns_are_inferred_of_members_from_their_own_rows_and_no_better_than_of_others_from_a_table(secrets):
    (curve,) = attribute_inference.curves(game(), "income", [1.0], runs=1, secrets=secrets)
    assert curve.unprotected > 0.05
    assert curve.points[0].bound == pytest.approx(attack_bounds.advantage(1.0, 1e-6))
    assert abs(curve.points[0].success) < 4 * curve.points[0].error + 0.05
    with pytest.raises(ParameterError, match="column"):
        attribute_inference.curves(game(), "nothing", [1.0])


def test_the_rest_of_a_record_is_told_by_its_own_row_and_hardly_by_a_synthetic_one(secrets):
    (curve,) = linkage.table_curves(game(), 4, [1.0], runs=1, secrets=secrets)
    assert curve.unprotected > 0.5
    assert abs(curve.points[0].success) < 0.1
    for known, says in ((0, "known"), (7, "less than 7")):
        with pytest.raises(ParameterError, match=says):
            linkage.table_curves(game(), known, [1.0])


def test_excess_is_the_rate_of_members_less_that_of_others():
    one = Excess.of(np.array([True, True, True, False, True, False, False, False]), 4)
    assert one == Excess(0.75, 0.25)
    assert one.value == 0.5
    assert one.variance == 0.375
    of = game(40)
    curve = excess_curve(of, ("all", "hit"), lambda _, dealt: np.arange(dealt.size) < 20, [UNPROTECTED], runs=2)
    assert (curve.unprotected, curve.points[0].success, curve.points[0].error) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("line", "curves"),
    [
        ("membership --table --shadows 1 --label income", 3),
        ("linkage --table --known 3", 1),
        ("attributes --column married", 1),
    ],
)
def test_tables_are_attacked_from_the_command_line(line, curves, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["attack", *line.split(), "--pool", "60", "--epsilons", "2", "--repeats", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["attack"] == line.split()[0]
    assert [curve["against"] for curve in facts["curves"]] == ["synthetic tables"] * curves


def test_a_table_of_ones_own_is_attacked_and_its_last_column_inferred(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(PEOPLE.table.slice(0, 90), "people.parquet")
    (tmp_path / "people.toml").write_text(PEOPLE.schema.to_toml())
    given = ["--data", "people.parquet", "--schema", "people.toml", "--epsilons", "2", "--repeats", "1"]
    assert main(["attack", "attributes", *given]) == 0
    printed = capsys.readouterr().out
    assert "22 of people.parquet, one record protected" in printed
    assert "'income' predicted rightly, members less others" in printed


def test_help_of_attributes_shows_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["attack", "attributes", "--help"])
    assert "example:\n  sfumato attack attributes" in capsys.readouterr().out
