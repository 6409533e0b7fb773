"""Synthetic rows in the analyst's hands: samples, labels, test rows, tables, and learning from them."""

import math
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge

from published_synthetic import PublishedSynthetic
from sfumato.errors import ParameterError, ReleaseError
from sfumato.files.open_table import open_table
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline import release as pipeline
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.releases.release import load
from sfumato.releases.synthetic import SyntheticRelease
from sfumato.tables.columns import Category, Flag, Real, Vector
from sfumato.tables.schema import Schema
from support.asked_kinds import KINDS, LEVELS
from support.asked_kinds import table as kinds_table
from support.evidence import agrees
from support.mixed import MIXED, MODES, mixed_table
from support.rows import table_rows
from support.sources import SOURCE


def made(data, schema, promise=None, secret=1, **recipe):
    """What ``release`` would give."""
    promise = promise or Guarantee(epsilon=1e4)
    prepared = Synthetic(**({"dimension": 2, "seed": 3} | recipe)).prepare(schema, promise)
    rows = table_rows(open_table(data, schema), schema)
    published = prepared.run(rows, calibrate(prepared, promise).level, Secret.for_testing(secret))
    columns = np.concatenate(list(published.blocks), axis=1)
    shared = {"guarantee": promise.to_dict(), "schema": schema.to_dict(), "rows": columns.shape[1]}
    return SyntheticRelease(shared | published.facts, columns, published.matrix)


@pytest.mark.parametrize("mode", MODES)
def test_rows_labels_and_tables_go_together(mode):
    data = mixed_table(np.random.default_rng(1), 400)
    release = made(data, MIXED, **MODES[mode])
    assert release.array().shape == (400, 2)
    table = release.table()
    assert table.column_names == ["z0", "z1", *(["label"] if "label" in MODES[mode] else [])]
    assert np.allclose(table["z1"].to_numpy(), release.array()[:, 1])
    if "label" not in MODES[mode]:
        with pytest.raises(ReleaseError, match="no label"):
            release.labels()
    else:
        assert table["label"].to_pylist() == release.labels().tolist()
        listed = {"y": None, "c": {"x", "y", "z"}, "b": {True, False}}[MODES[mode]["label"]]
        assert listed is None or set(release.labels()) == listed
    assert "synthetic rows" in repr(release)
    numeric = MODES[mode].get("kind") == "values"
    assert release.model().means.shape == (max(1, len(release.model().classes)), 2 + numeric)


def test_classes_are_as_frequent_as_they_are_in_the_data():
    data = mixed_table(np.random.default_rng(2), 3000)
    release = made(data, MIXED, **MODES["classes"])
    for value in ("x", "y", "z"):
        assert (release.labels() == value).mean() == pytest.approx(np.mean(data["c"].to_numpy() == value), abs=0.01)
    assert release.model().weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("mode", MODES)
def test_samples_have_the_moments_of_the_model(mode):
    release = made(mixed_table(np.random.default_rng(3), 500), MIXED, **MODES[mode])
    more = release.sample(20_000, np.random.default_rng(4))
    assert more.rows == 20_000
    assert (more.columns != release.sample(20_000, 5).columns).any()
    assert (release.sample(50, 6).columns == release.sample(50, 6).columns).all()
    model = release.model()
    codes = more.columns[-1] if MODES[mode].get("kind") == "classes" else np.zeros(20_000)
    for code, component in enumerate(model.components):
        mine = more.array()[codes == code]
        for j in range(2):
            spread = component.covariance[j, j]
            assert agrees(mine[:, j], component.mean[j])
            assert agrees((mine[:, j] - component.mean[j]) ** 2, spread)
            assert not agrees((mine[:, j] - component.mean[j]) ** 2, 1.3 * spread)


@pytest.mark.parametrize(
    ("way", "centring"),
    [("twice", "private"), ("once", "private"), ("never", "private"), ("once", "public"), ("never", "public")],
)
def test_the_rows_themselves_land_where_the_model_is(way, centring):
    """Brought along as test rows, the private rows have the moments that were published."""
    data = mixed_table(np.random.default_rng(5), 2000)
    release = made(data, MIXED, normalise=way, centring=centring)
    placed, model = release.transform(data), release.model()
    assert placed.shape == (2000, 2)
    if centring == "public":
        assert np.allclose(placed.mean(axis=0), model.means[0], atol=3e-3)
    second = model.covariances[0] + np.outer(model.means[0], model.means[0])
    assert np.allclose(placed.T @ placed / 2000, second, atol=3e-3)


