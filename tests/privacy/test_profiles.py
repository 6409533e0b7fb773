"""Profiles against golden numbers, an independent computation in floating point, and Monte Carlo."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from sfumato.privacy import profiles
from sfumato.privacy.profiles import Moves
from support.evidence import agrees

PAPER = {"dim_out": 16}


def float_gaussian(epsilon, mu):
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 4.0])
@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_the_gaussian_profile_is_the_analytic_one(epsilon, scale):
    truth = float_gaussian(epsilon, 1 / scale)
    assert profiles.gaussian(epsilon, sensitivity=1.0, scale=scale) == pytest.approx(truth, rel=1e-6, abs=1e-15)


def test_published_gaussian_settings_are_wasteful():
    # Kenthapadi et al. Theorem 1 (5.3146) and Lemma 2 (14.868) against the exact 4.2247, at epsilon 1, delta 1e-6.
    for scale, meets in ((4.2246, False), (4.2247, True), (5.3146, True), (14.868, True)):
        assert (profiles.gaussian(1.0, sensitivity=1.0, scale=scale) <= 1e-6) == meets


@pytest.mark.parametrize(("k", "epsilon", "scale"), [(1, 1.0, 2.0), (2, 0.5, 1.0), (16, 1.0, 5.06), (300, 0.1, 8.0)])
def test_the_chi_mixture_agrees_with_floating_point_quadrature(k, epsilon, scale):
    def integrand(x):
        return stats.chi.pdf(x, k) * float_gaussian(epsilon, 1.3 * (x / math.sqrt(k) + 0.01) / scale)

    slow, _ = integrate.quad(integrand, max(1e-9, math.sqrt(k) - 9), math.sqrt(k) + 9, limit=400, epsabs=0, epsrel=1e-9)
    assert profiles.fresh_gaussian_chi(epsilon, Moves(1.3, scale, 0.01), dim_out=k) == pytest.approx(slow, rel=1e-5)


@pytest.mark.parametrize(("d", "k", "scale"), [(2, 1, 1.0), (10, 9, 2.0), (300, 16, 5.0), (100, 1, 3.0)])
def test_the_beta_mixture_agrees_with_floating_point_quadrature(d, k, scale):
    def integrand(t):
        density = stats.beta.pdf(math.sin(t) ** 2, k / 2, (d - k) / 2) * 2 * math.sin(t) * math.cos(t)
        return density * float_gaussian(1.0, 1.3 * (math.sqrt(d / k) * math.sin(t) + 0.01) / scale)

    slow, _ = integrate.quad(integrand, 1e-9, math.pi / 2 - 1e-9, limit=400, epsabs=0, epsrel=1e-9)
    assert profiles.fresh_gaussian_beta(1.0, Moves(1.3, scale, 0.01), dim_in=d, dim_out=k) == pytest.approx(
        slow, rel=1e-5
    )


def test_the_beta_mixture_at_full_dimension_is_the_gaussian():
    full = profiles.fresh_gaussian_beta(1.0, Moves(1.0, 4.0, 0.0), dim_in=7, dim_out=7)
    assert full == profiles.gaussian(1.0, sensitivity=1.0, scale=4.0)


def hockey_stick(loss, epsilon):
    """Samples, under the first law, whose mean is delta(epsilon)."""
    return np.maximum(0.0, -np.expm1(epsilon - loss))


def gaussian_loss(rng, shift):
    return shift * shift / 2 + shift * rng.standard_normal(shift.shape)


@pytest.mark.parametrize("broken", [False, True])
def test_fresh_gaussian_profiles_match_simulated_likelihood_ratios(broken):
    rng, n = np.random.default_rng(1), 400_000
    d, k, epsilon, scale = 12, 3, 0.5, 0.8 if not broken else 0.8 * 1.03
    chi = np.sqrt(rng.chisquare(k, n) / k) / 0.8
    beta = np.sqrt(d / k * rng.beta(k / 2, (d - k) / 2, n)) / 0.8
    by_chi = profiles.fresh_gaussian_chi(epsilon, Moves(1.0, scale, 0.0), dim_out=k)
    by_beta = profiles.fresh_gaussian_beta(epsilon, Moves(1.0, scale, 0.0), dim_in=d, dim_out=k)
    assert agrees(hockey_stick(gaussian_loss(rng, chi), epsilon), by_chi) != broken
    assert agrees(hockey_stick(gaussian_loss(rng, beta), epsilon), by_beta) != broken


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_chi_square_profiles_match_simulated_likelihood_ratios(rows, broken):
    rng, n, s, epsilon = np.random.default_rng(2), 400_000, 0.9, 0.4
    stated = s * 1.05 if broken else s
    plain = rng.chisquare(rows, n)

    def log_ratio(t):  # of N(0, 1 + s) over N(0, 1), at a sum of squares t
        return t * s / (2 * (1 + s)) - rows / 2 * math.log1p(s)

    adding = hockey_stick(log_ratio((1 + s) * plain), epsilon)
    removing = hockey_stick(-log_ratio(plain), epsilon)
    assert agrees(adding, profiles.chi_square_adding(epsilon, rows=rows, ratio=stated)) != broken
    expected = profiles.chi_square_removing(epsilon, rows=rows, ratio=stated)
    if expected == 0:
        assert removing.max() == 0
    else:
        assert agrees(removing, expected) != broken


@pytest.mark.parametrize("broken", [False, True])
def test_one_folded_laplace_coordinate_matches_simulated_likelihood_ratios(broken):
    rng, n, k, b, epsilon = np.random.default_rng(3), 400_000, 4, 0.7, 0.3
    shift = np.abs(rng.standard_normal(n)) / math.sqrt(k) / b
    x = rng.laplace(size=n)
    loss = np.abs(x + shift) - np.abs(x)
    stated = profiles.folded_laplace(epsilon, dim_out=k, radius=1.03 if broken else 1.0, laplace_scale=b)
    assert agrees(hockey_stick(loss, epsilon), stated) != broken


def test_chernoff_thresholds_are_the_tabled_ones():
    for k, c in ((2, 5.51), (3, 5.64), (10, 6.41), (20, 7.27), (64, 9.87)):
        tails = [profiles.folded_sum_tail((c + slip) * math.sqrt(k), dim_out=k) for slip in (-0.005, 0.005)]
        assert tails[0] > 1e-6 > tails[1]


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.4, 0.3, 0.2, 0.1)])
@pytest.mark.parametrize("total", [0.2, 1.0, 5.0])
def test_one_coordinate_is_the_worst_way_to_move_under_laplace_noise(shares, total):
    """Exact losses on a fine grid: splitting an l1 move over coordinates never raises delta."""
    step = total / 4000
    law = np.ones(1)
    low = 0
    for share in shares:  # the loss of one coordinate is clip(u - 2x, -u, u) for x ~ Laplace(1)
        u = share * total
        size = round(u / step)
        edges = np.arange(-size, size + 1) * step
        cdf = np.where(edges >= u, 1.0, stats.laplace.sf((u - edges) / 2))
        law = np.convolve(law, np.diff(cdf, prepend=0.0))
        low -= size
    losses = (low + np.arange(law.size)) * step
    for epsilon in np.linspace(0, total, 7):
        split = float(law @ hockey_stick(losses, epsilon))  # losses rounded up to the grid
        whole = profiles.laplace(epsilon, sensitivity=total, laplace_scale=1.0)
        assert split <= whole + len(shares) * step


def test_laplace_is_exactly_pure_at_the_ratio():
    for sensitivity, scale in ((1.0, 3.0), (0.1, 0.3), (7.0, 0.7)):
        ratio = sensitivity / scale
        inside, outside = math.nextafter(ratio, math.inf), math.nextafter(ratio, 0)
        assert profiles.laplace(inside, sensitivity=sensitivity, laplace_scale=scale) == 0
        assert profiles.laplace(outside, sensitivity=sensitivity, laplace_scale=scale) > 0


def test_profiles_are_never_below_the_truth_in_extended_precision():
    from flint import arb, ctx  # noqa: PLC0415

    with ctx.workprec(400):
        for epsilon in (0.0, 0.3, 1.0, 5.0):
            for scale in (0.2, 1.0, 4.2247, 30.0):
                mu = 1 / arb(scale)
                tails = [((arb(epsilon) / mu + sign * mu / 2) / arb(2).sqrt()).erfc() / 2 for sign in (-1, 1)]
                truth = tails[0] - arb(epsilon).exp() * tails[1]
                bound = profiles.gaussian(epsilon, sensitivity=1.0, scale=scale)
                assert arb(bound) >= truth
                assert arb(bound) <= truth * (1 + arb(2) ** -38) + arb(10) ** -320
