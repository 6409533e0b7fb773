"""Plans of synthetic tables: they read nothing, use the mechanism's own noise, and agree with runs on made-up rows."""

import itertools
import json
import math
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import ParameterError
from sfumato.mechanisms.table.budget import TableScales
from sfumato.mechanisms.table.recipe import Table
from sfumato.planning import table_prior
from sfumato.planning.table_forecast import ErrorLaw, forecast
from sfumato.planning.table_plan import HOPELESS, TablePlan
from sfumato.privacy.calibration import calibrate

GUARANTEE = sf.Guarantee(epsilon=1.0, delta=1e-6, unit="record")
SCHEMA = sf.Schema(
    (
        sf.Integer("age", 17, 90),
        sf.Integer("hours", 1, 99),
        sf.Category("education", tuple("abcdefghij"), missing="a"),
        sf.Category("state", tuple("uvwxyz"), missing="u"),
        sf.Real("score", -1.0, 1.0),
        sf.Flag("rich"),
    )
)
ROWS = 20_000


def planned(rows=ROWS, **changed):
    facts = {"schema": SCHEMA, "guarantee": GUARANTEE, "label": "rich"} | changed
    return sf.plan(purpose="table", rows=rows, **facts)


def made_up(rows, rng):
    """Rows of the schema with one latent factor: not the prior that plans assume, but like it."""
    factor = rng.normal(size=rows)

    def bell(low, high, weight):
        mixed = weight * factor + math.sqrt(1 - weight**2) * rng.normal(size=rows)
        return np.clip(low + (high - low) * (0.4 + 0.17 * mixed), low, high)

    def levels(names, weight):
        shares = np.arange(1, len(names) + 1) ** -1.5
        mixed = weight * factor + math.sqrt(1 - weight**2) * rng.normal(size=rows)
        ends = np.quantile(mixed, np.cumsum(shares / shares.sum())[:-1])
        return np.array(names)[np.searchsorted(ends, mixed)]

    return pa.table(
        {
            "age": bell(17, 90, 0.4).astype(int),
            "hours": bell(1, 99, 0.3).astype(int),
            "education": levels(list("abcdefghij"), 0.6),
            "state": levels(list("uvwxyz"), 0.1),
            "score": bell(-1, 1, 0.5),
            "rich": factor + rng.normal(size=rows) > 1,
        }
    )


def cut(table, parts):
    """Cells of each column: levels, or equal parts of the bounds."""
    found = []
    for column in SCHEMA.data_columns:
        cells = table[column.name].to_numpy(zero_copy_only=False)
        if isinstance(column, sf.Category | sf.Flag):
            found.append(np.unique(cells, return_inverse=True)[1])
        else:
            units = (cells - column.low) / (column.high - column.low)
            found.append(np.clip((units * parts).astype(int), 0, parts - 1))
    return found


def variation(real, made, places):
    codes = [sum(cells[place] * 64**k for k, place in enumerate(places)) for cells in (real, made)]
    shares = [np.bincount(code, minlength=64 ** len(places)) / len(code) for code in codes]
    return np.abs(shares[0] - shares[1]).sum() / 2


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_predicted_errors_are_those_of_a_run_on_made_up_rows(epsilon):
    guarantee = replace(GUARANTEE, epsilon=epsilon)
    table = made_up(ROWS, np.random.default_rng(0))
    released = sf.release(table, schema=SCHEMA, guarantee=guarantee, mechanism=Table("rich"), ledger=None)
    rows = released.table()
    one = np.mean([variation(cut(table, 32), cut(rows, 32), (j,)) for j in range(6)])
    two = np.mean([variation(cut(table, 8), cut(rows, 8), pair) for pair in itertools.combinations(range(6), 2)])
    made = planned(guarantee=guarantee)
    assert made.one_way == pytest.approx(one, rel=0.5)
    assert made.two_way == pytest.approx(two, rel=0.5)


def test_noise_is_that_of_the_mechanism():
    recipe = Table("rich")
    prepared = recipe.prepare(SCHEMA, GUARANTEE)
    scales = TableScales(prepared.moves, calibrate(prepared, GUARANTEE).level)
    noise = planned().forecast.noise
    assert noise["one-way"] == scales.deviation(scales.alike(6, recipe.shares.one_ways))
    usual = scales.deviation(scales.alike(6, recipe.shares.rounds[0][1]))
    assert 0.5 * usual < noise["chosen"] < 2 * usual  # by the size of a table
    assert set(noise) == {"one-way", "label pair", "chosen"}
    at_once = replace(recipe, rounds=0).prepare(SCHEMA, GUARANTEE)
    assert set(forecast(at_once, scales, ROWS).noise) == {"one-way", "pair", "label pair"}


def test_errors_fall_with_epsilon_and_with_records():
    errors = [planned(guarantee=replace(GUARANTEE, epsilon=e)).two_way for e in (0.1, 0.3, 1, 3, 10)]
    assert errors == sorted(errors, reverse=True)
    errors = [planned(rows).two_way for rows in (1_000, 10_000, 100_000, 1_000_000)]
    assert errors == sorted(errors, reverse=True)
    assert planned(100).hopeless
    assert planned(100).two_way > HOPELESS
    assert planned(100).verdict.startswith("Hopeless")
    assert planned(1_000_000).verdict.startswith("Good")


