import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sfumato.errors import ParameterError
from sfumato.privacy.calibration import least_epsilon
from sfumato.privacy.losses import ChiSquare, Composed, FreshGaussian, FreshLaplace, Gaussian, Laplace, Pure, Response
from support.evidence import agrees

FRESH = FreshGaussian(family="gaussian", dim_in=300, dim_out=16, radius=1.0, scale=5.06)
EXAMPLES = [
    Pure(0.7),
    Laplace(1.0, 2.0),
    Gaussian(1.0, 3.0),
    FRESH,
    FreshGaussian(family="orthonormal", dim_in=30, dim_out=5, radius=1.0, scale=4.0, rounding=1e-4),
    FreshLaplace(dim_out=5, radius=1.0, laplace_scale=3.0),
    ChiSquare(rows=20, ratio=0.1),
    ChiSquare(rows=20, ratio=0.1, neighbours="replace"),
    Response(1.2, 4),
]


@pytest.mark.parametrize("loss", EXAMPLES, ids=lambda loss: type(loss).__name__)
def test_profiles_fall_and_stay_probabilities(loss):
    deltas = [loss.delta(e) for e in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)]
    assert all(0 <= d <= 1 for d in deltas)
    assert all(a >= b for a, b in pairwise(deltas))


@pytest.mark.parametrize("loss", EXAMPLES, ids=lambda loss: type(loss).__name__)
def test_the_pld_lies_above_the_profile_and_close_to_it(loss):
    alone = Composed([loss])
    for epsilon in (0.1, 0.5, 1.0, 1.5):
        truth = loss.delta(epsilon)
        assert truth <= alone.delta(epsilon) <= truth * 1.03 + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.floats(0.2, 4.0), st.floats(0.5, 4.0), st.floats(1.01, 2.0), st.sampled_from([Laplace, Gaussian]))
def test_more_noise_never_costs_more(epsilon, scale, factor, law):
    assert law(1.0, scale * factor).delta(epsilon) <= law(1.0, scale).delta(epsilon)


@pytest.mark.parametrize(("count", "scale"), [(2, 1.0), (10, 10.0), (100, 10.0), (1000, 60.0), (5000, 300.0)])
def test_composed_gaussians_are_one_gaussian(count, scale):
    composed, whole = Composed([Gaussian(1.0, scale)] * count), Gaussian(math.sqrt(count), scale)
    for epsilon in (0.1, 0.5, 1.0, 2.0, 3.0):
        truth = whole.delta(epsilon)
        assert truth <= composed.delta(epsilon) <= truth * 1.003 + 1e-11


def test_composed_pure_losses_are_the_binomial_of_randomized_response():
    n, e = 12, 0.25
    p = 1 / (1 + math.exp(-e))
    for epsilon in (0.0, 0.5, 1.0, 2.5):
        ones = [(math.comb(n, i) * p**i * (1 - p) ** (n - i), (2 * i - n) * e) for i in range(n + 1)]
        truth = sum(mass * max(0.0, -math.expm1(epsilon - loss)) for mass, loss in ones)
        for law in (Pure(e), Response(e)):
            assert truth <= Composed([law] * n).delta(epsilon) <= truth * 1.003 + 1e-11
    assert Composed([Pure(e)] * n).delta(n * e + 0.01) == 0


def test_very_long_compositions_stay_above_the_truth():
    """Rounding of Fourier transforms grows with the number of folds, and the allowance with it."""
    n = 100_000
    gaussians = Composed([Gaussian(1.0, 60.0)] * n)
    for epsilon in (30.0, 50.0):
        assert gaussians.delta(epsilon) >= Gaussian(math.sqrt(n), 60.0).delta(epsilon)
    p = 1 / (1 + math.exp(-0.01))
    ones = np.arange(n + 1)
    for epsilon in (5.0, 25.0):
        excess = np.maximum(0.0, (2 * ones - n) * 0.01 - epsilon)
        truth = np.sum(stats.binom.pmf(ones, n, p) * -np.expm1(-excess))
        assert Composed([Pure(0.01)] * n).delta(epsilon) >= truth


def test_a_fresh_projection_with_many_columns_is_never_called_pure():
    loss = FreshLaplace(dim_out=100_000, radius=1.0, laplace_scale=4.2)
    assert loss.delta(1.8) > 0
    with pytest.raises(ParameterError, match="delta=0"):
        least_epsilon(replace(loss, dim_out=50), 0.0)


