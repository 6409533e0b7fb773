"""Plans on schemas that mix all kinds of columns: forecasts are what a sketch then has."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.intervals.moments import Geometry
from sfumato.mechanisms.sketch import Sketch
from sfumato.planning.forecast import ColumnWidths, reach
from sfumato.planning.planner import plan
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema
from tests.support import all_kinds
from tests.support.all_kinds import SCHEMAS


@pytest.mark.parametrize("unit", ["attribute", "record"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("family", "within"), [("identity", 1e-3), ("gaussian", 0.5), ("orthonormal", 0.3)])
@pytest.mark.parametrize("name", ["plain", "levels", "levels, raw"])
def test_forecast_sensitivities_are_near_those_of_a_sketch(name, family, within, noise, unit):
    schema, guarantee = SCHEMAS[name], Guarantee(epsilon=1.0, delta=1e-6, unit=unit)
    dim = schema.encoding.dim
    width = dim if family == "identity" else 8
    given = {} if family == "identity" else {"dimension": width, "projection": family}
    made = [Sketch(noise=noise, seed=seed, **given).prepare(schema, guarantee) for seed in range(3)]
    real = np.mean([one.reach * one.projection.unit for one in made])
    forecast = reach(Geometry(family, dim, width), made[0].order, guarantee.allowed_change, ColumnWidths.of(schema))
    assert forecast == pytest.approx(real, rel=within)


@pytest.mark.parametrize("name", ["plain", "levels, raw"])
@pytest.mark.parametrize("unit", ["attribute", "record"])
def test_a_plan_is_made_with_advice_and_its_best_sketch_can_be_released(name, unit, tmp_path):
    schema, rng = SCHEMAS[name], np.random.default_rng(1)
    guarantee = Guarantee(epsilon=1.0, delta=1e-6, unit=unit)
    found = plan(schema=schema, guarantee=guarantee, rows=1000)
    assert found.best
    rows = all_kinds.table(schema, [all_kinds.random_row(rng, schema) for _ in range(20)])
    made = sf.release(rows, schema=schema, mechanism=Sketch(dimension=3), guarantee=guarantee)
    made.save(tmp_path / "release")
    back = sf.load(tmp_path / "release")
    assert back.schema == schema
    np.testing.assert_array_equal(back.array(), made.array())


def test_a_plan_gives_advice_where_no_scale_is_stated():
    """A smaller change is advised in the units that the schema has, which it need not state."""
    schema = Schema([Real("a", 0, 100), Category("c", ["x", "y"])])
    guarantee = Guarantee(epsilon=0.1, delta=1e-6)
    advice = plan(schema=schema, guarantee=guarantee, rows=1000).advice
    assert any("in units of the declared ranges" in line for line in advice)
    raw = plan(schema=replace(schema, scale="raw"), guarantee=guarantee, rows=1000).advice
    assert not any("in units of the declared ranges" in line for line in raw)
