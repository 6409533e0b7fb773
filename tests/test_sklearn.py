"""The scikit-learn estimators keep scikit-learn's conventions, except where privacy forbids it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sfumato.errors import BudgetError, ParameterError, SchemaError
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Guarantee
from sfumato.sklearn import SketchKMeans, SketchTransformer

FRESH_NOISE = "every transform is a new release with fresh noise, so two calls must not agree"
EXPECTED = dict.fromkeys(
    [
        "check_estimators_pickle",
        "check_fit_idempotent",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_pipeline_consistency",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
    ],
    FRESH_NOISE,
) | {"check_dtype_object": "no cell may raise an error: what cannot be read becomes what the schema says"}


def failures(estimator, expected):
    results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    return {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}


def test_the_transformer_passes_scikit_learns_checks_but_for_those_that_forbid_noise():
    assert failures(SketchTransformer(n_components=2), EXPECTED) == {}
    assert set(failures(SketchTransformer(n_components=2), {})) == set(EXPECTED)


def test_the_clusterer_passes_scikit_learns_checks():
    assert failures(SketchKMeans(n_clusters=2), {}) == {}


def rows(count=300):
    rng = np.random.default_rng(1)
    return np.clip(np.where(np.arange(count)[:, None] % 2, 0.2, 0.8) + 0.02 * rng.standard_normal((count, 40)), 0, 1)


def test_a_pipeline_finds_the_groups():
    pipeline = make_pipeline(SketchTransformer(16, epsilon=8.0, unit="attribute"), SketchKMeans(2)).fit(rows())
    labels = pipeline[-1].labels_
    assert len(set(labels[::2])) == len(set(labels[1::2])) == 1
    assert labels[0] != labels[1]


def test_fitting_spends_nothing_and_every_transform_is_a_new_release():
    data = rows()
    one, two = (SketchTransformer(4).fit(x) for x in (data, np.zeros_like(data)))
    assert one.mechanism_ == two.mechanism_
    first, second = one.transform(data), one.transform(data)
    assert not (first == second).any()
    assert "NEW private release" in SketchTransformer.transform.__doc__


@pytest.mark.parametrize(("output", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_frames_come_out_with_names(output, kind):
    frame = SketchTransformer(3).set_output(transform=output).fit_transform(rows(10))
    assert isinstance(frame, kind)
    assert list(frame.columns) == [f"sketchtransformer{i}" for i in range(3)]


def test_values_out_of_bounds_are_clipped():
    data = np.full((2000, 4), 1e6)
    sketch = SketchTransformer(4, projection="identity", epsilon=10.0).fit(data)
    assert np.abs(sketch.transform(data).mean(axis=0) - 1.0).max() < 0.05


def test_no_cell_raises_or_is_told():
    odd = np.array([["1", "kryptonite"], [None, np.inf], [np.nan, "0.5"]], object)
    assert np.isfinite(SketchTransformer(2).fit(odd).transform(odd)).all()


@pytest.mark.parametrize(("scale", "most"), [("raw", [1, 20]), ("bounds", [1, 1])])
def test_each_column_may_have_its_bounds(scale, most):
    data = np.tile([5.0, 50.0], (4000, 1))
    terms = {"projection": "identity", "n_components": 2, "low": [0, 0], "high": [1, 20], "epsilon": 50.0}
    sketch = SketchTransformer(**terms, scale=scale).fit(data)
    assert np.abs(sketch.transform(data).mean(axis=0) - most).max() < 0.5
    with pytest.raises(SchemaError, match="2 of them"):
        SketchTransformer(2, low=np.zeros(3)).fit(data)


def test_bad_parameters_are_refused_at_fit():
    for wrong in ({"epsilon": -1.0}, {"noise": "gaussian"}, {"n_components": 0}, {"projection": "fourier"}):
        with pytest.raises(ParameterError):
            clone(SketchTransformer()).set_params(**wrong).fit(rows(5))


def test_every_transform_is_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=2.0, unit="attribute"))
    rows = np.random.default_rng(1).random((10, 4))
    transformer = SketchTransformer(2, epsilon=1.0, ledger=ledger).fit(rows)
    transformer.transform(rows)
    transformer.transform(rows)
    with pytest.raises(BudgetError):
        transformer.transform(rows)