def test_pure_parts_compose_to_a_pure_whole():
    assert least_epsilon(Composed([Laplace(1.0, 2.0), Response(0.25), Pure(0.25)]), 0.0) == pytest.approx(
        1.0, rel=1e-10
    )
    with pytest.raises(ParameterError, match="not resolved"):
        least_epsilon(Composed([Laplace(1.0, 2.0), Gaussian(1.0, 2.0)]), 0.0)


def test_tiny_pure_losses_cost_what_they_are():
    parts = [Composed([law] * 100) for law in (Pure(1e-5), Response(1e-5))]
    assert least_epsilon(parts[0], 1e-6) == least_epsilon(parts[1], 1e-6) < 0.001


@pytest.mark.parametrize(
    "loss",
    [
        FreshGaussian(family="gaussian", dim_in=9, dim_out=3, radius=5.0, scale=1.0),
        FreshGaussian(family="orthonormal", dim_in=9, dim_out=3, radius=5.0, scale=1.0),
        Gaussian(20.0, 1.0),
        Laplace(1000.0, 1.0),
        FreshGaussian(family="gaussian", dim_in=300, dim_out=16, radius=1000.0, scale=1.0),
        Pure(800.0),
        ChiSquare(rows=4239, ratio=1e4),
        FreshLaplace(dim_out=3, radius=1e20, laplace_scale=1.0),
    ],
    ids=repr,
)
def test_hardly_private_losses_are_priced_too(loss):
    deltas = [loss.delta(e) for e in (0.0, 1.0, 30.0, 100.0, 200.0, 600.0)]
    assert all(a >= b - 1e-30 for a, b in pairwise(deltas))
    composed = Composed([loss, loss])
    assert deltas[1] <= composed.delta(1.0) <= 1.0


def test_tiny_epsilons_and_unscaled_data_take_no_time():
    for dim_out, radius, epsilon in ((1, 1.0, 1e-12), (16, 1.0, 2.0**-100), (2, 1e6, 0.1), (2, 1e-6, 0.1)):
        for family in ("gaussian", "orthonormal"):
            loss = FreshGaussian(family=family, dim_in=300, dim_out=dim_out, radius=radius, scale=5.0)
            assert 0 < loss.delta(epsilon) <= 1
            assert loss.delta(epsilon) <= loss.delta(0.0) * (1 + 1e-11)


def test_numbers_of_other_types_are_taken_exactly_or_refused():
    assert ChiSquare(rows=np.int64(5), ratio=np.float64(0.1)).delta(0.1) == ChiSquare(rows=5, ratio=0.1).delta(0.1)
    assert Gaussian(np.float32(0.5), 2).delta(0.1) == Gaussian(0.5, 2.0).delta(0.1)
    for wrong in (Fraction(1, 3), 2**60 + 1):
        with pytest.raises(ParameterError, match="double"):
            Gaussian(wrong, 1.0)


@pytest.mark.parametrize("loss", EXAMPLES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf])
def test_profiles_are_asked_at_sensible_epsilons(loss, epsilon):
    for asked in (loss, Composed([loss])):
        with pytest.raises(ParameterError, match="epsilon"):
            asked.delta(epsilon)


def test_composition_does_not_depend_on_order():
    parts = [Gaussian(1.0, 4.0), Laplace(1.0, 5.0), Pure(0.1), Gaussian(1.0, 4.0)]
    assert Composed(parts).delta(1.0) == Composed(parts[::-1]).delta(1.0)
    assert Composed(parts) != Composed(parts[::-1])


def test_ten_fresh_releases_compose_to_the_tabled_epsilon():
    assert least_epsilon(Composed([FRESH] * 10), 1e-6) == pytest.approx(2.98, abs=0.005)


