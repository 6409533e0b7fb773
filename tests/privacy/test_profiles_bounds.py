"""Profiles to 40 digits, computed in other ways: never below the truth, and above it by a hair."""

import itertools
import math

import pytest
from flint import arb
from mpmath import mp

from sfumato.privacy import profiles
from sfumato.privacy.profiles import Moves


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


def sharp(bound, truth):
    """Whether a bound is on the private side of the truth, and not far from it."""
    return truth <= mp.mpf(bound) <= truth * (1 + mp.mpf(2) ** -38)


def laplace_loss(u):
    """The loss of a coordinate that moves by u under Laplace noise: two atoms, and a density between them."""
    atoms = ((u, mp.mpf(1) / 2), (-u, mp.exp(-u) / 2))
    return atoms, lambda loss: mp.exp((loss - u) / 2) / 4


def laplace_truth(epsilon, u):
    """E (1 - e^(epsilon - loss))+."""
    (atom, low), density = laplace_loss(u)
    total = sum(p * max(0, 1 - mp.exp(epsilon - loss)) for loss, p in (atom, low))
    start = max(-u, epsilon)
    return total + (mp.quad(lambda x: density(x) * (1 - mp.exp(epsilon - x)), [start, u]) if start < u else 0)


@pytest.mark.parametrize(("u", "epsilon"), [(1.0, 0.0), (1.0, 0.25), (3.5, 3.25), (0.125, 0.0), (40.0, 1.0)])
def test_the_laplace_profile_is_sharp(u, epsilon):
    assert sharp(profiles.laplace(epsilon, sensitivity=u, laplace_scale=1.0), laplace_truth(mp.mpf(epsilon), mp.mpf(u)))
    assert sharp(
        profiles.laplace(epsilon, sensitivity=u * 8, laplace_scale=8.0), laplace_truth(mp.mpf(epsilon), mp.mpf(u))
    )


def test_nothing_that_moves_costs_nothing():
    assert profiles.laplace(0.0, sensitivity=0.0, laplace_scale=1.0) == 0
    assert profiles.laplace(-1.0, sensitivity=0.0, laplace_scale=1.0) == 0
    assert profiles.laplace(0.0, sensitivity=2.0**-40, laplace_scale=1.0) > 0


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (2.0, 0.5), (0.5, 2.0), (0.125, 4.0), (3.0, 2.0)])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_two_laplace_mechanisms_cost_their_composition_and_no_less(first, second, share):
    """The profile of one, averaged over the loss of the other."""
    epsilon = share * (first + second)
    u, e = mp.mpf(second), mp.mpf(epsilon)
    atoms, density = laplace_loss(mp.mpf(first))

    def after(loss):  # the other's profile, also where epsilon is negative
        left = e - loss
        return 0 if left >= u else 1 - mp.exp((left - u) / 2) if left >= -u else 1 - mp.exp(left)

    corners = sorted({mp.mpf(-first), *(x for x in (e - u, e + u) if -first < x < first), mp.mpf(first)})
    truth = sum(p * after(loss) for loss, p in atoms) + mp.quad(lambda x: density(x) * after(x), corners)
    assert sharp(profiles.laplace_pair(epsilon, first, second), truth)


def answers_truth(epsilon, rate, columns):
    """Every answer of every column: the sum of what is likelier under the first truths by more than e^epsilon."""
    top, total = mp.exp(rate), mp.mpf(0)
    for answers in itertools.product(*(range(m) for m in columns)):
        one, two = mp.mpf(1), mp.mpf(1)
        for answer, m in zip(answers, columns, strict=True):
            one *= (top if answer == 0 else 1) / (top + m - 1)
            two *= (top if answer == 1 else 1) / (top + m - 1)
        total += max(0, one - mp.exp(epsilon) * two)
    return total


