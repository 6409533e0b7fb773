"""Similar records under a learned prior: scores against brute force, and a table for a small data set."""

import numpy as np
import pandas as pd
import pytest

import similar
from page import Setting, Table
from similar import Similar, scored


def grouped(count=300):
    """Records of three groups in 20 columns."""
    rng = np.random.default_rng(1)
    groups = rng.integers(3, size=count)
    spread = 0.1 * rng.standard_normal((count, 2)) @ rng.standard_normal((2, 20))
    return np.clip(rng.random((3, 20))[groups] + spread, 0, 1), groups


def test_scores_are_those_of_brute_force():
    records, groups = grouped(60)
    data, queries = Similar.of(records, groups), np.array([3, 17])
    true = np.sum((records[queries][:, None] - records) ** 2, axis=2)
    true[[0, 1], queries] = np.inf
    assert np.allclose(data.squared(queries)[:, :3], true[:, :3])
    order = np.argsort(true, axis=1)
    right, wrong = order[:, :10], order[:, -11:-1]
    for shown, share in ((right, 1.0), (wrong, 0.0)):
        exact = np.take_along_axis(true, shown, 1)

        class Found:
            indices = shown

            class distances:  # noqa: N801
                @staticmethod
                def interval(_, exact=exact):
                    return exact - 1, exact + np.where(np.arange(10) < 5, 1, -0.5)

        found = scored(data, queries, Found)
        assert found.recall.mean() == share
        assert found.held.mean() == 0.5
        assert np.array_equal(found.agreement, groups[shown] == groups[queries][:, None])


@pytest.mark.parametrize("name", ["mnist", "msweb", "msnbc", "gfe", "sports"])
def test_every_reader_gives_records_between_0_and_1(name, tmp_path):
    rng, count = np.random.default_rng(2), 12
    frames = {
        "mnist": pd.DataFrame(rng.integers(0, 255, (count, 6)), columns=["label", "test", *map(str, range(4))]),
        "msweb": pd.DataFrame({"user": np.repeat(np.arange(count), 2), "area": rng.integers(0, 9, 2 * count)}),
        "msnbc": pd.DataFrame(rng.integers(0, 3, (count, 17))).rename(columns=str),
        "gfe": pd.DataFrame(rng.normal(300, 200, (count, 303))).rename(columns=str).rename(columns={"2": "target"}),
        "sports": pd.DataFrame(rng.normal(0, 20, (count, 48))).rename(columns=str).rename(columns={"0": "activity"}),
    }
    frames[name].to_parquet(tmp_path / "data.parquet")
    data = getattr(similar, name)(tmp_path / "data.parquet")
    assert len(data.records) == len(data.labels) == len(data.rows) == count
    assert data.records.min() >= 0
    assert data.records.max() <= 1
    few = data.some(5, rng)
    assert len(few.records) == len(few.labels) == 5


def test_a_table_has_both_lines_for_every_epsilon(monkeypatch, tmp_path):
    monkeypatch.setattr(similar, "EPSILONS", (4.0,))
    monkeypatch.setattr(similar, "MOVED", (8.0,))
    monkeypatch.setattr(similar, "COUNTED", (3, 3))
    (tmp_path / "x.parquet").write_bytes(b"")
    setting = Setting("similar-x", tmp_path, tmp_path, quick=True)
    text, table = similar.compared(setting, "x.parquet", lambda _: Similar.of(*grouped()))
    assert "300 records of 20 numbers, 100 queries" in text
    assert isinstance(table, Table)
    assert [row[:3] for row in table.rows] == [
        ["value", 4.0, "confidence"],
        ["value", 4.0, "credible"],
        ["l2 move", 8.0, "confidence"],
        ["l2 move", 8.0, "credible"],
    ]
    for plain, learned in (table.rows[:2], table.rows[2:]):
        assert learned[4].value > plain[4].value  # the same group, more often
        assert learned[5].value > 0.9
        assert plain[-2:] == [None, None]
    assert not list(similar.compared(Setting("similar-x", tmp_path), "x.parquet", lambda _: None))