def test_test_rows_may_come_with_or_without_their_label():
    data = mixed_table(np.random.default_rng(6), 50)
    release = made(data, MIXED, **MODES["values"])
    changed = data.set_column(4, "y", pa.array([9.0] * 50))
    for other in (changed, data.drop_columns(["y"]), data.to_pandas(), data.drop_columns(["y"]).to_pandas()):
        assert (release.transform(other) == release.transform(data)).all()
    schema = Schema.reals(4, low=-1, high=1)
    matrix = np.random.default_rng(7).uniform(-1, 1, (30, 4))
    release = made(matrix, schema, label="c1")
    assert (release.transform(matrix) == release.transform(matrix[:, [0, 2, 3]])).all()
    assert release.transform(matrix[:0]).shape == (0, 2)


@pytest.mark.parametrize("centring", ["private", "public"])
def test_rows_are_reconstructed_in_their_own_columns_and_bounds(centring):
    columns = [Real("a", 1, 5), Flag("b"), Category("c", ["x", "y"]), Real("n", 10, 30, weight=0.1)]
    schema, rng = Schema(columns), np.random.default_rng(8)
    truth = rng.random(4000) < 0.5
    data = pa.table(
        {
            "a": np.where(truth, 4.5, 1.5) + rng.normal(0, 0.1, 4000),
            "b": truth,
            "c": np.where(truth, "x", "y"),
            "n": rng.uniform(15, 25, 4000),
        }
    )
    release = made(data, schema, normalise="never", dimension=5, centring=centring)
    table = release.table(reconstruct=True)
    assert table.column_names == ["a", "b", "c", "n"]
    assert 1 <= min(table["a"].to_pylist()) <= max(table["a"].to_pylist()) <= 5
    assert np.mean(table["n"].to_numpy()) == pytest.approx(20, abs=0.5)
    assert np.mean(table["a"].to_numpy()) == pytest.approx(3, abs=0.2)
    flags, cities = table["b"].to_numpy(zero_copy_only=False), table["c"].to_numpy(zero_copy_only=False)
    assert np.mean(flags == (cities == "x")) > 0.9
    with pytest.raises(ParameterError, match="kept their lengths"):
        release.table(reconstruct=True, length=2.0)


@pytest.mark.parametrize("way", ["twice", "once"])
def test_reconstructed_directions_have_the_mean_direction_of_the_rows(way):
    schema, rng = Schema.reals(6, low=0, high=1), np.random.default_rng(9)
    data = np.clip(np.array([0.9, 0.1, 0.5, 0.5, 0.2, 0.7]) + rng.normal(0, 0.1, (3000, 6)), 0, 1)
    release = made(data, schema, normalise=way, dimension=6, centring="private")
    table = release.table(reconstruct=True)
    found = np.column_stack([table[f"c{j}"].to_numpy() for j in range(6)]).mean(axis=0)
    mean = data.mean(axis=0)
    assert found @ mean / np.linalg.norm(found) / np.linalg.norm(mean) > 0.998
    longer = release.table(reconstruct=True, length=0.1)
    first = np.array([longer[f"c{j}"][0].as_py() for j in range(6)])
    assert np.linalg.norm(first) <= 0.1 * (1 + 1e-9)


def test_directions_about_the_middle_are_reconstructed_about_it():
    schema, rng = Schema.reals(6, low=2, high=4), np.random.default_rng(9)
    away = np.array([0.9, -0.9, 0.5, 0.3, -0.2, 0.7])
    data = np.clip(3 + away + rng.normal(0, 0.1, (3000, 6)), 2, 4)
    release = made(data, schema, dimension=6, centring="public")
    short = release.table(reconstruct=True, length=0.5)
    for table, length in ((short, 0.5), (release.table(reconstruct=True), math.sqrt(6 / 3))):
        found = np.column_stack([table[f"c{j}"].to_numpy() for j in range(6)]) - 3
        assert np.abs(found).max() <= 1
        assert np.linalg.norm(found, axis=1).max() <= length * (1 + 1e-9)
        mean = found.mean(axis=0)
        assert mean @ away / np.linalg.norm(mean) / np.linalg.norm(away) > 0.99