def test_advice_says_what_epsilon_and_fewer_columns_buy():
    made = planned()
    twice = planned(guarantee=replace(GUARANTEE, epsilon=2.0))
    assert made.advice[0].startswith("Epsilon 2 instead of 1: two-way error about ")
    assert f"about {100 * twice.two_way:.2g}%" in made.advice[0]
    assert made.advice[1].startswith("Leaving out 2 of 6 columns: ")
    assert not any("zeros" in line for line in made.advice)  # no number begins at zero


def test_a_plan_is_a_mechanism_ready_to_run_and_a_dictionary():
    made = planned()
    assert isinstance(made, TablePlan)
    assert made.mechanism == Table("rich")
    facts = json.loads(json.dumps(made.to_dict()))
    assert facts["two_way_error"] == made.two_way
    assert facts["method"] == "pairs"
    assert set(facts["bins"]) == {column.name for column in SCHEMA.data_columns}
    assert made.describe().splitlines()[0] == "table of 6 columns, 20,000 records"
    assert made.verdict in made.describe()


def test_many_columns_get_a_tree_and_a_quick_plan():
    wide = sf.Schema(tuple(sf.Integer(f"c{i}", 0, 300 + i) for i in range(500)))
    start = time.process_time()
    made = planned(50_000, schema=wide, label=None)
    assert time.process_time() - start < 6  # about 1 s alone
    assert made.forecast.choice.method == "tree"
    assert "pair" not in made.forecast.noise


def test_numbers_that_are_mostly_zero_have_smaller_errors():
    counts = sf.Schema(tuple(sf.Integer(f"c{i}", 0, 20) for i in range(8)))
    usual, sparse = (planned(schema=counts, label=None, zeros=zeros) for zeros in (None, 0.9))
    assert sparse.two_way < usual.two_way / 2
    assert "state how often (zeros)" in usual.describe()
    assert "90% zeros" in sparse.describe()


def test_small_tables_and_large_categories_have_plans():
    one = planned(10, schema=sf.Schema((sf.Flag("f"),)), label=None)
    assert one.error == one.one_way
    assert "two" not in one.verdict
    large = sf.Schema((sf.Category("c", tuple(range(100_000))), sf.Flag("f"), sf.Date("d", "2000-01-01", "2020-01-01")))
    assert 0 < planned(schema=large, label="f").two_way < 1
    assert 0 <= planned(2, guarantee=sf.Guarantee(epsilon=0.01, unit="record")).two_way <= 1


def test_shapes_are_distributions_and_parts_keep_them():
    partition = Table().prepare(SCHEMA, GUARANTEE).partition
    for variable in partition.variables:
        shapes = table_prior.shapes(variable)
        assert math.fsum(shape.weight for shape in shapes) == pytest.approx(1)
        for shape in shapes:
            assert shape.shares.sum() == pytest.approx(1)
            for cells in (shape.one_way, shape.two_way):
                assert (cells.alike * cells.shares).sum() == pytest.approx(1)
                assert (cells.alike * cells.fine).sum() == variable.size
                assert 0 <= cells.diversity < 1


def test_without_noise_what_remains_is_what_the_model_leaves_out():
    prepared = Table("rich").prepare(SCHEMA, GUARANTEE)
    scales = TableScales(prepared.moves, 1e-6)
    made = forecast(prepared, scales, ROWS)
    exact = forecast(prepared, scales, ROWS, law=ErrorLaw(apart=(0.0, 0.0, 0.0), binned=0.0))
    assert made.one_way < 1e-4
    assert exact.two_way < 1e-3 < made.two_way


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"label": "nobody"}, "label"),
        ({"zeros": 1.5}, "zeros"),
        ({"rows": None}, "needs a schema and the number of records"),
        ({"schema": None}, "needs a schema and the number of records"),
        ({"distance": 1.0}, "distance say nothing about a table"),
        ({"guarantee": sf.Guarantee(epsilon=1.0, unit="attribute")}, "unit='record'"),
    ],
)
def test_what_a_table_cannot_be_planned_for_is_said(wrong, message):
    with pytest.raises(ParameterError, match=message):
        planned(**wrong)


def test_other_purposes_have_no_label():
    with pytest.raises(ParameterError, match="label are for purpose='table'"):
        sf.plan(schema=SCHEMA, guarantee=GUARANTEE, label="rich")


def test_the_command_prints_the_plan(tmp_path, capsys):
    SCHEMA.write(tmp_path / "people.toml")
    asked = ["plan", "--schema", str(tmp_path / "people.toml"), "--purpose", "table", "--rows", str(ROWS)]
    asked += ["--label", "rich", "--epsilon", "1", "--delta", "1e-6", "--unit", "record"]
    assert main(asked) == 0
    assert planned().describe() in capsys.readouterr().out
    assert main([*asked, "--plot", str(tmp_path / "x.svg")]) != 0
