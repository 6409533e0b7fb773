"""Intervals of counts and sums under discrete Laplace noise: coverage over all outcomes, and no step too wide."""

import math

import numpy as np
import pytest

from sfumato.aggregates.estimates import counts
from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.intervals.additive_noise import DiscreteLaw, summed_law, tallied

SCALES = [0.2, 0.5, 1.0, 3.3, 10.0]
LEVELS = [0.5, 0.9, 0.95, 0.999]


def outcomes(b):
    """All noise that there is, but for 1e-25 of it, with its probabilities."""
    far = int(60 * b) + 5
    noise = np.arange(-far, far + 1)
    q = math.exp(-1 / b)
    return noise, (1 - q) / (1 + q) * q ** np.abs(noise)


@pytest.mark.parametrize("b", SCALES)
def test_the_standard_error_is_that_of_the_law(b):
    noise, chances = outcomes(b)
    assert DiscreteLaw(1.0, b).scale == pytest.approx(math.sqrt((chances * noise**2).sum()), rel=1e-9)
    assert DiscreteLaw(3.5, b).scale == pytest.approx(3.5 * DiscreteLaw(1.0, b).scale)
    assert NoiseScale("discrete laplace", b).deviation < NoiseScale("laplace", b).deviation


@pytest.mark.parametrize("b", SCALES)
def test_a_tail_is_exceeded_as_seldom_as_it_says_and_one_step_less_is_not(b):
    noise, chances = outcomes(b)
    for tail in (0.5, 0.2, 0.025, 1e-3, 1e-6):
        margin = float(DiscreteLaw(1.0, b).tail(np.array(tail), 1))
        assert margin == round(margin)
        assert chances[noise > margin].sum() <= tail
        assert margin == 0 or chances[noise > margin - 1].sum() > tail


@pytest.mark.parametrize("b", SCALES)
@pytest.mark.parametrize("level", LEVELS)
def test_counts_are_covered_at_every_truth_between_the_ends(b, level):
    (noise, chances), most = outcomes(b), 40
    for truth in range(most + 1):
        low, high = tallied(truth + noise, DiscreteLaw(1.0, b), float(most)).interval(level)
        assert chances[(low <= truth) & (truth <= high)].sum() >= level - 1e-12
        assert (low >= 0).all()
        assert (high <= most).all()


@pytest.mark.parametrize("b", [1.0, 3.3])
def test_far_from_the_ends_intervals_are_the_shortest_that_cover(b):
    """The power arm: one step less on both sides covers too seldom."""
    (noise, chances), truth = outcomes(b), 10_000
    low, high = tallied(truth + noise, DiscreteLaw(1.0, b)).interval(0.95)
    assert chances[(low <= truth) & (truth <= high)].sum() >= 0.95
    assert chances[(low + 1 <= truth) & (truth <= high - 1)].sum() < 0.95
    np.testing.assert_array_equal(high - (truth + noise), (truth + noise) - low)


def test_counts_may_be_below_zero_and_their_intervals_may_not():
    found = counts(np.array([-3, 5]), NoiseScale("discrete laplace", 1.0), None)
    assert found.value.tolist() == [-3.0, 5.0]
    assert found.interval()[0].min() >= 0
    assert found.unit == "records"


def test_the_law_is_one_of_single_numbers():
    assert summed_law("discrete laplace", [(2.0, 1, 1.5)]) == DiscreteLaw(2.0, 1.5)
    with pytest.raises((AssertionError, ValueError)):
        summed_law("discrete laplace", [(1.0, 2, 1.5)])
    with pytest.raises(ValueError, match="unpack"):
        summed_law("discrete laplace", [(1.0, 1, 1.5), (1.0, 1, 2.0)])
