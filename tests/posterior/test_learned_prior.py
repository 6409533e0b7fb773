"""The learned prior: eigenvalues freed of noise, recovered covariances, mixtures where they are likelier, fallbacks."""

import numpy as np
import pytest

from sfumato.intervals.moments import NoiseLaw
from sfumato.posterior import mixture, prior, spectrum

UNIT = NoiseLaw("gaussian", 1.0)


def gaussian_rows(count, variances, rng, width=None):
    """Records with these variances along random directions of a wide space, and the directions."""
    width = width or len(variances)
    basis = np.linalg.qr(rng.standard_normal((width, len(variances))))[0]
    return rng.standard_normal((count, len(variances))) * np.sqrt(variances) @ basis.T, basis


def noisy(records, noise, rng):
    """Records as they are released."""
    if noise.kind == "gaussian":
        return records + rng.normal(0, noise.scale, records.shape)
    return records + rng.laplace(0, noise.scale / np.sqrt(2), records.shape)


# ---- spectrum -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.01, 0.3, 4.0])
def test_the_inverse_of_the_spiked_model_is_its_inverse_and_0_below_the_edge(gamma):
    theta = np.sqrt(gamma) * np.array([1.01, 1.5, 3.0, 50.0])
    noise = 0.7
    observed = noise * (1 + theta) * (1 + gamma / theta)
    assert spectrum.inverted(observed, noise, gamma) == pytest.approx(noise * theta, rel=1e-9)
    edge = noise * (1 + np.sqrt(gamma)) ** 2
    assert (spectrum.inverted(np.array([0.0, noise, 0.999 * edge]), noise, gamma) == 0).all()


@pytest.mark.parametrize("shape", [(2000, 100), (300, 600), (2500, 2200)])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_variances_and_what_is_missed_of_them_are_recovered(shape, kind):
    """Tall and wide tables, and those so large that eigenvalues are found by iteration."""
    if shape[1] > 2048 and kind == "laplace":
        return
    count, width = shape
    rng, variances = np.random.default_rng(1), np.array([30.0, 12.0, 6.0]) * max(np.sqrt(width / count), 1.0)
    records, _ = gaussian_rows(count, variances, rng, width)
    found = spectrum.fit(noisy(records, NoiseLaw(kind, 1.0), rng), NoiseLaw(kind, 1.0))
    assert found.rank == 3
    along = np.var((records - records.mean(axis=0)) @ found.basis, axis=0)
    assert found.variances == pytest.approx(along, rel=0.12)
    coordinates = found.coordinates(records)  # what the noise-free rows show, so noise is what is left
    assert np.allclose(coordinates / found.shrink, (records - found.mean) @ found.basis)
    assert found.rest * found.tail == pytest.approx(variances.sum() - along.sum(), abs=0.15 * variances.sum())


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_coordinates_have_uncorrelated_noise_of_the_known_variance(kind):
    """The basis is fitted to the same rows; coordinates that are not shrunk for this have more noise, correlated."""
    rng, noise = np.random.default_rng(2), NoiseLaw(kind, 1.0)
    records, _ = gaussian_rows(400, np.array([8.0, 5.0, 3.0]), rng, 300)
    rows = noisy(records, noise, rng)
    found = spectrum.fit(rows, noise)
    own = (records - found.mean) @ found.basis
    for coordinates, right in ((found.coordinates(rows), True), ((rows - found.mean) @ found.basis, False)):
        error = coordinates - own
        slope = np.sum(error * own, axis=0) / np.sum(own**2, axis=0)
        assert (np.abs(slope).max() < 0.12) == right
        assert (np.mean(error**2) < 1.25) == right


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("shape", [(40, 3), (300, 1), (500, 40), (100, 400)])
def test_noise_alone_leaves_nothing(shape, kind):
    for seed in range(10):
        rows = noisy(np.ones(shape), NoiseLaw(kind, 2.0), np.random.default_rng(seed))
        assert spectrum.fit(rows, NoiseLaw(kind, 2.0)).rank == 0


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (2, 1), (50, 1), (5, 5)])
def test_small_tables_are_fitted_without_trouble(shape):
    rng = np.random.default_rng(0)
    for rows in (100 * rng.standard_normal(shape), np.ones(shape)):
        found, coordinates = prior.learn(rows, NoiseLaw("laplace", 1.0))
        assert coordinates.shape == (shape[0], found.rank)
        assert found.rank <= max(shape[0] - 1, 0)
        assert np.isfinite([found.spectrum.tail, found.rest.variance]).all()


# ---- mixture --------------------------------------------------------------------------------------------------------


def clusters(count, rng):
    """Eight tight groups in four directions."""
    return 6 * rng.standard_normal((8, 4))[rng.integers(8, size=count)] + 0.3 * rng.standard_normal((count, 4))


def test_a_mixture_is_taken_where_held_out_rows_prefer_it():
    rng = np.random.default_rng(3)
    grouped = clusters(2000, rng)
    smooth = rng.standard_normal((2000, 4)) * np.sqrt([9.0, 4.0, 2.0, 1.0])
    for records, many in ((grouped, True), (smooth, False)):
        rows = records - records.mean(axis=0) + rng.standard_normal(records.shape)
        found = mixture.fit(rows, np.var(records, axis=0), 1.0)
        assert (found.count > 1) == many
        means = found.posterior_means(rows, 1.0, np.ones(found.count))[0]
        single = mixture.gaussian(np.var(records, axis=0)).posterior_means(rows, 1.0, np.ones(1))[0]
        own = records - records.mean(axis=0)
        ours, theirs = (np.mean((part - own) ** 2) for part in (means, single))
        assert ours < 0.6 * theirs if many else ours == theirs


def test_one_component_gives_the_posterior_of_a_gaussian():
    """E[y|z] = S (S + s)^-1 z and the covariance S - S (S + s)^-1 S, for every width around the leading directions."""
    rng = np.random.default_rng(4)
    for width in (1, 3, 40):
        variances, noise = rng.gamma(1.0, 2.0, width), 0.6
        found, rows = mixture.gaussian(variances), rng.standard_normal((5, width))
        means, values, apart = found.posterior_means(rows, noise, np.array([7.0]))
        assert np.allclose(means, rows * variances / (variances + noise))
        assert (values == 7).all()
        assert np.allclose(apart, np.sum(rows**2 / (variances + noise), axis=1))
        lead = variances[: found.leading]
        assert np.allclose(noise * found.gains(noise)[0], np.diag(lead - lead**2 / (lead + noise)))


def test_learning_is_deterministic():
    rng = np.random.default_rng(5)
    rows = np.hstack([clusters(600, rng), np.zeros((600, 6))]) + rng.standard_normal((600, 10))
    (one, first), (two, second) = (prior.learn(rows, UNIT) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(one.mixture.covariances, two.mixture.covariances)
    assert one.mixture.count > 1
