"""Gaussian noise beside an event of small probability: its profile, its composition, and how it is stored."""

import math

import numpy as np
import pytest
from mpmath import mp

from sfumato.errors import ParameterError
from sfumato.privacy import profiles
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.composition import Book, Charge
from sfumato.privacy.losses import Composed, Gaussian
from sfumato.privacy.stored_losses import from_json, grouped, to_json
from sfumato.privacy.threshold_loss import FailingGaussian


def truth(epsilon, mu, failure):
    with mp.workdps(40):
        e, m = mp.mpf(epsilon), mp.mpf(mu)
        gaussian = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
        return mp.mpf(failure) + (1 - mp.mpf(failure)) * gaussian


@pytest.mark.parametrize(("mu", "failure"), [(0.05, 1e-9), (0.5, 1e-6), (2.0, 0.1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 3.0])
def test_the_profile_is_an_upper_bound_and_hardly_above(mu, failure, epsilon):
    found = FailingGaussian(mu, 1.0, failure).delta(epsilon)
    assert truth(epsilon, mu, failure) <= found <= truth(epsilon, mu, failure) * (1 + mp.mpf(2) ** -38)


def test_the_profile_is_that_of_the_pair_it_stands_for():
    """A pair that shows a symbol of its own with probability t: the best event, by Monte Carlo of the likelihood."""
    mu, failure, epsilon, count = 1.0, 0.05, 0.7, 400_000
    rng = np.random.default_rng(1)
    draws = rng.normal(mu, 1.0, count)
    ratio = mu * draws - mu * mu / 2
    excess = np.where(rng.random(count) < failure, 1.0, np.maximum(0.0, 1 - np.exp(epsilon - ratio)))
    error = excess.std() / math.sqrt(count)
    assert abs(excess.mean() - FailingGaussian(mu, 1.0, failure).delta(epsilon)) <= 6.2 * error
    assert abs(excess.mean() - Gaussian(mu, 1.0).delta(epsilon)) > 6.2 * error


def test_composition_adds_failures_up_and_moves_in_squares():
    one, two = FailingGaussian(0.3, 1.0, 1e-3), FailingGaussian(0.4, 1.0, 2e-3)
    together = FailingGaussian(0.5, 1.0, 1 - (1 - 1e-3) * (1 - 2e-3))
    composed = Composed([one, two])
    for epsilon in (0.1, 0.5, 1.5):
        assert together.delta(epsilon) <= composed.delta(epsilon) <= together.delta(epsilon) * 1.001 + 1e-9


def test_without_a_failure_it_is_gaussian_noise():
    plain, failing = Gaussian(1.0, 3.0), FailingGaussian(1.0, 3.0, 0.0)
    assert failing.delta(0.4) == plain.delta(0.4)
    assert failing.pld().get_delta_for_epsilon(0.4) == plain.pld().get_delta_for_epsilon(0.4)


@pytest.mark.parametrize("times", [2, 5])
def test_groups_are_bounded_by_the_chain(times):
    loss = FailingGaussian(0.1, 1.0, 1e-9)
    found = grouped(loss, times)
    for epsilon in (0.5, 1.0, 2.0, 10.0):
        assert found.delta(epsilon) >= truth(epsilon, 0.1 * times, 1e-9) * (1 - 1e-12)
        assert found.delta(epsilon) <= found.delta(0.5)
    assert found.delta(1.0) < 1e-2


def test_it_is_stored_and_read():
    loss = FailingGaussian(1.0, 21.5, 4e-9)
    assert from_json(to_json(loss)) == loss


def test_ledgers_of_every_composition_take_it():
    loss = FailingGaussian(1.0, least_level(lambda s: FailingGaussian(1.0, s, 4e-9), 0.2, 1e-7), 4e-9)
    charge = Charge.of(0.2, 1e-7, loss)
    for composition in ("basic", "advanced", "tight"):
        assert Book([charge], composition).fits(1.2, 1e-6)
    filtered = charge.majorised()
    assert filtered.tail == 4e-9
    assert Book([filtered], "gaussian").fits(0.21, 1e-7)
    assert not Book([filtered], "gaussian").fits(0.21, 7e-8)  # 4e-9 is more than a twentieth of it
    assert Book([charge] * 2, "tight").total(1e-6).epsilon < 0.4


def test_epsilon_is_found_above_the_failure_and_never_below():
    loss = FailingGaussian(1.0, 20.0, 1e-6)
    assert least_epsilon(loss, 1.1e-6) > 0
    with pytest.raises(ParameterError):
        least_epsilon(loss, 0.9e-6)


@pytest.mark.parametrize("failure", [-0.1, 1.0, math.nan])
def test_failures_are_probabilities(failure):
    with pytest.raises(ParameterError):
        FailingGaussian(1.0, 1.0, failure)


@pytest.mark.parametrize("x", [-3.0, 0.0, 0.5, 6.2, 30.0])
def test_the_normal_tail_is_an_upper_bound(x):
    with mp.workdps(40):
        exact = mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2
        assert exact <= profiles.normal_tail(x) <= exact * (1 + mp.mpf(2) ** -38)
