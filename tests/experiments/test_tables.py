"""Tables beside rivals: how numbers are cut for them, which of their runs are shown, and the page that is made."""

import json

import numpy as np
import pandas as pd
import pytest

import table_rivals
import tables
from page import Setting
from page import Table as PageTable
from sfumato.tables.columns import Category, Integer, Real
from sfumato.tables.schema import Schema
from table_data import RealTable

COLUMNS = (
    Integer("age", 0, 99),
    Integer("gain", 0, 100_000),
    Real("share", -1, 1),
    Integer("ratio", 0, 501, missing="level"),
    Category("rich", (0, 1), missing=0),
)


def people(rows, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    gain = np.where(rng.random(rows) < 0.9, 0, rng.integers(1, 100_001, rows))
    ratio = pd.Series(rng.integers(0, 502, rows)).astype("Int64").mask(rng.random(rows) < 0.2)
    rich = (age + gain / 1000 > 60).astype(int)
    return pd.DataFrame({"age": age, "gain": gain, "share": rng.uniform(-1, 1, rows), "ratio": ratio, "rich": rich})


@pytest.fixture
def table():
    return RealTable("people", people(4000, 1), people(1000, 2), Schema(COLUMNS), "rich")


@pytest.mark.parametrize("kind", ["equal", "mass"])
@pytest.mark.parametrize("parts", [8, 32])
def test_cut_numbers_come_back_from_their_own_part(table, kind, parts):
    cuts = table_rivals.cut_numbers(table, kind, parts, 2.0, np.random.default_rng(0))
    for column in COLUMNS[:4]:
        cells, own = table.train[column.name], cuts[column.name]
        coded, size = table_rivals.coded(column, cells, cuts)
        assert size == own.parts == coded.max() + 1
        drawn = own.drawn(coded, np.random.default_rng(1))
        assert drawn.dtype == cells.dtype
        assert drawn.isna().equals(cells.isna())
        assert np.array_equal(own.read(drawn), coded)


def test_a_value_that_many_share_is_a_part_of_its_own(table):
    cuts = table_rivals.cut_numbers(table, "mass", 16, 2.0, np.random.default_rng(0))
    coded = cuts["gain"].read(table.train["gain"])
    (zero,) = set(coded[table.train["gain"] == 0])
    assert (cuts["gain"].drawn(np.full(50, zero), np.random.default_rng(1)) == 0).all()


def test_parts_have_about_equal_mass(table):
    cuts = table_rivals.cut_numbers(table, "mass", 10, 0.5, np.random.default_rng(0))
    counts = np.bincount(cuts["age"].read(table.train["age"]))
    assert 9 <= len(counts) <= 11
    assert counts.max() < 2 * len(table.train) / 10


def test_listed_values_come_back(table):
    cuts = table_rivals.cut_numbers(table, "equal", 16, 0.0, np.random.default_rng(0))
    rows = np.column_stack([table_rivals.coded(c, table.train[c.name], cuts)[0] for c in COLUMNS])
    made = table_rivals.decoded(table, rows, cuts, np.random.default_rng(1))
    assert made["rich"].equals(table.train["rich"])
    assert list(made) == list(table.train)


def run(parts, tv2, **more):
    given = {"table": "adult", "method": "aim", "replaced": True, "epsilon": 1.0, "cuts": "mass"}
    return given | {"parts": parts, "tv2": tv2, "degree": 2, "megabytes": 80.0, "inference": "sfumato"} | more


def test_rivals_are_shown_in_their_best_setting(tmp_path, monkeypatch):
    runs = [run(8, 0.03), run(8, 0.04), run(16, 0.02), run(16, 0.03), run(32, 0.01), run(16, 0.001, epsilon=3.0)]
    monkeypatch.setattr(tables, "KEPT", tmp_path / "kept.jsonl")
    tables.KEPT.write_text("".join(json.dumps(line) + "\n" for line in runs))
    found = tables.rivals("adult", "aim", replaced=True, epsilon=1.0)
    assert found.cell("tv2").value == pytest.approx(0.025)  # a single lucky run of another setting does not count
    assert tables.cut_as(found) == "16 parts of equal noisy mass, a model of at most 80 MB"
    assert found.cell("hgb") is None
    assert not tables.rivals("adult", "mst").found


def test_the_comparison_has_a_line_for_each_method(table, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "KEPT", tmp_path / "kept.jsonl")
    kept = [run(8, 0.03, table="blog", seed=0, cpu=2.0), run(8, 0.04, table="blog", seed=0, cpu=90.0, inference="mbi")]
    tables.KEPT.write_text("".join(json.dumps(line) + "\n" for line in kept))
    monkeypatch.setattr(tables, "load", lambda *_: small(table))
    monkeypatch.setattr(tables, "SDMETRICS", tmp_path / "missing")
    parts = list(tables.comparison(Setting("tables-figures", tmp_path, quick=True)))
    shown = {part.name: part for part in parts if isinstance(part, PageTable)}
    assert [row[0] for row in shown["adult"].rows] == ["sfumato", "real rows"]
    assert [row[0] for row in shown["blog"].rows] == ["sfumato", "AIM", "real rows"]
    own = dict(zip(shown["adult"].header, shown["adult"].rows[0], strict=True))
    assert own["tv 1"].value < 0.2
    assert own["sdmetrics"] is None
    assert [(row[2], row[4]) for row in shown["fits"].rows] == [("sfumato", 0.03), ("mbi", 0.04)]
    assert any("not used to choose" in part for part in parts if isinstance(part, str))


def small(table):
    kept = [c for c in COLUMNS if c.name != "ratio"]
    train, test = (frame.drop(columns="ratio") for frame in (table.train, table.test))
    return RealTable("people", train, test, Schema(tuple(kept)), "rich")
