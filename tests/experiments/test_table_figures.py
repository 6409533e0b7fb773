"""Figures of synthetic tables: by hand where they can be, and as the trials that set the targets computed them."""

import numpy as np
import pandas as pd
import pytest

import table_figures
from sfumato.tables.columns import Category, Integer, Real
from sfumato.tables.schema import Schema
from table_data import RealTable, rounded_range

EXPECTED = {
    "tv1": 0.03540000000000001,
    "ks": 0.027666666666666645,
    "tv2": 0.041666666666666664,
    "tv2lab": 0.03306666666666667,
    "tv3": 0.08036533333333334,
    "qmean": 0.006373000000000002,
    "qmax": 0.0325333333333333,
    "lr": 0.9982622878614785,
    "hgb": 0.9999822214269656,
}


def people(rows, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, rows)
    pay = np.round(np.exp(rng.normal(0, 1, rows)) * age, 2)
    town = np.array(["inland", "north", "south"])[rng.integers(0, 3, rows)]
    rich = (pay + 40 * (town == "north") > 90).astype(int)
    return pd.DataFrame({"rich": rich, "age": age, "pay": np.minimum(pay, 500), "town": town})


@pytest.fixture(scope="module")
def table():
    columns = (Category("rich", (0, 1)), Integer("age", 18, 80), Real("pay", 0, 500))
    schema = Schema((*columns, Category("town", ("inland", "north", "south"))))
    return RealTable("people", people(3000, 1), people(2000, 2), schema, "rich")


def test_figures_are_those_of_the_trials_that_set_the_targets(table):
    found = table_figures.figures(table, people(2500, 3))
    assert found == pytest.approx(EXPECTED, rel=1e-9)
    assert set(found) == set(table_figures.FIGURES)


def test_the_real_table_has_no_distance_from_itself(table):
    found = table_figures.figures(table, table.train, models=False)
    assert set(found.values()) == {0.0}


def test_total_variation_by_hand():
    real, made = np.array([[0, 0], [0, 1], [1, 1], [1, 1]]), np.array([[0, 0], [0, 0], [1, 1], [1, 1]])
    assert table_figures.variation(real, made, (2, 2), (0, 1)) == 0.25
    assert table_figures.variation(real, made, (2, 2), (0,)) == 0


def test_a_shuffled_column_shows_in_pairs_and_not_in_single_columns(table):
    rng = np.random.default_rng(4)
    mixed = table.train.assign(rich=rng.permutation(table.train["rich"]))
    found = table_figures.figures(table, mixed, models=False)
    assert found["tv1"] == 0
    assert found["tv2lab"] > 0.1


def test_models_learn_nothing_from_a_label_of_one_class(table):
    assert table_figures.learnt(table, table.train.assign(rich=1)) == {"lr": 0.5, "hgb": 0.5}


def test_a_value_that_is_not_listed_is_an_error(table):
    with pytest.raises(SystemExit, match="town"):
        table_figures.figures(table, table.train.assign(town="west"))


def test_ranges_are_rounded_outwards():
    assert rounded_range(pd.Series([1863.0, 3858.0])) == (1800.0, 3900.0)
    assert rounded_range(pd.Series([-173, 601])) == (-180.0, 610.0)
