"""Plans for similar records beside a search: a table for a small data set."""

import numpy as np

import similar_plans
from page import Setting, Table
from sfumato.privacy.guarantee import Guarantee
from similar import Similar


def test_a_table_has_the_choice_its_forecast_and_the_best(monkeypatch, tmp_path):
    monkeypatch.setattr(similar_plans, "PROMISES", {"value, 30": Guarantee(epsilon=30.0, unit="attribute")})
    monkeypatch.setattr(similar_plans, "MORE", (200, 200))
    rng = np.random.default_rng(1)
    records = np.clip(0.5 + 0.2 * rng.standard_normal((400, 3)) @ rng.standard_normal((3, 8)), 0, 1)
    (tmp_path / "x.parquet").write_bytes(b"")
    setting = Setting("similar-plans-x", tmp_path, tmp_path, quick=True)
    found = list(similar_plans.compared(setting, "x.parquet", lambda _: Similar.of(records, np.zeros(400))))
    text, table, _, more = found
    assert "200 records of 8 numbers, 100 queries" in text
    assert isinstance(table, Table)
    (line,) = table.rows
    predicted, measured, best, share = line[2], line[3].value, line[8].value, line[9]
    assert abs(predicted - measured) < 0.1
    assert 0.3 < best <= 1
    assert share == measured / best
    assert more.rows[0][1:3] == [200, 200]
    assert not list(similar_plans.compared(Setting("similar-plans-x", tmp_path), "x.parquet", lambda _: None))
