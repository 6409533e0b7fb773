"""Values and intervals of estimates, cut to the range of what is estimated."""

import math

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.intervals.estimate import Estimate, Quantity

METRES = Quantity("metres", 0.0, 10.0)


def estimate(uncut, reach=2.0, quantity=METRES):
    centre = np.asarray(uncut, float)
    return Estimate(uncut, 1.0, "noise only", lambda _: (centre - reach, centre + reach), quantity)


@pytest.mark.parametrize(
    ("uncut", "value", "interval"),
    [
        (5.0, 5.0, (3.0, 7.0)),
        (-1.0, 0.0, (0.0, 1.0)),
        (11.0, 10.0, (9.0, 10.0)),
        (-3.0, 0.0, (0.0, 0.0)),  # misses the range: its nearest end
        (13.0, 10.0, (10.0, 10.0)),
    ],
)
def test_values_and_intervals_are_cut_to_the_range_and_the_uncut_estimate_stays(uncut, value, interval):
    found = estimate(uncut)
    assert (found.value, found.interval(), found.uncut) == (value, interval, uncut)
    assert all(isinstance(number, float) for number in (found.value, *found.interval()))


def test_open_ends_are_cut_too():
    found = Estimate(3.0, 1.0, "", lambda _: (np.asarray(-math.inf), np.asarray(math.inf)), METRES)
    assert found.interval() == (0.0, 10.0)
    assert found.quantity.filled_by(*found.interval())
    assert not estimate(5.0).quantity.filled_by(*estimate(5.0).interval())
    assert not estimate([5.0, 5.0], 20.0).quantity.filled_by([0.0, 0.0], [10.0, 9.0])


def test_many_are_cut_each_by_its_own_range():
    ranges = Quantity("", np.array([0.0, 2.0]), np.array([4.0, 5.0]))
    found = estimate(np.array([9.0, -9.0]), 1.0, ranges)
    assert found.value.tolist() == [4.0, 2.0]
    assert np.transpose(found.interval()).tolist() == [[4.0, 4.0], [2.0, 2.0]]
    with pytest.raises(ParameterError, match="level"):
        found.interval(1.0)


def test_what_is_unknown_stays_unknown():
    assert math.isnan(estimate(math.nan).value)


def test_without_a_range_nothing_is_cut():
    found = estimate(-70.0, quantity=Quantity("records"))
    assert (found.value, found.interval(), found.limits) == (-70.0, (-72.0, -68.0), (-math.inf, math.inf))


def test_an_estimate_prints_what_may_be_shown_with_its_unit():
    assert repr(estimate(-3.0)) == "Estimate(value=0.0, standard_error=1.0, unit='metres', covers='noise only')"
    assert estimate(1.0).of(Quantity("feet", 0.0, 0.5)).value == 0.5
    assert (estimate(1.0).unit, estimate(1.0).limits) == ("metres", (0.0, 10.0))


def test_a_cut_value_is_never_farther_from_a_truth_in_the_range_and_no_truth_is_lost():
    rng = np.random.default_rng(1)
    truth = rng.uniform(0, 10, 5000)
    found = estimate(truth + rng.normal(0, 8, 5000), 1.96 * 8)
    assert (np.abs(found.value - truth) <= np.abs(found.uncut - truth)).all()
    (low, high), (least, most) = found.interval(), found.bounds(0.0)
    assert ((low <= truth) & (truth <= high)).tolist() == ((least <= truth) & (truth <= most)).tolist()
    assert (low <= high).all()
    assert (low == high).any()  # an interval that missed the range
