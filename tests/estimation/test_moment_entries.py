"""The laws of the entries of a covariance and of correlations: equal to the general forms, and to what noise does."""

import math

import numpy as np
import pytest

from sfumato.estimation import moment_entries
from sfumato.estimation.covariances import Noisy, Sketched, kept
from sfumato.intervals.moments import NoiseLaw

MEAN = np.array([0.3, -0.2, 0.05])
COVARIANCE = np.array([[0.3, 0.1, -0.05], [0.1, 0.2, 0.02], [-0.05, 0.02, 0.25]])
RECORDS = 2000


def noisy(kind, *, centred, counted, scale=3.0, noise=None):
    """What a release of these moments holds, with this noise on its numbers."""
    anchor, mean = 0.7, MEAN * centred
    second = RECORDS * (COVARIANCE + np.outer(mean, mean))
    whole = np.block(
        [[second, RECORDS * anchor * mean[:, None]], [RECORDS * anchor * mean, np.array(RECORDS * anchor**2)]]
    )
    triangle = np.concatenate([np.diag(whole), whole[np.triu_indices(4, 1)]])[kept(3, centred=centred, counted=counted)]
    values = triangle if noise is None else triangle + noise
    return Noisy(values, 3, NoiseLaw(kind, scale), anchor, centred, None if counted else RECORDS)


def sketched(*, counted, draws=60):
    rows = np.random.default_rng(1).multivariate_normal(np.zeros(3), RECORDS * COVARIANCE + 20 * np.eye(3), draws)
    return Sketched(rows, 20.0, (float(RECORDS), NoiseLaw("laplace", 5.0) if counted else None))


VIEWS = [
    *(noisy(k, centred=c, counted=n) for k in ("gaussian", "laplace") for c in (False, True) for n in (False, True)),
    *(sketched(counted=n) for n in (False, True)),
]


@pytest.mark.parametrize("view", VIEWS)
def test_errors_of_entries_are_those_of_their_forms(view):
    errors, alike = moment_entries.entry_errors(view)
    covariance, axes = view.covariance(), np.eye(3)
    for i in range(3):
        for j in range(3):
            expected = view.form(axes[i], axes[j], covariance[i, j])
            assert errors[i, j] == pytest.approx(expected[0], rel=1e-12)
            assert alike[i, j] == pytest.approx(expected[1], rel=1e-9)


@pytest.mark.parametrize("view", [view for view in VIEWS if isinstance(view, Noisy) and view.centred])
def test_errors_of_correlations_are_the_derivatives_times_the_noise(view):
    """By moving each published number a little; the second order, of noise on sums, is next to nothing here."""
    law = moment_entries.correlation_law(view)

    def correlations(values):
        return moment_entries.correlation_law(
            Noisy(values, 3, view.law, view.anchor, view.centred, view.public_records)
        ).values

    steps = 1e-4 * np.eye(view.values.size)
    slopes = np.array([(correlations(view.values + s) - correlations(view.values - s)) / 2e-4 for s in steps])
    diagonal = np.flatnonzero(view.published) <= view.dim
    scales = view.law.scale * np.where(diagonal, 1, math.sqrt(0.5) if view.law.kind == "gaussian" else 1)
    shares = slopes * scales[:, None, None]
    off = ~np.eye(3, dtype=bool)
    assert law.errors[off] == pytest.approx(np.linalg.norm(shares, axis=0)[off], rel=1e-4)
    alike = (shares**2).sum(axis=0) ** 2 / np.maximum((shares**4).sum(axis=0), 1e-300)
    assert law.alike[off] == pytest.approx(alike[off], rel=1e-4)


def test_errors_of_sketched_correlations_are_those_seen():
    """Of 4,000 sketches; and without the covariance of parts (B) they would not be."""
    rng, scatter = np.random.default_rng(2), RECORDS * COVARIANCE + 20 * np.eye(3)
    root = np.linalg.cholesky(scatter)
    seen = []
    for _ in range(4000):
        view = Sketched(rng.standard_normal((400, 3)) @ root.T, 20.0, (float(RECORDS), None))
        seen.append(moment_entries.correlation_law(view).values)
    law = moment_entries.correlation_law(view)
    off = ~np.eye(3, dtype=bool)
    assert law.errors[off] == pytest.approx(np.std(seen, axis=0)[off], rel=0.12)
    a, _, d = law.moments
    assert np.sqrt(a + d * law.values**2)[0, 1] > 1.1 * np.std(seen, axis=0)[0, 1]


def test_a_column_without_a_variance_above_0_has_no_correlation():
    view = noisy("gaussian", centred=True, counted=False, noise=np.array([-2 * RECORDS, *[0.0] * 8]))
    values = moment_entries.correlation_law(view).values
    assert np.isnan(values[0]).all()
    assert np.isfinite(values[1:, 1:]).all()


def test_quantiles_of_many_are_those_of_each():
    view, alike = VIEWS[6], np.linspace(1.0, 5.5, 40).reshape(8, 5)
    found = moment_entries.quantiles(view, 0.01, alike)
    assert found == pytest.approx(np.vectorize(lambda count: view.quantile(0.01, count))(alike), rel=1e-3)
    assert moment_entries.quantiles(VIEWS[0], 0.01, alike) == pytest.approx(np.full((8, 5), 2.3263), rel=1e-4)
    assert (moment_entries.quantiles(VIEWS[-1], 0.01, alike) > 2.3263).all()
