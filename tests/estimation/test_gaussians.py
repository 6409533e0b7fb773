"""Covariances freed of noise: what is left alone, what is kept, and by how much that beats the ways before it."""

import numpy as np
import pytest

from sfumato.estimation import gaussians

SHRINKS = ["spectrum", "linear", "none"]


def noise(rng, dim, scale):
    """Symmetric Gaussian noise: of this scale on the diagonal, over sqrt(2) off it. And its expected squared norm."""
    raw = rng.normal(0, scale / 2, (dim, dim))
    return raw + raw.T, scale**2 * dim * (dim + 1) / 2


def truth(dim):
    """A few directions that stand out from a level."""
    return np.diag(np.r_[0.3, 0.2, 0.1, np.full(dim - 3, 0.4 / (dim - 3))])


@pytest.mark.parametrize("shrink", SHRINKS)
def test_without_noise_a_covariance_stays_as_it_is(shrink):
    matrix = np.cov(np.random.default_rng(1).uniform(-0.3, 0.3, (5, 40)))
    assert np.allclose(gaussians.repaired(matrix, noise_energy=0.0, shrink=shrink), matrix)


@pytest.mark.parametrize("shrink", SHRINKS)
def test_what_comes_out_is_a_covariance_whatever_went_in(shrink):
    rng = np.random.default_rng(2)
    for scale in (1e-3, 1.0, 1e3):
        noisy, energy = noise(rng, 6, scale)
        values = np.linalg.eigvalsh(gaussians.repaired(noisy, noise_energy=energy, shrink=shrink))
        assert 0 < values.min() <= values.max() <= 1 + 1e-9


def test_pure_noise_becomes_a_sphere_and_what_stands_out_is_kept():
    rng = np.random.default_rng(3)
    noisy, energy = noise(rng, 80, 0.004)
    pure = gaussians.repaired(noisy + np.eye(80) / 80, noise_energy=energy, shrink="spectrum")
    assert np.ptp(np.linalg.eigvalsh(pure)) < 0.3 * gaussians.edge(80, energy)
    found = np.linalg.eigvalsh(gaussians.repaired(noisy + truth(80), noise_energy=energy, shrink="spectrum"))
    assert found[-3:] == pytest.approx([0.1, 0.2, 0.3], abs=0.02)
    assert np.ptp(found[:-3]) < 0.3 * gaussians.edge(80, energy)


def test_the_edge_is_where_eigenvalues_of_noise_end():
    noisy, energy = noise(np.random.default_rng(4), 400, 0.01)
    largest = np.abs(np.linalg.eigvalsh(noisy)).max()
    assert largest == pytest.approx(gaussians.edge(400, energy), rel=0.03)


def test_the_trace_is_kept():
    noisy, energy = noise(np.random.default_rng(5), 30, 0.01)
    values = np.linalg.eigvalsh(noisy + truth(30))
    assert gaussians.spectrum(values, energy).sum() == pytest.approx(values.sum(), abs=1e-6)


@pytest.mark.parametrize("scale", [0.004, 0.01, 0.02])
def test_the_spectrum_comes_nearer_to_the_truth_than_one_factor_for_all(scale):
    """And that factor nearer than nothing. With half or twice the noise's true size it loses by."""
    rng, errors = np.random.default_rng(6), {}
    for _ in range(20):
        noisy, energy = noise(rng, 80, scale)
        for name, shrink, times in (
            *((s, s, 1.0) for s in SHRINKS),
            ("half", "spectrum", 0.25),
            ("twice", "spectrum", 4),
        ):
            found = gaussians.repaired(noisy + truth(80), noise_energy=energy * times, shrink=shrink)
            errors.setdefault(name, []).append(np.square(found - truth(80)).sum())
    mean = {name: np.mean(values) for name, values in errors.items()}
    assert mean["spectrum"] < 0.9 * mean["linear"] < 0.9 * mean["none"]
    assert mean["spectrum"] < min(mean["half"], mean["twice"])


def test_a_floor_raises_what_noise_may_have_made_small():
    noisy, energy = noise(np.random.default_rng(7), 20, 0.05)
    found = gaussians.repaired(noisy, noise_energy=energy, shrink="spectrum", floor=0.2)
    assert np.linalg.eigvalsh(found).min() == pytest.approx(0.2 * gaussians.edge(20, energy))
    loud = gaussians.repaired(noisy * 1e3, noise_energy=energy * 1e6, shrink="spectrum", floor=0.2)
    assert np.isfinite(loud).all()