@pytest.mark.parametrize("centring", ["private", "public"])
@pytest.mark.parametrize("way", ["once", "never"])
def test_years_are_reconstructed_and_drown_no_other_column_under_scale_by_bounds(way, centring, tmp_path):
    schema, rng = Schema([Real("year", 1e6, 1e6 + 100), Real("a", 0, 1), Real("b", 0, 2)]), np.random.default_rng(9)
    data = pa.table({"year": 1e6 + rng.uniform(20, 80, 4000), "a": rng.random(4000), "b": np.full(4000, 1.5)})
    recipe, promise = Synthetic(dimension=3, seed=3, normalise=way, centring=centring), Guarantee(epsilon=1000.0)
    pipeline.release(data, schema=schema, mechanism=recipe, guarantee=promise).save(tmp_path / "release")
    release = load(tmp_path / "release")
    kept = release.table(reconstruct=True)
    assert np.mean(kept["year"].to_numpy()) == pytest.approx(1e6 + 50, abs=8 if way == "never" else 15)
    assert np.mean(kept["b"].to_numpy()) == pytest.approx(1.5, abs=0.4)
    low, high = (release.transform(pa.table({"year": [1e6 + 50], "a": [a], "b": [1.5]})) for a in (0.0, 1.0))
    assert np.linalg.norm(high - low) > 0.3


def test_a_label_returns_to_its_place_among_reconstructed_columns():
    release = made(mixed_table(np.random.default_rng(10), 100), MIXED, **MODES["classes"])
    table = release.table(reconstruct=True)
    assert table.column_names == ["a", "b", "c", "d", "y"]
    assert table["c"].to_pylist() == release.labels().tolist()


@pytest.mark.parametrize(("label", "kind"), [(None, "values"), ("age", "values"), ("education", "classes")])
def test_reconstructed_rows_have_the_tables_own_names_types_and_values(label, kind):
    data = pa.concat_tables([kinds_table()] * 100)
    release = made(data, KINDS, dimension=20, normalise="never", label=label, kind=kind)
    table = release.table(reconstruct=True)
    assert table.column_names == data.column_names
    assert table["age"].type == pa.int64()
    for name in ("children", "education", "stage", "joined", "seen", "smoker", "city", "basket"):
        assert table[name].type == data[name].type
    assert set(table["education"].to_pylist()) <= set(LEVELS)
    for name in ("children", "income", "stage", "week", "smoker", "city"):
        assert None in table[name].to_pylist()  # missingness was kept
    for name in ("age", "education", "joined", "seen", "basket", "face"):
        assert None not in table[name].to_pylist()
    assert all(0 <= age <= 120 for age in table["age"].to_pylist())
    assert all(date(2020, 1, 1) <= day <= date(2020, 12, 31) for day in table["joined"].to_pylist())
    assert all(len(items) <= 2 and set(items) <= {"milk", "bread", "eggs"} for items in table["basket"].to_pylist())
    assert all(len(face) == 3 and max(map(abs, face)) <= 1 for face in table["face"].to_pylist())
    assert release.transform(data).shape == (800, 20)


def test_a_vector_of_columns_comes_back_as_these_within_its_bound():
    schema = Schema([Vector("v", columns=("a", "b"), low=-1, high=1, bound=1.0), Flag("f")])
    rng = np.random.default_rng(1)
    data = pa.table({"a": rng.uniform(-1, 1, 500), "b": rng.uniform(-1, 1, 500), "f": rng.random(500) < 0.5})
    table = made(data, schema, dimension=3, normalise="never").table(reconstruct=True)
    assert table.column_names == ["a", "b", "f"]
    lengths = np.hypot(table["a"].to_numpy(), table["b"].to_numpy())
    assert lengths.max() <= 1
    assert lengths.max() > 0.9


