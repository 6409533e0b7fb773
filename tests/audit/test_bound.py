"""The audit sees scores alone: it must refute what is false and leave the truth standing."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from sfumato.audit.bound import lower_bound
from sfumato.errors import ParameterError

N = 200_000


def laplace_scores(rng, scale, size=N):
    """Log-likelihood ratios of x + Laplace(scale) for x = 1 against x = 0."""
    first, second = 1 + rng.laplace(0, scale, size), rng.laplace(0, scale, size)
    return tuple(np.round(np.abs(z) - np.abs(z - 1), 9) for z in (first, second))


def test_textbook_noise_in_floating_point_is_caught_by_its_low_bits():
    """Mironov's attack, found by the audit alone: unrounded scores show which sums of doubles can occur."""
    rng = np.random.default_rng(1)
    first, second = 1 + rng.laplace(0, 1.0, N), rng.laplace(0, 1.0, N)
    assert lower_bound(*(np.abs(z) - np.abs(z - 1) for z in (first, second))).refutes(2.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_an_honest_laplace_mechanism_stands_and_is_bounded_closely(epsilon):
    bound = lower_bound(*laplace_scores(np.random.default_rng(1), 1 / epsilon))
    assert 0.9 * epsilon < bound.epsilon <= epsilon
    assert not bound.refutes(epsilon)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_half_the_noise_is_caught(epsilon):
    assert lower_bound(*laplace_scores(np.random.default_rng(2), 0.5 / epsilon)).refutes(epsilon)


def test_identical_inputs_give_nothing():
    rng = np.random.default_rng(3)
    assert lower_bound(rng.normal(size=N), rng.normal(size=N)).epsilon == 0


def test_the_direction_of_the_scores_does_not_matter():
    first, second = laplace_scores(np.random.default_rng(4), 1.0)
    bounds = [lower_bound(a, b).epsilon for a, b in ((first, second), (second, first), (-first, -second))]
    assert min(bounds) > 0.9


def test_delta_is_allowed_for():
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=N), rng.normal(size=N)
    first[rng.random(N) < 0.01] = 100.0  # leaks outright, but only with probability 0.01
    assert lower_bound(first, second).epsilon > 3
    assert lower_bound(first, second, delta=0.012).epsilon < 0.05


def test_an_honest_mechanism_is_refuted_as_rarely_as_stated():
    """At confidence 90% over 300 audits of an exact (epsilon, 0) mechanism: at most 10%, give or take."""
    rng, p = np.random.default_rng(6), 1 / (1 + math.exp(-1.0))
    refuted = 0
    for _ in range(300):
        first, second = (rng.random(2000) < p).astype(float), (rng.random(2000) < 1 - p).astype(float)
        refuted += lower_bound(first, second, confidence=0.9).refutes(1.0)
    assert refuted <= 30 + 6 * math.sqrt(27)


def test_all_or_nothing_scores_are_handled():
    ones, zeros = np.ones(1000), np.zeros(1000)
    assert lower_bound(ones, zeros).epsilon > 4
    assert lower_bound(ones, ones).epsilon == 0


def test_an_event_may_begin_at_an_atom():
    """All of epsilon lies in one value of the score, with nothing between it and scores that tell less."""
    rng = np.random.default_rng(7)
    for mass in (0.175, 0.2125, 0.25, 0.325, 0.3625):
        sides = [np.where(rng.random(2 * N) < m, 1.0, rng.random(2 * N)) for m in (mass, mass / math.e)]
        assert lower_bound(*sides).epsilon > 0.92


def test_the_bound_is_that_of_clopper_and_pearson():
    """Against binomial tails: the least p that gives so many hits, and the largest q that gives so few."""
    n, hits, others, delta, alpha = 1000, 400, 50, 0.01, 0.001
    halves = [np.repeat([1.0, 0.0], [count, n - count]) for count in (hits, others)]
    found = lower_bound(*(np.tile(half, 2) for half in halves), delta=delta, confidence=1 - alpha)
    low = optimize.brentq(lambda p: stats.binom.sf(hits - 1, n, p) - alpha / 2, 1e-9, 1 - 1e-9)
    high = optimize.brentq(lambda q: stats.binom.cdf(others, n, q) - alpha / 2, 1e-9, 1 - 1e-9)
    assert found.epsilon == pytest.approx(math.log((low - delta) / high), rel=1e-9)


def test_too_few_samples_and_bad_levels_are_refused():
    with pytest.raises(ParameterError, match="samples"):
        lower_bound(np.ones(1), np.ones(1))
    with pytest.raises(ParameterError, match="confidence"):
        lower_bound(np.ones(9), np.ones(9), confidence=1.0)
