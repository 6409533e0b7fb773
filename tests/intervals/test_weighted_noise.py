"""Intervals of means and variances from noisy moments: they cover as they say, and would not with another law.

False alarms: each binomial test fails by chance with probability 1e-9.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from sfumato.intervals.weighted_noise import MomentNoise, NoisyMoments, _laplace_tail

ALARM = 1e-9
RUNS = 4000
LEVEL = 0.9
BERNSTEIN = {
    1: np.array([[1.0, -1.0], [0.0, 1.0]]),
    2: np.array([[1.0, -2.0, 1.0], [0.0, 2.0, -2.0], [0.0, 0.0, 1.0]]),
}
CENTRED = np.array([[-1.0, 2.0], [1.0, 0.0]])
STEP = 2.0**-14


def exact(basis, records):
    powers = np.array([np.sum(records**k) for k in range(len(basis))])
    return basis @ powers


def noisy(basis, records, kind, scale, seed=1, times=1.0):
    """Moments with noise, in many runs: one for each group. ``times``: how much more noise than is said."""
    luck = np.random.default_rng(seed)
    draw = luck.laplace if kind == "laplace" else luck.normal
    noise = np.rint(draw(0.0, scale * times / STEP, (RUNS, len(basis)))) * STEP
    return NoisyMoments(exact(basis, records) + noise, basis, MomentNoise(kind, scale, STEP))


def misses(ends, truth):
    return int(((ends[0] > truth + 1e-9) | (truth - 1e-9 > ends[1])).sum())


def most_misses(rate):
    return stats.binom.ppf(1 - ALARM, RUNS, rate)


RECORDS = {
    "even": np.linspace(0, 1, 40),
    "low": np.zeros(30),
    "high": np.ones(12),
    "few": np.array([0.2, 0.9, 1.0]),
    "one": np.array([0.0]),
    "half": np.repeat([0.0, 1.0], 50),
}


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.5, 4.0])
@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_intervals_of_means_cover_as_they_say_and_not_with_more_noise_than_is_said(records, scale, kind):
    tail = (1 - LEVEL) / 2
    for basis in (BERNSTEIN[1], BERNSTEIN[2], CENTRED):
        moments = noisy(basis, records, kind, scale)
        assert misses(moments.mean_interval(tail), records.mean()) <= most_misses(2 * tail)
    if len(records) * 0.1 > scale:
        moments = noisy(BERNSTEIN[1], records, kind, scale, times=2.0)
        assert misses(moments.mean_interval(tail), records.mean()) > most_misses(2 * tail)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.5, 4.0])
@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_intervals_of_variances_cover_as_they_say(records, scale, kind):
    tail = (1 - LEVEL) / 2
    found = noisy(BERNSTEIN[2], records, kind, scale).variance_interval(tail)
    assert misses(found, records.var()) <= most_misses(2 * tail)


def test_a_variance_with_three_times_the_noise_that_is_said_is_caught():
    found = noisy(BERNSTEIN[2], RECORDS["half"], "laplace", 2.0, times=3.0).variance_interval(0.05)
    assert misses(found, 0.25) > most_misses(0.1)


def possible(moments, tail):
    """All means that are not excluded, tried one by one."""
    values = np.linspace(0, 1, 401)
    kept = np.ones((len(moments.numbers), len(values)), bool)
    for place, value in enumerate(values):
        terms = moments.powers(-value, 1.0)
        total, weights = moments.total(terms), moments.weights(terms)
        kept[:, place] = moments.noise.exceeds(weights, np.abs(total)) >= tail
    return values, kept


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_an_interval_holds_every_mean_that_is_possible_and_where_there_are_enough_records_no_other(kind):
    grid = [np.array(point) for point in itertools.product(np.linspace(-4, 9, 27), repeat=2)]
    moments = NoisyMoments(np.array(grid), BERNSTEIN[1], MomentNoise(kind, 1.0, 2.0**-24))
    values, kept = possible(moments, 0.025)
    low, high = moments.mean_interval(0.025)
    known = moments.records > 0
    outside = kept & ((values < low[:, None] - 1e-6) | (values > high[:, None] + 1e-6))
    assert not outside[known].any()
    assert (low[~known] == 0).all()
    assert (high[~known] == 1).all()
    many = (moments.numbers > 4).all(axis=1)
    for i in np.flatnonzero(many & kept.any(axis=1)):
        assert values[kept[i]].min() == pytest.approx(low[i], abs=0.0026)
        assert values[kept[i]].max() == pytest.approx(high[i], abs=0.0026)


def test_what_is_possible_can_lie_at_both_ends_and_is_then_all_within():
    """Numbers of Fieller's second kind: the middle is excluded, both ends are not."""
    moments = NoisyMoments(np.array([[-1.4, 2.9]]), BERNSTEIN[1], MomentNoise("laplace", 1.0, 2.0**-24))
    _, kept = possible(moments, 0.025)
    assert kept[0, 0]
    assert kept[0, -1]
    assert not kept[0, 200]
    assert [float(end[0]) for end in moments.mean_interval(0.025)] == [0.0, 1.0]


@pytest.mark.parametrize("basis", [BERNSTEIN[1], BERNSTEIN[2], CENTRED], ids=["1", "2", "centred"])
def test_without_noise_moments_are_the_truth(basis):
    for records in RECORDS.values():
        moments = NoisyMoments(exact(basis, records)[None], basis, MomentNoise("laplace", 1e-9, 1e-12))
        assert moments.records[0] == pytest.approx(len(records))
        assert moments.mean[0] == pytest.approx(records.mean(), abs=1e-12)
        if len(basis) == 3:
            assert moments.variance[0] == pytest.approx(records.var(), abs=1e-12)


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 1.0), (3.0, 1.0, 1e-9), (0.5, 0.5, 0.5), (2.0, 1.9999, 0.1)])
def test_tails_of_sums_of_laplace_numbers_are_those_of_draws_and_never_below(scales):
    drawn = np.random.default_rng(1).laplace(0.0, scales, (400_000, len(scales))).sum(axis=1)
    for value in (0.0, 0.5, 2.0, 6.0):
        tail = float(_laplace_tail(np.array(scales), np.array(value)))
        seen, spread = (drawn > value).mean(), np.sqrt(tail / len(drawn))
        assert abs(seen - tail) < 6.2 * spread + 0.01 * tail