def test_replacing_is_adding_composed_with_removing():
    """Monte Carlo of N(0, diag(1+s, 1)) against N(0, diag(1, 1+s)), and the tabled thresholds."""
    rng, n, rows, s, epsilon = np.random.default_rng(5), 400_000, 8, 0.3, 0.5
    loss = s / (2 * (1 + s)) * ((1 + s) * rng.chisquare(rows, n) - rng.chisquare(rows, n))
    samples = np.maximum(0.0, -np.expm1(epsilon - loss))
    assert agrees(samples, ChiSquare(rows=rows, ratio=s, neighbours="replace").delta(epsilon))
    assert not agrees(samples, ChiSquare(rows=rows, ratio=s * 1.03, neighbours="replace").delta(epsilon))
    for r, inverse in ((119, 47.1), (473, 92.2)):
        deltas = [
            ChiSquare(rows=r, ratio=1 / (inverse + slip), neighbours="replace").delta(1.0) for slip in (-0.1, 0.1)
        ]
        assert deltas[0] > 1e-6 > deltas[1]


@pytest.mark.parametrize("broken", [False, True])
def test_fresh_laplace_matches_simulated_likelihood_ratios(broken):
    rng, n, k, b, epsilon = np.random.default_rng(6), 300_000, 6, 1.1, 0.6
    shift, noise = rng.standard_normal((n, k)) / math.sqrt(k) / b, rng.laplace(size=(n, k))
    loss = (np.abs(noise + shift) - np.abs(noise)).sum(axis=1)
    stated = FreshLaplace(dim_out=k, radius=1.03 if broken else 1.0, laplace_scale=b).delta(epsilon)
    assert agrees(np.maximum(0.0, -np.expm1(epsilon - loss)), stated) != broken


def test_fresh_laplace_charges_for_the_rounding_of_the_projection():
    exact = FreshLaplace(dim_out=4, radius=1.0, laplace_scale=3.0)
    rounded = FreshLaplace(dim_out=4, radius=1.0, laplace_scale=3.0, rounding=0.03)
    shift = 2 * 0.03 / 3
    assert exact.delta(1.0 - shift) * 0.999999 <= rounded.delta(1.0) <= exact.delta(1.0 - shift - 1e-9)
    assert rounded.delta(1.0) <= Composed([rounded]).delta(1.0) <= exact.delta(1.0 - shift - 2e-4)
    assert rounded.delta(shift / 2) <= 1.0


def test_fresh_gaussian_charges_for_the_rounding_of_the_projection():
    exact = FreshGaussian(family="orthonormal", dim_in=5, dim_out=5, radius=1.02, scale=4.0)
    rounded = FreshGaussian(family="orthonormal", dim_in=5, dim_out=5, radius=1.0, scale=4.0, rounding=0.02)
    assert rounded.delta(1.0) == pytest.approx(exact.delta(1.0), rel=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Pure(0.0),
        lambda: Laplace(0.0, 1.0),
        lambda: Laplace(1.0, 0.0),
        lambda: Gaussian(1.0, math.nan),
        lambda: Response(1.0, 1),
        lambda: ChiSquare(rows=0, ratio=1.0),
        lambda: ChiSquare(rows=1, ratio=-1.0),
        lambda: ChiSquare(rows=1, ratio=1.0, neighbours="both"),
        lambda: FreshLaplace(dim_out=0, radius=1.0, laplace_scale=1.0),
        lambda: FreshGaussian(family="rademacher", dim_in=3, dim_out=2, radius=1.0, scale=1.0),
        lambda: FreshGaussian(family="orthonormal", dim_in=3, dim_out=4, radius=1.0, scale=1.0),
        lambda: FreshGaussian(family="gaussian", dim_in=3, dim_out=4, radius=1.0, scale=1.0, rounding=-1.0),
        lambda: Composed([]),
    ],
)
def test_impossible_losses_are_refused(make):
    with pytest.raises(ParameterError):
        make()


@pytest.mark.parametrize("radius", [0.125, 1.0, 8.0])
def test_rounding_costs_a_fresh_laplace_as_much_in_any_unit(radius):
    """sqrt(k) * radius * rounding / b of epsilon on top: only radius over b matters."""
    rounded = FreshLaplace(dim_out=4, radius=radius, laplace_scale=3 * radius, rounding=0.3)
    exact = FreshLaplace(dim_out=4, radius=radius, laplace_scale=3 * radius)
    for epsilon in (0.5, 1.0, 2.0):
        assert exact.delta(epsilon) <= rounded.delta(epsilon + 2 * 0.3 / 3) <= exact.delta(epsilon) * (1 + 1e-9)
