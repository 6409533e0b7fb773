"""Every estimator against simulation: bias, variance, coverage; the same checks reject slightly wrong formulas."""

import itertools
import math
import pickle
from functools import cache
from typing import get_args

import numpy as np
import pytest
from scipy import sparse, stats

from sfumato.errors import ParameterError
from sfumato.estimation import sketches
from sfumato.intervals import inner_products, squared_lengths
from sfumato.intervals.estimate import Quantity
from sfumato.intervals.moments import _FAMILIES, Geometry, NoiseLaw, SketchLaw
from sfumato.intervals.pair_law import Gram
from sfumato.intervals.squared_lengths import LengthLaw
from sfumato.projection.families import Family
from sfumato.projection.projection import Projection
from support.evidence import agrees
from support.images import images, noise_draws

FAMILIES = list(get_args(Family))
KINDS = ["gaussian", "laplace"]


# ---- third moments, an oracle for the computed laws ------------------------------------------------------------------


def third_of_square(law, copies):
    """The third central moment of n^2 (one copy) or (n - m)^2 (two copies), from the cumulants of the noise.

    Laplace of variance 1 has kappa_4 = 3 and kappa_6 = 30; a difference of two keeps half and a quarter of them.
    """
    excess, sixth = (3 / copies, 30 / copies**2) if law.kind == "laplace" else (0.0, 0.0)
    return (sixth + 12 * excess + 8) * (copies * law.variance) ** 3


def stretch_third(geometry, squared):
    """Of ||vP||^2: exact for gaussian and orthonormal; for the others that of a v spread over many columns."""
    if geometry.coefficients[0] == 0:
        return 0.0 * squared
    k, rest = geometry.dim_out, geometry.dim_in - geometry.dim_out
    if geometry.family != "orthonormal":
        return 8 * squared**3 / k**2
    total = geometry.dim_in / 2  # ||vP||^2 = r^2 (d/k) Beta(k/2, (d-k)/2)
    skewness = (rest - k) * math.sqrt(total + 1) / ((total + 2) * math.sqrt(k * rest / 4))
    return skewness * geometry.stretch_variance(squared) ** 1.5


def length_third(squared, law, copies):
    """Of ||w + e||^2, w = vP: E S^3 + 3 E S A^2 + 3 E A^2 B + E B^3, S, A, B the parts of length, product and noise."""
    noise, geometry = law.noise, law.geometry
    entry = copies * noise.variance
    square_variance = (noise.fourth if copies == 1 else noise.fourth_of_difference) * noise.variance**2
    mixed = 12 * entry * geometry.stretch_variance(squared) + 12 * squared * square_variance
    return stretch_third(geometry, squared) + mixed + geometry.dim_out * third_of_square(noise, copies)


# ---- simulation -----------------------------------------------------------------------------------------------------


def real_images(family, vectors, k, count):
    for seed in range(count):
        drawn = Projection(family=family, dim_in=vectors.shape[1], dim_out=k, seed=seed).draw()
        values = drawn.values.toarray() if sparse.issparse(drawn.values) else drawn.values
        yield vectors @ values * drawn.factor


X = np.array([1.0, -0.5, 2.0, 0.3, 0.0, 1.2])
Y = np.array([0.4, 0.9, 1.5, -0.7, 0.2, 0.0])
COUNT = 100_000


def sizes(family):
    return (6, 6) if family == "identity" else (6, 4)


@cache
def simulated_images(family):
    rng = np.random.default_rng(FAMILIES.index(family))
    return images(family, [X, Y], sizes(family)[1], COUNT, rng)


@cache
def simulated_release(family, kind):
    """Released pairs of rows, a projection each, at noise of scale 0.8."""
    rng = np.random.default_rng(100 + FAMILIES.index(family))
    clean = simulated_images(family)
    noisy = clean + noise_draws(kind, 0.8, clean.shape, rng)
    return noisy[:, 0], noisy[:, 1]


def variance_agrees(errors, expected):
    return agrees(errors**2, expected)


def check_variance(errors, expected):
    assert variance_agrees(errors, expected)
    assert not variance_agrees(errors, 0.9 * expected)
    assert not variance_agrees(errors, 1.1 * expected)


# ---- the laws -------------------------------------------------------------------------------------------------------


