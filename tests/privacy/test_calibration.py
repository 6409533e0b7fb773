import math
from dataclasses import dataclass

import pytest

from sfumato.errors import ParameterError
from sfumato.mechanisms.covariance import Covariance
from sfumato.privacy.calibration import Family, calibrate, least_epsilon, least_level, near_level
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import ChiSquare, FreshGaussian, FreshLaplace, Gaussian, Laplace, Response
from sfumato.tables.schema import Schema


def fresh(family, d, k):
    return lambda scale: FreshGaussian(family=family, dim_in=d, dim_out=k, radius=1.0, scale=scale)


def check_least(family, epsilon, delta):
    """On the safe side with no tolerance, and within 1e-6 of a level that is not."""
    level = least_level(family, epsilon, delta)
    assert family(level).delta(epsilon) <= delta
    assert family(level * (1 - 1e-6)).delta(epsilon) > delta
    return level


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_gaussian_levels_are_safe_and_least(epsilon, delta):
    check_least(lambda scale: Gaussian(1.0, scale), epsilon, delta)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 7.0])
def test_pure_laplace_needs_the_reciprocal_of_epsilon(epsilon):
    assert check_least(lambda scale: Laplace(1.0, scale), epsilon, 0.0) == pytest.approx(1 / epsilon, rel=1e-11)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6])
@pytest.mark.parametrize(("family", "d", "k"), [("gaussian", 50, 1), ("gaussian", 9, 40), ("orthonormal", 50, 8)])
def test_fresh_levels_are_safe_and_least(family, d, k, epsilon, delta):
    check_least(fresh(family, d, k), epsilon, delta)


@pytest.mark.parametrize("rows", [1, 119, 4239])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6])
def test_chi_square_levels_are_safe_and_least(rows, epsilon, delta):
    check_least(lambda ridge: ChiSquare(rows=rows, ratio=1 / ridge), epsilon, delta)


def test_the_gaussian_scale_of_the_tables():
    assert least_level(lambda s: Gaussian(1.0, s), 1.0, 1e-6) == pytest.approx(4.2247, abs=5e-5)


@pytest.mark.parametrize(
    ("d", "k", "gaussian", "orthonormal"),
    [(300, 2, 7.92, 7.86), (300, 16, 5.06, 5.00), (300, 64, 4.48, 4.42), (100, 20, 4.92, 4.76)],
)
def test_the_fresh_scales_of_the_tables(d, k, gaussian, orthonormal):
    assert least_level(fresh("gaussian", d, k), 1.0, 1e-6) == pytest.approx(gaussian, abs=0.005)
    assert least_level(fresh("orthonormal", d, k), 1.0, 1e-6) == pytest.approx(orthonormal, abs=0.005)


@pytest.mark.parametrize(("rows", "ridge", "digits"), [(119, 38.2, 0.05), (473, 70.5, 0.05), (4239, 200, 0.5)])
def test_the_ridges_of_gaussian_sketches(rows, ridge, digits):
    """Covariance: R^2/s, and four times that when centred. Graphs with many vertices: w = 2/s."""
    assert least_level(lambda w: ChiSquare(rows=rows, ratio=1 / w), 1.0, 1e-6) == pytest.approx(ridge, abs=digits)


def test_the_graph_weight_for_a_hundred_vertices():
    # An edge of weight at most 1: ||v||^2/lambda = 2(1 - w/n)/w, so w = 2/(s + 2/n).
    w = least_level(lambda w: ChiSquare(rows=119, ratio=2 * (1 - w / 100) / w), 1.0, 1e-6, start=50.0)
    assert w == pytest.approx(43.3, abs=0.05)


def test_fresh_laplace_needs_far_less_than_chernoff_says():
    level = least_level(lambda b: FreshLaplace(dim_out=20, radius=1.0, laplace_scale=b), 1.0, 1e-6, start=4.0)
    assert level == pytest.approx(4.170, abs=0.005)  # Chernoff: 7.27, exact quantile of ||vP||_1: 6.86


def test_gaussian_noise_cannot_be_pure():
    with pytest.raises(ParameterError, match="delta=0"):
        least_level(lambda s: Gaussian(1.0, s), 1.0, 0.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 0.1), (math.nan, 0.1), (1.0, 1.0), (1.0, -0.1)])
def test_impossible_targets_are_refused_before_any_search(epsilon, delta):
    def never(_level):
        raise AssertionError

    with pytest.raises(ParameterError):
        least_level(never, epsilon, delta)


def test_least_epsilon_inverts_least_level():
    for delta in (1e-8, 1e-3):
        level = least_level(lambda s: Gaussian(1.0, s), 0.8, delta)
        assert least_epsilon(Gaussian(1.0, level), delta) == pytest.approx(0.8, rel=1e-9)
    assert least_epsilon(Response(1.5, 3), 0.0) == pytest.approx(1.5, rel=1e-11)
    assert least_epsilon(Gaussian(1.0, 1.0), 0.9) < 1e-20


@dataclass(frozen=True)
class Toy(Family):
    sensitivity: float

    def loss(self, level):
        return Laplace(self.sensitivity, level)


def test_calibrating_a_mechanism_keeps_its_promise():
    calibrated = calibrate(Toy(3.0), Guarantee(epsilon=0.5, unit="attribute"))
    assert calibrated.level == pytest.approx(6.0, rel=1e-11)
    assert calibrated.loss.delta(0.5) == 0


# ---- guesses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.5, 0.99, 1.5, 1e9, math.nan, math.inf])
def test_a_bad_guess_changes_nothing(factor):
    least = least_level(gaussian, 1.0, 1e-6)
    assert near_level(gaussian, 1.0, 1e-6, least * factor) == pytest.approx(least, rel=2.0**-39)


def test_a_good_guess_is_checked_and_costs_one_evaluation():
    seen = []

    def loss(level):
        seen.append(level)
        return Gaussian(1.0, level)

    least = least_level(gaussian, 1.0, 1e-6)
    level = near_level(loss, 1.0, 1e-6, least)
    assert seen == [level]
    assert least <= level < 1.001 * least
    assert gaussian(level).delta(1.0) <= 1e-6


def gaussian(level):
    return Gaussian(1.0, level)


def test_a_guessed_level_of_a_sketch_keeps_its_promise_and_hardly_less_would():
    promise = Guarantee(epsilon=1.0, delta=1e-6)
    prepared = Covariance(noise="sketch", rows=119, centred=True).prepare(Schema.reals(3, low=0, high=1), promise)
    level = calibrate(prepared, promise).level
    assert prepared.loss(level).delta(1.0) <= 1e-6 < prepared.loss(0.999 * level).delta(1.0)
    assert prepared.guess == pytest.approx(4 * 47.127, rel=1e-4)