@pytest.mark.parametrize("categories", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.1])
def test_the_profile_of_randomized_response_is_sharp(categories, epsilon):
    found = profiles.response(epsilon, response_epsilon=1.2, categories=categories)
    assert sharp(found, answers_truth(mp.mpf(epsilon), mp.mpf(1.2), [categories]))
    for beyond in (1.2, 1.3):
        assert profiles.response(beyond, response_epsilon=1.2, categories=categories) == 0


@pytest.mark.parametrize("folds", [((2, 3),), ((3, 1),), ((2, 2), (4, 2)), ((5, 3),)], ids=str)
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5, 0.7, 1.0, 1.3])
def test_the_profile_of_many_randomized_responses_is_sharp(folds, epsilon):
    columns = [m for m, count in folds for _ in range(count)]
    found = profiles.responses(epsilon, response_epsilon=0.5, folds=folds)
    truth = answers_truth(mp.mpf(epsilon), mp.mpf(0.5), columns)
    assert sharp(found, truth) if truth > 1e-30 else found < 1e-300  # computed at the very edge, where it is 0


def test_many_randomized_responses_cost_nothing_beyond_their_sum():
    assert profiles.responses(1.5, response_epsilon=0.5, folds=((2, 3),)) < 1e-300
    assert profiles.responses(1.5 * (1 + 2.0**-49), response_epsilon=0.5, folds=((2, 3),)) == 0
    assert profiles.responses(1.5 - 2.0**-30, response_epsilon=0.5, folds=((2, 3),)) > 0


