"""Bisection: each entry finds its own edge, and the ends stay on their sides of it."""

import numpy as np

from sfumato.numerics.bisection import bisected, crossings


def test_each_entry_is_bracketed_by_ends_on_either_side_of_its_edge():
    edges = np.array([0.1, 0.5, 2.75])
    low, high = bisected(lambda x: x < edges, np.zeros(3), np.full(3, 3.0), 40)
    assert (low < edges).all()
    assert (high >= edges).all()
    assert (high - low <= 3 / 2**39).all()


def test_a_condition_that_never_or_always_holds_leads_to_an_end():
    low, high = bisected(lambda x: x < np.array([-1.0, 9.0]), np.zeros(2), np.ones(2), 60)
    assert (low[0], high[1]) == (0.0, 1.0)
    assert high[0] < 1e-15
    assert low[1] > 1 - 1e-15


def test_crossings_of_falling_functions_lie_just_above_their_roots_however_far_the_start_is():
    roots = np.array([1e-1, 1.0, 7.0, 900.0])
    found = crossings(lambda x: roots - x, 4, 1.0)
    assert (found >= roots).all()
    assert np.allclose(found[1:], roots[1:], rtol=1e-9)
    assert found[0] - 1 / 8 < 1e-9  # below start/8 nothing is sought