def test_the_families_are_those_of_projections():
    assert list(_FAMILIES) == [*FAMILIES, "principal"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_simulated_projections_have_the_law_of_the_real_ones(family):
    k = sizes(family)[1]
    real = np.array([(z[0] @ z[1], z[0] @ z[0]) for z in real_images(family, np.stack([X, Y]), k, 1500)])
    z = simulated_images(family)
    twin = np.stack([(z[:, 0] * z[:, 1]).sum(axis=1), (z[:, 0] ** 2).sum(axis=1)], axis=1)
    for power in (1, 2):
        error = (real**power).std(axis=0) / math.sqrt(len(real)) + 1e-9
        assert (np.abs((real**power).mean(axis=0) - (twin**power).mean(axis=0)) < 5 * error).all()


@pytest.mark.parametrize(("kind", "one", "two"), [("gaussian", 2, 8), ("laplace", 5, 14)])
def test_moments_of_squared_noise(kind, one, two):
    law = NoiseLaw(kind, 1.5)
    assert (law.variance, law.fourth, law.fourth_of_difference) == (2.25, one, two)
    even = [math.factorial(2 * m) / 2**m for m in range(4)] if kind == "laplace" else [1, 1, 3, 15]
    even = np.array(even) * law.variance ** np.arange(4)
    double = [sum(math.comb(2 * m, 2 * j) * even[j] * even[m - j] for j in range(m + 1)) for m in range(4)]
    for copies, powers in ((1, even), (2, double)):
        third = powers[3] - 3 * powers[2] * powers[1] + 2 * powers[1] ** 3
        assert third_of_square(law, copies) == pytest.approx(third, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", [1, 2])
def test_noise_exceeds_its_tail_as_often_as_said(kind, copies):
    rng, law = np.random.default_rng(1), NoiseLaw(kind, 1.5)
    draws = sum(noise_draws(kind, 1.5, 400_000, rng) for _ in range(copies))
    for probability in (0.3, 0.025, 1e-3):
        error = math.sqrt(probability / draws.size)
        assert abs(np.mean(draws > law.tail(probability, copies)) - probability) < 5 * error
        assert abs(np.mean(draws > 0.9 * law.tail(probability, copies)) - probability) > 5 * error
        assert law.exceeding(law.tail(probability, copies), copies) == pytest.approx(probability, rel=1e-9)
        assert law.exceeding(-law.tail(probability, copies), copies) == pytest.approx(1 - probability, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", [1, 2])
def test_even_moments_of_noise_agree_with_the_moments_of_its_square_and_with_its_tails(kind, copies):
    law = NoiseLaw(kind, 1.5)
    second, fourth, sixth, eighth = (law.moment(power, copies) for power in (2, 4, 6, 8))
    own = law.fourth if copies == 1 else law.fourth_of_difference
    assert second == pytest.approx(copies * law.variance, rel=1e-12)
    assert fourth - second**2 == pytest.approx(own * law.variance**2, rel=1e-12)
    assert sixth - 3 * fourth * second + 2 * second**3 == pytest.approx(third_of_square(law, copies), rel=1e-12)
    x = np.linspace(0, 120, 400_001)
    assert eighth == pytest.approx(16 * np.sum(x**7 * law.exceeding(x, copies)) * x[1], rel=1e-6)  # by parts


@pytest.mark.parametrize("family", FAMILIES)
def test_projections_stretch_and_turn_as_their_geometry_says(family):
    d, k = sizes(family)
    geometry, z = Geometry(family, d, k), simulated_images(family)
    lengths, inner = (z[:, 0] ** 2).sum(axis=1) - X @ X, (z[:, 0] * z[:, 1]).sum(axis=1) - X @ Y
    stretch = geometry.stretch_variance(X @ X, np.sum(X**4))
    turn = geometry.inner_variance(X @ X, Y @ Y, X @ Y, np.sum(X**2 * Y**2))
    if family == "identity":
        assert stretch == turn == np.abs(lengths).max() == np.abs(inner).max() == 0
        return
    check_variance(lengths, stretch)
    check_variance(inner, turn)
    assert geometry.stretch_variance(X @ X) >= stretch  # without the fourth powers: the cautious side
    assert geometry.inner_variance(X @ X, Y @ Y, X @ Y) >= turn


@pytest.mark.parametrize("d", [8, 30])
@pytest.mark.parametrize("family", ["gaussian", "orthonormal", "sparse", "rademacher"])
def test_the_skewness_of_lengths_is_the_stated_one(family, d):
    """Exact for the first two; for the others 48 e_3(v^2)/k^2, which tends to it for a v spread over many columns."""
    rng, v = np.random.default_rng(8), np.full(d, 1 / math.sqrt(d))
    third = ((images(family, [v], 6, COUNT, rng)[:, 0] ** 2).sum(axis=1) - 1) ** 3
    stated = stretch_third(Geometry(family, d, 6), 1.0)
    if family in ("sparse", "rademacher"):
        stated *= (1 - 1 / d) * (1 - 2 / d)
    assert agrees(third, stated)
    assert not agrees(third, 1.5 * stated + 0.03)


def test_an_orthonormal_square_projection_distorts_nothing():
    geometry = Geometry("orthonormal", 5, 5)
    assert geometry.stretch_variance(3.0) == geometry.inner_variance(1.0, 2.0, 0.5) == stretch_third(geometry, 3.0) == 0
    assert Geometry("orthonormal", 1, 1).coefficients == (0, 0, 0)


# ---- estimators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_estimates_are_unbiased_and_vary_as_stated(family, kind):
    d, k = sizes(family)
    law = SketchLaw(NoiseLaw(kind, 0.8), Geometry(family, d, k))
    a, b = simulated_release(family, kind)
    public, v = simulated_images(family)[:, 1], X - Y
    r2, v4 = v @ v, np.sum(v**4)
    cases = [
        (
            sketches.squared_distance(a, b, law),
            r2,
            law.distance_variance(r2, v4),
            2 * k * 0.64,
        ),
        (
            sketches.squared_distance_to_public(a, public, law),
            r2,
            law.norm_variance(r2, v4),
            k * 0.64,
        ),
        (
            sketches.squared_norm(a, law),
            X @ X,
            law.norm_variance(X @ X, np.sum(X**4)),
            k * 0.64,
        ),
        (
            sketches.inner_product(a, b, law),
            X @ Y,
            law.inner_product_variance(X @ X, Y @ Y, X @ Y, np.sum(X**2 * Y**2)),
            k * 0.64,
        ),
    ]
    for found, truth, variance, bias in cases:
        assert agrees(found.value, truth)
        assert not agrees(found.value, truth + 0.1 * bias)
        check_variance(found.value - truth, variance)


def test_the_printed_variance_of_dhaliwal_claim_7_is_rejected():
    a, b = simulated_release("gaussian", "laplace")
    law, r2, k, s2 = SketchLaw(NoiseLaw("laplace", 0.8), Geometry("gaussian", 6, 4)), (X - Y) @ (X - Y), 4, 0.64
    errors = sketches.squared_distance(a, b, law).value - r2
    right = 2 * r2**2 / k + 14 * k * s2**2 + 8 * s2 * r2
    assert law.distance_variance(r2) == pytest.approx(right, rel=1e-12)
    assert variance_agrees(errors, right)
    assert not variance_agrees(errors, 2 * r2**2 / k + 2 * k * (7 * s2**2 - s2) + 4 * s2 * r2)  # as printed
    assert not variance_agrees(errors, 2 * r2**2 / k + 14 * k * s2**2 + 4 * s2 * r2)  # the cross term alone
    assert not variance_agrees(errors, 2 * r2**2 / k + 8 * k * s2**2 + 8 * s2 * r2)  # Gaussian fourth moments


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_skewness_of_the_estimate_is_the_stated_one(family, kind):
    d, k = sizes(family)
    a, b = simulated_release(family, kind)
    law, r2 = SketchLaw(NoiseLaw(kind, 0.8), Geometry(family, d, k)), float((X - Y) @ (X - Y))
    cubes = (sketches.squared_distance(a, b, law).value - r2) ** 3
    stated = length_third(r2, law, 2)
    if family in ("identity", "gaussian", "orthonormal"):
        assert agrees(cubes, stated)
        assert not agrees(cubes, 1.4 * stated)
    else:
        assert cubes.mean() < 1.05 * stated  # v has few columns here


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_ratios_are_close_to_the_truth_and_vary_as_the_delta_method_says(family, kind):
    rng, d, k, count = np.random.default_rng(12), 100, 100 if family == "identity" else 90, 3000
    x = (rng.random(d) < 0.5).astype(float)
    y = np.where(rng.random(d) < 0.3, 1 - x, x)
    law = SketchLaw(NoiseLaw(kind, 0.3), Geometry(family, d, k))
    clean = images(family, [x, y], k, count, rng)
    a, b = (clean[:, i] + noise_draws(kind, 0.3, (count, k), rng) for i in (0, 1))
    truths = {"cosine": x @ y / math.sqrt((x @ x) * (y @ y)), "jaccard": x @ y / np.sum(np.maximum(x, y))}
    for name, truth in truths.items():
        found = getattr(sketches, name)(a, b, law)
        spread = found.value.std()
        assert abs(found.value.mean() - truth) < 0.15 * spread
        assert np.median(found.standard_error) == pytest.approx(spread, rel=0.08)
        assert covered(found.interval(), truth) > 0.95 - slack(count)


# ---- intervals ------------------------------------------------------------------------------------------------------


def covered(interval, truth):
    low, high = interval
    assert (np.asarray(low) <= np.asarray(high)).all()
    return float(np.mean((low <= truth) & (truth <= high)))


def slack(count, level=0.95):
    return 3 * math.sqrt(level * (1 - level) / count)


REPEATS = 4000


@cache
def unit_images(family, k):
    """Images of one vector of length 1 spread over its columns, under many projections."""
    rng = np.random.default_rng(k + FAMILIES.index(family))
    d = {"identity": k, "orthonormal": 2 * k, "sparse": 300}.get(family, 120)
    v = rng.normal(size=d)
    return d, images(family, [v / np.linalg.norm(v)], k, REPEATS, rng)[:, 0]


def length_estimates(w, squared, kind, geometry, rng):
    """Estimated squared lengths behind images w of unit vectors: as a distance of two rows, and of one to a public."""
    law = SketchLaw(NoiseLaw(kind, 2.0), geometry)
    e, f = noise_draws(kind, 2.0, (2, *w.shape), rng)
    z = math.sqrt(squared) * w + e
    yield sketches.squared_distance(z, f, law)
    yield sketches.squared_distance_to_public(z, np.zeros_like(z), law)


DIRECTIONS = {
    "1 column": [1],
    "2 columns": [1, 1],
    "3 columns": [1, 1, 1],
    "5 columns": [1] * 5,
    "8 columns": [1] * 8,
    "11 columns": [1] * 11,
    "16 columns": [1] * 16,
    "one larger": [math.sqrt(7)] + [1] * 7,
    "falling": [8, 7, 6, 5, 4, 3, 2, 1],
    "halving": [2.0**-i for i in range(8)],
    "two of many": [10, 10] + [1] * 20,
}


@pytest.mark.parametrize("columns", DIRECTIONS.values(), ids=DIRECTIONS)
@pytest.mark.parametrize("k", [32, 128])
@pytest.mark.parametrize("family", ["identity", "sparse"])
def test_95_percent_intervals_cover_in_directions_of_few_columns_too(family, k, columns):
    """Laplace noise along one entry of an identity; columns that fall together in a sparse projection."""
    d, count = k if family == "identity" else 200, 2000
    rng, v = np.random.default_rng(3), np.zeros(d)
    v[: len(columns)] = columns / np.linalg.norm(columns)
    w = images(family, [v], k, count, rng)[:, 0]
    for kind, ratio in itertools.product(KINDS, (3.0, 30.0, 1e4)):
        squared = ratio * math.sqrt(k) * 4
        for found in length_estimates(w, squared, kind, Geometry(family, d, k), rng):
            share = covered(found.interval(), squared)
            assert share >= 0.95 - slack(count)
            assert family == "sparse" or share <= 0.95 + slack(count)  # over-cautious for sparse projections alone


@pytest.mark.parametrize("family", ["identity", "sparse"])
def test_intervals_that_ignore_the_direction_would_not_cover(family, monkeypatch):
    columns, k, kind, count = (1, 32, "laplace", 20_000) if family == "identity" else (6, 128, "gaussian", 4000)
    rng, v = np.random.default_rng(3), np.zeros(k)
    v[:columns] = 1 / math.sqrt(columns)
    w, law = images(family, [v], k, count, rng)[:, 0], Geometry(family, k, k)
    found, _ = length_estimates(w, 1e6, kind, law, rng)
    assert covered(found.interval(), 1e6) >= 0.95 - slack(count)
    monkeypatch.setattr(squared_lengths, "concentration_of", lambda seen, _: (0.0 * seen.squares, 0.0 * seen.squares))
    assert covered(found.interval(), 1e6) < 0.95 - slack(count)


def test_what_the_coverage_test_would_reject():
    """Normal intervals at few columns, noise taken for 10% smaller, and the projection forgotten."""
    d, w = unit_images("gaussian", 4)
    rng, geometry = np.random.default_rng(5), Geometry("gaussian", d, 4)
    e, f = noise_draws("laplace", 2.0, (2, *w.shape), rng)
    far = sketches.squared_distance(100 * w + e, f, SketchLaw(NoiseLaw("laplace", 2.0), geometry))
    normal = (far.value - 1.96 * far.standard_error, far.value + 1.96 * far.standard_error)
    assert covered(normal, 1e4) < 0.95 - slack(REPEATS)
    forgotten = sketches.squared_distance(
        100 * w + e, f, SketchLaw(NoiseLaw("laplace", 2.0), Geometry("identity", 4, 4))
    )
    assert covered(forgotten.interval(), 1e4) < 0.5
    d, w = unit_images("gaussian", 128)
    e, f = noise_draws("laplace", 2.0, (2, *w.shape), rng)
    near = sketches.squared_distance(w + e, f, SketchLaw(NoiseLaw("laplace", 1.8), Geometry("gaussian", d, 128)))
    assert covered(near.interval(), 1.0) < 0.95 - slack(REPEATS)


@pytest.mark.parametrize("squared", [0.0, 1.0, 50.0, 1e5])
def test_under_gaussian_noise_and_projection_the_interval_is_the_exact_chi_square_one(squared):
    """||z_i - z_j||^2 = (r^2/k + 2 s^2) chi2_k exactly, so the probabilities beyond each end can be computed."""
    k, law = 10, SketchLaw(NoiseLaw("gaussian", 1.5), Geometry("gaussian", 50, 10))
    row = np.zeros((1, k))
    row[0, 0] = math.sqrt(squared + 2 * k * 2.25)
    low, high = (float(x[0]) for x in sketches.squared_distance(row, np.zeros((1, k)), law).interval(0.9))
    near = 4 * math.sqrt(float(law.distance_variance(0.0)))

    def chi_square(end):  # the value seen, in units of the law at this end
        return k * (squared + 2 * k * 2.25) / (end + 2 * k * 2.25)

    assert stats.chi2.cdf(chi_square(high), k) == pytest.approx(0.05 * min(1, high / near), rel=5e-3)
    if low > 0:
        assert stats.chi2.sf(chi_square(low), k) == pytest.approx(0.1 - 0.05 * min(1, low / near), rel=5e-3)
    else:
        assert stats.chi2.sf(chi_square(0.0), k) >= 0.0999


@pytest.mark.parametrize("squared", [5.0, 100.0, 1e6])
def test_without_projection_the_interval_is_close_to_the_noncentral_chi_square_one(squared):
    k, law = 12, SketchLaw(NoiseLaw("gaussian", 1.0), Geometry("identity", 12, 12))
    row = np.zeros(k)
    row[0] = math.sqrt(squared + k)
    low, high = sketches.squared_norm(row, law).interval()
    for end, probability in ((high, 0.025), (low, 0.975)):
        assert end == 0 or stats.ncx2.cdf(squared + k, k, end) == pytest.approx(probability, abs=2e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(("family", "d", "k"), [("identity", 5, 5), ("gaussian", 60, 4), ("orthonormal", 9, 6)])
def test_the_computed_law_of_a_length_has_the_simulated_quantiles_and_the_stated_skewness(family, d, k, copies, kind):
    law, count = LengthLaw(SketchLaw(NoiseLaw(kind, 1.0), Geometry(family, d, k)), copies), 200_000
    for squared in (0.0, 4.0, 300.0):
        rng = np.random.default_rng(int(squared))
        v = np.full(d, math.sqrt(squared / d)) if family == "identity" else rng.normal(size=d)
        w = images(family, [v / max(np.linalg.norm(v), 1e-9) * math.sqrt(squared)], k, count, rng)[:, 0]
        e = sum(noise_draws(kind, 1.0, w.shape, rng) for _ in range(copies))
        value = np.sum((w + e) ** 2, axis=1) - law.bias
        concentration = 1 / k if family == "identity" else law.spread
        for tail in (0.1, 0.025, 1e-3):
            found = law.quantiles(np.array([squared]), (np.array([tail]), np.array([tail])), concentration)
            for share in (np.mean(value < found[0]), np.mean(value > found[1])):
                assert abs(share - tail) < 5 * math.sqrt(tail / count) + 0.01 * tail
            assert abs(np.mean(value > 0.9 * found[1]) - tail) > 5 * math.sqrt(tail / count)
        scores = np.arange(-5.9, 5.95, 0.01)
        lows, _ = law.quantiles(np.full_like(scores, squared), (stats.norm.cdf(scores),) * 2, concentration)
        third = float(length_third(squared, law.rows, copies))
        skewed = (np.sum((lows - squared) ** 3 * stats.norm.pdf(scores)) * 0.01 - third) / float(
            law.deviation(np.array(squared))
        ) ** 3
        assert abs(skewed) < 0.03


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_the_image_that_stands_for_a_concentration_has_it(k):
    for concentration in np.linspace(1 / k, 1, 23):
        shares = np.repeat(
            *np.transpose([(p, n) for p, n in squared_lengths._shares(k, concentration)]).astype(object).tolist()
        )
        shares = np.asarray(shares, float)
        assert (len(shares), shares.sum()) == (k, pytest.approx(1.0))
        assert np.sum(shares**2) == pytest.approx(concentration)


def test_the_law_of_collisions_is_that_of_all_placements_and_signs():
    k, columns = 3, 4
    laws = squared_lengths._collision_laws(k, 4)
    for m in range(1, columns + 1):
        found = np.zeros(m * m + 1)
        for places in itertools.product(range(k), repeat=m):
            for signs in itertools.product((-1, 1), repeat=m):
                found[int(np.sum(np.bincount(places, signs) ** 2))] += 1 / (2 * k) ** m
        assert np.allclose(laws[m - 1], found, rtol=1e-12, atol=0)
        assert m == 1 or not np.allclose(squared_lengths._collision_laws(k + 1, m)[-1], found, rtol=1e-2)


def test_a_sparse_image_lost_in_the_noise_bounds_no_distance_at_levels_beyond_a_cancellation():
    """Rows that differ in two columns alone have image 0 with probability 1/(2k): more than 1% misses, not 5%."""
    law = SketchLaw(NoiseLaw("laplace", 1.0), Geometry("sparse", 90, 32))
    lost, seen = np.ones(32), np.full(32, 30.0)
    for row, level, bounded in ((lost, 0.95, True), (lost, 0.99, False), (seen, 0.99, True)):
        assert np.isfinite(sketches.squared_norm(row, law).interval(level)[1]) == bounded
    assert np.isfinite(
        sketches.squared_norm(lost, SketchLaw(law.noise, Geometry("gaussian", 90, 32))).interval(0.99)[1]
    )
    seven = Quantity("flags", 0.0, 7.0)
    assert sketches.squared_distance(lost, 0 * lost, law).of(seven).interval(0.99)[1] == 7


@pytest.mark.parametrize("pairs", [150, 2000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("family", "k"), [("identity", 64), ("sparse", 128), ("sparse", 32)])
def test_simultaneous_intervals_cover_pairs_that_differ_in_few_columns(family, k, kind, pairs):
    rng, repeats, d = np.random.default_rng(8), 6000 // pairs + 30, 64 if family == "identity" else 200
    law = SketchLaw(NoiseLaw(kind, 1.0), Geometry(family, d, k))
    apart = np.zeros((pairs, d))
    for i, v in enumerate(apart):
        v[rng.choice(d, (1, 2, 3, 5, 8, 11)[i % 6], replace=False)] = rng.choice([3.0, 10.0, 100.0])
    apart *= rng.choice([-1, 1], apart.shape)
    truth = np.sum(apart**2, axis=1)
    hits = 0
    for _ in range(repeats):
        image = images(family, apart, k, 1, rng)[0]
        z, f = image + noise_draws(kind, 1.0, image.shape, rng), noise_draws(kind, 1.0, image.shape, rng)
        hits += covered(sketches.squared_distance(z, f, law).interval(simultaneous=True), truth) == 1
    assert hits / repeats >= 0.95 - slack(repeats)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["identity", "gaussian", "orthonormal"])
def test_simultaneous_intervals_cover_all_pairs_of_a_release_at_once(family, kind):
    rng, k, repeats, pairs = np.random.default_rng(7), 16, 300, 150
    d = 16 if family == "identity" else 40
    law = SketchLaw(NoiseLaw(kind, 1.0), Geometry(family, d, k))
    rows = rng.normal(size=(30, d)) * rng.choice([0.1, 1.0, 4.0], (30, 1))
    i, j = (rng.integers(0, 15, pairs), rng.integers(15, 30, pairs))
    truth = ((rows[i] - rows[j]) ** 2).sum(axis=1)
    all_at_once, each = 0, 0
    for _ in range(repeats):
        if family == "identity":
            p = np.eye(d)
        elif family == "gaussian":
            p = rng.normal(size=(d, k)) / math.sqrt(k)
        else:
            p = np.linalg.qr(rng.normal(size=(d, k)))[0] * math.sqrt(d / k)
        z = rows @ p + noise_draws(kind, 1.0, (30, k), rng)
        found = sketches.squared_distance(z[i], z[j], law)
        all_at_once += covered(found.interval(simultaneous=True), truth) == 1
        each += covered(found.interval(), truth) == 1
    assert all_at_once / repeats >= 0.95 - slack(repeats)
    assert each / repeats < 0.8  # intervals for one pair do not hold for 150


@pytest.mark.parametrize("k", [5, 32])
@pytest.mark.parametrize("family", ["gaussian", "orthonormal"])
def test_unstretched_ends_of_inner_products_miss_exactly_at_right_angles_and_for_parallel_rows(family, k):
    """Far away: Student's test on r at 90 degrees; at 0, <z, w> is t chi2_k / k, or t S d/k with a beta S."""
    law, tail = SketchLaw(NoiseLaw("gaussian", 1e-9), Geometry(family, 4 * k, k)), 0.025
    a = np.zeros(k)
    a[0] = 1.0
    for student in stats.t.ppf(1 - tail, k - 1) * np.array([0.99, 1.01]):
        r, b = student / math.sqrt(student**2 + k - 1), np.zeros(k)
        b[[0, -1]] = r, math.sqrt(1 - r * r)
        if family == "gaussian":
            low, _ = inner_products.rule(tail, Gram.of(a, b), law)
            assert (low > 0) == (student > stats.t.ppf(1 - tail, k - 1))
    low, high = inner_products.rule(tail, Gram.of(a, a), law)
    law = stats.beta(k / 2, 1.5 * k, scale=4) if family == "orthonormal" else stats.gamma(k / 2, scale=2 / k)
    assert law.sf(1 / low) == pytest.approx(tail, rel=0.02)
    assert law.cdf(1 / high) == pytest.approx(tail, rel=0.02)


def test_a_single_column_bounds_inner_products_without_their_sign():
    law = SketchLaw(NoiseLaw("gaussian", 1.0), Geometry("gaussian", 9, 1))
    low, high = sketches.inner_product(np.array([30.0]), np.array([-20.0]), law).interval()
    assert -math.inf < low == -high < -600


# ---- form -----------------------------------------------------------------------------------------------------------


def test_single_rows_give_floats_and_many_give_arrays():
    law = SketchLaw(NoiseLaw("laplace", 1.0), Geometry("gaussian", 9, 3))
    a, b = np.arange(3.0), np.ones(3)
    for name in ("squared_distance", "inner_product", "cosine", "jaccard"):
        question = getattr(sketches, name)
        one, many = question(a, b, law), question(a[None], b[None], law)
        numbers = (one.value, one.standard_error, *one.interval())
        assert all(isinstance(number, float) for number in numbers)
        arrays = (many.value, many.standard_error, *many.interval(simultaneous=True))
        assert all(array.shape == (1,) for array in arrays)
        assert np.array_equal(np.concatenate(arrays), numbers, equal_nan=True)


def test_no_rows_give_no_answers():
    found = sketches.squared_distance(
        np.empty((0, 3)), np.empty((0, 3)), SketchLaw(NoiseLaw("laplace", 1), Geometry("sparse", 9, 3))
    )
    assert found.value.shape == found.interval(simultaneous=True)[1].shape == (0,)


def test_values_may_be_negative_and_intervals_may_not():
    law = SketchLaw(NoiseLaw("gaussian", 1.0), Geometry("gaussian", 9, 20))
    found = sketches.squared_distance(np.zeros(20), np.zeros(20), law)
    low, high = found.interval()
    assert (found.value, low) == (-40, 0)
    assert 0 < high < 40


def test_intervals_widen_with_level_noise_and_the_number_of_answers():
    a, b = np.random.default_rng(3).normal(0, 3, (2, 50, 8))
    law = SketchLaw(NoiseLaw("laplace", 1.0), Geometry("sparse", 100, 8))
    found = sketches.squared_distance(a, b, law)
    widths = [high - low for low, high in (found.interval(0.5), found.interval(), found.interval(simultaneous=True))]
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()


def test_angles_of_rows_lost_in_the_noise_are_unknown():
    law = SketchLaw(NoiseLaw("gaussian", 10.0), Geometry("gaussian", 12, 8))
    for question, ends in ((sketches.cosine, (-1, 1)), (sketches.jaccard, (0, 1))):
        found = question(np.full((2, 8), 0.1), np.tile([0.2, -0.2], (2, 4)), law)
        assert np.isnan(found.value).all()
        assert np.isinf(found.standard_error).all()
        low, high = found.interval()
        assert (low == ends[0]).all()
        assert (high == ends[1]).all()


def test_estimates_say_what_they_cover_and_can_be_sent_elsewhere():
    a, b = np.ones(4), np.zeros(4)
    noise = NoiseLaw("gaussian", 1.0)
    assert "projection" in sketches.squared_distance(a, b, SketchLaw(noise, Geometry("sparse", 9, 4))).covers
    found = sketches.squared_distance(a, b, SketchLaw(noise, Geometry("identity", 4, 4)))
    assert found.covers == "noise only"
    assert pickle.loads(pickle.dumps(found)).interval() == found.interval()  # noqa: S301
    assert "bounds" not in repr(found)


@pytest.mark.parametrize(
    ("a", "b", "named"),
    [
        (np.zeros(3), np.zeros(4), "a must be a row of 4"),
        (np.zeros((2, 4)), np.zeros((3, 4)), r"b.shape=\(3, 4\)"),
        (np.zeros((1, 2, 4)), np.zeros((1, 2, 4)), "a must be a row of 4"),
    ],
)
def test_rows_of_another_shape_are_refused(a, b, named):
    with pytest.raises(ParameterError, match=named):
        sketches.squared_distance(a, b, SketchLaw(NoiseLaw("gaussian", 1.0), Geometry("gaussian", 9, 4)))


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
def test_levels_are_probabilities(level):
    found = sketches.squared_norm(np.ones(4), SketchLaw(NoiseLaw("gaussian", 1.0), Geometry("gaussian", 9, 4)))
    with pytest.raises(ParameterError, match="level"):
        found.interval(level)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: NoiseLaw("uniform", 1.0), "kind='uniform'"),
        (lambda: NoiseLaw("laplace", 0.0), "scale=0.0"),
        (lambda: Geometry("fourier", 3, 2), "family='fourier'"),
        (lambda: Geometry("gaussian", 0, 2), "dim_in=0"),
        (lambda: Geometry("identity", 3, 2), "dim_out=2"),
        (lambda: Geometry("orthonormal", 3, 4), "dim_out=4"),
    ],
)
def test_bad_laws_are_refused_by_name(make, named):
    with pytest.raises(ParameterError) as caught:
        make()
    assert named in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_within_a_subspace_are_read_as_without_a_projection(kind):
    """Components are fixed, so only noise is random, and the direction of the image matters as it does for identity."""
    rng, noise = np.random.default_rng(3), NoiseLaw(kind, 1.0)
    z = noise_draws(kind, 1.0, (50, 8), rng) + np.eye(8)[0] * np.linspace(0, 40, 50)[:, None]
    plain, within = (
        sketches.squared_norm(z, SketchLaw(noise, g))
        for g in (Geometry("identity", 8, 8), Geometry("principal", 30, 8))
    )
    assert np.array_equal(plain.value, within.value)
    assert np.allclose(plain.interval(), within.interval())
