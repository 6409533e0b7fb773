"""Synthetic tables of what people give by mistake: a useful table or one clear line, and never a traceback."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, ReleaseError
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Date, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema
from tests.support.short_fits import shorten

A, B = Real("a", -3.0, 3.0), Category("b", ("x", "y", "z"))
TWO = Schema((A, B))
METHODS = ("pairs", "tree", "copula")


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    shorten(monkeypatch)


def two(rows=200):
    rng = np.random.default_rng(rows)
    return pa.table({"a": rng.normal(size=rows).clip(-3, 3), "b": rng.choice(["x", "y", "z"], rows)})


def released(data, schema, recipe=None, **promise):
    guarantee = sf.Guarantee(**{"epsilon": 1.0, "delta": 1e-6, "unit": "record"} | promise)
    recipe = sf.Table() if recipe is None else recipe
    return sf.release(data, schema=schema, mechanism=recipe, guarantee=guarantee, secret=Secret.for_testing(1)).table()


@pytest.mark.parametrize("method", METHODS)
def test_one_column_has_no_pairs(method):
    for name, schema in (("a", Schema((A,))), ("b", Schema((B,)))):
        found = released(two().select([name]), schema, sf.Table(method=method))
        assert found.shape == (200, 1)
    assert released(two().select(["b"]), Schema((B,)), sf.Table("b", method=method)).shape == (200, 1)


@pytest.mark.parametrize("method", METHODS)
def test_constant_columns_stay_constant(method):
    data = pa.table({"a": [5] * 400, "b": ["x"] * 400})
    schema = Schema((Integer("a", 0, 10), Category("b", ("x",), missing="x")))
    found = released(data, schema, sf.Table("b", method=method), epsilon=8.0)
    assert set(found["b"].to_pylist()) == {"x"}
    assert np.mean(np.array(found["a"].to_pylist()) == 5) > 0.9


@pytest.mark.parametrize("method", METHODS)
def test_all_missing(method):
    data = pa.table({"a": pa.nulls(400, pa.float64()), "b": pa.nulls(400, pa.string())})
    schema = Schema((Real("a", -3, 3, missing="level"), Category("b", ("x", "y"), missing=None)))
    found = released(data, schema, sf.Table(method=method), epsilon=8.0)
    assert found["a"].null_count > 350
    assert found["b"].null_count > 350


def test_no_rows_are_refused_where_their_number_is_public_and_make_a_table_where_it_is_not():
    with pytest.raises(ReleaseError, match="no rows"):
        released(two(0), TWO)
    assert 1 <= released(two(0), TWO, neighbours="add-remove").num_rows < 200


@pytest.mark.parametrize("method", METHODS)
def test_one_row(method):
    assert released(two(1), TWO, sf.Table("b", method=method)).num_rows == 1
    assert released(two(1), TWO, sf.Table("b", method=method), neighbours="add-remove").num_rows >= 1


@pytest.mark.parametrize("method", METHODS)
def test_a_label_of_one_class(method):
    data = two().set_column(1, "b", pa.array(["x"] * 200))
    found = released(data, TWO, sf.Table("b", method=method), epsilon=8.0)["b"].to_pylist()
    assert found.count("x") > 170


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("promise", [{"epsilon": 0.001}, {"epsilon": 50.0}, {"delta": 0.0}, {"group": 3}])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_any_promise_gives_a_table(method, promise, neighbours):
    found = released(two(), TWO, sf.Table("b", method=method), neighbours=neighbours, **promise)
    assert found.column_names == ["a", "b"]
    assert found.num_rows == 200 if neighbours == "replace" else found.num_rows >= 1


def test_so_little_epsilon_that_no_noise_is_large_enough_is_one_line():
    with pytest.raises(ParameterError, match="choose a"):
        released(two(), TWO, epsilon=1e-14, delta=0.0)


@pytest.mark.parametrize("method", METHODS)
def test_sets_vectors_dates_and_ordinals(method):
    rng = np.random.default_rng(1)
    data = pa.table(
        {
            "s": [rng.choice(["p", "q", "r"], 2, replace=False).tolist() for _ in range(100)],
            "v": rng.random((100, 3)).tolist(),
            "d": [dt.date(2020, 1, 1) + dt.timedelta(int(i)) for i in rng.integers(0, 900, 100)],
            "o": rng.choice(["low", "mid", "high"], 100),
        }
    )
    columns = (
        Set("s", ("p", "q", "r"), most=2),
        Vector("v", 3, 0.0, 1.0),
        Date("d", "2020-01-01", "2023-01-01"),
        Ordinal("o", ("low", "mid", "high")),
    )
    for label in (None, "d", "o", "v"):
        found = released(data, Schema(columns), sf.Table(label, method=method))
        assert found.num_rows == 100
        assert {len(v) for v in found["v"].to_pylist()} == {3}


@pytest.mark.parametrize("label", [None, "k"])
def test_a_category_of_a_hundred_thousand_levels(label):
    """The few levels that stand out stay; chance does not make thousands of others common."""
    rng, many = np.random.default_rng(1), 100_000
    common = np.where(rng.random(5000) < 0.5, 17, rng.integers(0, many, 5000))
    data = pa.table({"k": common, "b": rng.choice(["x", "y", "z"], 5000)})
    schema = Schema((Category("k", tuple(range(many)), missing=0), B))
    found = np.array(released(data, schema, sf.Table(label)).column("k").to_pylist())
    assert np.mean(found == 17) == pytest.approx(0.5, abs=0.1)
    assert np.unique(found).size > 500