@pytest.mark.parametrize(("rows", "ratio"), [(1, 0.9), (4, 0.3), (50, 0.05)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_chi_square_profiles_are_sharp(rows, ratio, epsilon):
    r, s, e = mp.mpf(rows) / 2, mp.mpf(ratio), mp.mpf(epsilon)

    def density(t, variance):
        return t ** (r - 1) * mp.exp(-t / (2 * variance)) / ((2 * variance) ** r * mp.gamma(r))

    edge = 2 * (1 + s) / s * (e + r * mp.log(1 + s))
    steps = [edge, edge + rows, edge + 10 * rows + 20, edge + 40 * rows + 200, edge + 100 * rows + 600]
    adding = mp.quad(lambda t: density(t, 1 + s) - mp.exp(e) * density(t, 1), steps)
    assert sharp(profiles.chi_square_adding(epsilon, rows=rows, ratio=ratio), adding)
    edge = 2 * (1 + s) / s * (r * mp.log(1 + s) - e)
    found = profiles.chi_square_removing(epsilon, rows=rows, ratio=ratio)
    if edge <= 0:
        assert found == 0
    else:
        gone = [mp.gammainc(r, 0, edge / 2 / v, regularized=True) for v in (1, 1 + s)]
        assert sharp(found, gone[0] - mp.exp(e) * gone[1])


@pytest.mark.parametrize(
    ("k", "radius", "scale", "epsilon"), [(1, 1.0, 1.0, 0.5), (4, 2.0, 0.5, 1.0), (9, 0.5, 2.0, 0.0)]
)
def test_the_folded_laplace_profile_is_sharp(k, radius, scale, epsilon):
    c, e = mp.mpf(radius) / mp.sqrt(k) / scale, mp.mpf(epsilon)
    start = e / c
    truth = mp.quad(
        lambda g: 2 * mp.npdf(g) * (1 - mp.exp((e - c * g) / 2)), [start, start + 1, start + 4, start + 12, start + 30]
    )
    assert sharp(profiles.folded_laplace(epsilon, dim_out=k, radius=radius, laplace_scale=scale), truth)


@pytest.mark.parametrize(("k", "threshold"), [(1, 3.0), (1, 8.0), (2, 4.0), (16, 30.0)])
def test_chernoffs_bound_is_above_the_tail_and_as_low_as_it_goes(k, threshold):
    def at(x):
        return mp.exp(-x * threshold) * (2 * mp.exp(x * x / 2) * mp.ncdf(x)) ** k

    found = mp.mpf(profiles.folded_sum_tail(threshold, dim_out=k))
    best = mp.findroot(lambda x: -threshold + k * (x + mp.npdf(x) / mp.ncdf(x)), threshold / k)
    assert at(best) * (1 - mp.mpf(10) ** -30) <= found <= at(best) * (1 + mp.mpf(10) ** -9)
    if k == 1:
        assert found >= 2 * mp.ncdf(-threshold)


def gaussian_truth(epsilon, mu):
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def chi_truth(epsilon, per_x, rounding, k, ends):
    def part(x):
        density = 2 ** (1 - mp.mpf(k) / 2) * x ** (k - 1) * mp.exp(-x * x / 2) / mp.gamma(mp.mpf(k) / 2)
        return density * gaussian_truth(epsilon, per_x * (x / mp.sqrt(k) + rounding))

    return mp.quad(part, ends)


@pytest.mark.parametrize(("k", "epsilon", "scale"), [(1, 1.0, 2.0), (2, 0.5, 1.0), (16, 1.0, 5.0), (5, 6.0, 3.0)])
def test_the_chi_mixture_is_never_below_the_truth(k, epsilon, scale):
    middle = math.sqrt(k)
    ends = [mp.mpf(2) ** -20, *(middle + x for x in (-0.9 * middle, -0.5 * middle, 0, 1, 2, 4, 7, 14))]
    truth = chi_truth(mp.mpf(epsilon), mp.mpf(1.3) / scale, mp.mpf(0.01), k, ends)
    bound = profiles.fresh_gaussian_chi(epsilon, Moves(1.3, scale, 0.01), dim_out=k)
    assert sharp(bound, truth)


def test_what_lies_beyond_the_chi_mixtures_range_is_added():
    """Here all of delta comes from stretches beyond what is integrated, far out in the tail."""
    truth = chi_truth(mp.mpf(20), mp.mpf(0.05), mp.mpf(0), 1, [13, 20, 25, 30, 45])
    bound = profiles.fresh_gaussian_chi(20.0, Moves(0.05, 1.0, 0.0), dim_out=1)
    assert 0 < truth <= bound <= 4 * mp.exp(-72)


@pytest.mark.parametrize(("d", "k", "scale"), [(2, 1, 1.0), (10, 9, 2.0), (60, 4, 5.0)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_the_beta_mixture_is_never_below_the_truth(d, k, scale, epsilon):
    a, b, e = mp.mpf(k) / 2, mp.mpf(d - k) / 2, mp.mpf(epsilon)

    def part(t):
        density = 2 * mp.sin(t) ** (k - 1) * mp.cos(t) ** (d - k - 1) / mp.beta(a, b)
        stretch = mp.sqrt(mp.mpf(d) / k) * mp.sin(t)
        return density * gaussian_truth(e, mp.mpf(1.3) / scale * (stretch + mp.mpf(0.01)))

    truth = mp.quad(part, [mp.mpf(2) ** -40, 0.1, 0.25, 0.5, 1, mp.pi / 2])
    bound = profiles.fresh_gaussian_beta(epsilon, Moves(1.3, scale, 0.01), dim_in=d, dim_out=k)
    assert sharp(bound, truth)


def test_probabilities_stay_probabilities():
    assert profiles.gaussian(0.0, sensitivity=1000.0, scale=1.0) == 1
    assert profiles.laplace(0.0, sensitivity=1000.0, laplace_scale=1.0) == 1
    assert profiles.gaussian(1000.0, sensitivity=1.0, scale=1.0) == pytest.approx(0, abs=1e-300)


@pytest.mark.parametrize("level", [1e-6, 0.3, 1.0, 9.99])
def test_the_last_point_below_a_level_is_below_it_and_close(level):
    found = float(profiles._last_below(lambda x: x, arb(level), arb(0), arb(10)))
    assert level * (1 - 1 / 64) < found < level