def test_labels_of_texts_and_whole_numbers_together_come_back_as_texts():
    schema = Schema([Category("c", ["x", 1], missing="x"), Real("a", 0, 1)])
    data = pa.table({"c": ["x", "1"] * 50, "a": np.linspace(0, 1, 100)})
    release = made(data, schema, dimension=1, label="c", kind="classes")
    for table, name in ((release.table(), "label"), (release.table(reconstruct=True), "c")):
        assert set(table[name].to_pylist()) == {"x", "1"}


def test_a_release_whose_numbers_do_not_fit_is_refused():
    release = made(np.ones((5, 3)), Schema.reals(3, low=-1, high=1))
    for columns, projection in ((release.columns[:1], release.projection), (release.columns, None)):
        with pytest.raises(ReleaseError, match="synthetic release has"):
            SyntheticRelease(release.manifest, columns, projection)


# ---- learning --------------------------------------------------------------------------------------------------------


def test_a_number_is_predicted_from_synthetic_rows():
    rng = np.random.default_rng(11)
    schema = Schema([*(Real(f"x{i}", -1, 1) for i in range(5)), Real("y", -20, 40)], scale="raw")
    x = rng.uniform(-1, 1, (8000, 5))
    data = np.column_stack([x, 10 + 8 * x[:, 0] / np.linalg.norm(x, axis=1) + rng.normal(0, 0.5, 8000)])
    train, test = data[:6000], data[6000:]
    release = made(train, schema, Guarantee(epsilon=1.0, delta=1e-6), noise="gaussian", dimension=5, label="y")
    learnt = Ridge().fit(release.array(), release.labels())
    error = np.sqrt(np.mean((learnt.predict(release.transform(test)) - test[:, -1]) ** 2))
    assert error < 0.5 * test[:, -1].std()


def digits():
    pixels = pq.read_table(SOURCE / "data" / "digits.parquet")
    truth = load_digits().target
    schema = Schema([*Schema.read(SOURCE / "data" / "digits.toml").columns, Category("digit", list(range(10)))])
    order = np.random.default_rng(12).permutation(len(truth))
    table = pixels.append_column("digit", pa.array(truth)).take(order)
    return schema, table.slice(0, 1347), table.slice(1347)


def test_digits_are_read_by_what_was_learnt_from_synthetic_ones():
    """At (1, 1e-6), labels protected, over six releases; the noise of twice as strict a promise must be felt."""
    schema, train, test = digits()

    def accuracy(epsilon, secret):
        promise = Guarantee(epsilon=epsilon, delta=1e-6)
        recipe = {"noise": "gaussian", "dimension": 64, "label": "digit", "kind": "classes"}
        release = made(train, schema, promise, secret, **recipe)
        learnt = LogisticRegression(max_iter=300).fit(release.array(), release.labels())
        return learnt.score(release.transform(test), test["digit"].to_numpy())

    found = np.mean([accuracy(1.0, secret) for secret in range(6)])
    assert found >= 0.80
    assert np.mean([accuracy(0.5, secret) for secret in range(3)]) < found - 0.05


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mode", [mode for mode in MODES if "public" not in mode])
def test_a_release_goes_to_disk_and_comes_back(mode, neighbours, tmp_path):
    data = mixed_table(np.random.default_rng(8), 300)
    recipe = Synthetic(dimension=2, **MODES[mode])
    release = pipeline.release(
        data, schema=MIXED, mechanism=recipe, guarantee=Guarantee(epsilon=50.0, neighbours=neighbours)
    )
    release.save(tmp_path / "s")
    again = load(tmp_path / "s")
    assert isinstance(again, SyntheticRelease)
    assert (again.columns == release.columns).all()
    assert np.allclose(again.transform(data), release.transform(data))
    page = (tmp_path / "s" / "README.txt").read_text()
    assert "synthetic rows of 2 numbers" in page
    assert ("the number of records is" in page.lower()) == (neighbours == "add-remove")


def test_published_constants_are_retracted_beside_the_promise(tmp_path):
    data, recipe = mixed_table(np.random.default_rng(9), 50), PublishedSynthetic(dimension=3)
    pipeline.release(data, schema=MIXED, mechanism=recipe, guarantee=Guarantee(epsilon=1.0)).save(tmp_path / "s")
    assert "WHICH THIS RELEASE DOES NOT KEEP" in (tmp_path / "s" / "README.txt").read_text()
