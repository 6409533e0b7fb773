"""Statistics over several owners: cuts, scores that know the truth, and tables of a stand-in."""

import numpy as np
import pandas as pd
import pytest

import owners
import sfumato as sf
from owners import Truth, cut, encoded, made_up, plain_centres, plain_scores
from page import Picture, Setting, Table


@pytest.fixture(scope="module")
def data():
    return made_up(1_000)


@pytest.mark.parametrize("how", owners.CUTS)
def test_every_row_has_one_owner(data, how):
    parts = cut(data, 5, how, np.random.default_rng(1))
    assert sorted(np.concatenate(parts)) == list(range(len(data.rows)))
    sizes = [len(part) for part in parts]
    assert (max(sizes) > 2 * min(sizes)) == (how == "uneven")
    kinds = [len(np.unique(data.groups[part])) for part in parts]
    assert (min(kinds) == 1) == (how == "by group")


def test_plain_pooled_rows_have_no_error(data):
    truth = Truth.of(data, 500)
    scores = plain_scores(truth, encoded(data.moments, data.rows))
    assert scores["correlation"] == pytest.approx(0)
    assert scores["components"] == pytest.approx(1)
    assert scores["classifier"] > 0.9
    assert truth.clusters(plain_centres(encoded(data.sketches, data.rows))) == pytest.approx(1, abs=0.05)
    assert truth.clusters(np.ones((2, 8)) / 2) == pytest.approx(0)


def test_other_statistics_have_errors(data):
    truth, count = Truth.of(data, 500), len(data.moments.schema.encoding.names)
    unknown = np.full((count, count), np.nan)
    apart = ~np.eye(count, dtype=bool)
    assert truth.correlation(unknown) == pytest.approx(np.abs(truth.correlations)[apart].mean())
    worst = np.linalg.eigh(truth.covariance)[1][:, : owners.COMPONENTS]
    assert truth.components(worst) < 0.1
    assert truth.classifier(np.zeros(count - 1)) == pytest.approx(0.5)


def test_owners_have_the_epsilons_that_they_are_given():
    usual = sf.Guarantee(epsilon=1.0, delta=1e-6)
    assert [one.epsilon for one in owners.promises(usual, 4, "own epsilons")] == [1.0, 2.0, 0.5, 1.0]
    assert {one.epsilon for one in owners.promises(usual, 4, "uneven")} == {1.0}


def test_tables_of_a_stand_in(monkeypatch, tmp_path):
    monkeypatch.setattr(owners, "OWNERS", (5,))
    setting = Setting("owners-x", tmp_path, quick=True)
    parts = list(owners.compared(setting, "none.parquet", lambda _: None))
    tables = {part.name: part for part in parts if isinstance(part, Table)}
    assert list(tables) == list(owners.STATISTICS)
    together = {name: {tuple(row[:2]): row[3].value for row in table.rows} for name, table in tables.items()}
    assert set(together["correlation"]) == {(1, "pooled"), *((5, how) for how in owners.CUTS)}
    assert together["clusters"][1, "pooled, records"] < 0.5 < together["clusters"][5, "by group"]
    by_group = next(row for row in tables["components"].rows if row[1] == "by group")
    assert by_group[3].value > 0.9 > by_group[6].value  # owners who differ know little of the others


def test_errors_over_rows_of_a_stand_in(tmp_path):
    setting = Setting("owners-y", tmp_path, quick=True)
    text, table, picture = owners.by_rows(setting, "none.parquet", lambda _: None)
    assert "2, 5 and 20 owners" in text
    assert [row[:2] for row in table.rows] == [[how, each] for how in ("even", "by group") for each in owners.FEW]
    assert isinstance(picture, Picture)
    assert (tmp_path / "figures" / picture.file).exists()


@pytest.mark.parametrize("name", ["forest", "sports", "census"])
def test_tables_are_read(name, tmp_path):
    luck, count = np.random.default_rng(1), 60
    frames = {
        "forest": pd.DataFrame(luck.integers(0, 99, (count, 10)), columns=[f"m{j}" for j in range(10)]).assign(
            Wilderness_Area1=1,
            Soil_Type1=luck.integers(0, 2, count),
            Soil_Type2=1,
            Cover_Type=luck.integers(1, 3, count),
        ),
        "sports": pd.DataFrame(luck.normal(0, 1, (count, 45)), columns=[f"s{j}" for j in range(45)]),
        "census": pd.DataFrame(
            {
                "age": luck.integers(17, 90, count),
                "education_num": luck.integers(1, 17, count),
                "hours_per_week": luck.integers(1, 99, count),
                "sex": luck.choice(["f", "m"], count),
                "marital_status": luck.choice(["a", "b", "c"], count),
                "occupation": luck.choice(["x", "y"], count),
                "income_gt50k": luck.integers(0, 2, count),
                "test": np.arange(count) % 2,
            }
        ),
    }
    for place, column in enumerate(("activity", "subject", "segment")):
        frames["sports"].insert(place, column, luck.integers(5, 13, count))
    frames[name].to_parquet(tmp_path / "adult.parquet")
    found = getattr(owners, name)(tmp_path / "adult.parquet").some(20, 10, luck)
    assert len(found.rows) == len(found.groups)
    assert encoded(found.moments, found.rows).shape[1] == encoded(found.sketches, found.test).shape[1] + 1
    assert found.rows[found.label].dtype == bool
